"""Where the function can stand in a statement, and what may stand in its parentheses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from support import oracle, tables

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.errors import UnknownColumnError
from hudi_vector.table.native import NativeTable

K = 4


@pytest.fixture(scope="module")
def t(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(60)), path, datasource__write__operation="bulk_insert")
    name = tables.fresh_name()
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name, str(path)


@pytest.fixture(scope="module")
def query():
    return tables.vectors(1, 77)[0].astype(float)


@pytest.fixture(scope="module")
def array(query):
    return "ARRAY(" + ", ".join(f"{x!r}D" for x in query.tolist()) + ")"


@pytest.fixture(scope="module")
def wanted(spark, t, query):
    """The id and the distance of the nearest rows."""
    return [(int(key), distance) for distance, key, _ in oracle.nearest(spark.table(t[0]), "emb", query, K)]


@pytest.fixture(scope="module")
def expected(wanted):
    return [number for number, _ in wanted]


def ids(frame):
    return [row["id"] for row in frame.collect()]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM hudi_vector_search('{t}', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', {q}, 4, 'COSINE', 'brute_force')",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', {q}, 4, 'cosine', 'BRUTE_FORCE', NULL, NULL)",
        "SELECT id FROM hudi_vector_search('{t}', 'EMB', {q}, 2 + 2)",
        "SELECT id FROM hudi_vector_search('{path}', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search('file://{path}', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search(table_path => '{path}', embedding_col => 'emb', query_vector => {q}, k => 4)",
        "SELECT id FROM hudi_vector_search(k => 4, query_vector => {q}, embedding_col => 'emb', table => '{t}')",
        "SELECT id FROM hudi_vector_search('default.{t}', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search('spark_catalog.default.{t}', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search('`{t}`', 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search(TABLE({t}), 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search(TABLE(SELECT id, emb FROM {t}), 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search(table => TABLE(SELECT id, emb FROM {t}), embedding_col => 'emb', "
        "query_vector => {q}, k => 4)",
        "SELECT id FROM hudi_vector_search(TABLE(SELECT id, price + 1 AS p, emb FROM {t}), 'emb', {q}, 4)",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', CAST({q} AS ARRAY<DOUBLE>), 4)",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', from_json('{json}', 'array<double>'), 4)",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', (SELECT {q}), 4)",
        "WITH found AS (SELECT * FROM hudi_vector_search('{t}', 'emb', {q}, 4)) SELECT id FROM found ORDER BY _distance",
        "SELECT id FROM (SELECT * FROM hudi_vector_search('{t}', 'emb', {q}, 9)) ORDER BY _distance LIMIT 4",
        "SELECT id FROM {t} WHERE id IN (SELECT id FROM hudi_vector_search('{t}', 'emb', {q}, 4)) "
        "ORDER BY array_position({order}, id)",
        "SELECT a.id FROM hudi_vector_search('{t}', 'emb', {q}, 4) a JOIN hudi_vector_search('{t}', 'emb', {q}, 4) b "
        "ON a.id = b.id ORDER BY a._rank",
        "SELECT id FROM hudi_vector_search('{t}', 'emb', {q}, 4) s WHERE s._hudi_distance <= 2 ORDER BY s._hudi_distance",
    ],
)
def test_every_form_finds_the_same_rows(spark, t, query, array, expected, statement):
    text = statement.format(
        t=t[0],
        path=t[1],
        q=array,
        json=json.dumps(query.tolist()),
        order="array(" + ",".join(f"{i}L" for i in expected) + ")",
    )
    assert ids(spark.sql(text)) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "WITH c AS (SELECT id, emb FROM {t}) SELECT id FROM hudi_vector_search(TABLE(c), 'emb', {q}, 4)",
        "WITH b AS (SELECT id, emb FROM {t}), c AS (SELECT * FROM b WHERE id >= 0), b2 AS (SELECT 1) "
        "SELECT id FROM hudi_vector_search(table => TABLE(SELECT * FROM c), embedding_col => 'emb', query_vector => {q}, k => 4)",
        "WITH b AS (SELECT id, emb FROM {t}) SELECT id FROM (WITH c AS (SELECT * FROM b) "
        "SELECT * FROM hudi_vector_search(TABLE(c), 'emb', {q}, 4)) ORDER BY _distance",
        "WITH b AS (SELECT id, emb FROM {t}), c AS (SELECT * FROM hudi_vector_search(TABLE(b), 'emb', {q}, 4)) "
        "SELECT c.id FROM c JOIN b USING (id) ORDER BY c._distance",
        "WITH c AS (SELECT id, emb FROM {t}) SELECT a.id FROM hudi_vector_search(TABLE(c), 'emb', {q}, 4) a JOIN "
        "hudi_vector_search(TABLE(SELECT * FROM c WHERE id < 0 OR id >= 0), 'emb', {q}, 4) b USING (id) ORDER BY a._rank",
        "WITH v AS (SELECT {q} AS v) SELECT id FROM hudi_vector_search_batch('{t}', 'emb', TABLE(v), 'v', 4)",
        "WITH v AS (SELECT {q} AS v) SELECT id FROM hudi_knn_join(TABLE(v), '{t}', 'v', 'emb', 4) ORDER BY _rank",
        "WITH c AS (SELECT id, emb FROM {t}) "
        "SELECT id FROM hudi_knn_join(TABLE(SELECT {q} AS v), TABLE(c), 'v', 'emb', 4) ORDER BY _rank",
        "WITH v AS (SELECT {q} AS v) "
        "SELECT id FROM hudi_vector_search_stream(TABLE(v), '{t}', 'emb', 'v', 4) ORDER BY _rank",
    ],
)
def test_tables_may_be_ctes(spark, t, array, expected, statement):
    assert ids(spark.sql(statement.format(t=t[0], q=array))) == expected


def test_a_cte_with_a_parameter_is_defined_inside(spark, t, array, expected):
    cte = f"WITH c AS (SELECT id, emb FROM {t[0]} WHERE id >= :least)"
    search = f"SELECT id FROM hudi_vector_search(TABLE({{}}), 'emb', {array}, 4)"
    assert ids(spark.sql(search.format(f"{cte} SELECT * FROM c"), args={"least": 0})) == expected
    with pytest.raises(AnalysisException, match=r"a CTE whose definition has a parameter of the statement; define it "):
        spark.sql(f"{cte} {search.format('c')}", args={"least": 0})


def test_commands_take_ctes_as_tables(spark, t, array, expected):
    found = f"SELECT * FROM hudi_vector_search(TABLE(c), 'emb', {array}, 4)"
    query = f"WITH c AS (SELECT id, emb FROM {t[0]}) {found}"
    plain = found.replace("TABLE(c)", f"TABLE(SELECT id, emb FROM {t[0]})")
    explained = [spark.sql(f"EXPLAIN {each}").first()["plan"] for each in (query, plain)]
    assert len({re.sub(r"#\d+L?", "", each) for each in explained}) == 1, explained
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_cte AS {query}")
    try:
        spark.sql(f"CREATE TABLE ctes USING parquet AS {query}")
        spark.sql(f"INSERT INTO ctes {query}")
        for name, times in (("of_cte", 1), ("ctes", 2)):
            assert ids(spark.sql(f"SELECT id FROM {name} ORDER BY _distance")) == [
                i for i in expected for _ in range(times)
            ]
    finally:
        spark.sql("DROP TABLE IF EXISTS ctes")


def test_a_vector_may_be_a_bound_parameter(spark, t, query, expected):
    statement = "SELECT id FROM hudi_vector_search(:table, 'emb', from_json(:query, 'array<double>'), :k)"
    bound = {"table": t[0], "query": json.dumps(query.tolist()), "k": K}
    assert ids(spark.sql(statement, args=bound)) == expected


FOUND = "hudi_vector_search('{t}', 'emb', {q}, 4)"
BATCH = "hudi_vector_search_batch('{t}', 'emb', TABLE(SELECT {q} AS v), 'v', 4)"


@pytest.mark.parametrize("found", [FOUND, BATCH], ids=["single", "batch"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id, {d} FROM {t} JOIN {found} USING (id) ORDER BY {d}",
        "SELECT id, {d} FROM {found} JOIN {t} USING (id) ORDER BY {d}",
        "SELECT id, {d} FROM {found} NATURAL JOIN (SELECT id FROM {t}) ORDER BY {d}",
        "WITH found AS (SELECT * FROM {found}) SELECT id, {d} FROM found ORDER BY {d}",
        "SELECT id, {d} FROM (SELECT * FROM {found}) ORDER BY {d}",
        "SELECT s.id, {s} FROM (SELECT * FROM {found}) s WHERE s._distance + s._hudi_distance >= 0 ORDER BY {s}",
        "SELECT id, {d} FROM kept ORDER BY {d}",
        "SELECT id, {d} FROM made ORDER BY {d}",
        "SELECT id, min(_distance) AS _distance, min(_hudi_distance) AS _hudi_distance FROM (SELECT * FROM {found}) "
        "GROUP BY id ORDER BY 2, 3",
        "SELECT id, {d} FROM (SELECT * FROM {found} UNION SELECT * FROM {found}) ORDER BY {d}",
    ],
)
def test_both_names_of_the_distance_outlive_a_star(spark, t, array, wanted, clean_session, statement, found):
    text = found.format(t=t[0], q=array)
    if "kept" in statement:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT * FROM {text}")
    if "made" in statement:
        spark.sql(f"SELECT * FROM {text}").write.format("parquet").mode("overwrite").saveAsTable("made")
    names = ("_distance", "_hudi_distance")
    try:
        rows = spark.sql(
            statement.format(t=t[0], found=text, d=", ".join(names), s=", ".join(f"s.{name}" for name in names))
        ).collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS made")
    assert [row[0] for row in rows] == [key for key, _ in wanted]
    for row, (_, distance) in zip(rows, wanted, strict=True):
        for name in names:
            oracle.assert_close(row[name], distance)


def test_a_frame_of_the_sql_function_keeps_both_names_in_a_join_by_name(spark, t, array):
    found = spark.sql("SELECT * FROM " + FOUND.format(t=t[0], q=array))
    joined = found.join(spark.table(t[0]).select("id", "name"), "id").select("_hudi_distance", "_distance").collect()
    assert len(joined) == K
    assert all(row[0] == row[1] for row in joined)


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        (None, {"_distance", "_hudi_distance"}),
        ("both", {"_distance", "_hudi_distance"}),
        ("_distance", {"_distance"}),
        ("_hudi_distance", {"_hudi_distance"}),
    ],
)
def test_a_setting_chooses_the_columns_of_the_distance(spark, t, query, array, clean_session, chosen, shown):
    if chosen is not None:
        spark.conf.set(options.DISTANCE_COLUMNS.key, chosen)
    for limit in ("1g", "0"):
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, limit)
        for found in (FOUND, BATCH) if limit == "0" else (BATCH,):
            frame = spark.sql("SELECT * FROM " + found.format(t=t[0], q=array))
            assert {name for name in frame.columns if name.endswith("_distance")} == shown
            both = frame.select("_distance", "_hudi_distance").collect()
            assert len(both) == K
            assert all(row[0] == row[1] for row in both)
        python = hv.search(spark, t[0], "emb", query, K), hv.search_batch(spark, t[0], "emb", query[None, :], k=K)
        assert all([name for name in frame.columns if name.endswith("_distance")] == ["_distance"] for frame in python)
        assert all(row[0] is not None for frame in python for row in frame.select("_hudi_distance").collect())
    spark.conf.set(options.DISTANCE_COLUMNS.key, "all")
    with pytest.raises(AnalysisException, match="give one of both, _distance, _hudi_distance"):
        spark.sql("SELECT * FROM " + FOUND.format(t=t[0], q=array))


def test_float_literals_mean_their_float_values(spark, t):
    found = spark.sql(
        f"SELECT _distance FROM hudi_vector_search('{t[0]}', 'emb', CAST(ARRAY(0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8) "
        "AS ARRAY<FLOAT>), 1)"
    ).collect()
    query = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], np.float32).astype(float)
    oracle.assert_close(found[0][0], oracle.nearest(spark.table(t[0]), "emb", query, 1)[0][0])


def test_negative_int_and_decimal_literals(spark, t):
    found = spark.sql(f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', ARRAY(-1, 2, 0.5, -0.25, 1, 0, 0, 3), 4)")
    expected = oracle.nearest(spark.table(t[0]), "emb", [-1, 2, 0.5, -0.25, 1, 0, 0, 3], 4)
    assert ids(found) == [int(key) for _, key, _ in expected]


def test_bound_parameter(spark, t, query, expected):
    text = f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', from_json(:q, 'array<double>'), :k)"
    assert ids(spark.sql(text, args={"q": json.dumps(query.tolist()), "k": K})) == expected


def test_views_are_searched_by_their_own_columns(spark, t, query, expected, clean_session):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW renamed AS SELECT id AS number, emb AS vector, price FROM {t[0]}")
    found = hv.search(spark, "renamed", "vector", query, K, filter="number >= 0")
    assert found.columns == ["number", "price", "_distance"]
    assert [row["number"] for row in found.collect()] == expected
    assert hv.last_reports()[0].execution == "local"


def test_a_view_that_filters_lets_no_row_past(spark, t, query, clean_session):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW filtered AS SELECT * FROM {t[0]} WHERE category = 'c1'")
    found = hv.search(spark, "filtered", "emb", query, 60).collect()
    assert len(found) == 20
    assert {row["category"] for row in found} == {"c1"}
    assert "Filter is between" in hv.last_reports()[0].execution_reason


def test_a_view_that_hides_columns_hides_them_from_filters(spark, t, query, clean_session):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW narrow AS SELECT id, emb FROM {t[0]}")
    assert hv.search(spark, "narrow", "emb", query, 2).columns == ["id", "_distance"]
    with pytest.raises(UnknownColumnError, match="price"):
        hv.search(spark, "narrow", "emb", query, 2, filter="price > 1")


def test_permanent_view(spark, t, query, expected):
    spark.sql(f"CREATE OR REPLACE VIEW kept_view AS SELECT id, emb FROM {t[0]}")
    try:
        assert ids(hv.search(spark, "kept_view", "emb", query, K)) == expected
    finally:
        spark.sql("DROP VIEW kept_view")


def test_views_over_the_function_see_later_rows(spark, workspace, clean_session):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(5)), path)
    array = "ARRAY(" + ",".join(["1.0D"] * 8) + ")"
    spark.sql(f"CREATE TEMPORARY VIEW by_sql AS SELECT id FROM hudi_vector_search('{path}', 'emb', {array}, 100)")
    spark.sql(f"SELECT id FROM hudi_vector_search('{path}', 'emb', {array}, 100)").createOrReplaceTempView("by_frame")
    tables.write(tables.frame(spark, range(5, 9), seed=3), path)
    assert spark.table("by_sql").count() == 9
    assert spark.table("by_frame").count() == 9


def test_nothing_is_listed_or_read_before_the_statement_runs(spark, t, array, clean_session, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a snapshot was taken")

    monkeypatch.setattr(NativeTable, "snapshot", refuse)
    text = f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4, 'l2', 'brute_force', 'price > 3')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW lazy AS {text}")
    frame = spark.sql(text)
    assert frame.columns == ["id"]
    with pytest.raises(Exception, match="a snapshot was taken"):
        frame.collect()


def test_explain_searches_nothing(spark, t, array):
    before = hv.last_reports(100)
    text = f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)"
    assert "LocalTableScan" in spark.sql(f"EXPLAIN {text}").collect()[0][0]
    spark.sql(text).explain()
    assert hv.last_reports(100) == before


def test_plans_without_an_sql_execution_run_all_the_same(spark, t, array, expected):
    frame = spark.sql(f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)")
    assert [row["id"] for row in frame.rdd.collect()] == expected


def test_only_the_needed_columns_are_asked_for(spark, t, array):
    assert spark.sql(f"SELECT count(*) FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)").collect()[0][0] == 4
    rows = spark.sql(f"SELECT 1 AS one FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)").collect()
    assert [row["one"] for row in rows] == [1, 1, 1, 1]


def test_hidden_columns_end_where_star_passes_through_a_subquery(spark, t, array):
    with pytest.raises(Exception, match="_rank"):
        spark.sql(f"SELECT _rank FROM (SELECT * FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4))")


def test_the_functions_are_there_in_new_sessions_and_registering_twice_changes_nothing(spark, t, array, expected):
    text = f"SELECT id FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)"
    hv.register(hv.register(spark))
    assert ids(spark.sql(text)) == expected
    other = spark.newSession()
    assert ids(other.sql(text)) == expected
    native = other.sql(f"SELECT id FROM hudi_vector_search_native('{t[0]}', 'emb', {array}, 4)")
    assert ids(native) == expected


def test_max_distance_is_inclusive(spark, t, query):
    found = hv.search(spark, t[0], "emb", query, 10, metric="l2").collect()
    limit = found[4]["_distance"]
    again = hv.search(spark, t[0], "emb", query, 10, metric="l2", max_distance=limit).collect()
    assert [row["id"] for row in again] == [row["id"] for row in found[:5]]
    assert "max_distance" in hv.last_reports()[0].why_fewer


def test_a_filter_comes_before_the_distances(spark, t, query):
    found = hv.search(spark, t[0], "emb", query, 5, filter="category = 'c2' AND price < 500").collect()
    frame = spark.table(t[0]).filter("category = 'c2' AND price < 500")
    assert [row["id"] for row in found] == [int(key) for _, key, _ in oracle.nearest(frame, "emb", query, 5)]


def test_written_as_a_table_and_cached(spark, t, array, expected, workspace):
    frame = spark.sql(f"SELECT id, _distance FROM hudi_vector_search('{t[0]}', 'emb', {array}, 4)")
    target = str(workspace / tables.fresh_name("written"))
    frame.write.parquet(target)
    assert sorted(ids(spark.read.parquet(target))) == sorted(expected)
    assert ids(frame.cache()) == expected
    frame.unpersist()
