"""The main job on a cluster: driver and executors are processes of their own."""

from __future__ import annotations

import os

import pyspark
from support import servers

PROGRAM = """
import pathlib
import signal
import time

import numpy as np
from support import searched, tables

master, path = sys.argv[1:3]
spark = application(master, conf={"spark.executor.memory": "700m", "spark.executor.cores": "1", "spark.cores.max": "2",
                                  "spark.driver.host": "127.0.0.1", "spark.io.encryption.enabled": "true"})
partitioned = {"datasource__write__partitionpath__field": "category", "metadata__enable": "false"}
mor = {"datasource__write__table__type": "MERGE_ON_READ", "table__ordering__fields": "price", **partitioned}
tables.write(tables.frame(spark, range(120)), path, **mor)
tables.write(tables.frame(spark, range(0, 120, 9), seed=1), path, **mor)

pids = spark.sparkContext.parallelize(range(8), 8).map(lambda _: (__import__("time").sleep(0.3), os.getpid())[1])
workers = set(pids.collect())
assert len(workers) == 2 and os.getpid() not in workers, workers
query = tables.vectors(1, 99)[0].astype(float)
expected = searched.Expected(spark.read.format("hudi").load(path), "emb", "price < 600", 8)
for filtered, metric in ((False, "cosine"), (True, "l2")):
    text = "price < 600" if filtered else None
    got = searched.search(spark, path, "emb", query, 9, metric=metric, filter=text, execution="distributed")
    searched.assert_found(got, expected.nearest(query, 9, metric, filtered))
assert "execution   distributed" in hv.explain(hv.search, spark, path, "emb", query, execution="distributed")
batch = hv.search_batch(spark, path, "emb", np.stack([query, -query]), k=4, execution="distributed").collect()
near = [row["id"] for row in batch if row["_hudi_query_index"] == 0]
id_at = spark.read.format("hudi").load(path).drop("emb").columns.index("id")
assert near == [row[1 + id_at] for row in expected.nearest(query, 4, "cosine", False)]

# Results of more than a megabyte take another way into the JVM, and where Spark encrypts, yet another.
wide = spark.range(300).selectExpr("id", "array(cast(id AS FLOAT), 1F) AS v", "repeat(cast(id % 10 AS STRING), 5000) AS text")
hv.write(wide, path + "_wide", record_key="id", vectors={"v": 2}, options=QUICK)
found = hv.search(spark, path + "_wide", "v", [3.0, 1.0], 300, metric="l2").collect()
assert {row["id"]: row["text"] for row in found} == {n: str(n % 10) * 5000 for n in range(300)}
# Each executor keeps what it read; one that is lost leaves its slices to the others, and nothing else is read again.
placed = path + "_placed"
rows = spark.range(0, 8000, 1, 4).selectExpr("id", "transform(sequence(1, 16), n -> CAST(sin(id * n) AS FLOAT)) AS v")
one_each = {**QUICK, "hoodie.bulkinsert.sort.mode": "NONE"}
hv.write(rows, placed, record_key="id", vectors={"v": 16}, operation="bulk_insert", options=one_each)
files = [file.stat().st_size for file in pathlib.Path(placed).glob("*.parquet")]
assert len(files) == 4, files
def found():
    rows = hv.search(spark, placed, "v", [0.5] * 16, 7, metric="l2", columns=["id"], execution="distributed").collect()
    return [row["id"] for row in rows], hv.last_reports()[0].bytes_read
local = [row["id"] for row in hv.search(spark, placed, "v", [0.5] * 16, 7, metric="l2", columns=["id"], execution="local").collect()]
answer, whole = found()
assert answer == local and whole > 0 and found() == (local, 0), (answer, whole)
def executor(_):
    time.sleep(0.3)
    daemon = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2]
    return int(daemon.split()[1])
executors = set(spark.sparkContext.parallelize(range(8), 8).map(executor).collect())
assert len(executors) == 2 and os.getpid() not in executors, executors
os.kill(min(executors), signal.SIGKILL)
answer, part = found()
assert answer == local and 0.4 * whole < part < 0.6 * whole, (part, whole)
assert any(found() == (local, 0) for _ in range(8))
print("PASSED")
spark.stop()
"""


def test_the_main_job_on_a_standalone_cluster(tmp_path):
    """A master, two workers and the driver are processes of their own."""
    with servers.cluster() as master:
        home = {"SPARK_HOME": os.path.dirname(pyspark.__file__)}
        result = servers.run_program(PROGRAM, master, str(tmp_path / "t"), env=home)
    assert "PASSED" in result.stdout, result.stdout[-2000:] + result.stderr[-4000:]
