"""The files that still hold vectors of a column, whatever version of the table they belong to."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError
from hudi_vector.progress import followed
from hudi_vector.read.logs.blocks import (
    AVRO_DATA,
    COMMAND,
    DELETE,
    PARQUET_DATA,
    LogBlock,
    read_blocks,
    rows_of_block,
    schema_of_block,
)
from hudi_vector.read.row_groups import read_group
from hudi_vector.shown import Shown
from hudi_vector.storage.parallel import room
from hudi_vector.table.avro_names import with_full_names
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.retention.retained import BASE, RetainedFile, list_retained
from hudi_vector.table_services.retention.savepoints import saved_files

__all__ = ["ColumnHolder", "holders_of"]

_AT_ONCE = 256
"""The number of files after which progress is shown."""


@dataclass(frozen=True, repr=False)
class ColumnHolder(Shown):
    """A data file that holds vectors of a column.

    Attributes:
        path: The path below the table's folder.
        bytes: The size of the whole file.
        instant: The commit that wrote it.
        needs: What removes the file.

    Example:
        >>> [holder.path.endswith(".parquet") for holder in hv.vectors.find_vectors(spark, "articles", "old")][:1]
        [True]
    """

    path: str
    bytes: int
    instant: str
    needs: str


def holders_of(native: NativeTable, column: str) -> tuple[list[ColumnHolder], list[str]]:
    """Return the retained data files with a value in the column, and doubts: what could not be read."""
    retained = list_retained(native.source.uri, native.storage)
    doubts, holders = list(retained.doubts), []
    saved, pending = saved_files(native), native.timeline().pending
    newest = {info.uri for entry in native.snapshot().file_slices for info in entry.files}
    answers = followed(_looked_at(native, retained.files, column), len(retained.files), "data files searched")
    for file, answer in zip(retained.files, answers, strict=True):
        if isinstance(answer, str):
            doubts.append(answer)
        elif answer:
            needs = _needs(file, saved, pending, file.info.uri in newest)
            holders.append(ColumnHolder(file.path, file.info.size, file.instant, needs))
    return holders, doubts


def _looked_at(native: NativeTable, files: Sequence[RetainedFile], column: str) -> Iterator[bool | str]:
    """Yield for each file whether it has a value in the column, or the sentence that says why this is unknown."""
    for first in range(0, len(files), _AT_ONCE):
        yield from native.storage.each(partial(_look, native, column), files[first : first + _AT_ONCE])


def _look(native: NativeTable, column: str, file: RetainedFile) -> bool | str:
    try:
        return _holds(native, file, column)
    except FileNotFoundError:
        return False  # Hudi's clean removed it meanwhile
    except (OSError, ValueError, pa.ArrowException, DataFileError) as problem:
        return f"'{file.path}' cannot be read: {problem}"


def _needs(file: RetainedFile, saved: dict[str, str], pending: frozenset[str], is_newest: bool) -> str:
    if file.path in saved:
        return f"savepoint {saved[file.path]} to be deleted, and Hudi's clean after it"
    if file.instant in pending:
        return f"instant {file.instant} to complete or to be rolled back"
    if is_newest:
        return "hv.vectors.drop_column, or with merge-on-read Hudi's compaction, and Hudi's clean after it"
    return "Hudi's clean, which keeps as many versions as its settings say"


def _holds(native: NativeTable, file: RetainedFile, column: str) -> bool:
    with native.storage.open(file.info.uri, size=file.info.size) as source:
        if file.kind == BASE:
            return _in_parquet(source, column)
        with room(file.info.size):
            return any(_in_block(block, column) for block in read_blocks(source))


def _in_parquet(source: Any, column: str) -> bool:
    """Return True if a Parquet file has a value in the column, by its footer, else by its values."""
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        if column not in file.schema_arrow.names:
            return False
        return any(_in_row_group(file, group, column) for group in range(file.num_row_groups))


def _in_row_group(file: pq.ParquetFile, group: int, column: str) -> bool:
    about = file.metadata.row_group(group)
    chunks = (about.column(at) for at in range(about.num_columns))
    chunk = next(each for each in chunks if each.path_in_schema.split(".")[0] == column)
    statistics, values = chunk.statistics, chunk.num_values
    # A footer that gives the column fewer values than rows is damaged: to read them is an error.
    if statistics is not None and statistics.has_null_count and values >= about.num_rows:
        if statistics.null_count == values:
            return False
        if chunk.path_in_schema == column:  # no list, whose NULLs may be elements
            return True
    with room(chunk.total_uncompressed_size):
        found = read_group(file, group, [column])[column]
        return bool(found.null_count < len(found))


def _in_block(block: LogBlock, column: str) -> bool:
    if block.kind == PARQUET_DATA:
        return _in_parquet(pa.BufferReader(pa.py_buffer(block.content)), column)
    if block.kind in (COMMAND, DELETE):
        return False
    if block.kind != AVRO_DATA:
        raise DataFileError("it has a block of a kind whose rows are not searched")
    return any(row.get(column) is not None for row in _avro_rows(block))


def _avro_rows(block: LogBlock) -> Iterator[dict[str, Any]]:
    schema = fastavro.parse_schema(with_full_names(json.loads(schema_of_block(block))))
    for row in rows_of_block(block):
        read: Any = fastavro.schemaless_reader(io.BytesIO(row), schema, None)
        yield read
