"""One new container: filled with bytes of other files, made durable, and compared with its source."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.containers.pool import ContainerPool
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.struct import OUT_OF_LINE, BlobColumns
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions, join, open_storage, scheme_of
from hudi_vector.storage.objects import ObjectFile

__all__ = ["PIECE", "PLACES", "Chunk", "Piece", "whole_blobs"]

PIECE = 32 << 20
"""The bytes that are copied or compared at a time; a larger blob is still copied in one piece."""

PLACES = pa.schema([("new_path", pa.string()), ("new_begin", pa.int64())])
"""The new location of a range: `new_path` is relative to the table, `new_begin` is the first byte."""

_MOST_CHECKED = 32
"""So many parts of new objects are read back at once, each by a stream of which some megabyte is held."""

_NOWHERE = pa.array([], pa.struct(list(PLACES)))
_RANGE = ["file", "begin", "count"]


@dataclass(frozen=True)
class Piece:
    """Rows of a chunk, and the `ranges` of these rows that no earlier row has.

    The range of row i is ``ranges[number[i] - 1]``; where ``number[i]`` is 0, it is the range of the row before this
    piece.
    """

    rows: pa.RecordBatch
    ranges: pa.RecordBatch
    number: Ints

    @property
    def bytes(self) -> int:
        """Return the total bytes of the ranges."""
        return int(pc.sum(self.ranges["count"]).as_py() or 0)


@dataclass(frozen=True)
class _Stored:
    """Ranges with their new places, and the SHA-256 of their bytes; None if the source is read again."""

    moved: pa.RecordBatch
    digest: bytes | None = None

    @property
    def path(self) -> str:
        """Return the new file of the first range."""
        path: str = self.moved["new_path"][0].as_py()
        return path


class Chunk:
    """A new container for one partition and column; blobs too large for it get separate files."""

    def __init__(
        self,
        table: str,
        column: str,
        partition: str,
        settings: BlobSettings,
        pool: ContainerPool,
        options: StorageOptions,
    ) -> None:
        """Prepare the chunk without opening a file.

        Args:
            table: The table's normalised URI.
            column: The column's dotted path.
            partition: The path of the table's partition.
            settings: The settings of the column.
            pool: Makes the files; it must be used by this chunk only.
            options: Hadoop's storage settings.
        """
        self._table = table
        self._place = partition, column
        self._settings = settings
        self._pool = pool
        self._options = options
        self._ranges: list[_Stored] = []
        self._rows: list[pa.RecordBatch] = []
        self._last = _NOWHERE
        # On a local disk it is fastest to read both files again; on an object store each read costs money.
        self._reads_twice = scheme_of(table) == "file"

    def add(self, piece: Piece, values: pa.BinaryArray) -> None:
        """Write the bytes of a piece's new ranges; NULL values could not be read and get no place.

        Raises BlobWriteError if the bytes cannot be stored.
        """
        rows, stored = np.flatnonzero(np.asarray(values.is_valid())), _NOWHERE
        if len(rows):
            paths, offsets = self._store(ByteValues.of(values, rows))
            stored = pa.StructArray.from_arrays([paths, pa.array(offsets)], fields=list(PLACES))
            ranges = piece.ranges.take(pa.array(rows)).select(_RANGE)
            moved = _with(ranges, stored)
            self._ranges += [_Stored(moved)] if self._reads_twice else _by_file(moved, values.drop_null())
        there = np.full(len(values), -1)
        there[rows] = np.arange(len(rows))
        known = pa.concat_arrays([self._last, stored.take(pa.array(there, mask=there < 0))])
        self._rows.append(_with(piece.rows, known.take(pa.array(piece.number - 1 + len(self._last)))))
        self._last = known[-1:]

    def end(self) -> tuple[list[WrittenContainer], list[pa.RecordBatch]]:
        """Make the files durable, read them again and compare; return the files, and all added rows with `PLACES`.

        Raises BlobWriteError if a file cannot be made durable or does not hold the bytes that were read.
        """
        written = self._pool.close()
        checks = [partial(self._require_held, each) for each in self._ranges]
        open_storage(self._table, self._options).each(lambda check: check(), checks, _MOST_CHECKED)
        return written, self._rows

    def discard(self) -> None:
        """Close the open files after a failure; nothing refers to them."""
        self._pool.discard()

    def _require_held(self, stored: _Stored) -> None:
        """Raise BlobWriteError if a new file does not hold what was copied to it."""
        if not (self._has_digest(stored) if stored.digest is not None else self._equals_source(stored)):
            raise BlobWriteError(
                f"container '{stored.path}' does not hold the bytes that were copied to it; "
                "nothing refers to it yet: look at the disk, and run the compaction again"
            )

    def _has_digest(self, stored: _Stored) -> bool:
        """Return True if the bytes in a new file have the digest; they are read as they come, and few are held."""
        uri = join(self._table, stored.path)
        # An object that is opened again is read as any other reader would, without what this process knows of it.
        file = open_storage(uri, self._options).addressed(uri)
        if file is None:
            there = self._there(stored.moved)
            return _digest(BlobFetcher(self._options, self._table).fetch(there)) == stored.digest
        begins, counts = stored.moved["new_begin"].to_numpy(), stored.moved["count"].to_numpy()
        try:
            return _streamed_digest(file, begins, counts) == stored.digest
        except OSError as problem:
            raise BlobWriteError(f"container '{stored.path}' cannot be read back: {problem}") from problem

    def _equals_source(self, stored: _Stored) -> bool:
        # A new fetcher reads as any other reader would, without this process's knowledge of the files.
        return _equals(BlobFetcher(self._options, self._table), self._there(stored.moved), stored.moved)

    def _there(self, moved: pa.RecordBatch) -> BlobColumns:
        """Return references to the new places."""
        paths = moved["new_path"].dictionary_encode()
        files = pa.array([join(self._table, path) for path in paths.dictionary.to_pylist()], pa.string())
        return whole_blobs(files.take(paths.indices), moved["new_begin"], moved["count"])

    def _store(self, values: ByteValues) -> tuple[pa.StringArray, Ints]:
        """Write values; return the path and the offset of each."""
        paths, offsets = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        names: list[str] = []
        large = values.lengths > self._settings.max_element_size
        for alone in (False, True):
            rows = np.flatnonzero(large == alone)
            if len(rows):
                parts, at = self._pool.store(*self._place, self._settings, _chosen(values, rows), alone)
                first = len(names)
                names += [path for path, _ in parts]
                paths[rows] = np.repeat(np.arange(first, len(names)), [number for _, number in parts])
                offsets[rows] = at
        return pa.array(names, pa.string()).take(pa.array(paths)), offsets


def _with(rows: pa.RecordBatch, places: pa.StructArray) -> pa.RecordBatch:
    """Return the rows with the columns of `PLACES` added."""
    for entry, column in zip(PLACES, places.flatten(), strict=True):
        rows = rows.append_column(entry, column)
    return rows


def whole_blobs(file: pa.Array, begin: pa.Array, count: pa.Array) -> BlobColumns:
    """Return references to byte ranges: file URI, first byte and number of bytes of each."""
    rows = len(file)
    kind, data = pa.repeat(pa.scalar(OUT_OF_LINE), rows), pa.nulls(rows, pa.binary())
    return BlobColumns(kind, data, file, begin, count, pa.repeat(pa.scalar(True), rows))


def _chosen(values: ByteValues, rows: Ints) -> ByteValues:
    return ByteValues(values.array, values.rows[rows], values.begins[rows], values.lengths[rows], values.data)


def _equals(fetcher: BlobFetcher, there: BlobColumns, moved: pa.RecordBatch) -> bool:
    """Return True if the copied ranges equal their sources; at most `PIECE` bytes of each range are read at a time."""
    source = whole_blobs(moved["file"], moved["begin"], moved["count"])
    count = moved["count"].to_numpy()
    for start in range(0, max(1, int(count.max())), PIECE):
        part = Part(np.minimum(start, count), PIECE)
        if not fetcher.fetch(there, part).equals(fetcher.fetch(source, part)):
            return False
    return True


def _by_file(moved: pa.RecordBatch, values: pa.BinaryArray) -> list[_Stored]:
    """Return the ranges of each new file, in the order of their places there, with the digest of their bytes."""
    paths = moved["new_path"].dictionary_encode().indices.to_numpy()
    each = [pa.array(np.flatnonzero(paths == number)) for number in range(int(paths.max()) + 1)]
    return [_Stored(moved.take(rows), _digest(values if len(each) == 1 else values.take(rows))) for rows in each]


def _streamed_digest(file: ObjectFile, begins: Ints, counts: Ints) -> bytes:
    """Return one SHA-256 over ranges of a file in ascending order; what comes between them is left out."""
    digest = hashlib.sha256()
    some = np.flatnonzero(counts)
    if not len(some):
        return digest.digest()
    wanted = deque(zip(begins[some].tolist(), (begins + counts)[some].tolist(), strict=True))
    at = wanted[0][0]
    for piece in file.streamed(at, wanted[-1][1]):
        view, end = memoryview(piece), at + piece.size
        while wanted and wanted[0][0] < end:
            first, last = wanted.popleft()
            digest.update(view[max(first, at) - at : last - at])
            if last > end:
                wanted.appendleft((first, last))
                break
        at = end
    return digest.digest()


def _digest(values: pa.BinaryArray) -> bytes:
    """Return one SHA-256 over the concatenated bytes of values, none of which may be NULL."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return hashlib.sha256(b"").digest()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return hashlib.sha256(memoryview(data)[int(bounds[0]) : int(bounds[-1])]).digest()
