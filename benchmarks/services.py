"""How fast does the cleaner know who refers to what, and what does the second run of a mark cost?

    python benchmarks/services.py [--rows 980000] [--parts 49] [--output bench-output] [--small]

A merge-on-read table of blobs in containers of 200, written by Hudi: a base file for each part, then an upsert of a
fifth of the rows into log files, in blocks of Avro and again in blocks of Parquet. References for each second are of
one core: they are divided by the processor time of a process that reads one file after the other. Marks are by the
clock: of all files, again, after an upsert whose log files are 2 % of all files then, and of all files by the
executors. Files are made to look an hour old, since a mark reads what changed within the last minute each time. Writes
``services.json``.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import Results, environment, parser_of, publish, session_in, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table_services.retention.retained import RetainedFile

_WRITE = "20260101000000000_0123456789ab"
_BLOBS_IN_A_CONTAINER = 200
_BLOB_BYTES = 20 << 10
_REPEATS = 3
_CHANGED = 0.02
_HOUR_NS = 3_600_000_000_000
_AIMS = {"base files": 500_000, "log files, avro": 30_000}


@dataclass(frozen=True)
class Size:
    """How many rows in how many parts."""

    rows: int
    parts: int


@dataclass
class Bench:
    """The session, the table and what was measured."""

    spark: SparkSession
    path: Path
    size: Size
    results: Results = field(default_factory=Results)
    rates: dict[str, dict[str, float]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=980_000)
    parser.add_argument("--parts", type=int, default=49)
    given = parser.parse_args()
    size = Size(given.rows // (100 if given.small else 1), given.parts)
    folder, about = given.output.resolve() / "services", environment()
    with session_in(folder) as spark:
        bench = Bench(spark, folder / "t", size)
        write_table(bench)
        scans(bench)
        marks(bench)
    print("\n" + "\n".join(report(bench)))
    content = {"size": size, "seconds": bench.results.seconds, "rates": bench.rates, "files": bench.counts}
    publish("services", given, about, content)


def write_table(bench: Bench) -> None:
    """Base files, containers, and log files of both forms."""
    size = bench.size
    write(bench, "bulk_insert", f"id < {size.rows}", 1)
    for number in range(size.rows // _BLOBS_IN_A_CONTAINER):
        container = Path(container_of(bench, number))
        container.parent.mkdir(parents=True, exist_ok=True)
        container.touch()
    for ts, form in ((2, "avro"), (3, "parquet")):
        write(bench, "upsert", "id % 5 = 0", ts, **{"hoodie.logfile.data.block.format": form})


def write(bench: Bench, operation: str, where: str, ts: int, **options: str) -> None:
    """Rows whose blobs lie in containers, by Hudi's own writer."""
    size = bench.size
    path = container_of(bench, "{}").split("{}")
    number = f"id div {_BLOBS_IN_A_CONTAINER}"
    reference = (
        f"named_struct('external_path', concat('{path[0]}', {number}, '{path[1]}'), "
        f"'offset', id % {_BLOBS_IN_A_CONTAINER} * {_BLOB_BYTES}L, 'length', {_BLOB_BYTES}L, 'managed', true)"
    )
    blob = f"named_struct('type', 'OUT_OF_LINE', 'data', CAST(NULL AS BINARY), 'reference', {reference})"
    rows = bench.spark.range(0, size.rows, 1, size.parts).where(where)
    part = f"CAST(id div {max(1, size.rows // size.parts)} AS STRING) AS part"
    rows = rows.selectExpr("id", f"{ts}L AS ts", part, f"{blob} AS img").withMetadata("img", {"hudi_type": "BLOB"})
    settings = {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": operation,
        "hoodie.bulkinsert.sort.mode": "NONE",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        **options,
    }
    rows.write.format("hudi").options(**settings).mode("append").save(str(bench.path))


def container_of(bench: Bench, number: int | str) -> str:
    """The path of a container."""
    return f"{bench.path}/.hoodie/blobs/img/{_WRITE}/{_WRITE}-00000-0-{number}.blob"


def scans(bench: Bench) -> None:
    """References for each second of one core, by the kind of file."""
    from hudi_vector.read.logs.blocks import AVRO_DATA, read_blocks
    from hudi_vector.table_services.retention.retained import BASE

    def form_of(file: RetainedFile) -> str:
        if file.kind == BASE:
            return "base files"
        with open(file.info.uri[len("file://") :], "rb") as source:
            is_avro = next(iter(read_blocks(source))).kind == AVRO_DATA
        return f"log files, {'avro' if is_avro else 'parquet'}"

    by_form: dict[str, list[RetainedFile]] = {}
    for file in listed(bench):
        by_form.setdefault(form_of(file), []).append(file)
    print("\nreferences for each second of one core")
    for form, files in by_form.items():
        bench.rates[form] = spread([rate_of(files) for _ in range(_REPEATS + 1)][1:])
        print(f"  {form:<22} {bench.rates[form]['median']:12,.0f}   {len(files)} files", flush=True)


def rate_of(files: list[RetainedFile]) -> float:
    """References of some files for each second of processor time."""
    from hudi_vector.storage import StorageOptions
    from hudi_vector.table_services.references.files import references_of

    begun, count = time.process_time(), 0
    for file in files:
        count += references_of(file, StorageOptions()).references.num_rows
    return count / (time.process_time() - begun)


def marks(bench: Bench) -> None:
    """The first mark, the second, one after a small change, and one by the executors."""
    from hudi_vector.table_services.references.distributed import SpreadLimits, spread_reader

    print("\nmarks")
    age(bench)
    spread_out = spread_reader(bench.spark.sparkContext, SpreadLimits(0, 0))
    for number in range(_REPEATS + 1):
        for way, reader in (("all files, by executors", spread_out), ("all files, kept", None)):
            shutil.rmtree(bench.path / ".hoodie" / "blob_refs", ignore_errors=True)
            mark(bench, way, number, reader)
        mark(bench, "nothing changed", number)
    before, part = len(listed(bench)), bench.size.rows // bench.size.parts
    # Each part that is written to gets one log file: 3 of 150 with 49 parts of three files.
    added = max(1, round(before * _CHANGED / (1 - _CHANGED)))
    for number in range(_REPEATS + 1):
        write(bench, "upsert", f"id % 10 = 0 AND id < {part * added}", 4 + number)
        age(bench)
        mark(bench, "a fiftieth of the files changed", number)


def mark(bench: Bench, way: str, number: int, reader: Any = None) -> None:
    """One mark, and what it keeps for the next; the first of each way warms up."""
    from hudi_vector.table_services.marking.mark import find_unneeded
    from hudi_vector.table_services.references.files import read_here
    from hudi_vector.table_services.references.kept import KeptReferences

    begun = time.perf_counter()
    kept = KeptReferences(str(bench.path), reader=reader or read_here)
    found = find_unneeded(str(bench.path), grace_ms=0, reader=kept)
    kept.save()
    seconds = time.perf_counter() - begun
    if found.doubts:
        raise SystemExit(f"a mark of the benchmark's table is in doubt: {found.doubts[0]}")
    bench.counts[way] = (found.opened_files, found.retained_files)
    if number:
        bench.results.add("mark", way, [*bench.results.seconds.get("mark", {}).get(way, ()), seconds])


def listed(bench: Bench) -> list[RetainedFile]:
    """The data files."""
    from hudi_vector.storage import StorageOptions, open_storage
    from hudi_vector.table_services.retention.retained import list_retained

    uri = f"file://{bench.path}"
    return list(list_retained(uri, open_storage(uri, StorageOptions())).files)


def age(bench: Bench) -> None:
    """Let the data files that are young look an hour older."""
    for file in listed(bench):
        if file.info.mtime_ns > time.time_ns() - _HOUR_NS:
            os.utime(file.info.uri[len("file://") :], ns=(file.info.mtime_ns - _HOUR_NS,) * 2)


def report(bench: Bench) -> list[str]:
    """Rates, times, and whether the aims were reached."""
    lines = ["References for each second of one core"]
    for form, rate in bench.rates.items():
        middle, aim = rate["median"], ""
        if form in _AIMS:
            aim = f"   aim {_AIMS[form]:,}: {'reached' if middle >= _AIMS[form] else 'not reached'}"
        lines.append(f"  {form:<26} {middle:12,.0f}{aim}")
    lines.append("Marks: seconds, files opened of files retained")
    for way, seconds in bench.results.medians()["mark"].items():
        opened, retained = bench.counts[way]
        lines.append(f"  {way:<26} {seconds:12.2f}   {opened} of {retained}")
    return lines


if __name__ == "__main__":
    main()
