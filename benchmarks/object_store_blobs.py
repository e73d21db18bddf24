"""What do blobs on an object store wait for? Writes, reads and table services, on a store that answers late.

    python benchmarks/object_store_blobs.py [--delay 0.03] [--parts write read get clean inventory compact]
        [--output bench-output] [--small] [--show]

The store is that of `slow_store.py`: each request waits 30 ms, however many others do. A table of 2,000 blobs of 20 KB
is written by `hv.write` in 60 tasks, so that its blobs lie in 60 containers, with two base files and without Hudi's
metadata table. Then each step runs in a new process with a Spark session, and its requests alone are counted: 200
scattered blobs and 200 that lie together, by `read_blob`; ten keys by `hv.blobs.get`; a dry run of the cleaner and
another one, when nothing has changed and all files are older than a minute; the inventory; and an upsert that replaces
half of the blobs, with a compaction once the cleaner has marked. With ``--parts compact`` alone one process does all of
that.

Requests of Hudi and Spark themselves are counted apart: those that s3a sends, except for files that this package makes
below ``.hoodie/blobs`` and ``.hoodie/blob_service``. Reads of the containers are counted apart too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import environment, parser_of, publish
from searching import Process
from slow_store import BUCKET, Request, SlowStore, Watched, running, slow_store, summary, waves

TABLE = f"s3a://{BUCKET}/photos"
PARTS = ("write", "read", "get", "clean", "inventory", "compact")
_OURS = (".hoodie/blobs/", ".hoodie/blob_service/", ".hoodie/blob_refs/")
_CONTAINERS = ".hoodie/blobs/"
_SETTLED_SECONDS = 65
"""What the cleaner reads of a file is kept when the file is older than a minute."""


@dataclass(frozen=True)
class Size:
    """How many blobs, of how many bytes, in how many containers; how many are read, and looked up by key."""

    blobs: int = 2_000
    bytes: int = 20_000
    containers: int = 60
    read: int = 200
    keys: int = 10


STEPS = {
    "write": [("write", "write")],
    "read": [("read_scattered", "read_blob, scattered"), ("read_together", "read_blob, side by side")],
    "get": [("get", "hv.blobs.get"), ("get", "hv.blobs.get, again")],
    "clean": [("clean", "dry run of the cleaner"), ("clean", "dry run, nothing changed")],
    "inventory": [("inventory", "inventory")],
    "compact": [("upsert", "upsert"), ("mark", ""), ("compact", "compaction")],
}
"""The steps of each part: the function of a process, and its name for people, without which it is not counted."""


def main() -> None:
    """Run the steps on a store of their own, print and publish."""
    parser = parser_of(__doc__)
    parser.add_argument("--delay", type=float, default=0.03, help="seconds that each request waits")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--show", action="store_true", help="print what was asked for, request by request")
    given = parser.parse_args()
    size, about = Size(60, 20_000, 4, 12, 3) if given.small else Size(), environment()
    output = given.output.resolve()
    draw(output, size)
    with slow_store(given.delay) as store:
        rows = list(measured(store, output, size, given))
    content = {"delay": given.delay, "size": vars(size), "rows": rows}
    publish("object-store-blobs", given, about, content)


def draw(output: Path, size: Size) -> None:
    """Draw the rows: no two blobs are equal, and none can be compressed."""
    output.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(5)
    blobs = [chance.bytes(size.bytes) for _ in range(size.blobs)]
    pq.write_table(pa.table({"id": np.arange(size.blobs), "img": blobs}), source(output))


def source(output: Path) -> Path:
    """Where the rows lie before they are written."""
    return output / "object-store-blobs.parquet"


def measured(store: SlowStore, output: Path, size: Size, given: Namespace) -> Iterator[dict[str, Any]]:
    """Run the steps of all parts on a table that is written in any case, for a compaction alone by its process."""
    alone = given.parts == ["compact"]
    for part in PARTS:
        if part not in given.parts and (part != "write" or alone):
            continue
        if part == "clean":
            time.sleep(_SETTLED_SECONDS)
        with process_of(store, output, size) as process:
            if part == "compact" and alone:
                prepare(store, process, "write", given.delay)
            for name, said in STEPS[part]:
                if not said:
                    prepare(store, process, name, given.delay)
                    continue
                store.warm()
                with store.watched() as seen:
                    answer = process.ask({"step": name})
                row = {"step": said, "seconds": answer["seconds"], **counted(seen), **answer["found"]}
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
                if given.show:
                    show(seen)
                yield row


def prepare(store: SlowStore, process: Process, step: str, delay: float) -> None:
    """Take a step that is not counted, without waiting."""
    store.set_delay(0)
    process.ask({"step": step})
    store.set_delay(delay)


@contextlib.contextmanager
def process_of(store: SlowStore, output: Path, size: Size) -> Iterator[Process]:
    """A new process with a Spark session that reaches the store."""
    folder = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(Path(__file__).with_name("object_store_blobs_steps.py"))]
    with running(command, talks=True, env={**os.environ, "PYTHONPATH": paths}) as ran:
        process = Process(ran)
        task = {"output": str(output), "settings": store.settings, "size": vars(size)}
        process.ask(task)
        yield process


def counted(seen: Watched) -> dict[str, Any]:
    """What was asked for, in all and by whom."""
    ours = [each for each in seen.requests if is_ours(each)]
    containers = [each for each in ours if place(each).startswith(_CONTAINERS)]
    return {
        "requests": len(seen.requests),
        "of_ours": len(ours),
        "waves": seen.waves,
        "waves_of_ours": waves(ours),
        "most_at_once": seen.most_at_once,
        "megabytes": round(seen.bytes / 1e6, 2),
        "of_containers": len(containers),
        "waves_of_containers": waves(containers),
        "megabytes_of_containers": round(sum(each.answer_bytes for each in containers) / 1e6, 2),
        "heads": seen.heads,
        "lists": seen.lists,
    }


def is_ours(request: Request) -> bool:
    """Whether this package asked, or Spark did for the rows that it stages."""
    return request.agent != "Hadoop" or place(request).startswith(_OURS)


def place(request: Request) -> str:
    """Where in the table a request leads."""
    return (request.key or request.prefix).partition("/")[2]


def show(seen: Watched) -> None:
    """Print every request, with the wave that it began in."""
    print(summary(seen))
    first = min((each.start for each in seen.requests), default=0)
    for each in sorted(seen.requests, key=lambda each: each.start):
        at, until = ((time - first) / 1e6 for time in (each.start, each.end))
        print(
            f"{at:9.1f} {until:9.1f} {each.agent[:12]:<12} {each.operation:<6} {each.status} {each.range or ''} "
            f"{each.answer_bytes} {each.request_bytes} {each.key or each.prefix}"
        )


if __name__ == "__main__":
    main()
