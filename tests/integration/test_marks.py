"""Marks of tables that Hudi wrote: what any of their files refers to stays, all else goes in the end."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import tables
from support.blob_states import DAY, BlobTable, blob, inline, write_id
from support.blobs import content, rows, stored, write
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.read.logs.blocks import read_blocks
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.distributed import SpreadLimits, spread_reader
from hudi_vector.table_services.references.files import read_here

SMALL = {"img": {"inline.threshold": "1KB"}}


def containers(path: Path) -> dict[str, str]:
    """The containers of a table, by name, with their path from its folder."""
    files = [file for file in (path / ".hoodie/blobs").rglob("*") if file.is_file()]
    return {file.name: str(file.relative_to(path)) for file in files}


def referred(path: Path) -> set[str]:
    """The containers whose name stands in any data file, by other means than those of a mark."""
    found = set()
    for file in path.rglob("*"):
        if ".hoodie" in file.relative_to(path).parts or file.name.endswith(".crc") or not file.is_file():
            continue
        raw = file.read_bytes()
        if b"PAR1" in raw:  # a base file, or a block of Parquet in a log file
            raw = str(pq.read_table(io.BytesIO(raw[raw.index(b"PAR1") : raw.rindex(b"PAR1") + 4])).to_pylist()).encode()
        found |= {where for name, where in containers(path).items() if name.encode() in raw}
    return found


def bases(path: Path) -> list[Path]:
    """The base files of a table."""
    found = [file for file in path.rglob("*.parquet") if ".hoodie" not in file.relative_to(path).parts]
    return [file for file in found if not file.name.startswith(".")]


def logs(path: Path) -> list[Path]:
    """The log files of a table."""
    found = [file for file in path.rglob(".*.log.*") if not file.name.endswith(".crc")]
    return [file for file in found if ".hoodie" not in file.relative_to(path).parts]


def forms(path: Path) -> set[str]:
    """The forms of the blocks in a table's log files."""
    names = {0: "command", 1: "delete", 3: "avro", 5: "parquet", 6: "changes"}
    return {names[found.kind] for file in logs(path) for found in read_blocks(pa.OSFile(str(file)))}


def check(path: Path, spark: SparkSession | None = None) -> set[str]:
    """A mark a month from now finds what no file refers to, read here or by the executors."""
    later = time.time_ns() // 1_000_000 + 30 * DAY
    report = find_unneeded(str(path), grace_ms=DAY, now_ms=later)
    assert report.doubts == ()
    if spark is not None:
        spread = spread_reader(spark.sparkContext, SpreadLimits(0, 0))
        assert replace(find_unneeded(str(path), grace_ms=DAY, now_ms=later, reader=spread), mark_id="") == replace(
            report, mark_id=""
        )
    found = {file.path for file in report.candidates}
    assert found == set(containers(path).values()) - referred(path)
    assert {file.path for file in report.kept} == referred(path)
    now = find_unneeded(str(path), grace_ms=DAY)
    assert now.candidates == ()
    return found


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.hudi_defaults), "mor"])
def test_a_table_through_its_life(spark, workspace, table_type):
    path = tables.fresh_path(workspace, "life")
    options = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
    arguments = {"blobs": SMALL, "options": options}
    write(rows(spark, [5000, 20, 6000, 7000, 8000, None]), path, table_type=table_type, **arguments)
    saved = write(rows(spark, [3000] * 3, ts=2), path, **arguments).instant
    write(rows(spark, [None] * 4, ts=3).where("id = 3"), path, operation="delete", **arguments)
    if table_type == "mor":
        parquet = {**options, "hoodie.logfile.data.block.format": "parquet"}
        write(rows(spark, [3500], ts=3), path, blobs=SMALL, options=parquet)
        assert forms(path) == {"avro", "delete", "parquet"}
    assert check(path) == set()
    name = tables.fresh_name("life")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{saved}')").collect()
    if table_type == "cow":
        spark.sql(f"CALL run_clustering(table => '{name}', op => 'scheduleAndExecute')").collect()
    write(rows(spark, [4000], ts=4), path, operation="insert_overwrite_table", **arguments)
    assert check(path) == set()  # replaced, and still there
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)").collect()
    held = check(path, spark)
    spark.sql(f"CALL delete_savepoint(table => '{name}', instant_time => '{saved}')").collect()
    write(rows(spark, [4100], ts=5), path, operation="insert_overwrite_table", **arguments)
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)").collect()
    unneeded = check(path)
    assert len(unneeded) > len(held)
    for file in unneeded:
        (path / file).unlink()
    assert stored(spark, path) == {0: content(5000, 4100)}
    assert check(path) == set()


def test_a_bit_that_flipped_in_a_reference_is_a_doubt(spark, workspace):
    """Hudi writes checksums of pages: without a look at them the path of another file is read."""
    path = tables.fresh_path(workspace, "flipped")
    plain = {**QUICK, "hoodie.parquet.compression.codec": "uncompressed"}
    write(rows(spark, [5000]), path, partition_by=None, blobs=SMALL, options=plain)
    (base,), (name,) = bases(path), containers(path)
    content = bytearray(base.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    place = content.index(name.encode()) + len(name) - len("0.blob")
    assert place < footer
    content[place] ^= 1
    base.write_bytes(content)
    read = pq.read_table(base).column("img").to_pylist()
    assert {blob["reference"]["external_path"][-6:] for blob in read} == {"1.blob"}, "another path that nobody doubts"

    later = time.time_ns() // 1_000_000 + 30 * DAY
    for reader in (read_here, spread_reader(spark.sparkContext, SpreadLimits(0, 0))):
        report = find_unneeded(str(path), grace_ms=DAY, now_ms=later, reader=reader)
        assert report.candidates == ()
        assert [file.path for file in report.kept] == [containers(path)[name]]
        (doubt,) = report.doubts
        assert f"'file://{base}' cannot be read" in doubt
    erased = look(str(path), ["0"], lambda: ["0"])
    assert not erased.is_well
    assert any(base.name in doubt for doubt in erased.doubts)


def test_several_columns_and_nested_ones_in_log_files(spark, workspace):
    path = tables.fresh_path(workspace, "several")
    text = "SELECT id, 1L AS ts, data AS img, data AS thumb, named_struct('n', id, 'scan', data) AS doc FROM VALUES {} AS t(id, data)"
    columns = {name: {"inline.threshold": "1"} for name in ("img", "thumb", "doc.scan")}
    arguments = {"record_key": "id", "ordering": "ts", "blobs": columns, "options": QUICK}
    hv.write(spark.sql(text.format("(1, X'0101'), (2, X'02')")).coalesce(1), str(path), table_type="mor", **arguments)
    hv.write(spark.sql(text.format("(2, X'0303')")).coalesce(1), str(path), **arguments)
    assert forms(path) == {"avro"}
    assert check(path) == set()
    assert len({where.split("/")[2] for where in containers(path).values()}) == 3


def test_logs_of_changed_rows_keep_what_they_remember(spark, workspace):
    path = tables.fresh_path(workspace, "changes")
    mode = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
    arguments = {"blobs": SMALL, "options": {**QUICK, **mode}}
    write(rows(spark, [5000, 6000, 20]), path, **arguments)
    before = bases(path)
    write(rows(spark, [7000, 8000], ts=2), path, **arguments)
    assert forms(path) == {"changes"}
    assert check(path) == set()
    for file in before:
        file.unlink()  # as Hudi's clean does
    assert check(path) == set()
    for file in logs(path):
        file.unlink()
    assert check(path)


def test_hudi_reads_the_states_that_tests_write(spark, workspace):
    path = tables.fresh_path(workspace, "states")
    table = BlobTable(path, time.time_ns() // 1_000_000 - DAY)
    big = table.container(write_id(table.clock_ms, 1), size=10)
    where = f"{table.uri}/{big}"
    first = table.instant()
    table.begin(first, "commit")
    table.base("f1", first, {1: blob(where, 0, 2), 2: inline(b"two"), 3: None})
    table.complete(first, "commit")
    gone = table.instant()
    table.base("f2", gone, {7: inline(b"replaced")})
    table.begin(gone, "commit")
    table.complete(gone, "commit")
    for form, values in (("avro", {2: blob(where, 1, 3)}), ("parquet", {3: inline(b"three")})):
        instant = table.instant()
        table.begin(instant)
        table.log("f1", instant, values, form)
        table.complete(instant)
    replacing = table.instant()
    table.begin(replacing, "replacecommit")
    table.base("f3", replacing, {8: inline(b"eight")})
    table.complete(replacing, "replacecommit", ["f2"])
    pending = table.instant()
    table.begin(pending)
    table.log("f1", pending, {1: inline(b"never")})
    assert stored(spark, path) == {1: b"xx", 2: b"xxx", 3: b"three", 8: b"eight"}
    assert stored(spark, path, as_of=gone) == {1: b"xx", 2: b"two", 3: None, 7: b"replaced"}
