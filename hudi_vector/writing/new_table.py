"""A table that a write with blobs made, and removes if the write fails before Hudi gets a row."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hudi_vector.blobs.uploads.manifest import UPLOADS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table.config import TableConfig
    from hudi_vector.writing.files import Files

__all__ = ["NewTable"]

_LOG = logging.getLogger(__name__)
# The folders that a write with blobs makes below .hoodie before Hudi gets its rows.
_OURS = frozenset({"blobs", "blob_service"})


@dataclass(frozen=True)
class NewTable:
    """A new table without rows, with the state of its folder right after it was made.

    `quoted_name` is its name in the catalog, None if it has none; `instants` are the files of its timeline, `entries`
    the names in ``.hoodie``.
    """

    path: str
    quoted_name: str | None
    timeline: str
    instants: frozenset[str]
    entries: frozenset[str]

    @classmethod
    def of(cls, files: Files, path: str, quoted_name: str | None, config: TableConfig) -> NewTable:
        """Return the table at a path in its present state."""
        timeline = config.layout.folder(path)
        return cls(path, quoted_name, timeline, *_found(files, path, timeline))

    def take_back(self, spark: SparkSession, files: Files, write_id: str) -> None:
        """Remove the table if nothing has happened to it but its creation and this failed upload.

        Failures of Spark and Hadoop are only logged.
        """
        try:
            if self._is_untouched(files, write_id):
                if self.quoted_name is not None:
                    spark.sql(f"DROP TABLE IF EXISTS {self.quoted_name}")
                files.delete(self.path)
        except (Py4JJavaError, PySparkException):
            # The write's own error is more important; a leftover table without rows does no harm.
            _LOG.warning("the table without rows at %s could not be removed", self.path, exc_info=True)

    def _is_untouched(self, files: Files, write_id: str) -> bool:
        instants, entries = _found(files, self.path, self.timeline)
        uploads = files.listing(f"{self.path}/{UPLOADS}").keys()
        # One commit has at most three files on the timeline: requested, inflight and completed.
        alone = len(self.instants) <= 3 and instants == self.instants and uploads <= {write_id}
        return alone and entries - _OURS == self.entries and files.listing(self.path).keys() == {".hoodie"}


def _found(files: Files, path: str, timeline: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the timeline's files and of the entries of ``.hoodie``."""
    names = (name for name in files.listing(timeline) if name[:1].isdigit())
    return frozenset(names), frozenset(files.listing(f"{path}/.hoodie"))
