"""Checks that the bytes of a container lie where its references say."""

from __future__ import annotations

import numpy as np

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import Storage

__all__ = ["Spots"]

_SPOT = 32
_MOST_READS = 64


class Spots:
    """Samples of written bytes to find again: the beginning and end of the first and last value of each append."""

    def __init__(self) -> None:
        self._expected: list[tuple[int, bytes]] = []

    def remember(self, values: ByteValues, offsets: Ints) -> None:
        """Keep samples of one append; `offsets` are the positions of its values in the file, in bytes."""
        for index in {0, len(values) - 1}:
            view, offset = values.view(index), int(offsets[index])
            self._expected.append((offset, bytes(view[:_SPOT])))
            tail = bytes(view[-_SPOT:])
            self._expected.append((offset + len(view) - len(tail), tail))

    def verify(self, storage: Storage, uri: str) -> None:
        """Read up to 64 samples back, including the first and the last.

        Raises BlobWriteError if the file holds other bytes there.
        """
        chosen = np.unique(np.linspace(0, len(self._expected) - 1, _MOST_READS).astype(int))
        with storage.open(uri, mapped=False) as file:
            for index in chosen:
                position, expected = self._expected[index]
                if file.read_at(len(expected), position) != expected:
                    raise BlobWriteError(
                        f"the container '{uri}' holds other bytes at {position} than the blob that was put there; "
                        "nothing refers to it, and the write has to be repeated"
                    )
