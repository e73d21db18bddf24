"""The part of a Parquet footer that reads of columns need, kept apart from the file, with the places of the pages.

Hudi's footers hold a Bloom filter of some 400 KB; what is left without it has a few KB.
"""

from __future__ import annotations

import posixpath
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.chunks import footer_groups
from hudi_vector.read.parquet.thrift import (
    STRUCT,
    Written,
    fields_of,
    fields_up_to,
    listed,
    read_struct,
    struct_of,
    structs_in,
)
from hudi_vector.read.parquet.values import ByteSource
from hudi_vector.storage import FileInfo
from hudi_vector.table.recent import Recent

__all__ = ["FooterForm", "KeptFooter", "footer_kept_of", "form_known", "keep_footer", "kept_footer", "tell_form"]

_HEAD = struct.Struct("<IQ")
_MAGIC = b"PAR1"
_MOST_BYTES = 64 << 10
# Field numbers of parquet.thrift: of FileMetaData, KeyValue and ColumnChunk.
_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _KEY, _META = 2, 4, 5, 1, 3
_INDEX_OFFSET, _INDEX_LENGTH, _BOUNDS_OFFSET, _BOUNDS_LENGTH = 4, 5, 6, 7
# Of ColumnMetaData.
_PACKED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_LEAST_SPARED = 128 << 10
_DIFFERENCE = 8 << 10
"""Bytes by which the footers of one form may differ: numbers and keys are short."""
_READ_WHOLE = 8
"""So many files of a folder are read whole rather than wait for the form of another one's footer."""
_PATIENCE_SECONDS = 5.0
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
    return _kept(struct_of(dict(sorted(fields.items()))).data, groups, source)


def _kept(footer: bytes, groups: Sequence[Any], source: ByteSource) -> KeptFooter | None:
    """Return a footer that holds only what is to be kept, with the page index, or None where both are too large."""
    begin, index = _page_index(groups, source)
    if len(footer) + len(index) > _MOST_BYTES:
        return None
    return KeptFooter(_HEAD.pack(len(footer), begin) + footer + index)


@dataclass(frozen=True)
class FooterForm:
    """The common parts of the footers of files that one writer wrote to one folder.

    Attributes:
        tail: The bytes from a footer's first one to the end of the file.
        front: Those up to the key-value metadata, which hold Hudi's Bloom filter.
        schema: The beginning of the footer, up to the schema.
        rest: The encoded fields behind the key-value metadata, by number.
    """

    tail: int
    front: int
    schema: bytes
    rest: Mapping[int, Written]

    @classmethod
    def of(cls, content: pa.Buffer) -> FooterForm | None:
        """Return the form of the footer of a whole file, None where reading less of it would spare little.

        Raises EOFError or ValueError if there is no footer.
        """
        held = memoryview(content)
        tail = int.from_bytes(held[-8:-4], "little") + 8
        footer = bytes(held[-tail:-8])
        front = fields_up_to(footer, _ROW_GROUPS)
        size = _bytes_of(front)
        fields = fields_of(footer)
        values = structs_in(fields.pop(_KEY_VALUES)) if _KEY_VALUES in fields else []
        has_arrow = any(read_struct(pair)[0].get(_KEY) == _ARROW_SCHEMA for pair in values)
        if tail - size < _LEAST_SPARED or has_arrow:
            return None
        begin = _bytes_of({number: value for number, value in front.items() if number <= _SCHEMA})
        rest = {number: value for number, value in fields.items() if number > _KEY_VALUES}
        return cls(tail, size, footer[:begin], rest)

    def end(self, size: int) -> int:
        """Return up to where a file of so many bytes is read, for all of its columns and what describes them."""
        return size - self.tail + self.front + _DIFFERENCE

    def footer_in(self, content: bytes, size: int) -> KeptFooter | None:
        """Return the footer of a file of `size` bytes that begins with `content`, None if it is of another form."""
        at = content.find(self.schema, max(size - self.tail - _DIFFERENCE, 0))
        if at < 0:
            return None
        try:
            front = fields_up_to(content[at:], _ROW_GROUPS)
            footer = struct_of({**front, **self.rest}).data
            groups = footer_groups(footer)
            if _described_up_to(groups) != at:
                return None
            return _kept(footer, groups, pa.BufferReader(content))
        except (EOFError, LookupError, TypeError, ValueError):
            return None


@dataclass
class _Folder:
    """The form of a folder's footers, whether a file has shown it, and how many files were begun."""

    is_known: threading.Event = field(default_factory=threading.Event)
    begun: int = 0
    form: FooterForm | None = None


_FOLDERS: Recent[str, _Folder] = Recent(256)


def form_known(uri: str) -> FooterForm | None:
    """Return the form of the footers of a file's folder, None if the file is to be read whole.

    The first files of a folder are, and tell the form; others wait for the first of them.
    """
    folder = _FOLDERS.first(posixpath.dirname(uri), _Folder())
    folder.begun += 1
    if not folder.is_known.is_set() and (folder.begun <= _READ_WHOLE or not folder.is_known.wait(_PATIENCE_SECONDS)):
        return None
    return folder.form


def tell_form(uri: str, content: pa.Buffer) -> None:
    """Let other files of a file's folder be read by the form of its footer, or whole, as its content says."""
    folder = _FOLDERS.first(posixpath.dirname(uri), _Folder())
    if folder.is_known.is_set() and folder.form is None:
        return
    try:
        folder.form = FooterForm.of(content)
    except (EOFError, LookupError, TypeError, ValueError):  # whoever reads the file says what is wrong
        folder.form = None
    folder.is_known.set()


def _bytes_of(fields: Mapping[int, Written]) -> int:
    """Return the bytes of fields whose numbers take one byte each."""
    return sum(1 + len(value.data) for value in fields.values())


def _described_up_to(groups: Sequence[Any]) -> int:
    """Return where the last of the columns' pages and indexes ends, behind which the footer begins."""
    ends = [0]
    for column in (column for group in groups for column in group[1]):
        for offset, length in ((_INDEX_OFFSET, _INDEX_LENGTH), (_BOUNDS_OFFSET, _BOUNDS_LENGTH)):
            ends.append(column.get(offset, 0) + column.get(length, 0))
        meta = column[_META]
        ends.append(meta.get(_DICTIONARY_PAGE, meta[_DATA_PAGE]) + meta[_PACKED_BYTES])
    return max(ends)


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
