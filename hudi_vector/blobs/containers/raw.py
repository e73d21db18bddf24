"""Raw containers: the concatenated bytes of blobs and nothing else."""

from __future__ import annotations

import numpy as np

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.storage import StorageOptions, open_storage

__all__ = ["RawContainer"]


class RawContainer:
    """A raw container that is being filled."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._file = open_storage(uri, options).create(uri, unique=True)
        self._position = 0

    def room(self, lengths: Ints, limit: int) -> int:
        """Return how many of the first values fit before the file exceeds `limit` bytes."""
        return int(np.searchsorted(np.cumsum(lengths), limit - self._position, side="right"))

    def append(self, values: ByteValues) -> Ints:
        """Write values; return the position of each in the file, in bytes, int64."""
        ends = self._position + np.cumsum(values.lengths)
        for run in values.runs():
            self._file.write(run)
        self._position = int(ends[-1])
        return ends - values.lengths

    def close(self) -> int:
        """Make the file durable and return its size in bytes."""
        self._file.close()
        return self._position

    def discard(self) -> None:
        """Close the file after a failure."""
        self._file.discard()
