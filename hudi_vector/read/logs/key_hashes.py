"""Sorted hashes of record keys, which find the rows of a base file that may have given keys.

With them the key column of the base file is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.topk import Ints

__all__ = ["Hashes", "KeyHashes", "hashed"]

Hashes = npt.NDArray[np.uint64]

_BYTES = 8


def hashed(keys: pa.Array) -> Hashes:
    """Return the hash of each key, shape (n,): BLAKE2b with eight bytes over its UTF-8, as a little-endian number.

    `keys` holds texts without NULL.

    Example:
        >>> hashed(pa.array(["a", "b", "a"])).tolist()
        [3405396810240292928, 8453121595177857668, 3405396810240292928]
    """
    raw = keys.cast(pa.binary()).to_pylist()
    return np.frombuffer(b"".join([blake2b(key, digest_size=_BYTES).digest() for key in raw]), "<u8")


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """The hashes of all keys of a base file in ascending order, and the row of each; equal hashes are sorted by row."""

    key_hash: Hashes
    key_row: npt.NDArray[Any]

    @classmethod
    def of(cls, hashes: Hashes) -> KeyHashes:
        """Sort the hashes of the keys, given in row order."""
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order.astype(np.uint32))

    @property
    def nbytes(self) -> int:
        """Return the bytes of both arrays."""
        return self.key_hash.nbytes + self.key_row.nbytes

    def copy(self) -> KeyHashes:
        """Return a copy in separate memory."""
        return KeyHashes(self.key_hash.copy(), self.key_row.copy())

    def rows_like(self, keys: pa.Array) -> Ints:
        """Return the distinct rows, ascending, whose key has the same hash as one of `keys`, texts without NULL.

        These are all rows with one of the keys and, rarely, rows with another key of the same hash.

        Example:
            >>> held = KeyHashes.of(hashed(pa.array(["a", "b", "a"])))
            >>> held.rows_like(pa.array(["a", "c"])).tolist()
            [0, 2]
        """
        wanted = np.unique(hashed(keys))
        first = np.searchsorted(self.key_hash, wanted, side="left")
        count = np.searchsorted(self.key_hash, wanted, side="right") - first
        entries = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        return np.sort(self.key_row[entries]).astype(np.int64)
