"""Rows of given record keys in all retained files, superseded versions included, and their blob references.

A deletion in a log file holds the key of the row that it deletes, so a file with one counts as a file with the row.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Sequence, Set
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.errors import DataFileError
from hudi_vector.progress import followed
from hudi_vector.read.logs.blocks import (
    CDC_DATA,
    COMMAND,
    DELETE,
    PARQUET_DATA,
    TORN,
    LogBlock,
    read_blocks,
    rows_of_block,
    schema_of_block,
)
from hudi_vector.read.logs.keys import keys_of_block
from hudi_vector.read.row_groups import read_group
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table.avro_names import with_full_names
from hudi_vector.table.avro_schema import require_finite
from hudi_vector.table_services.references.avro_references import avro_references
from hudi_vector.table_services.references.base_files import reference_leaves
from hudi_vector.table_services.references.files import UNREADABLE, FileReferences
from hudi_vector.table_services.references.references import distinct, references_in
from hudi_vector.table_services.retention.retained import LOG, RetainedFile

__all__ = ["KeyScan"]

_KEY = "_hoodie_record_key"


class KeyScan:
    """A reader of retained files that looks for rows of given record keys; `held` has the keys found, by file."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)
        self._texts = tuple(key.encode() for key in self._keys)
        self.held: dict[RetainedFile, frozenset[str]] = {}

    def __call__(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """Yield the references of each file's rows of the keys; a file that is gone or unreadable is marked as such."""
        threads = default_threads(local=not files or files[0].table.startswith("file:"))
        found = in_threads(lambda file: self._read(file, options), files, threads)
        yield from followed(found, len(files), "data files searched")

    def _read(self, file: RetainedFile, options: StorageOptions) -> FileReferences:
        uri = file.info.uri
        try:
            with open_storage(uri, options).open(uri, mapped=False, size=file.info.size) as source:
                parts = list(self._log(source) if file.kind == LOG else self._parquet(source))
        except UNREADABLE as problem:
            if isinstance(problem, FileNotFoundError) or isinstance(problem.__cause__, FileNotFoundError):
                return FileReferences(file, is_gone=True)
            return FileReferences(file, doubt=f"the rows of '{uri}' cannot be read: {problem}")
        keys = frozenset[str]().union(*(found for found, _ in parts))
        if keys:
            self.held[file] = keys
        return FileReferences(file, distinct(found for _, found in parts))

    def _parquet(self, source: Any) -> Iterator[tuple[set[str], pa.Table]]:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            leaves = reference_leaves([file.schema.column(number).path for number in range(len(file.schema))])
            for group in range(file.num_row_groups):
                keys = read_group(file, group, [_KEY])[_KEY].cast(pa.string())
                mine = pc.is_in(keys, value_set=pa.array(sorted(self._keys), pa.string()))
                found = set(pc.unique(keys.filter(mine)).to_pylist())
                if found:
                    rows = read_group(file, group, leaves) if leaves else None
                    yield found, distinct([] if rows is None else [references_in(rows.filter(mine))])

    def _log(self, source: Any) -> Iterator[tuple[Set[str], pa.Table]]:
        for block in read_blocks(source):
            if block.kind == PARQUET_DATA:
                yield from self._parquet(pa.BufferReader(pa.py_buffer(block.content)))
            elif block.kind == CDC_DATA:
                # These rows need not have Hudi's own columns, so they cannot be matched with record keys.
                raise DataFileError("it holds changes of rows, which have no record key; Hudi's clean removes it")
            elif block.kind == TORN:
                if block.content:
                    raise DataFileError(
                        f"the block at byte {block.offset} is cut off, so that it is unknown whose rows it holds; "
                        "Hudi's compaction of its file group, and clean after it, remove the file"
                    )
            elif block.kind == DELETE:
                yield self._keys.intersection(keys_of_block(block)), distinct([])
            elif block.kind != COMMAND:
                yield self._avro(block)

    def _avro(self, block: LogBlock) -> tuple[set[str], pa.Table]:
        text = schema_of_block(block)
        rows = rows_of_block(block)
        content = bytes(block.content)
        if not any(key in content for key in self._texts):
            return set(), distinct([])
        named = with_full_names(json.loads(text))
        require_finite(named)
        schema = fastavro.parse_schema(named)
        mine = [(key, row) for row in rows if (key := self._key_of(row, schema)) in self._keys]
        return {key for key, _ in mine}, avro_references(text, lambda: [row for _, row in mine])

    @staticmethod
    def _key_of(row: memoryview, schema: Any) -> str:
        found: Any = fastavro.schemaless_reader(io.BytesIO(row), schema, None)
        key: str = found[_KEY]
        return key
