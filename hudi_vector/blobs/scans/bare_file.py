"""The rows of a base file without the bytes of its BLOB columns, of which only lengths and places are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.blobs.reading.base_files import blob_column, blob_columns
from hudi_vector.blobs.struct import BLOB_TYPE, BlobColumns
from hudi_vector.read.parquet.byte_column import Located
from hudi_vector.read.row_groups import read_group_batches
from hudi_vector.storage import scheme_of

__all__ = ["BareFile", "BareRows", "fields_of"]

_BATCH_BYTES = 4 << 20
_MOST_ROWS = 8192
_PAGE_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class BareRows:
    """Some rows of a base file; BLOB columns lack their field ``data``.

    `first` is the number of the first row in the file; `data` has the lengths and places of the bytes of these rows by
    BLOB column.
    """

    rows: pa.RecordBatch
    first: int
    data: Mapping[str, Located]


def fields_of(blobs: pa.StructArray, data: Located, label: str) -> BlobColumns:
    """Return the fields of blobs whose ``data`` was not read: of these bytes it is only known whether there are any.

    `label` names the column in messages. Raises InvalidBlobError if the struct is none of a blob.
    """
    has_data = pa.array(data.length >= 0)
    held = {field.name: blobs.field(number) for number, field in enumerate(blobs.type)}
    held["data"] = pc.if_else(has_data, pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))
    names = [name for name in BLOB_TYPE.names if name in held]
    return BlobColumns.of(
        pa.StructArray.from_arrays([held[name] for name in names], names, mask=blobs.is_null()), label
    )


class BareFile:
    """An open base file in Parquet; `columns` are the dotted paths of its BLOB columns."""

    def __init__(self, source: pa.NativeFile, uri: str) -> None:
        """Read the footer of an open file."""
        self._source = source
        self._uri = uri
        # On a disk, pages are read as needed instead of whole row groups; from a store, what lies close together is one
        # request.
        remote = scheme_of(uri) != "file"
        self._parquet = pq.ParquetFile(
            source, pre_buffer=remote, buffer_size=_PAGE_BUFFER_BYTES, coerce_int96_timestamp_unit="us"
        )
        self.columns = tuple(blob_columns(self._parquet.metadata))

    def spelled(self, column: str) -> str | None:
        """Return a BLOB column as the file spells it; None for a column that the table got after the file."""
        return next((found for found in self.columns if found.lower() == column.lower()), None)

    def rows(self, blobs: Collection[str], is_wanted: Callable[[str], bool]) -> Iterator[BareRows]:
        """Yield all rows in order, in batches of at most about 4 MiB and 8192 rows.

        `blobs` are some of `columns`; `is_wanted` says of the dotted path of a leaf whether it is read.
        """
        metadata = self._parquet.metadata
        bytes_of = {name: blob_column(self._source, metadata, name, self._uri) for name in blobs}
        own = {f"{name}.data" for name in blobs}
        paths = (metadata.schema.column(i).path for i in range(len(metadata.schema)))
        leaves = [path for path in paths if path not in own and is_wanted(path)]
        row = 0
        for group in range(metadata.num_row_groups):
            located = {name: values.locate(group) for name, values in bytes_of.items()}
            first = row
            size = _rows_at_once(metadata.row_group(group), frozenset(leaves))
            for batch in read_group_batches(self._parquet, group, leaves, size):
                here = slice(row - first, row - first + batch.num_rows)
                data = {name: Located(held.length[here], held.offset[here]) for name, held in located.items()}
                yield BareRows(batch, row, data)
                row += batch.num_rows


def _rows_at_once(group: pq.RowGroupMetaData, leaves: frozenset[str]) -> int:
    """Return the number of rows whose columns in `leaves` have about 4 MiB, at most 8192 and at least 1."""
    columns = (group.column(i) for i in range(group.num_columns))
    size = sum(int(column.total_uncompressed_size) for column in columns if column.path_in_schema in leaves)
    return max(1, min(_MOST_ROWS, _BATCH_BYTES * int(group.num_rows) // max(1, size)))
