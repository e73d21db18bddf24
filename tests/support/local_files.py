"""Hadoop's local files without a process for each of them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.relation import class_of

_SOURCE = Path(__file__).with_name("LocalFiles.java")


def set_permissions_in_java(spark: SparkSession) -> None:
    """Have Java set the permissions of files that Hadoop makes on this machine.

    Without its native library Hadoop runs chmod for each of them, and for its checksum: 12 ms a file.
    """
    gateway = spark.sparkContext._gateway
    made = class_of(handles_of(spark), _SOURCE.read_text("utf-8"), "support.LocalFiles")
    own = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    own[0] = spark.sparkContext._jsc.hadoopConfiguration()
    use = next(method for method in made.getDeclaredMethods() if method.getName() == "use")
    use.invoke(None, own)
