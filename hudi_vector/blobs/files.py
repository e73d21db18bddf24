"""Files that hold blobs: looked up once, then read in ranges directly into memory that the caller provides."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.fs as pafs

from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reach import Reach
from hudi_vector.errors import InvalidBlobError, MissingDependencyError, UnsupportedTableError, first_line
from hudi_vector.storage import Storage, StorageOptions, follow_settings, open_storage, scheme_of
from hudi_vector.storage.objects import ObjectFile
from hudi_vector.storage.parallel import parallelism

__all__ = ["UNASKED", "BlobFile", "BlobFiles", "Trouble", "default_threads", "in_threads", "reason_of"]

T = TypeVar("T")
R = TypeVar("R")

# Handles of remote files take memory, so their number is bounded; containers are looked up many times.
_KNOWN_FILES = 8192
_MOST_VIEWS = 1024  # IOV_MAX of Linux and macOS
_LOCAL_THREADS = 4

UNASKED = -1
"""The size of a file that was not asked for."""


@dataclass(frozen=True)
class Trouble:
    """The reason why a file cannot be read, phrased as the end of "… cannot be read: …"."""

    reason: str


class LocalFile:
    """A file on a local disk."""

    local = True

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size

    def open(self) -> OpenLocalFile:
        """Open the file; the caller must close the result. Raises OSError."""
        return OpenLocalFile(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))


class OpenLocalFile:
    """An open file descriptor from which ranges are read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_into(self, views: Sequence[memoryview], offset: int) -> int:
        """Fill the views in order with the bytes from `offset` on; return the number of bytes read.

        The number is smaller than the views' total where the file ends.
        """
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
    """A file on another file system: an open handle that takes no lock and holds no connection.

    `size` is in bytes, or `UNASKED`: then a file that is gone or too short is noticed when it is read.
    """

    local = False

    def __init__(self, source: Any, size: int) -> None:
        self._source = source
        self._read = source.read_part if isinstance(source, ObjectFile) else source.read_at
        self.size = size

    def open(self) -> RemoteFile:
        """Return the file itself: threads share one handle."""
        return self

    def read_into(self, views: Sequence[memoryview], offset: int) -> int:
        """Fill the views in order with the bytes from `offset` on, in one request; return the number of bytes read."""
        content = memoryview(self._read(sum(len(view) for view in views), offset))
        done = 0
        for view in views:
            part = content[done : done + len(view)]
            view[: len(part)] = part
            done += len(part)
        return done

    def close(self) -> None:
        """Do nothing: the handle is closed when it is garbage collected."""


BlobFile = LocalFile | RemoteFile


class BlobFiles:
    """A cache of the files that references name; each is looked up once while one column is read.

    Args:
        options: Hadoop's storage settings.
        table: The base path of the table, for relative paths; None if not known.
        threads: The number of files on an object store that are looked up at a time; None for the default.
        from_remote: Whether references may come from an object store; used only if the table is not known.
    """

    def __init__(
        self, options: StorageOptions, table: str | None, threads: int | None = None, *, from_remote: bool = False
    ) -> None:
        follow_settings(options)
        self._options = options
        self._table = table
        self._reach = Reach(options, table, from_remote)
        self._threads = threads or default_threads(local=False)
        self._known: OrderedDict[str, BlobFile | Trouble] = OrderedDict()
        self._doubted: set[str] = set()

    def doubt(self, paths: Iterable[str]) -> None:
        """Ask for the sizes of these files from now on, since reads of them failed."""
        self._doubted.update(paths)

    def look(self, paths: Iterable[str], unasked: Container[str] = ()) -> list[BlobFile | Trouble]:
        """Return, for each path, its file or the trouble with it.

        The sizes of files in `unasked` are not asked for where a read is one request anyhow, unless there is a doubt
        about the file. Raises InvalidBlobError if a path is invalid, MissingDependencyError if a scheme needs a package
        that is not installed.
        """
        asked = list(paths)
        trusted = {path for path in asked if path in unasked and path not in self._doubted}
        held = {path: self._known[path] for path in asked if self._is_known(path, trusted)}
        new = [path for path in dict.fromkeys(asked) if path not in held]
        uris = [file_uri(path, self._table) for path in new]
        refused = {uri: Trouble(why) for uri in uris if (why := self._reach.refusal(uri)) is not None}
        remote = [uri for uri in uris if not uri.startswith("file:") and uri not in refused]
        sized = {uri for path, uri in zip(new, uris, strict=True) if path not in trusted}
        looked = in_threads(lambda uri: self._look_remote(uri, uri in sized), remote, self._threads)
        found: dict[str, BlobFile | Trouble] = {**refused, **dict(zip(remote, looked, strict=True))}
        for path, uri in zip(new, uris, strict=True):
            held[path] = self._known[path] = found[uri] if uri in found else _look_local(self._reach.opened(uri))
        while len(self._known) > _KNOWN_FILES:
            self._known.popitem(last=False)
        return [held[path] for path in asked]

    def _is_known(self, path: str, trusted: Container[str]) -> bool:
        found = self._known.get(path)
        return found is not None and (path in trusted or isinstance(found, Trouble) or found.size != UNASKED)

    def _look_remote(self, uri: str, sized: bool) -> BlobFile | Trouble:
        scheme = scheme_of(uri)
        try:
            storage = open_storage(uri, self._options)
            if _is_of_this_machine(storage):
                return Trouble(f"'{scheme}://' names files of this machine, which a reference spells file:///…")
            object_file = None if sized else storage.addressed(uri)
            return _remote(storage, uri) if object_file is None else RemoteFile(object_file, UNASKED)
        except MissingDependencyError as absent:
            raise MissingDependencyError(f"the blob at '{uri}' cannot be read: {absent}") from absent
        except UnsupportedTableError as unsupported:
            known = scheme in ("s3", "gs")  # then a storage setting is unsupported, not the scheme
            return Trouble(str(unsupported) if known else f"there is no driver for the scheme '{scheme}://'")
        except OSError as problem:
            return Trouble(reason_of(problem))


def default_threads(*, local: bool) -> int:
    """Return how many threads read at once: few saturate a disk, while requests to an object store mostly wait."""
    return _LOCAL_THREADS if local else parallelism()


def in_threads(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the function's result for each item, in order, computed by at most `threads` threads."""
    if threads == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "hudi-vector-blobs") as pool:
        return list(pool.map(function, items))


def reason_of(problem: OSError) -> str:
    """Return the meaning of a file system's error in this package's own words."""
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
    if not stat.S_ISREG(status.st_mode):  # a read would block on a pipe and never end on a device
        return Trouble("it is no regular file")
    return LocalFile(path, status.st_size)


def _is_of_this_machine(storage: Storage) -> bool:
    """Return True if fsspec's driver reads local files, which this package cannot recognise by the driver's scheme."""
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
        opened = storage.opened(uri)
    except FileNotFoundError:
        # Object stores report a folder as not found: only a listing distinguishes it from a missing file.
        if storage.filesystem.get_file_info(path).type == pafs.FileType.Directory:
            raise IsADirectoryError(path) from None
        raise
    return RemoteFile(opened, opened.size())


class _FsspecSource:
    """Ranges of a file through fsspec, by `cat_file`: one request each, where an opened file would read ahead."""

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
        except Exception as problem:  # drivers' errors have no common base class
            raise OSError(f"{type(problem).__name__}: {problem}") from problem


def _unfilled(views: Sequence[memoryview], got: int) -> Sequence[memoryview]:
    """Return the rest of the views after their first `got` bytes are filled."""
    for index, view in enumerate(views):
        if got < len(view):
            return [view[got:], *views[index + 1 :]]
        got -= len(view)
    return ()
