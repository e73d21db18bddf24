"""The plan of reads for many byte ranges: ranges of one file that are close together become one read.

On a local disk a read costs a system call, some microseconds, while the page cache delivers several gigabytes a second:
bytes between two ranges are worth reading only if they are few. A request to an object store waits tens of milliseconds
for its first byte and then delivers about a hundred bytes a microsecond. Many requests wait at once, so that what one
more costs is the work of sending it, and its price: about as much as a quarter of a megabyte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LOCAL_MAX_GAP", "MAX_READ", "OBJECT_STORE_MAX_GAP", "Reads", "plan_reads", "sparing_gap", "usual_gap"]

Ints = npt.NDArray[np.int64]

LOCAL_MAX_GAP = 16 << 10
OBJECT_STORE_MAX_GAP = 256 << 10
# Larger reads do not raise the throughput of either, and make other threads wait longer.
MAX_READ = 8 << 20


def usual_gap(is_local: bool) -> int:
    """Return how many bytes between two ranges are better read than left out, on a local disk or on an object store."""
    return LOCAL_MAX_GAP if is_local else OBJECT_STORE_MAX_GAP


@dataclass(frozen=True)
class Reads:
    """m reads, ordered by file and offset, and where their bytes go.

    Read i covers ``length[i]`` bytes of ``file[i]`` from ``offset[i]``, and serves the slices
    ``first_slice[i]:first_slice[i + 1]``. A slice is a part of one row: ``size`` bytes at ``source`` in the file that
    belong to ``row``. Slices that are neighbours both in the file and in the output form one run: ``run_size`` bytes at
    ``run_source`` go to ``run_target``; read i has the runs ``first_run[i]:first_run[i + 1]``. ``overlapping[i]`` is
    True if two slices of read i have bytes in common.
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
        """Return the rows that a read serves, sorted, each once."""
        return np.unique(self.row[self.first_slice[read] : self.first_slice[read + 1]])


@dataclass(frozen=True)
class _Slices:
    """Parts of rows, each at most as long as one read."""

    file: Ints
    row: Ints
    source: Ints
    target: Ints
    size: Ints


def plan_reads(
    file: npt.NDArray[Any], offset: Ints, length: Ints, target: Ints, *, max_gap: int, max_read: int = MAX_READ
) -> Reads:
    """Plan the reads for one range of bytes per row.

    Ranges may overlap, repeat, contain each other and come in any order. An empty range needs no read; one longer than
    `max_read` is read in parts, which threads can share.

    Args:
        file: The number of each row's file, shape (n,), any integer type.
        offset: The start of each range in its file, in bytes, shape (n,), int64.
        length: The number of bytes of each range, shape (n,), int64; ``offset + length`` fits in int64.
        target: The position of each row's bytes in the output, shape (n,), int64.
        max_gap: Ranges with at most this many bytes between them are read together.
        max_read: The most bytes of one read, including unwanted bytes between ranges.

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


def sparing_gap(file: npt.NDArray[Any], offset: Ints, length: Ints, most: int, spare: int = 0) -> int:
    """Return the widest gap, at most `most`, with which `plan_reads` reads few bytes between ranges.

    These are no more than the bytes of the ranges, or `spare` if that is more. The arguments are those of `plan_reads`;
    bytes that several ranges share are counted once.

    Example:
        >>> file, offset = np.zeros(3, np.int64), np.array([0, 15, 60])
        >>> sparing_gap(file, offset, np.full(3, 10), most=100)
        34
    """
    some = np.flatnonzero(length > 0)
    order = some[np.lexsort((offset[some], file[some]))]
    slices = _Slices(file[order].astype(np.int64), order, offset[order], offset[order], length[order])
    if len(order) < 2:
        return most
    reach = _reach(slices)
    begins = slices.source[1:] - reach[:-1]
    gaps = np.sort(begins[(slices.file[1:] == slices.file[:-1]) & (begins > 0) & (begins <= most)])
    firsts = np.append(True, slices.file[1:] != slices.file[:-1])
    before = np.where(firsts, slices.source, np.append(0, reach[:-1]))
    covered = int(np.maximum(reach - np.maximum(before, slices.source), 0).sum())
    afforded = int(np.searchsorted(np.cumsum(gaps), max(covered, spare), side="right"))
    return most if afforded == len(gaps) else int(gaps[afforded]) - 1


def _cut(file: npt.NDArray[Any], offset: Ints, length: Ints, target: Ints, max_read: int) -> _Slices:
    """Return the rows as slices: empty rows are left out, and rows longer than a read are cut into parts."""
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
    """Return, for each slice, the largest end of all slices of its file up to it."""
    end = slices.source + slices.size
    by_end = np.lexsort((end, slices.file))
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    # The ranks of a file are all above those of earlier files, so one running maximum serves all files.
    reach: Ints = end[by_end[np.maximum.accumulate(rank)]]
    return reach


def _read_starts(slices: _Slices, reach: Ints, max_gap: int, max_read: int) -> Ints:
    """Return the numbers of the slices that begin a read."""
    count = len(slices.row)
    if not count:
        return np.empty(0, np.int64)
    far = (slices.file[1:] != slices.file[:-1]) | (slices.source[1:] - reach[:-1] > max_gap)
    near = np.append(np.flatnonzero(np.append(True, far)), count)
    too_long = np.flatnonzero(reach[near[1:] - 1] - slices.source[near[:-1]] > max_read)
    cuts = [_split(slices.source, reach, int(near[i]), int(near[i + 1]), max_read) for i in too_long]
    return np.sort(np.concatenate([near[:-1], *cuts]))


def _split(source: Ints, reach: Ints, first: int, last: int, max_read: int) -> Ints:
    """Return where a series of close ranges that reaches too far for one read is cut again."""
    cuts: list[int] = []
    start = first
    while True:
        # The first slice past the limit reaches further than all before it, so `reach` is right from there on.
        start += int(np.searchsorted(reach[start:last], source[start] + max_read, side="right"))
        if start >= last:
            return np.array(cuts, np.int64)
        cuts.append(start)


def _overlapping(slices: _Slices, reach: Ints, starts: Ints) -> npt.NDArray[np.bool_]:
    """Return, for each read, whether any two of its slices have bytes in common."""
    if not len(starts):
        return np.empty(0, np.bool_)
    shared = np.zeros(len(slices.row), np.bool_)
    shared[1:] = slices.source[1:] < reach[:-1]
    shared[starts] = False
    found: npt.NDArray[np.bool_] = np.logical_or.reduceat(shared, starts)
    return found


def _run_starts(slices: _Slices, starts: Ints) -> Ints:
    """Return the numbers of the slices that do not continue the previous slice in both the file and the output."""
    begins = np.ones(len(slices.row), np.bool_)
    continues = (slices.source[1:] == slices.source[:-1] + slices.size[:-1]) & (
        slices.target[1:] == slices.target[:-1] + slices.size[:-1]
    )
    begins[1:] = ~continues
    begins[starts] = True
    return np.flatnonzero(begins)
