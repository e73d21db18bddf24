"""What a notebook written for Hudi 1.2 does with the rows of a search: the same statements, both functions, one answer."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from support.upstream import answer, assert_rows, own_columns, views

SEARCH = "hudi_vector_search{native}('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 3)"
BATCH = "hudi_vector_search_batch{native}('conform_corpus', 'v', 'conform_asked', 'v', 2)"


@pytest.fixture(scope="module")
def made(spark, workspace):
    yield from views(spark, workspace)


STATEMENTS = {
    "order by": "SELECT id, label, _hudi_distance FROM {s} ORDER BY _hudi_distance",
    "order by, descending": "SELECT id FROM {s} ORDER BY _hudi_distance DESC LIMIT 1",
    "where": "SELECT id, _hudi_distance FROM {s} WHERE _hudi_distance < 0.4",
    "a score": "SELECT id, round(1 - _hudi_distance, 6) AS score FROM {s}",
    "capitals and quotes": "SELECT ID, `_HUDI_DISTANCE` AS d FROM {s}",
    "case": "SELECT id, CASE WHEN _hudi_distance < 0.3 THEN 'near' ELSE 'far' END AS how FROM {s}",
    "subquery of *": "SELECT t.id, t._hudi_distance FROM (SELECT * FROM {s}) t WHERE t.label <> 'axis'",
    "two levels of *": "SELECT id, _hudi_distance FROM (SELECT * FROM (SELECT * FROM {s}))",
    "with": "WITH found AS (SELECT * FROM {s}) SELECT id, _hudi_distance FROM found",
    "join on": "SELECT s.id, s._hudi_distance, p.price FROM {s} s JOIN conform_prices p ON s.id = p.id",
    "join on, alias.*": "SELECT s.*, p.price FROM {s} s JOIN conform_prices p ON s.id = p.id",
    "join using": "SELECT id, price, _hudi_distance FROM {s} JOIN conform_prices USING (id)",
    "join using, *": "SELECT * FROM {s} JOIN conform_prices USING (id)",
    "left join using": "SELECT id, price, _hudi_distance FROM {s} LEFT JOIN conform_prices USING (id)",
    "natural join": "SELECT id, price, _hudi_distance FROM {s} NATURAL JOIN conform_prices",
    "two searches joined": "SELECT a.id, a._hudi_distance AS x, b._hudi_distance AS y FROM {s} a "
    "JOIN hudi_vector_search{native}('conform_corpus', 'v', ARRAY(0.0, 1.0, 0.0), 5) b USING (id)",
    "semi join": "SELECT p.id FROM conform_prices p LEFT SEMI JOIN {s} s ON s.id = p.id",
    "in": "SELECT id FROM conform_prices WHERE id IN (SELECT id FROM {s} WHERE _hudi_distance < 0.2)",
    "scalar subquery": "SELECT (SELECT max(_hudi_distance) FROM {s}) AS d",
    "union of *": "SELECT * FROM {s} UNION ALL SELECT * FROM {s}",
    "except": "SELECT id FROM conform_corpus EXCEPT SELECT id FROM {s}",
    "group by": "SELECT label, min(_hudi_distance) AS d, count(*) AS n FROM {s} GROUP BY label HAVING d < 0.5",
    "window": "SELECT id, row_number() OVER (ORDER BY _hudi_distance) AS n FROM {s}",
    "the best of each label": "SELECT id, _hudi_distance FROM (SELECT *, row_number() OVER "
    "(PARTITION BY label ORDER BY _hudi_distance) AS n FROM {s}) WHERE n = 1",
    "lateral view": "SELECT id, x, _hudi_distance FROM {s} LATERAL VIEW explode(ARRAY(1, 2)) e AS x",
    "json of a row": "SELECT get_json_object(to_json(struct(*)), '$._hudi_distance') AS d FROM "
    "(SELECT * FROM {s} WHERE _hudi_distance = 0)",
    "batch, by query": "SELECT _hudi_query_id, id, _hudi_distance FROM {b} ORDER BY _hudi_query_index, _hudi_distance",
    "batch, with": "WITH f AS (SELECT * FROM {b}) SELECT _hudi_query_id, id, _hudi_distance FROM f",
    "batch, join using": "SELECT id, price, _hudi_query_id, _hudi_distance FROM {b} JOIN conform_prices USING (id)",
    "batch, window": "SELECT _hudi_query_id, id, rank() OVER (PARTITION BY _hudi_query_index ORDER BY _hudi_distance) "
    "AS n FROM {b}",
    "batch, mean": "SELECT _hudi_query_id, avg(_hudi_distance) AS d, count(*) AS n FROM {b} GROUP BY _hudi_query_id",
}


def ask(spark, statement: str, native: str):
    return spark.sql(statement.format(s=SEARCH.format(native=native), b=BATCH.format(native=native), native=native))


def assert_alike(mine, theirs):
    """Ours has every column of Hudi's, in its order, and the same values in them; and what ours has more are our own."""
    names = own_columns(theirs)
    assert [name for name in own_columns(mine) if name in names] == names
    assert {name for name in own_columns(mine) if name not in names} <= {"_distance", "_rank"}
    assert_rows(answer(mine.select(*names)), answer(theirs))


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_means_the_same(spark, made, statement):
    mine, theirs = ask(spark, statement, ""), ask(spark, statement, "_native")
    # Spark gives columns of one name twice where a statement names them so.
    names = own_columns(theirs)
    if "*" in statement or len(names) == len(own_columns(mine)):
        assert_alike(mine, theirs) if len(set(names)) == len(names) else assert_rows(answer(mine), answer(theirs))


FRAMES = {
    "order by a column": lambda found, other: found.orderBy("_hudi_distance").select("id", "_hudi_distance"),
    "order by F.col": lambda found, other: found.orderBy(F.col("_hudi_distance").desc()).limit(1).select("id"),
    "filter with text": lambda found, other: found.filter("_hudi_distance < 0.4").select("id"),
    "a column of the frame": lambda found, other: found.filter(found["_hudi_distance"] < 0.4).select(found.id),
    "join by name": lambda found, other: found.join(other, "id").select("id", "price", "_hudi_distance"),
    "join by condition": lambda found, other: found.join(other, found.id == other.id).select(
        found.id, other.price, found._hudi_distance
    ),
    "join from the other side": lambda found, other: other.join(found, "id", "left").select("id", "_hudi_distance"),
    "alias": lambda found, other: found.alias("f").select("f.id", "f._hudi_distance"),
    "with a score": lambda found, other: found.withColumn("score", 1 - F.col("_hudi_distance")).select("id", "score"),
    "renamed": lambda found, other: found.withColumnRenamed("_hudi_distance", "d").select("id", "d"),
    "grouped": lambda found, other: found.groupBy("label").agg(F.min("_hudi_distance").alias("d")),
    "distinct": lambda found, other: found.select("label").distinct(),
    "union": lambda found, other: found.union(found).select("id", "_hudi_distance"),
    "by position of names": lambda found, other: found.select(
        *[n for n in found.columns if n in ("id", "_hudi_distance")]
    ),
    "without the distance": lambda found, other: found.drop("_hudi_distance", "_distance"),
}


@pytest.mark.parametrize("step", FRAMES.values(), ids=FRAMES)
def test_a_step_on_the_frame_means_the_same(spark, made, step):
    other = spark.table("conform_prices")
    assert_alike(*(step(ask(spark, "SELECT * FROM {s}", native), other) for native in ("", "_native")))


def test_pandas_and_rows_have_the_distance(spark, made):
    found = ask(spark, "SELECT * FROM {s}", "").orderBy("_hudi_distance")
    assert found.toPandas()["_hudi_distance"].tolist() == pytest.approx([0, 0.29289322, 0.42264973], abs=1e-7)
    row = found.first()
    assert (row["id"], row._hudi_distance, row.asDict()["_hudi_distance"]) == ("east", 0.0, 0.0)
    assert found.toJSON().map(lambda text: "_hudi_distance" in text).collect() == [True] * 3


def test_a_view_of_star_is_asked_like_a_table(spark, made, quick_sql):
    frames = []
    for native in ("", "_native"):
        ask(spark, f"CREATE OR REPLACE TEMPORARY VIEW conform_view{native} AS SELECT * FROM {{s}}", native)
        frames.append(spark.sql(f"SELECT id, _hudi_distance FROM conform_view{native} WHERE _hudi_distance < 0.4"))
    assert_alike(*frames)
    ask(spark, "SELECT * FROM {s}", "").createOrReplaceTempView("conform_view")
    assert_rows(
        answer(spark.sql("SELECT id, _hudi_distance FROM conform_view WHERE _hudi_distance = 0")), [("east", 0.0)]
    )


def test_a_table_made_of_star_has_the_distance(spark, made, workspace):
    for native in ("", "_native"):
        target = workspace / f"ctas{native}"
        ask(
            spark,
            f"CREATE TABLE conform_made{native} USING parquet LOCATION '{target}' AS SELECT * FROM {{s}}",
            native,
        )
    try:
        assert_alike(spark.table("conform_made"), spark.table("conform_made_native"))
    finally:
        spark.sql("DROP TABLE conform_made")
        spark.sql("DROP TABLE conform_made_native")


def test_a_cached_frame_keeps_the_distance(spark, made):
    found = ask(spark, "SELECT * FROM {s}", "").cache()
    try:
        assert found.count() == 3
        assert_alike(found, ask(spark, "SELECT * FROM {s}", "_native"))
    finally:
        found.unpersist()


def test_rows_found_are_searched_again(spark, made):
    """The rows of one batch are the queries of the next: a name that is taken with its prefix is prefixed again."""
    hop = ask(spark, "SELECT c.v, b.id, b._hudi_query_id FROM {b} b JOIN conform_corpus c ON c.id = b.id", "")
    hop.createOrReplaceTempView("conform_hop")
    found = spark.sql("SELECT * FROM hudi_vector_search_batch('conform_corpus', 'v', 'conform_hop', 'v', 1)")
    assert len(set(found.columns)) == len(found.columns)
    rows = found.select("id", "_hudi_query__hudi_query_id", "_hudi_query_id").collect()
    assert {tuple(row) for row in rows} == {
        ("east", "east", "qx"),
        ("plane", "plane", "qx"),
        ("up", "up", "qz"),
        ("space", "space", "qz"),
    }
