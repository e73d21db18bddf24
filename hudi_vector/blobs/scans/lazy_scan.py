"""Scan of a base file that returns references in place of a BLOB column, without reading the blobs' bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.nested import replace_column
from hudi_vector.blobs.reading.base_files import place_in
from hudi_vector.blobs.reading.lazy import LAZY_TYPE
from hudi_vector.blobs.reading.wanted import wanted_of
from hudi_vector.blobs.scans.bare_file import BareFile, fields_of
from hudi_vector.errors import DataFileError
from hudi_vector.read.conform import conform
from hudi_vector.read.parquet.byte_column import Located
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

__all__ = ["LazyScan"]


@dataclass(frozen=True)
class LazyScan:
    """The instructions for the scan of base files; picklable, as executors get them.

    Args:
        column: The BLOB column's dotted path; empty if none is to be read.
        schema: The columns to return, with `hudi_vector.blobs.reading.lazy.LAZY_TYPE` in place of the BLOB; VECTOR
            columns are marked by their field metadata.
        options: Hadoop's storage settings.
    """

    column: str
    schema: pa.Schema
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    def batches(self, file: FileInfo) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a Parquet base file in order, in batches of at most about 4 MiB and 8192 rows.

        Raises DataFileError if the file is gone or cannot be read, InvalidBlobError if the fields of a blob contradict
        each other.
        """
        with _opened(file, self.options) as source:
            try:
                yield from self._read(file, source)
            except (OSError, pa.ArrowInvalid) as problem:
                if isinstance(problem, DataFileError):
                    raise
                raise DataFileError(f"the data file '{file.uri}' cannot be read: {problem}") from problem

    def _read(self, file: FileInfo, source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        bare = BareFile(source, file.uri)
        # A file that was written before the column was added has no bytes to refer to.
        name = bare.spelled(self.column)
        for part in bare.rows(() if name is None else (name,), self._is_wanted):
            rows = part.rows
            if name is not None:
                place = place_in(file.uri, name, bare.columns)
                rows = replace_column(
                    rows, name, partial(_references, part.data[name], file.uri, place, part.first), file.uri, {}
                )
            yield from conform(rows, list(self.schema)).combine_chunks().to_batches()

    def _is_wanted(self, leaf: str) -> bool:
        """Return True if a leaf of a file belongs to one of the columns; for names with dots, perhaps to another."""
        return any(leaf.lower() == name or leaf.lower().startswith(f"{name}.") for name in self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name.lower() for name in self.schema.names)


def _references(located: Located, uri: str, place: str, first_row: int, blobs: pa.StructArray) -> pa.StructArray:
    """Return the references of the blobs of some rows, whose data was not read."""
    columns = fields_of(blobs, located, f"the column in '{place}'")
    wanted = wanted_of(columns)
    inline = pa.array(wanted.inline)
    has_offset = pa.array(located.offset >= 0)
    own = [
        pc.if_else(has_offset, pa.scalar(uri), pa.scalar(place)),
        pc.if_else(has_offset, pa.array(located.offset), pa.scalar(None, pa.int64())),
        pa.array(located.length),
        pa.array(np.arange(first_row, first_row + len(blobs), dtype=np.int64)),
    ]
    others = [columns.path, columns.offset, columns.length, pa.nulls(len(blobs), pa.int64())]
    fields = [pc.if_else(inline, mine, other) for mine, other in zip(own, others, strict=True)]
    null = pa.array(~(wanted.inline | wanted.refers))
    return pa.StructArray.from_arrays([*fields, inline], fields=list(LAZY_TYPE), mask=null)


def _opened(file: FileInfo, options: StorageOptions) -> pa.NativeFile:
    try:
        return open_storage(file.uri, options).open(file.uri, mapped=False)
    except DataFileError as problem:
        if isinstance(problem.__cause__, FileNotFoundError):
            raise DataFileError(
                f"the base file '{file.uri}' is gone since blob_references listed it: Hudi's clean removed it; "
                "call blob_references again"
            ) from problem
        raise
