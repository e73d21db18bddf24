"""Lance containers: one blob column; Lance's blob encoding writes each value contiguously, aligned to 64 bytes.

Lance's file reader returns bytes but not their positions. So positions are computed, and then checked against the
file's metadata: there must be a single page that describes the values, it must begin right after the last value, and
samples read back from their positions must equal what was written.
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
# After 2**19 values Lance writes a page of descriptions between values, which would shift the positions.
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
        # Lance writes a temporary file and renames it when it is complete; creating the file reserves the name.
        self._storage.create(uri).discard()
        self._writer = LanceFileWriter(self._path, _SCHEMA, version=_VERSION, storage_options=self._options)
        self._position = 0
        self._blobs = 0
        self._spots = Spots()

    def room(self, lengths: Ints, limit: int) -> int:
        """Return how many of the first values fit before the file exceeds `limit` bytes or Lance's limit of values."""
        fitting = int(np.searchsorted(np.cumsum(_aligned(lengths)), limit - self._position, side="right"))
        return min(fitting, _MOST_BLOBS - self._blobs)

    def append(self, values: ByteValues) -> Ints:
        """Write values; return the position of each in the file, in bytes, int64."""
        self._writer.write_batch(pa.record_batch([values.to_arrow()], schema=_SCHEMA))
        taken = _aligned(values.lengths)
        ends = self._position + np.cumsum(taken)
        offsets: Ints = ends - taken
        self._spots.remember(values, offsets)
        self._position = int(ends[-1])
        self._blobs += len(values)
        return offsets

    def close(self) -> int:
        """Make the file durable, check the positions and return the size in bytes.

        Raises BlobWriteError if the file is laid out differently.
        """
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
        """Release the writer; Lance then removes its temporary file."""
        self._writer = None

    def _described(self) -> tuple[int, list[int]]:
        """Return the number of values, and the positions of the pages that describe them."""
        from lance.file import LanceFileReader

        metadata: Any = LanceFileReader(self._path, storage_options=self._options).metadata()
        return metadata.num_rows, [page.buffers[0].position for page in metadata.columns[0].pages]


def _aligned(lengths: Ints) -> Ints:
    return -(-lengths // _ALIGNMENT) * _ALIGNMENT
