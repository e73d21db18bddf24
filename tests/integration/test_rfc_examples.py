"""Each SQL example of RFC-102, its misprints corrected; tables that share a name there have names of their own."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructType
from support import oracle, tables

import hudi_vector as hv


@pytest.fixture(scope="module")
def rfc(spark, workspace):
    """The RFC's tables: products, categories, users and products of two dimensions, and 'table'."""
    spark.sql("CREATE DATABASE IF NOT EXISTS rfc")
    spark.sql("USE rfc")
    _table(
        spark,
        workspace,
        "products",
        "id LONG, name STRING, price DOUBLE, category STRING, category_id INT",
        [
            (i, f"product {i}", 10.0 * i, "electronics" if i % 3 else "toys", i % 4, v)
            for i, v in enumerate(tables.vectors(40, 5, 3).tolist())
        ],
        hv.vector_field("embedding", 3),
    )
    _table(
        spark,
        workspace,
        "small_products",
        "id LONG, name STRING, category_id INT",
        [(i, f"product {i}", i % 4, v) for i, v in enumerate(tables.vectors(20, 6, 2).tolist())],
        hv.vector_field("embedding", 2),
    )
    _table(
        spark,
        workspace,
        "images",
        "id LONG",
        [(1, [0.12, -0.03, 0.81]), (2, [0.9, 0.1, 0.0]), (3, [0.1, 0.0, 0.8])],
        hv.vector_field("image_embedding", 3),
    )
    _table(
        spark,
        workspace,
        "users",
        "id STRING",
        [("user_01", [0.8, 0.2]), ("user_02", [-0.5, 0.9])],
        hv.vector_field("user_preference_embedding", 2),
    )
    _table(
        spark,
        workspace,
        "catalog",
        "id STRING",
        [
            ("laptop_99", [0.85, 0.15]),
            ("mouse_42", [0.70, 0.40]),
            ("book_11", [-0.60, 0.80]),
            ("kindle_88", [-0.30, 0.95]),
        ],
        hv.vector_field("product_embedding", 2),
    )
    spark.createDataFrame([(i, f"category {i}") for i in range(4)], "category_id INT, category_name STRING").write.mode(
        "overwrite"
    ).saveAsTable("categories")
    yield
    spark.sql("USE default")


def _table(spark, workspace, name, columns, rows, vector):
    plain = spark.createDataFrame([], columns).schema
    path = tables.fresh_path(workspace, name)
    frame = spark.createDataFrame(rows, StructType([*plain.fields, vector]))
    tables.write(frame, path, datasource__write__operation="bulk_insert")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")


def test_single_query_by_name(spark, rfc):
    found = spark.sql(
        """
        SELECT *
        FROM hudi_vector_search(
          table_name => 'images',
          embedding_col => 'image_embedding',
          query_vector => ARRAY(0.12F, -0.03F, 0.81F),
          k => 10,
          distance_metric => 'cosine'
        )
        """
    )
    expected = oracle.nearest(spark.table("images"), "image_embedding", [0.12, -0.03, 0.81], 10)
    oracle.assert_nearest(found, expected)
    assert [row["id"] for row in found.collect()] == [1, 3, 2]


def test_filter_around_the_search_is_applied_to_the_rows_found(spark, rfc):
    found = spark.sql(
        """
        SELECT id, name, price, category, _distance
        FROM hudi_vector_search(
          'products',
          'embedding',
          ARRAY(1.0, 2.0, 3.0),
          10
        )
        WHERE category = 'electronics' AND price < 100
        ORDER BY _distance
        """
    ).collect()
    nearest = oracle.nearest(spark.table("products"), "embedding", [1.0, 2.0, 3.0], 10)
    rows = {str(row["id"]): row for row in spark.table("products").collect()}
    kept = [key for _, key, _ in nearest if rows[key]["category"] == "electronics" and rows[key]["price"] < 100]
    assert [str(row["id"]) for row in found] == kept
    assert len(kept) < 10


def test_search_joined_with_a_table(spark, rfc):
    found = spark.sql(
        """
        SELECT vs.id, vs.name, c.category_name, vs._distance
        FROM hudi_vector_search(
          'small_products',
          'embedding',
          ARRAY(1.5, 2.5),
          3
        ) vs
        JOIN categories c ON vs.category_id = c.category_id
        ORDER BY vs._distance
        """
    ).collect()
    expected = oracle.nearest(spark.table("small_products"), "embedding", [1.5, 2.5], 3)
    assert [str(row["id"]) for row in found] == [key for _, key, _ in expected]
    assert all(row["category_name"] == f"category {row['id'] % 4}" for row in found)


def test_each_row_of_the_base_table_gets_its_nearest_of_the_query_table(spark, rfc):
    # The RFC's call says cosine; the distances it prints are l2.
    found = spark.sql(
        """
        SELECT id, _hudi_query_id, distance, user_preference_embedding, product_embedding
        FROM hudi_vector_search(
          base_table => 'users',
          base_col => 'user_preference_embedding',
          query_table => 'catalog',
          query_col => 'product_embedding',
          k => 2,
          distance_metric => 'l2'
        )
        ORDER BY id, distance
        """
    ).collect()
    printed = [
        ("user_01", "laptop_99", 0.0707),
        ("user_01", "mouse_42", 0.2236),
        ("user_02", "book_11", 0.1414),
        ("user_02", "kindle_88", 0.2062),
    ]
    assert [(row["id"], row["_hudi_query_id"], round(row["distance"], 4)) for row in found] == printed
    assert [round(x, 2) for x in found[0]["user_preference_embedding"]] == [0.8, 0.2]
    assert [round(x, 2) for x in found[0]["product_embedding"]] == [0.85, 0.15]


def test_columns_of_the_base_table_form(spark, rfc):
    frame = spark.sql(
        "SELECT * FROM hudi_vector_search(base_table => 'users', base_col => 'user_preference_embedding', "
        "query_table => 'catalog', query_col => 'product_embedding', k => 2, distance_metric => 'cosine')"
    )
    plain = [name for name in frame.columns if "_hoodie_" not in name]
    assert plain == ["id", "_hudi_query_id", "_distance", "_rank"]
    assert frame.count() == 4


def test_schema_types_of_the_added_columns(spark, rfc):
    frame = hv.search_batch(spark, "catalog", "product_embedding", "users", "user_preference_embedding", 2)
    assert frame.schema["_hudi_query_index"].dataType == LongType()
    assert frame.columns[-3:] == ["_hudi_query_index", "_distance", "_rank"]
