"""The tables of the object store's benchmark: their rows, the Hudi tables made of them, and Lance's copies."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from index_data import Floats, K, Space, nearest
from slow_store import BUCKET, SlowStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 100
"""How many queries recall is measured with."""
FILTER = "price < 10"
"""One row in a hundred passes: prices are whole numbers below 1,000."""
FEW = "id < 40"
"""Forty rows pass, which lie in all files unless the table has partitions."""
CONDITIONS = (None, FEW, FILTER)
RECALL = 0.95
_PRICES = 1000
_RISING = ((1, 2), (2, 2), (4, 2), (8, 2), (16, 2), (16, 5), (32, 5), (64, 5), (64, 10), (128, 10), (256, 20))
"""Lists looked at, and candidates for each row wanted."""


@dataclass(frozen=True)
class Case:
    """One table: its rows, its files, its partitions (1 for none), the column of text that is read of rows found.

    With `has_more` it is also searched exactly, by codes of bits, and with a cache on disk.
    """

    name: str
    rows: int
    files: int
    partitions: int
    output: Path
    has_more: bool = True
    dimension: int = 128
    text: str = "title"

    @property
    def folder(self) -> Path:
        return self.output / "object-store"

    @property
    def table(self) -> Path:
        """The Hudi table."""
        return self.folder / self.name

    @property
    def bits(self) -> Path:
        """The Hudi table once more, with an index whose codes have a bit for each element."""
        return self.folder / "bits" / self.name

    @property
    def kept(self) -> Path:
        """The cache on disk of the processes that have one."""
        return self.folder / "kept" / self.name

    @property
    def source(self) -> Path:
        """The rows, as both tables have them."""
        return self.folder / "source" / f"{self.name}.parquet"

    @property
    def copy(self) -> Path:
        """Lance's copy."""
        return self.folder / "lance" / f"{self.name}.lance"

    @property
    def said(self) -> str:
        """What the table is, for people."""
        lies = f"{self.files} files" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{self.rows:,} rows in {lies}"

    def queries(self) -> Floats:
        """Vectors that are not among the rows, shape (100 + 4, d): those of recall, and one for each step."""
        return Space.of(self.dimension).draw(QUERIES + 4, 7)

    def truth(self) -> dict[str | None, list[list[int]]]:
        """The nearest rows of each query of recall, without a filter and with each."""
        rows = pq.read_table(self.source, columns=["price", "emb"])
        vectors = _vectors_of(rows)
        passing = np.flatnonzero(rows["price"].to_numpy() < 10)
        asked = self.queries()[:QUERIES].astype(np.float64)
        return {
            None: nearest(vectors, asked).tolist(),
            FEW: nearest(vectors[:40], asked).tolist(),
            FILTER: passing[nearest(vectors[passing], asked)].tolist(),
        }


def draw(case: Case) -> None:
    """Draw the rows."""
    case.source.parent.mkdir(parents=True, exist_ok=True)
    numbers, chance = np.arange(case.rows), np.random.default_rng(1)
    vectors = Space.of(case.dimension).draw(case.rows, 100)
    columns = {
        "id": pa.array(numbers),
        case.text: pa.array([f"title of product number {number}" for number in numbers]),
        "price": pa.array(chance.integers(0, _PRICES, case.rows)),
        "part": pa.array([f"p{number:03d}" for number in numbers * case.partitions // case.rows]),
        "emb": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), case.dimension),
    }
    pq.write_table(pa.table(columns), case.source)


def write(spark: SparkSession, case: Case) -> None:
    """Write the Hudi table as Hudi's bulk insert does, but without its metadata table, and its indexes."""
    import hudi_vector as hv

    for folder in (case.table, case.bits):
        shutil.rmtree(folder, ignore_errors=True)
    rows = spark.read.parquet(str(case.source)).withColumn("emb", _floats())
    rows = rows.repartition(case.files, "id" if case.partitions == 1 else "part")
    options = {"hoodie.metadata.enable": "false", "hoodie.bulkinsert.sort.mode": "NONE"}
    options["hoodie.bulkinsert.shuffle.parallelism"] = str(case.files)
    partition = {} if case.partitions == 1 else {"partition_by": "part"}
    vectors = {"emb": case.dimension}
    hv.write(
        rows, str(case.table), record_key="id", operation="bulk_insert", vectors=vectors, options=options, **partition
    )
    if case.has_more:
        shutil.copytree(case.table, case.bits)
        hv.index.create(spark, str(case.bits), "emb", **{**our_index(), "kind": "ivf_rabitq"})
    hv.index.create(spark, str(case.table), "emb", **our_index())


def copy(case: Case) -> None:
    """Write Lance's copy, in one file, and its index."""
    import lance

    shutil.rmtree(case.copy, ignore_errors=True)
    case.copy.parent.mkdir(parents=True, exist_ok=True)
    data = lance.write_dataset(pq.read_table(case.source), str(case.copy))
    data.create_index("emb", **lance_index(case))


def lance_index(case: Case) -> dict[str, Any]:
    """What Lance's index is to be: an IVF_PQ with the share of lists that ours has by default."""
    from hudi_vector.index.kinds.model import default_partitions
    from hudi_vector.kernels.product import usual_parts

    lists, parts = default_partitions(case.rows), usual_parts(case.dimension, 8)
    return {"index_type": "IVF_PQ", "metric": "L2", "num_partitions": lists, "num_sub_vectors": parts}


def our_index() -> dict[str, Any]:
    """What our index is to be."""
    return {"metric": "l2", "kind": "ivf_sq8", "recall_target": RECALL}


def least_effort(case: Case, truth: dict[str | None, list[list[int]]], condition: str | None) -> dict[str, int]:
    """Return the least effort of Lance's index whose recall is enough, or the most if none is."""
    import lance

    data, effort = lance.dataset(str(case.copy)), {}
    for probes, refine in _RISING:
        effort = {"nprobes": probes, "refine_factor": refine}
        found = []
        for query in case.queries()[:QUERIES]:
            asked = {"column": "emb", "q": query, "k": K, **effort}
            rows = data.to_table(
                columns=["id", "_distance"], nearest=asked, filter=condition, prefilter=condition is not None
            )
            found.append(rows["id"].to_pylist())
        if recall(found, truth[condition]) >= RECALL:
            break
    return effort


def recall(found: list[list[int]], truth: list[list[int]]) -> float:
    """The share of the true rows that were found."""
    pairs = zip(found, truth, strict=True)
    return float(np.mean([len(set(mine) & set(true)) / len(true) for mine, true in pairs]))


def stored(folder: Path) -> dict[str, Any]:
    """How many files a folder has, and their bytes."""
    sizes = [file.stat().st_size for file in files_of(folder)]
    return {"objects": len(sizes), "megabytes": sum(sizes) / 1e6}


def files_of(folder: Path) -> list[Path]:
    """What is copied to the store: all but the checksums that Hadoop leaves on local disks."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".crc")


def upload(store: SlowStore, case: Case, files: Iterable[Path], below: str = "") -> None:
    """Copy files of a case to the store, to where they lie in its folder, or below another one."""
    for file in files:
        store.client.upload_file(str(file), BUCKET, f"{below}{file.relative_to(case.folder)}")


def _vectors_of(rows: pa.Table) -> npt.NDArray[np.float32]:
    vectors: npt.NDArray[np.float32] = rows["emb"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    return vectors


def _floats() -> Any:
    from pyspark.sql import functions

    return functions.col("emb").cast("array<float>")
