"""Make the archive of Spark's classes from which the tests' JVMs start.

A JVM that starts reads, parses and links some ten thousand classes of Spark. One JVM notes them when it ends (Java's
"class data sharing"); each later one maps that file, where it is there and fits, and does so in half the time.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import SparkSession

import hudi_vector as hv
from support import tables
from support.quick import ARCHIVE, FEW_STATEMENTS


def main(folder: Path) -> None:
    """Do once what most tests do, and wait for the JVM: it writes the archive after its last statement."""
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
