"""Every layout a Hudi table can have: the search equals brute force over what Spark itself reads."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support import layout_histories, layouts, searched

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
ROUNDS = [
    ("local", "cosine", 5, False),
    ("distributed", "l2", 5, True),
    ("local", "l2", 1000, True),
    ("distributed", "cosine", 1000, False),
]


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
    params=[pytest.param(each, marks=pytest.mark.soak) if str(each) in SOAK else each for each in layouts.CASES],
    ids=str,
)
def case(request):
    return request.param


def test_the_search_equals_the_oracle(spark, shared, case):
    path = layouts.path_of(spark, shared, case.history, case.stage)
    frame = spark.read.format("hudi").load(path)
    expected = searched.Expected(frame, case.column, case.condition, len(QUERY))
    for execution, metric, k, filtered in ROUNDS:
        text = case.condition if filtered else None
        got = searched.search(spark, path, case.column, QUERY, k, metric=metric, filter=text, execution=execution)
        searched.assert_found(got, expected.nearest(QUERY, k, metric, filtered))
    if case.native:
        array = f"array({', '.join(f'{x!r}D' for x in QUERY.tolist())})"
        native = f"SELECT * FROM hudi_vector_search_native('{path}', '{case.column}', {array}, 5, 'l2')"
        found = spark.sql(native).withColumnRenamed("_hudi_distance", "_distance").collect()
        searched.assert_found(found, expected.nearest(QUERY, 5, "l2", filtered=False))


def test_the_columns_are_those_of_hudis_relation(spark, shared, case):
    """Where they are known without making one; the others are listed by name."""
    path = layouts.path_of(spark, shared, case.history, case.stage)
    known = relation_schema(spark, NativeTable(Source(f"file://{path}", path)))
    assert (known is None) == (str(case) in MADE_BY_HUDI)
    if known is not None:
        assert known.jsonValue() == spark.read.format("hudi").load(path).schema.jsonValue()


def test_explain_says_how_each_slice_is_read(spark, shared, case):
    path = layouts.path_of(spark, shared, case.history, case.stage)
    text = hv.explain(hv.search, spark, path, case.column, QUERY)
    assert set(re.findall(r"─ (index|parquet|merged|lance|spark) +\d", text)) == case.access, text
    assert case.reason in text
    # A table that was never written has no slices; Spark finds that out by itself.
    assert ("execution   spark" in text) == ("spark" in case.access or not case.access)


@pytest.mark.parametrize("kept", ["2GB", "0"])
def test_an_index_answers_what_a_scan_answers(spark, shared, tmp_path, case, kept):
    """What log files touch is merged, and the index answers for the rest; the table itself is left as it is."""
    path = layouts.path_of(spark, shared, case.history, case.stage)
    snapshot = NativeTable(Source(f"file://{path}", path)).snapshot() if case.access else None
    column = (
        None if "spark" in case.access or not case.access else vector_column(snapshot, case.column, path, len(QUERY))
    )
    if column is None or not column.is_vector:
        pytest.skip("only Spark reads it, or it has no VECTOR")
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, column, has_keys=snapshot.config.populates_meta_fields)
    home = in_directory(str(tmp_path), snapshot.source.uri, column.name)
    create_index(snapshot, spec, Parameters(metric="l2", num_partitions=3), home=home)
    options = {"hoodie.vector.cache.max.bytes": kept}
    with hv.open(path, column=case.column, index_directory=str(tmp_path), options=options) as t:
        for query, k, text in itertools.product((QUERY, -QUERY, QUERY * 9), (1, 5, 1000), (None, case.condition)):
            asked = {"metric": "l2", "filter": text}
            names = [name for name in snapshot.schema.names if name != column.name]
            found = t.search(query, k, columns=names, **asked)
            assert found.table.equals(t.search(query, k, columns=names, mode="exact", **asked).table)
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
