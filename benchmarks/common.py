"""What every benchmark needs: a session, one way of timing for all contestants, a record of the machine and of the run.

All ways to the same answer are run in turns, each round begun by another, as often as each other and after the same
warm-up: what one leaves to the disk or to the collector slows all of them. A run is written whole to
``benchmarks/results/{name}.json``, or with ``--small`` to the output folder, and the tables of docs/ are made of these
files by ``make docs``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Size = TypeVar("Size")

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass
class Results:
    """Times in seconds, by subject and way."""

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def median(self, subject: str, way: str) -> float | None:
        """The median of one way, or None if it was not taken."""
        times = self.seconds.get(subject, {}).get(way)
        return statistics.median(times) if times else None

    def add(self, subject: str, way: str, times: list[float]) -> None:
        """Keep times, and print their median and their range."""
        self.seconds.setdefault(subject, {})[way] = times
        low, middle, high = (1000 * value for value in (min(times), statistics.median(times), max(times)))
        print(f"  {subject:<22} {way:<34} {middle:10.1f} ms   {low:.1f} to {high:.1f}, of {len(times)}", flush=True)

    def medians(self) -> dict[str, dict[str, float]]:
        """Every median."""
        return {
            subject: {way: statistics.median(times) for way, times in ways.items()}
            for subject, ways in self.seconds.items()
        }


@dataclass
class Bench(Generic[Size]):
    """The session, a folder, how much is measured and what was found."""

    spark: SparkSession
    folder: Path
    size: Size
    results: Results = field(default_factory=Results)

    def compare(self, subject: str, ways: Mapping[str, Way], repeats: int, warm: int = 1, each: float = 1.0) -> None:
        """Time ways to one answer, and keep the seconds of each of `each` things."""
        for way, times in in_turns(ways, repeats, warm).items():
            self.results.add(subject, way, [seconds / each for seconds in times])


@dataclass(frozen=True)
class Way:
    """What is timed, and what has to be done before and after each run of it, outside of the time."""

    run: Callable[[], Any]
    before: Callable[[], Any] = lambda: None
    after: Callable[[], Any] = lambda: None


def in_turns(ways: Mapping[str, Way], repeats: int, warm: int = 1) -> dict[str, list[float]]:
    """Time ways that are run in rounds: each once a round, in an order of its own that is the same in every run.

    A fixed order would let one way always pay for what another leaves behind, such as memory to collect.

    Args:
        ways: What is run.
        repeats: How many rounds are timed.
        warm: How many rounds come before: classes are loaded in them, and processes started.

    Returns:
        The times of each way, in the order of the rounds.
    """
    names = list(ways)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warm + repeats):
        for name in random.Random(number).sample(names, len(names)):
            ways[name].before()
            begun = time.perf_counter()
            ways[name].run()
            seconds = time.perf_counter() - begun
            ways[name].after()
            if number >= warm:
                times[name].append(seconds)
    return times


def from_disk(folder: Path) -> None:
    """Let the system forget the content of files, so that the next read of them is one of the disk."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())  # what is not written yet cannot be forgotten
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def spread(values: list[float]) -> dict[str, float]:
    """The median of some values, the least and the largest."""
    return {"median": statistics.median(values), "least": min(values), "largest": max(values)}


def session(output: Path, memory: str = "6g", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A local session with Hudi and our functions, and further settings."""
    from pyspark.sql import SparkSession

    import hudi_vector as hv

    builder = (
        SparkSession.builder.master("local[*]")
        .appName("hudi-vector benchmark")
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(output / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={output / 'derby'}")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = hv.register(hv.configure(builder).getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def session_in(folder: Path) -> Iterator[SparkSession]:
    """Start a session for measures in a folder, which is empty at first and gone at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spark = session(folder.parent)
    try:
        yield spark
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A benchmark's options, with those that all have: the output folder, and whether this is a trial of the code."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("bench-output"), help="where tables lie meanwhile")
    parser.add_argument(
        "--small", action="store_true", help="tiny tables, few repeats: whether the benchmark works, no figures"
    )
    return parser


def environment() -> dict[str, Any]:
    """The machine and the versions, for the record."""
    import pyspark

    import hudi_vector as hv

    return {
        "machine": {
            "processor": _first_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
            "processors": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "python": platform.python_version(),
            "pyspark": pyspark.__version__,
            "pyarrow": pa.__version__,
            "numpy": np.__version__,
            "hudi_vector": hv.__version__,
        },
    }


def publish(name: str, given: argparse.Namespace, about: Mapping[str, Any], content: Mapping[str, Any]) -> Path:
    """Write a run whole.

    Args:
        name: The benchmark, and which of its runs this is.
        given: The options.
        about: From `environment`, taken before the run.
        content: What was measured.

    Returns:
        The file: among the results, or in the output folder where the run was a small one.
    """
    folder = given.output.resolve() if given.small else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    noted = {
        "benchmark": name,
        "command": " ".join(["python", os.path.relpath(sys.argv[0], RESULTS.parents[1]), *_said(sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _commit(),
        **about,
        **{key: asdict(value) if is_dataclass(value) else value for key, value in content.items()},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(noted, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\nWritten: {path}")
    return path


def _said(words: list[str]) -> list[str]:
    """The words of a command without folders of one machine: of tables, embeddings, and another checkout."""
    for folder in ("--output", "--cache", "--against"):
        if folder in words:
            at = words.index(folder)
            words = words[:at] + words[at + 2 :]
    return words


def _commit() -> str | None:
    """The commit that was measured, with a plus sign where the code was changed since."""
    told = []
    for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        ran = subprocess.run(["git", *words], cwd=RESULTS.parent, capture_output=True, text=True, check=False)
        if ran.returncode:
            return None
        told.append(ran.stdout.strip())
    return told[0] + ("+" if told[1] else "")


def _first_of(file: str, key: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
