"""A Parquet file of a table, opened on first use, with its footer in the process cache."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError, HudiVectorError, UnmergeableError
from hudi_vector.read.cache import note, process_cache
from hudi_vector.read.old_calendar import old_leaves
from hudi_vector.read.parquet.chunks import footer_bytes, footer_groups
from hudi_vector.read.parquet.fetched import FetchedFile, Range
from hudi_vector.read.parquet.kept_footer import (
    KeptFooter,
    footer_kept_of,
    form_known,
    keep_footer,
    kept_footer,
    tell_form,
)
from hudi_vector.read.parquet.thrift import list_of_structs
from hudi_vector.read.parquet.values import ByteSource
from hudi_vector.read.row_groups import read_group, read_group_batches
from hudi_vector.storage import FileInfo, Storage, StorageOptions, open_storage, parallel, scheme_of, why_unread
from hudi_vector.storage.objects import ObjectFile

__all__ = ["DataFile", "held_in_memory", "held_stream", "reading"]

_PAGE_BUFFER_BYTES = 1 << 20
_REMOTE_BUFFER_BYTES = 8 << 20
_MOST_HELD = 64 << 20
_FOOTER_GROWS = 8  # the objects of a footer take so many times its bytes (151 columns, 20 row groups: 8.4)
_REWRITTEN = "it was rewritten after it was listed"

# The bytes of files in `held_in_memory`.
_HELD: dict[FileInfo, pa.Buffer] = {}


class DataFile:
    """One Parquet file, opened for one search.

    With `mapped`, a local file is mapped into memory and column chunks are read whole; otherwise pages are read as they
    are needed, so that at most one block is held. Chunks of an object are read in few requests where `ahead` names
    them. With `checked`, page checksums are verified, which costs about one second per GB.
    """

    def __init__(self, file: FileInfo, options: StorageOptions, mapped: bool, checked: bool = False) -> None:
        self.file = file
        self._checked = checked
        self._options = options
        self._mapped = mapped
        self._source: Any = None
        self._parquet: pq.ParquetFile | None = None
        self._footer: pq.FileMetaData | None = None

    @property
    def has_footer(self) -> bool:
        """Return True if the footer need not be read."""
        known = (process_cache().get((self.file, "footer")), footer_kept_of(self.file))
        return self._footer is not None or any(found is not None for found in known)

    @property
    def metadata(self) -> pq.FileMetaData:
        """Return the footer, from the process cache if it is there."""
        if self._footer is None:
            self._footer = process_cache().get((self.file, "footer"))
            kept = footer_kept_of(self.file) if self._footer is None else None
            note("footers", self.file, is_kept=self._footer is not None or kept is not None)
            if self._footer is None:
                with reading(self.file.uri):
                    self._footer = self.parquet().metadata if kept is None else kept.metadata()
                size = _FOOTER_GROWS * max(self._footer.serialized_size, 128)
                process_cache().put((self.file, "footer"), self._footer, size)
        return self._footer

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the top-level columns of the file."""
        return frozenset(self._of_leaves)

    def require_new_calendar(self, names: Iterable[str]) -> None:
        """Raise UnmergeableError if one of these columns may hold values of the calendar that Spark 2 used."""
        for name in names:
            if name in self._in_old_calendar:
                raise UnmergeableError(
                    f"column '{name}' of the file '{self.file.uri}' holds dates before 1582 or timestamps before 1900 "
                    "in the calendar of Spark 2 (LEGACY), which only Spark reads; leave the column out, or write the "
                    "rows again with spark.sql.parquet.datetimeRebaseModeInWrite = CORRECTED"
                )

    @cached_property
    def _in_old_calendar(self) -> frozenset[str]:
        return frozenset(self._of_leaves[leaf] for leaf in old_leaves(self.metadata))

    @cached_property
    def _of_leaves(self) -> list[str]:
        """Return the top-level column of each leaf; leaf paths do not show it, because names may contain dots."""
        schema = self.metadata.schema.to_arrow_schema()
        return [field.name for field in schema for _ in range(_leaves(field.type))]

    @cached_property
    def footer(self) -> bytes:
        """Return the footer in Thrift's compact protocol, which has fields that pyarrow does not expose."""
        return footer_bytes(self.metadata)

    @cached_property
    def groups(self) -> list[Any]:
        """Return the row groups of the footer as dictionaries by Thrift field number."""
        return footer_groups(self.footer)

    @cached_property
    def schema_elements(self) -> list[bytes]:
        """Return the encoded schema elements of the footer, the root first."""
        return list_of_structs(self.footer, 2)

    def kept_footer(self) -> KeptFooter | None:
        """Return what is to be kept of the footer apart from the file; None where it is too large.

        Raises DataFileError if the file is damaged.
        """
        with reading(self.file.uri):
            return kept_footer(self.footer, self.groups, self.source())

    def page_index(self) -> ByteSource:
        """Return what the page index is read from: memory, where it was kept with the footer, else the file."""
        kept = footer_kept_of(self.file)
        return self.source() if kept is None else _KeptIndex(kept, self)

    @property
    def is_remote(self) -> bool:
        """Return True if the file is not on a local disk: each read then waits for its first byte."""
        return scheme_of(self.file.uri) != "file"

    def source(self) -> Any:
        """Return the open file; raise DataFileError if it is missing or its size differs from the listing."""
        if self._source is None:
            self._source = self._opened(self._mapped)
        return self._source

    def short_reads(self, places: Iterable[tuple[int, int]]) -> bytes:
        """Return the bytes of a local file at some places, each a beginning and a length, one after another.

        A file opened by pyarrow takes longer than a few such reads. Raises OSError if the file is missing or its size
        differs from the listing.
        """
        uri = self.file.uri
        descriptor = os.open(open_storage(uri, self._options).path(uri), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != self.file.size:
                raise OSError(_REWRITTEN)
            return b"".join([os.pread(descriptor, length, begin) for begin, length in places])
        finally:
            os.close(descriptor)

    def content(self) -> npt.NDArray[np.uint8]:
        """Return all bytes of a local file, mapped into memory.

        Raises DataFileError if the file is missing or its size differs from the listing.
        """
        return np.frombuffer(self._opened(mapped=True).read_buffer(), np.uint8)

    def _opened(self, mapped: bool) -> Any:
        uri = self.file.uri
        if (held := held_stream(self.file, columns_alone=self._footer is not None)) is not None:
            return held
        with reading(uri):
            storage = open_storage(uri, self._options)
            source = storage.open(uri, mapped=mapped, size=self.file.size, mtime_ns=self.file.mtime_ns)
            if source.size() != self.file.size:
                source.close()
                raise OSError(_REWRITTEN)
        return FetchedFile(source, self.file.size) if self.is_remote else source

    def parquet(self) -> pq.ParquetFile:
        """Return pyarrow's reader of the file; raise DataFileError if it is missing or not a complete Parquet file."""
        if self._parquet is None:
            if footer_kept_of(self.file) is not None:
                self._footer = self.metadata
            source = self.source()
            with reading(self.file.uri):
                self._parquet = pq.ParquetFile(
                    source,
                    metadata=self._footer,
                    pre_buffer=False,
                    buffer_size=0 if self._mapped else _REMOTE_BUFFER_BYTES if self.is_remote else _PAGE_BUFFER_BYTES,
                    coerce_int96_timestamp_unit="us",
                    page_checksum_verification=self._checked,
                )
        return self._parquet

    @contextlib.contextmanager
    def ahead(self, ranges: Sequence[Range]) -> Iterator[None]:
        """Have ranges of an object in memory during the block, read at once in few requests; a local file has them.

        Raises DataFileError if they cannot be read.
        """
        with contextlib.ExitStack() as held:
            if ranges and isinstance(source := self.source(), FetchedFile):
                with reading(self.file.uri):
                    held.enter_context(source.ahead(ranges))
            yield

    def ranges(self, group: int, names: Sequence[str]) -> list[Range]:
        """Return where the stored bytes of columns lie in an object, for `ahead`; none of a local file."""
        if not self.is_remote:
            return []
        found = []
        for chunk in (chunk for name in names for chunk in self._chunks(group, name)):
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            found.append((begin, begin + chunk.total_compressed_size))
        return found

    def columns(self, group: int, names: Sequence[str]) -> pa.Table:
        """Return whole columns of a row group that the file has.

        Raises DataFileError if they cannot be read, or end before the row group.
        """
        with reading(self.file.uri), self.ahead(self.ranges(group, names)), parallel.turn():
            return read_group(self.parquet(), group, names)

    def batches(self, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield columns of a row group that the file has, so many rows at a time.

        Raises DataFileError if they cannot be read, or end before the row group.
        """
        with reading(self.file.uri):
            yield from read_group_batches(self.parquet(), group, names, rows)

    def column_bytes(self, group: int, name: str) -> int:
        """Return the stored (compressed) bytes of a column in a row group."""
        return sum(chunk.total_compressed_size for chunk in self._chunks(group, name))

    def plain_bytes(self, group: int, name: str) -> int:
        """Return the uncompressed bytes of a column in a row group."""
        return sum(chunk.total_uncompressed_size for chunk in self._chunks(group, name))

    def _chunks(self, group: int, name: str) -> Iterator[pq.ColumnChunkMetaData]:
        metadata = self.metadata.row_group(group)
        return (metadata.column(index) for index, column in enumerate(self._of_leaves) if column == name)

    def close(self) -> None:
        """Close the file; the next access opens it again."""
        if self._parquet is not None:
            self._parquet.close(force=True)
        if self._source is not None:
            self._source.close()
        self._parquet = self._source = None


@dataclass(frozen=True)
class _KeptIndex:
    """A source of a file's bytes that has its page index in memory."""

    kept: KeptFooter
    data: DataFile

    def read_at(self, nbytes: int, offset: int) -> bytes:
        found = self.kept.read_at(nbytes, offset)
        content: bytes = self.data.source().read_at(nbytes, offset) if found is None else found
        return content


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet leaf columns of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return sum(_leaves(field.type) for field in fields) if fields else 1


@contextlib.contextmanager
def held_in_memory(file: FileInfo, options: StorageOptions, *, columns_alone: bool = False) -> Iterator[None]:
    """Let all readers of a file of an object store take its bytes from memory inside the context.

    They are read at once, in few requests. A large file, or one on a local disk, is read as outside of the context.
    With `columns_alone`, the Bloom filter in the footer is left out if the footers of other files tell where it lies.
    """
    if scheme_of(file.uri) == "file" or file.size > _MOST_HELD or file in _HELD:
        yield
        return
    storage = open_storage(file.uri, options)
    _HELD[file] = _columns_of(file, storage) if columns_alone else _whole(file, storage)
    try:
        yield
    finally:
        _HELD.pop(file, None)


def held_stream(file: FileInfo, *, columns_alone: bool = False) -> pa.BufferReader | None:
    """Return the bytes of a file in `held_in_memory` as an open file, or None for another file.

    With `columns_alone`, the end of the footer may be lacking.
    """
    held = _HELD.get(file)
    return None if held is None or (held.size < file.size and not columns_alone) else pa.BufferReader(held)


def _whole(file: FileInfo, storage: Storage) -> pa.Buffer:
    return storage.whole(file.uri, file.size, file.mtime_ns)


def _columns_of(file: FileInfo, storage: Storage) -> pa.Buffer:
    """Return the bytes of a file, without the end of its footer where the footers of its folder tell what it holds."""
    form = form_known(file.uri)
    if form is not None and form.end(file.size) < file.size:
        with reading(file.uri), storage.open(file.uri, size=file.size, mtime_ns=file.mtime_ns) as opened:
            # Of a small object `read_at` reads all.
            read = opened.read_part if isinstance(opened, ObjectFile) else opened.read_at
            part: bytes = read(form.end(file.size), 0)
        footer = form.footer_in(part, file.size)
        if footer is not None:
            keep_footer(file, footer)
            if footer_kept_of(file) is not None:
                return pa.py_buffer(part)
    whole = _whole(file, storage)
    tell_form(file.uri, whole)
    return whole


@contextlib.contextmanager
def reading(uri: str) -> Iterator[None]:
    """Convert errors raised inside the context to DataFileError with the given URI; errors of this package pass."""
    try:
        yield
    except HudiVectorError:
        raise
    except (
        OSError, EOFError, ValueError, LookupError, ArithmeticError, MemoryError, RecursionError, NotImplementedError
    ) as problem:  # fmt: skip
        why = why_unread(problem, uri) or "it is shorter than its footer says"
        raise DataFileError(f"the data file '{uri}' cannot be read: {why}") from problem
