"""The references of a Parquet file, by reading their sub-columns and nothing else of it.

Hudi writes a checksum for each page. It is compared, since a bit that flipped makes another path of a reference, and
what the true one named would be taken for unneeded.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.table_services.references.references import REFERENCE_FIELDS, add_references, distinct, references_in

__all__ = ["parquet_references", "reference_leaves"]

_PATH = ".external_path"


def parquet_references(source: Any, *, remote: bool = False) -> pa.Table:
    """The distinct references of all blobs in a Parquet file.

    Args:
        source: The file, open for reading at random.
        remote: Whether each read is a request, so that neighbouring ones are joined.

    Returns:
        A table of `hudi_vector.table_services.references.references.REFERENCES`. Bytes of INLINE blobs are not read.

    Raises:
        InvalidBlobError: A blob is OUT_OF_LINE and names no path.
        pyarrow.ArrowException: The file is no whole Parquet file.
        OSError: The file cannot be read, or a page is not what was written.

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
            add_references(found, references_in(file.read_row_group(group, columns=leaves, use_threads=False)))
    return distinct(found) if len(found) != 1 else found[0]


def reference_leaves(paths: list[str]) -> list[str]:
    """Which leaves of a Parquet schema say what blobs refer to.

    Args:
        paths: The dotted path of each leaf.

    Returns:
        The fields of each reference, and the type of the blob around it.

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
