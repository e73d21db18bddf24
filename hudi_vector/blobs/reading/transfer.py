"""Execution of planned reads by threads, from files directly into the output."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hudi_vector.blobs.files import BlobFile, OpenLocalFile, RemoteFile, default_threads, in_threads, reason_of
from hudi_vector.storage.ranges import Reads

__all__ = ["SHRUNK", "Failure", "transfer"]

SHRUNK = "the file became shorter while it was read"

# More pieces than threads, so that no thread waits long for the last one.
_PIECES_PER_THREAD = 4
# The fixed cost of a read, expressed in bytes: many small reads are as much work as a few large ones.
_READ_COST = 64 << 10
# Threads pay off only for a local disk that is slower than this.
_SLOW_READ_SECONDS, _SLOW_BYTES_PER_SECOND = 200e-6, 400e6


@dataclass(frozen=True)
class Failure:
    """A failed read, by its number in the plan, and the reason."""

    read: int
    reason: str


def transfer(
    reads: Reads,
    files: Sequence[BlobFile | None],
    output: memoryview,
    threads: int | None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Failure]:
    """Execute planned reads; return those that failed. The bytes of all others are in `output`.

    Args:
        reads: The plan; its targets are positions in the output.
        files: The file of each number in the plan, all local or all remote.
        output: The memory that receives the bytes.
        threads: The largest number of threads that read at once. None: one thread on a local disk while the disk is
            fast, otherwise the storage's default.
        clock: Returns seconds; measures whether a disk is fast.
    """
    if not len(reads):
        return []
    first = files[int(reads.file[0])]
    assert first is not None
    most = threads or default_threads(local=first.local)
    pieces = _pieces(reads, most) if first.local else _singly(reads)
    job = _Job(reads, files, output)
    done: list[list[Failure]] = []
    if threads is None and first.local:
        # Bytes in the page cache are read faster by one thread than threads can switch the interpreter.
        begun = clock()
        done = [job.run(pieces[0])]
        most = most if clock() - begun > _quick(reads, pieces[0]) else 1
    done += in_threads(job.run, pieces[len(done) :], most)
    return [failure for piece in done for failure in piece]


def _pieces(reads: Reads, threads: int) -> list[tuple[int, int]]:
    """Return the first and last (exclusive) reads of consecutive pieces with about equal work."""
    if threads == 1:
        return [(0, len(reads))]
    cost = np.cumsum(reads.length + _READ_COST)
    count = min(len(reads), threads * _PIECES_PER_THREAD)
    cuts = np.unique(np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)[1:-1]))
    return list(pairwise([0, *cuts[cuts > 0].tolist(), len(reads)]))


def _singly(reads: Reads) -> list[tuple[int, int]]:
    """Return one piece for each read: a request that shares a piece waits for the one before it, and saves nothing."""
    return [(read, read + 1) for read in range(len(reads))]


def _quick(reads: Reads, piece: tuple[int, int]) -> float:
    """Return the seconds that a fast disk takes at most for a piece."""
    size = int(reads.length[slice(*piece)].sum())
    return (piece[1] - piece[0]) * _SLOW_READ_SECONDS + size / _SLOW_BYTES_PER_SECOND


class _Job:
    """The state that all threads share; plain lists, because access to single numpy scalars is slow."""

    def __init__(self, reads: Reads, files: Sequence[BlobFile | None], output: memoryview) -> None:
        self._files = files
        self._output = output
        self._file = reads.file.tolist()
        self._offset = reads.offset.tolist()
        self._length = reads.length.tolist()
        self._overlapping = reads.overlapping.tolist()
        self._first_run = reads.first_run.tolist()
        self._source = reads.run_source.tolist()
        self._target = reads.run_target.tolist()
        self._size = reads.run_size.tolist()
        # Bytes between ranges go here; they are never read, so threads may overwrite each other's.
        self._sink = np.empty(_widest_gap(reads), np.uint8).data

    def run(self, piece: tuple[int, int]) -> list[Failure]:
        """Execute a piece's reads and return those that failed; a file stays open for consecutive reads of it."""
        failures = []
        opened: OpenLocalFile | RemoteFile | None = None
        number = -1
        try:
            for read in range(*piece):
                try:
                    if opened is None or self._file[read] != number:
                        if opened is not None:
                            opened.close()
                        opened, number = None, self._file[read]
                        file = self._files[number]
                        assert file is not None
                        opened = file.open()
                    self._carry(opened, read)
                except OSError as problem:
                    failures.append(Failure(read, reason_of(problem)))
        finally:
            if opened is not None:
                opened.close()
        return failures

    def _carry(self, opened: OpenLocalFile | RemoteFile, read: int) -> None:
        length, offset = self._length[read], self._offset[read]
        if not self._overlapping[read]:
            got = opened.read_into(self._views(read), offset)
        else:
            scratch = np.empty(length, np.uint8).data
            got = opened.read_into([scratch], offset)
            for source, target, size in self._runs(read):
                self._output[target : target + size] = scratch[source - offset : source - offset + size]
        if got < length:
            raise OSError(SHRUNK)

    def _views(self, read: int) -> list[memoryview]:
        """Return the target views of a read's bytes, in the order of the file."""
        views = []
        position = self._offset[read]
        for source, target, size in self._runs(read):
            if source > position:
                views.append(self._sink[: source - position])
            views.append(self._output[target : target + size])
            position = source + size
        return views

    def _runs(self, read: int) -> zip[tuple[int, int, int]]:
        runs = slice(self._first_run[read], self._first_run[read + 1])
        return zip(self._source[runs], self._target[runs], self._size[runs], strict=True)


def _widest_gap(reads: Reads) -> int:
    gaps = reads.run_source[1:] - reads.run_source[:-1] - reads.run_size[:-1]
    gaps[reads.first_run[1:-1] - 1] = 0  # bytes between two reads are not read
    return int(gaps.max(initial=0))
