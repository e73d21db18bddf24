"""Each SQL example printed in RFC-100, its misprint corrected, its table name kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blobs import content

from hudi_vector.schema import blob_field
from hudi_vector.table.config import parse_properties


@pytest.fixture(scope="module")
def my_table(spark, workspace, quick_sql):
    """The table that the RFC makes; its key property lacks a quotation mark there."""
    spark.sql("CREATE DATABASE IF NOT EXISTS rfc_100")
    spark.sql("USE rfc_100")
    spark.sql(
        """
        CREATE TABLE my_table (
            id STRING,
            url STRING,
            image_blob BLOB
        ) USING hudi
        TBLPROPERTIES (
          'hoodie.table.type' = 'MERGE_ON_READ',
          'primaryKey' = 'id'
        )
        """
    )
    yield
    spark.sql("USE default")


def test_the_statement_makes_a_table_with_a_blob_column(spark, my_table):
    assert spark.table("my_table").schema["image_blob"] == blob_field("image_blob")
    location = spark.sql("DESCRIBE FORMATTED my_table").where("col_name = 'Location'").collect()[0].data_type
    made = parse_properties(Path(location.removeprefix("file:"), ".hoodie/hoodie.properties").read_text())
    assert (made["hoodie.table.type"], made["hoodie.table.recordkey.fields"]) == ("MERGE_ON_READ", "id")


def test_the_query_reads_the_bytes_of_every_kind_of_blob(spark, my_table, workspace):
    image = workspace / "rfc 100.png"
    image.write_bytes(content(1, 900))
    spark.sql(
        "INSERT INTO my_table "
        f"SELECT 'a' AS id, 'http://x/a' AS url, blob_ref('{image}', 100L, 90L) AS image_blob UNION ALL "
        f"SELECT 'b', 'http://x/b', blob_ref('{image}') UNION ALL "
        "SELECT 'c', 'http://x/c', to_blob(X'0a0b') UNION ALL "
        "SELECT 'd', 'http://x/d', NULL"
    )
    spark.sql(f"UPDATE my_table SET image_blob = blob_ref('{image}', 500L, 5L) WHERE id = 'c'")
    found = spark.sql("SELECT id, url, read_blob(image_blob) as image_bytes FROM my_table").collect()
    data = content(1, 900)
    assert sorted((row.id, row.url, row.image_bytes and bytes(row.image_bytes)) for row in found) == [
        ("a", "http://x/a", data[100:190]),
        ("b", "http://x/b", data),
        ("c", "http://x/c", data[500:505]),
        ("d", "http://x/d", None),
    ]
