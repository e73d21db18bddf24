"""Which rows a search sees: one snapshot per statement, chosen when it is planned."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support import oracle, tables

import hudi_vector as hv
from hudi_vector.errors import DataFileError, InstantNotAvailableError
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.spark import snapshots
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

ONES = "ARRAY(" + ",".join(["1.0D"] * 8) + ")"


def table_of(spark, workspace, *, kind="COPY_ON_WRITE", ids=range(6)):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, ids), path, datasource__write__table__type=kind)
    return path


def found(spark, path, **arguments):
    return sorted(row["id"] for row in hv.search(spark, str(path), "emb", [1.0] * 8, 1000, **arguments).collect())


def timeline(path):
    return NativeTable(Source(f"file://{path}", "t")).timeline()


def test_a_commit_that_completes_after_one_requested_later_is_seen(spark, workspace):
    path = tables.fresh_path(workspace)
    for partition, ids in (("a", range(6)), ("b", range(6, 9)), ("c", range(9, 12))):
        frame = tables.frame(spark, ids).selectExpr("id", "name", "price", f"'{partition}' AS category", "emb")
        tables.write(frame, path, datasource__write__partitionpath__field="category")
    second = timeline(path).commits[1]
    third = timeline(path).commits[-1]
    # The second commit is still running: only the third, requested later, has completed.
    done = path / ".hoodie" / "timeline" / second.name
    away = workspace / second.name
    shutil.move(done, away)
    (done.parent / f".{second.name}.crc").unlink(missing_ok=True)
    before = found(spark, path)
    assert before == found(spark, path)
    assert before == found(spark, path, filter="abs(price) >= 0"), "which Spark reads"
    assert set(before) >= {9, 10, 11}
    assert not set(before) & {6, 7, 8}
    # Now it completes, with the completion time of now.
    later = datetime.strptime(third.completed, "%Y%m%d%H%M%S%f") + timedelta(seconds=5)
    late_name = f"{second.requested}_{later.strftime('%Y%m%d%H%M%S%f')[:17]}.commit"
    shutil.move(away, done.parent / late_name)
    assert set(found(spark, path)) >= {6, 7, 8, 9, 10, 11}
    between = datetime.strptime(third.completed, "%Y%m%d%H%M%S%f").replace(tzinfo=_zone(spark)) + timedelta(seconds=1)
    assert found(spark, path, as_of=between) == before


def _zone(spark):
    return ZoneInfo(snapshots.writers_zone(spark))


def test_two_references_in_one_statement_see_the_same_commit(spark, workspace, monkeypatch):
    path = table_of(spark, workspace)
    real, calls = NativeTable.snapshot, []

    def then_commit(self, *args):
        taken = real(self, *args)
        calls.append(taken.identity)
        if len(calls) == 1:
            # A commit between the planning of the first reference and of the second.
            writer = threading.Thread(target=lambda: tables.write(tables.frame(spark, range(6, 9), seed=4), path))
            writer.start()
            writer.join()
        return taken

    monkeypatch.setattr(NativeTable, "snapshot", then_commit)
    search = f"hudi_vector_search('{path}', 'emb', {ONES}, 100)"
    row = spark.sql(f"SELECT (SELECT count(*) FROM {search}) AS a, (SELECT count(*) FROM {search}) AS b").collect()[0]
    assert (row["a"], row["b"]) == (6, 6)
    assert len(calls) == 1
    assert spark.sql(f"SELECT count(*) FROM {search}").collect()[0][0] == 9


def test_a_cached_plan_stays_where_it_is(spark, workspace):
    path = table_of(spark, workspace)
    text = f"SELECT id FROM hudi_vector_search('{path}', 'emb', {ONES}, 100)"
    kept = spark.sql(text).cache()
    try:
        assert kept.count() == 6
        tables.write(tables.frame(spark, range(6, 9), seed=4), path)
        assert kept.count() == 6
        assert spark.sql(text).count() == 9
    finally:
        kept.unpersist()


@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.hudi_defaults), "MERGE_ON_READ"])
def test_as_of_instants_and_timestamps(spark, workspace, kind):
    path = table_of(spark, workspace, kind=kind)
    tables.write(tables.frame(spark, range(3, 9), seed=4), path)
    tables.write(tables.frame(spark, range(1)), path, datasource__write__operation="delete")
    zone = _zone(spark)
    query = [1.0] * 8
    shown = None
    for commit in timeline(path).commits:
        frame = spark.read.format("hudi").option("as.of.instant", commit.requested).load(str(path))
        expected = oracle.nearest(frame, "emb", query, 100)
        oracle.assert_nearest(hv.search(spark, str(path), "emb", query, 100, as_of=commit.requested), expected)
        done = datetime.strptime(commit.completed, "%Y%m%d%H%M%S%f").replace(tzinfo=zone)
        oracle.assert_nearest(hv.search(spark, str(path), "emb", query, 100, as_of=done), expected)
        text = done.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        sql = (
            f"SELECT * FROM hudi_vector_search(table => '{path}', embedding_col => 'emb', query_vector => {ONES}, "
            f"k => 100, as_of => %s)"
        )
        for value in (f"TIMESTAMP '{text}'", f"'{text}'", f"'{text.replace(' ', 'T')}Z'"):
            oracle.assert_nearest(spark.sql(sql % value), expected)
        before, shown = shown, sorted(int(key) for _, key, _ in expected)
        if before is not None:
            assert found(spark, path, as_of=done - timedelta(milliseconds=1)) == before != shown


BEYOND_SAVEPOINTS = {
    "hoodie.archive.beyond.savepoint": "true",
    "hoodie.commits.archival.batch": "1",
    "hoodie.keep.max.commits": "3",
    "hoodie.keep.min.commits": "2",
    "hoodie.metadata.enable": "false",  # Hudi archives no commit that this table's compaction has not seen
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_as_of_a_savepoint_after_which_commits_were_archived_and_cleaned(spark, workspace, kind):
    path, name = str(tables.fresh_path(workspace)), tables.fresh_name("saved")
    cleaned = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.async.enabled": "false",
        "hoodie.clean.commits.retained": "1",
    }

    def write(ids, seed, **options):
        frame = tables.frame(spark, ids, seed)
        hv.write(frame, path, record_key="id", vectors={"emb": 8}, table_type=kind, options=BEYOND_SAVEPOINTS | options)

    write(range(6), 0)
    write(range(3, 8), 1)
    saved = timeline(path).commits[-1]
    expected = oracle.nearest(spark.read.format("hudi").load(path), "emb", [1.0] * 8, 100)
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{saved.requested}')").collect()
    for seed in range(2, 6):
        write(range(seed, seed + 6), seed, **cleaned)
        oracle.assert_nearest(hv.search(spark, path, "emb", [1.0] * 8, 100, as_of=saved.requested), expected)
        if seed == 2:
            lost = timeline(path).commits[-1]
    first, second, *_ = timeline(path).commits
    assert first == saved
    assert second.requested > lost.requested, "commits after the savepoint were archived"
    with pytest.raises(InstantNotAvailableError, match=f"after the savepoint {saved.requested} were archived; give"):
        found(spark, path, as_of=lost.requested)
    assert found(spark, path) == list(range(11)), "Spark lacks rows of archived commits, as Hudi 1.2 reads them"


def test_time_travel_written_into_the_table_itself(spark, workspace):
    path = table_of(spark, workspace)
    first = timeline(path).commits[0].requested
    tables.write(tables.frame(spark, range(6, 9), seed=4), path)
    spark.read.format("hudi").option("as.of.instant", first).load(str(path)).createOrReplaceTempView("at_first")
    rows = hv.search(spark, "at_first", "emb", [1.0] * 8, 100).collect()
    assert sorted(row["id"] for row in rows) == list(range(6))
    assert hv.last_reports()[0].execution == "local"


@pytest.mark.soak
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_writers_in_other_zones(tmp_path, zone):
    # A JVM of its own: Hudi never gives an instant before its last one, so a JVM cannot go back to another zone.
    script = Path(__file__).parent.parent / "support" / "other_zone.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), zone], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("before and after agree")


def test_a_file_that_goes_between_plan_and_read(spark, workspace, monkeypatch):
    path = table_of(spark, workspace)
    old = next(path.glob("*.parquet"))
    real = DataFile.source
    gone = []

    def without_the_old_file(self):
        if not gone:
            gone.append(self.file.uri)
            # A new version of the file, and Hudi's clean takes the old one.
            tables.write(tables.frame(spark, range(6, 9), seed=4), path)
            old.unlink()
        return real(self)

    monkeypatch.setattr(DataFile, "source", without_the_old_file)
    assert found(spark, path, execution="local") == list(range(9))
    assert old.name in gone[0]
    assert issubclass(DataFileError, OSError)


def test_a_file_that_goes_before_an_as_of_read_is_refused(spark, workspace, monkeypatch):
    path = table_of(spark, workspace)
    first = timeline(path).commits[0].requested
    real = DataFile.source

    def without_the_file(self):
        for file in path.glob("*.parquet"):
            file.unlink()
        return real(self)

    monkeypatch.setattr(DataFile, "source", without_the_file)
    with pytest.raises(Exception, match=r"the data file '.*' cannot be opened") as raised:
        found(spark, path, as_of=first)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_without_the_newest_file_older_rows_are_no_answer(spark, workspace, kind):
    path = table_of(spark, workspace, kind=kind)
    old = set(path.glob("*"))
    tables.write(tables.frame(spark, range(3), seed=4), path)
    (lost,) = (file for file in set(path.glob("*")) - old if file.suffix != ".crc")
    assert (".log." in lost.name) == (kind == "MERGE_ON_READ")
    away = shutil.move(lost, workspace / lost.name)
    with pytest.raises(Exception, match=f"the data file '{lost.name}' of '.*' is not there") as raised:
        found(spark, path)
    assert "\n" not in str(raised.value)
    with pytest.raises(DataFileError, match=lost.name):
        hv.open(str(path), column="emb")
    shutil.move(away, lost)
    assert found(spark, path) == list(range(6))


def test_before_version_8_log_files_of_a_write_that_failed_are_not_read(spark, workspace):
    path = tables.fresh_path(workspace)
    mor = {
        "datasource__write__table__type": "MERGE_ON_READ",
        "write__table__version": 6,
        "write__auto__upgrade": "false",
    }
    refused = {
        "precommit__validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
        "precommit__validators__single__value__sql__queries": "select count(*) from <TABLE_NAME>#-1",
    }

    def require_hudis_rows():
        expected = oracle.nearest(spark.read.format("hudi").load(str(path)), "emb", [1.0] * 8, 100)
        oracle.assert_nearest(hv.search(spark, str(path), "emb", [1.0] * 8, 100), expected)
        return expected

    for ids, seed in ((range(6), 0), (range(3), 1)):
        tables.write(tables.frame(spark, ids, seed), path, **mor)
    with pytest.raises(Exception, match="validation"):
        tables.write(tables.frame(spark, range(2, 5), 2), path, **mor, **refused)
    assert len([log for log in path.glob("*.log.*") if log.suffix != ".crc"]) == 2, "the failed write left its log file"
    before = require_hudis_rows()
    tables.write(tables.frame(spark, [5], 3), path, **mor)  # Hudi rolls the failed write back
    assert require_hudis_rows() != before


def test_concurrent_commits_never_give_a_mixture(spark, workspace):
    path = table_of(spark, workspace, ids=range(4))
    stop, problems = threading.Event(), []

    def keep_searching():
        # Every commit rewrites all four rows with one price: a mixture would show two.
        while not stop.is_set():
            rows = hv.search(spark, str(path), "emb", [1.0] * 8, 10).select("id", "price").collect()
            if len(rows) != 4 or len({row["price"] for row in rows}) > (1 if commits else 4):
                problems.append(rows)

    commits = []
    thread = threading.Thread(target=keep_searching)
    for number in range(2):
        tables.write(
            tables.frame(spark, range(4)).selectExpr("id", "name", f"{number}D AS price", "category", "emb"), path
        )
        commits.append(number)
        if number == 0:
            thread.start()
    stop.set()
    thread.join()
    assert not problems
