"""Blobs of single rows, found by record key in the files of a snapshot without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.struct import BLOB_TYPE
from hudi_vector.errors import UnmergeableError
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.base_rows import base_rows
from hudi_vector.read.logs.versions import LogVersions, log_versions, merged_columns, valid_versions
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.key_rows import key_rows, struct_rows
from hudi_vector.schema import BLOB, HUDI_TYPE
from hudi_vector.storage import scheme_of
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["KeyedBlobs", "blob_paths", "find_blobs", "value_within", "why_not_direct", "why_unmergeable"]

_KEY, _SEQNO = "_hoodie_record_key", "_hoodie_commit_seqno"
_BLOCKS_ARE_COMPLETE = 8
"""From this table version on, the log files of a commit that never completed belong to no file slice."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyedBlobs:
    """Blobs of n rows, with the values of the key fields of each row as text, and its partition path."""

    keys: tuple[tuple[str, ...], ...]
    partitions: tuple[str, ...]
    blobs: pa.StructArray

    @classmethod
    def together(cls, parts: Iterable[KeyedBlobs]) -> KeyedBlobs:
        """Return the rows of several parts, in their order."""
        held = list(parts)
        empty = pa.array([], BLOB_TYPE)
        return cls(
            tuple(key for part in held for key in part.keys),
            tuple(partition for part in held for partition in part.partitions),
            pa.concat_arrays([empty, *(part.blobs for part in held)]),
        )


def blob_paths(schema: pa.Schema) -> list[tuple[str, ...]]:
    """Return the paths of the BLOB columns of a table, as the names from the top-level column to the struct."""
    return [path for field in schema for path in _blob_paths(field, ())]


def why_not_direct(snapshot: Snapshot) -> str | None:
    """Return why rows of a table cannot be found by record key without Spark, or None."""
    config = snapshot.config
    if snapshot.needs_spark:
        return snapshot.needs_spark
    if not config.populates_meta_fields:
        return "its files have no record keys"
    if not config.plain_key_generator:
        return "its key generator makes record keys that are not the fields' values"
    if any(each.base_file and not each.base_file.name.endswith(".parquet") for each in snapshot.file_slices):
        return "its base files are not Parquet"
    for name in config.record_key_fields:
        number = snapshot.schema.get_field_index(name)
        kind = None if number < 0 else snapshot.schema.field(number).type
        if kind is None or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
            return f"its key field '{name}' is neither text nor a whole number"
    return None


def find_blobs(
    snapshot: Snapshot, path: Sequence[str], keys: Collection[tuple[str, ...]], cache_bytes: int
) -> KeyedBlobs:
    """Return the blobs of the rows with these values of the key fields, as text; rows that are not there are left out.

    `path` is one of `blob_paths`; `why_not_direct` must be None. `cache_bytes` is the budget of the process's cache,
    which keeps record keys and places of pages. Raises DataFileError if a file is missing or damaged, and
    UnsupportedTableError or UnmergeableError if only Spark can read a file slice with one of the rows.
    """
    process_cache().resize(cache_bytes)
    lookup = _Lookup(snapshot, tuple(path), frozenset(keys), frozenset(_record_keys(snapshot, keys)))
    threads = default_threads(local=scheme_of(snapshot.source.uri) == "file")
    return KeyedBlobs.together(in_threads(lookup.of_slice, snapshot.file_slices, threads))


@dataclass(frozen=True)
class _Lookup:
    """The search for rows: values of key fields, and all forms in which Hudi may have written these as record keys."""

    snapshot: Snapshot
    path: tuple[str, ...]
    keys: frozenset[tuple[str, ...]]
    record_keys: frozenset[str]

    def of_slice(self, file_slice: FileSlice) -> KeyedBlobs:
        """Return the rows of one file slice."""
        options, names = self.snapshot.source.options, merged_columns(self.snapshot)
        logs = log_versions(file_slice, self.record_keys, names, options) if file_slice.log_files else None
        if logs is not None:
            reason = why_unmergeable(self.snapshot, file_slice)
            if reason is not None:
                raise UnmergeableError(reason)
        if file_slice.base_file is None:
            return KeyedBlobs.together(())
        data = DataFile(file_slice.base_file, options, mapped=False)
        with contextlib.closing(data), reading(data.file.uri):
            rows, _ = key_rows(data, self.record_keys)
            if logs is None:
                fields = self._base(data, rows, self.snapshot.config.record_key_fields)
                return self._found(file_slice, fields, self._structs(data, rows))
            base = self._base(data, rows, names)
            valid = valid_versions(self.snapshot, file_slice, base, logs, options)
            return self._merged(file_slice, data, rows, base, logs, valid)

    def _base(self, data: DataFile, rows: Ints, names: Collection[str]) -> pa.Table:
        """Return some columns of rows of a base file."""
        held = data.metadata.schema.to_arrow_schema()
        schema = pa.schema([field for field in held if field.name in names])
        parts = base_rows(data.file, self.snapshot.source.options, rows, schema, data)
        return pa.concat_tables([schema.empty_table(), *parts])

    def _structs(self, data: DataFile, rows: Ints) -> pa.StructArray:
        found = struct_rows(data, self.path, rows) if len(rows) else None
        return pa.nulls(len(rows), BLOB_TYPE) if found is None else found.cast(BLOB_TYPE).combine_chunks()

    def _merged(
        self, file_slice: FileSlice, data: DataFile, rows: Ints, base: pa.Table, logs: LogVersions,
        valid: Collection[tuple[str, str]],
    ) -> KeyedBlobs:  # fmt: skip
        versions = list(zip(base[_KEY].to_pylist(), base[_SEQNO].to_pylist(), strict=True))
        mine = [number for number, each in enumerate(versions) if each in valid and each not in logs.rows]
        of_logs = [logs.rows[each] for each in valid if each in logs.rows]
        fields = self.snapshot.config.record_key_fields
        keyed = pa.table({name: pa.array([str(row[name]) for row in of_logs], pa.string()) for name in fields})
        blobs = blob_rows([value_within(row, self.path) for row in of_logs])
        taken = self._found(file_slice, base.take(pa.array(mine, pa.int64())), self._structs(data, rows[mine]))
        return KeyedBlobs.together([taken, self._found(file_slice, keyed, blobs)])

    def _found(self, file_slice: FileSlice, rows: pa.Table, blobs: pa.StructArray) -> KeyedBlobs:
        """Return the rows whose key fields have wanted values: the text of a record key may stand for other values."""
        fields = [rows[name].cast(pa.string()).to_pylist() for name in self.snapshot.config.record_key_fields]
        keys = list(zip(*fields, strict=True))
        mine = [number for number, key in enumerate(keys) if key in self.keys]
        return KeyedBlobs(
            tuple(keys[number] for number in mine),
            (file_slice.partition_path,) * len(mine),
            blobs.take(pa.array(mine, pa.int64())),
        )


def _record_keys(snapshot: Snapshot, keys: Iterable[tuple[str, ...]]) -> Iterable[str]:
    """Yield the record keys that Hudi may write for values of the key fields: with the fields' names, or one alone."""
    fields = snapshot.config.record_key_fields
    for key in keys:
        yield ",".join(f"{name}:{part or '__empty__'}" for name, part in zip(fields, key, strict=True))
        if len(key) == 1:
            yield key[0]


def why_unmergeable(snapshot: Snapshot, file_slice: FileSlice) -> str | None:
    """Return why only Spark can merge the log files of a slice, or None."""
    if file_slice.base_file is None:
        return "log files without a base file change one of the rows"
    if file_slice.base_instant in snapshot.older_schemas:
        return "log files on a base file of an older schema change one of the rows"
    if not snapshot.config.plain_merge:
        return "a merge mode or payload of the user's own merges one of the rows"
    if snapshot.config.version < _BLOCKS_ARE_COMPLETE:
        return f"log files of table version {snapshot.config.version} change one of the rows"
    return None


def _blob_paths(field: pa.Field, above: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    path = (*above, field.name)
    if (field.metadata or {}).get(HUDI_TYPE.encode()) == BLOB.encode():
        yield path
    elif pa.types.is_struct(field.type):
        for number in range(field.type.num_fields):
            yield from _blob_paths(field.type.field(number), path)


def value_within(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path in a row, None within NULL and for a column that the row does not have."""
    value: Any = row
    for name in path:
        value = None if value is None else value.get(name)
    return value
