"""Local files moved, removed and listed such that no symbolic link leads elsewhere, at the very moment of the act.

A folder is opened part by part, from one that the caller names; the acts take the open folder and a name in it, so that
it does not matter who puts a link into the path meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from hudi_vector.errors import DataFileError

__all__ = ["in_its_folder", "move_new", "remove_empty", "remove_file", "remove_tree", "scan", "sync"]

R = TypeVar("R")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOREPLACE = 1
_MOST_TRIES = 1000  # a folder may be removed between its making and that of its first file
_UNKNOWN_CALL = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def move_new(path: str, root: str, target: str, target_root: str, renew: bool) -> None:
    """Give a file another place, durable when this returns; the folders of its new place are made.

    Args:
        path: The file.
        root: The folder from which it is reached without following a link.
        target: Its new place.
        target_root: The folder from which that is reached.
        renew: Whether it gets the present time.

    Raises:
        FileNotFoundError: There is no such file.
        FileExistsError: Something has the new name, if only since a moment ago; it is not touched.
        DataFileError: A link stands in one of the paths.
    """
    with _reached(root, os.path.dirname(path)) as home:
        name = os.path.basename(path)
        if renew:
            os.utime(name, dir_fd=home, follow_symlinks=False)

        def into_its_folder() -> None:
            os.lstat(name, dir_fd=home)  # no folders for a file that is not there
            with _reached(target_root, os.path.dirname(target), make=True) as new_home:
                _move(name, home, target, new_home)
                os.fsync(new_home)

        _tried(into_its_folder)
        os.fsync(home)


def remove_file(path: str, root: str) -> bool:
    """Remove a file, durable when this returns; a link is removed, not what it leads to.

    Args:
        path: The file.
        root: The folder from which it is reached without following a link.

    Returns:
        False where there was none.

    Raises:
        DataFileError: A link stands in the path to it.
    """
    try:
        with _reached(root, os.path.dirname(path)) as home:
            os.unlink(os.path.basename(path), dir_fd=home)
            os.fsync(home)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: str, root: str) -> None:
    """Remove a folder with all that is in it; links in it are removed, not what they lead to.

    Args:
        path: The folder.
        root: The folder from which it is reached without following a link.

    Raises:
        FileNotFoundError: There is no such folder.
        DataFileError: It is a link, or one stands in the path to it, or folders in it lie too deep.
    """
    with _reached(root, os.path.dirname(path)) as home:
        try:
            _empty(os.path.basename(path), home, path)
        except RecursionError:
            raise DataFileError(f"'{path}' holds folders in folders, too deep to be removed; remove it") from None
        os.rmdir(os.path.basename(path), dir_fd=home)


def remove_empty(path: str, root: str) -> None:
    """Remove a folder, and those in it, as far as they hold nothing; links stay.

    Args:
        path: The folder.
        root: The folder from which it is reached without following a link.

    Raises:
        FileNotFoundError: There is no such folder.
        DataFileError: It is a link, or one stands in the path to it.
    """
    with _reached(root, os.path.dirname(path)) as home:
        _drop_empty(os.path.basename(path), home, path)


def in_its_folder(path: str, act: Callable[[], R]) -> R:
    """Put a file into its folder, which is made; somebody else may remove folders that are empty until then.

    Args:
        path: The file.
        act: Puts it there.

    Returns:
        What it returns.
    """
    made: dict[str, None] = {}

    def put() -> R:
        made.update(dict.fromkeys(_make_folders(os.path.dirname(path))))
        return act()

    done = _tried(put)
    _sync_parents(made)
    return done


def sync(path: str) -> None:
    """Make a file, or the names in a folder, outlive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def scan(folder: str, recursive: bool) -> Iterator[tuple[str, os.stat_result]]:
    """The files in a folder, links to files and to folders followed; no folder is listed twice.

    Folders that are reached without a link come first, so that a file has its own path wherever it has one.

    Args:
        folder: The folder; one that is not there has no files.
        recursive: Whether to look into the folders in it too.

    Yields:
        The path of each file and what it is.

    Raises:
        OSError: A link leads to a folder that it lies in.
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
    """A folder, opened from another one that it is or lies in; only that one may lie behind links."""
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
    """Do something for which folders are made, again where one of them is gone by then."""
    for _ in range(_MOST_TRIES):
        with suppress(FileNotFoundError):
            return act()
    return act()


def _make_folders(folder: str) -> list[str]:
    """Make a folder, and those that it lies in; those that were made."""
    if os.path.isdir(folder):
        return []
    made = _make_folders(os.path.dirname(folder))
    try:
        os.mkdir(folder)
    except FileExistsError:
        return made  # another task was quicker
    return [*made, folder]


def _sync_parents(made: Iterable[str]) -> None:
    """The name of a new folder is an entry of its parent."""
    for folder in made:
        with suppress(FileNotFoundError):
            sync(os.path.dirname(folder))


def _move(name: str, home: int, target: str, new_home: int) -> None:
    new_name = os.path.basename(target)
    if _is_there(new_name, new_home):
        raise FileExistsError(f"'{target}' is there already")
    _rename_new(name, home, new_name, new_home)


def _leads_back(link: str) -> bool:
    """Whether a link leads to a folder that it lies in."""
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
    with suppress(OSError):  # it holds something, or is gone
        os.rmdir(name, dir_fd=home)


def _rename_new(name: str, home: int, new_name: str, new_home: int) -> None:
    """Rename unless the new name is taken; where the system has no such step, by a link and the old name's removal."""
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
        os.rename(name, new_name, src_dir_fd=home, dst_dir_fd=new_home)  # its name was looked at before
    else:
        os.unlink(name, dir_fd=home)


@lru_cache(maxsize=1)
def _system_rename() -> Callable[..., Any] | None:
    """Linux's renameat2, where the C library has it."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
