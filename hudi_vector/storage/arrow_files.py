"""Whether the batches of an Arrow IPC file are compressed, before any of them is read.

A compressed buffer says itself how long it becomes, and pyarrow takes that much memory at once. Files of ours are not
compressed, so that none needs more memory than it has bytes. The layout is that of Arrow's ``File.fbs`` and
``Message.fbs``, read as FlatBuffers.
"""

from __future__ import annotations

import struct

import pyarrow as pa

__all__ = ["require_uncompressed"]

_MAGIC = b"ARROW1"
_TAIL = 4 + len(_MAGIC)
_BLOCK = 24
# Fields of these tables by their numbers.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES, _MESSAGE_HEADER, _BATCH_COMPRESSION = 2, 3, 2, 3


def require_uncompressed(source: pa.NativeFile) -> None:
    """Refuse an Arrow IPC file whose batches are compressed, or that has dictionaries.

    Args:
        source: The file, open for reading at random.

    Raises:
        ValueError: It is one, or no such file.

    Example:
        >>> table, sink = pa.table({"n": [1, 2, 3]}), pa.BufferOutputStream()
        >>> with pa.ipc.new_file(sink, table.schema) as writer:
        ...     writer.write_table(table)
        >>> require_uncompressed(pa.BufferReader(sink.getvalue()))
    """
    size = source.size()
    tail = source.read_at(_TAIL, size - _TAIL) if size >= _TAIL else b""
    if not tail.endswith(_MAGIC):
        raise ValueError("it is no Arrow IPC file")
    try:
        (length,) = struct.unpack_from("<i", tail)
        footer = _taken(source, size - _TAIL - length, length, size)
        root = _pointed(footer, 0)
        if _count(footer, root, _FOOTER_DICTIONARIES)[1]:
            raise ValueError("it has dictionaries, which no file of ours has")
        first, blocks = _count(footer, root, _FOOTER_BATCHES)
        if blocks > len(footer) // _BLOCK:
            raise ValueError(f"it says that it has {blocks} batches")
        for number in range(blocks):
            offset, length = struct.unpack_from("<qi", footer, first + _BLOCK * number)
            _require_uncompressed_batch(_taken(source, offset, length, size))
    except struct.error as problem:
        raise ValueError(f"its layout is damaged: {problem}") from problem


def _require_uncompressed_batch(framed: bytes) -> None:
    """Refuse a compressed batch, given as its message with the frame around it."""
    message = framed[8:] if framed.startswith(b"\xff\xff\xff\xff") else framed[4:]
    root = _pointed(message, 0)
    header = _field(message, root, _MESSAGE_HEADER)
    if header is None:
        raise ValueError("a batch has no header")
    if _field(message, _pointed(message, header), _BATCH_COMPRESSION) is not None:
        raise ValueError("it is compressed, which no file of ours is")


def _taken(source: pa.NativeFile, offset: int, length: int, size: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > size:
        raise ValueError(f"its layout is damaged: it has {size} bytes, and names {length} at {offset}")
    taken: bytes = source.read_at(length, offset)
    return taken


def _pointed(content: bytes, at: int) -> int:
    """Where an offset leads that lies at a position; it counts from there."""
    return at + _number("<I", content, at)


def _field(content: bytes, table: int, number: int) -> int | None:
    """Where a field of a table lies, or None where the table lacks it."""
    layout = table - _number("<i", content, table)
    slot = 4 + 2 * number
    if slot >= _number("<H", content, layout):
        return None
    within = _number("<H", content, layout + slot)
    return table + within if within else None


def _count(content: bytes, table: int, number: int) -> tuple[int, int]:
    """Where the elements of a table's vector begin, and how many there are."""
    at = _field(content, table, number)
    if at is None:
        return 0, 0
    vector = _pointed(content, at)
    return vector + 4, _number("<I", content, vector)


def _number(form: str, content: bytes, at: int) -> int:
    if at < 0:
        raise ValueError("its layout is damaged: an offset leads before its beginning")
    number: int = struct.unpack_from(form, content, at)[0]
    return number
