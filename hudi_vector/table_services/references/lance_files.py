"""The references in a Lance base file; only their fields are read."""

from __future__ import annotations

import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.read.lance import lance_reader
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.references.references import REFERENCE_FIELDS, add_references, distinct, references_in

__all__ = ["lance_fields", "lance_references"]

_BATCH_ROWS = 8192


def lance_references(uri: str, options: StorageOptions) -> pa.Table:
    """Return the distinct references of all blobs in a Lance file, as a table of `REFERENCES`.

    Bytes of INLINE blobs are not read, unless they lie in lists or maps. `uri` is normalised. Raise FileNotFoundError
    if there is no such file, InvalidBlobError if an OUT_OF_LINE blob has no path, DataFileError if the file is not a
    complete Lance file, and OSError if it cannot be read.
    """
    try:
        return _read(uri, options)
    except BaseException as problem:
        # A Rust panic in pylance is not an `Exception`; it is recognised by name.
        is_panic = type(problem).__name__ == "PanicException"
        if not is_panic and not isinstance(problem, (DataFileError, OSError, ValueError)):
            raise
        if open_storage(uri, options).info(uri) is None:
            raise FileNotFoundError(uri) from problem
        if is_panic:
            raise DataFileError(f"the data file '{uri}' is no whole Lance file: {problem}") from None
        raise


def lance_fields(schema: pa.Schema) -> list[str] | None:
    """Return the fields of a Lance file that describe references, as dotted paths.

    These are the references and the types of the blobs around them. For a blob in a list or a map, the whole list or
    map is returned. None means all columns; it is returned if one of the names itself contains a dot.

    Example:
        >>> reference = pa.struct([(name, pa.string()) for name in REFERENCE_FIELDS])
        >>> blob = pa.struct([("type", pa.string()), ("data", pa.binary()), ("reference", reference)])
        >>> lance_fields(pa.schema([("id", pa.int64()), ("img", blob)]))
        ['img.type', 'img.reference']
    """
    found = [path for field in schema for path in _paths(field, None)]
    if any("." in name for path in found for name in path):
        return None
    return list(dict.fromkeys(".".join(path) for path in found))


def _paths(field: pa.Field, around: pa.DataType | None) -> list[tuple[str, ...]]:
    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_struct(kind):
        names = [child.name for child in kind]
        if set(REFERENCE_FIELDS) <= set(names):
            is_blob = field.name == "reference" and around is not None and around.get_field_index("type") >= 0
            return [("type",), (field.name,)] if is_blob else [(field.name,)]
        return [(field.name, *path) for child in kind for path in _paths(child, kind)]
    if pa.types.is_nested(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return [(field.name,)] if any(_paths(child, None) for child in inner) else []
    return []


def _read(uri: str, options: StorageOptions) -> pa.Table:
    fields = lance_fields(lance_reader(uri, options).metadata().schema)
    found: list[pa.Table] = []
    if fields != []:
        for batch in lance_reader(uri, options, fields).read_all(batch_size=_BATCH_ROWS).to_batches():
            add_references(found, references_in(pa.Table.from_batches([batch])))
    return distinct(found)
