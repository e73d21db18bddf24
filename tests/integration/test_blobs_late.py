"""Blobs are read behind ORDER BY, LIMIT and OFFSET: random statements, with the rule of the optimizer and without it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import tables
from support.quick import QUICK, set_to

import hudi_vector as hv

RULE = "org.apache.hudi.vector.LateBlobs"
READS = ("read_blob(img)", "try_read_blob(img, 1, 3)", "length(read_blob(img))")
COMPUTED = ("id * 3 % 7", "concat('a', id % 4)")


@st.composite
def statements(draw, depth=2):
    """A SELECT of `{t}` or of another such SELECT, whose rows have one order, and the names of what it computes."""
    source, columns = "{t}", ["n"]
    if depth and draw(st.booleans()):
        inner, columns = draw(statements(depth - 1))
        source = f"({inner})"
    kept = [column for column in columns if draw(st.booleans())]
    made = draw(st.lists(st.sampled_from(READS + COMPUTED), min_size=1, max_size=3))
    named = {f"c{depth}{place}": computed for place, computed in enumerate(made)}
    keys = draw(st.lists(st.sampled_from(["id", *columns, *named]), max_size=2, unique=True))
    order = [f"{key}{draw(st.sampled_from(['', ' DESC', ' ASC NULLS LAST']))}" for key in keys]
    limit = draw(st.sampled_from([" LIMIT 2 OFFSET 3", " LIMIT 8", " LIMIT 90", ""]))
    shown = ", ".join(["id", "img", *kept, *(f"{computed} AS {name}" for name, computed in named.items())])
    where = draw(st.sampled_from(["", " WHERE id % 3 <> 1", " WHERE length(read_blob(img)) > 6"]))
    return f"SELECT {shown} FROM {source}{where} ORDER BY {', '.join([*order, 'id'])}{limit}", [*kept, *named]


@pytest.fixture(scope="module")
def blobs(spark, workspace):
    """A table with inline and out-of-line blobs in two file groups, and NULL."""
    path = str(tables.fresh_path(workspace, "late"))
    rows = spark.range(0, 24, 1, 2).selectExpr(
        "id", "id * 7 % 5 AS n", "IF(id % 6 = 0, NULL, CAST(concat('blob-', id) AS BINARY)) AS img"
    )
    options = {**QUICK, "hoodie.bulkinsert.sort.mode": "NONE"}
    placed = {"img": {"inline.threshold": "7"}}
    hv.write(rows, path, record_key="id", blobs=placed, operation="bulk_insert", options=options)
    spark.read.format("hudi").load(path).createOrReplaceTempView("late_blobs")
    return "late_blobs"


@settings(max_examples=16)
@given(statements())
def test_the_rule_changes_no_answer(spark, blobs, made):
    statement = made[0].format(t=blobs)
    found = spark.sql(statement).collect()
    with set_to(spark, {"spark.sql.optimizer.excludedRules": RULE}):
        assert found == spark.sql(statement).collect(), statement
