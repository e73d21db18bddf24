"""The vectors of the index's benchmark, their true neighbours, and the Hudi table that holds them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from embeddings import vectors as real_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Floats = npt.NDArray[np.float32]

K = 10
BATCH = 1000
BATCHES = 3
"""How many batches of each size are timed, after one that warms up: none has queries of another."""
WARM = 10
"""How many searches come before those that are timed."""
_CLUSTERS, _DIRECTIONS = 200, 20
_TRUTH_ELEMENTS = 1 << 25
_ROUGH = 4 * K


@dataclass(frozen=True)
class Case:
    """One table of the benchmark, in its folder: what it holds, in how many files, how compressed."""

    name: str
    vectors: int
    dimension: int
    files: int
    codec: str
    queries: int
    output: Path

    @property
    def folder(self) -> Path:
        """Where its table and its vectors lie."""
        return self.output / "index" / f"{self.name}-{self.vectors}-{self.files}-{self.codec}"

    @property
    def table(self) -> str:
        """The Hudi table."""
        return str(self.folder / "table")

    @property
    def figures(self) -> Path:
        """Where its figures go."""
        return self.output / f"{self.folder.name}.json"

    def rows(self) -> Floats:
        """Its vectors, shape (n, d)."""
        loaded: Floats = np.load(self.folder / "rows.npy", mmap_mode="r")
        return loaded

    def asked(self) -> npt.NDArray[np.float64]:
        """Queries that are not among its rows, shape (m, d)."""
        return self.batch()[: self.queries]

    def places(self, number: int, most: int) -> slice:
        """Where the queries of a batch lie among all of them; batches of small sets have fewer."""
        size = min(most, len(self.batch_truth()) // (1 + BATCHES))
        return slice(number * size, (number + 1) * size)

    def batch(self) -> npt.NDArray[np.float64]:
        """The queries of all batches, all of them different, shape (n, d): 4,000 but for small sets."""
        return np.load(self.folder / "batch.npy").astype(np.float64)

    def truth(self) -> npt.NDArray[np.int64]:
        """The nearest rows of each query by l2, shape (m, 10)."""
        return self.batch_truth()[: self.queries]

    def batch_truth(self) -> npt.NDArray[np.int64]:
        """The nearest rows of each query of all batches."""
        loaded: npt.NDArray[np.int64] = np.load(self.folder / "batch_truth.npy")
        return loaded

    def prepare(self, cache: Path, queries: int | None = None) -> None:
        """Draw or fetch the vectors and find the truth of so many queries, in a new folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        most = queries or max((1 + BATCHES) * BATCH, self.queries)
        if self.name == "clusters":
            space = Space.of(self.dimension)
            rows, asked = space.draw(self.vectors, 100), space.draw(most, 7)
        else:
            every = real_vectors(self.name, cache, 20_000 if self.name == "glosses-384" else None)
            most = min(most, max(self.queries, len(every) // 10))  # few vectors are rows rather than queries
            order = np.random.default_rng(0).permutation(len(every))[: self.vectors + most]
            asked, rows = every[order[:most]], every[order[most:]]
        np.save(self.folder / "rows.npy", rows)
        np.save(self.folder / "batch.npy", asked)
        np.save(self.folder / "batch_truth.npy", nearest(rows, asked))


@dataclass(frozen=True)
class Space:
    """Clusters of vectors: their centres, shape (c, d), and directions, shape (c, r, d)."""

    centres: Floats
    directions: Floats

    @classmethod
    def of(cls, dimension: int) -> Space:
        """The same clusters each time."""
        chance = np.random.default_rng(0)
        centres = 2 * chance.standard_normal((_CLUSTERS, dimension))
        directions = 0.35 * chance.standard_normal((_CLUSTERS, _DIRECTIONS, dimension))
        return cls(centres.astype(np.float32), directions.astype(np.float32))

    def draw(self, count: int, seed: int) -> Floats:
        """Vectors, shape (count, d)."""
        chance = np.random.default_rng(seed)
        dimension = self.centres.shape[1]
        made = np.empty((count, dimension), np.float32)
        for start in range(0, count, 4096):
            part = made[start : start + 4096]
            label = chance.integers(0, len(self.centres), len(part))
            inside = chance.standard_normal((len(part), _DIRECTIONS)).astype(np.float32)
            part[:] = self.centres[label] + np.einsum("ij,ijk->ik", inside, self.directions[label])
            part += 0.1 * chance.standard_normal((len(part), dimension), np.float32)
        return made


def nearest(rows: Floats, asked: Floats, among: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """The nearest rows of each query by l2, shape (m, 10); only those numbered `among`, ascending, if that is given."""
    keys, found = [np.empty((len(asked), 0))], [np.empty((len(asked), 0), np.int64)]
    step, count = max(1024, _TRUTH_ELEMENTS // max(len(asked), 1)), len(rows) if among is None else len(among)
    for start in range(0, count, step):
        part = rows[start : start + step] if among is None else rows[among[start : start + step]]
        # Ranks in float32 choose more than are wanted, whose distances are then computed in float64.
        rough = np.einsum("ij,ij->i", part, part) - 2 * asked.astype(np.float32) @ part.T
        best = np.argpartition(rough, min(_ROUGH, len(part)) - 1, axis=1)[:, :_ROUGH]
        keys.append(np.stack([_squares(part[own], query) for own, query in zip(best, asked, strict=True)]))
        found.append(best + start)
    every, rank = np.concatenate(found, axis=1), np.concatenate(keys, axis=1)
    chosen: npt.NDArray[np.int64] = np.take_along_axis(every, np.argsort(rank, axis=1)[:, :K], axis=1)
    return chosen if among is None else among[chosen]


def _squares(rows: Floats, query: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    apart = rows.astype(np.float64) - query
    return np.einsum("ij,ij->i", apart, apart)


def price_of(case: Case) -> npt.NDArray[np.float64]:
    """The prices of a case's rows, as filters see them."""
    return np.concatenate([_prices(number, len(part)) for number, (_, part) in enumerate(_parts(case))])


def _prices(number: int, count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(number).random(count)


def write_table(spark: SparkSession, case: Case) -> tuple[Any, float]:
    """The case's Hudi table, a partition for each file; gives the rows it was written of, and the seconds it took."""
    import hudi_vector as hv

    source = case.folder / "source"
    source.mkdir()
    for number, (first, part) in enumerate(_parts(case)):
        columns = {
            "id": pa.array(np.arange(first, first + len(part))),
            "part": pa.array([f"p{number}"] * len(part)),
            "price": pa.array(_prices(number, len(part))),
            "emb": pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), part.shape[1]).cast(
                pa.list_(pa.float32())
            ),
        }
        pq.write_table(pa.table(columns), source / f"{number}.parquet")
    rows = spark.read.parquet(str(source))
    settings = {"hoodie.metadata.enable": "false", "hoodie.parquet.compression.codec": case.codec}
    begun = time.perf_counter()
    hv.write(
        rows, case.table, record_key="id", partition_by="part", operation="bulk_insert",
        vectors={"emb": case.dimension}, options=settings,
    )  # fmt: skip
    return rows, time.perf_counter() - begun


def _parts(case: Case) -> Iterator[tuple[int, Floats]]:
    rows = case.rows()
    cuts = np.linspace(0, len(rows), case.files + 1).astype(int)
    for first, last in pairwise(cuts.tolist()):
        yield first, np.asarray(rows[first:last])


def percentiles(times: list[float]) -> dict[str, float]:
    """The median and the tail of some times."""
    return dict(zip(("p50", "p90", "p99"), np.percentile(times, [50, 90, 99]).tolist(), strict=True))


class Figures:
    """What was measured, kept by subject: what is measured again replaces what was."""

    def __init__(self, case: Case) -> None:
        self._file = case.figures
        known = json.loads(self._file.read_text()) if self._file.exists() else {"rows": []}
        self.rows: dict[str, dict[str, Any]] = {row["subject"]: row for row in known["rows"]}

    def listed(self) -> list[dict[str, Any]]:
        """All rows."""
        return list(self.rows.values())

    def add(self, subject: str, **values: Any) -> None:
        """Keep a row, print it, and write all: a run that is stopped loses nothing."""
        self.rows[subject] = {"subject": subject, **values}
        self._file.write_text(json.dumps({"rows": self.listed()}, indent=1))
        shown = (
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items()
        )
        print(f"  {subject:<46}" + "  ".join(shown), flush=True)
