"""The references in a Parquet file; only their sub-columns are read.

Hudi writes a checksum for each page, and it is verified: a flipped bit would turn a path into another one, and the file
that the true path names would look unneeded.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.row_groups import read_group
from hudi_vector.table_services.references.references import REFERENCE_FIELDS, add_references, distinct, references_in

__all__ = ["parquet_references", "reference_leaves"]

_PATH = ".external_path"


def parquet_references(source: Any, *, remote: bool = False) -> pa.Table:
    """Return the distinct references of all blobs in a Parquet file, as a table of `REFERENCES`.

    `source` is open for random access. With `remote`, neighbouring reads are joined into one request. Bytes of INLINE
    blobs are not read. Raise InvalidBlobError if an OUT_OF_LINE blob has no path, pyarrow.ArrowException if the file is
    not a complete Parquet file, and OSError if it cannot be read or a page checksum is wrong.

    Example:
        >>> import io
        >>> sink = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1]}), sink)
        >>> parquet_references(pa.BufferReader(sink.getvalue())).num_rows
        0
    """
    found: list[pa.Table] = []
    with pq.ParquetFile(source, pre_buffer=remote, page_checksum_verification=True) as file:
        leaves = reference_leaves([file.schema.column(number).path for number in range(len(file.schema))])
        for group in range(file.num_row_groups if leaves else 0):
            add_references(found, references_in(read_group(file, group, leaves)))
    return distinct(found) if len(found) != 1 else found[0]


def reference_leaves(paths: list[str]) -> list[str]:
    """Return the leaves of a Parquet schema that describe references.

    These are the fields of each reference, and the type of the blob around it. `paths` are the dotted paths of all
    leaves.

    Example:
        >>> fields = ["type", "data", *(f"reference.{name}" for name in REFERENCE_FIELDS)]
        >>> reference_leaves(["id", *(f"img.{name}" for name in fields)])[:2]
        ['img.type', 'img.reference.external_path']
    """
    there, wanted = set(paths), []
    for path in paths:
        reference = path.removesuffix(_PATH)
        fields = [f"{reference}.{name}" for name in REFERENCE_FIELDS]
        if reference != path and there.issuperset(fields):
            kind = f"{reference.removesuffix('.reference')}.type"
            wanted += [kind, *fields] if reference.endswith(".reference") and kind in there else fields
    return wanted
