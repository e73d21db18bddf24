"""Blobs copied from containers to new containers of the same table, read back and compared.

Ranges come in the order in which they are to lie, cut into *chunks*: one chunk is one new container, and blobs too
large for a container get files of their own. A chunk is handed on only when its files are durable, were read again,
and hold the bytes that were read from the old ones, by SHA-256. Ranges whose bytes cannot be had, or differ from the
checksum that was kept of them, are left out: whatever refers to them stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers import WrittenContainer
from hudi_vector.blobs.fetch import BlobFetcher
from hudi_vector.blobs.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.struct import OUT_OF_LINE, BlobColumns
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions, join, normalise

__all__ = ["MOVES", "RANGES", "Copier", "digests"]

RANGES = pa.schema(
    [
        ("column", pa.string()),
        ("partition", pa.string()),
        ("chunk", pa.int64()),
        ("file", pa.string()),
        ("begin", pa.int64()),
        ("count", pa.int64()),
    ]
)
"""What is copied: `count` bytes from byte `begin` of `file`, a URI as `hudi_vector.storage.normalise` spells it."""

MOVES = pa.schema(
    [
        ("file", pa.string()),
        ("begin", pa.int64()),
        ("count", pa.int64()),
        ("new_path", pa.string()),
        ("new_begin", pa.int64()),
    ]
)
"""Where a range lies now: `new_path` is from the table's folder."""

_PIECE = 32 << 20


@dataclass(frozen=True)
class Copier:
    """How the ranges of one write are copied, as it travels to its tasks.

    `settings` are those of each column; a container is as large as its chunk, whatever they say of its size.
    """

    table: str
    write_id: str
    settings: tuple[tuple[str, BlobSettings], ...]
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    def copy(
        self, ranges: Iterable[pa.RecordBatch], task: TaskAttempt, written: list[WrittenContainer]
    ) -> Iterator[pa.RecordBatch]:
        """Copy ranges.

        Args:
            ranges: Batches of `RANGES`, the rows of each column, partition and chunk side by side.
            task: The attempt, whose names no other attempt shares.
            written: Gets the containers that were made.

        Yields:
            Batches of `MOVES`, whose containers are durable and proved; ranges that cannot be had are left out.

        Raises:
            BlobWriteError: Bytes could not be stored, or a new container does not hold them.
        """
        table = normalise(self.table)
        # One container, and one file for a large blob, which is closed at once.
        pool = ContainerPool(table, self.write_id, task, 2, self.options)
        chunk = _Chunk(self, pool)
        try:
            for batch in ranges:
                for part in _same_chunk(batch):
                    if not chunk.takes(part):
                        yield from chunk.end(written)
                        chunk = _Chunk(self, pool)
                    chunk.add(part)
            yield from chunk.end(written)
        except BaseException:
            pool.discard()
            raise


class _Chunk:
    """A container that is being filled."""

    def __init__(self, copier: Copier, pool: ContainerPool) -> None:
        self._copier = copier
        self._pool = pool
        self._settings = dict(copier.settings)
        self._fetcher = BlobFetcher(copier.options, copier.table, on_error="null", verify=True)
        self._key: tuple[str, str, int] | None = None
        self._moves: list[tuple[pa.RecordBatch, bytes]] = []

    def takes(self, part: pa.RecordBatch) -> bool:
        """Whether rows belong to it."""
        return self._key in (None, _key(part))

    def add(self, part: pa.RecordBatch) -> None:
        """Copy some ranges."""
        self._key = _key(part)
        for piece in _pieces(part):
            values = self._fetcher.fetch(_references(piece))
            rows = np.flatnonzero(np.asarray(values.is_valid()))
            if len(rows):
                paths, offsets = self._store(ByteValues.of(values, rows))
                moved = _moves(piece.take(pa.array(rows)), paths, offsets)
                self._moves.append((moved, _digest(values.drop_null())))

    def end(self, written: list[WrittenContainer]) -> Iterator[pa.RecordBatch]:
        """Make the files durable and compare them; gives where everything lies."""
        known = len(written)
        written += self._pool.close()[known:]
        # Read as anybody else would, and not through what this process knows of the files.
        fetcher = BlobFetcher(self._copier.options, self._copier.table)
        for moved, digest in self._moves:
            files = pa.array([join(normalise(self._copier.table), path) for path in moved["new_path"].to_pylist()])
            there = _whole_blobs(files, moved["new_begin"], moved["count"])
            if _digest(fetcher.fetch(there)) != digest:
                raise BlobWriteError(
                    f"container '{moved['new_path'][0]}' does not hold the bytes that were copied to it; "
                    "nothing refers to it yet: look at the disk, and run the compaction again"
                )
            yield moved

    def _store(self, values: ByteValues) -> tuple[list[str], Ints]:
        assert self._key is not None
        column, partition, _ = self._key
        settings = self._settings[column]
        paths, offsets = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        names: list[str] = []
        large = values.lengths > settings.max_element_size
        for alone in (False, True):
            rows = np.flatnonzero(large == alone)
            if len(rows):
                parts, at = self._pool.store(partition, column, settings, _chosen(values, rows), alone)
                first = len(names)
                names += [path for path, _ in parts]
                paths[rows] = np.repeat(np.arange(first, len(names)), [number for _, number in parts])
                offsets[rows] = at
        return [names[index] for index in paths], offsets


def digests(ranges: pa.RecordBatch, table: str, options: StorageOptions) -> pa.Array:
    """The SHA-256 of the bytes of each range, NULL where they cannot be had.

    Args:
        ranges: Rows of `file`, `begin` and `count`.
        table: The table's base path.
        options: How storage is opened.

    Returns:
        Binary values, one for each range.
    """
    fetcher = BlobFetcher(options, table, on_error="null")
    found: list[bytes | None] = []
    for piece in _pieces(ranges):
        for value in fetcher.fetch(_references(piece)):
            found.append(hashlib.sha256(value.as_buffer()).digest() if value.is_valid else None)  # noqa: PERF401
    return pa.array(found, pa.binary())


def _key(part: pa.RecordBatch) -> tuple[str, str, int]:
    column, partition, chunk = (part[name][0].as_py() for name in ("column", "partition", "chunk"))
    return column, partition, chunk


def _same_chunk(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, cut where another chunk begins."""
    if not batch.num_rows:
        return
    keys = [batch[name].dictionary_encode().indices.to_numpy() for name in ("column", "partition", "chunk")]
    changes = np.any([np.diff(key) != 0 for key in keys], axis=0)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, stop in pairwise(bounds):
        yield batch.slice(start, stop - start)


def _pieces(part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows, a bounded number of bytes at a time."""
    ends = np.cumsum(part["count"].to_numpy())
    start, done = 0, 0
    while start < part.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, done + _PIECE, side="right")))
        yield part.slice(start, stop - start)
        start, done = stop, int(ends[stop - 1])


def _references(ranges: pa.RecordBatch) -> BlobColumns:
    return _whole_blobs(ranges["file"], ranges["begin"], ranges["count"])


def _whole_blobs(file: pa.Array, begin: pa.Array, count: pa.Array) -> BlobColumns:
    rows = len(file)
    kind, data = pa.repeat(pa.scalar(OUT_OF_LINE), rows), pa.nulls(rows, pa.binary())
    return BlobColumns(kind, data, file, begin, count, pa.repeat(pa.scalar(True), rows))


def _chosen(values: ByteValues, rows: Ints) -> ByteValues:
    return ByteValues(values.array, values.rows[rows], values.begins[rows], values.lengths[rows], values.data)


def _moves(piece: pa.RecordBatch, paths: list[str], offsets: Ints) -> pa.RecordBatch:
    kept = [piece[name] for name in ("file", "begin", "count")]
    return pa.RecordBatch.from_arrays([*kept, pa.array(paths, pa.string()), pa.array(offsets)], schema=MOVES)


def _digest(values: pa.BinaryArray) -> bytes:
    """One SHA-256 over the bytes of values that are all there."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return hashlib.sha256(b"").digest()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return hashlib.sha256(memoryview(data)[int(bounds[0]) : int(bounds[-1])]).digest()
