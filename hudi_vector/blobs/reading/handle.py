"""Access to blobs without Spark: one blob as an open file, many as a stream of bytes."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.files import BlobFiles, LocalFile, RemoteFile, reason_of
from hudi_vector.blobs.reading.batches import read_batches
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.resolve import Resolved, resolve
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.reading.transfer import SHRUNK
from hudi_vector.blobs.reading.wanted import wanted_of
from hudi_vector.blobs.struct import BlobColumns, is_blob_type
from hudi_vector.errors import InvalidArgumentError, InvalidBlobError, InvalidTypeError, kind_of
from hudi_vector.storage import StorageOptions

__all__ = ["iter_bytes", "open_blob"]

# Bytes read ahead: few on a local disk, where a read is cheap; more elsewhere, where each read is a request.
_LOCAL_BUFFER, _REMOTE_BUFFER = 64 << 10, 1 << 20
_DEFAULT_BUDGET = 64 << 20
_CHUNK_ROWS = 1024
_END = object()


@known_arguments()
def open_blob(blob: Any, *, options: StorageOptions | None = None, table: str | None = None) -> io.BufferedReader:
    """Open a blob as a file that can be read and seeked; only the requested bytes are read.

    The file reads ahead by 64 KiB on a local disk and by 1 MiB elsewhere, never past the blob's end. The blob may have
    any size.

    Args:
        blob: A blob struct as a mapping, a Row or an Arrow scalar, or ``(path, offset, length)`` with None for a
            missing offset or length.
        options: Hadoop's storage settings. If they include ``hoodie.blob.read.allowed``, only files below the places it
            lists, or below `table`, are read.
        table: The base path of the table that holds the blob, for a relative path.

    Returns:
        A binary file, opened for reading; the caller must close it.

    Raises:
        InvalidBlobError: The value is not a blob or is NULL, or the blob's fields contradict each other.
        BlobReadError: The blob's file is missing or too short. Reading raises it too if bytes are no longer available.

    Example:
        >>> with open_blob({"type": "INLINE", "data": b"bytes of a video", "reference": None}) as video:
        ...     _ = video.seek(-5, io.SEEK_END)
        ...     video.read()
        b'video'
    """
    wanted = wanted_of(BlobColumns.of(blob_rows([blob])))
    if wanted.inline[0]:
        return io.BufferedReader(io.BytesIO(wanted.columns.data[0].as_py()))
    if not wanted.refers[0]:
        raise InvalidBlobError("a NULL blob has no bytes that could be opened")
    files = BlobFiles(options or StorageOptions(), table)
    resolved = resolve(wanted, files, Part(), look=wanted.refers)
    if resolved.failed.any():
        raise resolved.error()
    file = resolved.files[0]
    if not isinstance(file, (LocalFile, RemoteFile)):
        return io.BufferedReader(io.BytesIO(b""))  # no byte is asked for of a file that is gone
    raw = _RangeFile(resolved, file)
    return io.BufferedReader(raw, raw.buffer_size)


@known_arguments()
def iter_bytes(
    source: Any,
    column: str | None = None,
    *,
    rows: bool = False,
    memory_budget: int = _DEFAULT_BUDGET,
    options: StorageOptions | None = None,
    table: str | None = None,
    threads: int | None = None,
) -> Iterator[Any]:
    """Stream the bytes of many blobs, in order, with few reads and bounded memory.

    Args:
        source: An Arrow table, record batch or reader; an iterable of tables or batches; or an iterable of rows. Rows
            are mappings or Rows with a blob column, or blobs in the forms that `open_blob` takes.
        column: The name of the BLOB column. None selects the only BLOB column of an Arrow source; for rows, None means
            that each row is a blob.
        rows: Whether to yield ``(row, bytes)``. For an Arrow source the row is a dict of the other columns, otherwise
            the row as given.
        memory_budget: The number of bytes read at a time, 64 MiB by default; a larger blob is read alone.
        options: Hadoop's storage settings. If they include ``hoodie.blob.read.allowed``, only files below the places it
            lists, or below `table`, are read.
        table: The base path of the table that holds the blobs, for relative paths.
        threads: The largest number of threads that read at once; None for the storage's default.

    Yields:
        The bytes of each blob, None for NULL; or a pair of row and bytes.

    Raises:
        InvalidTypeError: The source is neither Arrow data nor iterable.
        InvalidArgumentError: `column` is None and the Arrow source has no BLOB column or several, or a row has no such
            column.
        UnknownColumnError: The Arrow source has no such column.
        InvalidBlobError: A value is not a blob, or a blob's fields contradict each other.
        BlobReadError: Bytes cannot be read.

    Example:
        >>> from hudi_vector.blobs.struct import blob_array
        >>> images = blob_array(["INLINE", None], [b"png", None], *[[None] * 2] * 4)
        >>> labelled = pa.table({"label": ["cat", "dog"], "img": images})
        >>> list(iter_bytes(labelled, "img", rows=True))
        [({'label': 'cat'}, b'png'), ({'label': 'dog'}, None)]

        As a PyTorch dataset:

            class Images(torch.utils.data.IterableDataset):
                def __iter__(self):
                    return iter_bytes(labelled, "img", rows=True)

        As a map over a Ray dataset:

            dataset.map_batches(lambda t: {"img": list(iter_bytes(t, "img"))}, batch_format="pyarrow")
    """
    fetcher = BlobFetcher(options or StorageOptions(), table, threads=threads)
    batches, others = _batches_or_rows(source)
    if batches is not None:
        return _from_batches(batches, column, rows, fetcher, memory_budget)
    return _from_rows(others, column, rows, fetcher, memory_budget)


class _RangeFile(io.RawIOBase):
    """An unbuffered file with the bytes of one reference."""

    def __init__(self, resolved: Resolved, file: LocalFile | RemoteFile) -> None:
        self._resolved = resolved
        self._begin, self._size = int(resolved.begin[0]), int(resolved.need[0])
        self._position = 0
        self.buffer_size = _LOCAL_BUFFER if file.local else _REMOTE_BUFFER
        try:
            self._opened = file.open()
        except OSError as problem:
            raise resolved.error_of(0, reason_of(problem)) from problem

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}.get(whence)
        if origin is None:
            raise ValueError(f"whence = {whence} is not one of io.SEEK_SET, io.SEEK_CUR and io.SEEK_END")
        if origin + offset < 0:
            raise ValueError(f"byte {origin + offset} is before the blob's start")
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size - self._position))
        if not wanted:
            return 0
        try:
            got = self._opened.read_into([view[:wanted]], self._begin + self._position)
        except OSError as problem:
            raise self._resolved.error_of(0, reason_of(problem)) from problem
        if got < wanted:
            raise self._resolved.error_of(0, SHRUNK)
        self._position += got
        return got

    def close(self) -> None:
        if not self.closed and hasattr(self, "_opened"):
            self._opened.close()
        super().close()


def _batches_or_rows(source: Any) -> tuple[Iterator[pa.RecordBatch] | None, Iterator[Any]]:
    """Return the record batches of an Arrow source (None for other sources), and the rows of another source."""
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        source = [source]
    if not isinstance(source, Iterable):
        raise InvalidTypeError(f"source is Arrow data, or rows to go through, not {kind_of(source)}")
    items = iter(source)
    first = next(items, _END)
    if first is _END:
        return None, iter(())
    items = chain([first], items)
    if isinstance(first, (pa.Table, pa.RecordBatch)):
        return (batch for item in items for batch in _batches(item)), iter(())
    return None, items


def _batches(item: pa.Table | pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = item.to_batches() if isinstance(item, pa.Table) else [item]
    return batches


def _from_batches(
    batches: Iterator[pa.RecordBatch], column: str | None, rows: bool, fetcher: BlobFetcher, budget: int
) -> Iterator[Any]:
    first = next(batches, None)
    if first is None:
        return
    name = column or _only_blob_column(first.schema)
    # `read_batches` raises the error for an unknown name.
    unused = [] if rows or name not in first.schema.names else [other for other in first.schema.names if other != name]
    narrow = (batch.drop_columns(unused) if unused else batch for batch in chain([first], batches))
    for read in read_batches(narrow, {name: name}, fetcher, budget):
        values = read.column(name)
        if rows:
            yield from zip(read.drop_columns([name]).to_pylist(), _values(values), strict=True)
        else:
            yield from _values(values)


def _from_rows(
    rows: Iterator[Any], column: str | None, with_rows: bool, fetcher: BlobFetcher, budget: int
) -> Iterator[Any]:
    waiting: deque[Any] = deque()

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk, blobs in _chunks(rows, column, budget):
            waiting.extend(chunk)
            yield pa.record_batch({"blob": blob_rows(blobs)})

    for read in read_batches(batches(), {"blob": "blob"}, fetcher, budget):
        for value in _values(read.column("blob")):
            row = waiting.popleft()
            yield (row, value) if with_rows else value


def _chunks(rows: Iterator[Any], column: str | None, budget: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield chunks of rows with their blobs; a chunk ends at 1024 rows or once its inline bytes reach the budget."""
    chunk: list[Any] = []
    blobs: list[Any] = []
    held = 0
    for row in rows:
        blob = row if column is None else _picked(row, column)
        chunk.append(row)
        blobs.append(blob)
        held += _inline_size(blob)
        if len(chunk) == _CHUNK_ROWS or held >= budget:
            yield chunk, blobs
            chunk, blobs, held = [], [], 0
    if chunk:
        yield chunk, blobs


def _picked(row: Any, column: str) -> Any:
    try:
        return row[column]
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise InvalidArgumentError(f"a row ({kind_of(row)}) has no column '{column}'") from problem


def _inline_size(blob: Any) -> int:
    try:
        data = blob["data"]
    except (KeyError, IndexError, TypeError, ValueError):
        return 0  # a tuple or NULL; `blob_rows` refuses other values
    return len(data) if isinstance(data, (bytes, bytearray)) else 0


def _only_blob_column(schema: pa.Schema) -> str:
    found: list[str] = [field.name for field in schema if is_blob_type(field.type)]
    if len(found) != 1:
        there = ", ".join(f"'{name}'" for name in found) or "none"
        raise InvalidArgumentError(f"name the BLOB column to read: the source has {there}")
    return found[0]


def _values(array: pa.BinaryArray) -> Iterator[bytes | None]:
    """Yield the values one by one: a list of all would hold the bytes twice."""
    return (value.as_py() for value in array)
