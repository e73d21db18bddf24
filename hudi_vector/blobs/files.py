"""The files that hold blobs: looked at once, then read in ranges, straight into memory that is there already."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.fs as pafs

from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reach import Reach
from hudi_vector.errors import InvalidBlobError, MissingDependencyError, UnsupportedTableError, first_line
from hudi_vector.storage import Storage, StorageOptions, open_storage, scheme_of

__all__ = ["BlobFile", "BlobFiles", "Trouble", "default_threads", "in_threads", "reason_of"]

T = TypeVar("T")
R = TypeVar("R")

# A handle of a remote file is small, but not nothing; a container is asked for again and again.
_KNOWN_FILES = 8192
_MOST_VIEWS = 1024  # IOV_MAX of Linux and macOS
_LOCAL_THREADS, _REMOTE_THREADS = 4, 16


@dataclass(frozen=True)
class Trouble:
    """Why the bytes of a file cannot be had, as the end of "… cannot be read: …"."""

    reason: str


class LocalFile:
    """A file on a local disk."""

    local = True

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self.size = size

    def open(self) -> OpenLocalFile:
        """Open it; the caller closes it."""
        return OpenLocalFile(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))


class OpenLocalFile:
    """A descriptor to read ranges from."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_into(self, views: Sequence[memoryview], offset: int) -> int:
        """Fill the views, one after the other, from a place in the file; return how many bytes there were."""
        done, pending = 0, views
        while pending:
            got = os.preadv(self._descriptor, pending[:_MOST_VIEWS], offset + done)
            if not got:
                break
            done += got
            pending = _unfilled(pending, got)
        return done

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class RemoteFile:
    """A file on another file system: an open handle that takes no lock and keeps no connection."""

    local = False

    def __init__(self, source: Any, size: int) -> None:
        self._source = source
        self.size = size

    def open(self) -> RemoteFile:
        """Itself: threads read from one handle."""
        return self

    def read_into(self, views: Sequence[memoryview], offset: int) -> int:
        """Fill the views, one after the other, by one request; return how many bytes there were."""
        content = memoryview(self._source.read_at(sum(len(view) for view in views), offset))
        done = 0
        for view in views:
            part = content[done : done + len(view)]
            view[: len(part)] = part
            done += len(part)
        return done

    def close(self) -> None:
        """Nothing: the handle is closed when nobody holds it any more."""


BlobFile = LocalFile | RemoteFile


class BlobFiles:
    """The files that references name, each looked at once; kept for as long as one column is read.

    Args:
        options: Hadoop's storage settings.
        table: The base path of the table, for relative paths.
        threads: How many files on an object store are looked at together; None for the default.
        from_remote: Whether the references come from object stores, where the table is not known.
    """

    def __init__(
        self, options: StorageOptions, table: str | None, threads: int | None = None, *, from_remote: bool = False
    ) -> None:
        self._options = options
        self._table = table
        self._reach = Reach(options, table, from_remote)
        self._threads = threads or default_threads(local=False)
        self._known: OrderedDict[str, BlobFile | Trouble] = OrderedDict()

    def look(self, paths: Iterable[str]) -> list[BlobFile | Trouble]:
        """The files of some paths, or why there is none.

        Args:
            paths: Paths as references have them.

        Returns:
            A file or the trouble with it, for each path.

        Raises:
            InvalidBlobError: A path is not one.
            MissingDependencyError: A scheme needs a package that is not installed.
        """
        asked = list(paths)
        held = {path: self._known[path] for path in asked if path in self._known}
        new = [path for path in dict.fromkeys(asked) if path not in held]
        uris = [file_uri(path, self._table) for path in new]
        refused = {uri: Trouble(why) for uri in uris if (why := self._reach.refusal(uri)) is not None}
        remote = [uri for uri in uris if not uri.startswith("file:") and uri not in refused]
        looked = in_threads(self._look_remote, remote, self._threads)
        found: dict[str, BlobFile | Trouble] = {**refused, **dict(zip(remote, looked, strict=True))}
        for path, uri in zip(new, uris, strict=True):
            held[path] = self._known[path] = found[uri] if uri in found else _look_local(self._reach.opened(uri))
        while len(self._known) > _KNOWN_FILES:
            self._known.popitem(last=False)
        return [held[path] for path in asked]

    def _look_remote(self, uri: str) -> BlobFile | Trouble:
        scheme = scheme_of(uri)
        try:
            storage = open_storage(uri, self._options)
            if _is_of_this_machine(storage):
                return Trouble(f"'{scheme}://' names files of this machine, which a reference spells file:///…")
            return _remote(storage, uri)
        except MissingDependencyError as absent:
            raise MissingDependencyError(f"the blob at '{uri}' cannot be read: {absent}") from absent
        except UnsupportedTableError as unsupported:
            known = scheme in ("s3", "gs")  # and its settings are what cannot be followed
            return Trouble(str(unsupported) if known else f"there is no driver for the scheme '{scheme}://'")
        except OSError as problem:
            return Trouble(reason_of(problem))


def default_threads(*, local: bool) -> int:
    """How many threads read at once: a disk is busy with few, requests to an object store mostly wait."""
    return _LOCAL_THREADS if local else _REMOTE_THREADS


def in_threads(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The function's results for each item, in order, by no more threads than there is work for."""
    if threads == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "hudi-vector-blobs") as pool:
        return list(pool.map(function, items))


def reason_of(problem: OSError) -> str:
    """What an error of a file system means, in our words."""
    text = str(problem.strerror or problem)
    if isinstance(problem, (FileNotFoundError, NotADirectoryError)):
        return "the file is gone, or was never there"
    if isinstance(problem, PermissionError) or "ACCESS_DENIED" in text:
        return "permission denied"
    if isinstance(problem, IsADirectoryError):
        return "it is a directory"
    return first_line(text) if text.strip() else type(problem).__name__


def _look_local(uri: str) -> BlobFile | Trouble:
    path = uri[len("file://") :]
    try:
        status = os.stat(path)
    except ValueError as problem:  # a NUL in the path
        raise InvalidBlobError(f"the blob's path {path!r} is none: {problem}") from problem
    except OSError as problem:
        return Trouble(reason_of(problem))
    if stat.S_ISDIR(status.st_mode):
        return Trouble("it is a directory")
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device never ends
        return Trouble("it is no regular file")
    return LocalFile(path, status.st_size)


def _is_of_this_machine(storage: Storage) -> bool:
    """Whether a driver of fsspec reads local files: under its scheme nothing here would know them for such."""
    driver = storage.fsspec
    if driver is None:
        return False
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(driver, LocalFileSystem)


def _remote(storage: Storage, uri: str) -> RemoteFile:
    path = storage.path(uri)
    driver = storage.fsspec
    if driver is not None:
        source = _FsspecSource(driver, path)
        return RemoteFile(source, source.size())
    try:
        opened = storage.filesystem.open_input_file(path)
    except FileNotFoundError:
        # Object stores have no folders that could be opened: only the listing tells one from nothing.
        if storage.filesystem.get_file_info(path).type == pafs.FileType.Directory:
            raise IsADirectoryError(path) from None
        raise
    return RemoteFile(opened, opened.size())


class _FsspecSource:
    """Ranges through fsspec: `cat_file` is one request, an opened file would read ahead."""

    def __init__(self, driver: Any, path: str) -> None:
        self._driver = driver
        self._path = path

    def size(self) -> int:
        info = self._asked(self._driver.info, self._path)
        if info["type"] == "directory":
            raise IsADirectoryError(self._path)
        return int(info["size"])

    def read_at(self, count: int, offset: int) -> bytes:
        content: bytes = self._asked(self._driver.cat_file, self._path, start=offset, end=offset + count)
        return content

    def _asked(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except OSError:
            raise
        except Exception as problem:  # drivers raise errors of their own, under no common class
            raise OSError(f"{type(problem).__name__}: {problem}") from problem


def _unfilled(views: Sequence[memoryview], got: int) -> Sequence[memoryview]:
    """What is left of the views when their first bytes are filled."""
    for index, view in enumerate(views):
        if got < len(view):
            return [view[got:], *views[index + 1 :]]
        got -= len(view)
    return ()
