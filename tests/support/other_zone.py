"""A JVM in another zone than UTC: timestamps find what was visible on a timeline of local times.

Run as ``other_zone.py FOLDER ZONE``; it prints one line when all holds.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
folder, zone = Path(sys.argv[1]), sys.argv[2]
os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession  # noqa: E402 - after the path

import hudi_vector as hv  # noqa: E402
from support import tables  # noqa: E402
from support.quick import FEW_STATEMENTS  # noqa: E402

builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config(
        "spark.driver.extraJavaOptions",
        f"-Duser.timezone={zone} -Dderby.system.home={folder / 'derby'} {FEW_STATEMENTS}",
    )
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
)
spark = hv.register(hv.configure(builder).getOrCreate())


def found(as_of: object) -> list[int]:
    rows = hv.search(spark, str(folder / "t"), "emb", [1.0] * 8, 100, as_of=as_of).select("id").collect()
    return sorted(row["id"] for row in rows)


tables.write(tables.frame(spark, range(6)), folder / "t")
before = datetime.now(timezone.utc)
tables.write(tables.frame(spark, range(6, 9), seed=4), folder / "t")
after = datetime.now(timezone.utc)
assert found(before) == list(range(6)), found(before)
assert found(after) == list(range(9)), found(after)
assert found(before.strftime("%Y-%m-%d %H:%M:%S.%f")) == list(range(6)), "text in the session's zone, UTC"
spark.stop()
print("before and after agree")
