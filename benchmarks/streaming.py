"""What does a streaming search take beside searches that a user would write into foreachBatch?

    python benchmarks/streaming.py [--vectors 100000 400000] [--dimension 128] [--output bench-output] [--quick]

A stream of files of 4,000 query vectors each, one file a micro-batch, ten nearest rows each, into a sink that keeps
nothing. ``stream`` is hv.vector_search on the stream, ``batch`` is foreachBatch with hv.search_batch, ``native`` is
foreachBatch with Hudi's own hudi_vector_search_batch, whose micro-batches have few rows, as each row costs it a scan of
the table; ``nothing`` passes the rows through: what a search adds to a micro-batch is its time without that. The first
micro-batch, in which processes start and caches fill, counts apart. All ways run on the same table, whose vectors lie
in clusters, once without and once with an index, and return the key only, or five columns. Writes ``streaming.json``.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import environment, session
from index_data import Space
from pyspark.sql import DataFrame, SparkSession

import hudi_vector as hv

_FILES, _K, _ROWS = 8, 10, 4_000
_KEY, _FIVE = ["id"], ["id", "part", "price", "name", "stock"]
_SCHEMA = "number LONG, v ARRAY<FLOAT>"

Write = Callable[[DataFrame], Any]


@dataclass
class Figures:
    """What was measured, in the order in which it was."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, subject: str, times: list[float], rows: int, less: float = 0.0) -> float:
        """Keep the times of micro-batches in milliseconds, and print what they say; the first one counts apart."""
        first, later = times[0], np.array(times[1:])
        p50, p99 = np.percentile(later, [50, 99])
        row = {
            "subject": subject,
            "rows_per_second": rows / (p50 / 1000),
            "added_p50_ms": p50 - less,
            "added_p99_ms": p99 - less,
            "first_ms": first,
            "batches": len(later),
        }
        self.rows.append(row)
        print(
            f"  {subject:<44}{row['rows_per_second']:8.0f} rows/s   added p50 {p50 - less:7.0f} ms  "
            f"p99 {p99 - less:7.0f} ms   first {first:7.0f} ms",
            flush=True,
        )
        return float(p50)


@dataclass(frozen=True)
class Bench:
    """A session, a folder, and the clusters that vectors are drawn of."""

    spark: SparkSession
    folder: Path
    space: Space
    rows: int
    figures: Figures

    def table(self, vectors: int) -> str:
        """A table of eight files."""
        source, table = self.folder / f"source{vectors}", str(self.folder / f"table{vectors}")
        source.mkdir()
        dimension, each = self.space.centres.shape[1], vectors // _FILES
        for number in range(_FILES):
            chance = np.random.default_rng(number)
            flat = pa.array(self.space.draw(each, 100 + number).ravel())
            columns = {
                "id": pa.array(np.arange(number * each, (number + 1) * each)),
                "part": pa.array([f"p{number}"] * each),
                "price": pa.array(chance.random(each)),
                "name": pa.array([f"a product of {i}" for i in range(each)]),
                "stock": pa.array(chance.integers(0, 100, each)),
                "emb": pa.FixedSizeListArray.from_arrays(flat, dimension).cast(pa.list_(pa.float32())),
            }
            pq.write_table(pa.table(columns), source / f"{number}.parquet")
        rows = self.spark.read.parquet(str(source))
        hv.write(
            rows, table, record_key="id", partition_by="part", operation="bulk_insert", vectors={"emb": dimension},
            options={"hoodie.metadata.enable": "false"},
        )  # fmt: skip
        shutil.rmtree(source)
        return table

    def asked(self, batches: int) -> Path:
        """Files of query vectors, a micro-batch each."""
        folder = self.folder / f"asked{batches}x{self.rows}"
        if not folder.exists():
            folder.mkdir()
            dimension = self.space.centres.shape[1]
            for number in range(batches):
                flat = pa.array(self.space.draw(self.rows, 1000 + number).ravel())
                columns = {
                    "number": pa.array(np.arange(self.rows) + number * self.rows),
                    "v": pa.FixedSizeListArray.from_arrays(flat, dimension).cast(pa.list_(pa.float32())),
                }
                pq.write_table(pa.table(columns), folder / f"{number:03d}.parquet", row_group_size=self.rows)
        return folder

    def stream(self, batches: int) -> DataFrame:
        """The stream, a file a micro-batch."""
        reader = self.spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.asked(batches)))

    def run(self, frame: DataFrame, each: Write | None = None) -> list[float]:
        """The milliseconds of each micro-batch."""
        writer = frame.writeStream.trigger(availableNow=True)
        writer = writer.format("noop") if each is None else writer.foreachBatch(lambda batch, _: each(batch))
        query = writer.start()
        query.awaitTermination()
        return [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]


def main() -> None:
    """Measure everything, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--native-rows", type=int, default=8, help="of its micro-batches; 0 leaves it out")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the vectors and few rows")
    given = parser.parse_args()
    output: Path = given.output.resolve()
    folder = output / "streaming"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sizes = [size // 100 for size in given.vectors] if given.quick else given.vectors
    rows, batches = (200, 3) if given.quick else (_ROWS, given.batches)
    figures = Figures()
    spark = session(output)
    try:
        bench = Bench(spark, folder, Space.of(given.dimension), rows, figures)
        for size in sizes:
            measure(bench, size, batches, given.native_rows)
    finally:
        spark.stop()
    record = {"dimension": given.dimension, "rows": rows, "k": _K, **environment(), "figures": figures.rows}
    (output / "streaming.json").write_text(json.dumps(record, indent=2))
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\nWritten: {output / 'streaming.json'}")


def measure(bench: Bench, size: int, batches: int, native: int) -> None:
    """Every way over one table."""
    table = bench.table(size)
    figures, rows = bench.figures, bench.rows
    print(f"{size} vectors")
    nothing = figures.add(f"{size}: nothing", bench.run(bench.stream(batches)), rows)

    def ours(name: str, columns: list[str], mode: str, **config: Any) -> None:
        found = hv.vector_search(
            bench.stream(batches), table, "emb", "v", _K, metric="l2", columns=columns, mode=mode, config=config
        )
        figures.add(f"{size}: stream, {name}", bench.run(found.drop("v")), rows, nothing)

    def each(columns: list[str], mode: str) -> Write:
        def write(batch: DataFrame) -> None:
            found = hv.search_batch(bench.spark, table, "emb", batch, "v", _K, metric="l2", mode=mode)
            found.select("number", "_distance", "_rank", *columns).write.format("noop").mode("overwrite").save()

        return write

    parallel = {"async": "true", "max-concurrent-operations": "2"}
    ours("no index, key", _KEY, "exact")
    ours("no index, key, async", _KEY, "exact", **parallel)
    ours("no index, five columns, async", _FIVE, "exact", **parallel)
    figures.add(f"{size}: batch, no index, key", bench.run(bench.stream(batches), each(_KEY, "exact")), rows, nothing)
    hv.index.create(bench.spark, table, "emb", metric="l2", recall_target=0.95)
    ours("index, key", _KEY, "approximate")
    ours("index, key, async", _KEY, "approximate", **parallel)
    ours("index, five columns, async", _FIVE, "approximate", **parallel)
    ours("index, exact, key, async", _KEY, "auto", **parallel)
    figures.add(
        f"{size}: batch, index, key", bench.run(bench.stream(batches), each(_KEY, "approximate")), rows, nothing
    )
    if native:
        few = replace(bench, rows=native)
        subject = f"{size}: native, key, {native} rows a batch"
        figures.add(subject, few.run(few.stream(2), _native(bench.spark, table)), native, nothing)


def _native(spark: SparkSession, table: str) -> Write:
    name = Path(table).name
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table}'")

    def write(batch: DataFrame) -> None:
        own = batch.sparkSession
        batch.createOrReplaceTempView("asked_now")
        found = own.sql(
            "SELECT number, id, _hudi_distance FROM "
            f"hudi_vector_search_batch_native('{name}', 'emb', 'asked_now', 'v', {_K}, 'l2')"
        )
        found.write.format("noop").mode("overwrite").save()

    return write


if __name__ == "__main__":
    main()
