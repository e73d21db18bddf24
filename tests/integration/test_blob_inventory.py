"""What a table's blobs take and what is wrong with them, on real tables, beside a model of its own."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from support import tables
from support.frames import planned
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.command.main import main
from hudi_vector.read.logs.blocks import read_blocks

PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"
WRITE = "20260101000000000_0123456789ab"

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("ts", LongType()),
        StructField("d", StringType()),
        hv.blob_field("img"),
        StructField("doc", StructType([StructField("page", IntegerType()), hv.blob_field("image")])),
    ]
)


def inline(data: bytes) -> tuple:
    return ("INLINE", data, None)


def ref(path: object, offset: int | None = None, length: int | None = None, managed: bool | None = False) -> tuple:
    return ("OUT_OF_LINE", None, (str(path), offset, length, managed))


@dataclass
class Known:
    """A table, and the rows and files it is known to have."""

    path: Path
    rows: dict[int, tuple]
    files: dict[str, int]

    def blobs(self):
        """Column, partition and blob of each that is not NULL."""
        for _, d, img, doc in self.rows.values():
            for column, blob in (("img", img), ("doc.image", doc and doc[1])):
                if blob is not None:
                    yield column, f"d={d}", blob


def expected_inventory(known: Known) -> dict:
    """Kind, blobs, bytes, shared, dead and dangling by column, partition and container; with sets of bytes."""
    area = f"{known.path}/.hoodie/blobs/"
    ranges: dict[tuple, Counter] = {}
    covered: dict[str, set] = {path: set() for path in known.files}
    found: dict[tuple, list] = {}
    for column, partition, (kind, data, reference) in known.blobs():
        if kind == "INLINE":
            row = found.setdefault((column, partition, "inline"), ["inline", 0, 0, 0, 0, 0])
            row[1] += 1
            row[2] += len(data)
            continue
        path, offset, length, managed = reference
        size = known.files.get(path)
        begin = offset or 0
        end = begin + length if length is not None else (size or begin)
        row = found.setdefault((column, partition, f"file://{path}"), ["external", 0, 0, 0, 0, 0])
        if managed or path.startswith(area):
            row[0] = "managed"
        row[1] += 1
        row[5] += length != 0 and (size is None or end > size)
        ranges.setdefault((column, partition, f"file://{path}"), Counter())[begin, end] += 1
        covered.setdefault(path, set()).update(range(begin, end))
    for place, counts in ranges.items():
        found[place][2] = sum(end - begin for begin, end in counts)
        found[place][3] = sum(counts.values()) - len(counts)
    for path, size in known.files.items():
        if path.startswith(area):
            *folders, column, _, _ = path.removeprefix(area).split("/")
            place = (column, "/".join(folders), f"file://{path}")
            dead = size - len(covered[path] & set(range(size)))
            if dead:
                found.setdefault(place, ["managed", 0, 0, 0, 0, 0])[4] = dead
    return {place: tuple(row) for place, row in found.items()}


def answer(frame) -> dict:
    rows = [tuple(row.values()) for row in frame.to_pylist()] if isinstance(frame, pa.Table) else frame.collect()
    made = {(row[0], row[1], row[2]): tuple(row)[3:] for row in rows}
    assert len(made) == len(rows)
    return made


def wrong_references(spark, path: str, **given) -> list[tuple]:
    """What is wrong by Spark's job, which is what is wrong without a session."""
    rows = sorted(map(tuple, hv.blobs.verify(spark, path, **given).collect()))
    assert sorted(tuple(row.values()) for row in hv.blobs.verify(None, path, **given).to_pylist()) == rows
    return rows


@pytest.fixture(scope="module", params=[pytest.param("cow", marks=pytest.mark.soak), "mor"])
def known(request, spark, workspace) -> Known:
    """Two partitions; shared, overlapping and nested references; two commits; then files are lost."""
    path = tables.fresh_path(workspace, "inventory")
    files: dict[str, int] = {}

    def file(name: str, size: int) -> str:
        place = path / ".hoodie/blobs" / name if WRITE in name else tables.fresh_path(workspace, "outside")
        files[str(place)] = size
        return str(place)

    one, two = (file(f"d=x/img/{WRITE}/{WRITE}-00000-0-{number}.blob", 100) for number in (0, 1))
    nested = file(f"d=y/doc.image/{WRITE}/{WRITE}-00000-0-2.blob", 60)
    unused = file(f"d=y/img/{WRITE}/{WRITE}-00000-0-3.blob", 40)
    outside, gone = file("outside", 30), file("gone", 20)
    rows = {
        1: (1, "x", ref(one, 0, 40, True), None),
        2: (1, "x", ref(one, 0, 40, True), (1, ref(outside))),
        3: (1, "x", ref(one, 20, 40, True), (2, None)),
        4: (1, "x", inline(b"hello"), (3, ref(nested, 0, 10, True))),
        5: (1, "x", ref(two, 50, 50, True), None),
        6: (1, "y", ref(one, 90, 10, True), (4, ref(nested, 10, 50, True))),
        7: (1, "y", ref(outside, 0, 30), (5, inline(b"abc"))),
        8: (1, "y", ref(gone), (6, ref(gone, 0, 0))),
        9: (1, "y", None, None),
        10: (1, "y", inline(b""), None),
        11: (1, "x", ref(one, 20, 40), (8, inline(b"x"))),
    }
    options = {
        "datasource__write__partitionpath__field": "d",
        "datasource__write__precombine__field": "ts", "datasource__write__hive_style_partitioning": "true",
        "datasource__write__table__type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[request.param],
    }  # fmt: skip

    def commit(ids) -> None:
        tables.write(planned(spark, [(i, *rows[i]) for i in ids], SCHEMA).coalesce(1), path, **options)

    commit(rows)
    for place, size in files.items():  # Hudi takes a path with a .hoodie folder for a table
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(bytes(size))
    rows[1] = (2, "x", ref(one, 10, 5, True), (7, ref(outside, 5, 5, True)))
    rows[7] = (2, "y", inline(b"now inline"), None)
    rows[9] = (2, "y", ref(two, 0, 10, True), None)
    commit([1, 7, 9])
    if request.param == "mor":
        assert list(path.rglob(".*.log.*")), "the second commit went to log files"

    del files[gone]
    Path(gone).unlink()
    files[two] = 95
    with open(two, "r+b") as opened:
        opened.truncate(95)
    assert unused in files
    return Known(path, rows, files)


def test_the_inventory_is_the_models(spark, known):
    expected = expected_inventory(known)
    kinds = Counter(row[0] for row in expected.values())
    assert kinds.keys() == {"inline", "managed", "external"}
    assert all(any(row[number] for row in expected.values()) for number in range(1, 6)), "each count occurs"
    assert any(row[1] == 0 for row in expected.values())
    assert answer(hv.blobs.inventory(spark, str(known.path))) == expected
    assert answer(hv.blobs.inventory(None, known.path)) == expected


def test_the_inventory_where_spark_narrows_structs(spark, known):
    new = spark.newSession()
    new.conf.set(PRUNING, "true")
    assert answer(hv.blobs.inventory(new, f"file://{known.path}")) == expected_inventory(known)
    lost = hv.blobs.verify(new, str(known.path)).collect()
    assert {(row.column, row.key) for row in lost} == {("img", "5"), ("img", "8")}


def test_what_is_wrong(spark, known):
    rows = wrong_references(spark, str(known.path))
    two = next(path for path in known.files if path.endswith("-1.blob"))
    gone = known.rows[8][2][2][0]
    assert rows == [
        ("img", "5", "d=x", two, 50, 50, "too short"),
        ("img", "8", "d=y", gone, None, None, "gone"),
    ]
    assert wrong_references(spark, str(known.path), columns=["doc.image"]) == []


def test_tables_by_name_and_as_they_are_now(spark, known, clean_session):
    name = tables.fresh_name("inventory")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{known.path}'")
    spark.table(name).select("id").createOrReplaceTempView("narrow")
    for table in (name, "narrow"):
        assert answer(hv.blobs.inventory(spark, table)) == expected_inventory(known), table
    spark.table(name).where("id > 3").createOrReplaceTempView("some")
    with pytest.raises(errors.UnsupportedTableError, match="'some' is not the name of a table: a Filter is between"):
        hv.blobs.inventory(spark, "some")
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("asked", [hv.blobs.inventory, hv.blobs.verify], ids=["inventory", "verify"])
def test_a_table_that_is_not_there(spark, asked):
    with pytest.raises(errors.TableNotFoundError, match="there is no table, view or path 'nosuch'"):
        asked(spark, "nosuch")
    for where in (spark, None):
        with pytest.raises(errors.TableNotFoundError, match="there is no Hudi table at '/no/such'"):
            asked(where, "/no/such")
    with pytest.raises(errors.InvalidArgumentError, match="'nosuch' is found by a session only; give one, or a path"):
        asked(None, "nosuch")


def test_columns_that_are_no_blobs(spark, known):
    with pytest.raises(errors.UnknownColumnError, match=r"column 'doc\.imagen' does not exist .* 'doc\.image'"):
        hv.blobs.verify(spark, str(known.path), columns="doc.imagen")
    with pytest.raises(errors.InvalidTypeError, match=r"'id' of '.*' is bigint, which is no BLOB; .* img, doc\.image"):
        hv.blobs.verify(spark, str(known.path), columns=["img", "id"])
    with pytest.raises(errors.UnknownColumnError, match=r"column 'doc\.imagen' does not exist .* 'doc\.image'"):
        hv.blobs.verify(None, known.path, columns="doc.imagen")
    with pytest.raises(errors.InvalidTypeError, match=r"column 'id' of '.*' is no BLOB; .* are img, doc\.image"):
        hv.blobs.verify(None, known.path, columns=["img", "id"])
    with pytest.raises(errors.InvalidTypeError, match="which is no BLOB"):
        hv.blobs.get(spark, str(known.path), [1], "doc")


def test_single_values(spark, known):
    got = hv.blobs.get(spark, str(known.path), [1, np.int32(4), 9, 7, 77, 10, "10"], "img")
    assert got == {1: bytes(5), 4: b"hello", 9: bytes(10), 7: b"now inline", 10: b"", "10": b""}
    assert list(map(type, got.values())) == [bytes] * 6
    assert hv.blobs.get(spark, str(known.path), ["2", "3"], "doc.IMAGE") == {"2": bytes(30), "3": None}
    assert hv.blobs.get(spark, str(known.path), [], "img") == {}
    with pytest.raises(errors.BlobReadError, match="the file is gone"):
        hv.blobs.get(spark, str(known.path), 8, "img")
    with pytest.raises(errors.InvalidTypeError, match=r"the key 1\.5 holds a float; give text or a whole number"):
        hv.blobs.get(spark, str(known.path), [1.5], "img")
    with pytest.raises(errors.InvalidTypeError, match="the key True holds a bool"):
        hv.blobs.get(spark, str(known.path), [True], "img")
    with pytest.raises(errors.InvalidArgumentError, match=r"\(1, 2\) has 2 parts, and .* has the key fields id"):
        hv.blobs.get(spark, str(known.path), [(1, 2)], "img")


def test_the_command(spark, known, clean_session, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # a width makes long rows several lines
    assert main(["blobs", "inventory", "--table", str(known.path), "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {tuple(row.values())[:3]: tuple(row.values())[3:] for row in rows} == expected_inventory(known)

    assert main(["blobs", "verify", "--table", str(known.path)]) == 1
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["column", "key", "partition", "path", "offset", "length", "problem"]
    assert [line.split()[:2] for line in lines] == [["img", "5"], ["img", "8"]]

    assert main(["blobs", "verify", "--table", "/no/such"]) == 2
    assert capsys.readouterr().err.startswith("hudi-vector: there is no Hudi table at '/no/such'")


def test_bytes_that_changed_since_they_were_written(spark, workspace, clean_session):
    path = str(tables.fresh_path(workspace, "deep"))
    rows = planned(spark, [(1, "a", bytes(50)), (2, "b", b"x" * 60), (3, "c", None)], "id INT, k STRING, img BINARY")
    settings = {"inline.threshold": "0", "checksum": "crc32"}
    hv.write(rows.coalesce(1), path, record_key=["id", "k"], blobs={"img": settings}, options=QUICK)
    (container,) = Path(path).rglob("*.blob")
    row = ("img", "", f"file://{container}")
    assert answer(hv.blobs.inventory(spark, path)) == {row: ("managed", 2, 110, 0, 0, 0)}
    got = hv.blobs.get(spark, path, [(2, "b"), (3, "c"), (3, "a")], "img")
    assert got == {(2, "b"): b"x" * 60, (3, "c"): None}

    intact = hv.read_blobs(spark.read.format("hudi").load(path), "img", verify=True)
    assert {row["id"]: row["img"] for row in intact.collect()} == {1: bytes(50), 2: b"x" * 60, 3: None}

    container.write_bytes(container.read_bytes().replace(b"x", b"y"))
    assert main(["blobs", "verify", "--table", path]) == 0
    ((_, key, _, file, _, length, problem),) = wrong_references(spark, path, deep=True)
    assert (key, file, length, problem) == ("id:2,k:b", f"file://{container}", 60, "changed")

    table = spark.read.format("hudi").load(path).filter("id = 2")
    assert table.selectExpr("read_blob(img)").first()[0] == b"y" * 60
    assert hv.read_blobs(table, "img", verify=True, on_error="null").first()["img"] is None
    spark.conf.set("hoodie.blob.read.verify", "true")
    assert table.selectExpr("try_read_blob(img)").first()[0] is None
    assert table.selectExpr("read_blob(img, 58, 2)").first()[0] == b"yy"  # a checksum says nothing of a part
    with pytest.raises(
        PySparkException, match=r"length 60\) cannot be read: its bytes are not those that were written"
    ):
        table.selectExpr("read_blob(img)").collect()
    assert hv.read_blobs(table, "img", verify=False).first()["img"] == b"y" * 60

    schema = StructType([StructField("id", IntegerType()), StructField("k", StringType()), hv.blob_field("img")])
    bad = planned(spark, [(1, "a", ref(container, -5, 5))], schema)
    tables.write(bad, path, datasource__write__recordkey__field="id,k", table__name=Path(path).name)
    ((_, key, _, _, offset, _, problem),) = wrong_references(spark, path)
    assert (key, offset, problem) == ("id:1,k:a", -5, "contradicts itself")
    with pytest.raises(PySparkException, match="'img' holds blobs that contradict themselves, 1 among"):
        hv.blobs.inventory(spark, path).collect()
    with pytest.raises(errors.InvalidBlobError, match="'img' holds blobs that contradict themselves, 1 among"):
        hv.blobs.inventory(None, path)


def test_files_of_others_that_changed_since_a_row_was_written(spark, workspace):
    path = str(tables.fresh_path(workspace, "pins"))
    folder = tables.fresh_path(workspace, "files")
    folder.mkdir()
    files = [folder / name for name in ("same", "touched", "longer", "unpinned")]
    for file in files:
        file.write_bytes(b"before")

    def write(rows, **settings):
        frame = planned(spark, [(key, str(file)) for key, file in rows], "id INT, img STRING")
        hv.write(frame, path, record_key="id", blobs={"img": settings}, options=QUICK)

    def wrong():
        return {int(key): problem for _, key, *_, problem in wrong_references(spark, path)}

    write(enumerate(files[:3]))
    write([(3, files[3])], **{"external.pin": "false"})
    assert wrong() == {}

    files[1].write_bytes(b"behind")  # as many bytes
    os.utime(files[1], ns=(10**18, 10**18))
    for file in files[2:]:
        file.write_bytes(b"after, and longer")
    assert wrong() == {1: "changed", 2: "changed"}

    # A row that refers to the file as it is now is right, beside one that refers to what the file was.
    write([(4, files[1])])
    assert wrong() == {1: "changed", 2: "changed"}
    write([(1, files[1])])
    assert wrong() == {2: "changed"}


def test_a_key_that_several_partitions_have(spark, workspace):
    path = tables.fresh_path(workspace, "twice")
    schema = StructType([StructField("id", LongType()), StructField("d", StringType()), hv.blob_field("img")])
    rows = planned(spark, [(1, "x", inline(b"a")), (1, "y", inline(b"b")), (2, "y", inline(b"c"))], schema)
    tables.write(rows, path, datasource__write__partitionpath__field="d", datasource__write__operation="bulk_insert")
    assert hv.blobs.get(spark, str(path), [2], "img") == {2: b"c"}
    with pytest.raises(errors.InvalidArgumentError, match=r"partitions '[xy]' and '[xy]' of .* both have the key '1'"):
        hv.blobs.get(spark, str(path), [1, 2], "img")


def test_single_values_without_a_job(spark, workspace, caplog):
    """Log files in Avro and Parquet update, delete and insert rows, newer and older by the ordering field."""
    path, formats = str(tables.fresh_path(workspace, "keyed")), ("avro", "parquet")
    options = {**QUICK, "hoodie.compact.inline": "false"}
    layout = {"record_key": "id", "partition_by": "d", "ordering": "ts", "table_type": "mor"}

    def ids(number):
        """The id of each row of a format, by its last digit."""
        return range(10 * number, 10 * number + 10)

    def write(rows, log_format="avro", **more):
        frame = planned(spark, rows, "id LONG, d STRING, ts LONG, img BINARY")
        settings = {**options, "hoodie.logfile.data.block.format": log_format}
        hv.write(frame, path, blobs={"img": {"inline.threshold": "3"}}, options=settings, **layout, **more)

    def got(keys):
        group, context = f"single values of {path}", spark.sparkContext
        context.setJobGroup(group, group)
        try:
            with caplog.at_level("INFO", "hudi_vector.spark.blobs"):
                found = hv.blobs.get(spark, path, keys, "img")
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        return found, len(context.statusTracker().getJobIdsForGroup(group))

    first = [
        (ids(n)[i], f"{part}{n}", 5, b"first %d" % i if i else None)
        for n in range(2)
        for i, part in enumerate("pqpqpqpq")
    ]
    write(first, operation="bulk_insert")
    expected = {}
    for n, log_format in enumerate(formats):
        later = {1: (9, b"newer"), 2: (3, b"older"), 3: (9, None), 4: (7, b"x")}
        write([(ids(n)[i], f"{'pq'[i % 2]}{n}", *version) for i, version in later.items()], log_format)
        left = {0: None, 1: b"newer", 2: b"first 2", 3: None, 4: b"x", 6: b"first 6", 7: b"first 7"}
        expected |= {ids(n)[i]: data for i, data in left.items()}
    gone = planned(spark, [(ids(n)[5], f"q{n}", 9) for n in range(2)], "id LONG, d STRING, ts LONG")
    hv.write(gone, path, operation="delete", options=options, **layout)
    forms = {found.kind for log in Path(path).rglob(".*.log.*[0-9]") for found in read_blocks(pa.OSFile(str(log)))}
    assert forms == {1, 3, 5}, "blocks of deletes, of Avro and of Parquet"
    rows = spark.read.format("hudi").load(path).selectExpr("id", "read_blob(img) AS b")
    assert {row.id: row.b and bytes(row.b) for row in rows.collect()} == expected
    assert got(range(20)) == (expected, 0)
    assert "found by Spark" not in caplog.text
    assert answer(hv.blobs.inventory(None, path)) == answer(hv.blobs.inventory(spark, path))
    assert wrong_references(spark, path) == []


def test_single_values_that_only_hudi_merges(spark, workspace, caplog):
    """A payload of the user's own: rows of log files are found by a Spark job, which the log names, others without."""
    path = str(tables.fresh_path(workspace, "own"))
    own = {
        **QUICK,
        "hoodie.compact.inline": "false",
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload",
    }
    layout = {"record_key": "id", "ordering": "ts", "table_type": "mor", "options": own}
    for ts, keys in ((1, (1, 2)), (2, (2,))):
        frame = planned(spark, [(i, ts, b"%d of %d" % (i, ts)) for i in keys], "id INT, ts LONG, img BINARY")
        hv.write(frame.coalesce(1), path, blobs=["img"], **layout)
    with caplog.at_level("INFO", "hudi_vector.spark.blobs"):
        assert hv.blobs.get(spark, path, [1], "img") == {1: b"1 of 1"}
        assert "found by Spark" not in caplog.text
        assert hv.blobs.get(spark, path, [1, 2], "img") == {1: b"1 of 1", 2: b"2 of 2"}
    for asked in (hv.blobs.inventory, hv.blobs.verify):
        with pytest.raises(errors.UnsupportedTableError, match="cannot be read without Spark: a merge mode or payload"):
            asked(None, path)
    assert "are found by Spark: a merge mode or payload of the user's own merges one of the rows" in caplog.text


def test_single_values_by_a_record_index(spark, workspace):
    path = str(tables.fresh_path(workspace, "index"))
    rows = planned(
        spark, [(i, f"p{i % 2}", "e", bytes([i])) for i in range(4)], "id LONG, d STRING, e STRING, b BINARY"
    )
    index = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    hv.write(rows, path, record_key="id", partition_by=["d", "e"], blobs=["b"], options={**QUICK, **index})
    assert Path(path, ".hoodie/metadata/record_index").exists()
    assert hv.blobs.get(spark, path, [2, 3, 99], "b") == {2: b"\x02", 3: b"\x03"}
    assert hv.blobs.get(spark, path, "1", "b") == {"1": b"\x01"}
    needs = {row["needs"] for row in hv.table_services.check_erasure(spark, path, ["id:2"]).rows()}
    assert needs == {
        "the rows to be deleted, and Hudi's compaction and clean after it",
        "Hudi's metadata table to be removed and made again: it holds keys, or least and greatest values",
    }
    # When this fails, Hudi is mended and a filter on the record key itself will do.
    table = spark.read.format("hudi").load(path)
    assert {row[0] for row in table.select("_hoodie_record_key").collect()} == {f"id:{i}" for i in range(4)}
    assert table.where("_hoodie_record_key = 'id:2'").collect() == []
