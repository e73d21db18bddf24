"""One new container: filled with bytes of other files, made durable, and compared with its source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

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
from hudi_vector.storage import StorageOptions, join, scheme_of

__all__ = ["PIECE", "PLACES", "Chunk", "Piece", "whole_blobs"]

PIECE = 32 << 20
"""The bytes that are copied or compared at a time; a larger blob is still copied in one piece."""

PLACES = pa.schema([("new_path", pa.string()), ("new_begin", pa.int64())])
"""The new location of a range: `new_path` is relative to the table, `new_begin` is the first byte."""

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
        self._ranges: list[tuple[pa.RecordBatch, bytes | None]] = []
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
            self._ranges.append((_with(ranges, stored), None if self._reads_twice else _digest(values.drop_null())))
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
        # A new fetcher reads as any other reader would, without this process's knowledge of the files.
        fetcher = BlobFetcher(self._options, self._table)
        for moved, digest in self._ranges:
            paths = moved["new_path"].dictionary_encode()
            files = pa.array([join(self._table, path) for path in paths.dictionary.to_pylist()], pa.string())
            there = whole_blobs(files.take(paths.indices), moved["new_begin"], moved["count"])
            if not (_equals(fetcher, there, moved) if digest is None else _digest(fetcher.fetch(there)) == digest):
                raise BlobWriteError(
                    f"container '{moved['new_path'][0]}' does not hold the bytes that were copied to it; "
                    "nothing refers to it yet: look at the disk, and run the compaction again"
                )
        return written, self._rows

    def discard(self) -> None:
        """Close the open files after a failure; nothing refers to them."""
        self._pool.discard()

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


def _digest(values: pa.BinaryArray) -> bytes:
    """Return one SHA-256 over the concatenated bytes of values, none of which may be NULL."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return hashlib.sha256(b"").digest()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return hashlib.sha256(memoryview(data)[int(bounds[0]) : int(bounds[-1])]).digest()
