"""Tables of every layout, made once per run: histories of real Hudi commits, kept at the stages tests ask for.

A history is a function that writes one table. Where it says `stage`, the folder as it stands is copied, so that
every stage is a table of its own: a Hudi table may be moved.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import hudi_vector as hv
from support.frames import planned
from support.processes import alone
from support.quick import QUICK

DIMENSION = 4
ID, TS, NAME = StructField("id", LongType()), StructField("ts", LongType()), StructField("name", StringType())
PRICE, CATEGORY = StructField("price", DoubleType()), StructField("category", StringType())
EMB = hv.vector_field("emb", DIMENSION)

# Layouts that need the other values say so.
SETTINGS: Mapping[str, str] = {
    **QUICK,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
}


@dataclass(frozen=True)
class Case:
    """A stage of a history, and what is expected of a search of it.

    `access` is how its slices are read, `reason` a part of what explain says of it. `native` tells whether
    Hudi's own function answers right, `condition` is a filter that keeps some rows.
    """

    history: str
    stage: str
    access: frozenset[str]
    reason: str = ""
    native: bool = False
    column: str = "emb"
    condition: str = "price < 500"
    keyed: bool = True

    def __str__(self) -> str:
        return f"{self.history}-{self.stage}"


CASES: list[Case] = []
_HISTORIES: dict[str, Callable[[Table], None]] = {}


def stage(name: str, *access: str, **expected: Any) -> Case:
    """A stage of the history that is being declared."""
    return Case("", name, frozenset(access), **expected)


def history(*stages: Case) -> Callable[[Callable[[Table], None]], Callable[[Table], None]]:
    """Declare a history by its function, and the stages it is kept at."""

    def declare(write: Callable[[Table], None]) -> Callable[[Table], None]:
        _HISTORIES[write.__name__] = write
        CASES.extend(Case(**{**entry.__dict__, "history": write.__name__}) for entry in stages)
        return write

    return declare


class Table:
    """One table while it is written."""

    def __init__(self, spark: SparkSession, root: Path, name: str) -> None:
        self.spark = spark
        self.path = root / name
        self._settings: dict[str, str] = {}
        self.kept = root / "kept"
        self._name = name

    def configure(self, table_type: str = "COPY_ON_WRITE", key: str = "id", ordering: str | None = "ts", **more: Any):
        """Settings of every write; ``a__b`` stands for ``hoodie.a.b``."""
        self._settings = {
            **SETTINGS,
            "hoodie.table.name": f"layout_{self._name}",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": key,
            **({"hoodie.table.ordering.fields": ordering} if ordering else {}),
            **_keys(more),
        }
        return self

    def write(self, rows: DataFrame, operation: str | None = None, **more: Any) -> None:
        """One commit: an upsert, or into a new table a bulk insert, a third of the work."""
        begins = operation is None and not (self.path / ".hoodie").exists()
        if begins:
            rows = rows.coalesce(1)  # one file in each partition, with the rows in their order
        settings = {
            **self._settings,
            "hoodie.datasource.write.operation": operation or ("bulk_insert" if begins else "upsert"),
            **_keys(more),
        }
        rows.write.format("hudi").options(**settings).mode("append").save(str(self.path))

    def delete(self, ids: Iterable[int], ts: int = 1000) -> None:
        """Delete rows by id."""
        self.write(self.rows(ids, ts=ts), "delete")

    def rows(self, ids: Iterable[int], seed: int = 0, ts: int = 10, **columns: Any) -> DataFrame:
        """Rows of id, name, price, category, ts, emb; ``columns`` gives a column other values, by id."""
        ids = list(ids)
        numbers = np.random.default_rng(seed)
        emb = numbers.standard_normal((len(ids), DIMENSION)).astype(np.float32)
        price = numbers.integers(0, 1000, len(ids))
        rows = [
            {
                "id": i,
                "name": f"name {i}.{seed}",
                "price": float(price[n]),
                "category": f"c{i % 3}",
                "ts": ts,
                "emb": emb[n].tolist(),
                **{name: value(i) for name, value in columns.items()},
            }
            for n, i in enumerate(ids)
        ]
        return self.frame([tuple(row.values()) for row in rows], ID, NAME, PRICE, CATEGORY, TS, EMB)

    def frame(self, rows: list[tuple[Any, ...]], *fields: StructField) -> DataFrame:
        """Rows of a schema of their own."""
        return planned(self.spark, rows, StructType(list(fields)))

    def sql(self, text: str) -> DataFrame:
        """A statement; ``{path}`` is the table's path, ``{table}`` a name for it."""
        return self.spark.sql(text.format(path=self.path, table=f"layout_{self._name}"))

    def call(self, procedure: str, **arguments: Any) -> list[Any]:
        """One of Hudi's procedures, on this table."""
        if procedure in ("run_compaction", "run_clustering"):
            arguments["options"] = ",".join(f"{key}={value}" for key, value in SETTINGS.items())
        given = ", ".join(f"{key} => {value!r}" for key, value in arguments.items())
        return self.spark.sql(f"CALL {procedure}(table => '{self.register()}', {given})").collect()

    def register(self) -> str:
        """A catalog name of the table, for statements that need one."""
        self.sql("CREATE TABLE IF NOT EXISTS {table} USING hudi LOCATION '{path}'")
        self.sql("REFRESH TABLE {table}")
        return f"layout_{self._name}"

    def instants(self) -> list[str]:
        """The completed commits' requested times."""
        names = (entry.name for entry in (self.path / ".hoodie/timeline").iterdir())
        return sorted(
            name.split("_")[0] for name in names if name.endswith(("commit", "replacecommit")) and "_" in name
        )

    def stage(self, name: str) -> None:
        """Keep the table as it stands."""
        shutil.copytree(self.path, self.kept / name)


def path_of(spark: SparkSession, shared: Path, history_name: str, stage_name: str) -> str:
    """The path of a stage; its history is written by the process that first asks for it, for all processes."""
    return str(_written(spark, shared, history_name) / stage_name)


@cache
def _written(spark: SparkSession, shared: Path, name: str) -> Path:
    """The folder of a history's stages."""
    root = shared / "layouts" / name
    root.mkdir(parents=True, exist_ok=True)
    stages = root / "stages"
    with alone(root):
        if not stages.exists():
            table = Table(spark, root, name)
            _HISTORIES[name](table)
            table.kept.rename(stages)
    return stages


def _keys(options: Mapping[str, Any]) -> dict[str, str]:
    return {f"hoodie.{key.replace('__', '.')}": str(value) for key, value in options.items()}
