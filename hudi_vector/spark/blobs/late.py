"""Blobs are read after ORDER BY and LIMIT, by a rule of Spark's optimizer that is written in Java."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.spark.catalyst.relation import instance_of

__all__ = ["compiled_rule", "read_late"]


def read_late(spark: SparkSession) -> None:
    """Have a session read the blobs of those rows that are left by ORDER BY and LIMIT."""
    compiled_rule(handles_of(spark)).install(spark._jsparkSession)


def compiled_rule(handles: Handles) -> JavaObject:
    """Return the rule in a JVM, which compiles it once."""
    return instance_of(handles, "hudi_vector.spark.blobs", "LateBlobs.java", "org.apache.hudi.vector.LateBlobs")
