"""Sides of a join that are named by the path of a Lance dataset or Delta table, as snapshots and as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from hudi_vector.errors import HudiVectorError
from hudi_vector.query.files.plain_files import DeltaFiles
from hudi_vector.query.lance.dataset import LanceDataset
from hudi_vector.read.conform import conform
from hudi_vector.read.lance_fragment import FragmentRows
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.resolve import is_path, storage_options
from hudi_vector.storage import Storage, join, normalise, open_storage
from hudi_vector.table.model import FileSlice, FragmentInfo, Snapshot

__all__ = ["stored_frame", "stored_snapshot"]

_ROWS_AT_ONCE = 4096
_UNSEARCHED = VectorColumn("", 0, "float", is_vector=False)


def stored_snapshot(spark: SparkSession, name: str) -> tuple[str, Snapshot] | None:
    """Return ``lance`` or ``files`` and the current snapshot at the path of a Lance dataset or Delta table.

    Return None for every other name or path. Raises UnsupportedTableError if the Delta table cannot be read from its
    files, MissingDependencyError if the package that reads the format is not installed.
    """
    if not is_path(name):
        return None
    try:
        uri = normalise(name)
        options = storage_options(spark, uri)
        storage = open_storage(uri, options)
        is_lance, is_delta = (_holds(storage, join(uri, folder)) for folder in ("_versions", "_delta_log"))
    except (HudiVectorError, OSError):
        return None  # this package cannot open the path: it is resolved like any other name
    if is_lance:
        return "lance", LanceDataset(uri, options).snapshot()
    return ("files", DeltaFiles(uri, options).snapshot()) if is_delta else None


def _holds(storage: Storage, folder: str) -> bool:
    return bool(storage.list_files(folder))


def stored_frame(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Return the rows of a snapshot as a DataFrame with one task for each slice.

    VECTOR columns are marked by their metadata, as in Hudi tables.
    """
    kinds = {field.name: (field.metadata or {}).get(HUDI_TYPE.encode(), b"").decode() for field in snapshot.schema}
    plain = from_arrow_schema(pa.schema([field.remove_metadata() for field in snapshot.schema]))
    fields = [
        StructField(f.name, f.dataType, True, {HUDI_TYPE: kinds[f.name]} if kinds[f.name] else None) for f in plain
    ]
    slices = len(snapshot.file_slices)
    return map_in_arrow(spark.range(0, slices, 1, max(1, slices)), _reader(snapshot), StructType(fields))


def _reader(snapshot: Snapshot) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, _UNSEARCHED, options=snapshot.source.options)
    slices, fields = snapshot.file_slices, list(snapshot.schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for rows in _rows(slices[number], spec):
                        yield from conform(rows, fields).combine_chunks().to_batches()

    return read


def _rows(entry: FileSlice, spec: ScanSpec) -> Iterator[pa.Table | pa.RecordBatch]:
    file = entry.base_file
    assert file is not None
    names = spec.schema.names
    if isinstance(file, FragmentInfo):
        for _, batch in FragmentRows(file, spec.options).batches(names):
            yield batch
        return
    reader = ParquetSlice(file, spec, keep=False, constants=entry.constants)
    there = np.arange(reader.row_count())
    if entry.deleted is not None:
        there = there[~entry.deleted.mask(len(there), file.uri)]
    for start in range(0, len(there), _ROWS_AT_ONCE):
        yield reader.rows(there[start : start + _ROWS_AT_ONCE], names)
