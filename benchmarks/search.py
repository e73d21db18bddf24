"""How fast is a search? Hudi's native function, Spark SQL expressions and ours, in one run over the same tables.

    python benchmarks/search.py [--rows 400000] [--dimension 128] [--files 8] [--codecs snappy,zstd,uncompressed,gzip]
                                [--output bench-output] [--small] [--session]

Every time is taken through ``spark.sql`` end to end: parsing, planning, searching, collecting. Hudi itself writes the
tables (bulk insert, sort mode NONE, one file for each task). All ways take turns, as often as each other and after the
same warm-up, each query and each batch with vectors that were not asked before. "First touch" is the first search of a
copy of the table that nothing has read: no cache of ours, and none of the system's. "Read anew" is ours without its
cache, as the native function has none. "Repeated" is the second of two searches, the vectors in memory; next to it are
SQL expressions over a table that Spark caches.
Writes ``search.json`` and ``search.png``.

With ``--session`` it measures instead how a session begins: the first hundred searches of a new JVM, ours, ours with
the vector by ``from_json``, and the native function's, each in another JVM, and after the tenth, the fortieth and the
hundredth of ours what ``SELECT 1`` takes then.
Writes ``search-session.json``.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import itertools
import multiprocessing
import pstats
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from common import Bench, Results, Way, environment, from_disk, in_turns, parser_of, publish, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

K = 10
BATCH, LARGE_BATCH = 20, 1000
NATIVE, OURS = "native", "ours"
COLUMNS = "id, name, price, category, grp, stock, _distance"
_GROWTH = (0.25, 0.5, 1.0, 2.0)  # of --rows: 100k to 800k
_AIMS = {
    "first touch, snappy": 10,
    "first touch, gzip": 3,
    "repeated, id": 40,
    "repeated, 5 columns": 28,
    "batch of 20": 100,
}
_STAGES = {"first": (0, 1), "2nd to 10th": (1, 10), "31st to 40th": (30, 40), "91st to 100th": (90, 100)}
_ONE, _ONES, _BY_JSON = "SELECT 1", 5, "ours, from_json"
_ANEW = {"hoodie.vector.cache.max.bytes": "0"}
_DISTRIBUTED = {"hoodie.vector.search.execution": "distributed"}


@dataclass(frozen=True)
class Size:
    """How large the tables are and how often each time is taken."""

    rows: int
    dimension: int
    files: int
    codecs: tuple[str, ...]
    repeats: int
    batches: int
    warm: int


def main() -> None:
    """Measure everything, print it, write it."""
    arguments = _arguments()
    size = _size(arguments)
    output: Path = arguments.output.resolve()
    shutil.rmtree(output / "tables", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    about = environment()
    if arguments.session:
        content = {"size": size, "k": K, "seconds": sessions(output, size).seconds}
        publish("search-session", arguments, about, content)
        return
    spark = session(output)
    bench = SearchBench(spark, output / "tables", size)
    try:
        warm_up(bench)
        for codec in size.codecs:
            by_codec(bench, codec)
        merge_on_read(bench)
        growth(bench)
        profile = profiled(bench)
    finally:
        spark.stop()
    shutil.rmtree(output / "tables", ignore_errors=True)
    lines = ratios(bench.results, size)
    print("\n" + "\n".join(lines) + "\n\n" + profile)
    content = {"size": size, "k": K, "seconds": bench.results.seconds, "profile": profile.splitlines()}
    path = publish("search", arguments, about, content)
    draw(output / f"{path.stem}.png", bench.results, size)


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--codecs", default="snappy,zstd,uncompressed,gzip")
    parser.add_argument("--session", action="store_true", help="measure the first hundred searches of a new session")
    return parser.parse_args()


def _size(arguments: argparse.Namespace) -> Size:
    codecs = tuple(arguments.codecs.split(","))
    if arguments.small:
        return Size(max(1000, arguments.rows // 400), arguments.dimension, 2, codecs[:1], 2, 1, 2)
    return Size(arguments.rows, arguments.dimension, arguments.files, codecs, 5, 3, 20)


class SearchBench(Bench[Size]):
    """Also copies of tables and queries that were not asked before."""

    def __init__(self, spark: SparkSession, folder: Path, size: Size) -> None:
        super().__init__(spark, folder, size)
        self._copies = itertools.count()
        self._queries = np.random.default_rng(7).standard_normal((4096, size.dimension)).round(4)
        self._next_query = itertools.count()
        self._next_batch = itertools.count()

    def query(self, as_json: bool = False) -> str:
        """A query vector that was not asked before, as SQL: a literal for each number, or one for all."""
        vector = self._queries[next(self._next_query) % len(self._queries)]
        if as_json:
            return f"from_json('{vector.tolist()}', 'array<double>')"
        return "ARRAY(" + ", ".join(f"{x}D" for x in vector) + ")"

    def queries_view(self, count: int) -> str:
        """A temporary view of so many query vectors that were not asked before, held by Spark: no way pays for it."""
        from pyspark.sql.types import ArrayType, FloatType, LongType, StructField, StructType

        name = f"queries_{count}"
        schema = StructType([StructField("qid", LongType()), StructField("qvec", ArrayType(FloatType(), False))])
        vectors = np.random.default_rng([8, next(self._next_batch)]).standard_normal((count, self.size.dimension))
        rows = [(i, vector) for i, vector in enumerate(vectors.astype(np.float32).tolist())]
        frame = self.spark.createDataFrame(rows, schema).coalesce(1).cache()
        frame.count()
        frame.createOrReplaceTempView(name)
        return name

    def copy(self, table: Path) -> Path:
        """A copy of the table under a path that nothing has seen, of which nothing is in the system's memory."""
        path = self.folder / f"copy_{next(self._copies)}"
        shutil.copytree(table, path)
        from_disk(path)
        return path

    def way(self, statements: Iterator[str], settings: dict[str, str] | None = None, *, repeats: bool = False) -> Way:
        """The next statement at each run, with settings that nothing else has.

        A way that `repeats` has one statement before that is not timed: another way may have emptied the memory.
        """

        def run() -> None:
            statement = next(statements)
            assert self.spark.sql(statement).collect(), statement

        def change() -> None:
            for key, value in (settings or {}).items():
                self.spark.conf.set(key, value)
            if repeats:
                run()

        def undo() -> None:
            for key in settings or {}:
                self.spark.conf.unset(key)

        return Way(run, change, undo)

    def first_way(self, table: Path, function: str = "") -> Way:
        """The first search of a copy of the table."""
        from hudi_vector.read.cache import process_cache

        statement: list[str] = []

        def fresh() -> None:
            process_cache().clear()
            statement[:] = [next(search_sql(self, self.copy(table), function=function))]

        def gone() -> None:
            for copy in self.folder.glob("copy_*"):
                shutil.rmtree(copy)

        return Way(lambda: self.spark.sql(statement[0]).collect(), fresh, gone)

    def batch_way(self, table: Path, count: int, function: str = "") -> Way:
        """A batch of other queries at each run."""
        statement: list[str] = []

        def drawn() -> None:
            statement[:] = [batch_sql(table, self.queries_view(count), function)]

        def gone() -> None:
            self.spark.table(f"queries_{count}").unpersist()

        return Way(lambda: self.spark.sql(statement[0]).collect(), drawn, gone)


def search_sql(
    bench: SearchBench, table: Path, columns: str = "id, _distance", function: str = "", *, as_json: bool = False
) -> Iterator[str]:
    """One search after another, each with a query of its own."""
    name = f"hudi_vector_search{function}"
    if function:
        columns = columns.replace("_distance", "_hudi_distance AS _distance")
    while True:
        yield f"SELECT {columns} FROM {name}('{table}', 'emb', {bench.query(as_json)}, {K}, 'cosine')"


def batch_sql(table: Path, queries: str, function: str = "") -> str:
    """A batch search."""
    name = f"hudi_vector_search_batch{function}"
    distance = "_hudi_distance AS _distance" if function else "_distance"
    arguments = f"'{table}', 'emb', '{queries}', 'qvec', {K}, 'cosine'"
    return f"SELECT qid, id, {distance} FROM {name}({arguments})"


def expression_sql(bench: SearchBench, view: str) -> Iterator[str]:
    """The search that needs no function: cosine distance by higher-order functions, ordered and limited."""
    product = "aggregate(zip_with(emb, q, (a, b) -> CAST(a AS DOUBLE) * b), 0D, (s, x) -> s + x)"
    norm = "sqrt(aggregate({0}, 0D, (s, x) -> s + CAST(x AS DOUBLE) * x))"
    distance = f"1 - {product} / ({norm.format('emb')} * {norm.format('q')})"
    while True:
        yield (
            f"SELECT id, {distance} AS _distance FROM (SELECT id, emb, {bench.query()} AS q FROM {view}) "
            f"ORDER BY _distance LIMIT {K}"
        )


def warm_up(bench: SearchBench) -> None:
    """Let every way run on a small table as often: the JVM compiles Spark's planner only after many statements."""
    table = make_table(bench, "warm", 2000, "snappy")
    bench.spark.read.format("hudi").load(str(table)).createOrReplaceTempView("plain")
    ways = searches(bench, table) | {"SQL expressions": bench.way(expression_sql(bench, "plain"))}
    for count in (BATCH, LARGE_BATCH):
        ways[f"{OURS}, batch of {count}"] = bench.batch_way(table, count)
    ways[f"{NATIVE}, batch of {BATCH}"] = bench.batch_way(table, BATCH, "_native")
    in_turns(ways, 0, bench.size.warm)


def searches(bench: SearchBench, table: Path) -> dict[str, Way]:
    """Single searches of a table that was searched before."""
    return {
        NATIVE: bench.way(search_sql(bench, table, function="_native")),
        f"{NATIVE}, 5 columns": bench.way(search_sql(bench, table, COLUMNS, "_native")),
        f"{OURS}, read anew": bench.way(search_sql(bench, table), _ANEW),
        f"{OURS}, distributed": bench.way(search_sql(bench, table), _DISTRIBUTED),
        f"{OURS}, repeated": bench.way(search_sql(bench, table), repeats=True),
        f"{OURS}, repeated, 5 columns": bench.way(search_sql(bench, table, COLUMNS), repeats=True),
    }


def sessions(output: Path, size: Size) -> Results:
    """The beginnings of sessions, each of which searches the table of the first codec in one way."""
    new_process = multiprocessing.get_context("spawn").Pool
    with new_process(1) as pool:
        pool.apply(_session_that_writes, (output, size))
    results = Results()
    for way in (OURS, _BY_JSON, NATIVE):
        print(f"\n{way}, in a new JVM")
        with new_process(1) as pool:
            times, ones = pool.apply(_session_that_searches, (output, size, way))
        for stage, (first, last) in _STAGES.items():
            if times[first:last]:
                results.add(stage, way, times[first:last])
            if last in ones and way == OURS:
                results.add(stage, _ONE, ones[last])
    shutil.rmtree(output / "tables", ignore_errors=True)
    return results


def _session_that_writes(output: Path, size: Size) -> None:
    make_table(SearchBench(session(output), output / "tables", size), size.codecs[0], size.rows, size.codecs[0])


def _session_that_searches(output: Path, size: Size, way: str) -> tuple[list[float], dict[int, list[float]]]:
    """The seconds of each search of a session, and those of ``SELECT 1`` after the last search of a stage."""
    bench = SearchBench(session(output), output / "tables", size)
    function = "_native" if way == NATIVE else ""
    statements = search_sql(bench, bench.folder / size.codecs[0], function=function, as_json=way == _BY_JSON)
    ends = {last for _, last in _STAGES.values()}
    times: list[float] = []
    ones: dict[int, list[float]] = {}
    for number in range(1, (100 if size.repeats > 2 else 10) + 1):
        times.append(_seconds(bench, next(statements)))
        if number in ends and number > 1:
            ones[number] = [_seconds(bench, _ONE) for _ in range(_ONES)]
    return times, ones


def _seconds(bench: SearchBench, statement: str) -> float:
    begun = time.perf_counter()
    assert bench.spark.sql(statement).collect(), statement
    return time.perf_counter() - begun


def by_codec(bench: SearchBench, codec: str) -> None:
    """Every way on the table of one codec."""
    table, size = make_table(bench, codec, bench.size.rows, codec), bench.size
    print(f"\n{codec}: {size.rows} x {size.dimension} in {_file_count(table)} files, {_megabytes(table):.0f} MB")
    plain = bench.spark.read.format("hudi").load(str(table))
    plain.createOrReplaceTempView("plain")
    plain.select("id", "emb").createOrReplaceTempView("cached")
    first_touch(bench, codec, table)
    bench.spark.catalog.cacheTable("cached")
    more = {
        "SQL expressions": bench.way(expression_sql(bench, "plain")),
        "SQL expressions, CACHE TABLE": bench.way(expression_sql(bench, "cached")),
    }
    bench.compare(codec, searches(bench, table) | more, size.repeats)
    bench.spark.catalog.uncacheTable("cached")
    batches = {f"{OURS}, batch of {BATCH}": bench.batch_way(table, BATCH)}
    if codec == size.codecs[0]:  # the native function takes minutes for each
        batches[f"{NATIVE}, batch of {BATCH}"] = bench.batch_way(table, BATCH, "_native")
    bench.compare(codec, batches, size.batches)
    bench.compare(codec, {f"{OURS}, batch of {LARGE_BATCH}": bench.batch_way(table, LARGE_BATCH)}, size.batches)


def first_touch(bench: SearchBench, name: str, table: Path) -> None:
    """The first search of tables that nothing has read."""
    ways = {f"{NATIVE}, first touch": bench.first_way(table, "_native"), f"{OURS}, first touch": bench.first_way(table)}
    bench.compare(name, ways, bench.size.repeats)


def merge_on_read(bench: SearchBench) -> None:
    """A table with a tenth of its rows updated in log files."""
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    name = "mor, 10 % in logs"
    table = make_table(bench, "mor", bench.size.rows, "snappy", "MERGE_ON_READ")
    # Every tenth key, with other vectors and prices.
    changed = frame(bench, bench.size.rows, seed=1).where("id % 10 = 3").withColumn("price", F.col("price") + 1)
    write(changed, table, "snappy", "MERGE_ON_READ", "upsert")
    print(f"\n{name}: {_log_count(table)} log files")
    assert _log_count(table), "the updates were to be in log files"
    first_touch(bench, name, table)
    bench.compare(name, searches(bench, table), bench.size.repeats)


def growth(bench: SearchBench) -> None:
    """The same search on tables of more and more rows."""
    print("\ngrowth")
    for share in _GROWTH:
        rows = int(bench.size.rows * share)
        name = f"{rows} rows"
        table = make_table(bench, f"growth_{rows}", rows, "snappy")
        first_touch(bench, name, table)
        bench.compare(name, searches(bench, table), bench.size.repeats)
        shutil.rmtree(table)


def profiled(bench: SearchBench) -> str:
    """Where the time of a repeated search goes: the report's phases, and the Python functions that take the most."""
    import hudi_vector as hv

    table = bench.folder / bench.size.codecs[0]
    statements = list(itertools.islice(search_sql(bench, table), 23))
    phases: dict[str, list[float]] = {}
    whole = []
    for number, statement in enumerate(statements):
        begun = time.perf_counter()
        bench.spark.sql(statement).collect()
        if number < 3:
            continue
        whole.append(time.perf_counter() - begun)
        for phase, seconds in hv.last_reports()[0].seconds.items():
            phases.setdefault(phase, []).append(seconds)
    medians = {phase: statistics.median(times) * 1000 for phase, times in phases.items()}
    total = statistics.median(whole) * 1000
    lines = [f"Where a repeated search of {table.name} spends its {total:.1f} ms (medians)"]
    lines += [f"  {phase:<28} {median:8.1f} ms" for phase, median in medians.items()]
    lines.append(f"  {'Spark and py4j, the rest':<28} {total - sum(medians.values()):8.1f} ms")
    return "\n".join(lines) + "\n\n" + _without_spark(bench, table)


def _without_spark(bench: SearchBench, table: Path) -> str:
    """The same search profiled in Python alone, on one thread so that the profiler sees the work."""
    import hudi_vector as hv

    conf = {"hoodie.vector.search.local.threads": "1"}
    query = bench._queries[0]
    profile = cProfile.Profile()
    with hv.open(str(table), column="emb", options=conf) as opened:
        for _ in range(2):
            opened.search(query, K, columns=["id"])
        profile.enable()
        for _ in range(10):
            opened.search(query, K, columns=["id"])
        profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(12)
    return "Ten repeated searches without Spark, by time within the function\n" + text.getvalue().strip()


def make_table(bench: SearchBench, name: str, rows: int, codec: str, kind: str = "COPY_ON_WRITE") -> Path:
    """A table of so many rows, written by Hudi."""
    path = bench.folder / name
    write(frame(bench, rows), path, codec, kind, "bulk_insert")
    return path


def frame(bench: SearchBench, rows: int, seed: int = 0) -> DataFrame:
    """Rows with normally distributed vectors, in as many partitions as files are wanted."""
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
    from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

    import hudi_vector as hv

    dimension = bench.size.dimension
    fields = [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("price", DoubleType()),
        StructField("category", StringType()),
        StructField("grp", IntegerType()),
        StructField("stock", IntegerType()),
        hv.vector_field("emb", dimension),
    ]
    make = _row_maker(dimension, seed)
    made = bench.spark.range(0, rows, 1, bench.size.files).mapInArrow(make, StructType(fields))
    return made.withColumn("emb", F.col("emb").alias("emb", metadata=fields[-1].metadata))


def _row_maker(dimension: int, seed: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_numpy()
            numbers = np.random.default_rng([seed, int(ids[0])])
            vectors = numbers.standard_normal((len(ids), dimension), dtype=np.float32)
            offsets = pa.array(np.arange(len(ids) + 1, dtype=np.int32) * dimension)
            columns = {
                "id": batch.column(0),
                "name": pa.array([f"product {i}" for i in ids]),
                "price": pa.array(numbers.random(len(ids)) * 100),
                "category": pa.array([f"category {i % 20}" for i in ids]),
                "grp": pa.array((ids % 7).astype(np.int32)),
                "stock": pa.array(numbers.integers(0, 1000, len(ids)).astype(np.int32)),
                "emb": pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1))),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return fill


def write(rows: DataFrame, path: Path, codec: str, kind: str, operation: str) -> None:
    """Write with Hudi's own writer."""
    options = {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": operation,
        "hoodie.bulkinsert.sort.mode": "NONE",
        "hoodie.parquet.compression.codec": codec,
        "hoodie.upsert.shuffle.parallelism": "8",
        "hoodie.compact.inline": "false",
    }
    rows.write.format("hudi").options(**options).mode("append").save(str(path))


def _file_count(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


def _log_count(table: Path) -> int:
    return len(list(table.glob(".*.log.*-*")))


def _megabytes(table: Path) -> float:
    return sum(file.stat().st_size for file in table.glob("*.parquet")) / 1e6


def ratios(results: Results, size: Size) -> list[str]:
    """How many times faster than the native function, table by table, and whether the aims were reached."""
    lines = [f"Times the native function is slower ({size.rows} x {size.dimension}, {size.files} files, k = {K})"]
    for table, ways in results.seconds.items():
        for way in ways:
            ratio = _ratio(results, table, way)
            if way.startswith((OURS, "SQL")) and ratio is not None:
                lines.append(f"  {table:<22} {way:<34} {ratio:8.1f} x")
    lines.append("Aims")
    for aim, wanted in _AIMS.items():
        reached = _aim(results, size, aim)
        if reached is not None:
            lines.append(f"  {aim:<28} {reached:8.1f} x, at least {wanted}: {'yes' if reached >= wanted else 'NO'}")
    return lines


def rival_of(way: str) -> str:
    """The native way that does the same as one of ours: the same columns, the same table seen as often."""
    suffix = way.removeprefix(OURS).replace(", repeated", "")
    return NATIVE + suffix if "batch" in suffix or "first" in suffix or "5 columns" in suffix else NATIVE


def _ratio(results: Results, table: str, way: str) -> float | None:
    native, ours = results.median(table, rival_of(way)), results.median(table, way)
    return native / ours if native and ours else None


def _aim(results: Results, size: Size, aim: str) -> float | None:
    table = "gzip" if "gzip" in aim else "snappy" if "snappy" in size.codecs else size.codecs[0]
    ways = {"first": "first touch", "batch": f"batch of {BATCH}"}
    way = ways.get(aim.split(maxsplit=1)[0].rstrip(","), "repeated, 5 columns" if "5 columns" in aim else "repeated")
    return _ratio(results, table, f"{OURS}, {way}")


def draw(path: Path, results: Results, size: Size) -> None:
    """Medians by codec and way, and growth, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5.5))
    ways = (NATIVE, "SQL expressions", f"{OURS}, first touch", f"{OURS}, read anew", f"{OURS}, repeated")
    tables = [name for name in (*size.codecs, "mor, 10 % in logs") if name in results.seconds]
    width = 0.8 / len(ways)
    for number, way in enumerate(ways):
        medians = [(results.median(table, way) or np.nan) * 1000 for table in tables]
        left.bar(np.arange(len(tables)) + number * width, medians, width, label=way)
    left.set_xticks(np.arange(len(tables)) + 0.4 - width / 2, tables)
    left.set(yscale="log", ylabel="milliseconds, median", title=f"{size.rows} x {size.dimension}, {size.files} files")
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncol=len(ways))
    rows = [int(size.rows * share) for share in _GROWTH]
    for way in (NATIVE, f"{OURS}, first touch", f"{OURS}, repeated"):
        medians = [(results.median(f"{count} rows", way) or np.nan) * 1000 for count in rows]
        right.plot(rows, medians, marker="o", label=way)
    right.set(xscale="log", yscale="log", title="growth by rows, snappy")
    right.set_xticks(rows, [f"{count:,}" for count in rows])
    right.minorticks_off()
    right.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncol=3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
