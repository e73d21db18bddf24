"""Pages of a Parquet column that does not repeat: their headers, which rows are NULL, and where the values begin."""

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
"""Encodings of a page whose values are numbers of values in the dictionary."""

_RUN_LENGTHS = 3
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_MOST_BYTES, _MOST_VALUES = (1 << 31) - 1, 1 << 26
"""Bytes of a page by Parquet's own numbers, and more rows than one has: memory is taken by what a header says."""
_SMALL_BYTES = 16 << 20
_TIMES = {"snappy": 64, "gzip": 1100, "lz4_raw": 300, "lz4": 300, "brotli": 1_000_000}
_MOST_TIMES = 40_000
"""How many times more bytes than were stored a page above that size can become, by codec."""
_HEADER_SIZES = (256, 64 << 10, 16 << 20)  # statistics in a header may hold whole values


@dataclass(frozen=True)
class PageHeader:
    """What stands before a page. `body` is where the page begins in the file, `end` where it ends.

    `level_bytes` and `repeat_bytes` are the sizes of the levels in pages of version 2, which are never compressed;
    None in version 1, where the levels say so themselves and are compressed with the values.
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
        """Whether the page holds rows."""
        return self.kind in (_DATA, _DATA_V2)

    @property
    def is_dictionary(self) -> bool:
        """Whether the page is the chunk's dictionary."""
        return self.kind == _DICTIONARY


@dataclass(frozen=True)
class Page:
    """A page that was opened: which of its rows have a value, shape (rows,), and where the values are.

    `in_file` says whether `begin` is a place in the file, not in bytes that were decompressed.
    """

    valid: npt.NDArray[np.bool_]
    values: Window
    begin: int
    in_file: bool


def read_header(window: Window, begin: int) -> PageHeader:
    """Read the header of the page at a place.

    Args:
        window: The column chunk.
        begin: Where the header begins in the file.

    Returns:
        The header.

    Raises:
        EOFError: The chunk ends before the page does.
        ValueError: There is no page.
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
    """Find the rows without value and the place of the values; decompress the page if it is compressed.

    Args:
        window: The column chunk.
        header: The page's header.
        codec: What the chunk is compressed with, None for nothing.
        depth: The column's highest definition level: how many of it and its parents are nullable.

    Returns:
        The page.

    Raises:
        EOFError: The page is shorter than its header says.
        ValueError: The levels are stored in a way that Parquet gave up.
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
    """The bytes from a place of a page to its end, decompressed where they are compressed, and where they begin."""
    if codec is None or not header.compressed:
        return window, begin
    packed = window.take(begin, header.end - begin)
    if not 0 <= size <= max(_SMALL_BYTES, _TIMES.get(codec.name, _MOST_TIMES) * len(packed)):
        raise ValueError(f"{len(packed)} bytes of {codec.name} cannot become {size}")
    if not size:  # a page of NULLs may have nothing that could be decompressed
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
