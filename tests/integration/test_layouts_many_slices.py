"""A table of more than a thousand small file slices."""

from __future__ import annotations

import numpy as np
import pytest
from support import jvm_view, layouts, many_slices, searched

from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

COUNT = 1100
QUERY = np.array([0.6, -0.3, 1.1, 0.2])


@pytest.fixture(scope="module")
def path(spark, workspace):
    table = layouts.Table(spark, workspace, "many_slices").configure()
    fields = (layouts.ID, layouts.PRICE, layouts.TS, layouts.EMB)
    rows = table.frame([(i, 1.0 * i, 1, [float(i), 1.0, 0.0, 2.0]) for i in range(4)], *fields)
    table.write(rows.coalesce(1), "bulk_insert")
    many_slices.multiply(table.path, COUNT)
    return str(table.path)


@pytest.fixture(scope="module")
def expected(spark, path):
    return searched.Expected(spark.read.format("hudi").load(path), "emb", "price < 300", 4)


def test_hudi_reads_the_table_and_lists_it_as_we_do(spark, path, expected):
    assert len(expected) == 4 + 2 * COUNT
    view = jvm_view.View(spark, path)
    listed = jvm_view.listed(NativeTable(Source(jvm_view.source_uri(path), "many")).snapshot())
    assert len(listed) == COUNT + 1
    assert listed == view.slices(view.instants()[-1])


@pytest.mark.parametrize("execution", ["local", pytest.param("distributed", marks=pytest.mark.soak)])
def test_every_slice_is_searched(spark, path, expected, execution):
    for k, metric, filtered in ((10, "cosine", True), (5000, "l2", False)):
        text = "price < 300" if filtered else None
        got = searched.search(spark, path, "emb", QUERY, k, metric=metric, filter=text, execution=execution)
        searched.assert_found(got, expected.nearest(QUERY, k, metric, filtered))
