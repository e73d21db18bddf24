"""Arrays of different lengths in one Arrow IPC file, with a header that says what they are and proves them whole.

The file has one row. Each array is a column of type large_list, its elements in the array's C order. The schema's
metadata has two keys: ``hudi_vector_index``, the header as JSON, and ``sha256``, over the header's bytes and, for each
array in the order of the columns, a line with its name, numpy type and length, and its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError, UnsupportedTableError

__all__ = ["FORMAT_VERSION", "Arrays", "pack", "unpack"]

MAGIC = "HUDI-VECTOR-INDEX"
FORMAT_VERSION = 1

Arrays = Mapping[str, npt.NDArray[Any]]


def pack(kind: str, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The content of a file of arrays.

    Args:
        kind: What it is: ``"model"`` or ``"segment"``.
        header: What JSON can hold.
        arrays: Arrays by name; their shapes are the reader's to know.

    Returns:
        An Arrow IPC file.
    """
    text = json.dumps({"magic": MAGIC, "format_version": FORMAT_VERSION, "what": kind, **header}, sort_keys=True)
    flat = {name: np.ascontiguousarray(array).reshape(-1) for name, array in arrays.items()}
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array)) for array in flat.values()
    ]
    metadata = {"hudi_vector_index": text, "sha256": _checksum(text, flat)}
    schema = pa.schema([pa.field(n, c.type) for n, c in zip(flat, columns, strict=True)], metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(kind: str, source: Any, uri: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a file, checked.

    Args:
        kind: What it must be.
        source: What pyarrow reads from: bytes in a buffer, or an open file. Arrays are views of a mapped one.
        uri: Where it lies, for the message.

    Returns:
        The header, and one-dimensional arrays by name.

    Raises:
        DataFileError: The file is no such file, or damaged.
        UnsupportedTableError: Another version of this package wrote it.
    """
    try:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        metadata = table.schema.metadata or {}
        text, checksum = metadata[b"hudi_vector_index"].decode(), metadata[b"sha256"].decode()
        header = json.loads(text)
        magic, version = header["magic"], header["format_version"]
        arrays = {name: table.column(name).chunk(0).values.to_numpy() for name in table.schema.names}
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise DataFileError(f"'{uri}' is no {kind} of a vector index, or damaged: {problem}") from problem
    if magic != MAGIC or header.get("what") != kind:
        raise DataFileError(f"'{uri}' is no {kind} of a vector index")
    if version != FORMAT_VERSION:
        raise UnsupportedTableError(
            f"'{uri}' has format version {version} and this hudi-vector knows version {FORMAT_VERSION}; "
            "use the hudi-vector that wrote it, or a newer one"
        )
    if _checksum(text, arrays) != checksum:
        raise DataFileError(f"the {kind} '{uri}' is damaged: its content is not what its checksum says")
    return header, arrays


def _checksum(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in arrays.items():
        digest.update(f"\n{name} {array.dtype.str} {len(array)}\n".encode())
        digest.update(array.view(np.uint8).data)
    return digest.hexdigest()
