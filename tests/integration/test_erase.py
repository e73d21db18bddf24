"""One person is erased from real tables: what was planted of it everywhere is found by nobody who reads every byte.

The reader shares no code with the package: it reads each file of the folder as it is, each stream of gzip in it, and each
Parquet file by pyarrow.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import killed, tables
from support.blobs import content
from support.frames import planned
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.blobs.uploads.manifest import ABORTED, abort, open_upload, read_upload
from hudi_vector.errors import DataFileError, InvalidArgumentError, RefusedError
from hudi_vector.options import ERASED_KEYS
from hudi_vector.table_services.erasure.erase import ERASE
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.writing.erased.deny_list import add_erased

ROWS = "id STRING, ts LONG, note STRING, small BINARY, large BINARY, emb ARRAY<FLOAT>"
BLOBS = {"small": {"inline.threshold": "1KB"}, "large": {"inline.threshold": "0"}}
PLAIN = {
    **QUICK,
    "hoodie.parquet.compression.codec": "uncompressed",
    "hoodie.clean.automatic": "false",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.commits.archival.batch": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",  # Hudi archives no commit that this compaction has not seen
}


@dataclass(frozen=True)
class Person:
    """What one version of a row of one person holds, all of it drawn from a number."""

    key: str
    note: str
    small: bytes
    large: bytes
    emb: tuple[float, ...]

    @classmethod
    def of(cls, key: str, number: int) -> Person:
        chance = random.Random(number)
        emb = np.array([chance.gauss(0, 1) for _ in range(8)], "<f4")
        note = chance.randbytes(12).hex()
        return cls(key, note, chance.randbytes(64), chance.randbytes(3000), tuple(map(float, emb)))

    def row(self, ts: int) -> tuple[object, ...]:
        return self.key, ts, self.note, bytearray(self.small), bytearray(self.large), list(self.emb)

    def needles(self) -> dict[str, bytes]:
        """What to look for, by the name that a failure shows."""
        return {
            "key": self.key.encode(),
            "note": self.note.encode(),
            "small": self.small,
            "large": self.large[1000:1100],
            "emb": np.array(self.emb, "<f4").tobytes(),
        }


# How many steps an erasure of the small table has at least.
STEPS = 60
ERASED = "person-7d1f0c"
VERSIONS = [Person.of(ERASED, 100 + version) for version in range(3)]
OTHERS = [Person.of(f"other-{number:02d}", number) for number in range(11)]


def contents(file: Path) -> Iterator[bytes]:
    """A file as it is, what its streams of gzip hold, and the values of a Parquet file."""
    content = file.read_bytes()
    yield content
    at = content.find(b"\x1f\x8b\x08")
    while at >= 0:
        unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS)
        with contextlib.suppress(zlib.error):
            yield unpacking.decompress(content[at:])
        at = content.find(b"\x1f\x8b\x08", at + 1)
    if content[:4] == b"PAR1":
        yield repr(pq.read_table(file).to_pylist()).encode()


def planted(*folders: Path) -> dict[str, set[str]]:
    """Where anything of the person is: the names of what was found, by the path of the file."""
    wanted: Mapping[str, bytes] = {
        f"{name} {version}": needle
        for version, person in enumerate(VERSIONS)
        for name, needle in person.needles().items()
    }
    found: dict[str, set[str]] = {}
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            for held in contents(file) if file.is_file() else ():
                names = {name for name, needle in wanted.items() if needle in held}
                if names:
                    found.setdefault(str(file.relative_to(folder)), set()).update(names)
    return found


def write(spark: SparkSession, path: Path, people: list[Person], ts: int, kind: str, **options: str) -> None:
    frame = planned(spark, [person.row(ts) for person in people], ROWS).coalesce(1)
    hv.write(
        frame, str(path), record_key="id", ordering="ts", table_type=kind, blobs=BLOBS, vectors={"emb": 8},
        operation="upsert" if path.exists() else "bulk_insert", options={**PLAIN, **options},
    )  # fmt: skip


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, spark: SparkSession, workspace: Path, tmp_path: Path) -> Iterator[Path]:
    """Versions of a person among others, wherever such a table keeps bytes of it."""
    path, kind = tables.fresh_path(workspace, f"erase-{request.param}"), request.param
    more = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    for version, person in enumerate(VERSIONS if kind == "cow" else VERSIONS[1:]):
        write(spark, path, [person, *(OTHERS if not version else OTHERS[:3])], version + 1, kind, **more)
    if kind == "cow":
        write(spark, path, OTHERS[4:5], 4, kind, **more)
        hv.table_services.clean_blobs(spark, str(path), grace="0s", run_hudi_clean=True, retained_commits=1)
        write(spark, path, OTHERS[4:5], 5, kind, **more)  # archives the first commits
    spark.conf.set("hoodie.vector.cache.dir", str(tmp_path / "cache"))
    assert nearest(spark, path, VERSIONS[2])[0] == ERASED  # decoded vectors go to the cache
    hv.index.create(spark, str(path), "emb", metric="l2", kind="ivf_flat", num_partitions=4)
    yield path
    spark.conf.unset("hoodie.vector.cache.dir")


def nearest(spark: SparkSession, table: Path, query: Person) -> list[str]:
    found = hv.search(spark, str(table), "emb", list(query.emb), 3, metric="l2", columns=["id"])
    return [row["id"] for row in found.collect()]


PLACES = {
    "cow": {".parquet", "blobs", "trash", "column_stats", "segments", "hudi-vector-"},
    "mor": {".parquet", ".log", "blobs", "column_stats", "segments"},
}


def test_no_byte_of_a_person_is_left(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    kind, cache = table.name.split("-")[1][:3], tmp_path / "cache"
    before = planted(table, cache)
    assert kind == "mor" or list((table / ".hoodie/timeline/history").glob("*.parquet"))
    assert {place for place in PLACES[kind] if not any(place in path for path in before)} == set()
    assert {name for names in before.values() for name in names} >= {f"{name} 2" for name in VERSIONS[2].needles()}

    dry = hv.table_services.erase(spark, str(table), ERASED, dry_run=True)
    assert (dry.erased, dry.is_well, planted(table, cache)) == (False, True, before)
    due = {each.step for each in dry.steps if each.state == "due"}
    done = hv.table_services.erase(spark, str(table), [ERASED])
    assert (done.remains, done.doubts, done.erased) == ([], (), True)
    assert {each.step for each in done.steps if each.state == "done"} == due
    assert planted(table, cache) == {}

    assert [index.covered_rows for index in hv.index.describe(spark, str(table))] == [len(OTHERS)]

    if kind == "mor":
        load_again(spark, table)
        assert planted(table, cache) == {}
    again = hv.table_services.erase(spark, str(table), ERASED)
    assert (again.erased, {each.state for each in again.steps}) == (True, {"nothing to do"})
    # The others are as they were, and the index that was made again finds them.
    rows = spark.read.format("hudi").load(str(table)).selectExpr("id", "read_blob(small) s", "read_blob(large) l")
    assert {(row[0], bytes(row[1]), bytes(row[2])) for row in rows.collect()} == {
        (each.key, each.small, each.large) for each in OTHERS
    }
    assert hv.blobs.verify(None, str(table)).to_pylist() == []
    assert nearest(spark, table, OTHERS[5])[0] == OTHERS[5].key


def load_again(spark: SparkSession, table: Path) -> None:
    """A load brings the person back only where it does not consult the list of erased keys."""
    late = planned(spark, [VERSIONS[0].row(9), OTHERS[0].row(9)], ROWS).coalesce(1)
    more = {"record_key": "id", "ordering": "ts", "blobs": BLOBS, "vectors": {"emb": 8}}
    with pytest.raises(InvalidArgumentError, match="nothing was written: 1 row has record keys that were erased"):
        hv.write(late, str(table), options={**PLAIN, ERASED_KEYS.key: "fail"}, **more)
    loaded = hv.write(late, str(table), options={**PLAIN, ERASED_KEYS.key: "drop"}, **more)
    assert (loaded.erased, loaded.updated) == (1, 1)


KEYS = {
    "a number": ({"record_key": "n"}, ["7"]),
    "two columns": ({"record_key": ["id", "n"], "partition_by": "p"}, ["id:7,n:7", "id:__empty__,n:9"]),
    "two partitions": ({"record_key": "id", "partition_by": ["p", "q"]}, ["7"]),
    "a named column": ({"record_key": "id", "partition_by": "p"}, ["7"]),
}
NAMED = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"}


@pytest.mark.parametrize("form", KEYS)
def test_keys_are_kept_out_as_hudi_writes_them(spark: SparkSession, workspace: Path, form: str) -> None:
    layout, keys = KEYS[form]
    path = str(tables.fresh_path(workspace, "erased-keys"))
    settings = {**QUICK, **NAMED} if form == "a named column" else QUICK
    empty = "" if len(keys) > 1 else "9"  # a part of a key may be empty, and a whole one may not
    rows = [(str(n) if n < 9 else empty, n, n % 2, "x") for n in range(10)]
    frame = planned(spark, rows, "id STRING, n BIGINT, p INT, q STRING").coalesce(1)
    hv.write(frame, path, operation="bulk_insert", options=settings, **layout)
    files = [file for file in Path(path).rglob("*.parquet") if ".hoodie" not in file.parts]
    stored = {key for file in files for key in pq.read_table(file)["_hoodie_record_key"].to_pylist()}
    keys = [next(key for key in sorted(stored) if key in (wanted, f"id:{wanted}")) for wanted in keys]
    add_erased(path, keys)
    done = hv.write(frame, path, options={**settings, ERASED_KEYS.key: "drop"}, **layout)
    assert (done.erased, done.updated) == (len(keys), len(rows) - len(keys))
    if form == "two columns":
        gone = hv.write(frame, path, operation="delete", options={**QUICK, ERASED_KEYS.key: "fail"}, **layout)
        assert (gone.erased, gone.deleted) == (0, len(rows)), "a delete brings nobody back"


def test_keys_that_cannot_be_compared(spark: SparkSession, workspace: Path) -> None:
    path = str(tables.fresh_path(workspace, "erased-dates"))
    frame = spark.sql("SELECT DATE'2026-01-01' AS day, 1 AS n")
    hv.write(frame, path, record_key="day", operation="bulk_insert", options=QUICK)
    checked = {**QUICK, ERASED_KEYS.key: "drop"}
    assert hv.write(frame, path, record_key="day", options=checked).erased == 0, "nothing was erased from it"
    add_erased(path, ["a"])
    with pytest.raises(InvalidArgumentError, match="compares record keys as texts, and column 'day' is date; make it"):
        hv.write(frame, path, record_key="day", options=checked)
    newest = max((Path(path) / ".hoodie/blob_service/v1/erased_keys").iterdir())
    newest.write_bytes(newest.read_bytes()[:-2])
    with pytest.raises(DataFileError, match=r"the list of erased keys '.*' is damaged; remove the folder and erase"):
        hv.write(frame, path, record_key="day", options=checked)


@pytest.fixture(scope="module")
def small(spark: SparkSession, workspace: Path) -> Path:
    """Two versions of a few rows with blobs and vectors, where erasures are refused, or killed."""
    path = tables.fresh_path(workspace, "erase-small")
    little = {"hoodie.clean.automatic": "false"}
    killed.write(spark, str(path), range(6), 1, **little)
    killed.write(spark, str(path), range(0, 6, 2), 2, **little)
    return path


def test_what_forbids_an_erasure_is_named_and_nothing_is_changed(spark: SparkSession, small: Path) -> None:
    def refused(why: str) -> None:
        before = files_of(small)
        dry = hv.table_services.erase(spark, str(small), "0", dry_run=True)
        assert (dry.is_well, re.search(why, dry.refusal or "") is not None) == (False, True), dry.refusal
        with pytest.raises(RefusedError, match=why):
            hv.table_services.erase(spark, str(small), "0")
        assert files_of(small) == before

    timeline = small / ".hoodie/timeline"
    # The first commit has made the table, without a row.
    instant = sorted(file.name.partition("_")[0] for file in timeline.glob("*.commit"))[1]
    spark.sql(f"CALL create_savepoint(path => '{small}', commit_time => '{instant}')").collect()
    refused(f"savepoint {instant} of '.*' holds 'p0/.*parquet' with rows of the keys; delete the savepoint")
    spark.sql(f"CALL delete_savepoint(path => '{small}', instant_time => '{instant}')").collect()

    write_id = open_upload(str(small), {}, lease_ms=60_000).write_id
    refused(f"write '{write_id}' to '.*' is under way, and may bring rows of the keys until .* assume_single_writer")
    assert hv.table_services.erase(spark, str(small), "0", dry_run=True, assume_single_writer=True).refusal is None
    abort(str(small), write_id)

    begun = [timeline / f"20991231000000000.{name}" for name in ("commit.requested", "inflight")]
    for file in begun:
        file.touch()
    refused("commit 20991231000000000 of '.*' has not completed, and may bring rows of the keys; wait until")
    for file in begun:
        file.unlink()

    with ServiceLease(str(small), ERASE), pytest.raises(RefusedError, match=r"another erase of '.*' is under way"):
        hv.table_services.erase(spark, str(small), "0")


def test_a_killed_erasure_is_ended_by_the_next_one(spark: SparkSession, small: Path, tmp_path: Path) -> None:
    """One kill, not always at the same step: the seed is in the variable of `make soak`."""
    step = random.Random(f"{killed.seed()} erase").randint(1, STEPS)
    failed = open_upload(str(small), {}, lease_ms=3_600_000).write_id
    try:
        killed.run("erase", str(small), step, tmp_path / "driver")
        # Who held the leases is dead: a real successor waits until they run out.
        shutil.rmtree(small / ".hoodie/blob_service/v1/leases", ignore_errors=True)
        spark.catalog.refreshByPath(str(small))
        killed.erase(spark, str(small))
        assert read_upload(str(small), failed).state == ABORTED, "the table has one writer, which waits for its erasure"
        rows = spark.read.format("hudi").load(str(small)).selectExpr("id", "ts", "read_blob(img) b").collect()
        assert {row["id"]: row["ts"] for row in rows} == {1: 1, 2: 2, 3: 1, 4: 2, 5: 1}
        for row in rows:
            size = killed.size(row["id"])
            assert row["b"] == (None if size is None else content(row["id"] + 1000 * row["ts"], size))
        gone = [content(1000 * ts, 3000)[:32] for ts in (1, 2)]
        assert not [file for file in small.rglob("*") if file.is_file() and any(g in file.read_bytes() for g in gone)]
    except Exception as problem:
        problem.add_note(f"killed at step {step}")
        raise


def files_of(folder: Path) -> dict[str, bytes]:
    """All files but what services note: records of erasures, leases, and references that were read."""
    noted = (".hoodie/blob_service/v1/erasures", ".hoodie/blob_service/v1/leases", ".hoodie/blob_refs")
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {path: file.read_bytes() for path, file in found.items() if not path.startswith(noted)}
