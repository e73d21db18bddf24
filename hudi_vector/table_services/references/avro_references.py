"""The references in Avro rows; only references and blob types are decoded, everything else is skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa

from hudi_vector.errors import DataFileError, InvalidBlobError
from hudi_vector.table.avro_names import with_full_names
from hudi_vector.table_services.references.avro_walk import Found, Walk, walk_of
from hudi_vector.table_services.references.references import REFERENCES, distinct

__all__ = ["avro_references"]


def avro_references(schema: str, records: Callable[[], Sequence[memoryview]]) -> pa.Table:
    """Return the distinct references of rows in Avro's binary encoding, as a table of `REFERENCES`.

    `schema` is the rows' Avro schema as JSON. `records` returns the bytes of each row; it is not called if the schema
    has no blob. Raise DataFileError if a row does not end where its bytes end, and InvalidBlobError if an OUT_OF_LINE
    blob has no path.

    Example:
        >>> schema = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'
        >>> avro_references(schema, list).num_rows
        0
    """
    walk = _walk(schema)
    if walk is None:
        return REFERENCES.empty_table()
    found = Found()
    for number, record in enumerate(records()):
        end = walk(bytes(record), 0, found)
        if end != len(record):
            raise DataFileError(f"row {number} of a block has {len(record)} bytes and its schema {end}")
    for column, count in found.lost.items():
        raise InvalidBlobError(f"{count} of its rows are OUT_OF_LINE in column '{column}' and name no path")
    columns = zip(*found.references, strict=True) if found.references else ()
    made = [pa.array(values, kind.type) for values, kind in zip(columns, REFERENCES, strict=False)]
    return distinct([pa.table(made, schema=REFERENCES)] if made else [])


@lru_cache(maxsize=64)
def _walk(text: str) -> Walk | None:
    return walk_of(with_full_names(json.loads(text)))
