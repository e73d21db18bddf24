"""How long does an erasure take, step by step, and a write that consults the list of erased keys?

    python benchmarks/erase.py [--rows 100000] [--output bench-output] [--small]

Ten keys are erased at a time, each time other ones, of a table in 8 files: with vectors alone, with an index, and with
blobs in containers. Times of a step include the look at the table before it; "in all" is the whole call, with its
proof. The write is an upsert of a fifth of the rows, without the setting and with it, when 10,000 keys were erased.
Prints medians; writes ``erase.json``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from common import Results, Way, environment, in_turns, parser_of, publish, session_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "false"}
_BLOB_BYTES = 20 << 10
_EVERY = 50  # one row of so many has a blob
_DIMENSION = 128
_KEYS = 10


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rows, repeats = (given.rows // 100, 1) if given.small else (given.rows, given.repeats)
    folder = given.output.resolve() / "erase"
    results, about = Results(), environment()
    with session_in(folder) as spark:
        for subject in ("vectors", "vectors and an index", "vectors and blobs"):
            path = folder / subject.replace(" ", "-")
            _made(spark, path, rows, subject)
            for step, times in _erased(spark, path, repeats).items():
                results.add(subject, step, times)
        for way, times in _written(spark, folder / "vectors", rows, repeats).items():
            results.add("a write", way, times)
    publish("erase", given, about, {"rows": rows, "seconds": results.seconds})


def _frame(spark: SparkSession, rows: int, *, blobs: bool = False) -> DataFrame:
    vector = f"transform(sequence(1, {_DIMENSION}), n -> CAST(sin(id * n) AS FLOAT)) emb"
    blob = (
        f"IF(id % {_EVERY} = 0, CAST(repeat(sha2(CAST(id AS STRING), 512), {_BLOB_BYTES // 128}) AS BINARY), NULL) img"
    )
    return spark.range(0, rows, 1, 8).selectExpr("CAST(id AS STRING) id", "1L ts", vector, *([blob] if blobs else []))


def _made(spark: SparkSession, path: Path, rows: int, subject: str) -> None:
    import hudi_vector as hv

    has_blobs = "blobs" in subject
    hv.write(
        _frame(spark, rows, blobs=has_blobs), str(path), record_key="id", ordering="ts", operation="bulk_insert",
        vectors={"emb": _DIMENSION}, blobs={"img": {"inline.threshold": "0"}} if has_blobs else None, options=_OPTIONS,
    )  # fmt: skip
    if "index" in subject:
        hv.index.create(spark, str(path), "emb", metric="l2", kind="ivf_sq8")


def _erased(spark: SparkSession, path: Path, repeats: int) -> dict[str, list[float]]:
    """The seconds of each step that did something, and of the whole; the first erasure is a warm-up."""
    import hudi_vector as hv

    found: dict[str, list[float]] = {}
    for number in range(repeats + 1):
        keys = [str(_EVERY * (number * _KEYS + each)) for each in range(_KEYS)]
        begun = time.perf_counter()
        done = hv.table_services.erase(spark, str(path), keys)
        seconds = time.perf_counter() - begun
        assert done.erased, done
        if number:
            for step in done.steps:
                if step.state == "done":
                    found.setdefault(step.step, []).append(step.seconds)
            found.setdefault("in all", []).append(seconds)
    return found


def _written(spark: SparkSession, path: Path, rows: int, repeats: int) -> dict[str, list[float]]:
    import hudi_vector as hv
    from hudi_vector.writing.erased.deny_list import add_erased

    add_erased(str(path), [f"erased {number}" for number in range(10_000)])
    frame = _frame(spark, rows // 5).cache()
    frame.count()

    def write(policy: str) -> None:
        options = {**_OPTIONS, "hoodie.vector.erased.keys": policy}
        hv.write(frame, str(path), record_key="id", ordering="ts", vectors={"emb": _DIMENSION}, options=options)

    ways = {
        f"hoodie.vector.erased.keys = {policy}": Way(lambda policy=policy: write(policy)) for policy in ("off", "drop")
    }
    return in_turns(ways, repeats)


if __name__ == "__main__":
    main()
