"""Containers: files that hold the bytes of many blobs, each one range of bytes whatever the file's format.

An append goes to one file, and no file has two writers. References name the file's final place from the first append
on; the bytes are durable only when `OpenContainer.close` has returned.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.lance import LanceContainer
from hudi_vector.blobs.containers.parquet import ParquetContainer
from hudi_vector.blobs.containers.raw import RawContainer
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.storage import StorageOptions

__all__ = ["CHECKSUMS", "OpenContainer", "WrittenContainer"]

CHECKSUMS: dict[str, Callable[[memoryview], bytes]] = {
    "crc32": lambda view: zlib.crc32(view).to_bytes(4, "big"),
    "sha256": lambda view: hashlib.sha256(view).digest(),
}
"""The bytes of a blob's checksum, by the name of the method."""


class Format(Protocol):
    """What every format of a container can do."""

    def room(self, lengths: Ints, limit: int) -> int:
        """How many of the first values one append may take before the file exceeds `limit` bytes."""

    def append(self, values: ByteValues) -> Ints:
        """Write values; gives the file position of each, int64."""

    def close(self) -> int:
        """Make the file durable, prove the positions where they were computed; gives the size in bytes."""

    def discard(self) -> None:
        """Close what is open, on the way out of a failure."""


_FORMATS: dict[str, Callable[[str, StorageOptions], Format]] = {
    "raw": RawContainer,
    "parquet": ParquetContainer,
    "lance": LanceContainer,
}


@dataclass(frozen=True)
class WrittenContainer:
    """A container that is durable.

    `path` starts at the table's folder; `bytes` is the size of the file, `blob_bytes` that of the blobs in it.
    `checksums`, where asked for, is a batch of (offset, length, checksum), one row per blob.
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
    """A container that is being filled, with the size of its blobs and their checksums."""

    def __init__(self, uri: str, settings: BlobSettings, options: StorageOptions) -> None:
        """Create the file.

        Args:
            uri: Its place, as `hudi_vector.storage.normalise` spells it.
            settings: Those of the column.
            options: How storage is opened.

        Raises:
            FileExistsError: There is such a file.
        """
        self._format = _FORMATS[settings.format](uri, options)
        self._settings = settings
        self._checksum = CHECKSUMS.get(settings.checksum)
        self._offsets: list[Ints] = []
        self._lengths: list[Ints] = []
        self._checksums: list[bytes] = []
        self._blobs = 0

    def room(self, lengths: Ints) -> int:
        """How many of the first values the next append may take; a value always fits into an empty container."""
        return max(self._format.room(lengths, self._settings.max_file_size), 1 if not self._blobs else 0)

    def append(self, values: ByteValues) -> Ints:
        """Write as many values as there was room for.

        Args:
            values: One or more.

        Returns:
            The position of each in the file, bytes, int64.
        """
        offsets = self._format.append(values)
        self._blobs += len(values)
        self._lengths.append(values.lengths)
        if self._checksum is not None:
            self._offsets.append(offsets)
            self._checksums += [self._checksum(values.view(index)) for index in range(len(values))]
        return offsets

    def close(self, path: str, partition: str, column: str) -> WrittenContainer:
        """Make the file durable.

        Args:
            path: Its place below the table.
            partition: The path of the table's partition.
            column: The column's dotted path.

        Returns:
            What was written.

        Raises:
            BlobWriteError: The file does not hold the blobs where their references say.
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
        """Close what is open, on the way out of a failure; the file is not to be referred to."""
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
