"""Reading of a column of blobs in pieces, each within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.wanted import Ints
from hudi_vector.blobs.struct import BlobColumns

__all__ = ["cut", "pieces"]


def pieces(
    fetcher: BlobFetcher, columns: BlobColumns, part: Part, budget: int, *, files: BlobFiles | None = None
) -> Iterator[pa.BinaryArray]:
    """Yield the bytes of all blobs in order, as ``binary`` arrays of at most `budget` bytes.

    A value above the budget is a separate piece. `part` is the requested part of each blob. `files` is a cache from
    `BlobFetcher.files` that was used for these blobs before.

    Example:
        >>> from hudi_vector.blobs.struct import blob_array
        >>> blobs = BlobColumns.of(blob_array(["INLINE"] * 3, [b"aa", b"bb", b"c"], *[[None] * 3] * 4))
        >>> [piece.to_pylist() for piece in pieces(BlobFetcher(), blobs, Part(), 3)]
        [[b'aa'], [b'bb', b'c']]
    """
    if files is None:
        files = fetcher.files()
    for start, stop in cut(fetcher.sizes(columns, part, files=files), budget):
        yield fetcher.fetch(columns.slice(start, stop), _part(part, start, stop), files=files)


def cut(sizes: Ints, budget: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end (exclusive) of each piece: as many values as fit in `budget` bytes, but at least one.

    Example:
        >>> list(cut(np.array([2, 2, 1, 9, 0]), 3))
        [(0, 1), (1, 3), (3, 4), (4, 5)]
    """
    ends = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + budget, side="right")))
        yield start, stop
        start, done = stop, int(ends[stop - 1])


def _part(part: Part, start: int, stop: int) -> Part:
    first, count = part.start, part.count
    return Part(
        first[start:stop] if isinstance(first, np.ndarray) else first,
        count[start:stop] if isinstance(count, np.ndarray) else count,
    )
