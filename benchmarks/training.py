"""Batches for training: rows with blobs in a table, next to the same bytes as files in a folder.

    python benchmarks/training.py [--rows 8000] [--kilobytes 64] [--repeats 5] [--small]

Hudi writes a table with its blobs in containers and one with them INLINE; the folder has one file for each. One process
reads whole epochs in batches of 64, from memory and from the disk, in three orders: that of the table, a shuffle of
blocks of eight neighbours, and one of single rows. Files are opened and read one by one, as a loop over a folder does,
in the same orders.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from common import Way, environment, from_disk, in_turns, parser_of, publish, session

import hudi_vector as hv
from hudi_vector.blobs.samples.index import SampleIndex
from hudi_vector.blobs.samples.order import SampleOrder
from hudi_vector.blobs.samples.plan import make_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 64
ORDERS = {"table": (False, 1), "blocks of 8": (True, 8), "single rows": (True, 1)}
STATES = ("memory", "disk")


@dataclass
class Found:
    """What was measured: seconds of each epoch by state, order and way; and what an index costs."""

    rows: int
    kilobytes: int
    seconds: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    planning: dict[str, dict[str, float]] = field(default_factory=dict)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--kilobytes", type=int, default=64, help="of each blob")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.small:
        given.rows, given.kilobytes, given.repeats = 200, 1, 1
    about = environment()
    given.output.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=given.output.resolve()))
    spark = session(given.output.resolve())
    try:
        write(spark, folder, given.rows, given.kilobytes << 10)
        spark.stop()
        publish("training", given, about, {"found": measured(folder, given)})
    finally:
        shutil.rmtree(folder)


def content(number: int, size: int) -> bytes:
    """The bytes of a row's blob."""
    return np.random.default_rng(number).bytes(size)


def write(spark: SparkSession, folder: Path, rows: int, size: int) -> None:
    """Two tables and a folder of files with the same bytes."""

    def blobs(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for start in range(0, len(frame), 256):
                part = frame.iloc[start : start + 256]
                yield part.assign(label=part["id"] % 10, image=[content(number, size) for number in part["id"]])

    df = spark.range(0, rows, 1, 2).mapInPandas(blobs, "id LONG, label LONG, image BINARY")
    for name, threshold in (("containers", "0"), ("inline", str(2 * size))):
        hv.write(
            df,
            str(folder / name),
            record_key="id",
            operation="bulk_insert",
            blobs={"image": {"inline.threshold": threshold}},
            sort_by="id",
        )
    (folder / "files").mkdir()
    for number in range(rows):
        (folder / "files" / f"{number:08d}.bin").write_bytes(content(number, size))


def measured(folder: Path, given: Any) -> Found:
    """Read epochs, all ways in turns."""
    found = Found(given.rows, given.kilobytes)
    indexes = {name: planned(folder / name, name, found) for name in ("containers", "inline")}
    begun = time.perf_counter()
    names = sorted((folder / "files").iterdir())
    found.planning["files"] = {"seconds": time.perf_counter() - begun, "bytes": float(len(pickle.dumps(names)))}
    first = indexes["containers"].read(range(BATCH))
    assert first["image"] == [content(number, given.kilobytes << 10) for number in first["id"]]
    for state in STATES:
        for order in ORDERS:
            ways = {
                name: Way(epoch(given.rows, order, index.read), before(folder / name, state))
                for name, index in indexes.items()
            }
            ways["files"] = Way(epoch(given.rows, order, files(names)), before(folder / "files", state))
            times = in_turns(ways, given.repeats)
            found.seconds.setdefault(state, {})[order] = times
            for name, taken in times.items():
                speed = given.rows / BATCH / float(np.median(taken))
                print(f"  {state:8} {order:14} {name:12} {speed:10.1f} batches/s", flush=True)
    return found


def planned(path: Path, name: str, found: Found) -> SampleIndex:
    """The index of a table, and what it costs."""
    begun = time.perf_counter()
    index = make_plan(path).index()
    seconds = time.perf_counter() - begun
    found.planning[name] = {"seconds": seconds, "bytes": float(len(pickle.dumps(index)))}
    return index


def before(folder: Path, state: str) -> Callable[[], Any]:
    """What makes the system forget the files, or nothing."""
    return (lambda: from_disk(folder)) if state == "disk" else (lambda: None)


def epoch(rows: int, order: str, read: Callable[[Any], Any]) -> Callable[[], None]:
    """Read one epoch in an order; each has another seed."""
    shuffle, block = ORDERS[order]
    numbers = iter(range(1_000_000))

    def run() -> None:
        batches = SampleOrder(rows, BATCH, shuffle, next(numbers), block)
        for number in range(batches.batches):
            read(batches.batch(0, number))

    return run


def files(names: list[Path]) -> Callable[[Any], list[bytes]]:
    """Read files one by one."""

    def read(positions: Any) -> list[bytes]:
        return [names[position].read_bytes() for position in positions.tolist()]

    return read


if __name__ == "__main__":
    main()
