"""Does a feature slow searches that do not use it, and what does one cost that does?

    python benchmarks/paired.py [--rows 100000] [--dimension 128] [--rounds 60] [--against DIR] [--output bench-output]

On one table, the same search in rounds: plain, plain once more (which shows how far two equal ways differ by chance),
while metrics are counted and served, with a receipt made, and for groups: by `hv.open` with the vectors in memory, by
an index, and through ``spark.sql``.

``--against`` names another checkout of this repository. Plain searches then run in processes that alternate between
both, each on the same table. The ratios are of medians, in each of some parts of the run. Writes ``paired.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import Way, environment, in_turns, parser_of, publish, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
K, FILES, PER_GROUP = 10, 8, 20
PARTS = 5
PLAIN, AGAIN, SERVING = "plain", "plain, again", "metrics served"
RECEIPT, GROUPS = "receipt made", "k groups"


@dataclass(frozen=True)
class Ratio:
    """How many times as long one side took as the other.

    `ratio` is the median of the ratios of medians of parts of the run, `least` and `largest` are their range.
    `of_least` is the ratio of the least times of both, which other work of the machine changes the least.
    """

    ratio: float
    least: float
    largest: float
    of_least: float


def ratio(times: Sequence[float], base: Sequence[float], parts: int = PARTS) -> Ratio:
    """Return the ratio of two sides whose times are in the order of the rounds, and its range over so many parts.

    Example:
        >>> ratio([2.0, 4.0], [1.0, 1.0], parts=2)
        Ratio(ratio=3.0, least=2.0, largest=4.0, of_least=2.0)
    """
    cut = [round(number * len(times) / parts) for number in range(parts + 1)]
    each = [
        statistics.median(times[begin:end]) / statistics.median(base[begin:end])
        for begin, end in itertools.pairwise(cut)
        if end > begin
    ]
    return Ratio(statistics.median(each), min(each), max(each), min(times) / min(base))


def main() -> None:
    """Measure everything, print it, write it; or time plain searches for a parent process."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=60, help="how often each way runs")
    parser.add_argument("--processes", type=int, default=5, help="how many of each checkout, with --against")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout, whose plain searches are timed too"
    )
    parser.add_argument("--alone", metavar="TABLE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.small:
        given.rows, given.rounds, given.processes = 2_000, 5, 1
    if given.alone is not None:
        print(json.dumps(alone(given)))
        return
    output: Path = given.output.resolve()
    shutil.rmtree(output / "tables", ignore_errors=True)
    about = environment()
    spark = session(output)
    try:
        table = make_table(spark, output / "tables", given)
        seconds = compared(spark, table, given)
    finally:
        spark.stop()
    content: dict[str, Any] = {
        "size": {"rows": given.rows, "dimension": given.dimension, "files": FILES, "rounds": given.rounds},
        "seconds": seconds,
        "ratios": {
            subject: {way: vars(ratio(times, ways[PLAIN])) for way, times in ways.items() if way != PLAIN}
            for subject, ways in seconds.items()
        },
    }
    if given.against is not None:
        content["against"] = against(given, table, output)
    shutil.rmtree(output / "tables", ignore_errors=True)
    for subject, ways in content["ratios"].items():
        for way, found in ways.items():
            print(f"{subject:<28} {way:<20} {found['ratio']:.3f} ({found['least']:.3f} to {found['largest']:.3f})")
    publish("paired", given, about, content)


def vectors_of(given: argparse.Namespace) -> np.ndarray:
    """Return the vectors of the table, and after them 64 queries near some of them."""
    numbers = np.random.default_rng(1)
    vectors = numbers.standard_normal((given.rows, given.dimension), dtype=np.float32)
    near = vectors[numbers.integers(0, given.rows, 64)]
    return np.concatenate([vectors, near + np.float32(0.5) * numbers.standard_normal(near.shape, dtype=np.float32)])


def make_table(spark: SparkSession, folder: Path, given: argparse.Namespace) -> str:
    """Write the rows, and an index of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import hudi_vector as hv

    folder.mkdir(parents=True, exist_ok=True)
    path, vectors = str(folder / "paired"), vectors_of(given)[: given.rows]
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), given.dimension)
    rows = {"id": np.arange(given.rows), "doc_id": np.arange(given.rows) // PER_GROUP, "embedding": flat}
    pq.write_table(pa.table(rows), f"{path}.parquet")
    frame = spark.read.parquet(f"{path}.parquet").repartition(FILES)
    hv.write(frame, path, record_key="id", vectors={"embedding": given.dimension}, operation="bulk_insert")
    hv.index.create(spark, path, "embedding", metric="l2")
    return path


def compared(spark: SparkSession, table: str, given: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Time all ways to search in rounds, by subject."""
    import hudi_vector as hv
    from hudi_vector import events

    queries, seconds = vectors_of(given)[given.rows :].astype(float), {}
    with hv.metrics.serve(0), hv.open(table, column="embedding") as t:
        counting = events.listener()
        events.listen(None)

        def ways(search: Callable[..., Any], receipt: Callable[[Any], Any], groups: Any) -> dict[str, Way]:
            each: dict[str, Iterator[np.ndarray]] = {}

            def run(way: str, more: Any = None, then: Callable[[Any], Any] = lambda _: None) -> Callable[[], Any]:
                each[way] = itertools.cycle(queries)
                return lambda: then(search(next(each[way]), more))

            served = Way(run(SERVING), lambda: events.listen(counting), lambda: events.listen(None))
            plain = {way: Way(run(way)) for way in (PLAIN, AGAIN)}
            return {
                **plain,
                SERVING: served,
                RECEIPT: Way(run(RECEIPT, then=receipt)),
                GROUPS: Way(run(GROUPS, groups)),
            }

        for subject, arguments in SUBJECTS.items():

            def opened(query: Any, more: Any, arguments: Mapping[str, Any] = arguments) -> Any:
                return t.search(query, K, metric="l2", columns=["id"], **arguments, **(more or {}))

            found = ways(opened, lambda hits: hits.report.receipt(), {"group_by": "doc_id"})
            seconds[subject] = in_turns(found, given.rounds, warm=3)
        found = ways(
            lambda query, more: spark.sql(statement(table, query, more or "")).collect(),
            lambda _: hv.last_reports()[0].receipt(),
            ", group_by => 'doc_id'",
        )
        seconds["spark.sql, exact"] = in_turns(found, given.rounds, warm=3)
    return seconds


SUBJECTS: Mapping[str, Mapping[str, Any]] = {
    "hv.open, exact": {"mode": "exact"},
    "hv.open, by an index": {"mode": "approximate", "nprobes": 8},
}


def statement(table: str, query: np.ndarray, more: str = "") -> str:
    """Return an exact search as a statement of SQL."""
    text = ", ".join(f"{value:.5f}" for value in query)
    vector = f"from_json('[{text}]', 'array<float>')"
    return (
        "SELECT id, _distance FROM "
        f"hudi_vector_search('{table}', 'embedding', {vector}, {K}, 'l2', mode => 'exact'{more})"
    )


def alone(given: argparse.Namespace) -> dict[str, Any]:
    """Return the times of plain searches of this process, by subject, and whose code it ran."""
    import hudi_vector as hv

    queries, times = itertools.cycle(vectors_of(given)[given.rows :].astype(float)), {}
    with hv.open(given.alone, column="embedding") as t:
        for subject, arguments in SUBJECTS.items():
            way = Way(lambda arguments=arguments: t.search(next(queries), K, metric="l2", columns=["id"], **arguments))
            times[subject] = in_turns({PLAIN: way}, given.rounds, warm=5)[PLAIN]
    spark = session(given.output.resolve())
    way = Way(lambda: spark.sql(statement(given.alone, next(queries))).collect())
    times["spark.sql, exact"] = in_turns({PLAIN: way}, given.rounds, warm=5)[PLAIN]
    spark.stop()
    return {"code": str(Path(hv.__file__).resolve().parents[1]), "seconds": times}


def against(given: argparse.Namespace, table: str, output: Path) -> dict[str, Any]:
    """Time plain searches in processes that alternate between this checkout and another, on the same table."""
    other = given.against.resolve()
    times: dict[Path, dict[str, list[list[float]]]] = {ROOT: {}, other: {}}
    for number in range(given.processes):
        for place in (ROOT, other) if number % 2 else (other, ROOT):
            found = _in_process(given, table, output, place)
            for subject, seconds in found.items():
                times[place].setdefault(subject, []).append(seconds)
            side = "this" if place == ROOT else "the other"
            print(f"  process {number + 1} of {given.processes}, {side} checkout", flush=True)
    ratios = {}
    for subject, ours in times[ROOT].items():
        sides = [list(itertools.chain(*processes)) for processes in (ours, times[other][subject])]
        ratios[subject] = vars(ratio(*sides, parts=given.processes))
        print(f"  {subject:<28} as long as in the other checkout: {ratios[subject]}")
    return {"commit": _commit_of(other), "seconds": {"this": times[ROOT], "other": times[other]}, "ratios": ratios}


def _in_process(given: argparse.Namespace, table: str, output: Path, place: Path) -> dict[str, list[float]]:
    words = [sys.executable, __file__, "--alone", table, "--output", str(output)]
    words += ["--rows", str(given.rows), "--dimension", str(given.dimension), "--rounds", str(given.rounds)]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"a process of {place} failed: {ran.stderr[-2000:]}")
    found = json.loads(ran.stdout.splitlines()[-1])
    if Path(found["code"]) != place:
        raise SystemExit(f"the code of {found['code']} ran in place of {place}")
    return dict(found["seconds"])


def _commit_of(place: Path) -> str:
    ran = subprocess.run(["git", "rev-parse", "HEAD"], cwd=place, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


if __name__ == "__main__":
    main()
