"""The folder of a table's indexes, and their models and segments as files.

The name of a model or segment is derived from its content or inputs, so every process that writes it writes the same,
and an existing whole file is kept.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.index.kinds.joined import AnySegment, read_segment
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import MODEL_ID, IndexModel, read_model
from hudi_vector.index.kinds.segment import FileFingerprint, Segment, SegmentShape
from hudi_vector.index.manifest import PACK, SEGMENT
from hudi_vector.index.side_arrays import pack, unchecked, unpack, unpack_apart
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.parquet.data_file import held_stream
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage import FileInfo, Storage, join
from hudi_vector.storage.stored_values import named, shaped

__all__ = [
    "file_of_segment",
    "fingerprint_of",
    "indexes_folder",
    "load_model",
    "load_segment",
    "load_segment_keys",
    "model_uri",
    "pack_uri",
    "packs_folder",
    "path_from",
    "save_model",
    "save_segment",
    "segment_content",
    "segment_name",
    "segment_shape",
    "segment_uri",
    "segments_folder",
    "uri_from",
]

_ROOT = ".hoodie/vector_index/v1"
_TAIL_BYTES = 64 << 10
_KEYS = ("key_hash", "key_row")
_PAGES, _LITERALS, _FOOTER = "pages", "literals", "footer"
_SEGMENT = re.compile(r"(.+)-[0-9a-f]{16}-[^-]+\.arrow", re.ASCII | re.DOTALL)


def indexes_folder(table_uri: str) -> str:
    """Return the folder of all indexes of a table, which has one folder per column."""
    return join(table_uri, _ROOT)


def fingerprint_of(storage: Storage, table_uri: str, file: FileInfo) -> FileFingerprint:
    """Return a base file's fingerprint: size and mtime as listed, and a hash of its footer, which is read.

    The path in it is relative to `table_uri`, or the full URI if that is empty. The footer is Parquet's, of any length;
    of other files it is the last 64 KiB. Raises DataFileError if the file is missing or cannot be read.
    """
    with held_stream(file) or storage.open(file.uri, mapped=False, size=file.size) as stream:
        try:
            size = stream.size()
            tail = stream.read_at(min(size, 8), max(size - 8, 0))
            length = _TAIL_BYTES
            if tail[-4:] in (b"PAR1", b"PARE"):
                length = int.from_bytes(tail[:4], "little") + 8
            footer = stream.read_at(min(size, length), max(size - length, 0))
        except OSError as problem:
            raise DataFileError(f"the data file '{file.uri}' cannot be read: {problem}") from problem
    return FileFingerprint(path_from(table_uri, file.uri), file.size, file.mtime_ns, hashlib.sha256(footer).hexdigest())


def path_from(base: str, uri: str) -> str:
    """Return the path of a file relative to a table's folder, or the full URI if there is no table.

    Example:
        >>> path_from("file:///t", "file:///t/a/1.parquet"), path_from("", "file:///1.parquet")
        ('a/1.parquet', 'file:///1.parquet')
    """
    return uri.removeprefix(base.rstrip("/") + "/") if base else uri


def uri_from(base: str, path: str) -> str:
    """Return the URI of a file from a path that `path_from` returned."""
    return join(base, path) if base else path


def model_uri(folder: str, model_id: str) -> str:
    """Return the URI of an index's model; raise DataFileError if the id is malformed, since it could lead anywhere."""
    return join(folder, "models", f"{named(folder, 'model', model_id, MODEL_ID)}.arrow")


def save_model(storage: Storage, folder: str, model: IndexModel) -> str:
    """Write a model durably, unless a whole file is there, and return its URI."""
    header = {name: getattr(model, name) for name in ("model_id", "kind", "metric", "dimension", "element")}
    header["lists"] = model.lists
    arrays = {name: getattr(model, name) for name in ("centroids", "low", "scale")}
    if model.num_bits:
        header["num_bits"], header["num_sub_vectors"] = model.num_bits, len(model.codebook)
    if len(model.codebook):
        arrays["codebook"] = model.codebook
    uri = model_uri(folder, model.model_id)
    _settle(storage, "model", uri, header, lambda: pack("model", header, arrays))
    return uri


def load_model(storage: Storage, folder: str, model_id: str) -> IndexModel:
    """Read a model.

    Raises DataFileError if it is missing, damaged or another model, and UnsupportedTableError if another version of
    this package wrote it.
    """
    uri = model_uri(folder, model_id)
    header, arrays = unpack("model", storage.whole(uri, mtime_ns=0), uri)
    if header.get("model_id") != model_id or header.get("kind") not in tuple(KINDS):
        raise DataFileError(
            f"'{uri}' holds the model {header.get('model_id')} of kind {header.get('kind')}, not {model_id}"
        )
    try:
        return read_model(header, arrays)
    except (LookupError, ValueError, TypeError) as problem:
        raise DataFileError(f"the model '{uri}' contradicts itself: {problem}") from problem


def segment_name(file: FileFingerprint, model_id: str) -> str:
    """Return the name of a base file's segment, derived from the file's name, its fingerprint and the model."""
    stem = posixpath.basename(file.path).rpartition(".")[0] or posixpath.basename(file.path)
    print_ = hashlib.sha256(repr((file.path, file.size, file.mtime_ns, file.footer)).encode()).hexdigest()[:16]
    return f"{stem}-{print_}-{model_id}.arrow"


def file_of_segment(name: str) -> str | None:
    """Return the name, without extension, of a segment's base file, or None if `name` is not a segment's name.

    Example:
        >>> file_of_segment("f1_0-1-2_20260101000000000-0123456789abcdef-9f.arrow")
        'f1_0-1-2_20260101000000000'
    """
    found = _SEGMENT.fullmatch(name)
    return None if found is None else found[1]


def segments_folder(folder: str) -> str:
    """Return the folder of an index's segments."""
    return join(folder, "segments")


def packs_folder(folder: str) -> str:
    """Return the folder of an index's packs."""
    return join(folder, "packs")


def pack_uri(folder: str, name: str) -> str:
    """Return the URI of a pack; raise DataFileError if its name is malformed, since it could lead anywhere."""
    return join(packs_folder(folder), named(folder, "pack", name, PACK))


def segment_uri(folder: str, name: str) -> str:
    """Return the URI of a segment; raise DataFileError if its name is malformed, since it could lead anywhere."""
    return join(segments_folder(folder), named(folder, "segment", name, SEGMENT))


def save_segment(
    storage: Storage, folder: str, model: IndexModel, segment: AnySegment, keys: KeyHashes | None = None
) -> tuple[str, int]:
    """Write a segment durably, unless a whole file is there, and return its name and its size in bytes.

    `keys` are the hashes of the base file's record keys, needed if log files may change its rows, else None.
    """
    name = segment_name(segment.file, model.model_id)
    header = {
        **{key: getattr(model, key) for key in ("model_id", "kind", "metric", "dimension", "element")},
        "file": asdict(segment.file),
        "rows": segment.rows,
        "clipped": segment.clipped,
    }
    uri = segment_uri(folder, name)
    names = Segment.stored(model) if isinstance(segment, Segment) else segment.ARRAYS
    arrays = {name: getattr(segment, name) for name in names}
    if segment.pages is not None:
        arrays[_PAGES] = segment.pages.numbers
        if segment.pages.literals is not None:
            arrays[_LITERALS] = segment.pages.literals
    if isinstance(segment, Segment) and segment.footer is not None:
        arrays[_FOOTER] = np.frombuffer(segment.footer.content, np.uint8)
    apart = {name: getattr(keys, name) for name in _KEYS} if keys is not None else {}
    size = _settle(storage, "segment", uri, header, lambda: pack("segment", header, arrays, apart))
    return name, size


def segment_content(storage: Storage, folder: str, name: str, size: int | None = None) -> pa.Buffer:
    """Return the content of a segment's file, unchecked; `size` is its bytes as its manifest says.

    Raises DataFileError if it is missing or of another size.
    """
    return storage.whole(segment_uri(folder, name), size, mtime_ns=0)


def segment_shape(folder: str, name: str, model: IndexModel, content: pa.Buffer) -> SegmentShape:
    """Return the shape that the content of a segment's file says it has, without a look at its codes.

    `load_segment` compares the checksum. Raises DataFileError if the file cannot hold so many entries.
    """
    uri = segment_uri(folder, name)
    header, arrays = unchecked("segment", content, uri, ["offsets"])
    offsets, rows = arrays.get("offsets", np.empty(0)), header.get("rows")
    if isinstance(rows, int) and offsets.dtype.kind == "i" and len(offsets) == model.lists + 1:
        sizes = np.diff(offsets).astype(np.int64)
        room = content.size // (model.code_width * model.code_dtype.itemsize)
        if offsets[0] == 0 and sizes.min(initial=0) >= 0 and offsets[-1] <= min(room, rows):
            return SegmentShape(rows, sizes)
    raise DataFileError(f"the segment '{uri}' is damaged: its lists do not fit into it")


def load_segment(
    storage: Storage,
    folder: str,
    name: str,
    model: IndexModel,
    file: FileFingerprint,
    content: pa.Buffer | None = None,
) -> AnySegment:
    """Read a segment, and check that it belongs to this model and to this content of its base file.

    `content` is what `segment_content` returned, if it was read already.

    Its arrays are views of the file if that is on a local disk. Raises DataFileError if the segment is missing,
    damaged, or of another model or file content, and UnsupportedTableError if another version of this package wrote it.
    """
    uri = segment_uri(folder, name)
    content = segment_content(storage, folder, name) if content is None else content
    header, arrays = unpack("segment", content, uri)
    found = _file_of(header, uri, file)
    if header.get("model_id") != model.model_id:
        raise DataFileError(f"the segment '{uri}' is of the model {header.get('model_id')}, not of {model.model_id}")
    try:
        segment = read_segment(model, found, header, arrays)
    except (LookupError, ValueError, TypeError) as problem:
        raise DataFileError(f"the segment '{uri}' does not fit its model: {problem}") from problem
    if _FOOTER in arrays and isinstance(segment, Segment):
        segment = replace(segment, footer=KeptFooter(arrays[_FOOTER].tobytes()))
    if _PAGES not in arrays:  # an old segment without page tables, or a file whose pages only pyarrow reads
        return segment
    width = model.dimension * VectorColumn("", model.dimension, model.element).dtype.itemsize
    # A view would keep the mapped file's disk space in use after the file is deleted.
    literals = arrays[_LITERALS].copy() if _LITERALS in arrays else None
    return replace(segment, pages=PageTable(width, segment.rows, found.size, arrays[_PAGES].copy(), literals))


def load_segment_keys(
    storage: Storage, folder: str, name: str, file: FileFingerprint, known: int | pa.Buffer | None = None
) -> KeyHashes | None:
    """Read only the key hashes of a segment's base file, or return None if the segment has none.

    `known` is the size of the segment's file in bytes, or its content, if it was read already. The hashes are views of
    the file if that is on a local disk. Raises DataFileError if the segment is missing, damaged or of another file
    content, and UnsupportedTableError if another version of this package wrote it.
    """
    uri = segment_uri(folder, name)
    source = known if isinstance(known, pa.Buffer) else storage.open(uri, size=known, mtime_ns=0)
    header, arrays = unpack_apart("segment", source, uri, _KEYS)
    if not arrays:
        return None
    _file_of(header, uri, file)
    found = KeyHashes(*(arrays[name] for name in _KEYS))
    if {len(array) for array in arrays.values()} != {header.get("rows")}:
        raise DataFileError(f"the segment '{uri}' has not as many hashes of keys as rows")
    return found


def _file_of(header: Mapping[str, Any], uri: str, file: FileFingerprint) -> FileFingerprint:
    """Return the fingerprint in a segment's header; raise DataFileError if it is not that of `file`."""
    found = shaped(FileFingerprint, header.get("file"), uri)
    if found != file:
        raise DataFileError(f"the segment '{uri}' is of '{found.path}' with another content than that file has now")
    return found


def _settle(storage: Storage, kind: str, uri: str, header: Mapping[str, Any], content: Callable[[], bytes]) -> int:
    """Write a file whose name determines its content, unless a whole one is there, and return its size in bytes."""
    found = storage.info(uri)
    if found is not None:
        with suppress(DataFileError):
            if header.items() <= unpack(kind, storage.whole(uri, found.size), uri)[0].items():
                return found.size
        storage.delete(uri)
    made = content()
    with suppress(FileExistsError):  # on an object store, another process wrote the same content first
        storage.publish(uri, made)
    return len(made)
