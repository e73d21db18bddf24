"""Blobs of a Hudi table in Ray's object store: one batch of rows is one block, read by the task that makes it.

rows = spark.table("photos").select("id", "label", "image").collect()
references = pa.Table.from_pylist([row.asDict(recursive=True) for row in rows])   # or any Arrow table with blobs
dataset = ray.data.from_arrow_refs(blob_blocks(references, "image"))
"""

from __future__ import annotations

import pyarrow as pa
import ray

import hudi_vector as hv


@ray.remote
def _read(references: pa.Table, column: str) -> pa.Table:
    values = pa.array(hv.blobs.iter_bytes(references, column), pa.large_binary())
    return references.set_column(references.schema.get_field_index(column), column, values)


def blob_blocks(references: pa.Table, column: str, rows_per_block: int = 1024) -> list[ray.ObjectRef]:
    """Read blobs into blocks of Ray's object store.

    Args:
        references: Rows with a BLOB column, small where blobs lie out of line.
        column: The BLOB column, which becomes its bytes.
        rows_per_block: How many rows are one block; their bytes must fit a worker's memory.

    Returns:
        A reference to each block, in the order of the rows.
    """
    starts = range(0, references.num_rows, rows_per_block)
    return [_read.remote(references.slice(start, rows_per_block), column) for start in starts]
