"""What does a search cost on executors? The driver's threads and two executors of one core, over the same table.

    python benchmarks/search_cluster.py [--rows 400000] [--dimension 128] [--files 8] [--output bench-output] [--small]

A standalone cluster from the installed pyspark: a master, two workers of one core and the driver, all on this machine.
Every time is taken through ``spark.sql`` end to end, all ways in turns, each query with a vector that was not asked
before, each way after one search that is not timed. "Exact" compares all vectors, "index" takes ``ivf_sq8`` at recall
0.95. Next to them is what Spark itself takes for a statement (``SELECT 1``) and for a job of two Python tasks that do
nothing, which no search on executors does without. Then one executor is killed, and the bytes are counted that the
searches behind it read.
Writes ``search-cluster.json``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from common import Way, environment, parser_of, publish
from search import K, SearchBench, Size, make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DISTRIBUTED = {"hoodie.vector.search.execution": "distributed"}
_AIMS = {"exact": 2.0, "index": 1.5}
_MODES = {"exact": "exact", "index": "approximate"}


def main() -> None:
    """Measure, print and write."""
    arguments = _arguments()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    from support.servers import cluster

    output: Path = arguments.output.resolve()
    shutil.rmtree(output / "tables", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    few = arguments.small
    rows = max(1000, arguments.rows // 400) if few else arguments.rows
    size = Size(rows, arguments.dimension, arguments.files, ("snappy",), 3 if few else 20, 1, 2 if few else 30)
    about = environment()
    with cluster() as master:
        spark = _session(master, output)
        try:
            bench = SearchBench(spark, output / "tables", size)
            table = _table(bench)
            bench.compare("two executors", _ways(bench, table), size.repeats, size.warm)
            lost = _lost(bench, table)
        finally:
            spark.stop()
    shutil.rmtree(output / "tables", ignore_errors=True)
    print("\n" + "\n".join([*_ratios(bench), f"Bytes read: {lost}"]))
    publish("search-cluster", arguments, about, {"size": size, "seconds": bench.results.seconds, "bytes": lost})


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--files", type=int, default=8)
    return parser.parse_args()


def _session(master: str, output: Path) -> SparkSession:
    """A session of two executors of one core each."""
    from pyspark.sql import SparkSession

    import hudi_vector as hv

    settings = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "900m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(output / "warehouse"),
    }
    builder = SparkSession.builder.master(master).appName("hudi-vector benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return hv.register(hv.configure(builder).getOrCreate())


def _table(bench: SearchBench) -> Path:
    import hudi_vector as hv

    table = make_table(bench, "snappy", bench.size.rows, "snappy")
    hv.index.create(bench.spark, str(table), "emb", kind="ivf_sq8", metric="cosine")
    return table


def _ways(bench: SearchBench, table: Path) -> dict[str, Way]:
    spark, context = bench.spark, bench.spark.sparkContext
    ways = {
        "SELECT 1": Way(lambda: spark.sql("SELECT 1").collect()),
        "Python tasks that do nothing": Way(lambda: context.parallelize(range(2), 2).map(int).collect()),
    }
    for name in _MODES:
        ways[f"{name}, driver"] = bench.way(_sql(bench, table, name), repeats=True)
        ways[f"{name}, executors"] = bench.way(_sql(bench, table, name), _DISTRIBUTED, repeats=True)
    return ways


def _sql(bench: SearchBench, table: Path, name: str) -> Iterator[str]:
    while True:
        arguments = f"'{table}', 'emb', {bench.query()}, {K}, 'cosine', mode => '{_MODES[name]}'"
        yield f"SELECT id, _distance FROM hudi_vector_search({arguments})"


def _lost(bench: SearchBench, table: Path) -> dict[str, list[int]]:
    """Bytes read by exact searches on executors: one with an empty memory, one more, and some after one is killed."""
    import hudi_vector as hv

    def read() -> int:
        assert bench.spark.sql(next(statements)).collect()
        found: int = hv.last_reports()[0].bytes_read
        return found

    statements = _sql(bench, table, "exact")
    for key, value in _DISTRIBUTED.items():
        bench.spark.conf.set(key, value)
    warm = [read()]
    os.kill(_executors(bench.spark)[0], signal.SIGKILL)
    after = [read() for _ in range(2)]
    time.sleep(10)  # the cluster starts another
    after += [read() for _ in range(3)]
    return {"before": warm, "after an executor was killed": after}


def _executors(spark: SparkSession) -> list[int]:
    """The process ids of the executors: each is the parent of the daemon that forks its Python workers."""

    def executor(_: int) -> int:
        time.sleep(0.3)
        fields = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(fields[1])

    return sorted(set(spark.sparkContext.parallelize(range(8), 8).map(executor).collect()))


def _ratios(bench: SearchBench) -> list[str]:
    lines = ["How many times as long as the driver's threads"]
    for name, most in _AIMS.items():
        here, there = (bench.results.median("two executors", f"{name}, {way}") for way in ("driver", "executors"))
        assert here is not None
        assert there is not None
        lines.append(f"  {name:<8} {there / here:6.2f}, at most {most}: {'yes' if there <= most * here else 'NO'}")
    return lines


if __name__ == "__main__":
    main()
