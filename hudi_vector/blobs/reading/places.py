"""Ranges of local files that the JVM of a Spark task reads itself, so that large values do not pass through Python.

Python still resolves every reference: it decides whether a file may be read, finds what is wrong with it, and names the
file that the JVM opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.files import BlobFile, BlobFiles, LocalFile, Trouble
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.pieces import pieces
from hudi_vector.blobs.reading.resolve import resolve
from hudi_vector.blobs.reading.wanted import Ints, Part, wanted_of
from hudi_vector.blobs.struct import BlobColumns, Flags

__all__ = ["PIECE_TYPE", "Places", "placed_pieces", "places_of"]

PIECE_TYPE = pa.struct(
    [
        pa.field("bytes", pa.binary()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
    ]
)
"""A value: its bytes, or the place of its bytes in a local file if there is a path."""

# Ranges of smaller values are better read together, and larger ones would need as much memory outside of Java's heap.
_LEAST, _MOST = 256 << 10, 64 << 20


@dataclass(frozen=True)
class Places:
    """The place of each of n values: `length` bytes from byte `offset` of the local file `path`.

    `path` is NULL for a value that has no place, whose bytes Python reads.
    """

    path: pa.StringArray
    offset: Ints
    length: Ints

    @classmethod
    def none(cls, count: int) -> Places:
        """Return no place for any of `count` values."""
        return cls(pa.nulls(count, pa.string()), np.zeros(count, np.int64), np.zeros(count, np.int64))

    def slice(self, start: int, stop: int) -> Places:
        """Return the places from `start` to `stop` (exclusive) without copying."""
        return Places(self.path.slice(start, stop - start), self.offset[start:stop], self.length[start:stop])

    def others(self, values: pa.Array) -> pa.Array:
        """Return a column of the n values with NULL where a value has a place."""
        if self.path.null_count == len(self.path):
            return values
        return pc.if_else(self.path.is_null(), values, pa.scalar(None, values.type))

    def piece(self, values: pa.BinaryArray) -> pa.StructArray:
        """Return the bytes of the other values with these places, as an array of `PIECE_TYPE`."""
        arrays = [values, self.path, pa.array(self.offset), pa.array(self.length)]
        return pa.StructArray.from_arrays(arrays, fields=list(PIECE_TYPE))


def placed_pieces(fetcher: BlobFetcher, columns: BlobColumns, part: Part, budget: int) -> Iterator[pa.StructArray]:
    """Yield all blobs in order, as arrays of `PIECE_TYPE` with at most `budget` bytes.

    A value above the budget is a separate piece. `part` is the requested part of each blob.
    """
    files = fetcher.files()
    places = places_of(fetcher, columns, part, files)
    kind, data, path = map(places.others, (columns.kind, columns.data, columns.path))
    start = 0
    for values in pieces(fetcher, replace(columns, kind=kind, data=data, path=path), part, budget, files=files):
        stop = start + len(values)
        yield places.slice(start, stop).piece(values)
        start = stop


def places_of(fetcher: BlobFetcher, columns: BlobColumns, part: Part, files: BlobFiles) -> Places:
    """Return the places of the large values that references to readable local files ask for.

    Everything else has no place, also what cannot be read. Nothing has a place if bytes are compared with checksums or
    are to be read by a given number of threads, which Python does. `part` is the requested part of each blob. Raises
    InvalidBlobError if the fields of a blob contradict each other.
    """
    if fetcher.verify or fetcher.threads is not None:
        return Places.none(len(columns))
    wanted = wanted_of(columns)
    is_local = np.array([*map(_names_local_file, wanted.paths), False])[wanted.file]
    look: Flags = is_local & ((wanted.length < 0) | (wanted.length >= _LEAST))
    if not look.any():
        return Places.none(len(wanted))
    # Other references stay out: their files are looked up when they are read.
    resolved = resolve(replace(wanted, file=np.where(look, wanted.file, -1).astype(np.int32)), files, part, look=look)
    paths = [_readable(file) for file in resolved.files]
    path = pa.array([*paths, None], pa.string()).take(pa.array(resolved.wanted.file % (len(paths) + 1)))
    large = pa.array((resolved.need >= _LEAST) & (resolved.need <= _MOST))
    return Places(pc.if_else(large, path, pa.scalar(None, pa.string())), resolved.begin, resolved.need)


def _names_local_file(path: str) -> bool:
    return path.startswith("/") or path.lower().startswith("file:/")


def _readable(file: BlobFile | Trouble | None) -> str | None:
    """Return the path of a local file that can be opened, None for any other.

    Other characters than those of ASCII may have another meaning for the JVM, which follows the locale.
    """
    if not isinstance(file, LocalFile) or not file.path.isascii():
        return None
    try:
        file.open().close()
    except OSError:
        return None
    return file.path
