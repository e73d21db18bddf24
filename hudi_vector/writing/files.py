"""The little that a write reads from storage itself, through the file systems its Spark session writes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudi_vector.storage import StorageOptions, normalise, open_storage, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files"]


class Files:
    """Hadoop's file systems with the session's settings: any scheme and credential that Spark itself has."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def qualified(self, path: str) -> str:
        """The path with its scheme, as Hudi writes it down.

        Args:
            path: A path or URI.

        Returns:
            An absolute URI.
        """
        system, where = self._open(path)
        uri: str = system.makeQualified(where).toString()
        return uri.rstrip("/")

    def read(self, path: str) -> bytes | None:
        """The content of a small file, or None where there is none."""
        system, where = self._open(path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def is_empty(self, path: str) -> bool:
        """Whether nothing is at a path: no file, and no folder with something in it."""
        system, where = self._open(path)
        if not system.exists(where):
            return True
        return bool(system.getFileStatus(where).isDirectory()) and len(system.listStatus(where)) == 0

    def listing(self, folder: str) -> dict[str, int]:
        """The names in a folder with their modification times in milliseconds; none where it does not exist."""
        system, where = self._open(folder)
        if not system.exists(where):
            return {}
        return {entry.getPath().getName(): entry.getModificationTime() for entry in system.listStatus(where)}

    def size(self, path: str) -> int:
        """Bytes of all files below a path; 0 where there is none."""
        system, where = self._open(path)
        return int(system.getContentSummary(where).getLength()) if system.exists(where) else 0

    def delete(self, path: str) -> None:
        """Remove a folder with everything in it, if it is there; a link on a local disk is not followed to it.

        Raises:
            DataFileError: A symbolic link stands in the path to it.
        """
        if scheme_of(path) == "file":  # Hadoop follows links
            uri = normalise(path)
            open_storage(uri, StorageOptions()).remove_folder(uri)
            return
        system, where = self._open(path)
        system.delete(where, True)

    def _open(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where.getFileSystem(self._configuration), where
