"""A driver of its own that runs a streaming search until it is killed, or until all rows are through."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import hudi_vector as hv


def main(events: str, table: str, target: str, checkpoint: str) -> None:
    """Search for the rows of a folder of Parquet files, into a folder of Parquet files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = hv.register(hv.configure(builder.config("spark.log.level", "ERROR")).getOrCreate())
    stream = spark.readStream.schema(spark.read.parquet(events).schema).option("maxFilesPerTrigger", 1).parquet(events)
    found = hv.vector_search(stream, table, "emb", "v", 2, columns=["id"], config={"pin-snapshot": True})
    writer = found.drop("v").writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(target).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
