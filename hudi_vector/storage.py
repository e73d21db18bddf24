"""Paths, schemes and credentials: one mapping for Hadoop, pyarrow, fsspec and hudi-rs.

Credentials travel beside a plan in `StorageOptions`, whose text form never shows them.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_vector.errors import DataFileError, MissingDependencyError, UnsupportedTableError

__all__ = [
    "FileInfo",
    "NewFile",
    "Storage",
    "StorageOptions",
    "hudi_rs_options",
    "join",
    "lance_options",
    "normalise",
    "open_storage",
    "scheme_of",
]

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_FS_S3A = "fs.s3a."


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Hadoop's storage settings, as ``fs.…`` keys and values; their text form is masked."""

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str]) -> StorageOptions:
        """Keep the settings that storage is opened with.

        Args:
            values: Hadoop keys (``fs.s3a.endpoint``) with or without the prefix ``spark.hadoop.``.

        Returns:
            The settings, ordered, so that equal settings are equal objects.
        """
        short = {key.removeprefix("spark.hadoop."): value for key, value in values.items()}
        return cls(tuple(sorted((key, value) for key, value in short.items() if key.startswith("fs."))))

    def get(self, key: str) -> str | None:
        """The value of a key, or None."""
        return dict(self.values).get(key)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(key + '=***' for key, _ in self.values)})"


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


def join(base: str, *parts: str) -> str:
    """A URI below another; empty parts add nothing."""
    return "/".join([base, *[part for part in parts if part]])


class NewFile:
    """A file that was not there before, written once from its start to its end."""

    def __init__(self, stream: BinaryIO | pa.NativeFile, local_path: str | None) -> None:
        self.stream = stream
        self._local_path = local_path

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes."""
        self.stream.write(content)

    def close(self) -> None:
        """Close the file; when this returns, its bytes and its name outlive a crash of the machine."""
        if self._local_path is None:
            self.stream.close()
            return
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        _sync(os.path.dirname(self._local_path))

    def discard(self) -> None:
        """Close the file without waiting for its bytes, which stay where they are."""
        self.stream.close()


class Storage:
    """One file system, opened once: lists, reads and writes what lies on it."""

    def __init__(self, filesystem: pafs.FileSystem, scheme: str) -> None:
        self.filesystem = filesystem
        self.scheme = scheme

    @property
    def fsspec(self) -> Any | None:
        """The driver of fsspec below, or None where pyarrow has its own."""
        return self.filesystem.handler.fs if isinstance(self.filesystem, pafs.PyFileSystem) else None

    def path(self, uri: str) -> str:
        """The path pyarrow wants for a normalised URI."""
        return uri[len("file://") :] if self.scheme == "file" else uri.partition("://")[2]

    def uri(self, path: str) -> str:
        """The normalised URI of a path pyarrow gave."""
        return f"{self.scheme}://{path}"

    def list_files(self, uri: str, recursive: bool = False) -> list[FileInfo]:
        """The files in a folder; a folder that is not there has none.

        Args:
            uri: The folder.
            recursive: Whether to look into the folders in it too.

        Returns:
            The files, in the order of the listing.
        """
        if self.scheme == "file":
            return list(_scan_local(self.path(uri), recursive))
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

    def read(self, uri: str) -> bytes:
        """The whole content of a small file.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with self.filesystem.open_input_stream(self.path(uri)) as stream:
            content: bytes = stream.read()
        return content

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
            _make_folders(os.path.dirname(path))
            return NewFile(open(path, "xb"), path)
        if self.filesystem.get_file_info(path).type != pafs.FileType.NotFound:
            raise FileExistsError(f"'{uri}' is there already")
        return NewFile(self.filesystem.open_output_stream(path), None)

    def publish(self, uri: str, content: bytes) -> None:
        """Make a small file appear as a whole, durable, under a name nobody else uses.

        Args:
            uri: The name, unique by construction.
            content: All of it.
        """
        if self.scheme != "file":
            file = self.create(uri)  # an object appears when it is closed, as a whole
            file.write(content)
            file.close()
            return
        folder, name = os.path.split(self.path(uri))
        hidden = f"{folder}/.{name}.tmp"
        file = self.create(self.uri(hidden))
        file.write(content)
        file.close()
        os.replace(hidden, f"{folder}/{name}")
        _sync(folder)

    def sync(self, uri: str) -> None:
        """Make a file durable that another library wrote and closed; object stores did so themselves."""
        if self.scheme == "file":
            path = self.path(uri)
            _sync(path)
            _sync(os.path.dirname(path))

    def _select(self, uri: str, recursive: bool) -> Iterable[pafs.FileInfo]:
        selector = pafs.FileSelector(self.path(uri), recursive=recursive, allow_not_found=True)
        entries: list[pafs.FileInfo] = self.filesystem.get_file_info(selector)
        return entries


@lru_cache(maxsize=64)
def open_storage(scheme: str, options: StorageOptions) -> Storage:
    """The file system of a scheme, opened once per process and settings.

    Args:
        scheme: As `scheme_of` gives it.
        options: Hadoop's settings for it.

    Returns:
        The file system.

    Raises:
        UnsupportedTableError: Nothing in this process can open that scheme.
    """
    if scheme == "file":
        return Storage(pafs.LocalFileSystem(), scheme)
    if scheme == "s3":
        return Storage(pafs.S3FileSystem(**_s3_arguments(options)), scheme)
    return Storage(_through_fsspec(scheme), scheme)


def hudi_rs_options(scheme: str, options: StorageOptions) -> dict[str, str]:
    """The same settings in the words of hudi-rs.

    Args:
        scheme: As `scheme_of` gives it.
        options: Hadoop's settings for it.

    Returns:
        Options for ``hudi.HudiTable``.
    """
    if scheme != "s3":
        return {}
    arguments = _s3_arguments(options)
    endpoint = arguments.get("endpoint_override")
    mapped = {
        "aws_access_key_id": arguments.get("access_key"),
        "aws_secret_access_key": arguments.get("secret_key"),
        "aws_session_token": arguments.get("session_token"),
        "aws_region": arguments.get("region"),
        "aws_endpoint": f"{arguments['scheme']}://{endpoint}" if endpoint else None,
        "aws_allow_http": "true" if arguments["scheme"] == "http" else None,
    }
    return {key: str(value) for key, value in mapped.items() if value is not None}


def lance_options(scheme: str, options: StorageOptions) -> dict[str, str] | None:
    """The same settings in the words of pylance, or None where it needs none."""
    return hudi_rs_options(scheme, options) or None


def _s3_arguments(options: StorageOptions) -> dict[str, Any]:
    endpoint = options.get(_FS_S3A + "endpoint")
    ssl = (options.get(_FS_S3A + "connection.ssl.enabled") or "true").lower() == "true"
    scheme = "https" if ssl else "http"
    if endpoint and "://" in endpoint:
        scheme, endpoint = endpoint.split("://", 1)
    arguments: dict[str, Any] = {
        "access_key": options.get(_FS_S3A + "access.key"),
        "secret_key": options.get(_FS_S3A + "secret.key"),
        "session_token": options.get(_FS_S3A + "session.token"),
        "region": options.get(_FS_S3A + "endpoint.region") or ("us-east-1" if endpoint else None),
        "endpoint_override": endpoint,
        "scheme": scheme,
    }
    if (options.get(_FS_S3A + "path.style.access") or "").lower() == "false":
        arguments["force_virtual_addressing"] = True
    return {key: value for key, value in arguments.items() if value is not None}


def _through_fsspec(scheme: str) -> pafs.FileSystem:
    import fsspec

    try:
        found = fsspec.filesystem(scheme)
    except ImportError as absent:
        raise MissingDependencyError(f"reading '{scheme}://' outside Spark needs another package: {absent}") from absent
    except ValueError as unknown:
        raise UnsupportedTableError(f"'{scheme}://' is a scheme that only Spark can read here: {unknown}") from unknown
    return pafs.PyFileSystem(pafs.FSSpecHandler(found))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folders(folder: str) -> None:
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folders(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        return  # another task was quicker
    _sync(parent)  # the name of a new folder is an entry of its parent


def _scan_local(folder: str, recursive: bool) -> Iterator[FileInfo]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.is_dir():
                if recursive:
                    yield from _scan_local(entry.path, recursive)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # removed since the listing began
            yield FileInfo("file://" + entry.path, status.st_size, status.st_mtime_ns)
