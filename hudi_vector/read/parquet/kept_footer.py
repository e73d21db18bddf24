"""The part of a Parquet footer that reads of columns need, kept apart from the file, with the places of the pages.

Hudi's footers hold a Bloom filter of some 400 KB; what is left without it has a few KB.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.thrift import STRUCT, Written, fields_of, listed, read_struct, struct_of, structs_in
from hudi_vector.read.parquet.values import ByteSource
from hudi_vector.storage import FileInfo

__all__ = ["KeptFooter", "footer_kept_of", "keep_footer", "kept_footer"]

_HEAD = struct.Struct("<IQ")
_MAGIC = b"PAR1"
_MOST_BYTES = 64 << 10
# Field numbers of parquet.thrift: of FileMetaData, then of KeyValue and ColumnChunk.
_KEY_VALUES, _KEY, _INDEX_OFFSET, _INDEX_LENGTH = 5, 1, 4, 5
_ARROW_SCHEMA = b"ARROW:schema"


@dataclass(frozen=True)
class KeptFooter:
    """The part of a file's footer that is kept, and its page index.

    `content` has the bytes of the footer (4, little-endian) and where the page index begins in the file (8), then both:
    the footer as a Parquet ``FileMetaData`` without key-value metadata but Arrow's schema, and the offset indexes of
    all columns.
    """

    content: bytes

    def metadata(self) -> pq.FileMetaData:
        """Return the footer; raise OSError or ValueError if it is none."""
        footer = self.content[_HEAD.size : self._index_at]
        return pq.read_metadata(pa.BufferReader(b"".join([_MAGIC, footer, struct.pack("<I", len(footer)), _MAGIC])))

    def read_at(self, nbytes: int, offset: int) -> bytes | None:
        """Return bytes of the file if they lie in the kept page index, else None."""
        begin = self._index_at + offset - self._head[1]
        if begin < self._index_at or begin + nbytes > len(self.content):
            return None
        return self.content[begin : begin + nbytes]

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes."""
        return len(self.content) + 128

    @property
    def _head(self) -> tuple[int, int]:
        if len(self.content) < _HEAD.size:
            raise ValueError("a kept footer is cut off")
        length, begin = _HEAD.unpack_from(self.content)
        return length, begin

    @property
    def _index_at(self) -> int:
        return _HEAD.size + self._head[0]


def kept_footer(footer: bytes, groups: Sequence[Any], source: ByteSource) -> KeptFooter | None:
    """Return what is to be kept of a file's footer and its row groups, or None where it is too large to be kept."""
    fields = fields_of(footer)
    values = structs_in(fields.pop(_KEY_VALUES)) if _KEY_VALUES in fields else []
    pairs = [pair for pair in values if read_struct(pair)[0].get(_KEY) == _ARROW_SCHEMA]
    if pairs:
        fields[_KEY_VALUES] = listed([Written(STRUCT, pair) for pair in pairs])
    kept = struct_of(dict(sorted(fields.items()))).data
    begin, index = _page_index(groups, source)
    if len(kept) + len(index) > _MOST_BYTES:
        return None
    return KeptFooter(_HEAD.pack(len(kept), begin) + kept + index)


def keep_footer(file: FileInfo, kept: KeptFooter) -> None:
    """Let readers of a file take its footer from memory."""
    if footer_kept_of(file) is None:
        process_cache().put((file, "kept footer"), kept, kept.nbytes)


def footer_kept_of(file: FileInfo) -> KeptFooter | None:
    """Return what `keep_footer` was given for a file, if it is still in the process's cache."""
    found: KeptFooter | None = process_cache().get((file, "kept footer"))
    return found


def _page_index(groups: Sequence[Any], source: ByteSource) -> tuple[int, bytes]:
    """Return where the offset indexes of all columns begin in the file, and their bytes; none where there are none."""
    ranges = [
        (column[_INDEX_OFFSET], column[_INDEX_OFFSET] + column[_INDEX_LENGTH])
        for group in groups
        for column in group[1]
        if column.get(_INDEX_OFFSET) and column.get(_INDEX_LENGTH)
    ]
    if not ranges:
        return 0, b""
    begin, end = min(place[0] for place in ranges), max(place[1] for place in ranges)
    return (begin, source.read_at(end - begin, begin)) if end - begin <= _MOST_BYTES else (0, b"")
