"""A Lance container: one blob column, whose values Lance's blob encoding writes whole, each from a multiple of 64 on.

Lance's file reader hands out bytes and never their positions, so positions are computed and then proved by the file's
own metadata: the page that describes the values must be the only one and begin right behind the last value, and values
read back from their positions must be what was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.check import Spots
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions, lance_options, open_storage, scheme_of

__all__ = ["LanceContainer"]

_SCHEMA = pa.schema([pa.field("blob", pa.large_binary(), nullable=False, metadata={"lance-encoding:blob": "true"})])
_ALIGNMENT = 64
_VERSION = "2.1"
# After 2**19 values Lance puts a page of descriptions between them.
_MOST_BLOBS = 1 << 18


class LanceContainer:
    """A Lance file to which batches are appended."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        from lance.file import LanceFileWriter

        scheme = scheme_of(uri)
        self._uri = uri
        self._storage = open_storage(uri, options)
        self._path = self._storage.path(uri) if scheme == "file" else uri
        self._options = lance_options(scheme, options.at(uri))
        # Lance writes beside the name and moves the file there when it is whole; until then the name is held.
        self._storage.create(uri).discard()
        self._writer = LanceFileWriter(self._path, _SCHEMA, version=_VERSION, storage_options=self._options)
        self._position = 0
        self._blobs = 0
        self._spots = Spots()

    def room(self, lengths: Ints, limit: int) -> int:
        """How many of the first values fit before the file exceeds `limit` bytes."""
        fitting = int(np.searchsorted(np.cumsum(_aligned(lengths)), limit - self._position, side="right"))
        return min(fitting, _MOST_BLOBS - self._blobs)

    def append(self, values: ByteValues) -> Ints:
        """Write values; gives the file position of each."""
        self._writer.write_batch(pa.record_batch([values.to_arrow()], schema=_SCHEMA))
        taken = _aligned(values.lengths)
        ends = self._position + np.cumsum(taken)
        offsets: Ints = ends - taken
        self._spots.remember(values, offsets)
        self._position = int(ends[-1])
        self._blobs += len(values)
        return offsets

    def close(self) -> int:
        """Make the file durable and prove the positions; gives its size."""
        self._writer.close()
        size = int(self._writer.size_bytes)
        self._storage.sync(self._uri)
        if self._described() != (self._blobs, [self._position]):
            raise BlobWriteError(
                f"this version of pylance lays '{self._uri}' out differently from what its references say; nothing "
                "refers to it, use hoodie.storage.blob.outofline.format = raw"
            )
        self._spots.verify(self._storage, self._uri)
        return size

    def discard(self) -> None:
        """Let go of the file; Lance removes what it wrote beside the name."""
        self._writer = None

    def _described(self) -> tuple[int, list[int]]:
        """The number of values, and where the pages that describe them begin."""
        from lance.file import LanceFileReader

        metadata: Any = LanceFileReader(self._path, storage_options=self._options).metadata()
        return metadata.num_rows, [page.buffers[0].position for page in metadata.columns[0].pages]


def _aligned(lengths: Ints) -> Ints:
    return -(-lengths // _ALIGNMENT) * _ALIGNMENT
