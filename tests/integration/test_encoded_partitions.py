"""Partitions whose names look encoded: Hudi's reader decodes them, and rows are rewritten where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blobs import content
from support.frames import planned
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.spark.blobs.table import BlobTable

HIVE_STYLE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
PLACES = [("a%20b", "50%25"), ("plain", "%"), (None, "x=%41"), ("k=v", "a=b")]


def table_of(spark, path: Path, fields: list[str], options: dict[str, str], first: int = 0) -> BlobTable:
    rows = [(number, *place, bytearray(content(number, 2000))) for number, place in enumerate(PLACES, first)]
    frame = planned(spark, rows, "id int, p string, q string, img binary")
    blobs = {"img": {"inline.threshold": "0"}}
    hv.write(frame, path, record_key="id", partition_by=fields, blobs=blobs, options={**QUICK, **options})
    return BlobTable.of(spark, path)


@pytest.mark.parametrize(
    ("fields", "options"),
    [(["p"], {}), (["p", "q"], {}), (["p", "q"], HIVE_STYLE), (["p", "q"], {**HIVE_STYLE, **ENCODED})],
)
def test_services_read_the_values_that_were_written(spark, tmp_path, fields, options):
    table = table_of(spark, tmp_path / "t", fields, options)
    found = {row["id"]: (row["p"], row["q"]) for row in table.frame.select("id", "p", "q").collect()}
    assert found == dict(enumerate(PLACES))
    assert table.frame.schema == spark.read.format("hudi").load(str(tmp_path / "t")).schema


def test_tables_partitioned_by_timestamps_are_not_rewritten(spark, tmp_path):
    """Hudi reads them from the path, where they are numbers or text without a zone."""
    rows = spark.sql("SELECT 1 AS id, timestamp'2024-01-01 12:30:00Z' AS p, cast('x' AS binary) AS img")
    path = tmp_path / "t"
    hv.write(rows, path, record_key="id", partition_by="p", blobs={"img": {"inline.threshold": "0"}}, options=QUICK)
    with pytest.raises(UnsupportedTableError, match="has timestamps as partitions, which Hudi reads otherwise"):
        hv.table_services.compact_blobs(spark, path, live_threshold=100, assume_single_writer=True)
    with pytest.raises(UnsupportedTableError, match="has timestamps as partitions, which Hudi reads otherwise"):
        hv.table_services.erase(spark, path, ["1"], assume_single_writer=True)


def test_rows_stay_in_their_partitions(spark, tmp_path):
    path = tmp_path / "[t]{1}"  # a path that Spark may take for a pattern
    table_of(spark, path, ["p", "q"], HIVE_STYLE)
    table = table_of(spark, path, ["p", "q"], HIVE_STYLE, first=len(PLACES))
    before = sorted(table.frame.select("id", "_hoodie_partition_path").collect())
    done = hv.table_services.compact_blobs(spark, path, live_threshold=100, assume_single_writer=True, options=QUICK)
    assert done.blobs == len(before) == 2 * len(PLACES)
    assert sorted(table.again().frame.select("id", "_hoodie_partition_path").collect()) == before
    keys = list(range(2 * len(PLACES)))
    assert hv.blobs.get(None, path, keys, "img") == {number: content(number, 2000) for number in keys}
