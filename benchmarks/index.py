"""What does a vector index buy? Searches with and without it, beside faiss in memory and Lance on a copy, in one run.

    python benchmarks/index.py [--set clusters] [--vectors 400000] [--files 8] [--codec snappy] [--kinds ivf_sq8 …]
        [--parts build single batch rivals chart] [--output bench-output] [--cache embeddings] [--small]

Sets: ``clusters`` are drawn in 200 clusters, each with twenty directions of its own and a little noise, queries like
them; the others are real embeddings (`embeddings.py` says which), their queries held out. ``build`` makes the table and
the indexes, and also searches by Spark; the other parts use what is there. Only a run of all parts goes to the results.
Recall is the share of the ten nearest rows by l2 that were found, ``cpu`` the milliseconds that a search takes of the
processors. Every contestant is warmed up by as many searches and asked the same queries as often; batches are timed
three times, each time with other queries. Rivals are compared where their recall is at least 0.95.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from common import environment, parser_of, publish, session, spread
from index_chart import draw
from index_data import BATCHES, WARM, Case, Figures, K, percentiles, write_table
from index_rivals import rivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = ("ivf_sq8", "ivf_flat", "ivf_rabitq", "ivf_pq", "hnsw")
_PARTS = ("build", "single", "batch", "rivals", "chart")
_NO_CACHE = {"hoodie.vector.cache.max.bytes": "0"}
_EFFORTS = {
    "ivf_rabitq": ((4, 5), (8, 5), (16, 5), (32, 10), (64, 20)),
    "ivf_pq": ((4, 5), (8, 5), (16, 5), (32, 10), (64, 20)),
    "hnsw": ((16, 2), (32, 2), (64, 2), (128, 5), (512, 5)),
}
_USUAL_EFFORTS = ((2, 2), (4, 2), (8, 2), (16, 2), (32, 2), (64, 4))


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--set", default="clusters", choices=("clusters", "digits", "glosses-64", "glosses-384"))
    parser.add_argument("--vectors", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=128, help="of the clusters")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--codec", default="snappy")
    parser.add_argument("--kinds", nargs="+", default=list(_KINDS), choices=_KINDS)
    parser.add_argument("--parts", nargs="+", default=list(_PARTS), choices=_PARTS)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=Path("embeddings"))
    parser.add_argument("--clean", action="store_true", help="delete the table afterwards")
    given = parser.parse_args()
    if given.small:
        given.vectors, given.files, given.queries = 4_000, 2, 20
    output = given.output.resolve()
    dimension = {"digits": 64, "glosses-64": 64, "glosses-384": 384}.get(given.set, given.dimension)
    case = Case(given.set, given.vectors, dimension, given.files, given.codec, given.queries, output)
    if "build" in given.parts:
        case.prepare(given.cache.resolve())
    about = environment()
    figures = Figures(case)
    print(case.folder.name)
    if "build" in given.parts:
        spark = session(output)
        try:
            build(spark, case, given.kinds, figures)
        finally:
            spark.stop()
    if "single" in given.parts:
        single(case, given.kinds, figures)
    if "batch" in given.parts:
        batch(case, given.kinds, figures)
    if "rivals" in given.parts:
        rivals(case, given.kinds, figures)
    if "chart" in given.parts:
        draw(case, figures)
    if set(given.parts) >= {"build", "single", "batch", "rivals"}:
        content = {"set": case.name, "vectors": len(case.rows()), "dimension": case.dimension, "files": case.files}
        publish(f"index-{case.folder.name}", given, about, {**content, "codec": case.codec, "rows": figures.listed()})
    if given.clean:
        shutil.rmtree(case.folder)


def build(spark: SparkSession, case: Case, kinds: Sequence[str], figures: Figures) -> None:
    """The table, its indexes, one of them brought up to date after one file changed, and searches by Spark."""
    import hudi_vector as hv

    (rows, _), table = write_table(spark, case), case.table
    hv.search(spark, table, "emb", case.asked()[0].tolist(), K, metric="l2").collect()  # starts what Spark starts once
    made = {}
    for kind in kinds:
        made[kind] = hv.index.create(spark, table, "emb", metric="l2", kind=kind)
        figures.add(f"create {kind}", seconds=made[kind].seconds, bytes_per_vector=made[kind].bytes / len(case.rows()))
    options = {"hoodie.metadata.enable": "false", "hoodie.parquet.compression.codec": case.codec}
    hv.write(rows.where("part = 'p0'").limit(100), table, record_key="id", partition_by="part", options=options)
    for kind, first in made.items():
        again = hv.index.refresh(spark, table, "emb", kind=kind)
        figures.add(
            f"refresh {kind} after 1 of {case.files} files changed", seconds=again.seconds,
            segments=again.segments_made, of_create=again.seconds / first.seconds,
        )  # fmt: skip
    target = {"mode": "approximate", "recall_target": 0.95}
    for subject, asked in (("exact", {"mode": "exact"}), ("recall target 0.95", target)):
        timed(
            figures, f"Spark, {subject}", case, 25,
            lambda q, asked=asked: ids(hv.search(spark, table, "emb", q, K, metric="l2", **asked).collect()),
        )  # fmt: skip


def single(case: Case, kinds: Sequence[str], figures: Figures) -> None:
    """One search after the other by a process that has no Spark."""
    import hudi_vector as hv

    with hv.open(case.table, column="emb", options=_NO_CACHE) as t:
        find = finder(t)
        timed(figures, "exact, read anew", case, 30, lambda q: find(q, mode="exact"))
        timed(figures, "auto by the index, read anew", case, 30, find)
    with hv.open(case.table, column="emb") as t:
        find = finder(t)
        for kind in kinds:
            for nprobes, refine_factor in _EFFORTS.get(kind, _USUAL_EFFORTS):
                asked = {"algorithm": kind, "mode": "approximate", "nprobes": nprobes, "refine_factor": refine_factor}
                timed(
                    figures, f"{kind}, {nprobes} probes, {refine_factor} k candidates", case, case.queries,
                    lambda q, asked=asked: find(q, **asked),
                )  # fmt: skip
            more = {"algorithm": kind, "recall_target": 0.95}
            timed(figures, f"{kind}, recall target 0.95", case, case.queries, lambda q, more=more: find(q, **more))
            phases(
                figures,
                f"{kind}, recall target 0.95",
                [t.search(q, K, metric="l2", columns=["id"], **more).report for q in case.asked()[: case.queries]],
            )
        timed(figures, "exact, in memory", case, case.queries, lambda q: find(q, mode="exact"))
        for share in (0.5, 0.1, 0.01, 0.001):
            text = f"price < {share}"
            allowed = {"filter": text, "mode": "exact"}
            truth = [set(find(q, **allowed)) for q in case.asked()[:50]]
            for subject, asked in (("exact", {"mode": "exact"}), ("recall target 0.95", {"recall_target": 0.95})):
                timed(
                    figures, f"filter {share}, {subject}", case, 50,
                    lambda q, asked=asked, text=text: find(q, filter=text, **asked), truth,
                )  # fmt: skip


def batch(case: Case, kinds: Sequence[str], figures: Figures) -> None:
    """Many queries at once, without Spark."""
    import hudi_vector as hv

    truth = case.batch_truth()
    ways = [("exact", {"mode": "exact"})]
    ways += [(f"{kind}, recall target 0.95", {"algorithm": kind, "recall_target": 0.95}) for kind in kinds]
    with hv.open(case.table, column="emb") as t:
        for most in (100, 1000):
            rates: dict[str, list[float]] = {subject: [] for subject, _ in ways}
            shares: dict[str, list[float]] = {subject: [] for subject, _ in ways}
            for number in range(1 + BATCHES):
                places = case.places(number, most)
                many = case.batch()[places]
                for subject, way in ways:
                    begun = time.perf_counter()
                    found = t.search_batch(many, K, metric="l2", columns=["id"], **way)
                    seconds = time.perf_counter() - begun
                    if number:  # the first batch warms up
                        rates[subject].append(len(many) / seconds)
                        rows = found.column("id").to_numpy().reshape(len(many), K)
                        pairs = zip(rows, truth[places], strict=True)
                        shares[subject] += [len(set(mine) & set(true)) / K for mine, true in pairs]
            for subject, _ in ways:
                recall = float(np.mean(shares[subject]))
                figures.add(f"batch of {most}, {subject}", recall=recall, queries_per_second=spread(rates[subject]))


def phases(figures: Figures, subject: str, reports: Sequence[Any]) -> None:
    """Latencies of the phases of searches, as their reports say them."""
    for phase in reports[0].seconds:
        figures.add(f"{subject}: {phase}", **percentiles([1000 * report.seconds[phase] for report in reports]))


def finder(t: Any) -> Callable[..., list[int]]:
    """Searches of an open table, as the numbers of the rows found."""

    def find(query: npt.NDArray[Any], **asked: Any) -> list[int]:
        found: list[int] = t.search(query, K, metric="l2", columns=["id"], **asked).column("id").to_pylist()
        return found

    return find


def ids(rows: list[Any]) -> list[int]:
    """The numbers of Spark's rows."""
    return [row["id"] for row in rows]


def timed(
    figures: Figures, subject: str, case: Case, count: int, run: Callable[[Any], Sequence[int]],
    truth: Sequence[set[int]] | None = None,
) -> None:  # fmt: skip
    """Recall and latency of searches one after the other."""
    queries = case.asked()[:count]
    known = [set(one) for one in case.truth().tolist()] if truth is None else truth
    for query in queries[:WARM]:
        run(query)
    times, shares, used = [], [], time.process_time()
    for query, true in zip(queries, known, strict=False):
        begun = time.perf_counter()
        found = run(query)
        times.append(1000 * (time.perf_counter() - begun))
        shares.append(len(true.intersection(found)) / max(1, len(true)))
    cpu = 1000 * (time.process_time() - used) / len(times)
    figures.add(subject, recall=float(np.mean(shares)), **percentiles(times), cpu=cpu)


if __name__ == "__main__":
    main()
