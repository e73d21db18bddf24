"""Paths, schemes and file systems, opened with Hadoop's storage settings."""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_vector.arguments import is_unicode
from hudi_vector.errors import DataFileError, InvalidArgumentError, MissingDependencyError, UnsupportedTableError
from hudi_vector.storage import parallel
from hudi_vector.storage.credentials.clients import (
    azure_arguments,
    gcs_arguments,
    hudi_rs_options,
    lance_options,
)
from hudi_vector.storage.credentials.s3 import s3_arguments
from hudi_vector.storage.local_files import in_its_folder, move_new, remove_empty, remove_file, remove_tree, scan, sync
from hudi_vector.storage.objects import SECOND_NS, ObjectFile, Objects, is_addressed, objects_at
from hudi_vector.storage.settings import StorageOptions
from hudi_vector.storage.writeback import begin_writeback

__all__ = [
    "FileInfo",
    "NewFile",
    "Storage",
    "StorageOptions",
    "follow_settings",
    "hudi_rs_options",
    "is_half_published",
    "join",
    "lance_options",
    "normalise",
    "open_storage",
    "path_text",
    "root_of",
    "scheme_of",
    "why_unread",
]

T = TypeVar("T")
R = TypeVar("R")

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_ROOTS_WITH_AUTHORITY = _AZURE_SCHEMES | {"hdfs"}
_EXTRAS = {"gs": "gcs"}
_WRAPPERS = frozenset(
    {
        *("async_wrapper", "blockcache", "cached", "dir", "filecache", "generic", "git", "libarchive", "reference"),
        *("simplecache", "tar", "zip"),
    }
)
"""Schemes of fsspec whose drivers read through another file system, which may be the local one."""
_ONE_COPY_BYTES = 5 << 30
"""The largest object that S3 copies in one request."""
_PIECE_BYTES = 8 << 20
_FIRST_PIECE_BYTES = 256 << 10
_SMALL_BYTES = 1 << 30
_WRITEBACK_BYTES = 8 << 20
_HALF_PUBLISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class FileInfo:
    """A listed file: its normalised URI, its size in bytes and its modification time in nanoseconds."""

    uri: str
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """Return the last part of the URI."""
        return posixpath.basename(self.uri)


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case: ``file`` for a plain path, ``s3`` also for s3a and s3n."""
    scheme, found, _ = uri.partition(":")
    if not found or "/" in scheme or len(scheme) < 2:
        return "file"
    scheme = scheme.lower()
    return "s3" if scheme in _S3_SCHEMES else scheme


def normalise(uri: str) -> str:
    """Return the one normalised spelling of a path or URI, without a slash at its end.

    A local path becomes ``file:///x``; s3a and s3n become ``s3://``. All spellings that Hadoop accepts are accepted.

    Example:
        >>> normalise("file:/tables//a/"), normalise("s3a://bucket/a")
        ('file:///tables/a', 's3://bucket/a')
    """
    scheme = scheme_of(uri)
    if scheme == "file":
        path = uri[len("file:") :] if uri.lower().startswith("file:") else uri
        path = "/" + path.lstrip("/") if path.startswith("/") else os.path.abspath(path)
        return "file://" + posixpath.normpath(path)
    _, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    tidy = posixpath.normpath("/" + key).lstrip("/")
    return f"{scheme}://{bucket}/{tidy}".rstrip("/")


def absolute(uri: str) -> str:
    """Return a path or URI that means the same in a process with another working directory; only a bare path changes.

    Example:
        >>> absolute("/tables/a"), absolute("s3a://bucket/a"), absolute("a") == os.path.abspath("a")
        ('/tables/a', 's3a://bucket/a', True)
    """
    is_relative = scheme_of(uri) == "file" and not uri.startswith("/") and not uri.lower().startswith("file:/")
    return normalise(uri).removeprefix("file://") if is_relative else uri


def why_unread(problem: Exception, uri: str) -> str:
    """Return why a file cannot be read, as the end of a sentence that has its name already.

    Example:
        >>> why_unread(PermissionError(13, "Failed to open local file '/t/a'"), "file:///t/a")
        'Permission denied'
    """
    if isinstance(problem, FileNotFoundError):
        return "it is gone"
    text = " ".join(str(problem).split())
    number = problem.errno if isinstance(problem, OSError) else None
    return os.strerror(number) if number and uri.rpartition("/")[2] in text else text


def path_text(value: Any) -> Any:
    """Return a path object as text, and any other value unchanged; raise InvalidArgumentError for a text that is none.

    A path object never means a name in a catalog, so one without a slash gets a leading ``./``.

    Example:
        >>> import pathlib
        >>> path_text(pathlib.PurePosixPath("/tables/a")), path_text(pathlib.PurePosixPath("a")), path_text("a")
        ('/tables/a', './a', 'a')
    """
    if isinstance(value, os.PathLike):
        text = os.fsdecode(value)
        value = text if "/" in text else f"./{text}"
    if isinstance(value, str) and not _can_be_opened(value):
        raise InvalidArgumentError(f"the path {value!a} is not UTF-8, or holds NUL; rename the file, or give another")
    return value


def _can_be_opened(path: str) -> bool:
    """Return False for a path with NUL, or with bytes that are not UTF-8, which Arrow opens neither of."""
    return "\0" not in path and is_unicode(path)


def join(base: str, *parts: str) -> str:
    """Return a URI below `base`; empty parts are skipped."""
    return "/".join([base, *[part for part in parts if part]])


def is_half_published(name: str) -> bool:
    """Return True if a name is the temporary name of a file that `Storage.publish` has not renamed yet.

    Example:
        >>> is_half_published(f".00000001-x.{'0' * 32}.tmp"), is_half_published("00000001-x")
        (True, False)
    """
    return _HALF_PUBLISHED.fullmatch(name) is not None


class NewFile:
    """A newly created file, written once from start to end."""

    def __init__(self, stream: BinaryIO | pa.NativeFile, local_path: str | None) -> None:
        self.stream = stream
        self._local_path = local_path
        self._written = self._on_their_way = 0

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes."""
        self.stream.write(content)
        self._written += len(content)
        if self._local_path is not None and self._written - self._on_their_way >= _WRITEBACK_BYTES:
            self.stream.flush()
            begin_writeback(self.stream.fileno(), self._on_their_way, self._written - self._on_their_way)
            self._on_their_way = self._written

    def close(self, durable: bool = True) -> None:
        """Close the file; when this returns, a local file's content and name survive a crash of the machine.

        They need not if it is not to be `durable`.
        """
        if self._local_path is None or not durable:
            self.stream.close()
            return
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        sync(os.path.dirname(self._local_path))

    def discard(self) -> None:
        """Close the file without syncing it; what was written is not removed."""
        self.stream.close()


class Storage:
    """A file system, opened once, with operations on normalised URIs."""

    def __init__(
        self, filesystem: pafs.FileSystem, root: str, path_root: str = "", objects: Objects | None = None
    ) -> None:
        """Wrap a pyarrow file system without accessing it.

        Args:
            filesystem: The pyarrow file system.
            root: The beginning of its normalised URIs, from `root_of`.
            path_root: What replaces `root` in the paths that pyarrow takes.
            objects: What reads the files if pyarrow does not.
        """
        self.filesystem = filesystem
        self.scheme = scheme_of(root)
        self._root = root
        self._path_root = path_root
        self._objects = objects

    @property
    def fsspec(self) -> Any | None:
        """Return the underlying fsspec driver, or None if pyarrow has its own."""
        return self.filesystem.handler.fs if isinstance(self.filesystem, pafs.PyFileSystem) else None

    def path(self, uri: str) -> str:
        """Return pyarrow's path for a normalised URI."""
        return self._path_root + uri[len(self._root) :]

    def uri(self, path: str) -> str:
        """Return the normalised URI of a pyarrow path."""
        return self._root + path[len(self._path_root) :]

    def list_files(self, uri: str, recursive: bool = False) -> list[FileInfo]:
        """Return the files in a folder, in the order of the listing; a missing folder has no files."""
        if self.scheme == "file":
            found = scan(self.path(uri), recursive)
            return [FileInfo(self.uri(path), status.st_size, status.st_mtime_ns) for path, status in found]
        return self._listed(uri, recursive)[0]

    def list_both(self, uri: str) -> tuple[list[FileInfo], list[str]]:
        """Return the files in a folder and the names of the folders in it, by one listing if it is not local."""
        if self.scheme == "file":
            return self.list_files(uri), self.list_folders(uri)
        return self._listed(uri, recursive=False)

    def list_except(self, uri: str, hidden: str, is_deep: bool = True) -> list[FileInfo]:
        """Return the files below a folder without those in one folder of it.

        If the files lie in folders of it (`is_deep`), the first 1,000 come from an object store by one request, which
        is sent with that for the folder itself; those of further folders come by one for each, all sent at once.
        """
        objects = self._objects_for(uri) if is_deep else None
        if objects is not None:
            with suppress(ValueError):
                return self._listed_except(objects, uri, hidden)
        listed, folders = self.list_both(uri)
        return listed + self._below(uri, [folder for folder in folders if folder != hidden])

    def all_below(self, uri: str) -> list[FileInfo] | None:
        """Return all files below a folder if an object store tells them in one answer; None otherwise."""
        objects = self._objects_for(uri)
        if objects is None:
            return None
        try:
            first, is_all = objects.first_below(self.path(uri), "")
        except ValueError:
            return None
        return [FileInfo(self.uri(place), size, mtime_ns) for place, size, mtime_ns in first] if is_all else None

    def list_folders(self, uri: str) -> list[str]:
        """Return the names of the folders in a folder; a missing folder has none."""
        if self.scheme == "file":
            try:
                with os.scandir(self.path(uri)) as entries:
                    return [entry.name for entry in entries if entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return self.list_both(uri)[1]

    def read(self, uri: str, most: int = _SMALL_BYTES) -> bytes:
        """Return the whole content of a small file; reading stops once there are more than `most` bytes.

        Raises FileNotFoundError if there is no such file, and DataFileError if the file has more than `most` bytes.
        """
        if (objects := self._objects_for(uri)) is not None:
            content, _ = objects.read(self.path(uri), most)
            if content is None:
                raise DataFileError(f"'{uri}' has more than {most} bytes, and no file of its kind is so large")
            return bytes(content)
        pieces, held = [], 0
        with self.filesystem.open_input_stream(self.path(uri)) as stream:
            while piece := stream.read(_PIECE_BYTES if held else _FIRST_PIECE_BYTES):
                pieces.append(piece)
                held += len(piece)
                if held > most:
                    raise DataFileError(f"'{uri}' has more than {most} bytes, and no file of its kind is so large")
        return b"".join(pieces)

    def opened(self, uri: str, mapped: bool = False, size: int | None = None, mtime_ns: int | None = None) -> Any:
        """Open a file as `open` does, and raise OSError if it is missing or cannot be opened."""
        if self.scheme == "file" and mapped:
            return pa.memory_map(self.path(uri))
        if (objects := self._objects_for(uri)) is not None:
            file = ObjectFile(objects, self.path(uri), size, mtime_ns)
            file.size()
            return file
        return self.filesystem.open_input_file(self.path(uri))

    def addressed(self, uri: str, size: int | None = None) -> ObjectFile | None:
        """Return an object that is not asked for before it is read, or None if pyarrow reads the file.

        `size` is its size in bytes as it was listed, if it was.
        """
        objects = self._objects_for(uri)
        return None if objects is None else ObjectFile(objects, self.path(uri), size)

    def whole(self, uri: str, size: int | None = None, mtime_ns: int | None = None) -> pa.Buffer:
        """Return the content of a data file, mapped into memory if it is local, else by requests at once.

        Without `size`, its size in bytes as somebody recorded it, an object is read by one request. `mtime_ns` is that
        of `open`. Raises DataFileError if the file cannot be read, or has another size.
        """
        try:
            if (objects := self._objects_for(uri)) is not None:
                return ObjectFile(objects, self.path(uri), size, mtime_ns).read_buffer()
            with self.open(uri) as opened:
                return opened.read_buffer()
        except OSError as problem:
            raise DataFileError(f"the data file '{uri}' cannot be read: {why_unread(problem, uri)}") from problem

    def forget_kept(self, uris: Iterable[str]) -> None:
        """Remove what the cache on disk has of objects that were opened with 0 as `mtime_ns`: it is damaged."""
        if self._objects is not None:
            self._objects.forget(map(self.path, uris))

    def each(
        self, work: Callable[[T], R], items: Iterable[T], most: int | None = None, *, decodes: bool = False
    ) -> list[R]:
        """Return the results of `work` for all items; it is done at once where the file system answers late.

        Then `most` and `decodes` say how many items are worked on at a time, as for `parallel.each`.
        """
        if self.scheme == "file":
            return [work(item) for item in items]
        return parallel.each(work, items, most, decodes=decodes)

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        """Return the results of calls, which are made at once where the file system answers late."""
        return [call() for call in calls] if self.scheme == "file" else parallel.together(*calls)

    def begun(self, call: Callable[[], R]) -> Callable[[], R]:
        """Begin a call, and return a function that waits for its result; on a local disk that function makes the call.

        The result, or the error, is the same however often it is asked for.
        """
        return lru_cache(maxsize=1)(call) if self.scheme == "file" else parallel.begun(call)

    def info(self, uri: str) -> FileInfo | None:
        """Return a file's size and modification time, or None if there is no such file."""
        if (objects := self._objects_for(uri)) is not None:
            try:
                return FileInfo(uri, *objects.info(self.path(uri)))
            except FileNotFoundError:
                return None
        entry = self.filesystem.get_file_info(self.path(uri))
        if entry.type != pafs.FileType.File:
            return None
        return FileInfo(uri, entry.size, self._mtime_ns(entry))

    def _mtime_ns(self, entry: pafs.FileInfo) -> int:
        """Return the modification time that pyarrow found, of whole seconds on S3, as `Objects` has it."""
        mtime_ns = int(entry.mtime_ns or 0)
        return mtime_ns - mtime_ns % SECOND_NS if self.scheme == "s3" else mtime_ns

    def open(self, uri: str, mapped: bool = True, size: int | None = None, mtime_ns: int | None = None) -> Any:
        """Open a data file for random reads; raise DataFileError if it is missing or cannot be opened.

        With `mapped`, a local file is mapped into memory, which is fastest where most of it is read at once. With
        `size`, the file's size in bytes as it was listed, an object is not asked for before it is read: reads then
        raise OSError if it is missing or has another size. With `mtime_ns`, as it was listed, or 0 for a name that is
        never given to other content, what is read of an object is kept on disk, if the settings say where.
        """
        try:
            return self.opened(uri, mapped, size, mtime_ns)
        except OSError as problem:
            raise DataFileError(f"the data file '{uri}' cannot be opened: {why_unread(problem, uri)}") from problem

    def create(self, uri: str, unique: bool = False) -> NewFile:
        """Create a file and the folders above it; raise FileExistsError if the name is taken.

        An existing file is never touched. An object store has no exclusive creation: existence is checked before the
        write, so callers must use unique names. With `unique`, the name has random bits, and nothing is checked there.
        """
        path = self.path(uri)
        if self.scheme == "file":
            return NewFile(in_its_folder(path, lambda: open(path, "xb")), path)
        if not unique and self.info(uri) is not None:
            raise FileExistsError(f"'{uri}' is there already")
        return NewFile(self.filesystem.open_output_stream(path), None)

    def publish(self, uri: str, content: bytes, unique: bool = False) -> None:
        """Write a small file durably, so that readers see either all of it or nothing.

        The name must be one that no other process uses, or be derived from the content. A local file of that name is
        replaced; an object store raises FileExistsError, unless it is not asked because the name is `unique`.
        """
        if self.scheme != "file":
            file = self.create(uri, unique)  # an object appears when it is closed, as a whole
            file.write(content)
            file.close()
            return
        folder, name = os.path.split(self.path(uri))
        # The temporary name is unique, so concurrent writers of one name and leftovers of a crash do not collide.
        hidden = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        file = self.create(self.uri(hidden))
        file.write(content)
        file.close()
        os.replace(hidden, f"{folder}/{name}")
        sync(folder)

    def move(self, uri: str, target: str, renew: bool = False, root: str = "") -> None:
        """Move a file within its file system, durably; folders of the new path are made.

        A local file moves in one step, and gets the present time as its modification time if `renew`. An object is
        copied and then deleted: a crash may leave both, and the copy always has the present time as its modification
        time.

        For a path below a table's ``.hoodie`` no symbolic link is followed below the table's folder; for any other
        local path, none is followed below `root`, which defaults to the file's folder.

        Raises FileNotFoundError if there is no such file, and DataFileError if a symbolic link is in either path.
        Raises FileExistsError if the new name is taken: a local file is then never touched, whereas an object store can
        only check before it copies.
        """
        if self.scheme == "file":
            roots = self._reached_from(uri, root), self._reached_from(target, root)
            self._rename(self.path(uri), self.path(target), renew, *roots)
            return
        source = self.info(uri)
        if source is None:
            raise FileNotFoundError(f"there is no file '{uri}'")
        if self.info(target) is not None:
            raise FileExistsError(f"'{target}' is there already")
        self._copy(source, target)
        self.delete(uri)

    def delete(self, uri: str, root: str = "") -> bool:
        """Remove a file permanently and return True, or return False if there was none.

        A symbolic link itself is removed, not its target; DataFileError is raised if a link is in the path to the file.
        See `move` for `root`.
        """
        path = self.path(uri)
        if self.scheme == "file":
            return remove_file(path, self._reached_from(uri, root))
        if self.info(uri) is None:
            return False
        try:
            if (objects := self._objects_for(uri)) is not None:
                objects.delete(path)  # pyarrow would ask once more, and leave the mark of a folder
            else:
                self.filesystem.delete_file(path)
        except FileNotFoundError:  # another process removed it after the check
            return False
        return True

    def remove_all(self, uris: Iterable[str]) -> None:
        """Remove files permanently, at once where the file system answers late; it is no error if one is gone.

        As `delete` does, but no object is asked for first.
        """
        objects = self._objects

        def remove(uri: str) -> None:
            if objects is not None and is_addressed(uri):
                objects.delete(self.path(uri))
            else:
                self.delete(uri)

        self.each(remove, uris)

    def remove_folder(self, uri: str, root: str = "") -> bool:
        """Remove a folder with its content and return True, or return False if there was none.

        Objects are removed singly, all at once: not every store that speaks S3 removes many by one request. Links are
        not followed; DataFileError is raised if the folder is a symbolic link or one is in the path to it. The folder
        must be within another folder. See `move` for `root`.
        """
        path = self.path(uri)
        assert path.strip("/").count("/") >= 1, "a folder within another"
        try:
            if self.scheme == "file":
                remove_tree(path, self._reached_from(uri, root))
            elif (objects := self._objects_for(uri)) is not None and (found := objects.named_below(path)) is not None:
                self.each(objects.delete, found)
                return bool(found)
            else:
                self.filesystem.delete_dir(path)
        except FileNotFoundError:
            return False
        return True

    def removal(self, uri: str) -> Callable[[], object]:
        """Look for what is in a folder, and return a function that removes the folder, as `remove_folder` does."""
        objects = self._objects_for(uri)
        found = None if objects is None else objects.named_below(self.path(uri))
        if objects is None or found is None:
            return lambda: self.remove_folder(uri)
        return lambda: self.each(objects.delete, found)

    def remove_empty_folders(self, uri: str) -> None:
        """Remove a local folder and the folders in it as far as they are empty; links stay.

        A folder that another process fills meanwhile stays, and `create` and `move` make a removed folder again. Does
        nothing on object stores, which have no folders.
        """
        if self.scheme != "file":
            return
        with suppress(OSError):  # it is gone, or behind a link
            remove_empty(self.path(uri), self._reached_from(uri, ""))

    def sync(self, uri: str) -> None:
        """Make a file durable that another library wrote and closed; on an object store it is durable already."""
        if self.scheme == "file":
            path = self.path(uri)
            sync(path)
            sync(os.path.dirname(path))

    def _objects_for(self, uri: str) -> Objects | None:
        """Return what reads and lists the objects at a URI, or None if pyarrow does."""
        return self._objects if is_addressed(uri) else None

    def _reached_from(self, uri: str, root: str) -> str:
        """Return the path below which no link is followed: the table's folder, else `root`, else the file's folder."""
        table, found, _ = uri.partition("/.hoodie/")
        return self.path(table if found else root.rstrip("/") or uri.rpartition("/")[0])

    @staticmethod
    def _rename(path: str, target: str, renew: bool, root: str, target_root: str) -> None:
        move_new(path, root, target, target_root, renew)

    def _copy(self, source: FileInfo, target: str) -> None:
        """Copy an object completely; raise OSError, and delete the copy, if its size differs."""
        if source.size <= _ONE_COPY_BYTES:
            self.filesystem.copy_file(self.path(source.uri), self.path(target))
        else:
            self._copy_in_pieces(source, target)
        made = self.info(target)
        if made is None or made.size != source.size:
            self.delete(target)
            raise OSError(f"the copy of '{source.uri}' has {made and made.size} bytes instead of {source.size}")

    def _copy_in_pieces(self, source: FileInfo, target: str) -> None:
        try:
            with (
                self.filesystem.open_input_stream(self.path(source.uri)) as stream,
                self.filesystem.open_output_stream(self.path(target)) as sink,
            ):
                while piece := stream.read(_PIECE_BYTES):
                    sink.write(piece)
        except BaseException:
            # Closing the output stream on an error publishes a partial object.
            self.delete(target)
            raise

    def _listed_except(self, objects: Objects, uri: str, hidden: str) -> list[FileInfo]:
        path = self.path(uri)
        listed: list[FileInfo]
        # In the order of keys everything in the hidden folder lies before the character behind "/".
        (listed, folders), (first, is_all) = self.together(
            lambda: self._listed(uri, recursive=False), lambda: objects.first_below(path, f"{hidden}0")
        )
        known = [FileInfo(self.uri(place), size, mtime_ns) for place, size, mtime_ns in first]
        folder_of = {info.uri: info.uri[len(uri) + 1 :].partition("/") for info in known}
        last = None if is_all or not known else folder_of[known[-1].uri][0]
        inside = [info for info in known if folder_of[info.uri][1] and folder_of[info.uri][0] != last]
        whole = {folder_of[info.uri][0] for info in inside}
        left = [name for name in folders if name != hidden and name not in whole]
        return listed + inside + self._below(uri, left)

    def _below(self, uri: str, folders: Sequence[str]) -> list[FileInfo]:
        """Return the files below some folders of a folder."""
        parts: list[list[FileInfo]] = self.each(
            lambda folder: self.list_files(join(uri, folder), recursive=True), folders
        )
        return [info for part in parts for info in part]

    def _listed(self, uri: str, recursive: bool) -> tuple[list[FileInfo], list[str]]:
        """Return the files in a folder that is not local, or below it, and the names of the folders in it."""
        if (objects := self._objects_for(uri)) is not None:
            # pyarrow lists no more than eight folders at once, but it knows every name, and the marks of folders.
            with suppress(ValueError):
                found, folders = objects.list(self.path(uri), recursive)
                files = [FileInfo(self.uri(path), size, mtime_ns) for path, size, mtime_ns in found]
                return files, [posixpath.basename(path.rstrip("/")) for path in folders]
        selector = pafs.FileSelector(self.path(uri), recursive=recursive, allow_not_found=True)
        entries: list[pafs.FileInfo] = self.filesystem.get_file_info(selector)
        files = [
            FileInfo(self.uri(entry.path), entry.size, self._mtime_ns(entry))
            for entry in entries
            if entry.type == pafs.FileType.File
        ]
        folders = [entry.path for entry in entries if entry.type == pafs.FileType.Directory]
        return files, [posixpath.basename(path.rstrip("/")) for path in folders]


def root_of(uri: str) -> str:
    """Return what all normalised URIs on one file system begin with: the scheme, with the authority for Azure and HDFS.

    Example:
        >>> root_of("s3a://lake/t"), root_of("hdfs://name:8020/t")
        ('s3://', 'hdfs://name:8020')
    """
    scheme = scheme_of(uri)
    if scheme in _ROOTS_WITH_AUTHORITY:
        return f"{scheme}://{uri.partition('://')[2].partition('/')[0]}"
    return f"{scheme}://"


def open_storage(uri: str, options: StorageOptions) -> Storage:
    """Return the file system of a URI, opened once per process and settings.

    From now on the process sends as many requests at once as the settings say, if they say so.

    Raises MissingDependencyError if the scheme needs a package that is not installed, and UnsupportedTableError if only
    Spark can open the scheme, or if a setting has no counterpart here.
    """
    follow_settings(options)
    return _opened(root_of(uri), options.at(uri))


def follow_settings(options: StorageOptions) -> None:
    """Let this process send as many requests at once as the settings say, if they say so; Spark's tasks do so too.

    Raises InvalidOptionError if they name a folder for a cache on disk that cannot be used.
    """
    _ = options.cache
    if options.parallelism is not None:
        parallel.set_parallelism(options.parallelism)


@lru_cache(maxsize=64)
def _opened(root: str, options: StorageOptions) -> Storage:
    scheme = scheme_of(root)
    if scheme == "file":
        return Storage(pafs.LocalFileSystem(), "file://")
    if scheme == "s3":
        # An object that is small enough is then sent by one request when it is closed.
        made = pafs.S3FileSystem(**s3_arguments(options), allow_delayed_open=True)
        return Storage(made, "s3://", objects=objects_at(options))
    if scheme in _AZURE_SCHEMES:
        container, _, host = root.partition("://")[2].rpartition("@")
        return Storage(pafs.AzureFileSystem(**azure_arguments(host, options)), root, container)
    if scheme == "hdfs":
        return Storage(_hdfs(root, options), root)
    return Storage(_through_fsspec(scheme, **(gcs_arguments(options) if scheme == "gs" else {})), f"{scheme}://")


# A process that was forked has none of its parent's connections, nor the threads that serve them.
os.register_at_fork(after_in_child=_opened.cache_clear)


def _hdfs(root: str, options: StorageOptions) -> pafs.FileSystem:
    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError as absent:
        raise MissingDependencyError(
            "reading 'hdfs://' outside Spark needs hdfs-native; install hudi-vector[hdfs]"
        ) from absent
    host, _, port = root.partition("://")[2].partition(":")
    settings = {key: value for key, value in options.values if key.startswith("dfs.")}
    return pafs.PyFileSystem(pafs.FSSpecHandler(HdfsFileSystem(host, int(port) if port else None, **settings)))


def _through_fsspec(scheme: str, **arguments: Any) -> pafs.FileSystem:
    import fsspec

    if scheme in _WRAPPERS:
        raise UnsupportedTableError(f"'{scheme}://' is no storage but a view of another one; name the place itself")
    try:
        found = fsspec.filesystem(scheme, **arguments)
    except ImportError as absent:
        known = f"install hudi-vector[{_EXTRAS[scheme]}]" if scheme in _EXTRAS else str(absent)
        raise MissingDependencyError(f"reading '{scheme}://' outside Spark needs another package: {known}") from absent
    except ValueError as unknown:
        raise UnsupportedTableError(f"'{scheme}://' is a scheme that only Spark can read here: {unknown}") from unknown
    return pafs.PyFileSystem(pafs.FSSpecHandler(found))
