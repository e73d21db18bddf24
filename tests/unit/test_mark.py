"""The rule: what keeps a blob file, one state at a time, and every doubt that keeps all of them."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest
from hudi import HudiTable
from support.blob_states import (
    DAY,
    HOUR,
    NOW,
    OLD,
    WITH_META,
    BlobTable,
    avro_block,
    blob,
    block,
    digits,
    inline,
    rows_of,
    write_id,
)

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.uploads import manifest
from hudi_vector.errors import DataFileError, InvalidArgumentError, TableNotFoundError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.mark_report import MARKS, MarkReport
from hudi_vector.table_services.marking import mark as mark_module
from hudi_vector.table_services.marking.files import list_marks, publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import read_here, references_of
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.retention.retained import list_retained


def marked(table: BlobTable, **options: object) -> MarkReport:
    return find_unneeded(str(table.path), **{"grace_ms": DAY, "now_ms": NOW, **options})  # type: ignore[arg-type]


def unneeded(table: BlobTable, **options: object) -> list[str]:
    report = marked(table, **options)
    assert report.doubts == ()
    return [file.path for file in report.candidates]


def reason(table: BlobTable, path: str, **options: object) -> str:
    report = marked(table, **options)
    assert not report.doubts
    return next(file.reason for file in report.kept if file.path == path)


def committed(table: BlobTable, blobs: dict[int, object], file_id: str = "f1") -> Path:
    instant = table.instant()
    file = table.base(file_id, instant, blobs)
    table.complete(instant, "commit")
    return file


def test_what_nothing_refers_to_is_found(table: BlobTable) -> None:
    orphan = table.container(write_id(OLD, 1), size=70)
    kept = table.container(write_id(OLD, 2), size=30)
    file = committed(table, {1: blob(f"{table.uri}/{kept}"), 2: inline(b"x"), 3: None})
    report = marked(table)
    assert [(file.path, file.bytes, file.mtime_ms) for file in report.candidates] == [(orphan, 70, OLD)]
    assert "no retained data file refers to it, and there is no manifest of its write" in report.candidates[0].reason
    assert [(file.path, file.bytes) for file in report.kept] == [(kept, 30)]
    assert report.kept[0].reason == f"the base file '{file.name}' of instant {file.stem[-17:]} refers to it"
    assert (report.total_bytes, report.made_ms, report.table) == (100, NOW, table.uri)
    assert (report.retained_files, report.opened_files) == (1, 1)
    assert len(report.identity) == 32


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_log_files_keep_and_say_so(table: BlobTable, form: str) -> None:
    first, second = (table.container(write_id(OLD, 1), number) for number in range(2))
    committed(table, {1: blob(f"{table.uri}/{first}")})
    instant = table.instant()
    table.log("f1", instant, {1: blob(f"{table.uri}/{second}")}, form)
    table.complete(instant)
    assert unneeded(table) == []
    assert f"the log file '.f1_{instant}.log.1_0-1-2' of instant {instant} refers to it" == reason(table, second)


def test_replaced_and_saved_and_pending_files_keep(table: BlobTable) -> None:
    names = [table.container(write_id(OLD, number)) for number in range(4)]
    older = committed(table, {1: blob(f"{table.uri}/{names[0]}")}, "f1")
    committed(table, {1: blob(f"{table.uri}/{names[1]}")}, "f1")
    table.savepoint(older.stem[-17:], [older])
    instant = table.instant()
    table.base("f2", instant, {1: blob(f"{table.uri}/{names[2]}")})
    table.complete(instant, "replacecommit", ["f1"])
    pending = table.instant()
    table.begin(pending, "clustering")
    table.base("f3", pending, {1: blob(f"{table.uri}/{names[3]}")})
    assert unneeded(table) == []
    assert f"held by savepoint {older.stem[-17:]} refers" in reason(table, names[0])
    os.remove(older)
    assert unneeded(table) == [names[0]]


def test_partitions_and_what_belongs_to_hudi(table: BlobTable) -> None:
    kept = table.container(write_id(OLD, 1))
    table.file("a/b/.hoodie_partition_metadata", b"")
    table.file("a/b/.f_0-1-2_20260101000000000.parquet.crc", b"")
    table.base("f1", table.instant(), {1: blob(kept)}, partition="a/b")
    table.file(".hoodie/metadata/anything.hfile", b"")
    assert unneeded(table) == []


@pytest.mark.parametrize(
    "spelled",
    [
        "{uri}/{path}",
        "file:{folder}/{path}",
        "{folder}/{path}",
        "{folder}//{path}",
        "{path}",
        "{folder}/x/../{path}",
        "{link}/{path}",
        "file://{link}/x/../{path}",
        "{hard}",
    ],
)
def test_one_file_has_many_names(table: BlobTable, spelled: str, tmp_path: Path) -> None:
    path = table.container(write_id(OLD, 1))
    link = tmp_path / "link"
    link.symlink_to(table.path)
    hard = tmp_path / "elsewhere" / path.rpartition("/")[2]
    hard.parent.mkdir()
    hard.symlink_to(table.path / path)
    committed(table, {1: blob(spelled.format(uri=table.uri, folder=table.path, path=path, link=link, hard=hard))})
    assert unneeded(table) == []
    assert find_unneeded(str(link), grace_ms=DAY, now_ms=NOW).candidates == ()


def test_links_climb_from_where_they_lead(table: BlobTable, tmp_path: Path) -> None:
    path = table.container(write_id(OLD, 1))
    (tmp_path / "far").symlink_to(table.path / ".hoodie" / "blobs")
    committed(table, {1: blob(f"file://{tmp_path}/far/../../{path}")})
    assert unneeded(table) == []


def test_one_file_at_two_paths_of_a_disk(table: BlobTable, tmp_path: Path) -> None:
    path = table.container(write_id(OLD, 1))
    mounted = tmp_path / "mounted" / path
    mounted.parent.mkdir(parents=True)
    os.link(table.path / path, mounted)
    committed(table, {1: blob(f"file://{mounted}")})
    assert unneeded(table) == []


def test_a_link_out_of_the_area_is_kept(table: BlobTable, tmp_path: Path) -> None:
    path = table.container(write_id(OLD, 1))
    outside = tmp_path / "outside"
    (table.path / path).rename(outside)
    (table.path / path).symlink_to(outside)
    assert reason(table, path) == "it is a link that leads out of the blob area"


@pytest.mark.parametrize("is_copy", [False, True], ids=["moved", "copied"])
def test_a_container_of_the_same_name_is_ours_wherever_references_say_it_lies(
    table: BlobTable, tmp_path: Path, is_copy: bool
) -> None:
    path, other = table.container(write_id(OLD, 1)), table.container(write_id(OLD, 2))
    before = tmp_path / "before" / path
    if is_copy:
        before.parent.mkdir(parents=True)
        before.write_bytes(b"x")
    committed(table, {1: blob(f"file://{before}")})
    report = marked(table)
    assert ([file.path for file in report.candidates], report.doubts) == ([other], ())
    (kept,) = report.kept
    assert kept.path == path
    assert "refers to it" in kept.reason
    (note,) = report.notes
    assert note.startswith(
        f"1 container of this table is named by data files at another place, such as 'file://{before}'"
    )
    assert "hv.blobs.relocate" in note


def test_any_other_file_of_the_same_name_elsewhere_is_another_file(table: BlobTable, tmp_path: Path) -> None:
    managed = tmp_path / "managed" / "cat.png"
    managed.parent.mkdir()
    managed.write_bytes(b"x")
    table.touch(managed, OLD)
    elsewhere = tmp_path / "elsewhere" / "cat.png"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"yz")
    committed(table, {1: blob(f"file://{elsewhere}"), 2: blob(f"{tmp_path}/gone/cat.png")})
    report = marked(table, managed_roots=[str(managed.parent)])
    assert [file.path for file in report.candidates] == [f"file://{managed}"]
    assert report.notes == ()
    outside = {
        file.path: file.bytes for file in report.kept if file.reason.startswith("managed_outside: the base file")
    }
    assert outside == {f"file://{elsewhere}": 2, f"file://{tmp_path}/gone/cat.png": 0}


def test_the_grace_counts_both_times(table: BlobTable) -> None:
    young_file, young_write = table.container(write_id(OLD, 1)), table.container(write_id(NOW - HOUR, 2))
    table.touch(table.path / young_file, NOW - HOUR)
    no_time, odd = table.container(write_id(OLD, 3)), table.container("99999999999999999_0123456789ab")
    table.touch(table.path / no_time, 0)
    assert unneeded(table) == []
    assert "stays for the grace of 1 day" in reason(table, young_file)
    assert "stays for the grace of 1 day" in reason(table, young_write)
    assert reason(table, no_time) == "its storage tells no modification time"
    assert reason(table, odd) == "its name tells no time"
    assert set(unneeded(table, grace_ms=HOUR - 1)) == {young_file, young_write}


def test_other_files_in_the_area_are_only_reported(table: BlobTable) -> None:
    folder = Path(table.container(write_id(OLD, 1))).parent
    others = [".hoodie/blobs/cat.png", f"{folder}/.tmpabc", f"{folder}/{write_id(OLD, 2)}-00000-0-0.blob"]
    for other in others:
        table.file(other, b"x")
    assert len(unneeded(table)) == 1
    assert {reason(table, other) for other in others} == {"it does not bear a name that this package gives"}


def uploaded(table: BlobTable, state: str, lease_ms: int = HOUR) -> str:
    """A container of a write that is a month old and in this state."""
    upload = manifest.open_upload(
        str(table.path), {}, lease_ms=lease_ms, prepared=state == manifest.PREPARED, now_ms=OLD
    )
    path = table.container(upload.write_id)
    if state == manifest.STAGED:
        manifest.stage(str(table.path), upload.write_id, [WrittenContainer(path, "", "img", 1, 1, 1)], now_ms=OLD)
    if state == manifest.COMMITTED:
        manifest.finish(str(table.path), upload.write_id, "20260101000000000")
    if state == manifest.ABORTED:
        manifest.abort(str(table.path), upload.write_id)
    if state == manifest.UNREADABLE:
        folder = table.path / manifest.UPLOADS / upload.write_id
        next(folder.iterdir()).write_bytes(b"torn")
    return path


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (manifest.OPEN, "ended without a commit"),
        (manifest.STAGED, "ended without a commit"),
        (manifest.PREPARED, "was prepared and not written in time"),
        (manifest.COMMITTED, "was committed by instant 20260101000000000"),
        (manifest.ABORTED, "was aborted"),
    ],
)
def test_writes_that_ended_keep_nothing(table: BlobTable, state: str, why: str) -> None:
    path = uploaded(table, state)
    report = marked(table)
    assert [file.path for file in report.candidates] == [path]
    assert report.candidates[0].reason.endswith(why)


@pytest.mark.parametrize("state", [manifest.OPEN, manifest.STAGED])
def test_writes_that_may_commit_keep_theirs(table: BlobTable, state: str) -> None:
    path = uploaded(table, state, lease_ms=30 * DAY)  # until now
    assert f"is {state} and may commit until" in reason(table, path)
    assert reason(table, path, now_ms=NOW + DAY - 1)  # the grace covers clocks that differ
    assert unneeded(table, now_ms=NOW + DAY) == [path]


def test_a_damaged_manifest_keeps_for_ever(table: BlobTable) -> None:
    assert "for ever" in reason(table, uploaded(table, manifest.UNREADABLE))


def test_a_damaged_manifest_holds_its_write_until_its_folder_is_removed(table: BlobTable, tmp_path: Path) -> None:
    path, committed_one = uploaded(table, manifest.UNREADABLE), uploaded(table, manifest.COMMITTED)
    folder = table.path / manifest.UPLOADS / committed_one.split("/")[-2]
    max(folder.iterdir()).write_bytes(b"torn")
    report = marked(table)
    (found,) = report.candidates
    assert (found.path, "ended without a commit" in found.reason) == (committed_one, True)
    assert [file.path for file in report.kept] == [path]
    media = tmp_path / "media"
    media.mkdir()
    (media / "x").write_bytes(b"")
    assert "is damaged, so no one can say" in marked(table, managed_roots=[str(media)]).doubts[0]
    other = BlobTable(tmp_path / "other", OLD)
    assert "is damaged, so no one can say" in marked(other, other_tables=[table.uri]).doubts[0]
    shutil.rmtree(table.path / manifest.UPLOADS / path.split("/")[-2])
    assert set(unneeded(table)) == {path, committed_one}


def test_what_an_open_manifest_names_is_kept_wherever_it_lies(table: BlobTable) -> None:
    other = table.container(write_id(OLD, 9))
    upload = manifest.open_upload(str(table.path), {}, lease_ms=60 * DAY, now_ms=OLD)
    manifest.stage(str(table.path), upload.write_id, [WrittenContainer(other, "", "img", 1, 1, 1)], now_ms=OLD)
    assert upload.write_id in reason(table, other)


def test_a_pending_ingest_keeps_what_is_not_older(table: BlobTable) -> None:
    older, newer = table.container(write_id(OLD, 1)), table.container(write_id(OLD + 3 * DAY, 2))
    table.clock_ms = OLD + 2 * DAY
    pending = table.instant()
    table.begin(pending)
    assert unneeded(table) == [older]
    assert f"than deltacommit '{pending}' of '{table.uri}', which has not completed" in reason(table, newer)
    table.complete(pending)
    assert unneeded(table) == [older, newer]


def test_the_oldest_of_several_pending_instants_counts(table: BlobTable) -> None:
    path = table.container(write_id(OLD + 3 * DAY, 1))
    table.touch(table.path / path, OLD + 3 * DAY)
    for day in (10, 2, 20):
        table.clock_ms = OLD + day * DAY
        table.begin(table.instant())
    assert unneeded(table) == []


def test_a_pending_instant_is_as_old_as_its_name_or_its_file(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    table.clock_ms = OLD + HOUR
    table.begin(digits(OLD + 20 * DAY))
    assert unneeded(table) == []
    for file in table.timeline.iterdir():
        table.touch(file, OLD + 20 * DAY)
    assert unneeded(table) == [path]


@pytest.mark.parametrize(
    "action", ["clustering", "compaction", "logcompaction", "clean", "rollback", "restore", "indexing"]
)
def test_pending_services_hold_nothing_back(table: BlobTable, action: str) -> None:
    path = table.container(write_id(OLD + DAY, 1))
    table.begin(table.instant(), action)
    assert unneeded(table) == [path]


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit", "somethingnew"])
def test_any_other_pending_action_does(table: BlobTable, action: str) -> None:
    table.container(write_id(OLD + DAY, 1))
    table.begin(table.instant(), action)
    assert unneeded(table) == []


@pytest.mark.parametrize(
    ("zone", "named", "kept"),
    [("LOCAL", None, True), ("LOCAL", "UTC", False), ("UTC", None, False), ("LOCAL", "+10:00", True)],
)
def test_the_zone_of_the_writers(tmp_path: Path, zone: str, named: str | None, kept: bool) -> None:
    table = BlobTable(tmp_path, OLD, zone=zone)
    path = table.container(write_id(OLD - DAY - 2 * HOUR, 1))
    table.touch(table.path / path, OLD - DAY - 2 * HOUR)
    table.begin(digits(OLD))
    assert unneeded(table, writers_zone=named) == ([] if kept else [path])


def test_a_stale_pending_instant_is_told_and_ignored_on_demand(table: BlobTable) -> None:
    path = table.container(write_id(OLD + HOUR, 1))
    pending = table.instant()
    table.begin(pending)
    report = marked(table)
    assert report.candidates == ()
    assert f"deltacommit '{pending}' of '{table.uri}' is pending" in report.notes[0]
    assert "keeps whatever is not older" in report.notes[0]
    ignored = marked(table, ignore_stale_pending=True)
    assert [file.path for file in ignored.candidates] == [path]
    assert "is ignored" in ignored.notes[0]
    beat = table.path / ".hoodie" / ".heartbeat" / pending
    beat.parent.mkdir()
    beat.touch()
    table.touch(beat, NOW - 6 * DAY)
    assert marked(table, ignore_stale_pending=True).notes == ()
    beat.unlink()
    manifest.open_upload(str(table.path), {}, lease_ms=24 * DAY, now_ms=OLD + DAY)
    assert len(marked(table, ignore_stale_pending=True).notes) == 1  # it was opened later, by another write
    manifest.open_upload(str(table.path), {}, lease_ms=24 * DAY, now_ms=OLD)
    assert marked(table, ignore_stale_pending=True).notes == ()


DOUBTS = {
    "an unknown file": ("x.csv", b"a", "does not have the name of a data file"),
    "a Lance base file": ("f_0-1-2_20260101000000000.lance", b"a", "cannot be read"),
    "an ORC base file": ("f_0-1-2_20260101000000000.orc", b"a", "is a base file in ORC"),
    "a log of changes": (".f_20260101000000000.log.1_0-1-2.cdc", b"garbage", "no block begins"),
    "a torn base file": ("f_0-1-2_20260101000000000.parquet", b"PAR1", "cannot be read"),
    "an unknown block": (".f_20260101000000000.log.1_0-1-2", block(9, {}, b""), "of type unknown"),
    "an empty log file": (".f_20260101000000000.log.1_0-1-2", b"", "is empty and instant 20260101000000000 has"),
    "a torn log file": (
        ".f_20260101000000000.log.1_0-1-2",
        block(3, {}, b"")[:-1],
        "is cut off in the block at byte 0",
    ),
    "an empty log of changes": (".f_20260101000000000.log.1_0-1-2.cdc", b"", "is empty and instant"),
}


@pytest.mark.parametrize(("name", "content", "doubt"), DOUBTS.values(), ids=DOUBTS)
def test_any_doubt_keeps_everything(table: BlobTable, name: str, content: bytes, doubt: str) -> None:
    path = table.container(write_id(OLD, 1))
    table.file(name, content)
    table.complete("20260101000000000")
    report = marked(table)
    assert report.candidates == ()
    assert len(report.doubts) == 1
    assert doubt in report.doubts[0]
    assert name in report.doubts[0]
    assert [(file.path, file.reason) for file in report.kept] == [
        (path, "nothing that was read refers to it, but a doubt keeps everything")
    ]


def tail_lost(table: BlobTable, instant: str, path: str, name: str = "") -> Path:
    """A log file of an instant, whose second block refers to a container and lost its last byte."""
    first, second = (
        avro_block(rows_of({key: blob(f"{table.uri}/{path}")}, instant, "f1", "", "f1"), WITH_META, instant)
        for key in (1, 2)
    )
    return table.raw_log("f1", name or instant, first.replace(path.encode(), b"x" * len(path)) + second[:-1])


def test_what_a_log_file_lost_may_have_referred_to_anything(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    instant = table.instant()
    log = tail_lost(table, instant, path)
    kept = KeptReferences(table.uri)
    table.begin(instant)
    assert unneeded(table, reader=kept, ignore_stale_pending=True) == [path]
    kept.save()
    for file in table.timeline.iterdir():
        file.unlink()  # as a rollback does
    assert unneeded(table, reader=kept) == [path]
    kept.save()
    table.complete(instant)
    (doubt,) = marked(table, reader=kept).doubts
    assert doubt == (
        f"the log file 'file://{log}' is cut off in the block at byte {(log.stat().st_size + 1) // 2} and instant {instant} "
        "has completed, so that it may have referred to anything; Hudi's compaction of its file group, and clean after "
        "it, remove the file"
    )
    # Archived with others that completed.
    for file in table.timeline.iterdir():
        file.unlink()
    table.complete(table.instant())
    assert "has completed" in marked(table, reader=kept).doubts[0]
    log.unlink()
    assert unneeded(table, reader=kept) == [path]


def test_older_versions_name_log_files_after_their_base_file(tmp_path: Path) -> None:
    table = BlobTable(tmp_path / "t", OLD, properties={"hoodie.table.version": "6"})
    path, base, writer = table.container(write_id(OLD, 1)), table.instant(), table.instant()
    log = tail_lost(table, writer, path, base)
    for name in (f"{base}.commit", f"{writer}.deltacommit.inflight"):
        table.file(f".hoodie/{name}", b"")
    # The head of the torn block tells who wrote it.
    assert unneeded(table, ignore_stale_pending=True) == [path]
    table.file(f".hoodie/{writer}.deltacommit", b"")
    assert f"instant {writer} has completed" in marked(table).doubts[0]
    (table.path / ".hoodie" / f"{writer}.deltacommit").unlink()
    log.write_bytes(b"")
    assert "is empty and it is unknown whether its write has completed" in marked(table).doubts[0]
    assert "mark again once no write is under way" in marked(table).doubts[0]


def test_a_log_file_that_grows_while_it_is_read_is_read_again(table: BlobTable) -> None:
    path, instant = table.container(write_id(OLD, 1)), table.instant()
    whole = table.log("f1", instant, {1: blob(f"{table.uri}/{path}")})
    content = whole.read_bytes()
    whole.write_bytes(content[:-9])
    table.complete(instant)

    def grown(files, options):  # type: ignore[no-untyped-def]
        yield from read_here(files, options)
        if whole.stat().st_size < len(content):
            whole.write_bytes(content)

    assert unneeded(table, reader=grown) == []


def test_a_file_that_is_still_written_is_a_doubt_for_now(table: BlobTable) -> None:
    pending = table.instant()
    table.begin(pending)
    table.file(f"f_0-1-2_{pending}.parquet", b"PAR1")
    assert "its instant has not completed: mark again later" in marked(table).doubts[0]


@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (blob(None), "are OUT_OF_LINE in column 'img' and name no path"),
        (blob(""), "has an empty path"),
        (blob("../../x"), "climbs out of its table"),
    ],
)
def test_references_that_say_nothing_are_doubts(table: BlobTable, value: object, doubt: str) -> None:
    table.container(write_id(OLD, 1))
    committed(table, {1: value})
    report = marked(table)
    assert report.candidates == ()
    assert doubt in report.doubts[0]


@pytest.mark.parametrize("path", ["hdfs://name{folder}/{path}", "viewfs://mount/t/{path}", "s3a://bucket/t/{path}"])
def test_an_alias_that_nobody_here_can_resolve_is_a_doubt(table: BlobTable, path: str) -> None:
    name = table.container(write_id(OLD, 1))
    committed(table, {1: blob(path.format(folder=table.path, path=name), managed=False)})
    report = marked(table)
    assert report.candidates == ()
    assert "under another name" in report.doubts[0]


def test_manifests_of_another_version_are_a_doubt(table: BlobTable) -> None:
    path = uploaded(table, manifest.ABORTED)
    folder = table.path / manifest.UPLOADS / path.split("/")[-2]
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes().replace(b"upload 1", b"upload 2", 1))
    assert "the manifests of uploads" in marked(table).doubts[0]
    assert marked(table).candidates == ()


def test_bootstrapped_tables_are_a_doubt(tmp_path: Path) -> None:
    table = BlobTable(tmp_path, OLD, properties={"hoodie.bootstrap.base.path": "/elsewhere"})
    assert "was bootstrapped" in marked(table).doubts[0]


def test_other_tables_keep_what_they_refer_to(table: BlobTable, tmp_path: Path) -> None:
    shared, orphan = table.container(write_id(OLD, 1)), table.container(write_id(OLD, 2))
    other = BlobTable(tmp_path / "other", OLD)
    committed(other, {1: blob(f"{table.uri}/{shared}"), 2: blob(orphan)})  # the second is relative to the other table
    assert unneeded(table) == [shared, orphan]
    assert unneeded(table, other_tables=[str(other.path), str(table.path)]) == [orphan]
    assert str(other.path) in reason(table, shared, other_tables=[other.uri])
    report = marked(table, other_tables=[str(tmp_path / "nothing")])
    assert report.candidates == ()
    assert "which may share these blobs, cannot be read" in report.doubts[0]


def test_managed_files_elsewhere(table: BlobTable, tmp_path: Path) -> None:
    root = tmp_path / "managed"
    root.mkdir()
    for name in ("kept", "orphan", "young"):
        (root / name).write_bytes(b"12")
        table.touch(root / name, OLD)
    table.touch(root / "young", NOW)
    committed(table, {1: blob(f"{root}/kept"), 2: blob(f"{tmp_path}/external", managed=False)})
    assert [(file.path, file.bytes) for file in marked(table).kept] == [(f"file://{root}/kept", 2)]
    report = marked(table, managed_roots=[str(root)])
    assert [file.path for file in report.candidates] == [f"file://{root}/orphan"]
    assert {file.path.rpartition("/")[2] for file in report.kept} == {"kept", "young"}
    for wrong in (table.path, table.path / "x", tmp_path):
        with pytest.raises(InvalidArgumentError, match="lie in each other"):
            marked(table, managed_roots=[str(wrong)])


def test_wrong_arguments(tmp_path: Path, table: BlobTable) -> None:
    with pytest.raises(InvalidArgumentError, match="is negative"):
        marked(table, grace_ms=-1)
    with pytest.raises(TableNotFoundError):
        find_unneeded(str(tmp_path / "nothing"), grace_ms=DAY)
    assert find_unneeded(str(table.path), grace_ms=DAY).candidates == ()


def test_files_that_move_while_they_are_read_are_followed(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    first = committed(table, {1: blob(path)})

    def reader(files, options):
        if first.exists():  # a commit and a clean, between listing and reading
            committed(table, {1: blob(path)})
            first.unlink()
        return mark_module.read_here(files, options)

    report = marked(table, reader=reader)
    assert (report.candidates, report.doubts, report.opened_files) == ((), (), 1)


def test_a_commit_during_the_reading_is_seen(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    committed(table, {1: None})

    def reader(files, options):
        yield from mark_module.read_here(files, options)
        if not list(table.path.glob("f2_*")):
            committed(table, {1: blob(path)}, "f2")

    report = marked(table, reader=reader)
    assert (report.candidates, report.doubts, report.opened_files) == ((), (), 2)


def test_a_table_that_never_rests_is_a_doubt(table: BlobTable) -> None:
    def reader(files, options):
        committed(table, {1: None}, "f2")
        return mark_module.read_here(files, options)

    committed(table, {1: None})
    assert "changed during 20 listings" in marked(table, reader=reader).doubts[0]


def test_a_managed_root_with_a_table_in_it_is_a_doubt(table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path / "root" / "other", OLD)
    other.container(write_id(OLD, 1))
    report = marked(table, managed_roots=[f"{tmp_path}/root"])
    assert report.candidates == ()
    assert f"the managed root 'file://{tmp_path}/root' holds a Hudi table" in report.doubts[0]


def test_a_link_to_data_that_is_not_there_is_a_doubt(table: BlobTable, tmp_path: Path) -> None:
    table.container(write_id(OLD, 1))
    disk = tmp_path / "disk"
    disk.mkdir()
    (table.path / "p1").symlink_to(disk)
    assert len(unneeded(table)) == 1
    disk.rename(tmp_path / "unmounted")
    report = marked(table)
    assert report.candidates == ()
    assert report.doubts == (f"'{table.path}/p1' is a link that leads nowhere",)


def test_the_leases_of_another_table_are_its_own(table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path / "other", OLD)
    other.begin(other.instant())
    assert len(marked(table, other_tables=[other.uri]).notes) == 1
    manifest.open_upload(str(other.path), {}, lease_ms=24 * DAY, now_ms=OLD)
    assert marked(table, other_tables=[other.uri]).notes == ()


def test_hudi_rs_sees_the_states_as_they_are_meant(table: BlobTable) -> None:
    for number in (1, 2):
        instant = table.instant()
        table.begin(instant, "commit")
        table.base(f"f{number}", instant, {number: inline(b"x")})
        table.complete(instant, "commit")
    instant = table.instant()
    table.begin(instant, "replacecommit")
    table.base("f3", instant, {3: inline(b"x")})
    table.complete(instant, "replacecommit", ["f2"])
    pending = table.instant()
    table.begin(pending, "commit")
    table.base("f1", pending, {1: None})
    files = {found.file_id: found.base_file_name for found in HudiTable(str(table.path)).get_file_slices()}
    assert files.keys() == {"f1", "f3"}
    assert pending not in files["f1"]


def test_files_and_their_references_travel(table: BlobTable) -> None:
    committed(table, {1: blob("/x")})
    (file,) = list_retained(table.uri, open_storage(table.uri, StorageOptions())).files
    found = pickle.loads(pickle.dumps(references_of(pickle.loads(pickle.dumps(file)), StorageOptions())))
    assert found.file == file
    assert found.references["path"].to_pylist() == ["/x"]
    assert (file.kind, file.file_id, file.path) == ("base", "f1", f"f1_0-1-2_{file.instant}.parquet")


def test_a_mark_reads_back_as_it_was_published(table: BlobTable) -> None:
    table.container(write_id(OLD, 1))
    committed(table, {1: blob(table.container(write_id(OLD, 2)))})
    report = marked(table)
    assert publish_mark(report, StorageOptions()) == report.mark_id
    assert read_mark(str(table.path), report.mark_id, StorageOptions()) == report
    assert list_marks(str(table.path)) == [report.mark_id]
    assert marked(table).candidates == report.candidates
    for wrong in ("20260101000000000_0123456789ab", "../x"):
        with pytest.raises(InvalidArgumentError, match="has no mark"):
            read_mark(str(table.path), wrong)
    next((table.path / MARKS / report.mark_id).glob("kept-*")).write_bytes(b"")
    with pytest.raises(DataFileError, match="damaged"):
        read_mark(str(table.path), report.mark_id)
