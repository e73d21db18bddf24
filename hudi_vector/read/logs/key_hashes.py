"""Hashes of record keys, sorted: which rows of a base file may have one of some keys, without its column of keys."""

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
    """The hash of each key: BLAKE2b of eight bytes over its UTF-8, taken as a little-endian number.

    Args:
        keys: Text without NULLs.

    Returns:
        A number for each.

    Example:
        >>> hashed(pa.array(["a", "b", "a"])).tolist()
        [3405396810240292928, 8453121595177857668, 3405396810240292928]
    """
    raw = keys.cast(pa.binary()).to_pylist()
    return np.frombuffer(b"".join([blake2b(key, digest_size=_BYTES).digest() for key in raw]), "<u8")


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """The hashes of all keys of a base file, ascending, and the row of each; equal hashes by row."""

    key_hash: Hashes
    key_row: npt.NDArray[Any]

    @classmethod
    def of(cls, hashes: Hashes) -> KeyHashes:
        """Sort hashes.

        Args:
            hashes: The hash of each row's key, in the order of the rows.

        Returns:
            The same by hash.
        """
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order.astype(np.uint32))

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.key_hash.nbytes + self.key_row.nbytes

    def copy(self) -> KeyHashes:
        """The same in memory of their own."""
        return KeyHashes(self.key_hash.copy(), self.key_row.copy())

    def rows_like(self, keys: pa.Array) -> Ints:
        """The rows whose keys have the hash of one of some keys: all rows that have such a key, and seldom others.

        Args:
            keys: Text without NULLs.

        Returns:
            The rows, ascending, each once.

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
