"""Which reads get many byte ranges: ranges of one file that lie close together become one read.

On a local disk a read costs a system call, some microseconds, while the page cache hands out several gigabytes a
second: bytes between two ranges are worth reading only when they are few. A request to an object store waits tens of
milliseconds for its first byte and then brings about a hundred bytes a microsecond: a megabyte more costs less than
another request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LOCAL_MAX_GAP", "MAX_READ", "OBJECT_STORE_MAX_GAP", "Reads", "plan_reads"]

Ints = npt.NDArray[np.int64]

LOCAL_MAX_GAP = 16 << 10
OBJECT_STORE_MAX_GAP = 1 << 20
# Larger reads bring no more bytes a second from either, and hold up the threads beside them.
MAX_READ = 8 << 20


@dataclass(frozen=True)
class Reads:
    """m reads, ordered by file and offset, and what becomes of their bytes.

    Read i covers ``length[i]`` bytes of ``file[i]`` from ``offset[i]``, and serves the slices
    ``first_slice[i]:first_slice[i + 1]``. A slice is a part of one row: ``size`` bytes at ``source`` in the file that
    belong to ``row``. Slices that are neighbours both in the file and in the output are one run: ``run_size`` bytes
    at ``run_source`` go to ``run_target``; read i has the runs ``first_run[i]:first_run[i + 1]``.
    """

    file: Ints
    offset: Ints
    length: Ints
    overlapping: npt.NDArray[np.bool_]
    first_slice: Ints
    row: Ints
    source: Ints
    size: Ints
    first_run: Ints
    run_source: Ints
    run_target: Ints
    run_size: Ints

    def __len__(self) -> int:
        return len(self.file)

    def rows(self, read: int) -> Ints:
        """The rows that a read serves, each once."""
        return np.unique(self.row[self.first_slice[read] : self.first_slice[read + 1]])


@dataclass(frozen=True)
class _Slices:
    """Parts of rows, none longer than a read may be, ordered by file and offset."""

    file: Ints
    row: Ints
    source: Ints
    target: Ints
    size: Ints


def plan_reads(
    file: npt.NDArray[Any], offset: Ints, length: Ints, target: Ints, *, max_gap: int, max_read: int = MAX_READ
) -> Reads:
    """The reads for a range of bytes per row.

    Ranges may overlap, repeat, contain each other and come in any order. A range of no bytes needs no read; one longer
    than `max_read` is read in parts, which threads can share.

    Args:
        file: The number of each row's file, shape (n,), any integer type.
        offset: Where each range begins in its file, in bytes, shape (n,), int64.
        length: How many bytes each range has, shape (n,), int64; ``offset + length`` fits in int64.
        target: Where each row's bytes go in the output, shape (n,), int64.
        max_gap: Ranges with no more than this many bytes between them are read together.
        max_read: The most bytes of one read, unwanted bytes between ranges included.

    Returns:
        The reads.

    Example:
        >>> reads = plan_reads(
        ...     np.zeros(3, np.int64), np.array([0, 900, 12]), np.array([10, 5, 3]), np.array([0, 10, 15]), max_gap=4
        ... )
        >>> reads.offset.tolist(), reads.length.tolist(), reads.rows(0).tolist()
        ([0, 900], [15, 5], [0, 2])
    """
    slices = _ordered(_cut(file, offset, length, target, max_read))
    reach = _reach(slices)
    starts = _read_starts(slices, reach, max_gap, max_read)
    first_slice = np.append(starts, len(slices.row))
    begins, ends = slices.source[starts], reach[first_slice[1:] - 1]
    run_starts = _run_starts(slices, starts)
    return Reads(
        file=slices.file[starts],
        offset=begins,
        length=ends - begins,
        overlapping=_overlapping(slices, reach, starts),
        first_slice=first_slice,
        row=slices.row,
        source=slices.source,
        size=slices.size,
        first_run=np.append(np.searchsorted(run_starts, starts), len(run_starts)),
        run_source=slices.source[run_starts],
        run_target=slices.target[run_starts],
        run_size=np.add.reduceat(slices.size, run_starts) if len(run_starts) else run_starts,
    )


def _cut(file: npt.NDArray[Any], offset: Ints, length: Ints, target: Ints, max_read: int) -> _Slices:
    """Rows without bytes left out, rows longer than a read in parts."""
    rows = np.flatnonzero(length > 0)
    parts = -(-length[rows] // max_read)
    row = np.repeat(rows, parts)
    begin = (np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)) * max_read
    size = np.minimum(length[row] - begin, max_read)
    return _Slices(file[row].astype(np.int64), row, offset[row] + begin, target[row] + begin, size)


def _ordered(slices: _Slices) -> _Slices:
    order = np.lexsort((slices.target, slices.source, slices.file))
    return _Slices(
        slices.file[order], slices.row[order], slices.source[order], slices.target[order], slices.size[order]
    )


def _reach(slices: _Slices) -> Ints:
    """How far into their file all slices up to each one reach: a running maximum that starts anew with each file."""
    end = slices.source + slices.size
    by_end = np.lexsort((end, slices.file))
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    # Every rank of a file is above all ranks of the files before it, so that one maximum serves all files.
    reach: Ints = end[by_end[np.maximum.accumulate(rank)]]
    return reach


def _read_starts(slices: _Slices, reach: Ints, max_gap: int, max_read: int) -> Ints:
    """The slices that begin a read."""
    count = len(slices.row)
    if not count:
        return np.empty(0, np.int64)
    far = (slices.file[1:] != slices.file[:-1]) | (slices.source[1:] - reach[:-1] > max_gap)
    near = np.append(np.flatnonzero(np.append(True, far)), count)
    too_long = np.flatnonzero(reach[near[1:] - 1] - slices.source[near[:-1]] > max_read)
    cuts = [_split(slices.source, reach, int(near[i]), int(near[i + 1]), max_read) for i in too_long]
    return np.sort(np.concatenate([near[:-1], *cuts]))


def _split(source: Ints, reach: Ints, first: int, last: int, max_read: int) -> Ints:
    """Where ranges that lie close together, but reach too far for one read, are cut again."""
    cuts: list[int] = []
    start = first
    while True:
        # The first slice past the limit reaches further than all before it, so `reach` from there on is its own.
        start += int(np.searchsorted(reach[start:last], source[start] + max_read, side="right"))
        if start >= last:
            return np.array(cuts, np.int64)
        cuts.append(start)


def _overlapping(slices: _Slices, reach: Ints, starts: Ints) -> npt.NDArray[np.bool_]:
    """Whether any two slices of a read have bytes in common."""
    if not len(starts):
        return np.empty(0, np.bool_)
    shared = np.zeros(len(slices.row), np.bool_)
    shared[1:] = slices.source[1:] < reach[:-1]
    shared[starts] = False
    found: npt.NDArray[np.bool_] = np.logical_or.reduceat(shared, starts)
    return found


def _run_starts(slices: _Slices, starts: Ints) -> Ints:
    """The slices that do not continue the one before them in both the file and the output."""
    begins = np.ones(len(slices.row), np.bool_)
    continues = (slices.source[1:] == slices.source[:-1] + slices.size[:-1]) & (
        slices.target[1:] == slices.target[:-1] + slices.size[:-1]
    )
    begins[1:] = ~continues
    begins[starts] = True
    return np.flatnonzero(begins)
