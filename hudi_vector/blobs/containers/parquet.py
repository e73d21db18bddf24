"""Parquet containers: one required binary column, laid out so that every value is one known range of bytes.

A row group holds one page, uncompressed, PLAIN, without dictionary, levels or statistics. Its bytes are the page header
and then, for each value, four bytes of length and the value (Parquet's PLAIN encoding). The header's size is the row
group's size minus the values; it is known once the row group is written, and checked against the footer and by reading
values back.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.check import Spots
from hudi_vector.errors import BlobWriteError, InvalidBlobError
from hudi_vector.storage import StorageOptions, open_storage

__all__ = ["ParquetContainer"]

_SCHEMA = pa.schema([pa.field("blob", pa.large_binary(), nullable=False)])
_PREFIX = 4
_HEADER_BOUND = 64
_ROWS = 10_000  # the Parquet writer starts a second page after 20,000 rows
_ROW_GROUP = 64 << 20  # bounds memory: the writer copies a row group before writing it
_LARGEST = 2**31 - 1 - _PREFIX  # a page's size is a 32-bit number


class ParquetContainer:
    """A Parquet file to which row groups are appended."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._storage = open_storage(uri, options)
        self._file = self._storage.create(uri, unique=True)
        self._writer = pq.ParquetWriter(
            self._file.stream,
            _SCHEMA,
            compression="none",
            use_dictionary=False,
            column_encoding={"blob": "PLAIN"},
            write_statistics=False,
            data_page_size=2**31 - 1,
            data_page_version="1.0",
            store_schema=False,
        )
        self._groups: list[tuple[int, int]] = []
        self._spots = Spots()

    def room(self, lengths: Ints, limit: int) -> int:
        """Return how many of the first values fit into the next row group before the file exceeds `limit` bytes."""
        taken = np.cumsum(lengths + _PREFIX)
        left = limit - self._file.stream.tell() - _HEADER_BOUND
        fitting, in_memory = np.searchsorted(taken, [left, _ROW_GROUP], side="right").tolist()
        return int(min(fitting, max(1, in_memory), _ROWS))

    def append(self, values: ByteValues) -> Ints:
        """Write values as one row group; return the position of each in the file, in bytes, int64.

        Raises InvalidBlobError if a value is too large for a Parquet page.
        """
        if values.lengths.max() > _LARGEST:
            raise InvalidBlobError(
                f"a blob of {values.lengths.max()} bytes is too large for a Parquet container, whose values have at "
                f"most {_LARGEST} bytes; use hoodie.storage.blob.outofline.format = raw"
            )
        begin = self._file.stream.tell()
        self._writer.write_table(pa.table([values.to_arrow()], schema=_SCHEMA), row_group_size=len(values))
        end = self._file.stream.tell()
        taken = np.cumsum(values.lengths + _PREFIX)
        offsets = end - int(taken[-1]) + taken - values.lengths
        self._groups.append((begin, end - begin))
        self._spots.remember(values, offsets)
        return offsets

    def close(self) -> int:
        """Make the file durable, check the positions and return the size in bytes.

        Raises BlobWriteError if the file is laid out differently.
        """
        self._writer.close()
        size = int(self._file.stream.tell())
        self._file.close()
        with self._storage.open(self._uri, mapped=False) as file:
            footer = pq.read_metadata(file)
        columns = [footer.row_group(number).column(0) for number in range(footer.num_row_groups)]
        found = [(column.data_page_offset, column.total_compressed_size) for column in columns]
        if found != self._groups:
            raise BlobWriteError(
                f"the container '{self._uri}' is laid out differently from what its references say; nothing refers to "
                "it, use hoodie.storage.blob.outofline.format = raw"
            )
        self._spots.verify(self._storage, self._uri)
        return size

    def discard(self) -> None:
        """Close the file after a failure."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()  # otherwise it would try later to write its footer into a closed file
        self._file.discard()
