"""Queries whose length fits no vector of a plain array column: told so, however the rows are searched."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import tables

import hudi_vector as hv
from hudi_vector import options

WRONG, RIGHT = [1.0, 2.0], [1.0, 2.0, 3.0]
SPREAD = {options.BATCH_COLLECT_MAX_BYTES.key: "0"}


@pytest.fixture(scope="module")
def sides(spark, workspace):
    """A table of arrays, and what is read of it by plans that are no table; half of the rows have none."""
    path = tables.fresh_path(workspace, "lengths")
    rows = spark.range(8).selectExpr("id", "IF(id % 2 = 0, array(id * 1D, 1D, 2D), NULL) AS emb")
    tables.write(rows, path, datasource__write__operation="bulk_insert")
    return {
        "table": str(path),
        "plan": spark.read.format("hudi").load(str(path)).where("id + 0 >= 0"),
        "rows": spark.read.format("hudi").load(str(path)).selectExpr("id", "slice(emb, 1, 3) AS emb"),
    }


def asking(spark, vector):
    return spark.createDataFrame([(1, vector), (2, None)], "number INT, v ARRAY<DOUBLE>")


def _sql(spark, side, vector, function):
    name = side
    if not isinstance(side, str):
        side.createOrReplaceTempView("lengths_side")
        name = "lengths_side"
    asking(spark, vector).createOrReplaceTempView("lengths_asking")
    return spark.sql("SELECT * FROM " + function.format(t=name, q=f"array({', '.join(f'{x}D' for x in vector)})"))


WAYS = {
    "python": lambda s, t, v: hv.search(s, t, "emb", v, 2),
    "sql": lambda s, t, v: _sql(s, t, v, "hudi_vector_search('{t}', 'emb', {q}, 2)"),
    "sub-query": lambda s, t, v: _sql(s, t, v, "hudi_vector_search('{t}', 'emb', (SELECT {q}), 2)"),
    "array": lambda s, t, v: hv.search_batch(s, t, "emb", np.array([v, v]), k=2),
    "batch": lambda s, t, v: hv.search_batch(s, t, "emb", asking(s, v), "v", 2),
    "two tables": lambda s, t, v: _sql(
        s, t, v,
        "hudi_vector_search(base_table => 'lengths_asking', base_col => 'v', query_table => '{t}', query_col => 'emb', "
        "k => 2)",
    ),
    "hybrid": lambda s, t, v: hv.hybrid_search(s, t, ["emb"], [v], k=2),
    "hybrid batch": lambda s, t, v: hv.hybrid_search_batch(s, t, ["emb"], asking(s, v), ["v"], k=2),
    "hybrid, two columns": lambda s, t, v: hv.hybrid_search(s, t, ["emb", "emb"], [v, RIGHT], k=2),
    "hybrid by ranks": lambda s, t, v: hv.hybrid_search(s, t, ["emb"], [v], k=2, fusion="rrf"),
    "join": lambda s, t, v: hv.knn_join(asking(s, v), t, "v", "emb", 2),
    "outer join": lambda s, t, v: hv.knn_join(asking(s, v), t, "v", "emb", 2, join_type="left_outer"),
}  # fmt: skip
STREAMED = {
    "stream": lambda s, t, v: hv.vector_search(asking(s, v), t, "emb", "v", 2),
}


OF_EVERY_KIND = ("python", "batch", "join")  # of a function that searches, of one with several queries, of a join


def cases():
    for name, way in WAYS.items():
        # All that is no table is searched by Spark, whichever plan it is.
        for side in ("table", "plan", "rows") if name in OF_EVERY_KIND else ("table", "plan"):
            yield pytest.param(way, side, {}, id=f"{name}-{side}")
    for name in ("array", "batch", "two tables", "hybrid batch"):
        yield pytest.param(WAYS[name], "table", SPREAD, id=f"{name}-spread")
    for name, way in STREAMED.items():
        yield pytest.param(way, "table", {}, id=name)


@pytest.mark.parametrize(("way", "side", "conf"), list(cases()))
def test_a_length_that_fits_no_row_is_refused(spark, clean_session, sides, way, side, conf):
    for key, value in conf.items():
        spark.conf.set(key, value)
    with pytest.raises(
        Exception, match=r"ha(s|ve) 2 elements|other lengths \(such as 2\)|holds vectors of 2"
    ) as refused:
        way(spark, sides[side], WRONG).collect()
    assert re.search(r"\b3\b", str(refused.value)), "the length there is, is named"
    if side == "table" or way in [WAYS[name] for name in OF_EVERY_KIND]:
        assert way(spark, sides[side], RIGHT).count() in (2, 3, 4)


@pytest.mark.parametrize("side", ["table", "plan"])
def test_a_filter_that_leaves_no_row_or_no_vector_is_no_mistake(spark, clean_session, sides, side):
    for condition in ("id < 0", "id % 2 = 1"):
        assert hv.search(spark, sides[side], "emb", RIGHT, 2, filter=condition).count() == 0
    assert hv.search(spark, sides[side], "emb", WRONG, 2, filter="id < 0").count() == 0
    for limit in ("1g", "0"):
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, limit)
        empty = asking(spark, RIGHT).where("v IS NULL")
        assert hv.search_batch(spark, sides[side], "emb", empty, "v", 2).count() == 0
