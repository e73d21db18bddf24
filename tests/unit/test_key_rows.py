"""Rows of given record keys, and their structs by pages, are what pyarrow reads of the whole file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.blob_states import ARROW, blob, inline, rows_of
from support.damaged import cut_short

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.read.logs.base_rows import base_rows
from hudi_vector.read.logs.record_keys import hashes_of_file, keys_of_file
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.key_rows import key_rows, struct_rows
from hudi_vector.storage import StorageOptions, open_storage

ROWS = 30_000
KEYS = pa.schema([("_hoodie_record_key", pa.string())])
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"compression": "zstd", "write_page_index": True, "data_page_size": 10_000, "row_group_size": 12_000},
    {"compression": "none", "data_page_version": "2.0", "use_dictionary": False, "row_group_size": 7_000},
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Blobs of every form, alone and within a struct that is NULL now and then."""
    blobs = {
        n: None if n % 7 == 0 else inline(b"%d" % n) if n % 5 == 0 else blob(f"{n % 3}.blob", n) for n in range(ROWS)
    }
    made = pa.Table.from_pylist(rows_of(blobs, "20260101000000000", "f", "", "f.parquet"), ARROW)
    parts, names = [made["img"].combine_chunks(), pa.array(range(ROWS))], ["image", "number"]
    doc = pa.StructArray.from_arrays(parts, names, mask=pa.array([n % 11 == 0 for n in range(ROWS)]))
    tags = pa.array([[{"n": n}] for n in range(ROWS)])
    return made.append_column("doc", doc).append_column("tags", tags)


def opened(table: pa.Table, path: Path, **layout: Any) -> DataFile:
    pq.write_table(table, path, store_schema=False, **layout)
    info = open_storage(f"file://{path}", StorageOptions()).info(f"file://{path}")
    assert info is not None
    return DataFile(info, StorageOptions(), mapped=False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_structs(table: pa.Table, tmp_path: Path, layout: dict[str, Any]) -> None:
    file = opened(table, tmp_path / "f.parquet", **layout)
    asked = ["0", "5", "7", "10", "11", "55", "77", "20000", str(ROWS - 1), "", "nobody", str(ROWS)]
    rows, keys = key_rows(file, asked)
    assert keys == asked[:9]
    assert rows.tolist() == [int(key) for key in keys]
    taken = table.take(pa.array(rows))
    found = struct_rows(file, ["img"], rows)
    assert found is not None
    assert found.to_pylist() == taken["img"].to_pylist()
    within = struct_rows(file, ["doc", "image"], rows)
    assert within is not None
    assert within.to_pylist() == [doc and doc["image"] for doc in taken["doc"].to_pylist()]
    assert struct_rows(file, ["nothing"], rows) is None
    with pytest.raises(UnsupportedTableError, match=r"single pages of 'tags\..*' cannot be found"):
        struct_rows(file, ["tags"], rows)


def test_key_columns_that_statistics_exclude_are_not_read(table: pa.Table, tmp_path: Path) -> None:
    by_key = table.sort_by("_hoodie_record_key")
    file = opened(by_key, tmp_path / "f.parquet", row_group_size=5_000)
    content = bytearray((tmp_path / "f.parquet").read_bytes())
    for group in range(1, file.metadata.num_row_groups):
        chunk = file.metadata.row_group(group).column(2)
        begin = chunk.dictionary_page_offset or chunk.data_page_offset
        content[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    (tmp_path / "f.parquet").write_bytes(content)
    rows, keys = key_rows(file, ["0", "1"])
    assert keys == ["0", "1"]
    assert by_key["id"].take(pa.array(rows)).to_pylist() == [0, 1]


def test_files_without_keys_and_rows_without(table: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="has no record keys"):
        key_rows(opened(table.select(["id"]), tmp_path / "none.parquet"), ["0"])
    keys = pa.array([None if n % 2 else str(n) for n in range(ROWS)])
    some = table.set_column(2, "_hoodie_record_key", keys)
    rows, found = key_rows(opened(some, tmp_path / "some.parquet"), ["1", "2"])
    assert (rows.tolist(), found) == ([2], ["2"])
    assert key_rows(opened(some.slice(0, 0), tmp_path / "empty.parquet"), ["1"])[0].dtype == np.int64


SHORT: dict[str, Callable[[DataFile], Any]] = {
    "rows of keys": lambda data: key_rows(data, ["99"]),
    "all keys": lambda data: keys_of_file(data.file, StorageOptions()),
    "hashes": lambda data: hashes_of_file(data.file, StorageOptions()),
    "rows": lambda data: list(base_rows(data.file, StorageOptions(), np.array([0, 99]), KEYS)),
}


@pytest.mark.parametrize("way", SHORT)
def test_keys_that_end_before_their_row_group_are_named(tmp_path: Path, way: str) -> None:
    path = tmp_path / "f.parquet"
    cut_short(pa.table([[str(n) for n in range(200)]], schema=KEYS), path, 100, 70, "_hoodie_record_key")
    info = open_storage(f"file://{path}", StorageOptions()).info(f"file://{path}")
    assert info is not None
    message = "row group 0 has 100 rows, and pyarrow reads 70 of column '_hoodie_record_key'; write the file again"
    with pytest.raises(DataFileError, match=message):
        SHORT[way](DataFile(info, StorageOptions(), mapped=False))
