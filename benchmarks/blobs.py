"""How fast are blobs? Hudi's native ``read_blob``, inline Parquet and ours, in one run over the same bytes.

    python benchmarks/blobs.py [--blobs 20000] [--size 20480] [--large 400] [--output bench-output] [--quick]

Every read goes to Spark's noop sink. "Native, tuned" has a lookahead of 1,000 rows and gaps of 64 KiB; in random order
the native function takes seconds for each hundred blobs, so that only some are asked of it, and times are for each
blob. "Without commit" is what stands beside Python to noop: the bytes made durable and the rows staged, by
``hv.blobs.prepare``. Single values are ten by their keys, in one table with Hudi's record index and one without. Prints
medians and ratios with the largest resident size of Python's workers; writes ``blobs.json``. The ways of writing take
turns, round by round, because what one leaves to the disk slows the next.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from common import Bench, environment, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TUNED = {"hoodie.blob.batching.lookahead.size": "1000", "hoodie.blob.batching.max.gap.bytes": "65536"}
_LARGE_SIZE = 2 << 20
_AIMS = (
    ("containers, key order", "native", 3.0),
    ("small files", "native", 1.3),
    ("containers, key order", "native, tuned", 0.9),
)


@dataclass(frozen=True)
class Size:
    """How many blobs of how many bytes, and how often each time is taken."""

    blobs: int
    size: int
    large: int
    random_native: int
    repeats: int


@dataclass
class BlobBench(Bench[Size]):
    """Also the workers' largest resident sizes."""

    peaks: dict[str, int] = field(default_factory=dict)

    def timed(
        self, subject: str, way: str, run: Callable[[], Any], repeats: int | None = None, each: int = 1, warm: int = 1
    ) -> None:
        """Run a few times; keep the seconds for each of `each` blobs, and the workers' largest resident size."""
        times = []
        with watched() as peak:
            # The first run of a way pays for classes that are loaded and processes that are started.
            for number in range((repeats or self.size.repeats) + warm):
                begun = time.perf_counter()
                run()
                if number >= warm:
                    times.append((time.perf_counter() - begun) / each)
        self.results.add(subject, way, times)
        self.peaks[f"{subject}, {way}"] = peak[0]

    def in_turns(self, subject: str, ways: Mapping[str, Callable[[], Any]]) -> None:
        """Run ways round by round, each round begun by another: what one leaves to the disk slows all of them."""
        times: dict[str, list[float]] = {way: [] for way in ways}
        peaks = dict.fromkeys(ways, 0)
        names = list(ways)
        for number in range(self.size.repeats + 1):
            first = number % len(names)
            for way in names[first:] + names[:first]:
                with watched() as peak:
                    begun = time.perf_counter()
                    ways[way]()
                    seconds = time.perf_counter() - begun
                peaks[way] = max(peaks[way], peak[0])
                if number:  # the first round pays for classes that are loaded and processes that are started
                    times[way].append(seconds)
        for way in names:
            self.results.add(subject, way, times[way])
            self.peaks[f"{subject}, {way}"] = peaks[way]


def main() -> None:
    """Measure everything, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blobs", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=20 << 10, help="bytes of a blob")
    parser.add_argument("--large", type=int, default=400, help="blobs of 2 MiB")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the blobs, once")
    given = parser.parse_args()
    part = 100 if given.quick else 1
    size = Size(given.blobs // part, given.size, max(4, given.large // part), 400 // part, 1 if given.quick else 3)
    output: Path = given.output.resolve()
    shutil.rmtree(output / "blobs", ignore_errors=True)
    (output / "blobs").mkdir(parents=True)
    bench = BlobBench(session(output), output / "blobs", size)
    try:
        writes(bench)
        reads(bench)
        singles(bench)
    finally:
        bench.spark.stop()
    shutil.rmtree(output / "blobs", ignore_errors=True)
    lines = report(bench)
    print("\n" + "\n".join(lines))
    content = {"size": asdict(size), **environment(), "seconds": bench.results.seconds}
    content |= {"medians": bench.results.medians(), "peaks": bench.peaks, "report": lines}
    (output / "blobs.json").write_text(json.dumps(content, indent=2) + "\n")
    print(f"\nWritten: {output / 'blobs.json'}")


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

        ways[f"ours, {kind} containers"] = written
        ways[f"ours, {kind}, without commit"] = stored
    bench.in_turns("writing", ways)


def reads(bench: BlobBench) -> None:
    """Every layout by the native function, and by ours."""
    size, spark = bench.size, bench.spark
    ordered = spark.read.format("hudi").load(str(bench.folder / "raw")).select("id", "img")
    print("\nreading")
    native_ways(bench, "containers, key order", ordered, size.blobs, size.blobs)
    ours(bench, "containers, key order", ordered, size.blobs)
    inline = spark.read.format("hudi").load(str(bench.folder / "inline"))
    bench.timed(
        "containers, key order", "inline Parquet", lambda: noop(inline.select("id", "img.data")), each=size.blobs
    )
    for kind in ("parquet", "lance"):
        ours(bench, f"{kind} containers", spark.read.format("hudi").load(str(bench.folder / kind)), size.blobs)
    shuffled = table_of(bench, "shuffled", ordered.selectExpr("*", "rand(7) AS place").orderBy("place").drop("place"))
    native_ways(bench, "containers, random", shuffled, size.random_native, size.random_native)
    ours(bench, "containers, random", shuffled, size.blobs)
    files = table_of(bench, "files", small_files(bench))
    native_ways(bench, "small files", files, size.blobs, size.blobs)
    ours(bench, "small files", files, size.blobs)
    large = large_blobs(bench)
    native_ways(bench, "2 MiB blobs", large, size.large, size.large)
    ours(bench, "2 MiB blobs", large, size.large)


def singles(bench: BlobBench) -> None:
    """Ten values by their keys: looked up, and found by a scan."""
    import hudi_vector as hv

    spark, plain, indexed = bench.spark, str(bench.folder / "raw"), str(bench.folder / "indexed")
    rows = spark.read.parquet(str(bench.folder / "source"))
    index = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    settings = {"img": {"inline.threshold": "0"}}
    hv.write(rows, indexed, record_key="id", operation="bulk_insert", blobs=settings, options=_HUDI | index)
    keys = [number * bench.size.blobs // 10 for number in range(10)]
    subject = "ten single values"
    for name, path in (("no index", plain), ("record index", indexed)):
        bench.timed(subject, f"ours, get, {name}", lambda path=path: hv.blobs.get(spark, path, keys, "img"))
    scanned = spark.read.format("hudi").load(plain).where(f"id IN ({', '.join(map(str, keys))})")
    bench.timed(subject, "a scan, read_blob", lambda: scanned.selectExpr("id", "read_blob(img)").collect())
    bench.timed(subject, "native", lambda: scanned.selectExpr("id", "read_blob_native(img)").collect())


def native_ways(bench: BlobBench, subject: str, rows: DataFrame, count: int, each: int) -> None:
    """Hudi's own function, by default and tuned."""
    some = rows if count >= bench.size.blobs or subject == "2 MiB blobs" else rows.limit(count)
    read = some.selectExpr("id", "read_blob_native(img) AS bytes")
    bench.timed(subject, "native", lambda: noop(read), repeats=1, each=each, warm=0)
    for key, value in _TUNED.items():
        bench.spark.conf.set(key, value)
    try:
        bench.timed(subject, "native, tuned", lambda: noop(read), each=each)
    finally:
        for key in _TUNED:
            bench.spark.conf.unset(key)


def ours(bench: BlobBench, subject: str, rows: DataFrame, each: int) -> None:
    """Our function in SQL, and over a DataFrame with four threads."""
    import hudi_vector as hv

    bench.timed(subject, "ours, read_blob", lambda: noop(rows.selectExpr("id", "read_blob(img) AS bytes")), each=each)
    late = hv.read_blobs(rows.select("id", "img"), "img", threads=4)
    bench.timed(subject, "ours, read_blobs, 4 threads", lambda: noop(late), each=each)


_HUDI = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.metadata.enable": "false"}


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


@contextmanager
def watched() -> Iterator[list[int]]:
    """The largest resident size of a Python worker while something runs, in bytes."""
    peak, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], *workers(), 0)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def workers() -> list[int]:
    """The resident sizes of the Python workers, in bytes."""
    sizes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                pages = int((process / "statm").read_text().split()[1])
                sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
        except (OSError, IndexError):
            continue  # it ended while it was looked at
    return sizes


def report(bench: BlobBench) -> list[str]:
    """Rates, ratios to the native function, and whether the aims were reached."""
    results, size = bench.results, bench.size
    lines = ["Writing, MB/s"]
    megabytes = size.blobs * size.size / 1e6
    rates = {way: megabytes / seconds for way, seconds in results.medians()["writing"].items()}
    lines += [f"  {way:<34} {rate:8.0f}" for way, rate in rates.items()]
    lines.append("Times the native function is slower, for each blob (peak of a worker in MB)")
    for subject, ways in results.medians().items():
        for way, seconds in ways.items():
            native = ways.get("native")
            if way.startswith(("ours", "inline")) and native and subject != "writing":
                peak = bench.peaks[f"{subject}, {way}"] / 1e6
                lines.append(f"  {subject:<22} {way:<34} {native / seconds:8.1f} x  {peak:6.0f}")
    lines.append("Aims")
    for subject, other, wanted in _AIMS:
        ways = results.medians()[subject]
        best = min(seconds for way, seconds in ways.items() if way.startswith("ours"))
        reached = ways[other] / best
        lines.append(
            f"  {subject}, to {other:<16} {reached:8.2f} x, at least {wanted}: {'yes' if reached >= wanted else 'NO'}"
        )
    for way, other, wanted in (
        ("ours, raw, without commit", "Python to noop", 0.85),
        ("ours, raw containers", "inline bulk_insert by Hudi", 1.8),
    ):
        reached = rates[way] / rates[other]
        lines.append(
            f"  {way}, to {other:<26} {reached:8.2f} x, at least {wanted}: {'yes' if reached >= wanted else 'NO'}"
        )
    return lines


if __name__ == "__main__":
    main()
