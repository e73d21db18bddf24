"""Tables of which Hudi's own reader finds more than a merge or a look at the newest commit: Spark reads these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession
from support import layout_histories, layouts, searched
from support.killed import conf

import hudi_vector as hv
from hudi_vector.errors import UnsupportedTableError

del layout_histories  # imported for the histories it declares

QUERY = np.array([0.6, -0.3, 1.1, 0.2])


@pytest.mark.parametrize("execution", ["local", "distributed"])
def test_late_rows_fill_newer_ones_that_lack_columns(spark: SparkSession, shared: Path, execution: str) -> None:
    path = layouts.path_of(spark, shared, "partial", "late")
    expected = searched.Expected(spark.read.format("hudi").load(path), "emb", "id < 9", len(QUERY))
    found = searched.search(spark, path, "emb", QUERY, 1000, metric="l2", filter=None, execution=execution)
    searched.assert_found(found, expected.nearest(QUERY, 1000, "l2", filtered=False))
    why = "hold some columns of rows, and later the same rows whole, which only Spark merges as Hudi does"
    with hv.open(path, column="emb") as opened, pytest.raises(UnsupportedTableError, match=why):
        opened.search(QUERY, 5, metric="l2")


def test_a_clustering_does_not_hide_that_a_column_was_renamed(spark: SparkSession, shared: Path) -> None:
    path = layouts.path_of(spark, shared, "renamed", "clustered")
    with conf(spark, {"hoodie.schema.on.read.enable": "true"}):
        frame = spark.read.format("hudi").load(path)
        there = {row[0] for row in frame.where("vector IS NOT NULL").select("id").collect()}
        found = hv.search(spark, path, "vector", QUERY, 1000, metric="l2", columns=["id"]).collect()
        assert {row["id"] for row in found} == there
        assert len(there) >= 6, "Hudi's clustering keeps the vectors of the partitions that it does not rewrite"
    with (
        pytest.raises(UnsupportedTableError, match="its schema evolves on read"),
        hv.open(path, column="vector") as opened,
    ):
        opened.search(QUERY, 5, metric="l2")
