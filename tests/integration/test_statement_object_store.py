"""A statement on a table in an object store that answers late, in a session without Hadoop's S3 client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from support import tables
from support.lake import forget, upload
from support.loaded import module

import hudi_vector as hv
from hudi_vector.spark import relation_schema, resolve

slow = module("benchmarks/slow_store.py", "statement_slow_store")

DELAY = 0.25  # requests that are sent together are seen together on a busy machine
QUERY = [0.5, -1.0, 0.25, 2.0]


@pytest.fixture(scope="module")
def local(spark: SparkSession, workspace: Path) -> str:
    path = tables.fresh_path(workspace, "statement")
    vectors = np.random.default_rng(7).normal(size=(60, 4)).round(2).tolist()
    rows = spark.createDataFrame(
        [(i, f"p{i % 2}", vectors[i]) for i in range(60)], "id LONG, part STRING, emb ARRAY<FLOAT>"
    )
    hv.write(rows, str(path), record_key="id", partition_by="part", vectors={"emb": 4})
    hv.index.create(spark, str(path), "emb", metric="l2")
    return str(path)


@pytest.fixture(scope="module")
def store(spark: SparkSession, local: str) -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        upload(running, Path(local), "t")
        for key, value in running.settings.items():
            spark.conf.set(key, value)
        yield running
        for key in running.settings:
            spark.conf.unset(key)


def test_a_first_statement_takes_at_most_four_waves_more_than_python(
    spark: SparkSession, local: str, store: Any
) -> None:
    def rows(table: str) -> list[tuple[Any, ...]]:
        query = ", ".join(map(str, QUERY))
        called = f"hudi_vector_search('{table}', 'emb', ARRAY({query}), 5, metric => 'l2', recall_target => 0.95)"
        return [tuple(row) for row in spark.sql(f"SELECT id, part, _distance FROM {called}").collect()]

    def cold() -> None:
        forget()
        resolve._TARGETS.forget(lambda _: True)
        relation_schema._COLUMNS.forget(lambda _: True)

    expected, place = rows(local), "s3a://lake/t"
    store.warm()
    cold()
    store.set_delay(DELAY)
    with store.watched() as python:
        table = hv.open(place, column="emb", storage_options=store.settings)
        hits = table.search(QUERY, 5, metric="l2", columns=["id", "part"], recall_target=0.95).to_pylist()
    cold()
    with store.watched() as first:
        found = rows(place)
    with store.watched() as second:
        again = rows(place)
    store.set_delay(0)
    assert [tuple(hit[name] for name in ("id", "part", "_distance")) for hit in hits] == found == again == expected
    assert first.waves <= python.waves + 4, slow.summary(first)
    assert second.waves <= 6, slow.summary(second)


def test_a_place_without_a_table_is_one_sentence(spark: SparkSession, store: Any) -> None:
    with pytest.raises(hv.errors.TableNotFoundError) as refused:
        hv.search(spark, "s3a://lake/other", "emb", QUERY, 5)
    assert "s3a://lake/other" in str(refused.value)
    assert "java" not in str(refused.value)
