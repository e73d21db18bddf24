"""Every layout a Hudi table can have: the search equals brute force over what Spark itself reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support import layout_histories, layouts, searched
from support.grouped import best_groups

import hudi_vector as hv
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.index.locations import in_directory
from hudi_vector.query.opened.request import vector_column
from hudi_vector.read.spec import ScanSpec
from hudi_vector.spark.relation_schema import relation_schema
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

del layout_histories  # imported for the histories it declares

QUERY = np.array([0.6, -0.3, 1.1, 0.2])
# Each execution reads a table whole and finds few rows by a filter, the other half of the layouts the other way about.
ROUNDS = [
    (("local", "cosine", 1000, False), ("distributed", "l2", 5, True)),
    (("distributed", "cosine", 1000, False), ("local", "l2", 5, True)),
]
# Without Spark: these rows of all columns are compared through Spark above.
OPENED = (("cosine", 5, False), ("l2", 1000, True), ("dot_product", 5, True))


# Others that are in every run hardly differ.
SOAK = (
    "archived_cow-late",
    "archived_mor-late",
    "evolved_cow-column_added",
    "evolved_cow-vector_added",
    "own_delete_marker-logs",
    "partitions_hive_encoded-two_columns",
)


MADE_BY_HUDI = ("empty-created", "log_only-changed", "log_only-inserted", "no_meta_fields-base", "no_meta_fields-logs")


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.soak) if str(each) in SOAK else each for each in layouts.CASES],
    ids=str,
)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def path(spark, shared, case):
    return layouts.path_of(spark, shared, case.history, case.stage)


@pytest.fixture(scope="module")
def frame(spark, path):
    return spark.read.format("hudi").load(path)


@pytest.fixture(scope="module")
def expected(frame, case):
    """The rows that Spark reads of it, read once for all tests of a layout."""
    return searched.Expected(frame, case.column, case.condition, len(QUERY))


def is_opened(case: layouts.Case) -> bool:
    """Whether all its slices are read without Spark."""
    return bool(case.access) and "spark" not in case.access


def test_the_search_equals_the_oracle(spark, path, case, expected):
    for execution, metric, k, filtered in ROUNDS[layouts.CASES.index(case) % 2]:
        text = case.condition if filtered else None
        got = searched.search(spark, path, case.column, QUERY, k, metric=metric, filter=text, execution=execution)
        searched.assert_found(got, expected.nearest(QUERY, k, metric, filtered))
    if case.native:
        array = f"array({', '.join(f'{x!r}D' for x in QUERY.tolist())})"
        native = f"SELECT * FROM hudi_vector_search_native('{path}', '{case.column}', {array}, 5, 'l2')"
        found = spark.sql(native).withColumnRenamed("_hudi_distance", "_distance").collect()
        searched.assert_found(found, expected.nearest(QUERY, 5, "l2", filtered=False))
    if is_opened(case):
        with hv.open(path, column=case.column) as opened:
            for metric, k, filtered in OPENED:
                text = case.condition if filtered else None
                hits = opened.search(QUERY, k, columns=["id", "price"], metric=metric, filter=text)
                got = list(zip(*(hits[name].to_pylist() for name in ("id", "price", "_distance")), strict=True))
                searched.assert_found(got, expected.nearest(QUERY, k, metric, filtered, ("id", "price")))


@pytest.mark.parametrize("case", layouts.CASES, ids=str, indirect=True, scope="module")  # in every run, all of them
def test_the_best_of_each_group_are_those_of_the_oracle(spark, path, case, frame, expected):
    column = next((name for name in ("category", "name", "id") if name in frame.columns), None)
    if column is None:
        return
    every = expected.ordered(QUERY, "l2")
    groups: dict[str, Any] = {"group_by": column, "metric": "l2"}
    if is_opened(case):
        with hv.open(path, column=case.column) as opened:
            for k, per_group in ((2, 1), (3, 2)):
                hits = opened.search(QUERY, k, columns=[column], per_group=per_group, **groups)
                got = zip(hits["_group_rank"].to_pylist(), hits[column].to_pylist(), strict=True)
                assert list(got) == best(every, column, k, per_group)
        # By a single column, a hybrid search has the order of its distances.
        asked = {"group_by": column, "per_group": 2, "execution": "local", "fusion": "rrf"}
        ranked = hv.hybrid_search(spark, path, [case.column], [QUERY], 3, metrics="l2", **asked)
        assert [tuple(row) for row in ranked.select("_group_rank", column).collect()] == best(every, column, 3, 2)
    else:
        execution, k, per_group = (("local", 2, 1), ("distributed", 3, 2))[layouts.CASES.index(case) % 2]
        asked = {**groups, "per_group": per_group, "execution": execution}
        got = hv.search(spark, path, case.column, QUERY, k, **asked).select("_group_rank", column)
        assert [tuple(row) for row in got.collect()] == best(every, column, k, per_group)


def best(every: list[Any], column: str, k: int, per_group: int) -> list[tuple[int, Any]]:
    """The rank of its group and the value by which it was grouped, of each row of the best groups."""
    return [(rank, row[column]) for rank, row in best_groups(every, lambda row: row[column], k, per_group)]


def test_the_columns_are_those_of_hudis_relation(spark, path, case, frame):
    """Where they are known without making one; the others are listed by name."""
    known = relation_schema(spark, NativeTable(Source(f"file://{path}", path)))
    assert (known is None) == (str(case) in MADE_BY_HUDI)
    if known is not None:
        assert known.jsonValue() == frame.schema.jsonValue()


def test_explain_says_how_each_slice_is_read(spark, path, case):
    text = hv.explain(hv.search, spark, path, case.column, QUERY)
    assert set(re.findall(r"─ (index|parquet|merged|lance|spark) +\d", text)) == case.access, text
    assert case.reason in text
    # A table that was never written has no slices; Spark finds that out by itself.
    assert ("execution   spark" in text) == ("spark" in case.access or not case.access)


# Each value of a query, of k and of a filter; of k and filter each pair.
ASKED = [
    (QUERY, 1, False), (-QUERY, 1, True), (-QUERY, 5, False), (QUERY * 9, 5, True),
    (QUERY * 9, 1000, False), (QUERY, 1000, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def indexable(path, case):
    """The snapshot and its vector column, None where only Spark reads it, or there is no VECTOR."""
    if not is_opened(case):
        return None
    snapshot = NativeTable(Source(f"file://{path}", path)).snapshot()
    column = vector_column(snapshot, case.column, path, len(QUERY))
    return (snapshot, column) if column.is_vector else None


@pytest.fixture(scope="module")
def scanned(path, case, indexable):
    """What scans answer."""
    if indexable is None:
        return None
    with hv.open(path, column=case.column) as opened:
        return [answer(opened, indexable, case, *asked, mode="exact") for asked in ASKED]


def answer(opened, indexable, case, query, k, filtered, **asked):
    snapshot, column = indexable
    names = [name for name in snapshot.schema.names if name != column.name]
    text = case.condition if filtered else None
    return opened.search(query, k, columns=names, metric="l2", filter=text, **asked).table


@pytest.mark.parametrize("kept", ["2GB", "0"])
def test_an_index_answers_what_a_scan_answers(tmp_path, path, case, indexable, scanned, kept):
    """What log files touch is merged, and the index answers for the rest; the table itself is left as it is."""
    if indexable is None:
        pytest.skip("only Spark reads it, or it has no VECTOR")
    snapshot, column = indexable
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, column, has_keys=snapshot.config.populates_meta_fields)
    home = in_directory(str(tmp_path), snapshot.source.uri, column.name)
    create_index(snapshot, spec, Parameters(metric="l2", num_partitions=3), home=home)
    options = {"hoodie.vector.cache.max.bytes": kept}
    with hv.open(path, column=case.column, index_directory=str(tmp_path), options=options) as t:
        for asked, wanted in zip(ASKED, scanned, strict=True):
            assert answer(t, indexable, case, *asked).equals(wanted)
        slices = t.search(QUERY, 3, metric="l2").report.slices
        if "merged" in case.access and kept == "0":
            assert (slices.get("touched", 0) > 0) == (snapshot.config.version >= 8), slices
        assert "merged" not in slices or snapshot.config.version < 8 or "lance" in case.access


def test_the_table_of_several_row_groups_has_them(spark, shared):
    path = Path(layouts.path_of(spark, shared, "several_row_groups", "row_groups"))
    (file,) = path.glob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups > 1
    vectors = pq.read_table(file, columns=["emb"])["emb"]
    assert not vectors[0].is_valid
    assert not vectors[-1].is_valid


def test_a_table_of_another_type_of_partition_is_pruned_by_its_path(spark, shared):
    path = layouts.path_of(spark, shared, "partitions_hive", "one_column")
    text = hv.explain(hv.search, spark, path, "emb", QUERY, filter="category = '50%'")
    assert "pruned by partition" in text
