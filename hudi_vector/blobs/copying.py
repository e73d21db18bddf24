"""Blobs copied from containers to new containers of the same table, read back and compared.

Ranges come in the order in which they are to lie, cut into *chunks*: one chunk is one new container, and blobs too
large for a container get files of their own. A chunk is handed on only when its files are durable, were read again,
and hold the bytes of the old ones: on a local disk these are read again too, on an object store their SHA-256 was kept.
Ranges whose bytes cannot be had, or differ from the checksum that was kept of them, are left out: whatever refers to
them stays as it is.

What waits for the disk waits beside what does not: bytes are read ahead of those that are written, and a full container
is made durable and proved while the next one fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.containers import WrittenContainer
from hudi_vector.blobs.copy_chunk import PIECE, PLACES, Chunk, whole_blobs
from hudi_vector.blobs.fetch import BlobFetcher
from hudi_vector.blobs.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.storage import StorageOptions, normalise

__all__ = ["MOVES", "RANGES", "Copier", "digests", "read_ahead"]

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

MOVES = PLACES
"""Where a range lies now: `new_path` is from the table's folder."""


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
        with ThreadPoolExecutor(2, "hudi-vector-copy") as threads, closing(self._full(ranges, task, threads)) as chunks:
            ending: Future[tuple[list[WrittenContainer], list[pa.RecordBatch]]] | None = None
            for chunk in chunks:
                before, ending = ending, threads.submit(chunk.end)
                if before is not None:
                    yield from _noted(before, written)
            if ending is not None:
                yield from _noted(ending, written)

    def _full(
        self, ranges: Iterable[pa.RecordBatch], task: TaskAttempt, threads: ThreadPoolExecutor
    ) -> Generator[Chunk, None, None]:
        """Chunks whose bytes were all written, and are not durable yet."""
        table, settings, numbers = normalise(self.table), dict(self.settings), count()
        fetcher = BlobFetcher(self.options, self.table, on_error="null", verify=True)
        pieces = (piece for batch in ranges for part in _same_chunk(batch) for piece in _pieces(part))
        key: tuple[str, str, int] | None = None
        chunk: Chunk | None = None
        try:
            for piece, values in read_ahead(threads, partial(_fetched, fetcher), pieces):
                if chunk is not None and key != _key(piece):
                    full, chunk = chunk, None  # it is the caller's now
                    yield full
                if chunk is None:
                    key = column, partition, _ = _key(piece)
                    # One container, and one file for a large blob, which is closed at once.
                    pool = ContainerPool(table, self.write_id, task, 2, self.options, numbers)
                    chunk = Chunk(table, column, partition, settings[column], pool, self.options)
                chunk.add(piece, values)
            if chunk is not None:
                full, chunk = chunk, None
                yield full
        finally:
            if chunk is not None:
                chunk.discard()


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
        for value in _fetched(fetcher, piece):
            found.append(hashlib.sha256(value.as_buffer()).digest() if value.is_valid else None)  # noqa: PERF401
    return pa.array(found, pa.binary())


def read_ahead(
    threads: ThreadPoolExecutor, fetch: Callable[[pa.RecordBatch], pa.BinaryArray], pieces: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.BinaryArray]]:
    """The bytes of pieces, those of the next one read while one is used; large ones are not read ahead.

    Args:
        threads: Where reading goes on.
        fetch: Reads the bytes of a piece.
        pieces: Rows with a `count` of bytes.

    Yields:
        Each piece with its bytes.
    """
    waiting: tuple[pa.RecordBatch, Future[pa.BinaryArray]] | None = None
    for piece in pieces:
        if waiting is not None and pc.sum(piece["count"]).as_py() > PIECE:
            yield waiting[0], waiting[1].result()
            waiting = None
        before, waiting = waiting, (piece, threads.submit(fetch, piece))
        if before is not None:
            yield before[0], before[1].result()
    if waiting is not None:
        yield waiting[0], waiting[1].result()


def _noted(
    ending: Future[tuple[list[WrittenContainer], list[pa.RecordBatch]]], written: list[WrittenContainer]
) -> list[pa.RecordBatch]:
    """The moves of a chunk that is durable and proved, once it is."""
    made, moves = ending.result()
    written += made
    return moves


def _fetched(fetcher: BlobFetcher, piece: pa.RecordBatch) -> pa.BinaryArray:
    return fetcher.fetch(whole_blobs(piece["file"], piece["begin"], piece["count"]))


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
        stop = max(start + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        yield part.slice(start, stop - start)
        start, done = stop, int(ends[stop - 1])
