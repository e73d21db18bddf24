"""Copying of blobs from containers to new containers of the same table, with a check of every copy.

Ranges come in the order in which they are to be stored, cut into *chunks*. A chunk becomes one new container; blobs too
large for a container get separate files. A chunk is yielded only after its files are durable, were read again, and hold
the source's bytes: on a local disk the source is read again too, on an object store its SHA-256 was kept. Ranges that
cannot be read, or that differ from their kept checksum, get no place, and references to them stay as they are.

Input and output overlap: the next bytes are read while others are written, and a full container is made durable and
checked while the next one fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.containers.byte_values import Ints
from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.containers.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.copies.copy_chunk import PIECE, PLACES, Chunk, Piece, whole_blobs
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads.kept_checksums import KeptChecksums
from hudi_vector.blobs.uploads.manifest import Upload
from hudi_vector.storage import StorageOptions, normalise

__all__ = ["PLACES", "RANGES", "Copier", "digests", "read_ahead"]

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
"""A range to copy: `count` bytes from byte `begin` of `file`, a URI as `hudi_vector.storage.normalise` spells it."""

_CHUNK = ("column", "partition", "chunk")


@dataclass(frozen=True)
class Copier:
    """The serialisable instructions for copying the ranges of one write in its tasks.

    `settings` are pairs of column and settings; their container size is ignored, as a chunk is always one container.
    `sources` are writes whose containers are copied, as far as they are known: tasks read no manifest of these that
    names its checksums.
    """

    table: str
    write_id: str
    settings: tuple[tuple[str, BlobSettings], ...]
    options: StorageOptions = field(default=StorageOptions(), repr=False)
    sources: tuple[Upload, ...] = field(default=(), repr=False)

    def copy(
        self, ranges: Iterable[pa.RecordBatch], task: TaskAttempt, written: list[WrittenContainer]
    ) -> Iterator[pa.RecordBatch]:
        """Copy ranges; yield the given rows with `PLACES`, the new durable and checked location, NULL where unreadable.

        Args:
            ranges: Batches of `RANGES` and any further columns. The rows of one column, partition and chunk must be
                adjacent, and so must the rows of one range, which is copied once.
            task: The task attempt; its names are shared with no other attempt.
            written: The list to which the new containers are appended.

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
        """Yield chunks whose bytes are all written but not yet durable; the caller then owns the chunk."""
        table, settings, numbers = normalise(self.table), dict(self.settings), count()
        kept = KeptChecksums(self.options, (each for each in self.sources if each.names_checksums))
        fetcher = BlobFetcher(self.options, self.table, on_error="null", verify=True, kept=kept)
        key: tuple[str, str, int] | None = None
        chunk: Chunk | None = None
        try:
            for piece, values in read_ahead(threads, partial(_fetched, fetcher), _pieces(ranges)):
                if chunk is not None and key != _key(piece.rows):
                    full, chunk = chunk, None  # the caller owns it now, so `finally` must not discard it
                    yield full
                if chunk is None:
                    key = column, partition, _ = _key(piece.rows)
                    # At most 2 open files: the container, and the file of a large blob, which is closed at once.
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
    """Return the SHA-256 of each range of `file`, `begin` and `count`, as binary; NULL where it cannot be read."""
    fetcher = BlobFetcher(options, table, on_error="null")
    found: list[bytes | None] = []
    for start, stop in _cuts(ranges["count"].to_numpy()):
        for value in _bytes_of(fetcher, ranges.slice(start, stop - start)):
            found.append(hashlib.sha256(value.as_buffer()).digest() if value.is_valid else None)  # noqa: PERF401
    return pa.array(found, pa.binary())


def read_ahead(
    threads: ThreadPoolExecutor, fetch: Callable[[Piece], pa.BinaryArray], pieces: Iterable[Piece]
) -> Iterator[tuple[Piece, pa.BinaryArray]]:
    """Yield each piece with its bytes, reading the next piece in a thread while the caller uses one.

    Pieces larger than `PIECE` are not read ahead.
    """
    waiting: tuple[Piece, Future[pa.BinaryArray]] | None = None
    for piece in pieces:
        if waiting is not None and piece.bytes > PIECE:
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
    """Wait for a chunk's end; append its containers to `written` and return its rows."""
    made, rows = ending.result()
    written += made
    return rows


def _fetched(fetcher: BlobFetcher, piece: Piece) -> pa.BinaryArray:
    return _bytes_of(fetcher, piece.ranges)


def _bytes_of(fetcher: BlobFetcher, ranges: pa.RecordBatch) -> pa.BinaryArray:
    return fetcher.fetch(whole_blobs(ranges["file"], ranges["begin"], ranges["count"]))


def _key(rows: pa.RecordBatch) -> tuple[str, str, int]:
    column, partition, chunk = (rows[name][0].as_py() for name in _CHUNK)
    return column, partition, chunk


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield the rows of chunks in pieces of at most `PIECE` bytes, or of a single row."""
    last: dict[str, Any] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [_changes(batch[name]) for name in RANGES.names]
        is_new = np.any(keys, axis=0)
        is_new[0] = _range(batch, 0) != last
        last = _range(batch, batch.num_rows - 1)
        chunks = np.flatnonzero(np.any(keys[: len(_CHUNK)], axis=0)).tolist()
        for start, stop in pairwise([*chunks, batch.num_rows]):
            for first, end in _cuts(np.where(is_new, batch["count"], 0)[start:stop]):
                rows, new = batch.slice(start + first, end - first), is_new[start + first : start + end]
                yield Piece(rows, rows.filter(pa.array(new)), np.cumsum(new))


def _changes(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return True for each value that differs from the one before it; the first value counts as different."""
    codes = values.dictionary_encode().indices.to_numpy()
    changes: npt.NDArray[np.bool_] = np.diff(codes, prepend=-1) != 0
    return changes


def _range(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: batch[name][row].as_py() for name in RANGES.names}


def _cuts(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield the start and stop of consecutive parts of rows with at most `PIECE` bytes, or with a single row."""
    ends = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        yield start, stop
        start, done = stop, int(ends[stop - 1])
