"""What does the vector index buy? Searches with and without it, without Spark, on one table in one run.

    python benchmarks/index.py [--vectors 400000] [--dimension 128] [--output bench-output] [--quick]

The vectors lie in 200 clusters, each with twenty directions of its own and a little noise; queries are drawn like them.
"Exact, in memory" scans vectors that are decoded already, "read anew" has no cache. Recall is the share of the ten
nearest rows that were found. Prints medians, percentiles and ratios; writes ``index.json``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from common import environment, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLUSTERS, _DIRECTIONS, _FILES, _K = 200, 20, 8, 10
_NO_CACHE = {"hoodie.vector.cache.max.bytes": "0"}
_EFFORTS = ((4, 2), (8, 2), (16, 2), (16, 4), (32, 4))


@dataclass
class Figures:
    """What was measured, in the order in which it was."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, subject: str, **values: Any) -> None:
        """Keep a row, and print it."""
        self.rows.append({"subject": subject, **values})
        print(f"  {subject:<44}" + "  ".join(f"{key} {_shown(value)}" for key, value in values.items()))


def main() -> None:
    """Measure everything, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the vectors")
    given = parser.parse_args()
    vectors, queries = (given.vectors // 100, 20) if given.quick else (given.vectors, given.queries)
    output: Path = given.output.resolve()
    folder = output / "index"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    space = Space.of(given.dimension)
    figures = Figures()
    spark = session(output)
    try:
        build(spark, folder, space, vectors, figures)
    finally:
        spark.stop()
    search(str(folder / "table"), space, queries, figures)
    (output / "index.json").write_text(
        json.dumps({"vectors": vectors, "dimension": given.dimension, **environment(), "rows": figures.rows}, indent=2)
    )
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\nWritten: {output / 'index.json'}")


@dataclass(frozen=True)
class Space:
    """Clusters of vectors: their centres, shape (c, d), and directions, shape (c, r, d)."""

    centres: npt.NDArray[np.float32]
    directions: npt.NDArray[np.float32]

    @classmethod
    def of(cls, dimension: int) -> Space:
        """The same clusters each time."""
        chance = np.random.default_rng(0)
        centres = 2 * chance.standard_normal((_CLUSTERS, dimension))
        directions = 0.35 * chance.standard_normal((_CLUSTERS, _DIRECTIONS, dimension))
        return cls(centres.astype(np.float32), directions.astype(np.float32))

    def draw(self, count: int, seed: int) -> npt.NDArray[np.float32]:
        """Vectors, shape (count, d)."""
        chance = np.random.default_rng(seed)
        label = chance.integers(0, len(self.centres), count)
        inside = chance.standard_normal((count, _DIRECTIONS)).astype(np.float32)
        noise = 0.1 * chance.standard_normal((count, self.centres.shape[1]))
        spread = np.empty((count, self.centres.shape[1]), np.float32)
        for start in range(0, count, 4096):
            part = slice(start, start + 4096)
            spread[part] = np.einsum("ij,ijk->ik", inside[part], self.directions[label[part]])
        return (self.centres[label] + spread + noise).astype(np.float32)


def build(spark: SparkSession, folder: Path, space: Space, vectors: int, figures: Figures) -> None:
    """A table of eight files, its indexes, and one of them brought up to date after one file changed."""
    import hudi_vector as hv

    source, table = folder / "source", str(folder / "table")
    source.mkdir()
    dimension, each = space.centres.shape[1], vectors // _FILES
    for number in range(_FILES):
        flat = pa.array(space.draw(each, 100 + number).ravel())
        ids = np.arange(number * each, (number + 1) * each)
        columns = {
            "id": pa.array(ids),
            "part": pa.array([f"p{number}"] * each),
            "price": pa.array(np.random.default_rng(number).random(each)),
            "emb": pa.FixedSizeListArray.from_arrays(flat, dimension).cast(pa.list_(pa.float32())),
        }
        pq.write_table(pa.table(columns), source / f"{number}.parquet")
    rows = spark.read.parquet(str(source))
    options = {"hoodie.metadata.enable": "false"}
    hv.write(
        rows, table, record_key="id", partition_by="part", operation="bulk_insert", vectors={"emb": dimension},
        options=options,
    )  # fmt: skip
    print("building")
    made = {kind: hv.index.create(spark, table, "emb", metric="l2", kind=kind) for kind in ("ivf_sq8", "ivf_flat")}
    for kind, one in made.items():
        figures.add(f"create {kind}", seconds=one.seconds, bytes_per_vector=one.bytes / vectors)
    hv.write(rows.where("part = 'p0'").limit(100), table, record_key="id", partition_by="part", options=options)
    again = hv.index.refresh(spark, table, "emb", kind="ivf_sq8")
    figures.add(
        "refresh after 1 of 8 files changed",
        seconds=again.seconds,
        segments=again.segments_made,
        of_create=again.seconds / made["ivf_sq8"].seconds,
    )
    hv.index.refresh(spark, table, "emb", kind="ivf_flat")


def search(table: str, space: Space, count: int, figures: Figures) -> None:
    """Single searches and batches by a process that has no Spark."""
    import hudi_vector as hv

    queries = space.draw(count, 7).astype(np.float64)
    with hv.open(table, column="emb") as t:
        print("single searches")
        truth = [_found(t.search(query, _K, metric="l2", mode="exact", columns=["id"])) for query in queries]
        single(
            figures,
            "exact, in memory",
            truth,
            queries,
            lambda q: t.search(q, _K, metric="l2", mode="exact", columns=["id"]),
        )
        for kind in ("ivf_sq8", "ivf_flat"):
            for nprobes, refine_factor in _EFFORTS:
                asked = {"algorithm": kind, "mode": "approximate", "nprobes": nprobes, "refine_factor": refine_factor}
                single(
                    figures, f"{kind}, {nprobes} lists, {refine_factor} k candidates", truth, queries,
                    lambda q, asked=asked: t.search(q, _K, metric="l2", columns=["id"], **asked),
                )  # fmt: skip
        target = {"recall_target": 0.95}
        single(
            figures,
            "recall target 0.95",
            truth,
            queries,
            lambda q: t.search(q, _K, metric="l2", columns=["id"], **target),
        )
        for share in (0.5, 0.1, 0.01, 0.001):
            text = f"price < {share}"
            exact = [
                _found(t.search(q, _K, metric="l2", mode="exact", filter=text, columns=["id"])) for q in queries[:50]
            ]
            for name, more in (("exact", {"mode": "exact"}), ("auto", {}), ("recall target 0.95", target)):
                single(
                    figures, f"filter {share}, {name}", exact, queries[:50],
                    lambda q, more=more, text=text: t.search(q, _K, metric="l2", filter=text, columns=["id"], **more),
                )  # fmt: skip
        print("batches")
        for size in (100, 1000):
            many = space.draw(size, 9).astype(np.float64)
            seconds = {}
            for name, more in (("exact", {"mode": "exact"}), ("recall target 0.95", target)):
                t.search_batch(many, _K, metric="l2", **more)
                begun = time.perf_counter()
                t.search_batch(many, _K, metric="l2", **more)
                seconds[name] = time.perf_counter() - begun
                figures.add(
                    f"batch of {size}, {name}",
                    queries_per_second=size / seconds[name],
                    ratio=seconds["exact"] / seconds[name],
                )
    with hv.open(table, column="emb", options=_NO_CACHE) as t:
        few = queries[: max(3, count // 20)]
        single(
            figures,
            "exact, read anew",
            truth,
            few,
            lambda q: t.search(q, _K, metric="l2", mode="exact", columns=["id"]),
        )
        single(
            figures, "auto by the index, read anew", truth, few, lambda q: t.search(q, _K, metric="l2", columns=["id"])
        )


def single(
    figures: Figures, subject: str, truth: list[set[int]], queries: npt.NDArray[Any], run: Callable[[Any], Any]
) -> None:
    """Recall and latency of searches one after the other."""
    run(queries[0])
    times, shares = [], []
    for query, true in zip(queries, truth, strict=False):
        begun = time.perf_counter()
        found = run(query)
        times.append(1000 * (time.perf_counter() - begun))
        shares.append(len(_found(found) & true) / max(1, len(true)))
    p50, p90, p99 = np.percentile(times, [50, 90, 99])
    figures.add(subject, recall=float(np.mean(shares)), p50=float(p50), p90=float(p90), p99=float(p99))


def _found(hits: Any) -> set[int]:
    return set(hits.column("id").to_pylist())


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
