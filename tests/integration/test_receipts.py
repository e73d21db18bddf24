"""Receipts of searches of real tables: replayed after Hudi wrote, compacted and cleaned, with and without a session."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql.functions import col
from support import oracle, tables

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.read.cache import process_cache
from hudi_vector.table_services.cleaning.hudi_clean import clean_with_hudi

QUERY = tables.vectors(1, 99)[0].astype(np.float64).tolist()


def receipt_of(spark, path, k=7, **asked):
    """The receipt of a search, with what the search gave."""
    found = hv.search(spark, str(path), "emb", QUERY, k, **{"metric": "l2", "columns": ["id"], **asked}).collect()
    return hv.last_reports()[0].receipt(), found


def assert_holds(receipt, frame, found, k=7):
    """The rows are those of a comparison of all rows that Spark reads, and those that the search gave."""
    rows = frame.select("_hoodie_record_key", "emb").collect()
    far = oracle.distances(np.array([row.emb for row in rows]), QUERY, "l2")
    order = np.argsort(far, kind="stable")[:k]
    got = receipt.rows()
    assert [row["key"] for row in got] == [rows[place]._hoodie_record_key for place in order]
    np.testing.assert_allclose([row["distance"] for row in got], far[order], rtol=1e-12)
    assert [(row["key"], row["distance"]) for row in got] == [(str(row.id), row._distance) for row in found]


def assert_same(spark, receipt):
    process_cache().clear()
    for session in (spark, None):
        again = hv.replay(session, receipt.to_json())
        assert (again.same, again.why) == (True, ""), again
        assert again.hits.column("_distance").to_pylist() == [row["distance"] for row in receipt.rows()]


def test_a_replay_gives_the_same_bits_after_log_files_compaction_and_deletes(spark, workspace):
    path = tables.fresh_path(workspace)
    merge_on_read = {"datasource__write__table__type": "MERGE_ON_READ", "clean__automatic": "false"}
    tables.write(tables.frame(spark, range(60)), path, **merge_on_read)
    tables.write(tables.frame(spark, range(10, 20), seed=5), path, **merge_on_read)
    frame = spark.read.format("hudi").load(str(path))
    receipt, found = receipt_of(spark, path)
    assert receipt.content.access.slices.get("merged")
    assert_holds(receipt, frame, found)
    filtered, of_filter = receipt_of(spark, path, filter="price < 500 AND name LIKE 'name %'")
    assert_holds(filtered, frame.where("price < 500"), of_filter)

    nearest = [int(row["key"]) for row in receipt.rows()]
    tables.write(tables.frame(spark, nearest[:3], seed=8), path, **merge_on_read)
    tables.write(tables.frame(spark, nearest[3:], seed=8), path, datasource__write__operation="delete", **merge_on_read)
    assert_same(spark, receipt)
    tables.write(
        tables.frame(spark, range(20, 30), seed=9),
        path,
        **{**merge_on_read, "compact__inline": "true", "compact__inline__max__delta__commits": "1"},
    )
    assert list(Path(path).glob(".hoodie/timeline/*.compaction.requested"))
    now, _ = receipt_of(spark, path)
    assert now.rows() != receipt.rows()
    assert now.content.access.slices == {"parquet": 1}
    for each in (receipt, filtered, now):
        assert_same(spark, each)


def test_the_file_that_hudis_clean_took_is_named(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(30)), path, clean__automatic="false")
    receipt, _ = receipt_of(spark, path)
    [file] = {row["file"] for row in receipt.rows()}
    for seed in (1, 2, 3):
        tables.write(tables.frame(spark, range(30), seed=seed), path, clean__automatic="false")
    assert_same(spark, receipt)
    assert "removed" in clean_with_hudi(spark, str(path), 1)
    [clean] = [file.name.partition("_")[0] for file in Path(path).glob(".hoodie/timeline/*_*.clean")]
    for session in (spark, None):
        with pytest.raises(errors.InstantNotAvailableError) as raised:
            hv.replay(session, receipt)
        assert str(raised.value).endswith(f"cannot be given again: Hudi's clean of {clean} took the file '{file}'")
    assert_same(spark, receipt_of(spark, path)[0])


def test_executors_and_the_index_search_again(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(400)), path, datasource__write__partitionpath__field="category")
    hv.index.create(spark, str(path), "emb", metric="l2", num_partitions=16)
    exact, found = receipt_of(spark, path, execution="distributed")
    assert exact.content.access.execution == "distributed"
    assert_holds(exact, spark.read.format("hudi").load(str(path)), found)
    approximate, _ = receipt_of(spark, path, mode="approximate", nprobes=1, refine_factor=1)
    assert approximate.rows() != exact.rows(), "the search has to miss rows, or else this shows nothing"
    tables.write(tables.frame(spark, range(100), seed=4), path, datasource__write__partitionpath__field="category")
    hv.index.refresh(spark, str(path), "emb")
    for receipt in (exact, approximate):
        assert_same(spark, receipt)
    spread, _ = receipt_of(spark, path, mode="approximate", nprobes=1, execution="distributed")
    assert hv.replay(None, spread).why.startswith("the answer may differ: executors searched groups of file slices")


def test_views_batches_and_what_has_no_receipt(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(30)), path)
    frame = spark.read.format("hudi").load(str(path))
    frame.select("_hoodie_record_key", col("price").alias("cost"), col("emb").alias("v")).createOrReplaceTempView(
        "seen_otherwise"
    )
    hv.search(spark, "seen_otherwise", "v", QUERY, 5, filter="cost < 700", columns=["cost"]).collect()
    receipt = hv.last_reports()[0].receipt()
    assert receipt.content.search.filter == "price < 700.0"
    assert (receipt.content.search.column, receipt.content.search.columns) == ("emb", ("price",))
    assert_same(spark, receipt)

    queries = tables.vectors(3, 4).astype(np.float64)
    hv.search_batch(spark, str(path), "emb", queries, k=2).collect()
    batch = hv.last_reports()[0].receipt(vector=False)
    assert [row["query"] for row in batch.rows()] == [0, 0, 1, 1, 2, 2]
    assert hv.replay(spark, batch, queries).same
    assert hv.replay(spark, batch, queries, table=str(path)).same

    hv.search(spark, str(path), "emb", QUERY, 5, filter="reverse(name) < 'x'").collect()
    with pytest.raises(errors.UnsupportedTableError, match="was read by Spark's own Hudi reader"):
        hv.last_reports()[0].receipt()
    hv.search(spark, frame.where("id > 3"), "emb", QUERY, 5).collect()
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("receipts are of searches by one vector column")):
        hv.last_reports()[0].receipt()
    changed = replace(batch, content=replace(batch.content, table="no_such_table"))
    with pytest.raises(errors.TableNotFoundError, match="if the table has moved"):
        hv.replay(spark, changed, queries)
