"""What does a search of a table on an object store wait for? Ours and Lance's, on a store that answers late.

    python benchmarks/object_store.py [--rounds 3] [--delay 0.03] [--parts write measure] [--output bench-output]
        [--small]

The store is that of `slow_store.py`: each request waits 30 ms, however many others do. Tables are written by Spark as
Hudi's bulk insert writes them, but without its metadata table, get an index ``ivf_sq8``, and are copied to the store,
where the index is packed. Beside each lies Lance's copy of the same rows, in one file, with an IVF_PQ of as many lists.
``write`` makes the tables; ``measure`` uses what is there.

Every contestant searches in new processes, in rounds of changing order. A process loads all modules that a search
needs, then waits; each of its four steps begins when it is asked for, and its requests alone are counted: open and
search, search again with another query, a third query with a filter that forty rows pass, and a fourth with one that
one row in a hundred passes. k is 10, the metric l2, the columns two. A session of Spark asks the same by `spark.sql`;
it has started before the first step. The two larger tables are also searched exactly, by an index ``ivf_rabitq``, and
by processes with a cache on disk, which that of the recall filled.

Before the rounds a process of each asks 100 queries, with each filter and without one, of the same store without the
delay, for the recall. Lance gets for each the least effort whose recall is at least 0.95; ours is asked for this
recall, or for the exact rows.

At the end each table is indexed once more, from a copy without an index: ours by a session of Spark, and Lance's.

LanceDB is measured where ``HUDI_VECTOR_LANCEDB`` names an interpreter that has it, or the one that runs this does.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common import environment, parser_of, publish, session, spread
from object_store_builds import built
from object_store_data import (
    CONDITIONS,
    FEW,
    FILTER,
    QUERIES,
    RECALL,
    Case,
    copy,
    draw,
    files_of,
    least_effort,
    recall,
    stored,
    upload,
    write,
)
from searching import Contestant, has_lancedb, process_of
from slow_store import BUCKET, SlowStore, Watched, slow_store

import hudi_vector as hv
from hudi_vector.options import CACHE_DIR, Settings

STEPS: tuple[tuple[str, str | None], ...] = (
    ("open and first search", None),
    ("second search", None),
    ("search of forty rows", FEW),
    ("search with a filter", FILTER),
)
_BUILDERS = ("ours, spark.sql", "Lance, IVF_PQ")
_COUNTS = ("requests", "megabytes", "waves", "heads", "lists", "gets", "most_at_once")


@dataclass
class Measured:
    """What one contestant took for one step, by round."""

    seconds: list[float] = field(default_factory=list)
    counts: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _COUNTS})
    ids: list[list[int]] = field(default_factory=list)

    def add(self, answer: dict[str, Any], seen: Watched) -> None:
        self.seconds.append(answer["seconds"])
        self.ids.append(answer["ids"][0])
        values = {"requests": len(seen.requests), "megabytes": seen.bytes / 1e6}
        for name, kept in self.counts.items():
            kept.append(values[name] if name in values else getattr(seen, name))


def main() -> None:
    """Write the tables, measure, print, publish."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.03, help="seconds that each request waits")
    parser.add_argument("--parts", nargs="+", default=["write", "measure"], choices=("write", "measure"))
    given = parser.parse_args()
    if given.small:
        given.rounds = 1
    cases, about = cases_of(given.output.resolve(), given.small), environment()
    if "write" in given.parts:
        write_all(cases)
    if "measure" in given.parts:
        lancedb = os.environ.get("HUDI_VECTOR_LANCEDB", sys.executable)
        with slow_store(given.delay) as store:
            measured = [measure(store, case, given.delay, given.rounds, lancedb) for case in cases]
        about["versions"] |= measured[0]["versions"]
        rows = [row for each in measured for row in each["rows"]]
        content = {"delay": given.delay, "rounds": given.rounds, "queries": QUERIES, "filters": [FEW, FILTER]}
        tables, builds = [each["table"] for each in measured], [row for each in measured for row in each["builds"]]
        publish("object-store", given, about, {**content, "tables": tables, "rows": rows, "builds": builds})


def cases_of(output: Path, small: bool) -> list[Case]:
    """The tables."""
    if small:
        return [Case("f8", 4_000, 8, 1, output), Case("f20", 2_000, 20, 1, output)]
    return [
        Case("f8", 400_000, 8, 1, output),
        Case("f200", 200_000, 200, 1, output),
        Case("p50", 50_000, 50, 50, output, has_more=False),
    ]


def write_all(cases: Sequence[Case]) -> None:
    """Write the tables and Lance's copies."""
    spark = session(cases[0].output)
    try:
        for case in cases:
            draw(case)
            write(spark, case)
            print(f"{case.said}: written", flush=True)
    finally:
        spark.stop()
    for case in cases:
        copy(case)


def measure(
    store: SlowStore, case: Case, delay: float, rounds: int, lancedb: str, by_sql: bool = True
) -> dict[str, Any]:
    """Copy a table and Lance's copy to the store, and let all contestants search them, Spark's statements `by_sql`."""
    shutil.rmtree(case.kept, ignore_errors=True)
    tables = [case.table, case.bits] if case.has_more else [case.table]
    for folder in (*tables, case.copy):
        upload(store, case, files_of(folder))
    for folder in tables:
        hv.index.compact(Settings(store.settings), place_of(case, folder), "emb", grace="0s")
    store.warm()
    truth = case.truth()
    efforts = {condition: least_effort(case, truth, condition) for condition in CONDITIONS}
    print(f"{case.said}; efforts of Lance, with filters: {efforts}", flush=True)
    ready, recalls, versions = [], {}, {}
    store.set_delay(0)
    for who in contestants(store, case, lancedb, by_sql):
        queries = case.queries()[:QUERIES]
        with process_of(who) as (process, version):
            found = {
                condition: process.search(queries, condition, effort_of(who, efforts, condition), modules=True)
                for condition in CONDITIONS
            }
        recalls[who.name] = {condition: recall(each["ids"], truth[condition]) for condition, each in found.items()}
        versions[who.task["library"]] = version
        ready.append(replace(who, task={**who.task, "modules": found[FILTER]["modules"]}))
    store.set_delay(delay)
    taken = in_rounds(store, case, ready, efforts, rounds)
    rows = [row_of(case, who, step, taken[who.name, step], recalls[who.name]) for who in ready for step in STEPS]
    about = {"table": case.said, **stored(case.table), "copy": stored(case.copy), "efforts": list(efforts.values())}
    builders = [who for who in ready if who.name in _BUILDERS] if by_sql else []
    builds = built(store, case, delay, builders, process_of)
    return {"table": about, "rows": rows, "builds": builds, "versions": versions}


def place_of(case: Case, folder: Path) -> str:
    """Where a Hudi table of a case lies on the store."""
    return f"s3a://{BUCKET}/{folder.relative_to(case.folder)}"


def contestants(store: SlowStore, case: Case, lancedb: str, by_sql: bool) -> list[Contestant]:
    """Who searches a table: with an index, and without one; who has no effort takes the least that is enough."""
    keys = store.settings
    settings = {
        "aws_endpoint": store.endpoint,
        "aws_region": keys["fs.s3a.endpoint.region"],
        "aws_access_key_id": keys["fs.s3a.access.key"],
        "aws_secret_access_key": keys["fs.s3a.secret.key"],
        "allow_http": "true",
    }

    def task(library: str, effort: dict[str, Any]) -> dict[str, Any]:
        ours = library == "hudi_vector"
        return {
            "library": library,
            "place": place_of(case, case.table) if ours else f"s3://{BUCKET}/lance/{case.name}.lance",
            "settings": keys if ours else settings,
            "columns": ["id", case.text],
            "effort": effort,
            "modules": [],
        }

    target, exact, scan = {"recall_target": RECALL}, {"mode": "exact"}, {"use_index": False}
    found = [
        Contestant("ours, ivf_sq8", "index", task("hudi_vector", target)),
        Contestant("Lance, IVF_PQ", "index", task("lance", {})),
    ]
    if by_sql:
        statements = {**task("hudi_vector", target), "by_sql": True}
        found.append(Contestant("ours, spark.sql", "index", statements))
    if has_lancedb(lancedb):
        found.append(Contestant("LanceDB, IVF_PQ", "index", task("lancedb", {}), lancedb))
    if case.has_more:
        ours = task("hudi_vector", target)
        found += [
            Contestant("ours, ivf_rabitq", "index", {**ours, "place": place_of(case, case.bits)}),
            Contestant("ours, disk cache", "index", {**ours, "options": {CACHE_DIR.key: str(case.kept)}}),
            Contestant("ours, exact", "exact", task("hudi_vector", exact)),
            Contestant("Lance, exact", "exact", task("lance", scan)),
        ]
    return found


def effort_of(who: Contestant, efforts: Mapping[str | None, dict[str, int]], condition: str | None) -> dict[str, Any]:
    """The effort of a contestant: its own, or without one the least of Lance's that is enough."""
    own: dict[str, Any] = who.task["effort"]
    return own or efforts[condition]


def in_rounds(
    store: SlowStore, case: Case, ready: Sequence[Contestant], efforts: Mapping[str | None, dict[str, int]], rounds: int
) -> dict[tuple[str, tuple[str, str | None]], Measured]:
    """Let each contestant take all steps in a new process once a round, in an order that changes."""
    taken = {(who.name, step): Measured() for who in ready for step in STEPS}
    queries = case.queries()[QUERIES:]
    for number in range(rounds):
        for who in random.Random(number).sample(ready, len(ready)):
            with process_of(who) as (process, _):
                for query, step in zip(queries, STEPS, strict=True):
                    with store.watched() as seen:
                        answer = process.search(query[None], step[1], effort_of(who, efforts, step[1]))
                    taken[who.name, step].add(answer, seen)
    return taken


def row_of(
    case: Case, who: Contestant, step: tuple[str, str | None], taken: Measured, recalls: dict[str | None, float]
) -> dict[str, Any]:
    """One row of the record, which is printed."""
    told, condition = step
    counts = {name: spread(values) for name, values in taken.counts.items()}
    seconds = spread(taken.seconds)
    print(
        f"  {who.name:<16} {told:<22} {seconds['median']:6.2f} s ({seconds['least']:.2f} to {seconds['largest']:.2f})  "
        + "  ".join(f"{name} {values['median']:.4g}" for name, values in counts.items())
        + f"  recall {recalls[condition]:.3f}",
        flush=True,
    )
    return {
        "table": case.said, "way": who.name, "kind": who.kind, "step": told, "seconds": seconds, **counts,
        "recall": recalls[condition], "found": taken.ids[0],
    }  # fmt: skip


if __name__ == "__main__":
    main()
