"""Operations on local files that are safe from symbolic links which another process puts into the path meanwhile.

A path is opened folder by folder, from a root that the caller names; each operation takes the descriptor of the open
folder and a name in it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from hudi_vector.errors import DataFileError

__all__ = ["in_its_folder", "is_private", "move_new", "remove_empty", "remove_file", "remove_tree", "scan", "sync"]

R = TypeVar("R")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOREPLACE = 1
_MOST_TRIES = 1000  # another process may remove a new folder before its first file is made
_UNKNOWN_CALL = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def move_new(path: str, root: str, target: str, target_root: str, renew: bool) -> None:
    """Move a file durably; the folders of its new path are made.

    `root` and `target_root` are the folders below which no link is followed to the old and the new path. With `renew`
    the file gets the present time. Raises FileNotFoundError if there is no such file, and DataFileError if a link is in
    one of the paths. Raises FileExistsError if the new name is taken, even if another process has only just taken it;
    the file there is not touched.
    """
    with _reached(root, os.path.dirname(path)) as home:
        name = os.path.basename(path)
        if renew:
            os.utime(name, dir_fd=home, follow_symlinks=False)

        def into_its_folder() -> None:
            os.lstat(name, dir_fd=home)  # makes no folders if the file is missing
            with _reached(target_root, os.path.dirname(target), make=True) as new_home:
                _move(name, home, target, new_home)
                os.fsync(new_home)

        _tried(into_its_folder)
        os.fsync(home)


def remove_file(path: str, root: str) -> bool:
    """Remove a file durably and return True, or return False if there was none.

    A link itself is removed, not its target. Raises DataFileError if a link is in the path below `root`.
    """
    try:
        with _reached(root, os.path.dirname(path)) as home:
            os.unlink(os.path.basename(path), dir_fd=home)
            os.fsync(home)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: str, root: str) -> None:
    """Remove a folder with its content; links in it are removed, not their targets.

    Raises FileNotFoundError if there is no such folder, and DataFileError if the folder is a link, if a link is in the
    path below `root`, or if its folders are nested too deep.
    """
    with _reached(root, os.path.dirname(path)) as home:
        try:
            _empty(os.path.basename(path), home, path)
        except RecursionError:
            raise DataFileError(f"'{path}' holds folders in folders, too deep to be removed; remove it") from None
        os.rmdir(os.path.basename(path), dir_fd=home)


def remove_empty(path: str, root: str) -> None:
    """Remove a folder and the folders in it as far as they are empty; links stay.

    Raises FileNotFoundError if there is no such folder, and DataFileError if the folder is a link or if a link is in
    the path below `root`.
    """
    with _reached(root, os.path.dirname(path)) as home:
        _drop_empty(os.path.basename(path), home, path)


def in_its_folder(path: str, act: Callable[[], R]) -> R:
    """Make the folder of a file, call `act`, which creates the file, and return its result.

    Both steps are repeated if another process removes the empty folder before the file is in it.
    """
    made: dict[str, None] = {}

    def put() -> R:
        made.update(dict.fromkeys(_make_folders(os.path.dirname(path))))
        return act()

    done = _tried(put)
    _sync_parents(made)
    return done


def sync(path: str) -> None:
    """Make a file's content, or a folder's entries, durable across a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def scan(folder: str, recursive: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of each file in a folder, following links; no folder is listed twice.

    A missing folder has no files. Folders reached without a link come first, so that a file is listed under its own
    path wherever it has one. Raises OSError if a link leads to a folder that contains the link.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    linked: list[str] = []
    while waiting or linked:
        at = waiting.pop() if waiting else linked.pop()
        try:
            status = os.stat(at)
            if (status.st_dev, status.st_ino) in seen:
                continue
            entries = os.scandir(at)
        except (FileNotFoundError, NotADirectoryError):
            continue
        seen.add((status.st_dev, status.st_ino))
        inner: list[str] = []
        with entries:
            for entry in entries:
                if entry.is_dir():
                    if recursive and entry.is_symlink():
                        if _leads_back(entry.path):
                            raise OSError(errno.ELOOP, "symbolic links lead round in a circle", entry.path)
                        linked.append(entry.path)
                    elif recursive:
                        inner.append(entry.path)
                    continue
                try:
                    yield entry.path, entry.stat()
                except FileNotFoundError:
                    continue  # removed since the listing began
        waiting += reversed(inner)


@contextmanager
def _reached(root: str, folder: str, make: bool = False) -> Iterator[int]:
    """Yield the descriptor of a folder, opened part by part from `root`; only `root` itself may be behind links.

    Raises DataFileError if the folder is not below `root`, or if a part of the path is a link or not a folder.
    """
    parts = os.path.relpath(folder, root).split(os.sep) if folder != root else []
    if ".." in parts or "\0" in folder:
        raise DataFileError(f"{folder!r} does not lie in '{root}', and nothing outside of that is touched")
    if make:
        _sync_parents(_make_folders(root))
    at = os.open(root, _FOLDER)
    try:
        for part in parts:
            below = _opened(part, at, folder, make)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _opened(part: str, at: int, folder: str, make: bool) -> int:
    if make:
        try:
            os.mkdir(part, dir_fd=at)
        except FileExistsError:
            pass
        else:
            os.fsync(at)
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except OSError as problem:
        if problem.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise DataFileError(
            f"'{part}' in '{folder}' is a symbolic link or no folder, and nothing behind it is touched; "
            "make it a folder"
        ) from problem


def _tried(act: Callable[[], R]) -> R:
    """Call `act`, and repeat it while it raises FileNotFoundError, up to 1,000 times.

    Another process may remove a new folder while it is still empty.
    """
    for _ in range(_MOST_TRIES):
        with suppress(FileNotFoundError):
            return act()
    return act()


def _make_folders(folder: str) -> list[str]:
    """Make a folder and its parents; return the folders that were made, outermost first."""
    if os.path.isdir(folder):
        return []
    made = _make_folders(os.path.dirname(folder))
    try:
        os.mkdir(folder)
    except FileExistsError:
        return made  # another task made it first
    return [*made, folder]


def _sync_parents(made: Iterable[str]) -> None:
    """Sync the parents of new folders, since the name of a folder is an entry of its parent."""
    for folder in made:
        with suppress(FileNotFoundError):
            sync(os.path.dirname(folder))


def _move(name: str, home: int, target: str, new_home: int) -> None:
    new_name = os.path.basename(target)
    if _is_there(new_name, new_home):
        raise FileExistsError(f"'{target}' is there already")
    _rename_new(name, home, new_name, new_home)


def _leads_back(link: str) -> bool:
    """Return True if a link leads to a folder that contains the link."""
    target, home = os.path.realpath(link), os.path.realpath(os.path.dirname(link))
    return f"{home}/".startswith(f"{target.rstrip('/')}/")


def _is_there(name: str, home: int) -> bool:
    try:
        os.lstat(name, dir_fd=home)
    except FileNotFoundError:
        return False
    return True


def _empty(name: str, home: int, path: str) -> None:
    below = _opened(name, home, path, make=False)
    try:
        with os.scandir(below) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_folder in found:
            if is_folder:
                _empty(inner, below, path)
                os.rmdir(inner, dir_fd=below)
            else:
                os.unlink(inner, dir_fd=below)
    finally:
        os.close(below)


def _drop_empty(name: str, home: int, path: str) -> None:
    below = _opened(name, home, path, make=False)
    try:
        with os.scandir(below) as entries:
            inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for each in inner:
            with suppress(FileNotFoundError):
                _drop_empty(each, below, path)
    finally:
        os.close(below)
    with suppress(OSError):  # the folder is not empty, or is gone
        os.rmdir(name, dir_fd=home)


def _rename_new(name: str, home: int, new_name: str, new_home: int) -> None:
    """Rename a file unless the new name is taken; without renameat2, link the new name and remove the old one."""
    rename = _system_rename()
    if rename is not None:
        if rename(home, os.fsencode(name), new_home, os.fsencode(new_name), _NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNKNOWN_CALL:
            raise OSError(number, os.strerror(number), new_name if number == errno.EEXIST else name)
    try:
        os.link(name, new_name, src_dir_fd=home, dst_dir_fd=new_home, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        os.rename(name, new_name, src_dir_fd=home, dst_dir_fd=new_home)  # `_move` checked the new name
    else:
        os.unlink(name, dir_fd=home)


@lru_cache(maxsize=1)
def _system_rename() -> Callable[..., Any] | None:
    """Return Linux's renameat2, or None if the C library lacks it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def is_private(path: str) -> bool:
    """Return True if a path is a folder, not a link, that belongs to this user and is closed to all others."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
