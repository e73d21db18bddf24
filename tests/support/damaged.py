"""Parquet files whose footer is damaged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def cut_short(table: pa.Table, path: Path, rows: int, values: int, *leaves: str) -> None:
    """Write a file of pages of ten rows, and have its footer say that leaf columns have fewer values than rows.

    `rows` is the number of a leaf's values in each row group, from 64 to 8191, and `values` what the footer says in the
    first of them.
    """
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=False,
        write_batch_size=10,
        data_page_size=1,
        row_group_size=rows,
    )
    content = path.read_bytes()
    for leaf in leaves:
        # The leaf's name ends its path; the codec (field 4, 0 for none) and the number of values (field 5) follow.
        before = leaf.encode() + b"\x15\0\x16"
        assert before + _varint(rows) in content
        content = content.replace(before + _varint(rows), before + _varint(values), 1)
    path.write_bytes(content)


def _varint(number: int) -> bytes:
    """A number as Thrift's compact protocol has it, in two bytes."""
    return bytes([number * 2 % 128 + 128, number * 2 // 128])
