"""How fast are blobs? Hudi's native ``read_blob``, inline Parquet and ours, in one run over the same bytes.

    python benchmarks/blobs.py [--blobs 20000] [--size 20480] [--large 400] [--parts all singles]
        [--output bench-output] [--small]

Every read goes to Spark's noop sink. The ways to the same rows take turns, as often as each other and after the same
warm-up, and every table has the same codec. "Native, tuned" has a lookahead of 1,000 rows and gaps of 64 KiB. In random
order the native function takes seconds for each hundred blobs, so that all ways are asked for the same few there.
Times are for each blob. "Without commit" is what stands beside Python to noop: the bytes made durable and the rows
staged, by ``hv.blobs.prepare``. Beside the times stands the largest resident size of a Python worker and of the JVM.
Single values are ten by their keys, far apart, in tables of 20,000 and of 1,000,000 rows with blobs of 256 bytes, whose
rows lie in random order; they have a run of their own, ``blobs-singles``.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from common import Bench, Way, environment, in_turns, parser_of, publish, session_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TUNED = {"hoodie.blob.batching.lookahead.size": "1000", "hoodie.blob.batching.max.gap.bytes": "65536"}
_LARGE_SIZE = 2 << 20
_PARTS = ("all", "singles")
_SINGLES, _SINGLE_SIZE = (20_000, 1_000_000), 256
_AIMS = (
    ("containers, key order", "ours, read_blob", "native", 3.0),
    ("small files", "ours, read_blob", "native", 1.3),
    ("containers, key order", "ours, read_blob", "native, tuned", 0.9),
    ("containers, key order", "ours, read_blobs, 4 threads", "native, tuned", 0.9),
    ("2 MiB blobs", "ours, read_blob", "native", 0.95),
)


@dataclass(frozen=True)
class Size:
    """How many blobs of how many bytes, and how often each time is taken."""

    blobs: int
    size: int
    large: int
    random: int
    repeats: int


@dataclass
class BlobBench(Bench[Size]):
    """Also the largest resident sizes while a way ran, of a Python worker and of the JVM, in bytes."""

    peaks: dict[str, dict[str, int]] = field(default_factory=dict)

    def timed(self, subject: str, ways: Mapping[str, Callable[[], Any]], each: int = 1) -> None:
        """Run ways in turns; keep the seconds for each of `each` blobs, and what memory they took."""
        watches = {way: Watch() for way in ways}
        watched = {way: Way(run, watches[way].begin, watches[way].end) for way, run in ways.items()}
        for way, times in in_turns(watched, self.size.repeats).items():
            self.results.add(subject, way, [seconds / each for seconds in times])
            self.peaks[f"{subject}, {way}"] = watches[way].peaks


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--blobs", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=20 << 10, help="bytes of a blob")
    parser.add_argument("--large", type=int, default=400, help="blobs of 2 MiB")
    parser.add_argument("--parts", nargs="+", default=list(_PARTS), choices=_PARTS)
    given = parser.parse_args()
    part = 100 if given.small else 1
    size = Size(given.blobs // part, given.size, max(4, given.large // part), 400 // part, 1 if given.small else 3)
    folder, about = given.output.resolve() / "blobs", environment()
    with session_in(folder) as spark:
        bench, alone = BlobBench(spark, folder, size), BlobBench(spark, folder, size)
        if "all" in given.parts:
            writes(bench)
            reads(bench)
        if "singles" in given.parts:
            for count in _SINGLES:
                singles(alone, count // part)
    if "all" in given.parts:
        print("\n" + "\n".join(report(bench)))
        publish("blobs", given, about, {"size": size, "seconds": bench.results.seconds, "peaks": bench.peaks})
    if "singles" in given.parts:
        publish("blobs-singles", given, about, {"seconds": alone.results.seconds})


def writes(bench: BlobBench) -> None:
    """The same rows through Python to nowhere, inline by Hudi, into each kind of container, and as a file copy."""
    import hudi_vector as hv

    size = bench.size
    source = bench.folder / "source"
    made(bench, size.blobs, size.size).write.option("compression", "uncompressed").parquet(str(source))
    rows = bench.spark.read.parquet(str(source))
    print(f"\nwriting {size.blobs} blobs of {size.size} bytes")
    schema = rows.schema
    ways: dict[str, Callable[[], Any]] = {
        "Python to noop": lambda: noop(rows.mapInArrow(lambda batches: batches, schema)),
        "a file copy with fsync": lambda: copy(source, bench.folder / "copy"),
        "inline bulk_insert by Hudi": lambda: hudi_write(
            rows.withColumn("img", hv.to_blob("img")), fresh(bench.folder / "inline")
        ),
    }
    for kind in ("raw", "parquet", "lance"):
        settings = {"img": {"inline.threshold": "0", "format": kind}}

        def written(kind: str = kind, settings: Any = settings) -> None:
            path = str(fresh(bench.folder / kind))
            hv.write(rows, path, record_key="id", operation="bulk_insert", blobs=settings, options=_HUDI)

        def stored(kind: str = kind, settings: Any = settings) -> None:
            hv.blobs.prepare(rows, str(bench.folder / kind), blobs=settings)

        written()  # rows are only staged for a table that is there
        ways[f"ours, {kind} containers"] = written
        ways[f"ours, {kind}, without commit"] = stored
    bench.timed("writing", ways)


def reads(bench: BlobBench) -> None:
    """Every layout by the native function, and by ours."""
    size, spark = bench.size, bench.spark
    ordered = spark.read.format("hudi").load(str(bench.folder / "raw")).select("id", "img")
    print("\nreading")
    inline = spark.read.format("hudi").load(str(bench.folder / "inline")).select("id", "img.data")
    ways = ways_of(bench, ordered) | {"inline Parquet": lambda: noop(inline)}
    bench.timed("containers, key order", ways, size.blobs)
    for kind in ("parquet", "lance"):
        rows = spark.read.format("hudi").load(str(bench.folder / kind))
        bench.timed(f"{kind} containers", ways_of(bench, rows, native=False), size.blobs)
    shuffled = table_of(bench, "shuffled", ordered.selectExpr("*", "rand(7) AS place").orderBy("place").drop("place"))
    bench.timed("containers, random, few", ways_of(bench, shuffled.limit(size.random)), size.random)
    bench.timed("containers, random, all", ways_of(bench, shuffled, native=False), size.blobs)
    bench.timed("small files", ways_of(bench, table_of(bench, "files", small_files(bench))), size.blobs)
    bench.timed("2 MiB blobs", ways_of(bench, large_blobs(bench)), size.large)


def singles(bench: BlobBench, count: int) -> None:
    """Ten values by their keys: looked up, with and without what earlier calls kept in memory, and found by a scan."""
    import hudi_vector as hv
    from hudi_vector.read.cache import process_cache

    spark, path = bench.spark, str(bench.folder / f"singles-{count}")
    rows = made(bench, count, _SINGLE_SIZE).selectExpr("*", "rand(7) AS place").orderBy("place").drop("place")
    settings = {"img": {"inline.threshold": "0"}}
    hv.write(rows, path, record_key="id", operation="bulk_insert", blobs=settings, options=_HUDI)
    keys = [number * count // 10 for number in range(10)]
    scanned = spark.read.format("hudi").load(path).where(f"id IN ({', '.join(map(str, keys))})")

    def anew() -> dict[int, bytes | None]:
        process_cache().clear()
        return hv.blobs.get(spark, path, keys, "img")

    ways = {
        "ours, get": lambda: hv.blobs.get(spark, path, keys, "img"),
        "ours, get, nothing kept": anew,
        "a scan, read_blob": lambda: scanned.selectExpr("id", "read_blob(img)").collect(),
        "native": lambda: scanned.selectExpr("id", "read_blob_native(img)").collect(),
    }
    found = {row[0]: bytes(row[1]) for row in ways["a scan, read_blob"]()}
    assert ways["ours, get"]() == found
    assert len(found) == len(keys)
    bench.timed(f"ten of {count:,} rows", ways)


def ways_of(bench: BlobBench, rows: DataFrame, native: bool = True) -> dict[str, Callable[[], Any]]:
    """Hudi's own function by default and tuned, ours in SQL, and over a DataFrame with four threads."""
    import hudi_vector as hv

    own = rows.selectExpr("id", "read_blob_native(img) AS bytes") if native else None
    mine = rows.selectExpr("id", "read_blob(img) AS bytes")
    late = hv.read_blobs(rows.select("id", "img"), "img", threads=4)

    def tuned() -> None:
        for key, value in _TUNED.items():
            bench.spark.conf.set(key, value)
        try:
            noop(own)
        finally:
            for key in _TUNED:
                bench.spark.conf.unset(key)

    ours = {"ours, read_blob": lambda: noop(mine), "ours, read_blobs, 4 threads": lambda: noop(late)}
    return {"native": lambda: noop(own), "native, tuned": tuned, **ours} if native else ours


_HUDI = {
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.metadata.enable": "false",
    # The bytes are random and every way has them so: what gzip, Hudi's default, makes of them is not the question.
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.parquet.dictionary.enabled": "false",
}


def hudi_write(rows: DataFrame, path: Path) -> None:
    """A bulk insert by Hudi's own writer."""
    options = {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "bulk_insert",
        **_HUDI,
    }
    rows.write.format("hudi").options(**options).mode("append").save(str(path))


def table_of(bench: BlobBench, name: str, rows: DataFrame) -> DataFrame:
    """A table of blob structs, as they are."""
    hudi_write(rows, bench.folder / name)
    return bench.spark.read.format("hudi").load(str(bench.folder / name)).select("id", "img")


def small_files(bench: BlobBench) -> DataFrame:
    """References to files of one blob each."""
    import hudi_vector as hv

    folder = bench.folder / "one_by_one"
    folder.mkdir()
    data = np.random.default_rng(1).bytes(bench.size.size)
    for number in range(bench.size.blobs):
        (folder / f"{number}.bin").write_bytes(data)
    paths = bench.spark.range(bench.size.blobs).selectExpr("id", f"concat('file://{folder}/', id, '.bin') AS path")
    return paths.select("id", hv.blob_ref("path", 0, bench.size.size).alias("img", metadata={"hudi_type": "BLOB"}))


def large_blobs(bench: BlobBench) -> DataFrame:
    """A table of blobs of 2 MiB in containers."""
    import hudi_vector as hv

    path = str(bench.folder / "large")
    rows = made(bench, bench.size.large, _LARGE_SIZE)
    hv.write(rows, path, record_key="id", operation="bulk_insert", blobs=["img"], options=_HUDI)
    return bench.spark.read.format("hudi").load(path).select("id", "img")


def made(bench: BlobBench, count: int, size: int) -> DataFrame:
    """Rows with random bytes."""

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = max(1, (32 << 20) // size)
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                ids = batch.column(0).slice(start, step)
                numbers = np.random.default_rng(ids[0].as_py())
                offsets = np.arange(len(ids) + 1, dtype=np.int32) * size
                data = pa.py_buffer(numbers.bytes(len(ids) * size))
                blobs = pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(offsets), data])
                yield pa.record_batch([ids, blobs], names=["id", "img"])

    return bench.spark.range(0, count, 1, 4).mapInArrow(fill, "id LONG, img BINARY")


def noop(rows: DataFrame) -> None:
    """Compute all rows and keep none."""
    rows.write.format("noop").mode("overwrite").save()


def copy(source: Path, target: Path) -> None:
    """Copy files, and wait until they are durable."""
    fresh(target).mkdir()
    for file in source.glob("*.parquet"):
        with file.open("rb") as read, (target / file.name).open("wb") as written:
            shutil.copyfileobj(read, written, 1 << 20)
            written.flush()
            os.fsync(written.fileno())


def fresh(path: Path) -> Path:
    """The path with nothing at it."""
    shutil.rmtree(path, ignore_errors=True)
    return path


class Watch:
    """The largest resident sizes of a Python worker and of the JVM while something runs."""

    def __init__(self) -> None:
        self.peaks = {"worker": 0, "jvm": 0}
        self._ended, self._thread = threading.Event(), threading.Thread()

    def begin(self) -> None:
        """Look from now on."""
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            for name, size in processes():
                self.peaks[name] = max(self.peaks[name], size)


def processes() -> Iterator[tuple[str, int]]:
    """The Python workers and the JVM of this run, with their resident sizes in bytes."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            name = "worker" if b"pyspark.daemon" in command else "jvm" if b"SparkSubmit" in command else ""
            if name:
                yield name, int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            continue  # it ended while it was looked at


def report(bench: BlobBench) -> list[str]:
    """Rates, ratios to the native function, and whether the aims were reached."""
    results, size = bench.results, bench.size
    lines = ["Writing, MB/s"]
    megabytes = size.blobs * size.size / 1e6
    rates = {way: megabytes / seconds for way, seconds in results.medians()["writing"].items()}
    lines += [f"  {way:<34} {rate:8.0f}" for way, rate in rates.items()]
    lines.append("Times the native function is slower, for each blob (peaks of a worker and of the JVM in MB)")
    for subject, ways in results.medians().items():
        for way, seconds in ways.items():
            if "native" in ways and way != "native":
                peaks = bench.peaks[f"{subject}, {way}"]
                ratio = f"{ways['native'] / seconds:8.1f} x  {peaks['worker'] / 1e6:6.0f} {peaks['jvm'] / 1e6:6.0f}"
                lines.append(f"  {subject:<24} {way:<34} {ratio}")
    lines.append("Aims")
    for subject, way, other, wanted in _AIMS:
        ways = results.medians()[subject]
        lines.append(_verdict(f"{subject}, {way}, to {other}", ways[other] / ways[way], wanted))
    for way, other, wanted in (
        ("ours, raw, without commit", "Python to noop", 0.85),
        ("ours, raw containers", "inline bulk_insert by Hudi", 1.8),
    ):
        lines.append(_verdict(f"{way}, to {other}", rates[way] / rates[other], wanted))
    return lines


def _verdict(aim: str, reached: float, wanted: float) -> str:
    return f"  {aim:<72} {reached:8.2f} x, at least {wanted}: {'yes' if reached >= wanted else 'NO'}"


if __name__ == "__main__":
    main()
