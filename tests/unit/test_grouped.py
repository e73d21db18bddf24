"""The best k per group, without Spark: compared with an oracle over all rows, with and without an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grouped import best_groups
from support.opened import found_in, plan_of
from support.written_table import Row, WrittenTable, brute_force

import hudi_vector as hv
from hudi_vector.errors import HudiVectorError
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.query.grouped.question import question_of
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.join.sides import PlannedSide
from hudi_vector.query.merge import within_groups
from hudi_vector.query.opened.vector_table import SearchHits, VectorTable
from hudi_vector.read.cache import process_cache

QUERIES = np.random.default_rng(5).standard_normal((6, 4))
SHAPES = [(1, 1), (4, 1), (4, 3), (200, 1), (200, 2), (1, 80)]


def chunks_of(documents: int, each: int, seed: int = 1) -> list[Row]:
    """Rows that crowd by document, some without a name, some with equal vectors."""
    numbers = np.random.default_rng(seed)
    middles = numbers.standard_normal((documents, 4))
    rows = []
    for i in range(documents * each):
        document = i % documents
        vector = middles[document] + (0.0 if i % 11 == 0 else 0.2) * numbers.standard_normal(4)
        name = None if document % 9 == 0 else f"document {document}"
        rows.append(Row(i, "ab"[i % 2], float(i % 3), name, tuple(vector.astype(np.float32).tolist())))
    return rows


ROWS = chunks_of(40, 30)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grouped") / "t"
    written = WrittenTable(path, row_group_rows=150)
    own, others = ([row for row in ROWS if row.group == group] for group in "ab")
    written.commit({("a", "f1"): own[:200], ("a", "f2"): own[200:], ("b", "f3"): others})
    return path


@pytest.fixture(scope="module")
def opened(table: Path) -> Iterator[VectorTable]:
    with hv.open(table, column="emb") as found:
        yield found


def ordered(rows: list[Row], query: Any, metric: str = "l2") -> list[Row]:
    by_key = {row.key: row for row in rows}
    return [by_key[key] for _, key, _ in brute_force(rows, query, len(rows), metric)]


def pairs(hits: SearchHits) -> list[tuple[int, int]]:
    return list(zip(hits.column("_group_rank").to_pylist(), hits.column("id").to_pylist(), strict=True))


@pytest.mark.parametrize("nulls", ["keep", "drop"])
@pytest.mark.parametrize(("k", "per_group"), SHAPES)
def test_the_rows_are_those_of_the_oracle(opened: VectorTable, k: int, per_group: int, nulls: str) -> None:
    asked: dict[str, Any] = {"group_by": "NAME", "per_group": per_group, "group_nulls": nulls}
    for query, metric in zip(QUERIES, ("l2", "cosine", "dot_product") * 2, strict=True):
        hits = opened.search(query, k, metric=metric, columns=["id"], **asked)
        every = ordered(ROWS, query, metric)
        expected = best_groups(every, lambda row: row.name, k, per_group, nulls == "drop")
        assert pairs(hits) == [(rank, row.id) for rank, row in expected]
        assert hits.column_names == ["id", "_distance", "_group_rank"]
        assert hits.report.groups == len({rank for rank, _ in expected})
        assert hits.report.proved == len(hits)


@pytest.mark.parametrize(("k", "per_group"), SHAPES)
def test_a_batch_equals_its_single_searches(opened: VectorTable, k: int, per_group: int) -> None:
    asked: dict[str, Any] = {"metric": "l2", "columns": ["id"], "group_by": ["name", "grp"], "per_group": per_group}
    single = [opened.search(query, k, **asked).table for query in QUERIES]
    many = opened.search_batch(QUERIES, k, **asked).table
    assert many.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(single))
    assert opened.search_batch(np.empty((0, 4)), k, **asked).column_names == many.column_names


def test_filters_distances_and_columns_apply_before_groups(opened: VectorTable) -> None:
    query, kept = QUERIES[0], [row for row in ROWS if row.price == 1.0 and row.group == "b"]
    condition = "price = 1 AND grp = 'b'"
    hits = opened.search(query, 5, metric="l2", group_by="name", per_group=2, filter=condition, columns=["id"])
    every = ordered(kept, query)
    assert pairs(hits) == [(rank, row.id) for rank, row in best_groups(every, lambda row: row.name, 5, 2)]
    far = float(hits.column("_distance")[-1].as_py())
    near = opened.search(query, 5, metric="l2", group_by="name", filter=condition, columns=["id"], max_distance=far)
    within = [row for row in every if exact_distances(np.array([row.emb]), query, "l2")[0] <= far]
    assert pairs(near) == [(rank, row.id) for rank, row in best_groups(within, lambda row: row.name, 5)]


def test_groups_are_numbers_too(opened: VectorTable) -> None:
    hits = opened.search(QUERIES[1], 10, metric="l2", group_by="price", per_group=2, columns=["id"])
    expected = best_groups(ordered(ROWS, QUERIES[1]), lambda row: row.price, 10, 2)
    assert pairs(hits) == [(rank, row.id) for rank, row in expected]
    assert hits.report.why_fewer == "only 3 groups are in the table"
    one = opened.search(QUERIES[1], 10, metric="l2", group_by="price", filter="price > 1")
    assert one.report.why_fewer == "only 1 group passed the filter"
    assert not one.report.reached_k
    assert "1 row of 1 group for 1 query" in str(one.report)


def test_an_earlier_instant_has_its_own_groups(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t")
    first = written.commit({("a", "f1"): ROWS[:100], ("b", "f2"): ROWS[100:300]})
    written.commit({("a", "f1"): []})
    asked: dict[str, Any] = {"metric": "l2", "group_by": "name", "columns": ["id"]}
    for instant, rows in ((first, ROWS[:300]), (None, ROWS[100:300])):
        expected = best_groups(ordered(rows, QUERIES[2]), lambda row: row.name, 7)
        found = found_in(tmp_path / "t", QUERIES[2], 7, as_of=instant, **asked)
        assert pairs(found) == [(rank, row.id) for rank, row in expected]


def test_explain_names_the_groups(table: Path) -> None:
    text = plan_of(table, QUERIES[0], 5, group_by=["name", "grp"], per_group=2, group_nulls="drop")
    assert "groups      by name, grp, up to 2 rows of each, without NULL" in text
    text = plan_of(table, QUERIES[0], 600, group_by=["name", "grp"], per_group=2)
    assert "so many groups, 600, are found by looking at every row" in text
    assert "groups" not in plan_of(table, QUERIES[0], 5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"group_by": "nam"}, "column 'nam' does not exist in"),
        ({"group_by": "emb"}, "group_by names column 'emb' of"),
        ({"group_by": 3}, "group_by must be the name of a column or a list of names, not 3"),
        ({"group_by": []}, "group_by names no column"),
        ({"group_by": ["name", 7]}, "the argument 'group_by' must be text, not 7"),
        ({"group_by": " "}, "the argument 'group_by' is blank"),
        ({"group_by": "name", "per_group": 0}, "per_group must be a whole number from 1 to 100000, not 0"),
        ({"group_by": "name", "per_group": 1.5}, "per_group must be a whole number from 1 to 100000, not 1.5"),
        ({"group_by": "name", "per_group": True}, "per_group must be a whole number from 1 to 100000, not True"),
        ({"per_group": 2}, "per_group needs group_by"),
        ({"group_nulls": "drop"}, "group_nulls needs group_by"),
        ({"group_by": "name", "group_nulls": "no"}, "group_nulls must be 'keep' or 'drop', not 'no'"),
        (
            {"group_by": "name", "k": 600, "mode": "approximate", "nprobes": 3},
            "so many groups, 600, are found by looking at every row, so that no index is used; leave out algorithm",
        ),
    ],
)
def test_wrong_arguments_get_one_sentence(opened: VectorTable, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HudiVectorError) as raised:
        opened.search(QUERIES[0], **{"k": 3, **arguments})
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_ties_between_rows_and_between_groups_are_decided_by_keys(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    number = data.draw(st.integers(1, 40))
    kinds = st.tuples(st.integers(0, 3), st.sampled_from([None, "x", "y", "z", "w"]), st.sampled_from("ab"))
    drawn = data.draw(st.lists(kinds, min_size=number, max_size=number))
    rows = [Row(i, group, None, name, (float(far), 0.0, 0.0, 0.0)) for i, (far, name, group) in enumerate(drawn)]
    written = WrittenTable(tmp_path_factory.mktemp("ties") / "t", row_group_rows=5)
    cut = data.draw(st.integers(0, number))
    parts = [(f"f{n}", part) for n, part in enumerate((rows[:cut], rows[cut:])) if part]
    files = {(group, f"{name}{group}"): [r for r in part if r.group == group] for name, part in parts for group in "ab"}
    written.commit({place: part for place, part in files.items() if part})
    k, per_group = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    asked: dict[str, Any] = {"metric": "l2", "group_by": "name", "per_group": per_group, "columns": ["id"]}
    found = found_in(written.path, [0.0] * 4, k, **asked)
    every = ordered(rows, [0.0] * 4)
    assert pairs(found) == [(rank, row.id) for rank, row in best_groups(every, lambda row: row.name, k, per_group)]


@given(
    groups=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=30),
    k=st.integers(1, 4),
    per_group=st.integers(1, 3),
)
def test_the_quota_of_groups(groups: list[tuple[int, int]], k: int, per_group: int) -> None:
    groups = sorted(groups, key=lambda pair: pair[0])
    query = np.array([pair[0] for pair in groups], np.int64)
    chosen, rank = within_groups(query, [pair[1] for pair in groups], k, per_group)
    expected = [
        (number, of_group - 1)
        for asked in range(3)
        for of_group, number in best_groups(np.flatnonzero(query == asked), lambda n: groups[n][1], k, per_group)
    ]
    assert list(zip(chosen.tolist(), rank.tolist(), strict=True)) == expected


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, list[Row]]:
    """Files of 6,000 rows of 300 documents of 20 chunks, one of 2,000, and a directory with an index of them."""
    folder, numbers = tmp_path_factory.mktemp("indexed"), np.random.default_rng(3)
    middles = numbers.standard_normal((300, 4))
    of_row = np.concatenate([np.repeat(np.arange(300), 20), np.zeros(2000, np.int64)])
    vectors = (middles[of_row] + 0.1 * numbers.standard_normal((8000, 4))).astype(np.float32)
    rows = [Row(i, "a", None, f"d{of_row[i]}", tuple(vectors[i].tolist())) for i in range(8000)]
    files = []
    for part in range(4):
        own = rows[part::4]
        files.append(str(folder / f"{part}.parquet"))
        table = pa.table(
            {
                "id": [row.id for row in own],
                "doc": [row.name for row in own],
                "emb": pa.array([list(row.emb or ()) for row in own], pa.list_(pa.float32(), 4)),
            }
        )
        pq.write_table(table, files[-1])
    directory = str(folder / "indexes")
    hv.index.build_if_missing(None, column="emb", directory=directory, metric="l2", files=files, kind="ivf_sq8")
    return files, directory, rows


def nearest_first(rows: list[Row], queries: Sequence[Any]) -> Iterator[Iterator[Row]]:
    """All rows for each query, equally near ones by their place."""
    vectors = np.array([row.emb for row in rows])
    for query in queries:
        yield (rows[n] for n in np.argsort(exact_distances(vectors, query, "l2"), kind="stable").tolist())


@pytest.mark.parametrize(("k", "per_group"), [(1, 1), (10, 1), (60, 1), (400, 1), (10, 3), (4, 25), (2, 200)])
def test_an_exact_answer_by_an_index_is_that_of_a_scan(
    indexed: tuple[list[str], str, list[Row]], k: int, per_group: int
) -> None:
    files, directory, rows = indexed
    # Vectors in memory would answer in place of the index; the last query is where one document crowds.
    uncached = {"hoodie.vector.cache.max.bytes": "0"}
    queries = [*QUERIES, np.array(rows[0].emb)]
    asked: dict[str, Any] = {"metric": "l2", "group_by": "doc", "per_group": per_group, "columns": ["id"]}
    with hv.open(files=files, column="emb", index_directory=directory, options=uncached) as t:
        for query, order in zip(queries, nearest_first(rows, queries), strict=True):
            hits = t.search(query, k, **asked)
            best = best_groups(order, lambda row: row.name, k, per_group)
            assert pairs(hits) == [(rank, row.id) for rank, row in best]
            assert hits.report.slices == {"index": 4}
            assert hits.report.rows_seen == len(rows)
        many = t.search_batch(np.stack(queries), k, **asked).table
        single = [t.search(query, k, **asked).table for query in queries]
        assert many.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(single))
        side = PlannedSide(t.search(queries[0], k, **asked).plan)  # as a join and a stream search it
    found = side.find(question_of(np.stack(queries), "l2", k, None, Grouping(("doc",), per_group)), None, ["id"])
    assert found.columns(["id"]).column("id").equals(many.column("id"))


@pytest.mark.parametrize(("target", "k", "per_group"), [(0.8, 10, 1), (0.95, 10, 1), (0.95, 10, 3), (0.8, 3, 22)])
def test_an_approximate_search_keeps_its_recall_in_groups(
    indexed: tuple[list[str], str, list[Row]], target: float, k: int, per_group: int
) -> None:
    files, directory, rows = indexed
    queries = np.random.default_rng(8).standard_normal((60, 4))
    asked: dict[str, Any] = {"metric": "l2", "group_by": "doc", "columns": ["id"], "recall_target": target}
    asked["per_group"] = per_group
    with hv.open(files=files, column="emb", index_directory=directory) as t:
        hits = t.search_batch(queries, k, **asked)
        assert hits.plan.index is not None
        assert not hits.plan.index.certain
        number, ids = hits.column("_hudi_query_index").to_numpy(), np.array(hits.column("id").to_pylist())
        shares = []
        for asking, order in enumerate(nearest_first(rows, list(queries))):
            true = best_groups(order, lambda row: row.name, k, per_group)
            found = ids[number == asking].tolist()
            names = {rows[row].name for row in found}
            assert len(names) == k
            assert len(found) == len(set(found)) <= k * per_group
            shares.append(np.mean([row.id in found if per_group > 1 else row.name in names for _, row in true]))
        assert np.mean(shares) >= target


def test_vectors_that_come_into_memory_between_the_rounds_of_an_index_are_scanned(tmp_path: Path) -> None:
    """The nearest rows are of one group, so that the first round, which reads the vectors, finds too few groups."""
    vectors = np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 64)
    file, directory = str(tmp_path / "a.parquet"), str(tmp_path / "indexes")
    pq.write_table(pa.table({"id": range(1000), "grp": ["same"] * 996 + list("bcde"), "emb": column}), file)
    hv.index.create(None, files=[file], column="emb", metric="cosine", kind="ivf_sq8", directory=directory)
    process_cache().clear()
    asked: dict[str, Any] = {"metric": "cosine", "columns": ["id"], "group_by": "grp", "per_group": 2}
    with hv.open(files=[file], column="emb", index_directory=directory) as t:
        hits = t.search_batch(vectors[:3], 3, **asked)
        assert hits.report.slices == {"index": 1}
        assert hits.table.equals(t.search_batch(vectors[:3], 3, mode="exact", **asked).table)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.date32(), [2_932_897, 0, 2_932_897], [(1, 1), (1, 3), (2, 2)]),  # 10000-01-01
        (pa.time64("ns"), [1, 2, 1000], [(1, 1), (2, 2), (3, 3)]),
    ],
    ids=["date", "nanoseconds"],
)
def test_times_that_python_has_no_value_for_are_groups(
    tmp_path: Path, kind: pa.DataType, values: list[int], expected: list[tuple[int, int]]
) -> None:
    numbers = pa.array(values, pa.int64() if kind.bit_width == 64 else pa.int32())
    vectors = pa.array([[1.0], [2.0], [3.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [1, 2, 3], "at": numbers.view(kind), "emb": vectors}), tmp_path / "a.parquet")
    with hv.open(files=[tmp_path / "a.parquet"], column="emb") as t:
        found = t.search([0.0], 5, metric="l2", group_by="at", per_group=2, columns=["id"])
    assert pairs(found) == expected
