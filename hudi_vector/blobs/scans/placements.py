"""Where the blobs of each row of a snapshot lie, read without Spark and without the bytes of blobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.reading.by_key import value_within
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.scans.bare_file import BareFile, BareRows, fields_of
from hudi_vector.blobs.scans.merged import KEY, SEQNO, logs_of, merge
from hudi_vector.blobs.struct import INLINE, BlobColumns
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.storage import FileInfo, open_storage
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["PLACEMENT_TYPE", "Placements", "why_not_here"]

_COMMIT_TIME = "_hoodie_commit_time"
PLACEMENT_TYPE = pa.struct(
    [
        ("kind", pa.string()),
        ("size", pa.int64()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("managed", pa.bool_()),
    ]
)
"""A blob without its bytes: the blob's type, the number of bytes of INLINE data, and the fields of its reference."""


def why_not_here(snapshot: Snapshot) -> str | None:
    """Return why only Spark reads where the blobs of a snapshot lie, or None."""
    if snapshot.needs_spark:
        return snapshot.needs_spark
    if not snapshot.config.populates_meta_fields:
        return "its rows have no meta columns"
    if any(each.base_file and not each.base_file.name.endswith(".parquet") for each in snapshot.file_slices):
        return "its base files are not Parquet"
    return None


@dataclass(frozen=True)
class Placements:
    """The placements of some BLOB columns, which are given as the names from the top-level column to the struct."""

    snapshot: Snapshot
    columns: tuple[tuple[str, ...], ...]

    def of_slice(self, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice: ``key``, ``partition``, ``commit_time``, and each column under its number.

        Placements are of `PLACEMENT_TYPE`. Raises DataFileError if a file is gone or damaged, UnmergeableError if only
        Spark can merge the log files of the slice.
        """
        logs = logs_of(self.snapshot, file_slice) if file_slice.log_files else None
        base = self._base(file_slice.base_file) if file_slice.base_file else iter(())
        if logs is not None:
            whole = pa.Table.from_batches(base)
            merged = merge(self.snapshot, file_slice, whole, logs)
            base = iter(
                [*whole.filter(pa.array(merged.stays)).combine_chunks().to_batches(), self._logged(merged.logged)]
            )
        for rows in base:
            yield self._named(rows, file_slice)

    def _base(self, file: FileInfo) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a base file, with Hudi's meta columns that say key and version."""
        names = [".".join(path) for path in self.columns]
        storage = open_storage(file.uri, self.snapshot.source.options)
        with reading(file.uri), storage.open(file.uri, mapped=False, size=file.size) as source:
            bare = BareFile(source, file.uri)
            spelled = [bare.spelled(name) for name in names]
            there = [name for name in spelled if name is not None]
            for part in bare.rows(there, lambda leaf: leaf in _META or _is_of(leaf, there)):
                columns = {name: part.rows.column(name) for name in _META}
                for number, name in enumerate(spelled):
                    columns[str(number)] = (
                        pa.nulls(len(part.rows), PLACEMENT_TYPE) if name is None else _placed(part, name, file.uri)
                    )
                yield pa.record_batch(columns)

    def _logged(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in _META}
        for number, path in enumerate(self.columns):
            blobs = BlobColumns.of(blob_rows([value_within(row, path) for row in rows]))
            columns[str(number)] = _placements(blobs, pc.binary_length(blobs.data).cast(pa.int64()))
        return pa.record_batch(columns)

    def _named(self, rows: pa.RecordBatch, file_slice: FileSlice) -> pa.RecordBatch:
        """Return rows with the names that `of_slice` says."""
        partition = pa.repeat(file_slice.partition_path, len(rows))
        named = {"key": rows[KEY], "partition": partition, "commit_time": rows[_COMMIT_TIME]}
        return pa.record_batch({**named, **{str(number): rows[str(number)] for number in range(len(self.columns))}})


_META = (KEY, SEQNO, _COMMIT_TIME)


def _is_of(leaf: str, columns: Sequence[str]) -> bool:
    return any(leaf.startswith(f"{name}.") for name in columns)


def _placed(part: BareRows, name: str, uri: str) -> pa.StructArray:
    """Return the placements of a column of a base file, whose bytes were not read."""
    blobs: Any = pa.StructArray.from_arrays(part.rows.columns, fields=list(part.rows.schema))
    for each in name.split("."):
        blobs = blobs.flatten()[blobs.type.get_field_index(each)]  # NULL where a struct around it is NULL
    length = part.data[name].length
    size = pa.array(length, mask=np.asarray(length < 0))
    return _placements(fields_of(blobs, part.data[name], f"column '{name}' of '{uri}'"), size)


def _placements(blobs: BlobColumns, size: pa.Int64Array) -> pa.StructArray:
    """Return placements; an INLINE blob that Hudi describes by a reference into its base file has its size there."""
    described = pc.if_else(pc.equal(blobs.kind, INLINE), blobs.length, pa.scalar(None, pa.int64()))
    fields = [blobs.kind, pc.coalesce(size, described), blobs.path, blobs.offset, blobs.length, blobs.managed]
    return pa.StructArray.from_arrays(fields, fields=list(PLACEMENT_TYPE))
