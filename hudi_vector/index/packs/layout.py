"""The layout of a pack: a head, the row of every entry, the lists, and the hashes of record keys.

The head is an Arrow IPC file of arrays, after a magic number and its length. A list is one range of bytes: the codes of
its entries, their squares, their errors and their rows, each array after the other; squares and errors are left out
where the codes are bits. Rows are numbered across the segments of the pack, in the order of the head.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.index.kinds.candidates import bases_of
from hudi_vector.index.kinds.model import Floats32, IndexModel
from hudi_vector.index.kinds.segment import MEASURES, FileFingerprint, Segment
from hudi_vector.index.side_arrays import pack, unpack
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage.stored_values import shaped

__all__ = [
    "PREFIX_BYTES",
    "PackHead",
    "PackedFile",
    "checks_of",
    "pack_content",
    "paths_of",
    "prefix_bytes",
    "read_head",
]

_MAGIC = b"HVPACK02"
_PREFIX = struct.Struct("<8sQ")
PREFIX_BYTES = _PREFIX.size
"""The bytes before the head: a magic number and the head's length."""
_ROW = np.dtype("<u4")
_MEASURE = np.dtype("<f4")
_OF_KEY = 12  # bytes of a key's hash and row
_MOST_FOOTERS = 1 << 30


@dataclass(frozen=True)
class PackedFile:
    """One segment of a pack: its base file, that file's rows, and how many of them were clipped.

    `keys` is the SHA-256 of the hashes of the file's record keys, empty where the pack has none.
    """

    file: FileFingerprint
    rows: int
    clipped: int
    keys: str = ""


@dataclass(frozen=True, eq=False)
class PackHead:
    """The head of a pack.

    Attributes:
        uri: The pack.
        model: The model of all segments.
        files: The segments, in the order in which rows are numbered.
        sizes: The entries of each list, shape (lists,).
        checks: The first eight bytes of each list's BLAKE2b, as a little-endian number, shape (lists,).
        radius: Never less than the distance of any row of a list from its centroid, shape (lists,).
        always: The rows without a code.
        pages: The page table of each file's vector column, or None.
        footers: What is kept of each file's footer, or None.
        rows_check: The SHA-256 of the rows of all entries.
        begin: Where the head ends in the file, and the rows of all entries begin.
    """

    uri: str
    model: IndexModel
    files: tuple[PackedFile, ...]
    sizes: npt.NDArray[np.uint32]
    checks: npt.NDArray[np.uint64]
    radius: Floats32
    always: Ints
    pages: tuple[PageTable | None, ...]
    footers: tuple[KeptFooter | None, ...]
    rows_check: str
    begin: int

    @cached_property
    def bases(self) -> Ints:
        """Return the first row of each segment, followed by the number of all rows."""
        return bases_of(file.rows for file in self.files)

    @cached_property
    def entries(self) -> int:
        """Return the number of entries of all lists."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def width(self) -> int:
        """Return the bytes of an entry of a list."""
        measured = 0 if self.model.codes == "bits" else len(MEASURES) * _MEASURE.itemsize
        return self.model.code_width * self.model.code_dtype.itemsize + measured + _ROW.itemsize

    @cached_property
    def places(self) -> Ints:
        """Return where each list begins in the file, followed by where the last one ends."""
        lengths = self.sizes.astype(np.int64) * self.width
        return self.begin + self.entries * _ROW.itemsize + np.concatenate(([0], np.cumsum(lengths)))

    @property
    def size(self) -> int:
        """Return the bytes of the pack."""
        return self.keys_at(len(self.files))

    def keys_at(self, number: int) -> int:
        """Return where the hashes of the keys of a segment begin."""
        before = (file.rows * _OF_KEY for file in self.files[:number] if file.keys)
        return int(self.places[-1]) + sum(before)

    @property
    def nbytes(self) -> int:
        """Return the approximate bytes in memory."""
        pages = sum(table.nbytes for table in self.pages if table is not None)
        footers = sum(kept.nbytes for kept in self.footers if kept is not None)
        return 16 * len(self.sizes) + self.always.nbytes + 512 * len(self.files) + pages + footers

    def rows_of(self, content: Any) -> npt.NDArray[np.uint32]:
        """Return the rows of all entries from their bytes; raise DataFileError if they are damaged."""
        if sha256(content).hexdigest() != self.rows_check:
            raise self.damaged()
        rows = np.frombuffer(content, _ROW)
        self.check_rows(rows)
        return rows

    def check_rows(self, rows: npt.NDArray[Any]) -> None:
        """Raise DataFileError if a row is not one of the pack's."""
        if len(rows) and int(rows.max()) >= self.bases[-1]:
            raise self.damaged()

    def keys_of(self, number: int, content: bytes) -> KeyHashes:
        """Return the hashes of a segment's keys from their bytes; raise DataFileError if they are damaged."""
        file = self.files[number]
        if len(content) != file.rows * _OF_KEY or sha256(content).hexdigest() != file.keys:
            raise self.damaged()
        return KeyHashes(
            np.frombuffer(content, "<u8", file.rows), np.frombuffer(content, _ROW, file.rows, file.rows * 8)
        )

    def damaged(self) -> DataFileError:
        """Return the error that the pack is not what was written."""
        return DataFileError(f"the pack '{self.uri}' is damaged: its content does not match its checksum")


@dataclass(frozen=True)
class _Joined:
    """The entries of all segments in the order of the lists."""

    sizes: npt.NDArray[np.uint32]
    codes: npt.NDArray[Any]
    square: Floats32
    error: Floats32
    row: npt.NDArray[np.uint32]
    radius: Floats32
    always: Ints


def pack_content(model: IndexModel, segments: Sequence[Segment], keys: Sequence[KeyHashes | None]) -> tuple[bytes, int]:
    """Return the content of a pack of these segments, and the bytes up to its lists' rows.

    `keys` has the hashes of each base file's record keys, or None. There is at least one segment, and together their
    files have fewer than 2³² rows.
    """
    joined = _joined(model, segments)
    ends = np.cumsum(joined.sizes, dtype=np.int64)
    lists = [
        _list_bytes(model, joined, stop - size, stop)
        for size, stop in zip(joined.sizes.tolist(), ends.tolist(), strict=True)
    ]
    rows = joined.row.tobytes()
    sections = [b"" if held is None else held.key_hash.tobytes() + held.key_row.tobytes() for held in keys]
    digests = ["" if held is None else sha256(part).hexdigest() for held, part in zip(keys, sections, strict=True)]
    files = [
        PackedFile(segment.file, segment.rows, segment.clipped, digest)
        for segment, digest in zip(segments, digests, strict=True)
    ]
    header = {
        **{name: getattr(model, name) for name in ("model_id", "kind", "metric", "dimension", "element")},
        "files": [asdict(file) for file in files],
        "rows": sha256(rows).hexdigest(),
    }
    head = pack("pack", header, {**_described(joined, segments), "checks": checks_of(lists)})
    prefix = _PREFIX.pack(_MAGIC, len(head))
    return b"".join([prefix, head, rows, *lists, *sections]), len(prefix) + len(head)


def _joined(model: IndexModel, segments: Sequence[Segment]) -> _Joined:
    bases = bases_of(segment.rows for segment in segments)
    label = np.concatenate([np.repeat(np.arange(model.lists), np.diff(segment.offsets)) for segment in segments])
    # numpy sorts 16-bit numbers by radix, which is faster; there are seldom more than 65,536 lists.
    order = np.argsort(label.astype(np.uint16) if model.lists <= 1 << 16 else label, kind="stable")

    def of(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(segment, name) for segment in segments])[order]

    row = np.concatenate([segment.position + base for segment, base in zip(segments, bases[:-1], strict=True)])
    always = np.concatenate([segment.always + base for segment, base in zip(segments, bases[:-1], strict=True)])
    radius: Floats32 = np.maximum.reduce([segment.radius for segment in segments])
    sizes = np.bincount(label, minlength=model.lists).astype(np.uint32)
    return _Joined(sizes, of("codes"), of("square"), of("error"), row[order].astype(_ROW), radius, always)


def _list_bytes(model: IndexModel, joined: _Joined, start: int, stop: int) -> bytes:
    measured = () if model.codes == "bits" else (joined.square, joined.error)
    parts = (joined.codes, *measured, joined.row)
    return b"".join(np.ascontiguousarray(part[start:stop]).tobytes() for part in parts)


def _described(joined: _Joined, segments: Sequence[Segment]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the head, without the lists' checksums."""
    none = np.empty(0, np.int64)
    pages = [none if segment.pages is None else segment.pages.numbers for segment in segments]
    literals = [
        none if (held := segment.pages) is None or held.literals is None else held.literals for segment in segments
    ]
    footers = [b"" if segment.footer is None else segment.footer.content for segment in segments]
    return {
        "sizes": joined.sizes,
        "radius": joined.radius,
        "always": joined.always,
        "pages": np.concatenate(pages),
        "page_counts": np.array([len(part) for part in pages], np.int64),
        "literals": np.concatenate(literals),
        "literal_counts": np.array([len(part) for part in literals], np.int64),
        "footers": np.frombuffer(zlib.compress(b"".join(footers)), np.uint8),
        "footer_counts": np.array([len(part) for part in footers], np.int64),
    }


def checks_of(lists: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """Return the first eight bytes of the BLAKE2b of each list's bytes, as little-endian numbers."""
    return np.frombuffer(b"".join(blake2b(part, digest_size=8).digest() for part in lists), "<u8")


def prefix_bytes(content: bytes, uri: str) -> int:
    """Return how many bytes the head ends after, from the first 16 bytes of a pack; raise DataFileError without one."""
    if len(content) < _PREFIX.size or content[: len(_MAGIC)] != _MAGIC:
        raise DataFileError(f"'{uri}' is no pack of a vector index, or damaged")
    return _PREFIX.size + int(_PREFIX.unpack_from(content)[1])


def paths_of(content: bytes, uri: str) -> list[str]:
    """Return the paths of the base files of a pack from the bytes of its head, whatever its model.

    Raises DataFileError if the head is damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    header, _ = unpack("pack", pa.py_buffer(content[_PREFIX.size :]), uri)
    try:
        return [shaped(PackedFile, each, uri).file.path for each in header["files"]]
    except (LookupError, TypeError) as problem:
        raise DataFileError(f"the pack '{uri}' contradicts itself: {problem}") from problem


def read_head(content: Any, model: IndexModel, uri: str, size: int) -> PackHead:
    """Return the head of a pack of `size` bytes from the bytes up to its lists' rows.

    Raises DataFileError if it is damaged, of another model, or contradicts itself or the size of the pack, and
    UnsupportedTableError if another version of this package wrote it.
    """
    begin = prefix_bytes(bytes(content[: _PREFIX.size]), uri)
    if begin != len(content):
        raise DataFileError(f"'{uri}' is no pack of a vector index, or damaged")
    header, arrays = unpack("pack", pa.py_buffer(content[_PREFIX.size :]), uri)
    if header.get("model_id") != model.model_id:
        raise DataFileError(f"the pack '{uri}' is of the model {header.get('model_id')}, not of {model.model_id}")
    try:
        head = _head_of(header, arrays, model, uri, begin)
        fits = head.size == size
    except (LookupError, ValueError, TypeError, OverflowError, zlib.error) as problem:
        raise DataFileError(f"the pack '{uri}' contradicts itself: {problem}") from problem
    if not fits:
        raise DataFileError(f"the pack '{uri}' has {size} bytes, and its head says {head.size}")
    return head


def _head_of(
    header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], model: IndexModel, uri: str, begin: int
) -> PackHead:
    files = tuple(shaped(PackedFile, each, uri) for each in header["files"])
    if not files or any(not 0 <= file.rows < 1 << 32 for file in files) or sum(file.rows for file in files) >= 1 << 32:
        raise ValueError("its files have no such rows")
    kinds = {"sizes": "u4", "checks": "u8", "radius": "f4"}
    if any(arrays[name].dtype != kind or len(arrays[name]) != model.lists for name, kind in kinds.items()):
        raise ValueError("it has not as many lists as its model")
    always, total = arrays["always"], sum(file.rows for file in files)
    if always.dtype != np.int64 or (len(always) and not 0 <= always.min() <= always.max() < total):
        raise ValueError("a row is in none of its files")
    width = model.dimension * VectorColumn("", model.dimension, model.element).dtype.itemsize
    pages = _cut(arrays["pages"], arrays["page_counts"], len(files))
    literals = _cut(arrays["literals"], arrays["literal_counts"], len(files))
    counts = arrays["footer_counts"]
    footers = _cut(_inflated(arrays["footers"], int(counts.sum())), counts, len(files))
    return PackHead(
        uri,
        model,
        files,
        arrays["sizes"],
        arrays["checks"],
        arrays["radius"],
        always,
        tuple(
            PageTable(width, file.rows, file.file.size, numbers, own if len(own) else None) if len(numbers) else None
            for file, numbers, own in zip(files, pages, literals, strict=True)
        ),
        tuple(KeptFooter(part.tobytes()) if len(part) else None for part in footers),
        header["rows"],
        begin,
    )


def _cut(array: npt.NDArray[Any], counts: npt.NDArray[Any], parts: int) -> list[npt.NDArray[Any]]:
    """Return an array in parts of these lengths."""
    if counts.dtype != np.int64 or len(counts) != parts or (counts < 0).any() or counts.sum() != len(array):
        raise ValueError("its parts are not as long as it says")
    return np.split(array, np.cumsum(counts)[:-1])


def _inflated(packed: npt.NDArray[Any], size: int) -> npt.NDArray[np.uint8]:
    if packed.dtype != np.uint8 or not 0 <= size <= _MOST_FOOTERS:
        raise ValueError("its footers are no bytes")
    found = zlib.decompressobj().decompress(packed.tobytes(), max(size, 1))
    if len(found) != size:
        raise ValueError("its footers are not as long as it says")
    return np.frombuffer(found, np.uint8)
