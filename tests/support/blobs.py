"""Tables with blobs of known content, written by hv.write."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

import hudi_vector as hv
from support.frames import planned
from support.quick import QUICK

ROWS = StructType(
    [
        StructField("id", IntegerType()),
        StructField("ts", LongType()),
        StructField("part", StringType()),
        StructField("img", BinaryType()),
    ]
)


def content(number: int, size: int) -> bytes:
    """Bytes that differ from blob to blob."""
    unit = hashlib.sha256(str(number).encode()).digest()
    return (unit * (size // len(unit) + 1))[:size]


def rows(spark: SparkSession, sizes: Sequence[int | None], ts: int = 1) -> DataFrame:
    """A row for each size, NULL for None."""
    made = [
        (i, ts, f"p{i % 2}", None if size is None else bytearray(content(i + 1000 * ts, size)))
        for i, size in enumerate(sizes)
    ]
    return planned(spark, made, ROWS).coalesce(2)


def write(df: DataFrame, path: Path, **more: Any) -> Any:
    """hv.write with the settings that make a commit quick; a new table begins with a bulk insert, as in `tables.write`."""
    options = {**QUICK, **more.pop("options", {})}
    begins = {} if (path / ".hoodie").exists() else {"operation": "bulk_insert"}
    arguments = {"record_key": "id", "ordering": "ts", "partition_by": "part", "blobs": ["img"], **begins, **more}
    return hv.write(df, str(path), options=options, **arguments)


def stored(
    spark: SparkSession, path: Path, as_of: str | None = None, function: str = "read_blob"
) -> dict[int, bytes | None]:
    """The bytes of every row."""
    reader = spark.read.format("hudi")
    frame = (reader.option("as.of.instant", as_of) if as_of else reader).load(str(path))
    # Hudi 1.2 does not plan its own function directly over a table that is read by path.
    return by_id(frame.select("id", "img").selectExpr("id", f"{function}(img) AS b"))


def got(path: Path, ids: Iterable[int] = range(100)) -> dict[int, bytes | None]:
    """The bytes of the rows that there are of these ids, by our own reader, without a job of Spark."""
    return hv.blobs.get(None, str(path), list(ids), "img")


def by_id(frame: DataFrame) -> dict[int, bytes | None]:
    """The bytes of every row of (id, bytes); no id comes twice."""
    found = frame.collect()
    made = {row[0]: None if row[1] is None else bytes(row[1]) for row in found}
    assert len(made) == len(found), sorted(row[0] for row in found)
    return made
