"""A filter that few rows pass: their vectors are read singly, and no answer changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.caches import empty_cache
from support.lake import forget, upload
from support.loaded import module
from support.written_table import Row, WrittenTable, brute_force

import hudi_vector as hv
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.options import Settings
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.form import parse
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, normalise
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

slow = module("benchmarks/slow_store.py", "few_rows_slow_store")

DIMENSION, ROWS = 128, 6000
FILE_ROWS = 3000
WIDTH = 4 * DIMENSION
SCHEMA = pa.schema([pa.field("id", pa.int64())])
FEW = "id = 7 OR id = 1500 OR id BETWEEN 2990 AND 2993"
PASSING = [7, 1500, 2990, 2991, 2992, 2993]


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    with empty_cache(64 << 20):
        yield


def vectors(nulls: float = 0.0) -> list[np.ndarray | None]:
    chance = np.random.default_rng(5)
    made = chance.standard_normal((ROWS, DIMENSION)).astype(np.float32)
    return [None if absent else vector for vector, absent in zip(made, chance.random(ROWS) < nulls, strict=True)]


def written(path: Path, values: list[np.ndarray | None], codec: str = "none") -> FileInfo:
    raw = pa.array([None if value is None else value.tobytes() for value in values], pa.binary(WIDTH))
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), "emb": raw})
    pages: dict[str, Any] = {"data_page_size": 8 << 10, "write_batch_size": 8, "write_page_index": True}
    pq.write_table(table, path, use_dictionary=False, compression=codec, row_group_size=ROWS, **pages)
    return FileInfo(f"file://{path}", path.stat().st_size, path.stat().st_mtime_ns)


def opened(file: FileInfo, condition: str, keep: bool = True) -> ParquetSlice:
    column = VectorColumn("emb", DIMENSION, "float")
    return ParquetSlice(file, ScanSpec("t", SCHEMA, column, parse(condition, SCHEMA)), keep)


def rows_of(reader: ParquetSlice) -> tuple[dict[int, bytes], ScanCounts]:
    """The vector of each row that is found, by its position, and the counts."""
    counts = ScanCounts()
    found = {}
    for block in reader.blocks(counts):
        found |= dict(zip(block.positions.tolist(), map(bytes, block.values), strict=True))
    return found, counts


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("nulls", [0.0, 0.4])
@pytest.mark.parametrize("keep", [True, False])
def test_a_few_vectors_are_read_by_their_pages(tmp_path: Path, codec: str, nulls: float, keep: bool) -> None:
    values = vectors(nulls)
    file = written(tmp_path / "few.parquet", values, codec)
    found, counts = rows_of(opened(file, FEW, keep))
    assert found == {row: bytes(values[row]) for row in PASSING if values[row] is not None}  # type: ignore[arg-type]
    assert (counts.rows, counts.filtered) == (ROWS, ROWS - len(PASSING))
    assert (counts.nulls, counts.invalid) == (sum(values[row] is None for row in PASSING), 0)
    assert 0 < counts.bytes_read < ROWS * WIDTH / 16
    whole, more = rows_of(opened(file, f"id < {ROWS // 2}", keep))
    assert len(whole) == sum(value is not None for value in values[: ROWS // 2])
    assert more.bytes_read > ROWS * WIDTH * (1 - nulls) / 2


def test_after_many_filters_all_vectors_are_read_once(tmp_path: Path) -> None:
    """What is read singly costs a part of what it costs to read and to keep all."""
    file = written(tmp_path / "often.parquet", vectors())
    read, searches = 0, 0
    while not opened(file, "id = 0").holds_vectors():
        _, counts = rows_of(opened(file, f"id = {searches}"))
        read, searches = read + counts.bytes_read, searches + 1
    assert 5 < searches < 100
    assert ROWS * WIDTH <= read < 1.3 * ROWS * WIDTH
    assert rows_of(opened(file, "id = 1"))[1].bytes_read == 0


def test_without_a_cache_few_rows_are_always_read_singly(tmp_path: Path) -> None:
    file = written(tmp_path / "never.parquet", vectors())
    for row in range(200):
        found, counts = rows_of(opened(file, f"id = {row}", keep=False))
        assert (list(found), counts.bytes_read) == ([row], WIDTH)


@given(chosen=st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=300), data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, chosen: set[int], data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(["none", "snappy", "zstd"]))
    path = tmp_path_factory.getbasetemp() / f"any-{codec}.parquet"
    values = vectors(0.1)
    if not path.exists():
        written(path, values, codec)
    file = FileInfo(f"file://{path}", path.stat().st_size, path.stat().st_mtime_ns)
    condition = f"id IN ({', '.join(map(str, chosen))})"
    found, counts = rows_of(opened(file, condition, data.draw(st.booleans())))
    assert found == {row: bytes(values[row]) for row in chosen if values[row] is not None}  # type: ignore[arg-type]
    assert counts.nulls == len(chosen) - len(found)


QUERY = np.random.default_rng(9).standard_normal(DIMENSION).round(3).tolist()
TABLE = [
    Row(i, "g", float(i % FILE_ROWS), f"name {i}", tuple(vector.tolist()))
    for i, vector in enumerate(np.random.default_rng(6).standard_normal((2 * FILE_ROWS, DIMENSION)).astype(np.float32))
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A table in two files: without an index, with one in separate segments, and with one in a pack."""
    folder = tmp_path_factory.mktemp("few")
    with slow.slow_store(delay=0) as running:
        for name in ("plain", "segments", "pack"):
            table = WrittenTable(folder / name, dimension=DIMENSION, page_bytes=8 << 10)
            table.commit({("g", "f0"): TABLE[:FILE_ROWS], ("g", "f1"): TABLE[FILE_ROWS:]})
            if name != "plain":
                snapshot = NativeTable(Source(normalise(str(folder / name)), "t")).snapshot()
                spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", DIMENSION, "float"))
                create_index(snapshot, spec, Parameters(metric="l2", kind="ivf_sq8", num_partitions=16))
            upload(running, folder / name, name)
        hv.index.compact(Settings(running.settings), "s3a://lake/pack", "emb")
        running.warm()
        yield running


# The ends of both files, where a footer is, are half a megabyte each; all vectors are 3 MB, and their codes 0.8 MB.
@pytest.mark.parametrize(("name", "most"), [("plain", 1_200_000), ("segments", 1_200_000), ("pack", 100_000)])
def test_a_store_is_asked_for_little(store: Any, name: str, most: int) -> None:
    wanted = brute_force([row for row in TABLE if row.price == 3], QUERY, 2)
    asked = {} if name == "plain" else {"mode": "approximate", "recall_target": 0.9}
    forget()
    with hv.open(f"s3a://lake/{name}", column="emb", storage_options=store.settings) as table, store.watched() as seen:
        hits = table.search(QUERY, 2, metric="l2", filter="price = 3", columns=["id"], **asked)
    assert hits["id"].to_pylist() == [int(key) for _, key, _ in wanted]
    assert hits["_distance"].to_pylist() == pytest.approx([distance for distance, *_ in wanted])
    assert hits.report.proved == 2, "all rows that pass were compared"
    assert seen.bytes < most


def test_after_many_filters_the_codes_are_read(store: Any) -> None:
    """What it costs to read vectors in place of lists is at most what the lists cost."""
    forget()
    with hv.open("s3a://lake/pack", column="emb", storage_options=store.settings) as table:
        read = []
        for price in range(40):
            with store.watched() as seen:
                hits = table.search(
                    QUERY, 1, metric="l2", filter=f"price = {price}", columns=["id"], mode="approximate", nprobes=1
                )
            read.append(seen.bytes)
            wanted = brute_force([row for row in TABLE if row.price == price], QUERY, 1)
            assert hits["id"].to_pylist() == [int(key) for _, key, _ in wanted]
    assert sum(read) < 2_000_000
    assert max(read) > 100_000, "lists were read"
    assert max(read[-5:]) < 5_000, "nothing but two vectors at most, and what is shown of a row"
