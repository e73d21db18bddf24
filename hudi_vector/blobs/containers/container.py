"""Containers: files that hold the bytes of many blobs, each blob one contiguous range in every file format.

A file has one writer. References hold the file's final path from the first append on; the bytes are durable only after
`OpenContainer.close` has returned.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.container_formats import FORMATS
from hudi_vector.storage import StorageOptions

__all__ = ["CHECKSUMS", "OpenContainer", "WrittenContainer"]

CHECKSUMS: dict[str, Callable[[memoryview], bytes]] = {
    "crc32": lambda view: zlib.crc32(view).to_bytes(4, "big"),
    "sha256": lambda view: hashlib.sha256(view).digest(),
}
"""The function that computes a blob's checksum, by the name of the method."""


class Format(Protocol):
    """The operations of a container's file format."""

    def room(self, lengths: Ints, limit: int) -> int:
        """Return how many of the first values the next append may take before the file exceeds `limit` bytes."""

    def append(self, values: ByteValues) -> Ints:
        """Write values; return the position of each in the file, in bytes, int64."""

    def close(self) -> int:
        """Make the file durable, check computed positions, and return the file's size in bytes."""

    def discard(self) -> None:
        """Close the file after a failure."""


@dataclass(frozen=True)
class WrittenContainer:
    """A durable container.

    `path` is relative to the table; `bytes` is the size of the file, `blob_bytes` the size of its blobs. `checksums` is
    a batch of (offset, length, checksum) with one row per blob, or None if not asked for.
    """

    path: str
    partition: str
    column: str
    bytes: int
    blobs: int
    blob_bytes: int
    checksum: str = "none"
    checksums: pa.RecordBatch | None = field(default=None, compare=False, repr=False)


class OpenContainer:
    """A container that is being filled; it counts its blobs and computes their checksums."""

    def __init__(self, uri: str, settings: BlobSettings, options: StorageOptions) -> None:
        """Create the file.

        Args:
            uri: The file, as `hudi_vector.storage.normalise` spells it.
            settings: The settings of the column.
            options: Hadoop's storage settings.

        Raises:
            FileExistsError: The file exists already.
        """
        self._format = _opened(settings.format, uri, options)
        self._settings = settings
        self._checksum = CHECKSUMS.get(settings.checksum)
        self._offsets: list[Ints] = []
        self._lengths: list[Ints] = []
        self._checksums: list[bytes] = []
        self._blobs = 0

    def room(self, lengths: Ints) -> int:
        """Return how many of the first values the next append may take; at least 1 if the container is empty."""
        return max(self._format.room(lengths, self._settings.max_file_size), 1 if not self._blobs else 0)

    def append(self, values: ByteValues) -> Ints:
        """Write one or more values, no more than `room` allows; return their positions in bytes, int64."""
        offsets = self._format.append(values)
        self._blobs += len(values)
        self._lengths.append(values.lengths)
        if self._checksum is not None:
            self._offsets.append(offsets)
            self._checksums += [self._checksum(values.view(index)) for index in range(len(values))]
        return offsets

    def close(self, path: str, partition: str, column: str) -> WrittenContainer:
        """Make the file durable and return what was written.

        `path` is relative to the table, `partition` the path of the table's partition, `column` the dotted path. Raises
        BlobWriteError if the file does not hold the blobs where their references say.
        """
        size = self._format.close()
        lengths = np.concatenate(self._lengths)
        return WrittenContainer(
            path=path,
            partition=partition,
            column=column,
            bytes=size,
            blobs=self._blobs,
            blob_bytes=int(lengths.sum()),
            checksum=self._settings.checksum,
            checksums=self._checksum_batch(lengths),
        )

    def discard(self) -> None:
        """Close the file after a failure; nothing may refer to it."""
        self._format.discard()

    def _checksum_batch(self, lengths: Ints) -> pa.RecordBatch | None:
        if self._checksum is None:
            return None
        return pa.record_batch(
            {
                "offset": np.concatenate(self._offsets),
                "length": lengths,
                "checksum": pa.array(self._checksums, pa.binary()),
            }
        )


def _opened(name: str, uri: str, options: StorageOptions) -> Format:
    """Create a file of a format, given by its name in `FORMATS`."""
    module = import_module(f"hudi_vector.blobs.containers.{name}")
    opened: Format = getattr(module, FORMATS[name].writer)(uri, options)
    return opened
