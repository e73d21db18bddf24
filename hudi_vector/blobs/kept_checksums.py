"""The checksums that writes kept of their blobs, found again by what references say."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.containers import CHECKSUMS
from hudi_vector.blobs.manifest import read_checksums, read_upload
from hudi_vector.blobs.names import BLOB_AREA, ContainerName
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import StorageOptions

__all__ = ["KeptChecksums", "kept_checksums"]

Ints = npt.NDArray[np.int64]

_RANGE = ["path", "offset", "length"]
_WRITES_HELD = 4


class KeptChecksums:
    """The checksums of writes, those of the last few held in memory.

    Args:
        options: Hadoop's storage settings.
    """

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._of_write = lru_cache(_WRITES_HELD)(self._load)

    def of(self, uris: pa.StringArray, offset: Ints, length: Ints) -> pa.Table:
        """The checksums of those ranges that have one: whole blobs in containers, whose names say which write it was.

        Args:
            uris: The files of n blobs, as `normalise` spells them.
            offset: The first byte of each.
            length: The bytes of each.

        Returns:
            Columns row (int64, a place among the n), method and checksum (binary), in no order.

        Raises:
            DataFileError: A file of checksums is gone or damaged.
        """
        encoded = uris.dictionary_encode()
        homes = [_home(uri) for uri in encoded.dictionary.to_pylist()]
        asked = pa.table(
            {
                "row": np.arange(len(uris)),
                "write": pa.array([f"{home[0]}\n{home[1]}" if home else None for home in homes], pa.string()).take(
                    encoded.indices
                ),
                "path": pa.array([home and home[2] for home in homes], pa.string()).take(encoded.indices),
                "offset": offset,
                "length": length,
            }
        )
        found = [pa.table({"row": pa.array([], pa.int64()), "method": pa.array([], pa.string()), "checksum": _NONE})]
        for write in pc.unique(asked["write"].drop_null()).to_pylist():
            kept = self._of_write(*write.split("\n"))
            if kept is not None:
                of_write = asked.filter(pc.fill_null(pc.equal(asked["write"], write), False))
                joined = of_write.join(kept, _RANGE, join_type="inner", use_threads=False)
                found.append(joined.select(["row", "method", "checksum"]))
        return pa.concat_tables(found)

    def changed(self, uris: pa.StringArray, offset: Ints, length: Ints, values: pa.BinaryArray) -> Ints:
        """The rows whose bytes are not those that were written.

        Args:
            uris: The files of n blobs.
            offset: The first byte of each.
            length: The bytes of each.
            values: The bytes of each, as read; NULL ones are not compared.

        Returns:
            Places among the n, ascending.
        """
        kept = self.of(uris, offset, length)
        wrong = [
            row
            for row, method, checksum in zip(*(kept[name].to_pylist() for name in kept.column_names), strict=True)
            if values[row].is_valid and CHECKSUMS[method](memoryview(values[row].as_buffer())) != checksum
        ]
        return np.array(sorted(wrong), np.int64)

    def _load(self, table: str, write_id: str) -> pa.Table | None:
        try:
            return read_checksums(read_upload(table, write_id, options=self._options), options=self._options)
        except InvalidArgumentError:
            return None  # a table that was copied without its manifests


_NONE = pa.array([], pa.binary())


@lru_cache(maxsize=2)
def kept_checksums(options: StorageOptions) -> KeptChecksums:
    """The checksums a process knows, for all tables on storage that is opened in one way."""
    return KeptChecksums(options)


def _home(uri: str) -> tuple[str, str, str] | None:
    """The table, the write and the path from the table's folder of a container."""
    table, area, _ = uri.partition(f"/{BLOB_AREA}/")
    name = ContainerName.parse(table, uri) if area else None
    return None if name is None else (table, name.write_id, uri[len(table) + 1 :])
