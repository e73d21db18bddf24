"""What does a streaming search take beside searches that a user would write into foreachBatch?

    python benchmarks/streaming.py [--vectors 100000 400000] [--dimension 128] [--output bench-output] [--small]

A stream of files of 4,000 query vectors each, one file a micro-batch, ten nearest rows each, into a sink that keeps
nothing. ``stream`` is hv.vector_search on the stream, ``batch`` is foreachBatch with hv.search_batch, ``native`` is
foreachBatch with Hudi's own hudi_vector_search_batch, whose micro-batches have few rows, as each row costs it a scan of
the table, and ours get as few beside it; ``nothing`` passes the rows through. Rates are the rows of all micro-batches
but the first, in which processes start and caches fill, over the time from the end of the first to the end of the last:
slow micro-batches and pauses between them count. All ways run on the same table, whose vectors lie in clusters, once
without and once with an index, and return the key only, or five columns. Each stream's recall is that of the first
queries of a micro-batch of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import environment, parser_of, publish, session_in, spread
from index_data import Space, nearest
from pyspark.sql import DataFrame, SparkSession

import hudi_vector as hv

_FILES, _K, _ROWS, _JUDGED = 8, 10, 4_000, 500
_KEY, _FIVE = ["id"], ["id", "part", "price", "name", "stock"]
_SCHEMA = "number LONG, v ARRAY<FLOAT>"

Write = Callable[[DataFrame], Any]


@dataclass(frozen=True)
class Batch:
    """When a micro-batch ended, in seconds, and how long it took."""

    ended: float
    seconds: float


@dataclass
class Figures:
    """What was measured, in the order in which it was."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, subject: str, batches: list[Batch], rows: int, recall: float | None = None) -> None:
        """Keep what a stream's micro-batches of so many rows took, and print it; the first one counts apart."""
        first, later = batches[0], batches[1:]
        rate = rows * len(later) / (later[-1].ended - first.ended)
        seconds = spread([batch.seconds for batch in later])
        row = {"subject": subject, "rows_per_second": rate, "batch_seconds": seconds, "batch_rows": rows}
        self.rows.append(row | {"batches": len(later), "first_seconds": first.seconds, "recall": recall})
        found = "" if recall is None else f"   recall {recall:.3f}"
        print(
            f"  {subject:<52}{rate:8.1f} rows/s   a batch {seconds['median']:7.2f} s, {seconds['least']:.2f} to "
            f"{seconds['largest']:.2f}   first {first.seconds:6.2f} s{found}",
            flush=True,
        )


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

    def run(self, frame: DataFrame, each: Write | None = None) -> list[Batch]:
        """The micro-batches of a stream."""
        writer = frame.writeStream.trigger(availableNow=True)
        writer = writer.format("noop") if each is None else writer.foreachBatch(lambda batch, _: each(batch))
        query = writer.start()
        query.awaitTermination()
        return [_batch(progress) for progress in query.recentProgress if progress["numInputRows"]]

    def judged(self, vectors: int) -> tuple[Any, Any]:
        """The first queries of a micro-batch, and the numbers of their nearest rows."""
        each = vectors // _FILES
        rows = np.concatenate([self.space.draw(each, 100 + number) for number in range(_FILES)])
        asked = self.space.draw(self.rows, 1000)[:_JUDGED]
        return asked, nearest(rows, asked)


def _batch(progress: Any) -> Batch:
    begun = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    return Batch(begun + seconds, seconds)


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--vectors", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--native-rows", type=int, default=8, help="of its micro-batches; 0 leaves it out")
    given = parser.parse_args()
    folder = given.output.resolve() / "streaming"
    sizes = [4_000] if given.small else given.vectors
    rows, batches = (200, 3) if given.small else (_ROWS, given.batches)
    figures, about = Figures(), environment()
    with session_in(folder) as spark:
        bench = Bench(spark, folder, Space.of(given.dimension), rows, figures)
        for size in sizes:
            Case(bench, size, batches).measure(given.native_rows)
    publish("streaming", given, about, {"dimension": given.dimension, "rows": rows, "k": _K, "figures": figures.rows})


_PARALLEL = {"async": "true", "max-concurrent-operations": "2"}


@dataclass(frozen=True)
class Case:
    """Every way over one table."""

    bench: Bench
    size: int
    batches: int

    @cached_property
    def table(self) -> str:
        """The table, without an index at first."""
        return self.bench.table(self.size)

    @cached_property
    def judged(self) -> tuple[Any, Any]:
        """Queries and their true rows."""
        return self.bench.judged(self.size)

    def measure(self, native: int) -> None:
        """Every way, without an index and with one, and with micro-batches as small as the native function's."""
        print(f"{self.size} vectors")
        self.add("nothing", lambda bench: bench.stream(self.batches))
        self.ours("no index, key", _KEY, "exact")
        self.ours("no index, key, async", _KEY, "exact", **_PARALLEL)
        self.ours("no index, five columns, async", _FIVE, "exact", **_PARALLEL)
        self.each("batch, no index, key", self.batch(_KEY, "exact"), "exact")
        few = replace(self, bench=replace(self.bench, rows=native)) if native else None
        if few is not None:
            few.__dict__["table"] = self.table
            few.ours(f"no index, key, {native} rows a batch", _KEY, "exact")
        hv.index.create(self.bench.spark, self.table, "emb", metric="l2", recall_target=0.95)
        self.ours("index, key", _KEY, "approximate")
        self.ours("index, key, async", _KEY, "approximate", **_PARALLEL)
        self.ours("index, five columns, async", _FIVE, "approximate", **_PARALLEL)
        self.ours("index, exact, key, async", _KEY, "exact", **_PARALLEL)
        self.each("batch, index, key", self.batch(_KEY, "approximate"), "approximate")
        if few is not None:
            few.ours(f"index, key, {native} rows a batch", _KEY, "approximate")
            few.each(f"native, key, {native} rows a batch", _native(self.bench.spark, self.table))

    def add(self, name: str, stream: Callable[[Bench], DataFrame], each: Write | None = None, **more: Any) -> None:
        """Time a stream, or what foreachBatch does with it."""
        bench = self.bench
        bench.figures.add(f"{self.size}: {name}", bench.run(stream(bench), each), bench.rows, **more)

    def ours(self, name: str, columns: list[str], mode: str, **config: Any) -> None:
        """A streaming search, and its recall."""

        def found(batches: int, bench: Bench) -> DataFrame:
            stream = bench.stream(batches)
            return hv.vector_search(
                stream, self.table, "emb", "v", _K, metric="l2", columns=columns, mode=mode, config=config
            ).drop("v")

        kept: list[Any] = []
        self.bench.run(found(1, self.bench), lambda batch: kept.extend(batch.select("number", "id").collect()))
        self.add(f"stream, {name}", lambda bench: found(self.batches, bench), recall=self.recall(kept))

    def batch(self, columns: list[str], mode: str) -> Write:
        """What a user writes into foreachBatch."""

        def write(batch: DataFrame) -> None:
            found = hv.search_batch(self.bench.spark, self.table, "emb", batch, "v", _K, metric="l2", mode=mode)
            found.select("number", "_distance", "_rank", *columns).write.format("noop").mode("overwrite").save()

        return write

    def each(self, name: str, write: Write, mode: str | None = None) -> None:
        """A way of foreachBatch, with the recall of batch searches of a mode."""
        recall = None
        if mode is not None:
            asked = self.bench.spark.read.schema(_SCHEMA).parquet(str(self.bench.asked(1)))
            found = hv.search_batch(self.bench.spark, self.table, "emb", asked, "v", _K, metric="l2", mode=mode)
            recall = self.recall(found.select("number", "id").collect())
        self.add(name, lambda bench: bench.stream(self.batches), write, recall=recall)

    def recall(self, rows: list[Any]) -> float:
        """The share of the true rows of the judged queries among pairs of query and row."""
        asked, truth = self.judged
        found: dict[int, set[int]] = {}
        for row in rows:
            found.setdefault(row["number"], set()).add(row["id"])
        return float(np.mean([len(found[n] & set(truth[n].tolist())) / _K for n in range(len(asked))]))


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
