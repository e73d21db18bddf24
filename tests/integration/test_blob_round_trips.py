"""Blobs through a table's life: every byte comes back, now and at the instants still retained, to us and to Hudi."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from support import tables
from support.blobs import by_id, content, got, rows, stored, write
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.blobs.uploads.manifest import COMMITTED, list_uploads

pytestmark = pytest.mark.usefixtures("quick_sql")

INLINE, ELEMENT, CONTAINER = 1000, 4096, 8192
LIMITS = {
    "img": {
        "inline.threshold": str(INLINE),
        "container.maxElementSize": str(ELEMENT),
        "container.maxFileSize": str(CONTAINER),
    }
}
SIZES = [0, 1, *(limit + step for limit in (INLINE, ELEMENT, CONTAINER) for step in (-1, 0, 1)), None]
FIELDS = [
    StructField("id", IntegerType()),
    StructField("ts", LongType()),
    StructField("part", StringType()),
    hv.blob_field("img"),
    StructField("note", StringType()),
]


def sized(sizes: list[int | None], ts: int) -> dict[int, bytes | None]:
    """The bytes that `rows` makes of these sizes."""
    return {i: None if size is None else content(i + 1000 * ts, size) for i, size in enumerate(sizes)}


def native(frame: DataFrame) -> DataFrame:
    """What Hudi's own function reads; Hudi 1.2 does not plan it directly over a table that is read by path."""
    return frame.selectExpr("id", "'native' AS way", "read_blob_native(img) AS b")


@dataclass
class Trip:
    """A table on its way, and the bytes its rows should have."""

    spark: SparkSession
    path: Path
    table_type: str
    partition_by: str | None
    settings: dict[str, str]
    name: str = field(default_factory=lambda: tables.fresh_name("trip"))
    now: dict[int, bytes | None] = field(default_factory=dict)
    past: dict[str, dict[int, bytes | None]] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)

    def write(self, frame: DataFrame, changed: dict[int, bytes | None], **more: Any) -> Any:
        """A commit of ours that gives these rows these bytes."""
        frame = frame if "note" in frame.columns else frame.withColumn("note", F.lit("written"))
        options = {**self.settings, "hoodie.compact.inline": "false"}
        layout = {"table_type": self.table_type, "partition_by": self.partition_by}
        made = write(frame, self.path, blobs=LIMITS, options=options, **layout, **more)
        self.commits[made.blobs.write_id] = made.instant
        self.now = {**self.now, **changed}
        self.past[made.instant] = self.now
        return made

    def sql(self, statement: str) -> list[Any]:
        """A statement of Hudi's own; `{t}` is the table."""
        properties = "TBLPROPERTIES ('hoodie.compact.inline' = 'false')"
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} USING hudi LOCATION '{self.path}' {properties}")
        # A relation of before a table service looks for files that are gone.
        self.spark.sql(f"REFRESH TABLE {self.name}")
        return self.spark.sql(statement.format(t=self.name)).collect()

    def load(self) -> DataFrame:
        """The table, read anew."""
        return self.spark.read.format("hudi").load(str(self.path))

    def references(self) -> dict[int, Any]:
        """The blob structs themselves."""
        return {row.id: row.img for row in self.load().select("id", "img").collect()}

    def check(self, step: str) -> None:
        """Every way to read gives every row its bytes."""
        frame = self.load().select("id", "img")
        ours = hv.read_blobs(frame.selectExpr("id", "img", "read_blob(img) AS b"), "img")
        ways = ours.selectExpr("id", "stack(2, 'read_blobs', img, 'read_blob', b) AS (way, b)")
        self._agree(ways.union(native(frame)), {"read_blobs", "read_blob", "native"}, self.now, step)
        assert hv.blobs.get(self.spark, str(self.path), [*self.now, 4711], "img") == self.now, step

    def check_past(self, instant: str, step: str) -> None:
        """The table as of an instant has the bytes it had then."""
        then = self.spark.read.format("hudi").option("as.of.instant", instant).load(str(self.path)).select("id", "img")
        ours = then.selectExpr("id", "'read_blob' AS way", "read_blob(img) AS b")
        self._agree(ours.union(native(then)), {"read_blob", "native"}, self.past[instant], step)

    def _agree(self, frame: DataFrame, ways: set[str], wanted: dict[int, bytes | None], step: str) -> None:
        """Each way to read gives every row its bytes, once."""
        found: dict[str, dict[int, bytes | None]] = {way: {} for way in ways}
        rows = frame.collect()
        for row in rows:
            found[row.way][row.id] = None if row.b is None else bytes(row.b)
        assert found == dict.fromkeys(ways, wanted), step
        assert len(rows) == len(ways) * len(wanted), step

    def instants(self, *actions: str) -> list[str]:
        """When the completed actions of some kinds began."""
        names = (file.name for file in (self.path / ".hoodie/timeline").iterdir() if "_" in file.name)
        return sorted(name.partition("_")[0] for name in names if name.endswith(tuple(f".{one}" for one in actions)))

    def files(self, pattern: str) -> set[Path]:
        """Files of the table's partitions, not of its metadata."""
        found = (file.relative_to(self.path) for file in self.path.rglob(pattern))
        return {file for file in found if file.parts[0] != ".hoodie"}

    def containers(self) -> set[Path]:
        """Files in the blob area."""
        return {file for file in (self.path / ".hoodie/blobs").rglob("*") if file.is_file()}


EVENT_TIME = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
COMMIT_TIME = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
# Of two rows of one key the one with the lower ordering value stays.
REVERSE = {
    "hoodie.write.record.merge.mode": "CUSTOM",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload",
}


@pytest.mark.parametrize(
    ("table_type", "partition_by", "settings"),
    [
        pytest.param("cow", None, COMMIT_TIME, id="cow", marks=pytest.mark.hudi_defaults),
        pytest.param("mor", "part", EVENT_TIME, id="mor, partitioned"),
        pytest.param("cow", "part", EVENT_TIME, id="cow, partitioned", marks=pytest.mark.soak),
        pytest.param("mor", None, COMMIT_TIME, id="mor", marks=pytest.mark.soak),
    ],
)
def test_every_byte_comes_back_whatever_happens_to_the_table(spark, workspace, table_type, partition_by, settings):
    trip = Trip(spark, tables.fresh_path(workspace, "trip"), table_type, partition_by, settings)
    first = _write_every_size(trip)
    _update_other_columns(trip)
    _replace(trip)
    trip.check_past(first, "replaced")
    _delete(trip)
    _write_with_hudi_alone(trip, workspace)
    if table_type == "mor":
        _compact(trip)
    _restore(trip)
    _cluster(trip)
    _clean(trip, first)

    states = {upload.write_id: (upload.state, upload.instant) for upload in list_uploads(f"file://{trip.path}")}
    assert states == {write_id: (COMMITTED, instant) for write_id, instant in trip.commits.items()}
    assert list((trip.path / ".hoodie/blob_service/v1/staging").iterdir()) == []
    assert hv.blobs.verify(None, str(trip.path)).to_pylist() == []


def _write_every_size(trip):
    made = trip.write(rows(trip.spark, SIZES).coalesce(1), sized(SIZES, 1), operation="bulk_insert")
    trip.check("written")
    inline = {i: size is not None and size < INLINE for i, size in enumerate(SIZES)}
    found = trip.references()
    assert {i: blob and blob.type for i, blob in found.items()} == {
        i: None if SIZES[i] is None else "INLINE" if inline[i] else "OUT_OF_LINE" for i in inline
    }
    held: dict[str, list[int]] = {}
    for i, blob in found.items():
        if blob is not None and blob.type == "OUT_OF_LINE":
            held.setdefault(blob.reference.external_path, []).append(SIZES[i])
    # A blob above one limit is alone, the others share containers up to the other limit.
    assert all(len(sizes) == 1 for sizes in held.values() if max(sizes) > ELEMENT)
    assert all(sum(sizes) <= CONTAINER for sizes in held.values() if max(sizes) <= ELEMENT)
    assert max(map(len, held.values())) > 1
    return made.instant


def _update_other_columns(trip):
    references, containers = trip.references(), trip.containers()
    again = trip.load().withColumns({"note": F.lit("again"), "ts": F.lit(2).cast("long")})
    made = trip.write(again.where("id % 2 = 0"), {})
    assert made.blobs.blobs == 0
    trip.sql("UPDATE {t} SET note = 'updated' WHERE id IN (1, 2, 5)")
    notes = dict(trip.load().select("id", "note").collect())
    assert notes == {i: "updated" if i in (1, 2, 5) else "written" if i % 2 else "again" for i in range(len(SIZES))}
    assert trip.references() == references
    assert trip.containers() == containers
    trip.check("other columns updated")


def _replace(trip):
    sizes = [*reversed(SIZES[:6]), None]
    trip.write(rows(trip.spark, sizes, ts=5), sized(sizes, 5))
    late = sized([2000, 10], 3) if trip.settings == COMMIT_TIME else {}
    trip.write(rows(trip.spark, [2000, 10], ts=3), late)
    trip.check("replaced, and a late row")


def _delete(trip):
    removed = [2, 4, 9]
    gone = rows(trip.spark, SIZES).where(F.col("id").isin(removed))
    options = {**QUICK, "hoodie.compact.inline": "false"}
    hv.write(gone.select("id", "part"), str(trip.path), record_key="id", operation="delete", options=options)
    trip.now = {i: data for i, data in trip.now.items() if i not in removed}


def _write_with_hudi_alone(trip, workspace):
    part, whole = workspace / f"{trip.name}.part", workspace / f"{trip.name}.whole"
    part.write_bytes(content(70, 5000))
    whole.write_bytes(content(71, 3000))
    given = {
        0: ("OUT_OF_LINE", None, (str(part), 100, 2000, False)),
        9: ("OUT_OF_LINE", None, (str(part), 3000, 30, False)),  # it was deleted
        50: ("INLINE", bytearray(b"inline"), None),
        51: ("OUT_OF_LINE", None, (str(whole), None, None, False)),
        52: None,
    }
    frame = trip.spark.createDataFrame(
        [(i, 7, f"p{i % 2}", img, "hudi") for i, img in given.items()], StructType(FIELDS)
    )
    partition = {"datasource__write__partitionpath__field": trip.partition_by} if trip.partition_by else {}
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[trip.table_type]
    more = {"table__name": trip.path.name, "table__ordering__fields": "ts", "datasource__write__table__type": kind}
    tables.write(frame, trip.path, compact__inline="false", **partition, **more)
    data = content(70, 5000)
    added = {0: data[100:2100], 9: data[3000:3030], 50: b"inline", 51: content(71, 3000), 52: None}
    trip.now = {**trip.now, **added}
    trip.check("deleted, and written by Hudi alone")


def _compact(trip):
    assert trip.files("*.log.*")
    before = trip.instants("commit")
    trip.sql(
        "CALL run_compaction(op => 'scheduleAndExecute', table => '{t}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false')"
    )
    assert len(trip.instants("commit")) == len(before) + 1
    trip.check("compacted")


def _restore(trip):
    saved = trip.instants("commit", "deltacommit")[-1]
    before = trip.now
    trip.sql(f"CALL create_savepoint(table => '{{t}}', commit_time => '{saved}')")
    trip.write(rows(trip.spark, [10, None, 6000], ts=21), sized([10, None, 6000], 21))
    assert got(trip.path) == trip.now != before
    trip.sql(f"CALL rollback_to_savepoint(table => '{{t}}', instant_time => '{saved}')")
    trip.now = before
    trip.check("restored")


def _cluster(trip):
    before = trip.instants("replacecommit")
    trip.sql("CALL run_clustering(table => '{t}', op => 'scheduleAndExecute')")
    assert len(trip.instants("replacecommit")) == len(before) + 1
    trip.check("clustered")


def _clean(trip, first):
    older = trip.write(rows(trip.spark, [4097, 20, 1200], ts=30), sized([4097, 20, 1200], 30)).instant
    trip.write(rows(trip.spark, [1001, 1002], ts=31), sized([1001, 1002], 31))
    before, containers = trip.files("*.parquet"), trip.containers()
    trip.sql("CALL run_clean(table => '{t}', retain_commits => 2)")
    assert before - trip.files("*.parquet")
    assert trip.containers() == containers
    trip.check("cleaned")
    trip.check_past(older, "cleaned")
    with pytest.raises(Exception, match=r"[Cc]lean"):
        stored(trip.spark, trip.path, first)


@pytest.mark.parametrize(
    ("table_type", "settings", "winners"),
    [
        pytest.param("cow", EVENT_TIME, (5, 5, 9), id="cow, event time", marks=pytest.mark.soak),
        pytest.param("mor", COMMIT_TIME, (5, 3, 9), id="mor, commit time", marks=pytest.mark.soak),
        pytest.param("cow", REVERSE, (5, 3, 3), id="cow, custom", marks=pytest.mark.soak),
        pytest.param("mor", REVERSE, (5, 3, 3), id="mor, custom"),
    ],
)
def test_readers_take_the_reference_of_the_row_that_wins(spark, workspace, table_type, settings, winners):
    """Rows of the ordering values 5, 3 and 9, in this order; a replaced blob stays for the instants before."""
    trip = Trip(spark, tables.fresh_path(workspace, "merged"), table_type, None, settings)
    sizes = {5: [10, 2000, 3000, None], 3: [2000, 20, None, 1000], 9: [2500, None, 30, 4096]}
    writes: dict[int, str] = {}

    for ts, winner in zip(sizes, winners, strict=True):
        made = trip.write(rows(spark, sizes[ts], ts=ts), sized(sizes[winner], winner))
        writes[ts] = made.blobs.write_id
        if len(writes) > 1:
            trip.check(f"{winner} wins")
    trip.sql("UPDATE {t} SET note = 'updated' WHERE id IN (0, 2)")
    trip.check("another column updated")
    places = dict(trip.load().selectExpr("id", "blob_location(img)").collect())
    for i, size in enumerate(sizes[winners[-1]]):
        assert (places[i] is not None) == (size is not None and size >= INLINE)
        assert places[i] is None or writes[winners[-1]] in places[i]
    trip.check_past(min(trip.past), "merged")
    if table_type == "mor":
        _compact(trip)
    assert hv.blobs.get(spark, str(trip.path), list(trip.now), "img") == trip.now


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_a_null_keeps_the_blob_where_rows_are_partial_updates(spark, workspace, table_type):
    settings = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
    trip = Trip(spark, tables.fresh_path(workspace, "partial"), table_type, None, settings)
    before = sized([10, 2000, None, 3000], 5)
    trip.write(rows(spark, [10, 2000, None, 3000], ts=5), before)
    newer = sized([None, None, 1500, 20], 9)
    trip.write(rows(spark, [None, None, 1500, 20], ts=9), {i: data or before[i] for i, data in newer.items()})
    trip.check("updated in part")
    if table_type == "mor":
        _compact(trip)


def digests(table, *functions):
    """Lengths and digests of every row's bytes, by function: the bytes themselves stay where they are read."""
    found: dict[int, list[Any]] = {}
    for function in functions:
        read = table.selectExpr("id", f"{function}(img) AS b").selectExpr("id", "length(b)", "sha2(b, 256)")
        for row in read.collect():
            found.setdefault(row.id, []).append(tuple(row[1:]))
    return found


def test_sixteen_mebibytes_and_one_byte(spark, workspace):
    """The largest blob that can be inline, and the two above it that cannot."""
    path, limit = tables.fresh_path(workspace, "large"), 16 << 20

    img = f"CAST(repeat(IF(id < 3, 'y', 'z'), {limit} - 1 + id % 3) AS BINARY)"

    def large(ids):
        keys = spark.createDataFrame([(i, 1) for i in ids], "id INT, ts LONG")
        return keys.selectExpr("id", "ts", f"{img} AS img")

    settings = {"blobs": {"img": {"inline.threshold": "16MiB"}}, "partition_by": None}
    write(large(range(3)), path, table_type="mor", operation="bulk_insert", **settings)

    def check():
        """Spark compares the bytes, which stay where they are read."""
        # Hudi 1.2 does not plan its own function directly over a table that is read by path.
        table = spark.read.format("hudi").load(str(path)).select("id", "img")
        ours = table.selectExpr("id", "img.type", "read_blob(img) AS b").selectExpr("id", "type", f"b = {img}")
        assert sorted(map(tuple, ours.collect())) == [
            (0, "INLINE", True),
            (1, "OUT_OF_LINE", True),
            (2, "OUT_OF_LINE", True),
            (5, "INLINE", True),
        ]
        native = table.selectExpr("id", "read_blob_native(img) AS b").selectExpr("id", f"b = {img}")
        assert sorted(map(tuple, native.collect())) == [(i, True) for i in (0, 1, 2, 5)]

    # Hudi alone keeps bytes inline whatever their size.
    frame = large([5]).select("id", "ts", hv.to_blob("img").alias("img", metadata={"hudi_type": "BLOB"}))
    more = {
        "table__name": path.name,
        "table__ordering__fields": "ts",
        "datasource__write__table__type": "MERGE_ON_READ",
    }
    tables.write(frame, path, **more)
    name = tables.fresh_name("large")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"UPDATE {name} SET ts = 3L WHERE id < 3")
    check()
    once = "hoodie.compact.inline.max.delta.commits=1"
    done = spark.sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => '{name}', options => '{once}')")
    assert [row.state for row in done.collect()] == ["COMPLETED"]
    check()


@pytest.mark.soak
def test_three_hundred_mebibytes(spark, workspace):
    path = tables.fresh_path(workspace, "huge")
    size = 300 << 20
    huge = spark.range(1).selectExpr("CAST(id AS INT) AS id", f"CAST(repeat('xyz', {size // 3}) AS BINARY) AS img")
    whole = {"ordering": None, "partition_by": None}
    write(huge, path, operation="bulk_insert", **whole)
    (file,) = (path / ".hoodie/blobs").rglob("*.blob")
    assert file.stat().st_size == size
    write(spark.createDataFrame([(1, str(file))], "id INT, img STRING"), path, **whole)
    table = spark.read.format("hudi").load(str(path)).select("id", "img")
    expected = (size, hashlib.sha256(b"xyz" * (size // 3)).hexdigest())
    assert digests(table.where("id = 0"), "read_blob", "read_blob_native") == {0: [expected] * 2}
    assert digests(table.where("id = 1"), "read_blob") == {1: [expected]}
    assert by_id(table.selectExpr("id", f"read_blob(img, {size - 4}L, 100L)")) == {0: b"zxyz", 1: b"zxyz"}
