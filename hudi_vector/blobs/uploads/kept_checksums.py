"""Lookup of the checksums that writes kept of their blobs, by file and byte range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.containers.container import CHECKSUMS
from hudi_vector.blobs.names import BLOB_AREA, ContainerName
from hudi_vector.blobs.uploads.manifest import Upload, read_checksums, read_upload
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import StorageOptions, open_storage

__all__ = ["KeptChecksums", "WrittenChecksums", "kept_checksums"]

Ints = npt.NDArray[np.int64]

_WRITES_HELD = 4


@dataclass(frozen=True)
class WrittenChecksums:
    """The checksums that were kept of some of n blobs.

    Attributes:
        rows: The positions among the n of the blobs that have a checksum, ascending.
        methods: The method of each checksum.
        checksums: The checksums themselves.
    """

    rows: Ints
    methods: pa.StringArray
    checksums: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.rows)

    def changed(self, values: pa.BinaryArray, start: int = 0) -> Ints:
        """Return the positions, ascending, of the values whose checksum is not the one that was kept.

        `values` are the bytes of the blobs at ``rows[start:]``, possibly fewer; NULL values are not compared.
        """
        methods = self.methods.slice(start, len(values)).to_pylist()
        checksums = self.checksums.slice(start, len(values)).to_pylist()
        wrong = [
            place
            for place, (value, method, checksum) in enumerate(zip(values, methods, checksums, strict=True))
            if value.is_valid and CHECKSUMS[method](memoryview(value.as_buffer())) != checksum
        ]
        return np.array(wrong, np.int64)


class KeptChecksums:
    """A cache of the checksums of writes; the last few writes are held in memory.

    Args:
        options: Hadoop's storage settings.
        known: Uploads that name their checksums already, as `names_checksums` says: their manifests are not read.
    """

    def __init__(self, options: StorageOptions, known: Iterable[Upload] = ()) -> None:
        self._options = options
        self._known = {(upload.table, upload.write_id): upload for upload in known}
        self._of_write = lru_cache(_WRITES_HELD)(self._load)

    def of(self, uris: pa.StringArray, offset: Ints, length: Ints) -> WrittenChecksums:
        """Return the kept checksums of n byte ranges, for those that are whole blobs in containers.

        `uris` are the files, as `normalise` spells them; a container's name holds its write. `offset` is the first byte
        of each range, `length` its number of bytes. Raises DataFileError if a file of checksums is gone or damaged.
        """
        encoded = uris.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        homes = [(_home(uri), code) for code, uri in enumerate(encoded.dictionary.to_pylist())]
        rows: list[Ints] = [np.empty(0, np.int64)]
        found = [_NOTHING]
        # Sorted by write, so that each write is loaded once even if the cache holds few.
        wanted = sorted((home, code) for home, code in homes if home)
        held: dict[tuple[str, str], _Write | None] = {}
        for (table, write, path), code in wanted:
            if (table, write) not in held:
                held = self._next((table, write), wanted)
            kept = held[table, write]
            if kept is None or path not in kept.containers:
                continue
            asked = np.flatnonzero(codes == code)
            places = kept.containers[path].places(offset[asked], length[asked])
            rows.append(asked[places >= 0])
            found.append(kept.checksums.take(pa.array(places[places >= 0])))
        ascending = np.argsort(np.concatenate(rows))
        together = pa.concat_tables(found).take(pa.array(ascending)).combine_chunks()
        methods, checksums = (_whole(together[name]) for name in ("method", "checksum"))
        return WrittenChecksums(np.concatenate(rows)[ascending], methods, checksums)

    def _next(
        self, first: tuple[str, str], wanted: Sequence[tuple[tuple[str, str, str], int]]
    ) -> dict[tuple[str, str], _Write | None]:
        """Return the checksums of a write and of those that follow it, as many as the cache holds, read at once."""
        writes = list(dict.fromkeys((table, write) for (table, write, _), _ in wanted))
        begin = writes.index(first)
        some = writes[begin : begin + _WRITES_HELD]
        storage = open_storage(first[0], self._options)
        return dict(zip(some, storage.each(lambda write: self._of_write(*write), some), strict=True))

    def _load(self, table: str, write_id: str) -> _Write | None:
        try:
            upload = self._known.get((table, write_id)) or read_upload(table, write_id, options=self._options)
            kept = read_checksums(upload, options=self._options)
        except InvalidArgumentError:
            return None  # a table that was copied without its manifests
        return None if kept is None else _Write.of(kept)


@dataclass(frozen=True)
class _Ranges:
    """The blobs of one container, ascending by offset and contiguous.

    `first` is the position of the first one among the write's checksums.
    """

    first: int
    offset: Ints
    length: Ints

    def places(self, offset: Ints, length: Ints) -> Ints:
        """Return the position of each range among the write's checksums, or -1."""
        # Empty blobs share their offset with the blob that follows them, which is the last one of that offset.
        last = np.searchsorted(self.offset, offset, side="right") - 1
        place = np.where(self._are(last, offset, length), last, np.searchsorted(self.offset, offset, side="left"))
        return np.where(self._are(place, offset, length), self.first + place, -1)

    def _are(self, place: Ints, offset: Ints, length: Ints) -> npt.NDArray[np.bool_]:
        inside = np.clip(place, 0, len(self.offset) - 1)
        same: npt.NDArray[np.bool_] = (self.offset[inside] == offset) & (self.length[inside] == length)
        return same


@dataclass(frozen=True)
class _Write:
    """The checksums of one write, sorted by path, offset and length, and the ranges of each container by path."""

    containers: Mapping[str, _Ranges]
    checksums: pa.Table

    @classmethod
    def of(cls, kept: pa.Table) -> _Write:
        kept = kept.sort_by([(name, "ascending") for name in ("path", "offset", "length")]).combine_chunks()
        paths = _whole(kept["path"]).dictionary_encode()
        codes = paths.indices.to_numpy()
        begins = np.searchsorted(codes, np.arange(len(paths.dictionary) + 1))
        offset, length = kept["offset"].to_numpy(), kept["length"].to_numpy()
        ranges = {
            path: _Ranges(begin, offset[begin:end], length[begin:end])
            for path, begin, end in zip(
                paths.dictionary.to_pylist(), begins[:-1].tolist(), begins[1:].tolist(), strict=True
            )
        }
        return cls(ranges, kept.select(["method", "checksum"]))


_NOTHING = pa.table({"method": pa.array([], pa.string()), "checksum": pa.array([], pa.binary())})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


@lru_cache(maxsize=2)
def kept_checksums(options: StorageOptions) -> KeptChecksums:
    """Return the process-wide cache of checksums for these storage settings."""
    return KeptChecksums(options)


def _home(uri: str) -> tuple[str, str, str] | None:
    """Return a container's table, write id and path relative to the table, or None if the file is not a container."""
    table, area, _ = uri.partition(f"/{BLOB_AREA}/")
    name = ContainerName.parse(table, uri) if area else None
    return None if name is None else (table, name.write_id, uri[len(table) + 1 :])
