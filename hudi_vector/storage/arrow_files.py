"""The check that an Arrow IPC file is not compressed, made before any batch is read.

A compressed buffer states its uncompressed size, and pyarrow allocates that much memory at once. This package's files
are not compressed, so reading one never needs more memory than the file has bytes. The layout is that of Arrow's
``File.fbs`` and ``Message.fbs``, read as FlatBuffers.
"""

from __future__ import annotations

import struct

import pyarrow as pa

__all__ = ["require_uncompressed"]

_MAGIC = b"ARROW1"
_TAIL = 4 + len(_MAGIC)
_BLOCK = 24
# Field numbers in the FlatBuffers tables Footer, Message and RecordBatch.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES, _MESSAGE_HEADER, _BATCH_COMPRESSION = 2, 3, 2, 3


def require_uncompressed(source: pa.NativeFile) -> None:
    """Raise ValueError if a file, open for random reads, is not an Arrow IPC file, is compressed or has dictionaries.

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
    """Raise ValueError if a batch, given as its framed message, is compressed."""
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
    """Return the position that the offset stored at `at` points to; offsets count from where they are stored."""
    return at + _number("<I", content, at)


def _field(content: bytes, table: int, number: int) -> int | None:
    """Return the position of a table's field, or None if the table lacks it."""
    layout = table - _number("<i", content, table)
    slot = 4 + 2 * number
    if slot >= _number("<H", content, layout):
        return None
    within = _number("<H", content, layout + slot)
    return table + within if within else None


def _count(content: bytes, table: int, number: int) -> tuple[int, int]:
    """Return the position of the first element of a table's vector, and the number of elements."""
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
