"""Pages of a non-repeated Parquet column: headers, NULL rows, and where the values begin."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.read.parquet.thrift import read_struct
from hudi_vector.read.parquet.values import Window, run_lengths

__all__ = ["DICTIONARY_INDICES", "PLAIN", "Page", "PageHeader", "open_page", "read_header"]

PLAIN = 0
DICTIONARY_INDICES = frozenset({2, 8})
"""The encodings of pages whose values are indices into the dictionary."""

_RUN_LENGTHS = 3
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_MOST_BYTES, _MOST_VALUES = (1 << 31) - 1, 1 << 26
"""Limits for the numbers of a page header, by which memory is allocated.

Parquet stores page sizes as signed 32-bit integers; no real page has more values than the second limit.
"""
_SMALL_BYTES = 16 << 20
_TIMES = {"snappy": 64, "gzip": 1100, "lz4_raw": 300, "lz4": 300, "brotli": 1_000_000}
_MOST_TIMES = 40_000
"""The largest compression ratio by codec, and of other codecs, for pages above `_SMALL_BYTES` when decompressed."""
_HEADER_SIZES = (256, 64 << 10, 16 << 20)  # sizes to try: statistics in a header may hold whole values


@dataclass(frozen=True)
class PageHeader:
    """The header of a page.

    Attributes:
        kind: The page type of the Parquet format.
        body: Where the page begins in the file, after the header.
        end: Where the page ends in the file.
        plain_size: The size of the page in bytes when decompressed.
        values: The number of values, including NULL.
        encoding: The encoding of the values.
        level_encoding: The encoding of the definition levels.
        level_bytes: The size of the definition levels in a page of version 2, where levels are never compressed; None
            in version 1, where the size precedes the levels and both are compressed with the values.
        repeat_bytes: The size of the repetition levels in a page of version 2, else 0.
        compressed: Whether the values are compressed, if the chunk has a codec.
    """

    kind: int
    body: int
    end: int
    plain_size: int
    values: int
    encoding: int
    level_encoding: int = _RUN_LENGTHS
    level_bytes: int | None = None
    repeat_bytes: int = 0
    compressed: bool = True

    @property
    def is_data(self) -> bool:
        """Return True if the page is a data page."""
        return self.kind in (_DATA, _DATA_V2)

    @property
    def is_dictionary(self) -> bool:
        """Return True if the page is the dictionary of the chunk."""
        return self.kind == _DICTIONARY


@dataclass(frozen=True)
class Page:
    """An opened page.

    Attributes:
        valid: A mask of the rows that have a value, shape (rows,).
        values: The window that holds the values.
        begin: Where the values begin in the window.
        in_file: Whether `begin` is an offset in the file, not in decompressed bytes.
    """

    valid: npt.NDArray[np.bool_]
    values: Window
    begin: int
    in_file: bool


def read_header(window: Window, begin: int) -> PageHeader:
    """Read the page header that begins at a file offset in the window of a column chunk.

    Raises EOFError if the chunk ends within the header, and ValueError if there is no valid header.
    """
    for size in _HEADER_SIZES:
        data = bytes(window.take(begin, min(size, window.end - begin)))
        try:
            fields, length = read_struct(data)
        except EOFError:
            if len(data) < size:
                raise
        else:
            header = _header(fields, begin + length)
            numbers = [number for number in vars(header).values() if number is not None]
            sizes = all(isinstance(number, int) and number >= 0 for number in numbers)
            if not sizes or header.end < header.body or not _fits(header):
                raise ValueError("a page header holds something else than sizes")
            return header
    raise ValueError("a page header is longer than 16 MiB")


def _fits(header: PageHeader) -> bool:
    return header.plain_size <= _MOST_BYTES and header.values <= _MOST_VALUES


def open_page(window: Window, header: PageHeader, codec: pa.Codec | None, depth: int) -> Page:
    """Find the rows without a value and the begin of the values; decompress the page if it is compressed.

    `codec` is None if the chunk is not compressed. `depth` is the largest definition level of the column: how many of
    the column and its parents are nullable. Raises EOFError if the page is shorter than its header says, and ValueError
    if the levels have a deprecated encoding or the decompressed size is not credible.
    """
    if header.level_encoding != _RUN_LENGTHS and depth:
        raise ValueError(f"its levels have the encoding {header.level_encoding}")
    if header.level_bytes is None:
        plain, begin = _plain(window, header, codec, header.body, header.plain_size)
        level_bytes = 0
        if depth:
            (level_bytes,) = struct.unpack("<I", plain.take(begin, 4))
            begin += 4
        levels = plain.take(begin, level_bytes)
        begin += level_bytes
    else:
        at = header.body + header.repeat_bytes
        levels = window.take(at, header.level_bytes)
        size = header.plain_size - header.repeat_bytes - header.level_bytes
        plain, begin = _plain(window, header, codec, at + header.level_bytes, size)
    valid = run_lengths(levels, depth.bit_length(), header.values) == depth
    return Page(valid, plain, begin, plain is window)


def _plain(window: Window, header: PageHeader, codec: pa.Codec | None, begin: int, size: int) -> tuple[Window, int]:
    """Return a window with the bytes of a page from `begin` on, decompressed if compressed, and their begin in it."""
    if codec is None or not header.compressed:
        return window, begin
    packed = window.take(begin, header.end - begin)
    if not 0 <= size <= max(_SMALL_BYTES, _TIMES.get(codec.name, _MOST_TIMES) * len(packed)):
        raise ValueError(f"{len(packed)} bytes of {codec.name} cannot become {size}")
    if not size:  # a page of NULLs may have nothing to decompress
        return Window.over(b""), 0
    return Window.over(codec.decompress(packed, size)), 0


def _header(fields: dict[int, Any], body: int) -> PageHeader:
    try:
        kind, plain_size, end = fields[1], fields[2], body + fields[3]
        if kind == _DATA:
            data = fields[5]
            return PageHeader(kind, body, end, plain_size, data[1], data[2], data[3])
        if kind == _DATA_V2:
            data = fields[8]
            return PageHeader(
                kind,
                body,
                end,
                plain_size,
                data[1],
                data[4],
                level_bytes=data[5],
                repeat_bytes=data[6],
                compressed=data.get(7, True),
            )
        if kind == _DICTIONARY:
            return PageHeader(kind, body, end, plain_size, fields[7][1], fields[7][2])
    except (KeyError, TypeError) as absent:
        raise ValueError("a page header lacks a field") from absent
    return PageHeader(kind, body, end, plain_size, 0, PLAIN)
