"""Many blobs through a small driver: run as ``blob_memory.py FOLDER BLOBS BYTES RANGES``, prints JSON.

A table of BLOBS references of BYTES bytes, to RANGES different ranges of one file, is read by DataFrame, and a quarter of it by SQL.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]


def worker_peaks(spark: Any) -> list[int]:
    """The largest resident size that each Python worker ever had, in bytes."""

    def peaks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        found = []
        # The worker that answers need not be one that read: all are children of one daemon.
        for file in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):  # it has ended
                status = dict(line.split(":", 1) for line in file.read_text().splitlines())
                if int(status["PPid"]) == os.getppid() and "VmHWM" in status:
                    found.append(int(status["VmHWM"].split()[0]) * 1024)
        yield pa.RecordBatch.from_arrays([pa.array(found)], names=["id"])

    return [row["id"] for row in spark.range(0, 1, 1, 1).mapInArrow(peaks, "id LONG").collect()]


def main(folder: Path, blobs: int, size: int, ranges: int) -> None:
    """Make the table, read it, print the bytes that came and the largest resident size of a worker."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import hudi_vector as hv
    from support.quick import FEW_STATEMENTS
    from support.tables import write

    file = folder / "ranges.bin"
    with file.open("wb") as made:
        for number in range(ranges):
            made.write(bytes([number % 251]) * size)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", "support.python_daemon")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path[:2]))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder / 'derby'} {FEW_STATEMENTS}")
    )
    spark = hv.register(hv.configure(builder).getOrCreate())
    rows = spark.range(0, blobs, 1, 2).selectExpr("id", f"blob_ref('{file}', (id % {ranges}) * {size}, {size}) AS img")
    write(rows, folder / "table", datasource__write__operation="bulk_insert", bulkinsert__sort__mode="NONE")
    table = spark.read.format("hudi").load(str(folder / "table"))
    counted = table.where(f"id < {blobs // 4}").selectExpr("sum(length(read_blob(img)))").collect()[0][0]
    late = hv.read_blobs(table.select("id", "img"), "img")
    again = late.selectExpr("sum(length(img))", "count(DISTINCT id)").collect()[0]
    peaks = worker_peaks(spark)
    spark.stop()
    print(json.dumps({"bytes": [counted, again[0]], "rows": again[1], "peaks": peaks}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
