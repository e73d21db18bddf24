"""Small real Hudi tables for the tests, made by Hudi's own writers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import hudi_vector as hv
from support.frames import planned
from support.quick import QUICK

DIMENSION = 8
_NUMBERS = itertools.count()


def schema(dimension: int = DIMENSION, element: str = "float") -> StructType:
    """id, name, price, category, emb."""
    return StructType(
        [
            StructField("id", LongType()),
            StructField("name", StringType()),
            StructField("price", DoubleType()),
            StructField("category", StringType()),
            hv.vector_field("emb", dimension, element),
        ]
    )


def vectors(count: int, seed: int, dimension: int = DIMENSION, element: str = "float") -> np.ndarray:
    """Random vectors, shape (count, dimension)."""
    numbers = np.random.default_rng(seed)
    if element == "int8":
        return numbers.integers(-128, 128, (count, dimension)).astype(np.int8)
    return numbers.standard_normal((count, dimension)).astype(np.float32 if element == "float" else np.float64)


def frame(
    spark: SparkSession, ids: Iterable[int], seed: int = 0, *, dimension: int = DIMENSION, element: str = "float"
) -> DataFrame:
    """Rows with these ids and random vectors."""
    ids = list(ids)
    numbers = np.random.default_rng(seed + 1)
    rows = [
        (i, f"name {i}", float(numbers.integers(0, 1000)), f"c{i % 3}", vector.tolist())
        for i, vector in zip(ids, vectors(len(ids), seed, dimension, element), strict=True)
    ]
    return planned(spark, rows, schema(dimension, element))


def write(df: DataFrame, path: Path | str, **options: Any) -> None:
    """Write with Hudi's own DataFrame writer: an upsert, or into a new table a bulk insert, a third of the work."""
    begins = "datasource__write__operation" not in options and not Path(path, ".hoodie").exists()
    if begins:
        df = df.coalesce(1)  # one file in each partition, with the rows in their order
    settings: Mapping[str, str] = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "bulk_insert" if begins else "upsert",
        **QUICK,
        **{f"hoodie.{key.replace('__', '.')}": str(value) for key, value in options.items()},
    }
    df.write.format("hudi").options(**settings).mode("append").save(str(path))


def fresh_path(workspace: Path, name: str = "t") -> Path:
    """A path no other test uses."""
    return workspace / f"{name}_{next(_NUMBERS)}"


def fresh_name(name: str = "t") -> str:
    """A catalog name no other test uses."""
    return f"{name}_{next(_NUMBERS)}"
