"""Make the archive of Spark's classes from which the tests' JVMs start.

A JVM that starts reads, parses and links some ten thousand classes of Spark. One JVM notes them when it ends (Java's
"class data sharing"); each later one maps that file, where it is there and fits, and does so in half the time.

Spark also reads the class of each function that an RDD is given, from its jar, to look for a `return` in it and for what
its REPL adds to such functions: a tenth of the time of tests that write. Sessions that tests share take a class that does
not look, from a jar of its own. For all others the jars of these classes are packed again without compression.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyspark
from pyspark.sql import SparkSession

import hudi_vector as hv
from support import tables
from support.quick import ARCHIVE, CLOSURES, FEW_STATEMENTS

_READ_AGAIN = ("spark-core_", "spark-sql_")
# What Spark 3.5 calls of its own object (core/src/main/scala/org/apache/spark/util/ClosureCleaner.scala).
_CLOSURES = """
package org.apache.spark.util;

public final class ClosureCleaner$ {
    public static final ClosureCleaner$ MODULE$ = new ClosureCleaner$();

    public void clean(Object function, boolean checkSerializable, boolean cleanTransitively) {}
    public boolean clean$default$2() { return true; }
    public boolean clean$default$3() { return true; }
}
"""


def expand(jar: Path) -> None:
    """Pack a jar's files again as they are; one that was packed so is left alone."""
    with zipfile.ZipFile(jar) as packed:
        entries = packed.infolist()
        if all(entry.compress_type == zipfile.ZIP_STORED for entry in entries):
            return
        made = jar.with_suffix(".new")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as expanded:
            for entry in entries:
                expanded.writestr(zipfile.ZipInfo(entry.filename, entry.date_time), packed.read(entry))
    made.replace(jar)


def write_closures(spark: SparkSession, jar: Path) -> None:
    """Write a jar with a class that takes functions as they are, compiled by the compiler that Spark carries."""
    assert spark._jvm is not None
    compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_CLOSURES)
    made = jar.with_suffix(".new")
    with zipfile.ZipFile(made, "w") as packed:
        for name, content in dict(compiler.getBytecodes()).items():
            packed.writestr(f"{name.replace('.', '/')}.class", bytes(content))
    made.replace(jar)


def main(folder: Path) -> None:
    """Do once what most tests do, and wait for the JVM: it writes the archive after its last statement."""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"):
        if jar.name.startswith(_READ_AGAIN):
            expand(jar)
    noted = ARCHIVE.with_suffix(".new")
    options = FEW_STATEMENTS.replace(f"-XX:SharedArchiveFile={ARCHIVE}", "")
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dderby.system.home={folder / 'derby'} {options} -XX:ArchiveClassesAtExit={noted}",
        )
    )
    spark = hv.register(hv.configure(builder).getOrCreate())
    write_closures(spark, CLOSURES)
    path = str(folder / "table")
    tables.write(tables.frame(spark, range(6)), path)
    tables.write(tables.frame(spark, range(3, 9), seed=4), path)
    spark.sql(f"CREATE TABLE archived USING hudi LOCATION '{path}'")
    spark.sql("SELECT count(*), max(id) FROM archived GROUP BY id % 2 ORDER BY 1").collect()
    hv.search(spark, path, "emb", [1.0] * 8, 3).toPandas()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait(300)
    noted.replace(ARCHIVE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
