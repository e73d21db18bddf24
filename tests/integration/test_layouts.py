"""Every layout a Hudi table can have: the search equals brute force over what Spark itself reads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import layout_histories, layouts, searched

import hudi_vector as hv

del layout_histories  # imported for the histories it declares

QUERY = np.array([0.6, -0.3, 1.1, 0.2])
ROUNDS = [
    ("local", "cosine", 5, False),
    ("distributed", "l2", 5, True),
    ("local", "l2", 1000, True),
    ("distributed", "cosine", 1000, False),
]


@pytest.fixture(params=layouts.CASES, ids=str)
def case(request):
    return request.param


def test_the_search_equals_the_oracle(spark, workspace, case):
    path = layouts.path_of(spark, workspace, case.history, case.stage)
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


def test_explain_says_how_each_slice_is_read(spark, workspace, case):
    path = layouts.path_of(spark, workspace, case.history, case.stage)
    text = hv.explain_search(spark, path, case.column, QUERY)
    assert set(re.findall(r"^ +(parquet|merged|lance|spark) +\d", text, re.MULTILINE)) == case.access, text
    assert case.reason in text
    assert ("execution   spark" in text) == ("spark" in case.access)
