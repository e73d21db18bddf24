"""What every benchmark needs: a session, times with their medians, a record of the machine."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Size = TypeVar("Size")


@dataclass
class Results:
    """Medians and single times in seconds, by subject and way."""

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def median(self, subject: str, way: str) -> float | None:
        """The median of one way, or None if it was not taken."""
        times = self.seconds.get(subject, {}).get(way)
        return statistics.median(times) if times else None

    def add(self, subject: str, way: str, times: list[float]) -> None:
        """Keep times, and print their median."""
        self.seconds.setdefault(subject, {})[way] = times
        print(f"  {subject:<22} {way:<34} {statistics.median(times) * 1000:10.1f} ms   of {len(times)}", flush=True)

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


def environment() -> dict[str, Any]:
    """Versions and processors, for the record."""
    import pyspark

    import hudi_vector as hv

    return {
        "processors": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
        "numpy": np.__version__,
        "hudi_vector": hv.__version__,
    }
