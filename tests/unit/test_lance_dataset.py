"""Lance datasets as something to be searched, against brute force over what pylance itself reads."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import distances

import hudi_vector as hv
from hudi_vector.errors import (
    DataFileError,
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_vector.kernels.topk import make_block
from hudi_vector.query.lance.dataset import LanceDataset
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions

QUERY = [1.0, -2.0, 0.0, 2.0]
VECTOR = pa.list_(pa.float32(), 4)


def rows(count: int, first: int = 0, seed: int = 0, kind: pa.DataType = VECTOR) -> pa.Table:
    """Rows of small whole numbers, so that many distances tie; every ninth has no vector."""
    numbers = np.random.default_rng(seed).integers(-2, 3, (count, 4))
    vectors = [None if i % 9 == 8 else row for i, row in enumerate(numbers.tolist())]
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "price": pa.array([float(i % 7) for i in range(count)], pa.float64()),
            "word": pa.array([f"w{first + i}" for i in range(count)], pa.large_string()),
            "emb": pa.array(vectors, kind),
        }
    )


def made(path: Path, table: pa.Table, **options: Any) -> Any:
    return lance.write_dataset(table, str(path), max_rows_per_file=20, **options)


def expected(path: Path, query: Any, k: int, metric: str = "l2", where: Any = None) -> list[tuple[int, float]]:
    """(id, distance) of the nearest rows, ties by fragment and offset."""
    held = lance.dataset(str(path)).scanner(with_row_address=True).to_table().to_pylist()
    live = [row for row in held if row["emb"] is not None and (where is None or where(row))]
    if not live:
        return []
    found = distances(np.array([row["emb"] for row in live]), np.array(query), metric)
    order = sorted(range(len(live)), key=lambda at: (round(float(found[at]), 12), live[at]["_rowaddr"]))
    return [(live[at]["id"], float(found[at])) for at in order[:k]]


def check(found: Any, wanted: list[tuple[int, float]]) -> None:
    assert found.column("id").to_pylist() == [key for key, _ in wanted]
    np.testing.assert_allclose(found.column("_distance").to_numpy(), [d for _, d in wanted], rtol=1e-12, atol=1e-15)


def changed(path: Path) -> None:
    """A history: rows deleted, changed, added, added with another column, and merged in."""
    dataset = lance.dataset(str(path))
    dataset.delete("id % 5 = 2")
    dataset.update({"price": "99"}, where="id >= 30 AND id < 34")
    made(path, rows(15, first=100, seed=5), mode="append")
    dataset = lance.dataset(str(path))
    dataset.add_columns({"double_price": "price * 2"})
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        rows(10, first=50, seed=6).append_column("double_price", pa.array([0.5] * 10))
    )


@pytest.mark.parametrize("kind", [VECTOR, pa.list_(pa.float32()), pa.list_(pa.float64(), 4), pa.list_(pa.int8(), 4)])
@pytest.mark.parametrize("stable", [False, True])
def test_a_search_equals_brute_force_after_any_change(tmp_path: Path, kind: pa.DataType, stable: bool) -> None:
    path = tmp_path / "d.lance"
    made(path, rows(70, kind=kind), enable_stable_row_ids=stable)
    with hv.open(lance=str(path), column="emb") as t:
        check(t.search(QUERY, 12, metric="l2", columns=["id"]), expected(path, QUERY, 12))
        if kind == VECTOR:
            changed(path)
        else:
            lance.dataset(str(path)).delete("id % 5 = 2")
        assert t.refresh() is True
        for metric in ("l2", "dot_product", "cosine"):
            found = t.search(QUERY, 200, metric=metric, columns=["id"])
            check(found, expected(path, QUERY, 200, metric))
        cheap = t.search(QUERY, 9, metric="l2", columns=["id", "word"], filter="price < 5 AND word <> 'w3'")
        check(cheap, expected(path, QUERY, 9, where=lambda row: row["price"] < 5 and row["word"] != "w3"))
        assert cheap.column("word").to_pylist() == [f"w{key}" for key in cheap.column("id").to_pylist()]
        assert "filter" in t.search(QUERY, 9, filter="price < 0").report.why_fewer
        many = t.search_batch([QUERY, [0, 0, 0, 1]], 5, metric="l2", columns=["id"])
        assert many.column("id").to_pylist() == [
            key for query in (QUERY, [0, 0, 0, 1]) for key, _ in expected(path, query, 5)
        ]


def test_places_are_offsets_in_data_files(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    made(path, rows(70))
    lance.dataset(str(path)).delete("id < 25 AND id <> 21")
    t = hv.open(lance=str(path), column="emb")
    hits = t.search(QUERY, 80, metric="l2")
    wanted = [key for key, _ in expected(path, QUERY, 80)]
    assert [row for _, row in hits.refs] == [key % 20 for key in wanted]
    refs = [*hits.refs, hits.refs[3], hits.refs[0]]
    assert t.fetch_rows(refs, ["id"]).column("id").to_pylist() == [*wanted, wanted[3], wanted[0]]
    assert t.fetch_rows(refs[:1], ["emb"]).column("emb").type.value_type == pa.float32()
    gone = (hits.refs[wanted.index(21)][0], 0)
    with pytest.raises(DataFileError, match=r"row 0 of '.*' was deleted"):
        t.fetch_rows([gone], ["id"])
    with pytest.raises(DataFileError, match="has 20 rows, and none at position 20"):
        t.fetch_rows([(gone[0], 20)], ["id"])
    # A file that compaction replaced is read as it was, as long as it is there.
    lance.dataset(str(path)).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert t.refresh() is True
    check(t.search(QUERY, 80, metric="l2", columns=["id"]), expected(path, QUERY, 80))
    assert t.fetch_rows([gone], ["id"]).column("id").to_pylist() == [20]


def test_a_version_is_searched_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    dataset = made(path, rows(40))
    dataset.tags.create("first", 1)
    before = expected(path, QUERY, 9)
    dataset.delete("id < 20")
    for version in (1, "first"):
        check(
            hv.open(lance=str(path), column="emb", version=version).search(QUERY, 9, metric="l2", columns=["id"]),
            before,
        )
    newest = hv.open(lance=str(path), column="emb")
    check(newest.search(QUERY, 9, metric="l2", columns=["id"]), expected(path, QUERY, 9))
    assert "as of version 2" in newest.search(QUERY, 1).plan.describe()


def test_what_a_later_version_left_alone_is_the_same_slice(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    made(path, rows(40))
    before = LanceDataset(str(path), StorageOptions()).snapshot()
    assert pickle.loads(pickle.dumps(before)) == before
    made(path, rows(5, first=40), mode="append")
    lance.dataset(str(path)).delete("id = 25")
    after = LanceDataset(str(path), StorageOptions()).snapshot()
    assert after.file_slices[0].base_file == before.file_slices[0].base_file
    assert after.file_slices[1].base_file != before.file_slices[1].base_file
    assert [entry.base_file.rows for entry in after.file_slices if entry.base_file] == [20, 19, 5]
    assert after.identity != before.identity


def test_a_dataset_that_is_written_again_at_its_path(tmp_path: Path) -> None:
    """Its first version has the number of the one before it, which this process has opened."""
    path = tmp_path / "a.lance"
    for number in range(3):
        made(path, rows(30, first=100 * number, seed=number))
        with hv.open(lance=path, column="emb") as t:
            check(t.search(QUERY, k=5, metric="l2", columns=["id"]), expected(path, QUERY, 5))
        shutil.rmtree(path)


def test_a_filter_that_names_no_column(tmp_path: Path) -> None:
    made(tmp_path / "a.lance", rows(30))
    with hv.open(lance=tmp_path / "a.lance", column="emb") as t:
        every = t.search(QUERY, k=99, metric="l2", columns=["id"]).to_pylist()
        for condition, wanted in {"TRUE": every, "1 = 1": every, "1 = 2": [], "NULL": []}.items():
            assert t.search(QUERY, k=99, metric="l2", columns=["id"], filter=condition).to_pylist() == wanted


def test_a_dataset_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    made(path, rows(0))
    t = hv.open(lance=str(path), column="emb")
    assert len(t.search(QUERY, 3)) == 0
    made(path, rows(9), mode="append")
    lance.dataset(str(path)).delete("true")
    assert t.refresh() in (True, False)
    assert len(t.search(QUERY, 3, columns=["id"])) == 0


def test_vectors_by_their_offsets(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    held = rows(20)
    made(path, held)
    lance.dataset(str(path)).delete("id IN (0, 7)")
    snapshot = LanceDataset(str(path), StorageOptions()).snapshot()
    info = snapshot.file_slices[0].base_file
    assert info is not None
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"), has_keys=False)
    counts = ScanCounts()
    block = LanceSlice(info, spec, keep=False).vectors_at(np.array([9, 1, 8, 1, 19]), counts)
    assert block.positions.tolist() == [1, 9, 19]
    assert counts.nulls == 1
    values = np.array([held.column("emb")[i].as_py() for i in (1, 9, 19)], np.float32)
    np.testing.assert_array_equal(block.values, make_block(values, block.positions)[0].values)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"lance": "/no/such.lance"}, TableNotFoundError, "there is no Lance dataset 'file:///no/such.lance'"),
        ({"version": 7}, TableNotFoundError, "there is no Lance dataset '.*' at version 7"),
        ({"version": -1}, TableNotFoundError, "there is no Lance dataset '.*' at version -1"),
        ({"version": "nightly"}, TableNotFoundError, "at version nightly"),
        ({"version": True}, InvalidTypeError, "version must be a number or the name of a tag, not True"),
        ({"as_of": "20260101000000"}, InvalidArgumentError, "has versions in place of instants; leave as_of out"),
        ({"lance": "hdfs://name:8020/d.lance"}, UnsupportedTableError, "Lance does not open 'hdfs://'"),
        (
            {"lance": None, "table": "/t", "version": 1},
            InvalidArgumentError,
            "only a Lance dataset and a Delta table have",
        ),
        ({"table": "/t"}, InvalidArgumentError, "exactly one of table, files, delta and lance"),
        ({"column": "price"}, InvalidTypeError, "a search needs a VECTOR"),
        ({"column": "half"}, InvalidTypeError, "a search needs a VECTOR"),
    ],
)
def test_wrong_input(tmp_path: Path, changed: dict[str, Any], error: type[Exception], message: str) -> None:
    path = tmp_path / "d.lance"
    made(path, rows(5).append_column("half", pa.array([[0.0, 1.0]] * 5, pa.list_(pa.float16(), 2))))
    with pytest.raises(error, match=message) as raised:
        hv.open(**{"lance": str(path), "column": "emb", **changed})
    assert ".rs" not in str(raised.value), "a place in Lance's own source"


def test_a_query_of_another_length_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "d.lance", rows(5))
    with pytest.raises(DimensionMismatchError, match="the query vector has 3 elements, the column has 4"):
        hv.open(lance=str(tmp_path / "d.lance"), column="emb").search([1, 2, 3])


def test_a_version_that_is_gone_is_followed_by_the_newest(tmp_path: Path) -> None:
    from datetime import timedelta

    path = tmp_path / "d.lance"
    made(path, rows(40))
    t = hv.open(lance=str(path), column="emb")
    snapshot = LanceDataset(str(path), StorageOptions()).snapshot()
    made(path, rows(30, first=200, seed=3), mode="overwrite")
    lance.dataset(str(path)).cleanup_old_versions(timedelta(0), delete_unverified=True)
    check(t.search(QUERY, 9, metric="l2", columns=["id"]), expected(path, QUERY, 9))
    info = snapshot.file_slices[0].base_file
    assert info is not None
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"), has_keys=False)
    with pytest.raises(DataFileError):
        list(LanceSlice(info, spec, keep=False).blocks(ScanCounts()))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_history(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("any") / "d.lance"
    made(path, rows(data.draw(st.integers(1, 50)), seed=data.draw(st.integers(0, 99))))
    first = 1000
    for step in data.draw(st.lists(st.sampled_from(["append", "delete", "update", "compact"]), max_size=5)):
        if step == "append":
            count = data.draw(st.integers(1, 45))
            made(path, rows(count, first, seed=first), mode="append")
            first += 100
        elif step == "delete":
            lance.dataset(str(path)).delete(f"id % {data.draw(st.integers(1, 7))} = 0")
        elif step == "update":
            lance.dataset(str(path)).update({"price": "3"}, where=f"id % {data.draw(st.integers(2, 7))} = 1")
        else:
            lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=60)
    t = hv.open(lance=str(path), column="emb")
    k = data.draw(st.sampled_from([1, 3, 20, 500]))
    check(t.search(QUERY, k, metric="l2", columns=["id"]), expected(path, QUERY, k))
    where = t.search(QUERY, k, metric="l2", columns=["id"], filter="price = 3")
    check(where, expected(path, QUERY, k, where=lambda row: row["price"] == 3))
