"""A filter over many files gives the rows it gives file by file, whether columns are in memory or have to be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_vector.read.cache import process_cache
from hudi_vector.read.filtered import allowed_rows
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.form import parse
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo
from hudi_vector.table.deleted_rows import DeletedRows

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("emb", pa.list_(pa.float32())), ("day", pa.string())])
ROWS = st.lists(st.one_of(st.none(), st.floats(0, 1), st.just(float("nan"))), max_size=12)


@pytest.fixture
def _cache() -> Any:
    cache = process_cache()
    before = cache.budget
    cache.clear()
    cache.resize(1 << 20)
    yield
    cache.clear()
    cache.resize(before)


def written(path: Path, prices: list[float | None]) -> FileInfo:
    """A file of small row groups."""
    ids = range(len(prices))
    embs = pa.array([[0.0]] * len(prices), SCHEMA.field("emb").type)
    table = pa.table({"id": pa.array(ids, pa.int64()), "price": pa.array(prices, pa.float64()), "emb": embs})
    pq.write_table(table, path, row_group_size=6)
    status = os.stat(path)
    return FileInfo(f"file://{path}", status.st_size, status.st_mtime_ns)


@pytest.mark.usefixtures("_cache")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    files=st.lists(ROWS, min_size=1, max_size=5),
    text=st.sampled_from(
        [
            "price < 0.5",
            "price > 0.2 AND id < 7",
            "price IS NULL OR day = 'd1'",
            "NOT price > 0.9",
            "1 = 0",
            "day > 'd1'",
        ]
    ),
    gone=st.sets(st.integers(0, 11)),
    known=st.sets(st.integers(0, 4)),
)
def test_many_files_are_filtered_as_each_is(
    tmp_path_factory: pytest.TempPathFactory, files: list[Any], text: str, gone: set[int], known: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    spec = ScanSpec(f"file://{folder}", SCHEMA, VectorColumn("emb", 1, "float", False), parse(text, SCHEMA))
    found = [written(folder / f"{number}.parquet", prices) for number, prices in enumerate(files)]

    def readers(keep: bool) -> list[ParquetSlice]:
        made = []
        for number, (file, prices) in enumerate(zip(found, files, strict=True)):
            rows = [row for row in gone if row < len(prices)]
            deleted = DeletedRows.of_numbers(rows) if rows and number % 2 else None
            made.append(ParquetSlice(file, spec, keep, deleted, [("day", pa.scalar(f"d{number}"))]))
        return made

    alone = ScanCounts()
    expected = [reader.allowed(alone).tolist() for reader in readers(keep=False)]
    for number, reader in enumerate(readers(keep=True)):
        if number in known:
            reader.rows(np.arange(reader.row_count()), ["id", "price"])
    for _ in range(2):  # the second time what was read is in memory
        counts = ScanCounts()
        masks = allowed_rows(readers(keep=True), spec, counts)
        assert [mask.tolist() for mask in masks] == expected
        assert [mask.dtype for mask in masks] == [np.bool_] * len(files)
        assert counts.rows == alone.rows
        assert counts.filtered + counts.pruned == alone.filtered + alone.pruned


@pytest.mark.usefixtures("_cache")
def test_columns_in_memory_are_looked_at_by_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ScanSpec(f"file://{tmp_path}", SCHEMA, VectorColumn("emb", 1, "float", False), parse("price < 0.5", SCHEMA))
    files = [written(tmp_path / f"{number}.parquet", [0.1, 0.9, None] * 4) for number in range(20)]
    readers = [ParquetSlice(file, spec, True) for file in files]
    first = allowed_rows(readers, spec, ScanCounts())

    def refuse(*_: Any) -> Any:
        raise AssertionError("it is looked at alone")

    monkeypatch.setattr(ParquetSlice, "allowed", refuse)
    again = allowed_rows([ParquetSlice(file, spec, True) for file in files], spec, ScanCounts())
    assert [mask.tolist() for mask in again] == [mask.tolist() for mask in first] == [[True, False, False] * 4] * 20


@pytest.mark.usefixtures("_cache")
def test_a_large_filter_column_is_read_in_batches(tmp_path: Path) -> None:
    """More than eight megabytes in a row group are not kept in memory."""
    rows = 90_000
    days = pa.array([f"{'d' * 100}{number % 1000:03d}" for number in range(rows)])
    embs = pa.array([[0.0]] * rows, SCHEMA.field("emb").type)
    table = pa.table({"id": range(rows), "price": pa.array([0.5] * rows), "emb": embs, "day": days})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=rows, use_dictionary=False)
    status = os.stat(tmp_path / "large.parquet")
    file = FileInfo(f"file://{tmp_path}/large.parquet", status.st_size, status.st_mtime_ns)
    predicate = parse("day LIKE '%7' AND id >= 10", SCHEMA)
    spec = ScanSpec(f"file://{tmp_path}", SCHEMA, VectorColumn("emb", 1, "float", False), predicate)
    expected = [number >= 10 and number % 10 == 7 for number in range(rows)]
    for keep in (True, False):
        assert ParquetSlice(file, spec, keep).allowed(ScanCounts()).tolist() == expected
