"""A file of an object store whose ranges are asked for before they are decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.storage import parallel
from hudi_vector.storage.objects import ObjectFile, PositionedFile
from hudi_vector.storage.ranges import MAX_READ, OBJECT_STORE_MAX_GAP, plan_reads, sparing_gap

__all__ = ["FetchedFile", "Range"]

Range = tuple[int, int]
"""The begin and the end of some bytes of a file."""


class FetchedFile(PositionedFile):
    """An open file that has ranges of it in memory for a while, as pyarrow and this package read files.

    pyarrow reads the columns of a row group one after the other, or with the eight threads that it has for all files.
    Here they are in memory before pyarrow asks for them. What was not fetched is read when it is asked for.
    """

    def __init__(self, source: Any, size: int) -> None:
        """Read from `source`, which has so many bytes and is closed with this file."""
        super().__init__()
        self._source, self._size = source, size
        self._held: list[tuple[int, pa.Buffer]] = []

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    @contextmanager
    def ahead(self, ranges: Sequence[Range]) -> Iterator[None]:
        """Hold ranges in memory during the block: those that are not there are read at once, in few requests."""
        absent = [(begin, end) for begin, end in ranges if begin < end and self._found(begin, end) is None]
        if not absent:
            yield
            return
        reads = _planned(absent)
        before = self._held
        with parallel.room(sum(end - begin for begin, end in reads)):
            self._held = [*before, *self._read(reads)]
            try:
                yield
            finally:
                self._held = before

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return `nbytes` bytes from `offset`, fewer at the end; raise OSError if they cannot be read."""
        found = self._found(offset, offset + nbytes)
        content: bytes = self._source.read_at(nbytes, offset) if found is None else found.to_pybytes()
        return content

    def read_buffer(self, nbytes: int | None = None) -> pa.Buffer:
        """Return the next `nbytes` bytes, or all that are left."""
        begin = self.tell()
        end = self._size if nbytes is None else min(begin + nbytes, self._size)
        found = self._found(begin, end)
        if found is None:
            with self.ahead([(begin, end)]):
                found = self._found(begin, end) or pa.py_buffer(b"")
        self.seek(max(begin, end))
        return found

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._source.close()
        super().close()

    def _found(self, begin: int, end: int) -> pa.Buffer | None:
        for at, content in self._held:
            if at <= begin and end <= at + content.size:
                return content.slice(begin - at, end - begin)
        return None

    def _read(self, reads: Sequence[Range]) -> list[tuple[int, pa.Buffer]]:
        """Do reads at once and return their content, one buffer for those that follow each other without a gap."""
        parts = parallel.each(self._part, reads)
        firsts = [0, *(n for n in range(1, len(reads)) if reads[n][0] != reads[n - 1][1]), len(reads)]
        return [
            (reads[first][0], parts[first] if last - first == 1 else pa.py_buffer(b"".join(parts[first:last])))
            for first, last in pairwise(firsts)
        ]

    def _part(self, read: Range) -> pa.Buffer:
        begin, size, source = read[0], read[1] - read[0], self._source
        is_object = isinstance(source, ObjectFile)
        content = source.buffer_at(size, begin) if is_object else pa.py_buffer(source.read_at(size, begin))
        if content.size != size:
            raise EOFError
        return content


def _planned(ranges: Sequence[Range]) -> list[Range]:
    """Return the reads for some ranges, of which none is too long, in their order in the file."""
    if len(ranges) == 1 and ranges[0][1] - ranges[0][0] <= MAX_READ:
        return [ranges[0]]
    begin, end = np.array(ranges, np.int64).T
    file, size = np.zeros(len(begin), np.int64), end - begin
    gap = sparing_gap(file, begin, size, OBJECT_STORE_MAX_GAP)
    reads = plan_reads(file, begin, size, np.cumsum(size) - size, max_gap=gap, max_read=MAX_READ)
    return list(zip(reads.offset.tolist(), (reads.offset + reads.length).tolist(), strict=True))
