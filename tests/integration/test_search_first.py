"""The thin path: a written table, one search by SQL and by Python, against the oracle and Hudi's own function."""

from __future__ import annotations

import numpy as np
import pytest
from support import jvm_view, oracle, tables

import hudi_vector as hv
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.page_table import paged_chunks
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable


@pytest.fixture(scope="module")
def products(spark, workspace):
    path = tables.fresh_path(workspace, "products")
    tables.write(tables.frame(spark, range(200)), path, datasource__write__partitionpath__field="category")
    name = tables.fresh_name("products")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name


@pytest.mark.parametrize("keep", [True, False])
def test_vectors_of_chosen_rows_are_read_by_page_from_hudis_own_files(spark, workspace, products, keep):
    (path,) = {file.split("/c")[0] for file in spark.table(products).inputFiles()}
    snapshot = NativeTable(Source(jvm_view.source_uri(path), "products")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 8, "float"))
    for entry in snapshot.file_slices:
        data = DataFile(entry.base_file, spec.options, mapped=True)
        assert None not in paged_chunks(data, "emb", 32), "Hudi writes vectors plainly, as fixed-size binary"
        rows = np.arange(0, data.metadata.num_rows, 3)
        reader = ParquetSlice(entry.base_file, spec, keep)
        expected = reader.rows(rows, ["emb"]).column("emb").to_pylist()
        got = reader.vectors_at(rows, ScanCounts())
        assert got.positions.tolist() == rows.tolist()
        assert got.values.tolist() == expected


@pytest.mark.parametrize("metric", ["cosine", "l2", "dot_product"])
def test_sql_python_and_hudis_own_function_agree_with_the_oracle(spark, products, metric):
    query = tables.vectors(1, 99)[0].astype(float).tolist()
    expected = oracle.nearest(spark.table(products), "emb", query, 7, metric)
    array = "array(" + ", ".join(f"{x!r}D" for x in query) + ")"
    oracle.assert_nearest(
        spark.sql(f"SELECT * FROM hudi_vector_search('{products}', 'emb', {array}, 7, '{metric}')"), expected
    )
    oracle.assert_nearest(hv.search(spark, products, "emb", np.array(query), 7, metric=metric), expected)
    native = spark.sql(f"SELECT * FROM hudi_vector_search_native('{products}', 'emb', {array}, 7, '{metric}')")
    oracle.assert_nearest(native.withColumnRenamed("_hudi_distance", "_distance"), expected)


def test_chosen_columns_come_with_the_distance(spark, products):
    query = [1.0] * 8
    found = hv.search(spark, products, "emb", query, 3, columns=["price", "id"])
    assert found.columns == ["price", "id", "_distance"]
    named = hv.search(spark, products, "emb", query, 3, columns=["_distance", "ID", "_rank", "emb"])
    assert named.columns == ["_distance", "ID", "_rank", "emb"]
    assert [row["_rank"] for row in named.collect()] == [1, 2, 3]
    everything = hv.search(spark, products, "emb", query, 3)
    assert hv.search(spark, products, "emb", query, 3, columns=["*"]).columns == everything.columns
    many = hv.search_batch(spark, products, "emb", np.array([query]), k=2, columns=["_hudi_query_index", "id"])
    assert many.columns == ["_hudi_query_index", "id", "_distance"]
    for row, same in zip(found.collect(), everything.select("price", "id", "_distance").collect(), strict=True):
        assert row == same


def test_star_has_the_tables_columns_without_the_vector_and_the_distance(spark, products):
    found = hv.search(spark, products, "emb", [1.0] * 8, 3)
    table = spark.table(products).columns
    users = [name for name in table if name != "emb" and not name.startswith("_hoodie_")]
    assert found.columns == [*users, "_distance"]
    asked = f"SELECT * FROM hudi_vector_search('{products}', 'emb', array_repeat(1.0D, 8), 3)"
    assert spark.sql(asked).columns[: len(table) - 1] == [name for name in table if name != "emb"]
    # Hudi's own columns come when they are named, here or later.
    keys = [row["_hoodie_record_key"] for row in found.select("_hoodie_record_key").collect()]
    named = hv.search(spark, products, "emb", [1.0] * 8, 3, columns=["_hoodie_record_key"])
    assert named.columns == ["_hoodie_record_key", "_distance"]
    assert [row["_hoodie_record_key"] for row in named.collect()] == keys
    assert None not in keys
    many = hv.search_batch(spark, products, "emb", spark.table(products).limit(2), "emb", k=2)
    assert not [name for name in many.columns if "_hoodie_" in name]
    assert many.select("_hoodie_record_key", "_hudi_query__hoodie_record_key").count() == 4
    hidden = found.select("emb", "_hudi_distance", "_rank", "_distance", "id").collect()
    assert [row["_rank"] for row in hidden] == [1, 2, 3]
    assert all(row["_hudi_distance"] == row["_distance"] for row in hidden)
    by_id = {row["id"]: row["emb"] for row in spark.table(products).collect()}
    assert all(row["emb"] == by_id[row["id"]] for row in hidden)


def test_an_opened_table_finds_the_same_and_hands_it_to_spark(spark, products):
    (path,) = {file.split("/c")[0] for file in spark.table(products).inputFiles()}
    query = tables.vectors(1, 99)[0].astype(float)
    expected = oracle.nearest(spark.table(products), "emb", query.tolist(), 7, "cosine")
    with hv.open(path, column="emb") as opened:
        hits = opened.search(query, 7, columns=["id", "name", "category", "_hoodie_record_key"])
        frame = opened.to_spark(spark, hits)
        assert frame.rdd.getNumPartitions() == 1
        assert [tuple(row) for row in frame.collect()] == [tuple(row.values()) for row in hits.to_pylist()]
        placed = opened.search(query, 7)
        oracle.assert_nearest(hv.search(spark, products, "emb", query, 7), expected)
        assert placed.column("_distance").equals(hits.column("_distance"))
        refs = placed.refs[::-1]
        back = opened.fetch_rows_to_spark(spark, refs, ["id", "price", "emb"])
        assert [row["id"] for row in back.collect()] == hits.column("id").to_pylist()[::-1]
        by_id = {row["id"]: row for row in spark.table(products).collect()}
        assert all(row["emb"] == by_id[row["id"]]["emb"] for row in back.collect())
        files = {
            row["id"]: row["file"]
            for row in spark.table(products).selectExpr("id", "input_file_name() AS file").collect()
        }
        assert [files[i] for i in hits.column("id").to_pylist()] == placed.places.column("file_path").to_pylist()
