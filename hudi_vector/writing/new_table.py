"""A table that a write made for its blobs, and takes back where it fails before Hudi was handed a row."""

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
# What a write with blobs makes below .hoodie before Hudi is handed its rows.
_OURS = frozenset({"blobs", "blob_service"})


@dataclass(frozen=True)
class NewTable:
    """A table without rows as it was made: its path, its name in the catalog if it has one, and what lay in it."""

    path: str
    quoted_name: str | None
    timeline: str
    instants: frozenset[str]
    entries: frozenset[str]

    @classmethod
    def of(cls, files: Files, path: str, quoted_name: str | None, config: TableConfig) -> NewTable:
        """The table at a path, as it is now."""
        timeline = f"{path}/.hoodie/{config.timeline_path}".rstrip("/")
        return cls(path, quoted_name, timeline, *_found(files, path, timeline))

    def take_back(self, spark: SparkSession, files: Files, write_id: str) -> None:
        """Remove the table, if nothing but its making and one failed upload ever happened to it."""
        try:
            if self._is_untouched(files, write_id):
                if self.quoted_name is not None:
                    spark.sql(f"DROP TABLE IF EXISTS {self.quoted_name}")
                files.delete(self.path)
        except (Py4JJavaError, PySparkException):
            # The write's own error says more; a table without rows does no harm.
            _LOG.warning("the table without rows at %s could not be removed", self.path, exc_info=True)

    def _is_untouched(self, files: Files, write_id: str) -> bool:
        instants, entries = _found(files, self.path, self.timeline)
        uploads = files.listing(f"{self.path}/{UPLOADS}").keys()
        # One commit is a request, a begin and an end.
        alone = len(self.instants) <= 3 and instants == self.instants and uploads <= {write_id}
        return alone and entries - _OURS == self.entries and files.listing(self.path).keys() == {".hoodie"}


def _found(files: Files, path: str, timeline: str) -> tuple[frozenset[str], frozenset[str]]:
    """The files of the timeline, and all that lies below ``.hoodie``."""
    names = (name for name in files.listing(timeline) if name[:1].isdigit())
    return frozenset(names), frozenset(files.listing(f"{path}/.hoodie"))
