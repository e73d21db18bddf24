"""Arrays of different lengths in one Arrow IPC file, with a header that describes them and checksums.

The file has one row. Each array is a column of type large_list, with its elements in the array's C order. The schema's
metadata has two keys: ``hudi_vector_index``, the header as JSON, and ``sha256``, a checksum of the header's bytes and,
for each array in the order of the columns, of a line with its name, numpy type and length, and of its bytes. The field
of an array that can be read alone has a separate ``sha256``, of the header's bytes, the array's line and its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.storage.arrow_files import require_uncompressed

__all__ = ["FORMAT_VERSION", "Arrays", "pack", "unchecked", "unpack", "unpack_apart"]

MAGIC = "HUDI-VECTOR-INDEX"
FORMAT_VERSION = 1
_HEADER, _CHECKSUM = b"hudi_vector_index", b"sha256"
# The errors that pyarrow and the JSON parser raise on damaged or hostile files.
_UNREADABLE = (
    pa.ArrowException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    MemoryError,
)

Arrays = Mapping[str, npt.NDArray[Any]]


def pack(kind: str, header: Mapping[str, Any], arrays: Arrays, apart: Arrays = MappingProxyType({})) -> bytes:
    """Return the content of a file of arrays, an Arrow IPC file.

    `kind` is ``"model"`` or ``"segment"``, and `header` holds JSON values. Shapes are not stored. Each array in `apart`
    can be read and checked without the others.
    """
    text = json.dumps({"magic": MAGIC, "format_version": FORMAT_VERSION, "what": kind, **header}, sort_keys=True)
    flat = {name: np.ascontiguousarray(array).reshape(-1) for name, array in {**arrays, **apart}.items()}
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array)) for array in flat.values()
    ]
    own = {name: {_CHECKSUM: _checksum(text, {name: flat[name]})} for name in apart}
    fields = [pa.field(n, c.type, metadata=own.get(n)) for n, c in zip(flat, columns, strict=True)]
    schema = pa.schema(fields, {_HEADER: text, _CHECKSUM: _checksum(text, flat)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(kind: str, source: Any, uri: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the one-dimensional arrays by name of a file, checked.

    `source` is a buffer, or an open file; arrays are views of a mapped file. Raises DataFileError, naming `uri`, if the
    file is not of this kind or damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    held = _held(kind, source, uri)
    if _checksum(held.text, held.arrays) != held.checksum:
        raise _damaged(kind, uri)
    return held.header, held.arrays


def unpack_apart(
    kind: str, source: Any, uri: str, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the named arrays, packed as `apart`, of a file, reading and checking nothing else.

    If the file lacks one of the arrays, none is returned and the header is not checked. Arguments and errors are those
    of `unpack`.
    """
    held = _held(kind, source, uri, names)
    for name, array in held.arrays.items():
        if _checksum(held.text, {name: array}) != held.own.get(name):
            raise _damaged(kind, uri)
    return held.header, held.arrays


def unchecked(
    kind: str, source: Any, uri: str, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the named arrays of a file, reading nothing else and comparing no checksum.

    Arguments, errors and what is returned if an array is missing are those of `unpack_apart`.
    """
    held = _held(kind, source, uri, names)
    return held.header, held.arrays


@dataclass(frozen=True)
class _Held:
    """The content of a file before checksums are compared: `checksum` covers all arrays, `own` single ones."""

    text: str
    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    checksum: str
    own: dict[str, str]


def _held(kind: str, source: Any, uri: str, names: Sequence[str] | None = None) -> _Held:
    """Return all arrays of a file, or the named ones: none if it lacks one of these. Checksums are not compared."""
    try:
        opened = pa.BufferReader(source) if isinstance(source, pa.Buffer) else source
        if names is None:  # one request on an object store, and no copy of a mapped file
            opened = pa.BufferReader(opened.read_buffer())
        require_uncompressed(opened)
        file = pa.ipc.open_file(opened)
        schema = file.schema
        text, checksum = schema.metadata[_HEADER].decode(), schema.metadata[_CHECKSUM].decode()
        header = json.loads(text)
        magic, version = header["magic"], header["format_version"]
        table = _columns(file, opened, schema.names if names is None else names)
        table.validate(full=True)
        arrays = {name: table.column(name).chunk(0).values.to_numpy() for name in table.schema.names}
        own = {
            field.name: field.metadata[_CHECKSUM].decode()
            for field in table.schema
            if _CHECKSUM in (field.metadata or {})
        }
    except _UNREADABLE as problem:
        raise DataFileError(f"'{uri}' is no {kind} of a vector index, or damaged: {problem}") from problem
    if magic != MAGIC or header.get("what") != kind:
        raise DataFileError(f"'{uri}' is no {kind} of a vector index")
    if version != FORMAT_VERSION:
        raise UnsupportedTableError(
            f"'{uri}' has format version {version} and this hudi-vector knows version {FORMAT_VERSION}; "
            "use the hudi-vector that wrote it, or a newer one"
        )
    return _Held(text, header, arrays, checksum, own)


def _columns(file: pa.ipc.RecordBatchFileReader, source: Any, names: Sequence[str]) -> pa.Table:
    """Return the named columns of a file without reading others, or an empty table if it lacks one of them."""
    if list(names) == file.schema.names:
        return file.read_all()
    chosen = [file.schema.get_field_index(name) for name in names]
    if -1 in chosen:
        return pa.table({})
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=chosen)).read_all()


def _damaged(kind: str, uri: str) -> DataFileError:
    return DataFileError(f"the {kind} '{uri}' is damaged: its content does not match its checksum")


def _checksum(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in arrays.items():
        digest.update(f"\n{name} {array.dtype.str} {len(array)}\n".encode())
        digest.update(array.view(np.uint8).data)
    return digest.hexdigest()
