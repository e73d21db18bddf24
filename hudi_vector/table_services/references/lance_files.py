"""The references of a Lance base file, by reading their fields and nothing else of it."""

from __future__ import annotations

import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.read.lance import lance_reader
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.references.references import REFERENCE_FIELDS, add_references, distinct, references_in

__all__ = ["lance_fields", "lance_references"]

_BATCH_ROWS = 8192


def lance_references(uri: str, options: StorageOptions) -> pa.Table:
    """The distinct references of all blobs in a Lance file.

    Args:
        uri: The file, normalised.
        options: How storage is opened.

    Returns:
        A table of `references.REFERENCES`. Bytes of INLINE blobs are not read, unless they
        lie in lists or maps.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidBlobError: A blob is OUT_OF_LINE and names no path.
        DataFileError: The file is no whole Lance file.
        OSError: The file cannot be read.
    """
    try:
        return _read(uri, options)
    except BaseException as problem:
        # What Lance's own code does not expect of a file ends in an error that is none of Python's.
        is_panic = type(problem).__name__ == "PanicException"
        if not is_panic and not isinstance(problem, (DataFileError, OSError, ValueError)):
            raise
        if open_storage(uri, options).info(uri) is None:
            raise FileNotFoundError(uri) from problem
        if is_panic:
            raise DataFileError(f"the data file '{uri}' is no whole Lance file: {problem}") from None
        raise


def lance_fields(schema: pa.Schema) -> list[str] | None:
    """Which fields of a Lance file say what blobs refer to.

    Args:
        schema: The file's schema.

    Returns:
        The references and the types of the blobs around them, with dots; the whole column where a blob lies in a list
        or a map; None, for all columns, where a name that matters has a dot of its own.

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
