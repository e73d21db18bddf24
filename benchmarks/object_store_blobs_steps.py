"""A process of ``object_store_blobs.py``: a Spark session that takes a step of the benchmark when it is asked to.

    python benchmarks/object_store_blobs_steps.py

It reads lines of JSON and answers each by one. The first says where the rows lie, how Hadoop reaches the store, and
how much is read. Each further one names a step; its answer has the seconds that the step took and what it found.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import session
from object_store_blobs import TABLE, Size, source

import hudi_vector as hv

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HUDI = {"hoodie.metadata.enable": "false", "hoodie.bulkinsert.shuffle.parallelism": "2"}
_BLOBS = {"img": {"inline.threshold": "0"}}


@dataclass(frozen=True)
class Steps:
    """The steps; each returns what it found."""

    spark: SparkSession
    output: Path
    size: Size

    def write(self) -> dict[str, Any]:
        """Write all blobs in as many tasks as there shall be containers."""
        rows = self.spark.read.parquet(str(source(self.output))).repartition(self.size.containers)
        return self._written(rows, "bulk_insert")

    def upsert(self) -> dict[str, Any]:
        """Write every second blob again."""
        rows = self.spark.read.parquet(str(source(self.output))).where("id % 2 = 0")
        return self._written(rows.coalesce(2), "upsert")

    def mark(self) -> dict[str, Any]:
        """Find what nothing needs now."""
        return {"unneeded": len(hv.table_services.clean_blobs(self.spark, TABLE, dry_run=True, grace="0s").candidates)}

    def read_scattered(self) -> dict[str, Any]:
        """Read blobs that lie anywhere in the containers."""
        return self._read(f"id % {self.size.blobs // self.size.read} = 0")

    def read_together(self) -> dict[str, Any]:
        """Read blobs of all containers that lie side by side in each."""
        each = self.size.read // self.size.containers
        return self._read(f"img.reference.offset < {each * self.size.bytes}")

    def get(self) -> dict[str, Any]:
        """Read blobs by their keys, without a Spark job."""
        keys = [number * self.size.blobs // self.size.keys for number in range(self.size.keys)]
        return _found(hv.blobs.get(self.spark, TABLE, keys, "img").values())

    def clean(self) -> dict[str, Any]:
        """Look for blobs that nothing needs."""
        return {"kept": len(hv.table_services.clean_blobs(self.spark, TABLE, dry_run=True).kept)}

    def inventory(self) -> dict[str, Any]:
        """Count the blobs of all files."""
        rows = hv.blobs.inventory(self.spark, TABLE).collect()
        return {"files": len(rows), "blobs": sum(row.blobs for row in rows)}

    def compact(self) -> dict[str, Any]:
        """Repack what is still needed of containers half of whose bytes nothing needs."""
        done = hv.table_services.compact_blobs(
            self.spark, TABLE, live_threshold=70, assume_single_writer=True, options=_HUDI
        )
        return {"containers": done.containers_before, "new_containers": done.containers_after, "blobs": done.blobs}

    def _written(self, rows: DataFrame, operation: str) -> dict[str, Any]:
        done = hv.write(rows, TABLE, record_key="id", operation=operation, blobs=_BLOBS, options=_HUDI)
        return {"containers": done.blobs.containers, "blobs": done.blobs.blobs}

    def _read(self, condition: str) -> dict[str, Any]:
        rows = self.spark.read.format("hudi").load(TABLE).where(condition)
        return _found(row.value for row in rows.select(hv.read_blob("img").alias("value")).collect())


def _found(values: Iterable[bytes | None]) -> dict[str, Any]:
    sizes = [len(value) for value in values if value is not None]
    return {"blobs": len(sizes), "megabytes_found": round(sum(sizes) / 1e6, 2)}


def main() -> None:
    """Answer each line by one."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries and the JVM print is no answer

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    task = json.loads(sys.stdin.readline())
    settings = {f"spark.hadoop.{key}": value for key, value in task["settings"].items()}
    settings["spark.jars.packages"] = "org.apache.hadoop:hadoop-aws:3.3.4"
    output = Path(task["output"])
    spark = session(output, memory="3g", settings=settings)
    steps = Steps(spark, output, Size(**task["size"]))
    answer()
    for line in sys.stdin:
        begun = time.perf_counter()
        found = getattr(steps, json.loads(line)["step"])()
        answer(seconds=time.perf_counter() - begun, found=found)
    spark.stop()


if __name__ == "__main__":
    main()
