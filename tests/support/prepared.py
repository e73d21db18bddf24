"""Tables that are written once and given to each test as they were written: to copy a folder takes no commit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Prepared:
    """A table that tests change, and a copy of its folder; it keeps its path, which references of blobs name."""

    spark: SparkSession
    path: Path
    aside: Path

    @classmethod
    def of(cls, spark: SparkSession, path: Path, name: str = "aside") -> Prepared:
        """Keep a table as it is now; `name` tells several states of one table apart."""
        aside = path.with_name(f"{path.name}.{name}")
        shutil.copytree(path, aside)
        return cls(spark, path, aside)

    def again(self) -> Path:
        """The path of the table, which is as it was kept."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.aside, self.path)
        self.spark.catalog.refreshByPath(str(self.path))
        return self.path
