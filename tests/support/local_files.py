"""Hadoop's local files without a process for each of them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("LocalFiles.java")


def set_permissions_in_java(spark: SparkSession) -> None:
    """Java sets the permissions of files that Hadoop makes on this machine.

    Without its native library Hadoop runs chmod for each of them, which takes a quarter of a small commit's time.
    """
    jvm, settings = spark._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text("utf-8"))
    made = compiler.getClassLoader().loadClass("support.LocalFiles")
    own = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
    own[0] = settings
    use = next(method for method in made.getDeclaredMethods() if method.getName() == "use")
    use.invoke(None, own)
