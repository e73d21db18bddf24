"""Columns that are known without Hudi's relation are its columns; where they may differ, it is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import tables
from support.killed import conf
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.spark import resolve
from hudi_vector.spark.relation_schema import relation_schema
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

KIND = "id LONG, ts LONG, part STRING, day STRING, at TIMESTAMP, emb ARRAY<FLOAT>"
OPERATION = {"hoodie.allow.operation.metadata.field": "true"}
BY_TIME = {
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
}


def written(
    spark: SparkSession, workspace: Path, name: str, partition: str, parts: tuple[str, ...] = ("a",), **options: str
) -> str:
    """A table of Spark's own writer."""
    path = str(tables.fresh_path(workspace, name))
    rows = [(i, 1, part, "d", None, [1.0, float(i)]) for i, part in enumerate(parts)]
    frame = spark.createDataFrame(rows, KIND)
    settings = {
        **QUICK,
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": partition,
        **options,
    }
    frame.write.format("hudi").options(**settings).mode("append").save(path)
    return path


def known(spark: SparkSession, path: str) -> list[str] | None:
    found = relation_schema(spark, NativeTable(Source(f"file://{path}", path)))
    return None if found is None else found.names


def loaded(spark: SparkSession, path: str) -> list[str]:
    return spark.read.format("hudi").load(path).schema.names


@pytest.fixture(scope="module")
def plain(spark: SparkSession, workspace: Path) -> str:
    return written(spark, workspace, "plain_relation", "part")


def test_a_plain_table_needs_no_relation(spark: SparkSession, plain: str) -> None:
    assert known(spark, plain) == loaded(spark, plain)
    assert known(spark, plain)[-1] == "emb"


@pytest.mark.parametrize(
    "settings",
    [
        {"hoodie.schema.on.read.enable": "true"},
        {"hoodie.datasource.query.type": "read_optimized"},
        {"hoodie.datasource.read.extract.partition.values.from.path": "true"},
    ],
    ids=str,
)
def test_a_session_that_reads_another_way_makes_the_relation(
    spark: SparkSession, plain: str, settings: dict[str, str]
) -> None:
    with conf(spark, settings):
        assert known(spark, plain) is None
    assert known(spark, plain) is not None


@pytest.mark.parametrize(
    ("name", "value", "makes_it"),
    [("hoodie.datasource.query.type", "read_optimized", True), ("hoodie.parquet.compression.codec", "snappy", False)],
)
def test_settings_of_the_machine_make_the_relation_if_they_change_what_it_reads(
    spark: SparkSession, plain: str, name: str, value: str, makes_it: bool
) -> None:
    defaults = spark._jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
    defaults.addToGlobalProps(name, value)
    try:
        assert (known(spark, plain) is None) == makes_it
    finally:
        defaults.clearGlobalProps()


@pytest.mark.parametrize("options", [{}, OPERATION], ids=["plain", "operations"])
def test_a_table_of_no_rows(spark: SparkSession, workspace: Path, options: dict[str, str]) -> None:
    bulk = {"hoodie.datasource.write.operation": "bulk_insert"}
    path = written(spark, workspace, "relation_of_no_rows", "part", (), **bulk, **options)
    assert known(spark, path) == loaded(spark, path)


@pytest.mark.parametrize(
    ("name", "partition", "parts", "options", "expected"),
    [
        ("operations", "part", ("a",), OPERATION, None),
        ("by_time", "ts", ("a",), BY_TIME, None),
        ("deeper", "part,day", ("x/y", "z"), {}, "its own"),
        ("two_parts", "part,day", ("x", "z"), {}, "its own"),
        ("unpartitioned", "", ("a",), {}, "its own"),
    ],
)
def test_tables_whose_columns_follow_from_more_than_the_commit(
    spark: SparkSession, workspace: Path, name: str, partition: str, parts: tuple[str, ...], options: dict[str, str],
    expected: str | None,
) -> None:  # fmt: skip
    path = written(spark, workspace, f"relation_{name}", partition, parts, **options)
    assert known(spark, path) == (None if expected is None else loaded(spark, path))


def test_a_column_that_a_commit_adds_is_there_at_once(spark: SparkSession, workspace: Path) -> None:
    path = written(spark, workspace, "grown_relation", "part")
    before = resolve.resolve_name(spark, path).schema.names
    more = spark.createDataFrame([(9, 2, "a", "d", None, [1.0, 2.0], "new")], KIND + ", note STRING")
    keys = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "part"}
    settings = {**QUICK, **keys, "hoodie.table.name": "grown_relation"}
    more.write.format("hudi").options(**settings).mode("append").save(path)
    after = resolve.resolve_name(spark, path).schema.names
    assert [name for name in after if name not in before] == ["note"]
    assert after == loaded(spark, path)


def test_the_target_is_that_of_the_relation(spark: SparkSession, plain: str) -> None:
    resolve._TARGETS.forget(lambda _: True)
    known_target = resolve.resolve_name(spark, plain)
    frame = spark.read.format("hudi").load(plain)
    made = resolve.resolve_frame(spark, frame._jdf.queryExecution().analyzed(), plain)
    assert known_target.schema.jsonValue() == made.schema.jsonValue()
    assert (known_target.physical, known_target.source, known_target.as_of) == (made.physical, made.source, made.as_of)
    with pytest.raises(hv.errors.TableNotFoundError, match="there is no Hudi table at"):
        resolve.resolve_name(spark, f"{plain}/nothing/here")
