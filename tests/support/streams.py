"""Real streams for the tests: files and memory that rows are added to, and the oracle of a streaming search."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from support import tables
from support.oracle import assert_close, distances

SCHEMA = "number LONG, v ARRAY<FLOAT>, category STRING, least DOUBLE, at TIMESTAMP"
_ARROW = pa.schema(
    [
        ("number", pa.int64()),
        ("v", pa.list_(pa.float32())),
        ("category", pa.string()),
        ("least", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
_NUMBERS = itertools.count()

CONFIG = {"snapshot-column": "seen", "refresh-interval": "0"}
"""Rows name the snapshot they were answered from, and every micro-batch looks for the newest one."""

Event = tuple[int, Any, Any, Any, Any]


class Files:
    """A folder whose Parquet files are a stream."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self.folder = spark, folder
        folder.mkdir(parents=True)

    def add(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Rows of one micro-batch at the most."""
        rows = [{**dict.fromkeys(_ARROW.names), **event} for event in events]
        name = f"{next(_NUMBERS):06d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, _ARROW), self.folder / f".{name}")
        (self.folder / f".{name}").rename(self.folder / name)

    def frame(self, **options: Any) -> DataFrame:
        """The stream."""
        return self._spark.readStream.schema(SCHEMA).options(**options).parquet(str(self.folder))


class Memory:
    """Rows in the driver's memory that are a stream: Spark's own source for tests."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        encoder = jvm.org.apache.spark.sql.Encoders.STRING()
        self._source = jvm.org.apache.spark.sql.execution.streaming.MemoryStream.apply(
            encoder, spark._jsparkSession.sqlContext()
        )
        self._spark = spark

    def add(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Rows of one micro-batch at the most."""
        texts = [json.dumps(event, default=str) for event in events]
        self._source.addData(self._jvm.PythonUtils.toSeq(texts))

    def frame(self) -> DataFrame:
        """The stream."""
        return DataFrame(self._source.toDF(), self._spark).select(F.from_json("value", SCHEMA).alias("e")).select("e.*")


def started(frame: DataFrame, checkpoint: Path | str | None = None, **options: Any) -> StreamingQuery:
    """A query into a table in memory of its own name."""
    writer = frame.writeStream.format("memory").queryName(f"found_{next(_NUMBERS)}").options(**options)
    return (writer.option("checkpointLocation", str(checkpoint)) if checkpoint else writer).start()


def rows_of(spark: SparkSession, query: StreamingQuery) -> list[Row]:
    """What a query has written to memory so far."""
    query.processAllAvailable()
    return spark.table(query.name).collect()


class States:
    """The rows of a table as Spark reads them, by the completion time of the newest commit."""

    def __init__(self, spark: SparkSession, path: Path | str) -> None:
        self._spark, self._path = spark, str(path)
        self.rows: dict[str, list[Row]] = {}

    def note(self) -> str:
        """Read the table now."""
        newest = NativeTable(Source(f"file://{self._path}", "t")).snapshot().watermark
        assert newest is not None
        self.rows[newest] = self._spark.read.format("hudi").load(self._path).collect()
        return newest

    def nearest(
        self, state: str, query: Any, k: int, metric: str = "cosine", wanted: Any = lambda row: True
    ) -> list[tuple[int, float]]:
        """(id, distance) of the nearest rows in a state, by brute force."""
        rows = [row for row in self.rows[state] if row["emb"] is not None and wanted(row)]
        if not rows or query is None:
            return []
        found = distances(np.array([row["emb"] for row in rows]), np.asarray(query), metric)
        order = sorted(zip(found, (row["_hoodie_record_key"] for row in rows), rows, strict=True), key=lambda e: e[:2])
        return [(row["id"], float(distance)) for distance, _, row in order[:k]]


def vector(seed: int) -> list[float]:
    """The query vector of a row."""
    return [float(x) for x in tables.vectors(1, 1000 + seed)[0]]


def events(numbers: Iterable[int], **more: Any) -> list[dict[str, Any]]:
    """Rows that ask."""
    return [{"number": n, "v": vector(n), "category": f"c{n % 3}", "least": 500.0, **more} for n in numbers]


def anything(event, row):
    return True


def assert_nearest(rows, states, k=3, metric="cosine", wanted=anything, query=vector):
    """Every row that asked has its nearest rows, by rank, of the snapshot its rows name."""
    by_number = {}
    for row in rows:
        by_number.setdefault(row["number"], []).append(row)
    for number, got in by_number.items():
        assert len({row["seen"] for row in got}) == 1
        expected = states.nearest(
            got[0]["seen"], query(number), k, metric, lambda row, event=got[0]: wanted(event, row)
        )
        if not expected:
            assert [(row["_rank"], row["_distance"], row["score"]) for row in got] == [(None, None, None)]
            continue
        assert [row["_rank"] for row in got] == list(range(1, len(expected) + 1))
        assert [row["id"] for row in got] == [row[0] for row in expected]
        for row, (_, distance) in zip(got, expected, strict=True):
            assert_close(row["_distance"], distance, squares=1e3)
