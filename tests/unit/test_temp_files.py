"""Rows into temporary Parquet files, without Spark: what writers do, the snapshot, the search of it."""

from __future__ import annotations

import os
import pickle
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import distances

from hudi_vector.errors import InvalidOptionError, RefusedError, UnsupportedTableError
from hudi_vector.kernels.topk import Bounds
from hudi_vector.query.execute import Question
from hudi_vector.query.files import temporary
from hudi_vector.query.files.temporary import TempTable, unstorable
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.local import merge_winners
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.search.temp_dataset import temp_directory
from hudi_vector.storage import StorageOptions
from hudi_vector.storage.temp_area import TempArea
from hudi_vector.table.model import Snapshot

FIELDS = (
    pa.field("a.b", pa.string()),
    pa.field("A.B", pa.float64()),
    pa.field("v", pa.list_(pa.field("element", pa.float32(), True))),
    pa.field("tags", pa.map_(pa.string(), pa.field("value", pa.int64()))),
)
Row = tuple[Any, ...]


def table(path: Path, dimension: int = 2, max_bytes: int = 1 << 30, fields: Any = FIELDS) -> TempTable:
    area = TempArea(str(path), StorageOptions(), "test")
    return TempTable(area.new_place(), tuple(fields), VectorColumn("v", dimension, "float", False), max_bytes)


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(FIELDS)]
    whole = pa.record_batch(arrays, schema=pa.schema(FIELDS))
    return [whole.slice(first, size) for first in range(0, max(len(rows), 1), size)]


def nearest(snapshot: Snapshot, query: list[float], k: int, metric: str = "l2") -> list[tuple[Row, float]]:
    request = SearchRequest(VectorColumn("c2", len(query), "float"), metric, k)
    plan = make_plan(snapshot, request, {})
    question = Question(np.array([query], np.float64), metric, k)
    found = search_slices(list(enumerate(plan.slices)), None, plan.spec, question, Bounds.of(1), keep=False)
    winners = merge_winners(plan, [hits for part, _ in found for hits in part])
    columns = fetch_rows(plan, winners, list(snapshot.schema.names), keep=False)
    rows = [tuple(row.values()) for row in columns.to_pylist()]
    return list(zip(rows, winners.distance.tolist(), strict=True))


def is_usable(vector: Any) -> bool:
    return vector is not None and len(vector) == 2 and None not in vector and bool(np.isfinite(vector).all())


def key(row: Row) -> tuple[Any, ...]:
    """NULLs first, text by its bytes."""
    first, second, vector, _ = row
    return (
        (first is not None, (first or "").encode()),
        (second is not None, second or 0.0),
        vector,
    )


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "b", "a", "\uffee", "\U0001f600"]),
        st.sampled_from([None, 0.0, 1.5, -2.0]),
        st.sampled_from(
            [None, [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [2.0, 2.0], [1.0], [float("nan"), 0.0], [None, 1.0]]
        ),
        st.just(None) | st.just([("x", 1)]),
    ),
    max_size=30,
)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, order=st.randoms(), writers=st.integers(1, 4), size=st.integers(1, 8), k=st.sampled_from([1, 3, 50]))
def test_ties_are_decided_by_the_columns_whoever_wrote_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], order: Any, writers: int, size: int, k: int
) -> None:
    made = table(tmp_path_factory.mktemp("t"))
    shuffled = list(rows)
    order.shuffle(shuffled)
    parts = [made.write(batches(shuffled[writer::writers], size)) for writer in range(writers)]
    snapshot = made.snapshot(parts)
    usable = [row for row in rows if is_usable(row[2])]
    assert sum(part.rows for part in parts) == len(usable)
    assert sum(part.left_out for part in parts) == len(rows) - len(usable)
    found = nearest(snapshot, [0.0, 0.0], k)
    far = distances(np.array([row[2] for row in usable]).reshape(-1, 2), np.zeros(2), "l2").tolist()
    wanted = sorted(zip(far, map(key, usable), strict=True))[:k]
    assert [(distance, key(row)) for row, distance in found] == wanted


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    made = pickle.loads(pickle.dumps(table(tmp_path)))
    assert made.physical == {"a.b": "c0", "A.B": "c1", "v": "c2", "tags": "c3"}
    rows: list[Row] = [("x", 0.5, [3.0, 4.0], [("k", 1), ("j", None)]), (None, None, [6.0, 8.0], None)]
    snapshot = made.snapshot([made.write(batches(rows, 1))])
    assert nearest(snapshot, [0.0, 0.0], 5) == [(rows[0], 5.0), (rows[1], 10.0)]
    types = [field.type for field in FIELDS]
    types[2] = pa.list_(pa.field("element", pa.float32(), False))  # a VECTOR has no NULL elements
    assert [field.type for field in snapshot.schema] == types


@pytest.mark.parametrize(("element", "kind"), [("float", pa.float32()), ("double", pa.float64()), ("int8", pa.int8())])
def test_elements_and_odd_types_come_back_as_they_were(tmp_path: Path, element: str, kind: pa.DataType) -> None:
    nested = pa.struct({"a": pa.int8(), "A": pa.list_(pa.struct({"x": pa.duration("us")}))})
    odd = {
        "n": pa.array([None, None], pa.null()),
        "d": pa.array([7, None], pa.duration("us")),
        "m": pa.array([Decimal("1.5"), None], pa.decimal128(38, 10)),
        "t": pa.array([datetime(1066, 10, 14), None], pa.timestamp("us", "UTC")),
        "u": pa.array([None, datetime(9999, 12, 31)], pa.timestamp("us")),
        "e": pa.array([date(1, 1, 1), None], pa.date32()),
        "b": pa.array([b"\0", None], pa.binary()),
        "l": pa.array([[], [None, None]], pa.list_(pa.field("element", pa.null()))),
        "s": pa.array([{"a": 1, "A": [{"x": None}]}, None], nested),
        "k": pa.array([[(Decimal("0.5"), [None])], None], pa.map_(pa.decimal128(3, 1), pa.list_(pa.bool_()))),
        "v": pa.array([[1, -2], [3, 4]], pa.list_(kind)),
    }
    batch = pa.record_batch(odd)
    area = TempArea(str(tmp_path), StorageOptions(), "test")
    made = TempTable(area.new_place(), tuple(batch.schema), VectorColumn("v", 2, element, False), 1 << 30)
    snapshot = made.snapshot([made.write([batch])])
    plan = make_plan(snapshot, SearchRequest(VectorColumn(made.physical["v"], 2, element), "l2", 2), {})
    found = search_slices(
        list(enumerate(plan.slices)), None, plan.spec, Question(np.zeros((1, 2)), "l2", 2), Bounds.of(1), keep=False
    )
    rows = fetch_rows(
        plan, merge_winners(plan, [h for part, _ in found for h in part]), list(made.physical.values()), False
    )
    assert rows.rename_columns(list(odd)).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("rows", [[], [("x", 1.0, None, None)]])
def test_without_rows_there_are_no_files(tmp_path: Path, rows: list[Row]) -> None:
    made = table(tmp_path)
    snapshot = made.snapshot([made.write(batches(rows, 5)), made.write([])])
    assert snapshot.file_slices == ()
    assert nearest(snapshot, [0.0, 0.0], 5) == []


def test_record_keys_decide_where_there_are_some(tmp_path: Path) -> None:
    names = ("_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")
    made = table(tmp_path, fields=[pa.field(name, pa.string()) for name in names] + [FIELDS[2]])
    assert made.ties == ("c1", "c2", "c0")


def test_too_many_bytes(tmp_path: Path) -> None:
    rows: list[Row] = [(f"{i}", 1.0, [float(i), 0.0], None) for i in range(1000)]
    made = table(tmp_path, max_bytes=20_000)
    message = r"has more than hoodie.vector.join.temp.max.bytes = 20000 bytes; raise it"
    parts = [made.write(batches(rows[:50], 50)) for _ in range(20)]
    assert all(part.nbytes < 20_000 for part in parts)
    with pytest.raises(RefusedError, match=message):
        made.snapshot(parts)
    with pytest.raises(RefusedError, match=message):
        made.write(batches(rows, 100))  # a writer looks at what the others wrote


def test_a_writer_begins_further_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "_GROUP_BYTES", 1)
    monkeypatch.setattr(temporary, "_FILE_ROWS", 10)
    rows: list[Row] = [(f"{i}", 1.0, [float(i), 0.0], None) for i in range(35)]
    made = table(tmp_path)
    part = made.write(batches(rows, 5))
    snapshot = made.snapshot([part])
    files = [each.base_file for each in snapshot.file_slices if each.base_file]
    assert [file.name for file in files] == list(part.files)
    assert len(files) == 4
    assert sum(file.size for file in files) == part.nbytes
    assert [row for row, _ in nearest(snapshot, [0.0, 0.0], 50)] == rows


def test_pylance_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["lance", *(name for name in sys.modules if name.startswith("lance."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        import lance  # noqa: F401 - it cannot be imported here
    made = table(tmp_path)
    rows: list[Row] = [("x", 0.5, [3.0, 4.0], None)]
    assert nearest(made.snapshot([made.write(batches(rows, 1))]), [0.0, 0.0], 5) == [(rows[0], 5.0)]


@pytest.mark.parametrize("group_bytes", [1, 1 << 20])
def test_an_error_of_the_rows_is_passed_on_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    monkeypatch.setattr(temporary, "_GROUP_BYTES", group_bytes)

    class OddError(RuntimeError):
        pass

    def broken() -> Any:
        yield from batches([("x", 1.0, [1.0, 2.0], None)], 1)
        raise OddError("no more")

    with pytest.raises(OddError) as caught:
        table(tmp_path).write(broken())
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert not [path for path in opened if path.startswith(str(tmp_path))]
    assert str(caught.value) == "no more"  # its traceback holds the writer until here


def test_a_folder_that_a_task_does_not_see(tmp_path: Path) -> None:
    made = table(tmp_path)
    elsewhere = TempTable(made.place.replace("test-", "other-"), FIELDS, made.column, 1 << 30)
    with pytest.raises(UnsupportedTableError, match=r"a task does not see '.*'; set|a task does not see"):
        elsewhere.write(batches([("x", 1.0, [1.0, 2.0], None)], 1))


def test_the_directory_of_temporary_datasets(tmp_path: Path) -> None:
    key = "hoodie.vector.join.temp.dir"
    assert temp_directory({key: str(tmp_path)}, "local[2]") == f"file://{tmp_path}"
    assert temp_directory({}, "local[*]").startswith("file:///")
    assert temp_directory({key: "s3a://lake/tmp"}, "yarn") == "s3://lake/tmp"
    with pytest.raises(
        InvalidOptionError, match=r"with the master 'spark://m:7077' .* set hoodie.vector.join.temp.dir"
    ):
        temp_directory({}, "spark://m:7077")
    assert temp_directory({key: "hdfs://n:8020/tmp"}, "local[2]") == "hdfs://n:8020/tmp"


def test_what_parquet_cannot_keep() -> None:
    assert unstorable(pa.map_(pa.string(), pa.list_(pa.struct([])))) == "Parquet keeps no structs without fields"
    for kind in (pa.null(), pa.duration("us"), pa.decimal128(38, 10), pa.map_(pa.string(), pa.int64()), pa.bool_()):
        assert unstorable(kind) is None
