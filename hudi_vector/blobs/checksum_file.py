"""The checksums of a write's blobs: one Parquet file beside its manifest, which names it and proves it whole."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.containers import WrittenContainer
from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join

__all__ = ["ChecksumFile", "load_checksums", "write_checksums"]


@dataclass(frozen=True)
class ChecksumFile:
    """A file of checksums: its name, its size in bytes and the SHA-256 of its content."""

    name: str
    bytes: int
    sha256: str


def write_checksums(storage: Storage, folder: str, written: Iterable[WrittenContainer]) -> ChecksumFile | None:
    """Write the checksums that were computed, durable when this returns.

    Args:
        storage: The file system.
        folder: The folder of the manifest.
        written: The containers of the write.

    Returns:
        The file, or None where no checksums were asked for.
    """
    tables = [
        pa.Table.from_batches([made.checksums])
        .add_column(0, "method", pa.array([made.checksum] * made.blobs))
        .add_column(0, "path", pa.array([made.path] * made.blobs))
        for made in written
        if made.checksums is not None
    ]
    if not tables:
        return None
    sink = io.BytesIO()
    pq.write_table(pa.concat_tables(tables), sink)
    content = sink.getvalue()
    name = f"checksums-{uuid.uuid4().hex}.parquet"
    storage.publish(join(folder, name), content)
    return ChecksumFile(name, len(content), hashlib.sha256(content).hexdigest())


def load_checksums(storage: Storage, folder: str, file: ChecksumFile) -> pa.Table:
    """Read the checksums of a write.

    Args:
        storage: The file system.
        folder: The folder of the manifest.
        file: What the manifest says of them.

    Returns:
        Columns path (from the table's folder), method, offset and length (int64, bytes), checksum (binary).

    Raises:
        DataFileError: The file is gone or damaged.
    """
    uri = join(folder, file.name)
    try:
        content = storage.read(uri)
    except OSError as problem:
        raise DataFileError(f"the checksums '{uri}' cannot be read: {problem}") from problem
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataFileError(f"the checksums '{uri}' are damaged: the file is not the one its manifest names")
    return pq.read_table(pa.BufferReader(content))
