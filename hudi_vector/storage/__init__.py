"""Paths, schemes and file systems, opened with Hadoop's settings (`hudi_vector.storage.credentials`)."""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_vector.errors import DataFileError, MissingDependencyError, UnsupportedTableError
from hudi_vector.storage.credentials import (
    azure_arguments,
    gcs_arguments,
    hudi_rs_options,
    lance_options,
)
from hudi_vector.storage.local_files import in_its_folder, move_new, remove_empty, remove_file, remove_tree, scan, sync
from hudi_vector.storage.s3 import s3_arguments
from hudi_vector.storage.settings import StorageOptions
from hudi_vector.storage.writeback import begin_writeback

__all__ = [
    "FileInfo",
    "NewFile",
    "Storage",
    "StorageOptions",
    "hudi_rs_options",
    "is_half_published",
    "join",
    "lance_options",
    "normalise",
    "open_storage",
    "path_text",
    "root_of",
    "scheme_of",
]

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
"""Schemes of fsspec whose drivers read through another one, local files among them."""
_ONE_COPY_BYTES = 5 << 30
"""What S3 copies in one request."""
_PIECE_BYTES = 8 << 20
_FIRST_PIECE_BYTES = 256 << 10
_SMALL_BYTES = 1 << 30
_WRITEBACK_BYTES = 8 << 20
_HALF_PUBLISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class FileInfo:
    """A file as a listing shows it: its URI, its bytes and its modification time in nanoseconds."""

    uri: str
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """The last part of the URI."""
        return posixpath.basename(self.uri)


def scheme_of(uri: str) -> str:
    """The scheme of a URI in lower case; ``file`` for a plain path, ``s3`` for s3a and s3n too."""
    scheme, found, _ = uri.partition(":")
    if not found or "/" in scheme or len(scheme) < 2:
        return "file"
    scheme = scheme.lower()
    return "s3" if scheme in _S3_SCHEMES else scheme


def normalise(uri: str) -> str:
    """One spelling for one place: ``file:///x`` for a local path, ``s3://`` for s3a and s3n.

    Args:
        uri: A path or URI in any of the spellings Hadoop knows.

    Returns:
        The URI without a slash at its end.

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


def path_text(value: Any) -> Any:
    """Return a path object as text, and everything else as it is: whoever takes the path of a table takes both.

    A path is no name in a catalog, so that one without a slash gets one.

    Example:
        >>> import pathlib
        >>> path_text(pathlib.PurePosixPath("/tables/a")), path_text(pathlib.PurePosixPath("a")), path_text("a")
        ('/tables/a', './a', 'a')
    """
    if not isinstance(value, os.PathLike):
        return value
    text = os.fsdecode(value)
    return text if "/" in text else f"./{text}"


def join(base: str, *parts: str) -> str:
    """A URI below another; empty parts add nothing."""
    return "/".join([base, *[part for part in parts if part]])


def is_half_published(name: str) -> bool:
    """Whether a name is that of a file which `Storage.publish` has not given its own name yet.

    Example:
        >>> is_half_published(f".00000001-x.{'0' * 32}.tmp"), is_half_published("00000001-x")
        (True, False)
    """
    return _HALF_PUBLISHED.fullmatch(name) is not None


class NewFile:
    """A file that was not there before, written once from its start to its end."""

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

    def close(self) -> None:
        """Close the file; when this returns, its bytes and its name outlive a crash of the machine."""
        if self._local_path is None:
            self.stream.close()
            return
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        sync(os.path.dirname(self._local_path))

    def discard(self) -> None:
        """Close the file without waiting for its bytes, which stay where they are."""
        self.stream.close()


class Storage:
    """One file system, opened once: lists, reads and writes what lies on it."""

    def __init__(self, filesystem: pafs.FileSystem, root: str, path_root: str = "") -> None:
        """Nothing is asked of it yet.

        Args:
            filesystem: As pyarrow knows it.
            root: How its normalised URIs begin, from `root_of`.
            path_root: What stands in its paths for that.
        """
        self.filesystem = filesystem
        self.scheme = scheme_of(root)
        self._root = root
        self._path_root = path_root

    @property
    def fsspec(self) -> Any | None:
        """The driver of fsspec below, or None where pyarrow has its own."""
        return self.filesystem.handler.fs if isinstance(self.filesystem, pafs.PyFileSystem) else None

    def path(self, uri: str) -> str:
        """The path pyarrow wants for a normalised URI."""
        return self._path_root + uri[len(self._root) :]

    def uri(self, path: str) -> str:
        """The normalised URI of a path pyarrow gave."""
        return self._root + path[len(self._path_root) :]

    def list_files(self, uri: str, recursive: bool = False) -> list[FileInfo]:
        """The files in a folder; a folder that is not there has none.

        Args:
            uri: The folder.
            recursive: Whether to look into the folders in it too.

        Returns:
            The files, in the order of the listing.
        """
        if self.scheme == "file":
            found = scan(self.path(uri), recursive)
            return [FileInfo(self.uri(path), status.st_size, status.st_mtime_ns) for path, status in found]
        return [
            FileInfo(self.uri(entry.path), entry.size, int(entry.mtime_ns or 0))
            for entry in self._select(uri, recursive)
            if entry.type == pafs.FileType.File
        ]

    def list_folders(self, uri: str) -> list[str]:
        """The names of the folders in a folder."""
        if self.scheme == "file":
            try:
                with os.scandir(self.path(uri)) as entries:
                    return [entry.name for entry in entries if entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [
            posixpath.basename(entry.path.rstrip("/"))
            for entry in self._select(uri, recursive=False)
            if entry.type == pafs.FileType.Directory
        ]

    def read(self, uri: str, most: int = _SMALL_BYTES) -> bytes:
        """The whole content of a small file.

        Args:
            uri: The file.
            most: How many bytes it may have; no more are held in memory.

        Raises:
            FileNotFoundError: There is no such file.
            DataFileError: It has more bytes.
        """
        pieces, held = [], 0
        with self.filesystem.open_input_stream(self.path(uri)) as stream:
            while piece := stream.read(_PIECE_BYTES if held else _FIRST_PIECE_BYTES):
                pieces.append(piece)
                held += len(piece)
                if held > most:
                    raise DataFileError(f"'{uri}' has more than {most} bytes, and no file of its kind is so large")
        return b"".join(pieces)

    def info(self, uri: str) -> FileInfo | None:
        """Size and time of a file, or None where there is none."""
        entry = self.filesystem.get_file_info(self.path(uri))
        if entry.type != pafs.FileType.File:
            return None
        return FileInfo(uri, entry.size, int(entry.mtime_ns or 0))

    def open(self, uri: str, mapped: bool = True) -> pa.NativeFile:
        """Open a data file for reading at random.

        Args:
            uri: The file.
            mapped: Whether a local file is mapped into memory, which is quickest where most of it is read at once.

        Raises:
            DataFileError: The file is gone or cannot be opened.
        """
        try:
            if self.scheme == "file" and mapped:
                return pa.memory_map(self.path(uri))
            return self.filesystem.open_input_file(self.path(uri))
        except OSError as problem:
            raise DataFileError(f"the data file '{uri}' cannot be opened: {problem}") from problem

    def create(self, uri: str) -> NewFile:
        """Begin a file, and the folders it lies in; a file that is there is never touched.

        An object store has no exclusive creation: there a look comes before the write, so names must be unique.

        Raises:
            FileExistsError: Something has that name.
        """
        path = self.path(uri)
        if self.scheme == "file":
            return NewFile(in_its_folder(path, lambda: open(path, "xb")), path)
        if self.filesystem.get_file_info(path).type != pafs.FileType.NotFound:
            raise FileExistsError(f"'{uri}' is there already")
        return NewFile(self.filesystem.open_output_stream(path), None)

    def publish(self, uri: str, content: bytes) -> None:
        """Make a small file appear as a whole, durable.

        Args:
            uri: The name: one nobody else uses, or one that its content decides.
            content: All of it.

        Raises:
            FileExistsError: An object store has something under that name.
        """
        if self.scheme != "file":
            file = self.create(uri)  # an object appears when it is closed, as a whole
            file.write(content)
            file.close()
            return
        folder, name = os.path.split(self.path(uri))
        # Two that publish one name at once, and one after a crash, must not stumble over each other's half.
        hidden = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        file = self.create(self.uri(hidden))
        file.write(content)
        file.close()
        os.replace(hidden, f"{folder}/{name}")
        sync(folder)

    def move(self, uri: str, target: str, renew: bool = False, root: str = "") -> None:
        """Give a file another place on the same file system, durable when this returns.

        A local file changes its place in one step, and no symbolic link below a table's folder is followed to either
        place. An object is copied and then deleted, so that a crash leaves both, and the copy has the present time as
        its modification time.

        Args:
            uri: The file.
            target: Its new place; the folders it lies in are made.
            renew: Whether a local file gets the present time as well.
            root: The folder below which no link is followed to a place that is not below a table's ``.hoodie``.

        Raises:
            FileNotFoundError: There is no such file.
            FileExistsError: Something has the new name. A local file is then never touched; an object store has no
                copy that fails where something is, so there a look comes before.
            DataFileError: A symbolic link stands in the path to one of the places.
        """
        if self.scheme == "file":
            roots = self._reached_from(uri, root), self._reached_from(target, root)
            self._rename(self.path(uri), self.path(target), renew, *roots)
            return
        source = self.info(uri)
        if source is None:
            raise FileNotFoundError(f"there is no file '{uri}'")
        if self.filesystem.get_file_info(self.path(target)).type != pafs.FileType.NotFound:
            raise FileExistsError(f"'{target}' is there already")
        self._copy(source, target)
        self.delete(uri)

    def delete(self, uri: str, root: str = "") -> bool:
        """Remove a file for good; a link is removed, not what it leads to.

        Args:
            uri: The file.
            root: As for `move`.

        Returns:
            False where there was none.

        Raises:
            DataFileError: A symbolic link stands in the path to it.
        """
        path = self.path(uri)
        if self.scheme == "file":
            return remove_file(path, self._reached_from(uri, root))
        if self.info(uri) is None:
            return False
        try:
            self.filesystem.delete_file(path)
        except FileNotFoundError:  # somebody else removed it since the look
            return False
        return True

    def remove_folder(self, uri: str, root: str = "") -> bool:
        """Remove a folder with all that is in it; a link is not followed.

        Args:
            uri: The folder; never the root of a file system.
            root: As for `move`.

        Returns:
            False where there was none.

        Raises:
            DataFileError: It is a symbolic link, or one stands in the path to it.
        """
        path = self.path(uri)
        assert path.strip("/").count("/") >= 1, "a folder within another"
        try:
            if self.scheme == "file":
                remove_tree(path, self._reached_from(uri, root))
            else:
                self.filesystem.delete_dir(path)
        except FileNotFoundError:
            return False
        return True

    def remove_empty_folders(self, uri: str) -> None:
        """Remove a folder, and those in it, as far as they hold nothing; links stay, and object stores have no folders.

        What somebody puts into them meanwhile stays, and `create` and `move` make a folder again that goes under them.

        Args:
            uri: The folder.
        """
        if self.scheme != "file":
            return
        with suppress(OSError):  # it is gone, or behind a link
            remove_empty(self.path(uri), self._reached_from(uri, ""))

    def sync(self, uri: str) -> None:
        """Make a file durable that another library wrote and closed; object stores did so themselves."""
        if self.scheme == "file":
            path = self.path(uri)
            sync(path)
            sync(os.path.dirname(path))

    def _reached_from(self, uri: str, root: str) -> str:
        """The folder below which no link is followed to a place: of its table, else one that is given, else its own."""
        table, found, _ = uri.partition("/.hoodie/")
        return self.path(table if found else root.rstrip("/") or uri.rpartition("/")[0])

    @staticmethod
    def _rename(path: str, target: str, renew: bool, root: str, target_root: str) -> None:
        move_new(path, root, target, target_root, renew)

    def _copy(self, source: FileInfo, target: str) -> None:
        """All of an object under another name, or nothing."""
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
            # A stream that is closed on the way out makes an object of what it has.
            self.delete(target)
            raise

    def _select(self, uri: str, recursive: bool) -> Iterable[pafs.FileInfo]:
        selector = pafs.FileSelector(self.path(uri), recursive=recursive, allow_not_found=True)
        entries: list[pafs.FileInfo] = self.filesystem.get_file_info(selector)
        return entries


def root_of(uri: str) -> str:
    """What one file system serves: a scheme, or a scheme and whose storage it is.

    Args:
        uri: Any place on it.

    Returns:
        The beginning of every normalised URI on that file system.

    Example:
        >>> root_of("s3a://lake/t"), root_of("hdfs://name:8020/t")
        ('s3://', 'hdfs://name:8020')
    """
    scheme = scheme_of(uri)
    if scheme in _ROOTS_WITH_AUTHORITY:
        return f"{scheme}://{uri.partition('://')[2].partition('/')[0]}"
    return f"{scheme}://"


def open_storage(uri: str, options: StorageOptions) -> Storage:
    """The file system a place lies on, opened once per process and settings.

    Args:
        uri: The place.
        options: Hadoop's settings for it.

    Returns:
        The file system.

    Raises:
        MissingDependencyError: The scheme needs a package that is not installed.
        UnsupportedTableError: Nothing in this process can open that scheme.
    """
    return _opened(root_of(uri), options.at(uri))


@lru_cache(maxsize=64)
def _opened(root: str, options: StorageOptions) -> Storage:
    scheme = scheme_of(root)
    if scheme == "file":
        return Storage(pafs.LocalFileSystem(), "file://")
    if scheme == "s3":
        return Storage(pafs.S3FileSystem(**s3_arguments(options)), "s3://")
    if scheme in _AZURE_SCHEMES:
        container, _, host = root.partition("://")[2].rpartition("@")
        return Storage(pafs.AzureFileSystem(**azure_arguments(host, options)), root, container)
    if scheme == "hdfs":
        return Storage(_hdfs(root, options), root)
    return Storage(_through_fsspec(scheme, **(gcs_arguments(options) if scheme == "gs" else {})), f"{scheme}://")


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
