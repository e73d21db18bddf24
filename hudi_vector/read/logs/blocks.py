"""The blocks of a Hudi log file: a reader of its framing that, unlike Hudi's, raises an error for damaged blocks.

All integers are big-endian. A block consists of the magic, the number of bytes that follow, the framing version, the
type of the block, a header, the length of the content, the content, a footer, and the length of the block again, which
includes the magic but not the first length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hudi_vector.errors import DataFileError

__all__ = [
    "AVRO_DATA",
    "CDC_DATA",
    "COMMAND",
    "DELETE",
    "INSTANT",
    "MAGIC",
    "PARQUET_DATA",
    "SCHEMA",
    "TORN",
    "LogBlock",
    "block_headers",
    "name_of",
    "read_blocks",
    "rows_of_block",
    "schema_of_block",
]

MAGIC = b"#HUDI#"
COMMAND, DELETE, AVRO_DATA, PARQUET_DATA, CDC_DATA = 0, 1, 3, 5, 6
TORN = -1
"""The type of an incomplete block at the end of a file: its append did not finish, or its end was lost later."""
INSTANT, SCHEMA = 0, 2

_NAMES = ("COMMAND", "DELETE", "CORRUPT", "AVRO_DATA", "HFILE_DATA", "PARQUET_DATA", "CDC_DATA")
_VERSION = 1
_AVRO_VERSION = 3
_FRAME = len(MAGIC) + 8
_HEADER_BYTES = 64 << 10


@dataclass(frozen=True)
class LogBlock:
    """A block of a log file.

    Attributes:
        offset: Where the block begins in the file.
        kind: Hudi's number of the block type, or `TORN`.
        header: The entries of the header by Hudi's numbers.
        content: The content; of a torn block, all bytes that remain.
    """

    offset: int
    kind: int
    header: Mapping[int, bytes]
    content: memoryview


def read_blocks(source: Any) -> Iterator[LogBlock]:
    """Yield the blocks of a seekable log file, one in memory at a time.

    A block that the end of the file cuts off comes last with the type `TORN`, and with its header if that is complete,
    else an empty one; an empty file is such a block. Hudi skips torn blocks: no query sees their rows. Callers that
    need everything a file may ever have held must not skip them. Raises DataFileError if a block is damaged in any
    other way, or has an unknown framing version.
    """
    for offset, size in _frames(source):
        yield _torn(source.read(), offset) if size is None else _block(memoryview(source.read(size)), offset)


def block_headers(source: Any) -> Iterator[tuple[int, Mapping[int, bytes]]]:
    """Yield type and header of each whole block of a seekable log file, without its content.

    Raises DataFileError if a block is damaged.
    """
    for offset, size in _frames(source):
        if size is not None:
            yield _header(source, size, offset)


def _frames(source: Any) -> Iterator[tuple[int, int | None]]:
    """Yield where each block begins, and the bytes behind its frame, at which the file then is; None if it is torn."""
    source.seek(0, 2)
    end = source.tell()
    offset = 0
    while offset < end or offset == 0:
        source.seek(offset)
        frame = source.read(_FRAME)
        if len(frame) >= len(MAGIC) and frame[: len(MAGIC)] != MAGIC:
            raise DataFileError(f"no block begins at byte {offset}, where one must")
        size = struct.unpack(">q", frame[len(MAGIC) :])[0] if len(frame) == _FRAME else end + 1
        if offset + _FRAME + size > end:
            yield offset, None
            return
        if size < 0:
            raise DataFileError(f"the block at byte {offset} is damaged: its length is {size}")
        yield offset, size
        offset += _FRAME + size


def _header(source: Any, size: int, offset: int) -> tuple[int, Mapping[int, bytes]]:
    """Return type and header of a block of so many bytes, of which few are read unless its header is long."""
    body = b""
    for most in (_HEADER_BYTES, size):
        body += source.read(min(size, most) - len(body))
        try:
            return struct.unpack_from(">ii", body)[1], _entries(memoryview(body), 8)[0]
        except struct.error as problem:
            if len(body) == size:
                raise DataFileError(f"the block at byte {offset} is damaged: {problem}") from problem
    raise DataFileError(f"the file ends in the block at byte {offset}")


def name_of(kind: int) -> str:
    """Return Hudi's name of a block type."""
    if kind == TORN:
        return "cut off"
    return _NAMES[kind] if 0 <= kind < len(_NAMES) else f"unknown ({kind})"


def _torn(rest: bytes, offset: int) -> LogBlock:
    if MAGIC in rest:
        raise DataFileError(f"the block at byte {offset} is damaged: another one begins before its end")
    try:
        header, _ = _entries(memoryview(rest), 8)
    except struct.error:
        header = {}
    return LogBlock(offset, TORN, header, memoryview(rest))


def _block(body: memoryview, offset: int) -> LogBlock:
    try:
        version, kind = struct.unpack_from(">ii", body)
        if version != _VERSION:
            raise DataFileError(f"the block at byte {offset} has version {version}, and {_VERSION} is known here")
        header, place = _entries(body, 8)
        (length,) = struct.unpack_from(">q", body, place)
        begin, place = place + 8, place + 8 + length
        if length < 0 or place > len(body):
            raise DataFileError(f"the block at byte {offset} is damaged: its content has {length} bytes")
        _, last = _entries(body, place)
        (whole,) = struct.unpack_from(">q", body, last)
    except struct.error as problem:
        raise DataFileError(f"the block at byte {offset} is damaged: {problem}") from problem
    if last + 8 != len(body) or whole != len(body) + len(MAGIC):
        raise DataFileError(f"the block at byte {offset} is damaged: its lengths contradict each other")
    return LogBlock(offset, kind, header, body[begin:place])


def _entries(body: memoryview, place: int) -> tuple[dict[int, bytes], int]:
    (count,) = struct.unpack_from(">i", body, place)
    place += 4
    entries = {}
    for _ in range(count):
        key, length = struct.unpack_from(">ii", body, place)
        if not 0 <= length <= len(body) - place - 8:
            raise struct.error(f"an entry of {length} bytes")
        entries[key] = bytes(body[place + 8 : place + 8 + length])
        place += 8 + length
    return entries, place


def schema_of_block(block: LogBlock) -> str:
    """Return the Avro schema, as JSON, of the rows of an Avro data block or the changes of a CDC block.

    Raises DataFileError if the block has another type or no schema.
    """
    if block.kind not in (AVRO_DATA, CDC_DATA):
        raise DataFileError(f"the block at byte {block.offset} is of type {name_of(block.kind)}, which is not read")
    schema = block.header.get(SCHEMA)
    if schema is None:
        raise DataFileError(f"the block at byte {block.offset} has no schema")
    return schema.decode()


def rows_of_block(block: LogBlock) -> list[memoryview]:
    """Return the bytes of each row of an Avro block.

    Raises DataFileError if the block is damaged or has an unknown version, and struct.error if the content ends before
    a number does.
    """
    content, offset = block.content, block.offset
    version, count = struct.unpack_from(">ii", content)
    if version != _AVRO_VERSION:
        raise DataFileError(f"the rows of the block at byte {offset} have version {version}, not {_AVRO_VERSION}")
    records, place = [], 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, place)
        record = content[place + 4 : place + 4 + length]
        if length < 0 or len(record) != length:
            raise DataFileError(f"the block at byte {offset} is damaged: a row of {length} bytes does not fit in it")
        records.append(record)
        place += 4 + length
    if place != len(content):
        raise DataFileError(f"the block at byte {offset} is damaged: bytes are left after its last row")
    return records
