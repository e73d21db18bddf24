"""What names in docstrings stand for: `globals().update(names(spark, "/tmp"))` makes them, tables and all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hudi_vector as hv

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names(spark: SparkSession, folder: str) -> dict[str, Any]:
    """Make the tables `products`, `articles`, `photos`, `albums` below a folder, and all other names of examples.

    Args:
        spark: A registered session.
        folder: Where the tables lie; nothing of these names may be there.

    Returns:
        Every name that an example may use.
    """
    numbers = np.random.default_rng(1)
    q, Q = [1.0, 2.0, 3.0], np.eye(3)  # noqa: N806 - the name that the documentation has for an array of queries
    goods = spark.createDataFrame(
        [
            (
                i,
                f"thing {i}",
                float(i),
                "DE" if i % 2 else "FR",
                v.tolist(),
                v[:2].tolist(),
                {"red": 0.5, "shoe": 1.0 + i},
            )
            for i, v in enumerate(numbers.random((200, 3)))
        ],
        "id INT, title STRING, price DOUBLE, country STRING, embedding ARRAY<FLOAT>, image ARRAY<FLOAT>, "
        "words MAP<STRING, FLOAT>",
    )
    hv.write(
        goods, f"{folder}/products", record_key="id", vectors={"embedding": 3, "image": 2}, operation="bulk_insert"
    )
    spark.sql(f"CREATE TABLE products USING hudi LOCATION '{folder}/products'")

    texts = [(i, f"text {i}", v.tolist()) for i, v in enumerate(numbers.random((20, 2)))]
    articles = spark.createDataFrame(texts, "id INT, text STRING, old ARRAY<FLOAT>")
    hv.write(articles, f"{folder}/articles", record_key="id", vectors={"old": 2})
    spark.sql(f"CREATE TABLE articles USING hudi LOCATION '{folder}/articles'")

    people = spark.createDataFrame(
        [("ann", 150.0, q, [1.0, 0.0], {"shoe": 1.0}), ("bo", 50.0, [3.0, 0.0, 1.0], [0.0, 1.0], {"red": 1.0})],
        "user STRING, budget DOUBLE, taste ARRAY<FLOAT>, looks ARRAY<FLOAT>, terms MAP<STRING, FLOAT>",
    )
    people.write.parquet(f"{folder}/events")

    uploads = spark.createDataFrame(
        [
            (name, i, "pet", bytearray(name.encode() * 1000), f"{folder}/{name}.png")
            for i, name in enumerate(("cat", "dog"))
        ],
        "id STRING, taken INT, label STRING, image BINARY, path STRING",
    )
    for table in ("photos", "albums"):
        blobs = {"image": {"inline.threshold": "0"}}
        hv.write(uploads, f"{folder}/{table}", record_key="id", ordering="taken", blobs=blobs)
        spark.sql(f"CREATE TABLE {table} USING hudi LOCATION '{folder}/{table}'")
    return {
        "spark": spark,
        "hv": hv,
        "q": q,
        "Q": Q,
        "products": spark.table("products"),
        "users": people,
        "events": spark.readStream.schema(people.schema).parquet(f"{folder}/events"),
        "uploads": uploads,
        "photos": spark.table("photos"),
    }
