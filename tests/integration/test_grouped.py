"""The best k per group on Spark: every layout and execution, batches, SQL and Python, against rows that Spark reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from support import streams, tables
from support.grouped import best_groups
from support.oracle import distances
from support.searched import is_vector

import hudi_vector as hv
from hudi_vector import options

QUERY = np.array([0.6, -0.3, 1.1, 0.2])
TIES = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")


def ordered(rows: list[Any], column: str, query: Any, metric: str) -> list[Any]:
    rows = [row for row in rows if is_vector(row[column], len(query))]
    if not rows:
        return []
    far = distances(np.array([row[column] for row in rows]), query, metric)
    keys = [name for name in TIES if name in rows[0].asDict()]
    order = sorted(range(len(rows)), key=lambda n: (far[n], [(rows[n][name] or "").encode() for name in keys]))
    return [rows[n] for n in order]


@pytest.fixture(scope="module")
def table(spark, workspace):
    """A table with log files, in which documents have several rows, and some rows no document."""
    path = tables.fresh_path(workspace, "grouped")
    documents = "CASE WHEN id % 13 = 0 THEN NULL ELSE concat('doc ', id % 29) END AS category"
    for ids, seed in ((range(300), 3), (range(0, 300, 7), 4)):
        frame = tables.frame(spark, ids, seed, dimension=4).selectExpr("id", "name", "price", documents, "emb")
        tables.write(frame.to(tables.schema(4)), path, datasource__write__table__type="MERGE_ON_READ")
    name = tables.fresh_name("grouped")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name


@pytest.fixture(scope="module")
def rows(spark, table):
    return spark.table(table).collect()


def expected(rows: list[Any], k: int, per_group: int, query: Any = QUERY, **more: Any) -> list[tuple[int, Any]]:
    best = best_groups(ordered(rows, "emb", query, "l2"), lambda row: row["category"], k, per_group, **more)
    return [(rank, row["id"]) for rank, row in best]


@pytest.mark.parametrize("execution", ["local", "distributed", "spark"])
@pytest.mark.parametrize(("k", "per_group", "drop"), [(5, 1, False), (12, 3, True), (100, 2, False)])
def test_the_rows_are_those_of_the_oracle(spark, table, rows, execution, k, per_group, drop):
    asked: dict[str, Any] = {"metric": "l2", "group_by": "category", "per_group": per_group}
    if drop:
        asked["group_nulls"] = "drop"
    if execution == "spark":  # a filter that only Spark evaluates
        asked["filter"] = "regexp_count(name, 'name') = 1"
    else:
        asked["execution"] = execution
    found = hv.search(spark, table, "emb", QUERY, k, **asked)
    assert found.columns == ["id", "name", "price", "category", "_distance", "_group_rank"]
    assert found.schema["_group_rank"].dataType.simpleString() == "int"
    got = [(row["_group_rank"], row["id"]) for row in found.select("_group_rank", "id", "_rank").collect()]
    assert got == expected(rows, k, per_group, drop_nulls=drop)
    report = hv.last_reports()[0]
    assert report.execution == execution
    assert report.groups == len({rank for rank, _ in got})


def test_sql_takes_one_column_or_several(spark, table, rows):
    query = f"array({', '.join(f'{x!r}D' for x in QUERY.tolist())})"

    def call(columns: str) -> str:
        return f"hudi_vector_search('{table}', 'emb', {query}, 6, 'l2', group_by => {columns}, per_group => 2)"

    for columns in ("'Category'", "array('category')"):
        one = spark.sql(f"SELECT _group_rank, id, _rank FROM {call(columns)}").collect()
        assert [tuple(row)[:2] for row in one] == expected(rows, 6, 2)
        assert [row["_rank"] for row in one] == list(range(1, len(one) + 1))
    two = spark.sql("SELECT * FROM " + call("array('category', 'name')")).collect()
    best = best_groups(ordered(rows, "emb", QUERY, "l2"), lambda row: (row["category"], row["name"]), 6, 2)
    assert [(row["_group_rank"], row["id"]) for row in two] == [(rank, row["id"]) for rank, row in best]
    assert "groups      by category" in hv.explain(hv.search, spark, table, "emb", QUERY, group_by="category")


@pytest.mark.parametrize("way", ["collected", "spread", "array"])
@pytest.mark.parametrize("per_group", [1, 3])
def test_a_batch_equals_its_single_searches(spark, table, rows, way, per_group, clean_session):
    if way == "spread":
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "0")
    vectors = np.random.default_rng(2).standard_normal((5, 4))
    asked: dict[str, Any] = {"k": 4, "metric": "l2", "group_by": "category", "per_group": per_group}
    if way == "array":
        found = hv.search_batch(spark, table, "emb", vectors, **asked)
    else:
        frame = spark.createDataFrame([(n, v.tolist()) for n, v in enumerate(vectors)], "n INT, v ARRAY<DOUBLE>")
        found = hv.search_batch(spark, table, "emb", frame, "v", **asked)
    assert "_group_rank" in found.columns
    number = "_hudi_query_index" if way == "array" else "n"
    got = found.orderBy(number, "_rank").collect()
    for n, vector in enumerate(vectors):
        mine = [(row["_group_rank"], row["id"]) for row in got if row[number] == n]
        assert mine == expected(rows, 4, per_group, vector)


def of_singles(spark, table: str, asking: list[dict[str, Any]], k: int, filters: Any = None, **more: Any) -> list[Any]:
    """What a single search finds for each row that asks, as (number, rank of the group, id)."""
    found = []
    for event in asking:
        hits = hv.search(spark, table, "emb", event["v"], k, filter=filters and filters(event), **more)
        found += [
            (event["number"], row["_group_rank"], row["id"]) for row in hits.select("_group_rank", "id").collect()
        ]
    return found


GROUPS: dict[str, Any] = {"metric": "l2", "group_by": "category", "per_group": 2}


def asking_rows(numbers: range) -> list[dict[str, Any]]:
    return [{**event, "v": event["v"][:4], "least": 40.0 * event["number"]} for event in streams.events(numbers)]


@pytest.mark.parametrize("as_of", [False, True])
def test_a_join_equals_its_single_searches(spark, table, rows, as_of):
    asking = asking_rows(range(5))
    left = spark.createDataFrame(
        [(e["number"], e["v"], e["least"]) for e in asking], "number INT, v ARRAY<FLOAT>, least DOUBLE"
    )
    right, more = spark.table(table), GROUPS
    if as_of:
        first = min(row["_hoodie_commit_time"] for row in rows)
        right, more = spark.sql(f"SELECT * FROM {table} TIMESTAMP AS OF '{first}'"), {**GROUPS, "as_of": first}
    found = hv.knn_join(left, right, "v", "emb", 4, condition="r.price >= l.least", **GROUPS)
    got = [tuple(row) for row in found.orderBy("number", "_rank").select("number", "_group_rank", "id").collect()]
    assert got == of_singles(spark, table, asking, 4, lambda event: f"price >= {event['least']}", **more)


def test_a_stream_equals_its_single_searches(spark, table, workspace):
    source = streams.Files(spark, tables.fresh_path(workspace, "grouped_events"))
    near = hv.vector_search(source.frame(), table, "emb", "v", 4, filter="price >= l.least", columns=["id"], **GROUPS)
    assert near.columns[-5:] == ["id", "score", "_distance", "_rank", "_group_rank"]
    query = streams.started(near)
    try:
        for numbers in (range(3), range(3, 6)):
            source.add(asking_rows(numbers))
            found = streams.rows_of(spark, query)
    finally:
        query.stop()
    got = [
        (row["number"], row["_group_rank"], row["id"])
        for row in sorted(found, key=lambda row: (row["number"], row["_rank"]))
    ]
    asking = asking_rows(range(6))
    assert got == of_singles(spark, table, asking, 4, lambda event: f"price >= {event['least']}", **GROUPS)
    view = f"(SELECT id, category AS document, price AS category, emb FROM {table} WHERE price < 900)"
    spark.createDataFrame(
        [(e["number"], e["v"]) for e in asking], "number INT, v ARRAY<FLOAT>"
    ).createOrReplaceTempView("asking")
    call = f"TABLE(asking), TABLE{view}, 'emb', 'v', 3, group_by => array('document'), metric => 'l2', group_nulls => 'drop'"
    found = spark.sql(f"SELECT * FROM hudi_vector_search_stream({call}) ORDER BY number, _rank").collect()
    cheap = {"metric": "l2", "group_by": "category", "group_nulls": "drop"}
    expected = of_singles(spark, table, asking, 3, lambda _: "price < 900", **cheap)
    assert [(row["number"], row["_group_rank"], row["id"]) for row in found] == expected


def test_rfc_form_has_the_groups_too(spark, table, rows):
    vector = "array(0.6F, -0.3F, 1.1F, 0.2F) AS v"
    call = (
        f"base_table => TABLE(SELECT {vector}), base_col => 'v', query_table => '{table}', query_col => 'emb', k => 3"
    )
    found = spark.sql(f"SELECT * FROM hudi_vector_search({call}, distance_metric => 'l2', group_by => 'category')")
    query = np.float32([0.6, -0.3, 1.1, 0.2]).astype(float)
    assert [(row["_group_rank"], row["id"]) for row in found.collect()] == expected(rows, 3, 1, query)


def test_a_view_names_its_own_columns(spark, table, rows):
    spark.sql(f"CREATE OR REPLACE TEMP VIEW grouped_view AS SELECT id, category AS doc, emb AS v FROM {table}")
    found = hv.search(spark, "grouped_view", "v", QUERY, 5, metric="l2", group_by="DOC", group_nulls="drop")
    got = [(row["_group_rank"], row["id"]) for row in found.collect()]
    assert got == expected(rows, 5, 1, drop_nulls=True)


WRONG = [
    ("group_by => 'categori'", "column 'categori' does not exist in"),
    ("group_by => 'emb'", "holds vectors, blobs or nested values; name columns of plain values"),
    ("group_by => 3", "group_by must be the name of a column or a list of names, not 3"),
    ("group_by => 'category', per_group => 0", "per_group must be a whole number from 1 to 100000, not 0"),
    ("group_by => 'category', per_group => 'two'", "per_group must be a whole number from 1 to 100000, not 'two'"),
    ("per_group => 2", "per_group needs group_by"),
    ("group_nulls => 'drop'", "group_nulls needs group_by"),
    ("group_by => 'category', group_nulls => 'none'", "group_nulls must be 'keep' or 'drop', not 'none'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_wrong_arguments_get_one_sentence(spark, table, arguments, sentence):
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"SELECT * FROM hudi_vector_search('{table}', 'emb', array(1D, 2D, 3D, 4D), 3, {arguments})")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value).strip()


def test_a_column_of_that_name_is_refused(spark):
    spark.sql("SELECT 1 AS _group_rank, array(1.0F) AS v").createOrReplaceTempView("ranked")
    with pytest.raises(AnalysisException, match="'ranked' has a column '_group_rank'"):
        spark.sql("SELECT * FROM hudi_vector_search('ranked', 'v', array(1.0F), 1, group_by => '_group_rank')")
