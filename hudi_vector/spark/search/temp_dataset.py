"""Temporary datasets: a DataFrame that executors write once, to Parquet files, and that can be searched many times.

A dataset is kept until it is released or the application ends. Datasets that a dead application left are removed by the
next application that writes to the same directory (`hudi_vector.storage.temp_area`).
"""

from __future__ import annotations

import atexit
import json
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from hudi_vector import options
from hudi_vector.errors import InvalidOptionError, UnsupportedTableError
from hudi_vector.query.files.temporary import TempTable, WrittenPart, unstorable
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.worker_errors import from_worker, in_few_words
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import StorageOptions, normalise
from hudi_vector.storage.leases import Renewals
from hudi_vector.storage.temp_area import LIVE_MS, TempArea
from hudi_vector.table.model import Snapshot

__all__ = ["TempDataset", "temp_directory", "write_temporary"]


class TempDataset:
    """A temporary dataset of Parquet files.

    `snapshot` is the snapshot to search, and `physical` maps the DataFrame's column names to the dataset's. `rows` and
    `nbytes` are the rows and bytes written; `left_out` counts the rows without a usable vector.

    Example:
        >>> column = VectorColumn("embedding", 3, "float")
        >>> with write_temporary(products.select("id", "embedding"), column, {}) as dataset:
        ...     len(dataset.snapshot.file_slices) > 0
        True
    """

    def __init__(self, table: TempTable, snapshot: Snapshot, parts: list[WrittenPart], kept: _KeptArea) -> None:
        self._table = table
        self._kept = kept
        self.snapshot = snapshot
        self.physical: Mapping[str, str] = table.physical
        self.rows = sum(part.rows for part in parts)
        self.left_out = sum(part.left_out for part in parts)
        self.nbytes = sum(part.nbytes for part in parts)

    def __enter__(self) -> TempDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    @property
    def place(self) -> str:
        """Return the dataset's location, a normalised URI."""
        return self._table.place

    def release(self) -> None:
        """Remove the dataset; DataFrames made from it can no longer be computed. A second call does nothing."""
        self._kept.remove(self.place)


def write_temporary(frame: DataFrame, column: VectorColumn, conf: Mapping[str, str]) -> TempDataset:
    """Compute a DataFrame once and write it to temporary Parquet files, without rows that lack a usable vector.

    `column` is the vector column with its dimension. `conf` are settings as text. Raises InvalidOptionError if the
    master is not local and no directory is set, UnsupportedTableError if Parquet cannot store a column or the executors
    do not see the directory, RefusedError if there are more bytes than allowed.
    """
    spark = frame.sparkSession
    directory = temp_directory(conf, str(spark.sparkContext.master))
    fields = arrow_fields(frame.schema)
    for field in fields:
        reason = unstorable(field.type)
        if reason is not None:
            raise UnsupportedTableError(f"column '{field.name}' cannot be written to a temporary dataset: {reason}")
    storage = storage_options(spark, directory)
    kept, place = _new_place(spark.sparkContext, directory, storage)
    table = TempTable(place, tuple(fields), column, options.JOIN_TEMP_MAX_BYTES.read(conf), storage)
    try:
        parts = [
            WrittenPart(**json.loads(row[0])) for row in map_in_arrow(frame, _task(table), "part STRING").collect()
        ]
        return TempDataset(table, table.snapshot(parts), parts, kept)
    except PySparkException as problem:
        kept.discard(place)
        raise from_worker(problem) or problem from None
    except BaseException:
        kept.discard(place)
        raise


def temp_directory(conf: Mapping[str, str], master: str) -> str:
    """Return the directory for temporary datasets, a normalised URI, from settings as text and Spark's master.

    Raises InvalidOptionError if the executors are on other machines and no directory is set.

    Example:
        >>> temp_directory({"hoodie.vector.join.temp.dir": "s3a://lake/tmp"}, "yarn")
        's3://lake/tmp'
    """
    given = options.JOIN_TEMP_DIR.read(conf)
    if not given and not master.startswith("local"):
        raise InvalidOptionError(
            f"with the master '{master}' a computed side of a join is written where all executors reach it; set "
            f"{options.JOIN_TEMP_DIR.key} to a directory on a shared file system, such as s3://…"
        )
    return normalise(given or tempfile.gettempdir())


def _task(table: TempTable) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            part = table.write(batches)
        yield pa.record_batch({"part": [json.dumps(asdict(part))]})

    return run


class _KeptArea:
    """The temporary area of an application in one directory; its lease is renewed until the area is empty."""

    def __init__(self, context: SparkContext, directory: str, storage: StorageOptions) -> None:
        self._context: Any = context
        self._key = (str(context.applicationId), directory)
        self._discarded: set[str] = set()
        self.area = TempArea(directory, storage, self._key[0])
        self._renewals = Renewals(f"the lease of '{self.area.folder}'", self._renew, LIVE_MS)
        self._renewals.__enter__()

    @property
    def ended(self) -> bool:
        """Return True if the application has ended while this process still runs."""
        return self._context._jsc is None

    def remove(self, place: str) -> None:
        """Remove the dataset at a place, and the whole area once it is empty."""
        with _LOCK:
            was_there = self.area.remove(place)
            emptied = was_there and not self.area.places
            if emptied:
                self.close()
        if emptied:
            self._renewals.__exit__(None, None, None)

    def discard(self, place: str) -> None:
        """Remove the files at a place now, and at later renewals the files that tasks of a failed job still write."""
        self._discarded.add(place)
        self.area.empty(place)

    def close(self) -> None:
        """Remove the area with all its datasets; the caller holds `_LOCK`."""
        _AREAS.pop(self._key, None)
        self.area.close()

    def _renew(self) -> None:
        if self.ended:
            with _LOCK:
                self.close()
            return
        self.area.renew()
        for place in list(self._discarded):
            if not self.area.empty(place):
                self._discarded.discard(place)
                self.area.remove(place)


_AREAS: dict[tuple[str, str], _KeptArea] = {}
_LOCK = threading.RLock()


def _new_place(context: SparkContext, directory: str, storage: StorageOptions) -> tuple[_KeptArea, str]:
    """Return the application's area in a directory, which is made if missing, and a new place in it."""
    with _LOCK:
        for other in [kept for kept in _AREAS.values() if kept.ended]:
            other.close()
        key = (str(context.applicationId), directory)
        kept = _AREAS.get(key)
        if kept is None:
            kept = _AREAS[key] = _KeptArea(context, directory, storage)
            kept.area.sweep()
        return kept, kept.area.new_place()


@atexit.register
def _close_all() -> None:
    with _LOCK:
        for kept in list(_AREAS.values()):
            kept.close()
