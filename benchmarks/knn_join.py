"""What does a KNN join cost, whatever the right side is? The paths of the SPIP beside Spark's own means, in one run.

    python benchmarks/knn_join.py [--right 100000] [--left 100] [--narrow-only] [--only A C] [--s3] [--small]

The two scales of record are ``--right 100000 --left 100`` and ``--right 1000000 --left 1000``; ``--right 10000000`` is
the SPIP's own. 128 dimensions, l2, k = 10, 16 lists probed, 8 times k candidates; IVF 256, PQ 16 x 8, 50 iterations; 16
payload columns of 64 bytes. Each contestant is run once to warm up, when its recall is taken, and then they are
measured in turns, all as often; what one needs before is timed apart. Where the cores run unevenly nothing is measured.
Loops deal their queries out to as many threads as a stage has tasks at once. ``--keep`` leaves the data for the next
run, ``--prepare`` makes them and ends.

    exact    our join over the Parquet files, without an index
    A        our join over the same rows in a Lance dataset, by the dataset's own index
    B        our join over a computed right side, which is written to temporary Parquet files each time
    C        our join over the Parquet files, by an index in a directory of its own
    loop A   single queries on the driver, by pylance alone
    loop C   single queries on the driver, by the index of C
    cross    Spark's cross join and the smallest k distances of each left row, sorted in arrays (small scale)
    window   the same by row_number() over a window, which Spark cuts off at k before it sorts (small scale)
    lsh      MLlib's BucketedRandomProjectionLSH, 5 hash tables, buckets of 2.0 (``--lsh``)
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a task has one core, and so has a thread of a loop

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import Way, environment, in_turns, parser_of, publish, session, spread
from index_data import Space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIMENSION, _K, _NPROBES, _REFINE, _FILES, _PAYLOADS = 128, 10, 16, 8, 8, 16
_LISTS, _SUB_VECTORS, _ITERATIONS = 256, 16, 50
_MEASURED, _UNIFORM = 3, 1.25
_SMALL = 100_000
_EFFORT = {"metric": "l2", "nprobes": _NPROBES, "refine_factor": _REFINE, "mode": "approximate"}
_PATH = "hoodie.vector.join.path"
_SQUARES = "aggregate(zip_with(lvec, rvec, (x, y) -> (x - y) * (x - y)), 0D, (s, d) -> s + d)"
_SLOW = ("cross", "window")


@dataclass
class Field:
    """One scale: the session, where the data lie, what was found."""

    spark: SparkSession
    folder: Path
    right: int
    left: int
    base: str
    storage: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def parquet(self) -> str:
        """The right side's files."""
        return f"{self.base}/right"

    @property
    def files(self) -> list[str]:
        """Each of them."""
        return [f"{self.parquet}/{number}.parquet" for number in range(_FILES)]

    @property
    def lance(self) -> str:
        """The same rows as a Lance dataset."""
        return f"{self.base}/right.lance"

    @property
    def narrow_lance(self) -> str:
        """The same data files and index without the payload: columns of a path cannot be left out otherwise."""
        return f"{self.base}/narrow.lance"

    @property
    def indexes(self) -> str:
        """The directory of external indexes."""
        return f"{self.base}/indexes"

    @cached_property
    def queries(self) -> Any:
        """The left vectors."""
        return Space.of(_DIMENSION).draw(self.left, 7)

    @cached_property
    def truth(self) -> list[set[int]]:
        """The k nearest right rows of each left row, by an exact scan."""
        import hudi_vector as hv

        with hv.open(files=[str(self.folder / "right" / f"{n}.parquet") for n in range(_FILES)], column="rvec") as t:
            found = t.search_batch(self.queries, _K, metric="l2", mode="exact", columns=["rid"])
        nearest: list[set[int]] = [set() for _ in range(self.left)]
        for query, rid in zip(
            found.column("_hudi_query_index").to_pylist(), found.column("rid").to_pylist(), strict=True
        ):
            nearest[query].add(rid)
        return nearest

    @cached_property
    def left_frame(self) -> DataFrame:
        """The left rows, in a partition for each core, and in memory before anything is timed."""
        rows = [(i, vector.tolist()) for i, vector in enumerate(self.queries)]
        frame = self.spark.createDataFrame(rows, "lid LONG, lvec ARRAY<FLOAT>")
        frame = frame.repartition(self.spark.sparkContext.defaultParallelism).cache()
        frame.count()
        return frame

    def right_frame(self) -> DataFrame:
        """The right rows as Spark reads them."""
        path = self.parquet.replace("s3://", "s3a://")
        return self.spark.read.parquet(path)

    def recall(self, pairs: Any) -> float:
        """The share of the true pairs among pairs of left and right ids."""
        hit = sum(rid in self.truth[lid] for lid, rid in pairs)
        return hit / (self.left * _K)


Answer = Callable[[bool], "DataFrame | list[tuple[int, int]]"]


@dataclass(frozen=True)
class Contestant:
    """One way to the same rows: what it needs before, and the rows, with the payload or without."""

    run: Callable[[Field, bool], Any]
    before: Callable[[Field], None] | None = None
    after: Callable[[Any], None] | None = None
    has_wide: bool = True


def _columns(wide: bool) -> list[str]:
    return ["lid", "rid", *([f"p{i}" for i in range(_PAYLOADS)] if wide else [])]


def _joined(f: Field, right: Any, route: str = "auto", **arguments: Any) -> DataFrame:
    import hudi_vector as hv

    f.spark.conf.set(_PATH, route)
    try:
        return hv.knn_join(f.left_frame, right, "lvec", "rvec", _K, **{"metric": "l2", **arguments})
    finally:
        f.spark.conf.set(_PATH, "auto")


def exact(f: Field, wide: bool) -> Any:
    """No index."""
    return _joined(f, f.right_frame().select("rvec", *_columns(wide)[1:]), "search", mode="exact")


def path_a(f: Field, wide: bool) -> Any:
    """Lance's own index."""
    return _joined(f, f.lance if wide else f.narrow_lance, "lance", **_EFFORT)


def make_lance(f: Field) -> None:
    """The rows in a Lance dataset, with an index."""
    import lance

    from hudi_vector.storage import StorageOptions, lance_options, scheme_of

    options = lance_options(scheme_of(f.lance), StorageOptions.of(f.storage))
    local = [str(f.folder / "right" / f"{n}.parquet") for n in range(_FILES)]

    def batches() -> Iterator[pa.RecordBatch]:
        for name in local:
            for batch in pq.ParquetFile(name).iter_batches(1 << 16):
                at = batch.schema.get_field_index("rvec")
                vectors = batch.column(at).cast(pa.list_(pa.float32(), _DIMENSION))
                yield batch.set_column(at, "rvec", vectors)

    source = batches()
    first = next(source)
    reader = pa.RecordBatchReader.from_batches(first.schema, (batch for part in ([first], source) for batch in part))
    dataset = lance.write_dataset(reader, f.lance, max_rows_per_file=max(1, f.right // _FILES), storage_options=options)
    f.figures["A, written"] = time.perf_counter()
    dataset.create_index(
        "rvec", "IVF_PQ", metric="l2", num_partitions=_LISTS, num_sub_vectors=_SUB_VECTORS, num_bits=8,
        max_iters=_ITERATIONS, sample_rate=64,
    )  # fmt: skip
    if not f.storage:
        shutil.copytree(f.lance, f.narrow_lance, copy_function=os.link)
        lance.dataset(f.narrow_lance).drop_columns([f"p{i}" for i in range(_PAYLOADS)])


def path_b(f: Field, wide: bool) -> Any:
    """A computed side, written anew each time."""
    computed = f.right_frame().selectExpr("rvec", "rid + 0 AS rid", *_columns(wide)[2:])
    return _joined(f, computed, "temp")


def path_c(f: Field, wide: bool) -> Any:
    """An index beside the files."""
    return _joined(f, f.right_frame().select("rvec", *_columns(wide)[1:]), "external", **_EFFORT)


def make_external(f: Field) -> None:
    """The index of the files."""
    import hudi_vector as hv
    from hudi_vector.errors import MissingDependencyError

    same = {"files": f.files, "directory": f.indexes, "metric": "l2", "num_partitions": _LISTS}
    more = {"max_iters": _ITERATIONS, "storage_options": f.storage or None}
    try:
        hv.index.build_if_missing(
            f.spark, column="rvec", kind="ivf_pq", num_sub_vectors=_SUB_VECTORS, num_bits=8, **same, **more
        )
        f.figures["C, kind"] = "ivf_pq"
    except MissingDependencyError:  # faiss makes this kind
        hv.index.build_if_missing(f.spark, column="rvec", **same, **more)
        f.figures["C, kind"] = "ivf_sq8"


def loop_a(f: Field, wide: bool) -> Any:
    """Pylance, a query at a time."""
    import lance

    dataset = lance.dataset(f.lance)

    def find(query: Any) -> list[int]:
        nearest = {"column": "rvec", "q": query, "k": _K, "nprobes": _NPROBES, "refine_factor": _REFINE}
        rows = dataset.to_table(columns=[*_columns(wide)[1:], "_distance"], nearest=nearest)
        found: list[int] = rows.column("rid").to_pylist()
        return found

    return _each(f, find)


def loop_c(f: Field, wide: bool) -> Any:
    """The index of C, a query at a time."""
    import hudi_vector as hv

    one = {"hoodie.vector.search.local.threads": "1"}  # of each query: they are dealt out themselves
    with hv.open(files=f.files, column="rvec", index_directory=f.indexes, options=one) as t:

        def find(query: Any) -> list[int]:
            found: list[int] = t.search(query, _K, columns=_columns(wide)[1:], **_EFFORT).column("rid").to_pylist()
            return found

        return _each(f, find)


def _each(f: Field, find: Callable[[Any], Sequence[int]]) -> list[tuple[int, int]]:
    """Pairs of left and right rows by single queries, in as many threads as a stage has tasks at once."""
    with ThreadPoolExecutor(f.spark.sparkContext.defaultParallelism) as threads:
        return [(lid, rid) for lid, found in enumerate(threads.map(find, f.queries)) for rid in found]


def cross(f: Field, wide: bool) -> Any:
    """What Spark's users write today."""
    del wide
    pairs = f.left_frame.crossJoin(f.right_frame().select("rid", "rvec"))
    ranked = pairs.selectExpr("lid", f"struct({_SQUARES} AS distance, rid) AS pair").groupBy("lid")
    nearest = ranked.agg({"pair": "collect_list"}).toDF("lid", "pairs")
    return nearest.selectExpr("lid", f"explode(slice(sort_array(pairs), 1, {_K})) AS pair").selectExpr(
        "lid", "pair.rid"
    )


def window(f: Field, wide: bool) -> Any:
    """The same in the form that Spark prunes."""
    del wide
    pairs = f.left_frame.crossJoin(f.right_frame().select("rid", "rvec")).selectExpr(
        "lid", "rid", f"{_SQUARES} AS distance"
    )
    ranked = pairs.selectExpr("lid", "rid", "row_number() OVER (PARTITION BY lid ORDER BY distance) AS n")
    return ranked.where(f"n <= {_K}").select("lid", "rid")


def lsh(f: Field, wide: bool) -> Any:
    """MLlib's approximate join."""
    del wide
    from pyspark.ml.feature import BucketedRandomProjectionLSH
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    left = f.left_frame.select("lid", array_to_vector("lvec").alias("vector"))
    right = f.right_frame().select("rid", array_to_vector("rvec").alias("vector"))
    model = BucketedRandomProjectionLSH(inputCol="vector", outputCol="hashes", bucketLength=2.0, numHashTables=5)
    pairs = model.fit(right).approxSimilarityJoin(left, right, 1e9, distCol="distance")
    first = Window.partitionBy("lid").orderBy("distance")
    named = pairs.select(F.col("datasetA.lid").alias("lid"), F.col("datasetB.rid").alias("rid"), "distance")
    return named.withColumn("n", F.row_number().over(first)).where(f"n <= {_K}").select("lid", "rid")


CONTESTANTS = {
    "exact": Contestant(exact),
    "A": Contestant(path_a, make_lance),
    "B": Contestant(path_b, after=lambda found: found.release()),
    "C": Contestant(path_c, make_external),
    "loop A": Contestant(loop_a),
    "loop C": Contestant(loop_c),
    "cross": Contestant(cross, has_wide=False),
    "window": Contestant(window, has_wide=False),
    "lsh": Contestant(lsh, has_wide=False),
}


def make_data(f: Field) -> None:
    """The right side: files of vectors, ids and payload, the same each time."""
    space, folder = Space.of(_DIMENSION), f.folder / "right"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    each = -(-f.right // _FILES)
    for number in range(_FILES):
        count = min(each, f.right - number * each)
        vectors = pa.array(space.draw(count, 100 + number).ravel())
        text = np.random.default_rng(number).integers(97, 123, (count, _PAYLOADS * 64), np.uint8)
        columns = {
            "rid": pa.array(np.arange(number * each, number * each + count)),
            "rvec": pa.FixedSizeListArray.from_arrays(vectors, _DIMENSION).cast(pa.list_(pa.float32())),
        }
        for i in range(_PAYLOADS):
            offsets = np.arange(count + 1, dtype=np.int32) * 64
            letters = np.ascontiguousarray(text[:, i * 64 : (i + 1) * 64])
            columns[f"p{i}"] = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", compression="none", use_dictionary=False)
        if f.base.startswith("s3://"):
            _upload(f, folder / f"{number}.parquet", f.files[number])


def uniformity(spark: SparkSession) -> float:
    """How much slower the slowest core is than the fastest, by the medians of a loop of fixed cost."""
    cores = spark.sparkContext.defaultParallelism

    def work(_: Any) -> list[float]:
        numbers, times = np.random.default_rng(0).random((256, 256)), []
        for _ in range(7):
            begun = time.perf_counter()
            for _ in range(20):
                numbers = numbers @ numbers
                numbers /= numbers.max()
            times.append(time.perf_counter() - begun)
        return [float(np.median(times))]

    run = spark.sparkContext.parallelize(range(cores), cores)
    run.mapPartitions(work).collect()
    medians = run.mapPartitions(work).collect()
    return max(medians) / min(medians)


def measure(f: Field, names: list[str], wide: bool, runs: int) -> None:
    """Run contestants once for their recall, and then in turns for their times."""
    recalls, ways = {}, {}
    for name in names:
        found = CONTESTANTS[name].run(f, wide)
        pairs = found if isinstance(found, list) else [tuple(r) for r in found.select("lid", "rid").collect()]
        recalls[name] = f.recall(pairs)
        _let_go(name, found)
        ways[name] = _way(f, name, wide)
    # Spark ends Python workers that wait for a minute: whoever came after a slow contestant would start them again.
    quick = {name: way for name, way in ways.items() if name not in _SLOW}
    slow = {name: way for name, way in ways.items() if name in _SLOW}
    for name, times in (in_turns(quick, runs) | in_turns(slow, runs, warm=0)).items():
        label, seconds = f"{name}, {'wide' if wide else 'narrow'}", spread(times)
        shown = f"{seconds['median']:9.3f} s   {seconds['least']:.3f} to {seconds['largest']:.3f}"
        print(f"  {label:<18} {shown}   recall {recalls[name]:.3f}", flush=True)
        f.figures[label] = {"recall": recalls[name], "seconds": seconds, "runs": len(times)}


def _way(f: Field, name: str, wide: bool) -> Way:
    kept: list[Any] = []

    def run() -> None:
        kept[:] = [CONTESTANTS[name].run(f, wide)]
        if not isinstance(kept[0], list):
            kept[0].select(*_columns(wide)).write.format("noop").mode("overwrite").save()

    return Way(run, after=lambda: _let_go(name, kept[0]))


def _let_go(name: str, found: Any) -> None:
    after = CONTESTANTS[name].after
    if after is not None and not isinstance(found, list):
        after(found)


def prepare(f: Field, chosen: list[str]) -> None:
    """The data, and what contestants need before; each with its time, and left alone where it is there."""
    steps = {"data": make_data} | {name: CONTESTANTS[name].before for name in chosen if CONTESTANTS[name].before}
    noted = f.folder / "prepared.json"
    done: dict[str, float] = json.loads(noted.read_text()) if noted.exists() else {}
    for name, step in steps.items():
        if name not in done:
            assert step is not None
            begun = time.perf_counter()
            step(f)
            done[name] = time.perf_counter() - begun
            if f"{name}, written" in f.figures:
                done[f"{name}, writing"] = f.figures.pop(f"{name}, written") - begun
            print(f"  before {name}: {done[name]:.1f} s", flush=True)
            noted.write_text(json.dumps(done))
    f.figures["before"] = done


def compared(f: Field) -> dict[str, float]:
    """The ratios that are aimed at."""

    def median(label: str) -> float | None:
        found = f.figures.get(label)
        return None if found is None else float(found["seconds"]["median"])

    wanted = {
        "C / A, at most 1.2": ("C, narrow", "A, narrow"),
        "B / C, the SPIP has 12 to 20": ("B, narrow", "C, narrow"),
        "cross / C": ("cross, narrow", "C, narrow"),
        "window / C, at least 100": ("window, narrow", "C, narrow"),
        "window / A": ("window, narrow", "A, narrow"),
        "window / exact": ("window, narrow", "exact, narrow"),
        "loop A / A": ("loop A, narrow", "A, narrow"),
        "loop C / C": ("loop C, narrow", "C, narrow"),
    }
    ratios = {}
    for name, (slow, quick) in wanted.items():
        above, below = median(slow), median(quick)
        if above is not None and below is not None:
            ratios[name] = above / below
            print(f"  {name}: {ratios[name]:.2f}")
    return ratios


def main() -> None:
    """Measure, print, write."""
    parser = parser_of(__doc__)
    parser.add_argument("--right", type=int, default=_SMALL)
    parser.add_argument("--left", type=int, default=100)
    parser.add_argument("--runs", type=int, default=_MEASURED)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), help="these contestants")
    parser.add_argument("--lsh", action="store_true", help="MLlib's join too")
    parser.add_argument("--narrow-only", action="store_true")
    parser.add_argument("--s3", action="store_true", help="the data on an S3-compatible server of this machine")
    parser.add_argument("--prepare", action="store_true", help="make the data and indexes, and end")
    parser.add_argument("--keep", action="store_true", help="leave the data for the next run")
    given = parser.parse_args()
    if given.small:
        given.right, given.left, given.runs = 4_000, 8, 1
    chosen = given.only or [
        name for name in CONTESTANTS if (name != "lsh" or given.lsh) and (name not in _SLOW or given.right <= _SMALL)
    ]
    if given.s3:
        chosen = [name for name in chosen if name not in ("loop A", "loop C", *_SLOW, "lsh")]
    output: Path = given.output.resolve()
    place = f"knn_join_{given.right}_{given.left}" + ("_s3" if given.s3 else "")
    folder = output / place
    folder.mkdir(parents=True, exist_ok=True)
    about = environment()
    with _storage(given.s3) as (base, storage):
        settings = _settings(folder, storage) | {"hoodie.vector.index.external.dir": f"{base or folder}/indexes"}
        spark = session(output, settings=settings)
        f = Field(spark, folder, given.right, given.left, base or str(folder), storage)
        try:
            uneven = uniformity(spark)
            print(f"slowest core / fastest core: {uneven:.2f}\nright {given.right}, left {given.left}")
            if uneven > _UNIFORM and not given.small:
                raise SystemExit(f"one core is {uneven:.2f} times as fast as another, {_UNIFORM} at most")
            prepare(f, chosen)
            for wide in () if given.prepare else (False, True):
                names = [name for name in chosen if wide in _widths(name, given.narrow_only, given.s3)]
                if names:
                    measure(f, names, wide, given.runs)
        finally:
            spark.stop()
    found = {"right": given.right, "left": given.left, "s3": given.s3, "uneven": uneven, **f.figures}
    if not given.prepare:
        publish(place, given, about, found | {"ratios": compared(f)})
    if not given.keep and not given.prepare:
        shutil.rmtree(folder)


def _widths(name: str, narrow_only: bool, s3: bool) -> list[bool]:
    """Without the payload and with it, as far as a contestant can."""
    if s3 and name == "A":
        return [True]
    return [False, True] if CONTESTANTS[name].has_wide and not narrow_only else [False]


def _settings(folder: Path, storage: dict[str, str]) -> dict[str, str]:
    settings = {"hoodie.vector.join.temp.dir": str(folder / "temp"), "spark.sql.shuffle.partitions": "4"}
    if storage:
        settings["spark.jars.packages"] = "org.apache.hadoop:hadoop-aws:3.3.4"
        settings |= {f"spark.hadoop.{key}": value for key, value in storage.items()}
    return settings


@contextlib.contextmanager
def _storage(s3: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Where the data lie, and Hadoop's settings for it; nothing for the local disk."""
    if not s3:
        yield "", {}
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.servers import lake

    with lake() as (storage, _):
        more = {"fs.s3a.path.style.access": "true", "fs.s3a.connection.ssl.enabled": "false"}
        yield "s3://lake", {**dict(storage.values), **more}


def _upload(f: Field, source: Path, target: str) -> None:
    from hudi_vector.storage import StorageOptions, open_storage

    file = open_storage(target, StorageOptions.of(f.storage)).create(target)
    file.write(source.read_bytes())
    file.close()


if __name__ == "__main__":
    main()
