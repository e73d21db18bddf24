"""Small storage operations of a write, through the file systems that the Spark session writes with."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError

from hudi_vector.errors import DataFileError
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.storage import StorageOptions, normalise, open_storage, scheme_of, why_unread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files"]

T = TypeVar("T")


class Files:
    """Hadoop's file systems with the session's settings, so that every scheme and credential of Spark works."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = handles_of(spark)
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def qualified(self, path: str) -> str:
        """Return the absolute URI of a path, as Hudi spells it."""
        system, where = self._open(path)
        uri: str = system.makeQualified(where).toString()
        return uri.rstrip("/")

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, or None if there is none."""
        system, where = self._open(path)

        def content() -> bytes:
            stream = system.open(where)
            try:
                return bytes(self._java.named("org.apache.commons.io.IOUtils").toByteArray(stream))
            finally:
                stream.close()

        return _if_there(system, where, content)

    def is_empty(self, path: str) -> bool:
        """Return True if nothing or an empty folder is at a path."""
        system, where = self._open(path)
        return not _if_there(system, where, lambda: len(system.listStatus(where)))  # of a file, itself is listed

    def listing(self, folder: str) -> dict[str, int]:
        """Return the names in a folder with their modification times in milliseconds; empty if there is no folder."""
        if scheme_of(folder) == "file":  # each entry of Hadoop's answer takes six calls to Java
            return _local_listing(normalise(folder).removeprefix("file://"))
        system, where = self._open(folder)
        entries = _if_there(system, where, lambda: system.listStatus(where)) or ()
        return {entry.getPath().getName(): entry.getModificationTime() for entry in entries}

    def delete(self, path: str) -> None:
        """Remove a folder and its content, if it exists; symbolic links on a local disk are not followed.

        Raises DataFileError if a component of a local path is a symbolic link.
        """
        if scheme_of(path) == "file":  # Hadoop would follow symbolic links
            uri = normalise(path)
            open_storage(uri, StorageOptions()).remove_folder(uri)
            return
        system, where = self._open(path)
        system.delete(where, True)

    def _open(self, path: str) -> tuple[Any, Any]:
        where = self._java.named("org.apache.hadoop.fs.Path")(path)
        return where.getFileSystem(self._configuration), where


def _local_listing(folder: str) -> dict[str, int]:
    """Return what Hadoop lists of a local folder: all names but those of its checksums."""
    listed = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.name.startswith(".") and entry.name.endswith(".crc")):
                    with suppress(FileNotFoundError):  # removed since
                        listed[entry.name] = entry.stat().st_mtime_ns // 1_000_000
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        raise DataFileError(f"the folder '{folder}' cannot be listed: {why_unread(problem, folder)}") from problem
    return listed


def _if_there(system: Any, where: Any, look: Callable[[], T]) -> T | None:
    """Return the result of a call, or None if nothing is at a path: that is asked for only once the call has failed."""
    try:
        return look()
    except Py4JJavaError:
        if system.exists(where):
            raise
        return None
