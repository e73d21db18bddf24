"""Rows of large columns, read with the pages that hold them, equal what pyarrow reads."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_vector.errors import DataFileError
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.page_file import column_pages
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.parquet.thrift import read_struct
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, StorageOptions

EPOCH = dt.datetime(1970, 1, 1)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "flag": (pa.bool_(), lambda n: n % 3 == 0),
    "small": (pa.int32(), lambda n: n - 7),
    "large": (pa.int64(), lambda n: n << 33),
    "real": (pa.float32(), lambda n: n / 4),
    "double": (pa.float64(), lambda n: n / 3),
    "text": (pa.string(), lambda n: f"é{n}" * (n % 5)),
    "bytes": (pa.binary(), lambda n: bytes([n % 256]) * (n % 9)),
    "fixed": (pa.binary(6), lambda n: n.to_bytes(6, "big")),
    "price": (pa.decimal128(20, 2), lambda n: decimal.Decimal(n) / 4),
    "day": (pa.date32(), lambda n: EPOCH.date() + dt.timedelta(days=n)),
    "at": (pa.timestamp("us", "UTC"), lambda n: EPOCH + dt.timedelta(microseconds=n)),
    "local": (pa.timestamp("ms"), lambda n: EPOCH + dt.timedelta(milliseconds=n)),
    "tags": (pa.list_(pa.int32()), lambda n: list(range(n % 4))),
    "pair": (pa.struct({"a": pa.int32(), "b": pa.string()}), lambda n: {"a": n, "b": str(n)}),
}


def table_of(count: int, nulls: float, distinct: int) -> pa.Table:
    chance = np.random.default_rng(count)
    numbers = chance.integers(0, distinct, count).tolist()
    absent = (chance.random(count) < nulls).tolist()
    columns = {
        name: pa.array([None if gone else make(n) for n, gone in zip(numbers, absent, strict=True)], kind)
        for name, (kind, make) in TYPES.items()
    }
    return pa.table(columns)


def opened(path: Path, schema: pa.Schema) -> ParquetSlice:
    """Without a cache every column is one that is read for its rows alone."""
    return ParquetSlice(info(path), ScanSpec("t", schema, VectorColumn("emb", 4, "float")), keep=False)


def info(path: Path) -> FileInfo:
    status = os.stat(path)
    return FileInfo(f"file://{path}", status.st_size, status.st_mtime_ns)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_rows_of_any_column(tmp_path: Path, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 900), "rows")
    nulls = data.draw(st.sampled_from([0.0, 0.1, 1.0]), "nulls")
    table = table_of(count, nulls, data.draw(st.sampled_from([3, 1 << 20]), "distinct"))
    pq.write_table(
        table,
        tmp_path / "f.parquet",
        compression=data.draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4"]), "codec"),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"]), "version"),
        use_dictionary=data.draw(st.booleans(), "dictionary"),
        write_page_index=data.draw(st.booleans(), "index"),
        store_schema=data.draw(st.booleans(), "schema"),
        data_page_size=data.draw(st.integers(16, 2000), "page"),
        write_batch_size=data.draw(st.integers(1, 50), "batch"),
        row_group_size=data.draw(st.integers(60, 900), "group"),
    )
    process_cache().clear()  # the next example may have the size and the time of this one
    asked = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=8), "asked")
    got = opened(tmp_path / "f.parquet", table.schema).rows(np.array(asked, np.int64), table.column_names)
    assert got.to_pydict() == table.take(pa.array(asked)).to_pydict()
    assert got.schema.types == table.schema.types


class Counting(DataFile):
    """A file that notes how many bytes are read of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(info(path), StorageOptions(), mapped=False)
        self.taken = 0
        self.names  # noqa: B018 - the footer is read, by pyarrow, before bytes are counted

    def source(self) -> Any:
        outer, source = self, super().source()
        if self._footer is None:
            return source

        class Noting:
            def read_at(self, count: int, offset: int) -> bytes:
                outer.taken += count
                return source.read_at(count, offset)

        return Noting()


def test_only_the_pages_of_the_rows_are_read(tmp_path: Path) -> None:
    texts = [f"{n:0100d}" for n in range(50_000)]
    table = pa.table({"text": texts, "tags": [[1]] * 50_000})
    pq.write_table(
        table, tmp_path / "f.parquet", compression="none", use_dictionary=False, write_page_index=True,
        data_page_size=10_000,
    )  # fmt: skip
    file = Counting(tmp_path / "f.parquet")
    assert column_pages(file, "tags", 0) is None
    assert column_pages(file, "nothing", 0) is None
    pages = column_pages(file, "text", 0)
    assert pages is not None
    rows = np.array([3, 5, 30_000, 49_999])
    file.taken = 0
    assert pages.rows(file, rows).column(0).to_pylist() == [texts[row] for row in rows]
    assert file.taken == pages.bytes_of(pages.pages_of(rows)) < 400_000
    assert pages.are_faster_read(rows)
    assert not pages.are_faster_read(np.array([3, 5])), "a scan ends with the first page"


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    table = pa.table({"text": [f"{n:0100d}" for n in range(5_000)]})
    pq.write_table(table, tmp_path / "f.parquet", compression="none", use_dictionary=False, write_page_index=True,
                   data_page_size=1_000)  # fmt: skip
    whole, path = info(tmp_path / "f.parquet"), tmp_path / "f.parquet"
    file = DataFile(whole, StorageOptions(), mapped=False)
    pages = column_pages(file, "text", 0)
    assert pages is not None
    file.close()
    held = bytearray(path.read_bytes())
    begin = int(pages.places.begin[2])
    held[begin : begin + 40] = b"\xff" * 40
    path.write_bytes(held)
    with pytest.raises(DataFileError, match=r"f\.parquet' cannot be read"):
        pages.rows(file, np.array([int(pages.places.first_row[2])]))


def test_structs_are_read_as_they_were_written() -> None:
    from hudi_vector.read.parquet.thrift import binary, i32, i64, list_of_structs, listed, struct_of

    inner = struct_of({1: i32(-(1 << 30)), 3: binary(b"x" * 300)})
    outer = struct_of({2: i64(1 << 60), 5: listed([inner] * 20), 9: listed([i32(1), i32(-1)])})
    fields, end = read_struct(outer.data)
    assert end == len(outer.data)
    assert fields == {2: 1 << 60, 5: [{1: -(1 << 30), 3: b"x" * 300}] * 20, 9: [1, -1]}
    assert list_of_structs(outer.data, 5) == [inner.data] * 20
    assert list_of_structs(outer.data, 7) == []
    with pytest.raises(ValueError, match="values of the type 5"):
        list_of_structs(outer.data, 9)
