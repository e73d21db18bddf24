"""Why a blob file stays, or why nothing keeps it: whatever state it is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import BlobTable, blob, write_id

from hudi_vector.blobs.uploads import manifest
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.cleaning.explain import GONE, KEPT, OUTSIDE, TRASHED, UNNEEDED, BlobExplanation, explain
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.references.kept import KeptReferences

NOW = 1_790_000_000_000
DAY = 86_400_000
OLD = NOW - 30 * DAY
LOCAL = StorageOptions()


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "t", OLD)


def refer(table: BlobTable, file_id: str, *blobs: object, form: str | None = None) -> Path:
    instant = table.instant()
    made = dict(enumerate(blobs))
    file = table.base(file_id, instant, made) if form is None else table.log(file_id, instant, made, form)
    table.complete(instant)
    return file


def ask(table: BlobTable, path: str, **arguments: object) -> BlobExplanation:
    """By a plain reader, and by one that knows all files."""
    kept = KeptReferences(table.uri)
    answers = [
        explain(table.uri, path, grace_ms=DAY, options=LOCAL, reader=reader, now_ms=NOW, **arguments)
        for reader in (read_here, kept.whole, kept.whole)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].rows()[0]["action"] == answers[0].state
    assert all(isinstance(line, str) for line in answers[0].lines())
    return answers[0]


def test_what_keeps_a_container(table: BlobTable) -> None:
    upload = manifest.open_upload(str(table.path), {}, lease_ms=DAY, now_ms=OLD)
    path = table.container(upload.write_id)
    first = refer(table, "f1", blob(f"{table.uri}/{path}", 0, 10), blob(path, 5, 10), blob("/elsewhere"))
    table.savepoint(first.stem[-17:], [first])
    log = refer(table, "f1", blob(path, 50, 10), form="avro")
    refer(table, "f2", None)
    manifest.stage(str(table.path), upload.write_id, [], now_ms=OLD)
    manifest.finish(str(table.path), upload.write_id, "20260101000000000")
    found = ask(table, path)
    assert (found.path, found.state, found.bytes, found.live_bytes) == (path, KEPT, 100, 25)
    assert "the log file" in found.reason
    assert [(by.path, by.kind, by.file_id, by.references) for by in found.referrers] == [
        (log.name, "log", "f1", 1),
        (first.name, "base", "f1", 2),
    ]
    assert [by.savepoint for by in found.referrers] == [None, first.stem[-17:]]
    assert (found.age_ms, found.grace_ms) == (NOW - int((table.path / path).stat().st_mtime * 1000), DAY)
    assert (found.upload.state, found.upload.instant) == (manifest.COMMITTED, "20260101000000000")
    assert [(row["action"], row["path"]) for row in found.rows()] == [
        ("kept", path),
        ("refers", log.name),
        ("refers", first.name),
        ("wrote", f"{manifest.UPLOADS}/{upload.write_id}"),
    ]
    assert "held by savepoint" in found.rows()[2]["reason"]
    assert "25 of 100 bytes are live, by 2 data files" in list(found.lines())
    for spelled in (f"{table.uri}/{path}", f"{table.path}//{path}", f"{table.path}/x/../{path}"):
        assert ask(table, spelled) == found


def test_why_nothing_keeps_it(table: BlobTable) -> None:
    dead, young = table.container(write_id(OLD, 1)), table.container(write_id(OLD, 2))
    table.touch(table.path / young, NOW - DAY // 2)
    found = ask(table, dead)
    assert (found.state, found.live_bytes, found.referrers, found.upload) == (UNNEEDED, 0, (), None)
    assert "no retained data file refers to it, and there is no manifest of its write" in found.reason
    found = ask(table, young)
    assert (found.state, found.age_ms) == (KEPT, DAY // 2)
    assert "stays for the grace of 1 day" in found.reason
    table.begin(table.instant())
    assert "which has not completed" in ask(table, dead).reason


def test_a_doubt_is_told(table: BlobTable) -> None:
    dead = table.container(write_id(OLD, 1))
    table.file("x.csv", b"")
    found = ask(table, dead)
    assert (found.state, len(found.doubts)) == (KEPT, 1)
    assert next(found.lines()).startswith("nothing may go: ")


def test_what_is_in_the_trash(table: BlobTable) -> None:
    dead = table.container(write_id(OLD, 1))
    report = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW)
    swept = sweep(report, lambda: report, limits=SweepLimits(100), now_ms=lambda: NOW)
    found = ask(table, dead)
    assert (found.state, found.bytes, found.age_ms, found.path) == (TRASHED, None, None, dead)
    (copy,) = found.trash
    assert (copy.sweep_id, found.rows()[-1]["path"]) == (swept.sweep_id, copy.trash_path)
    assert ask(table, copy.trash_path) == found
    refer(table, "f1", blob(dead))
    assert "1 data file refers to it, so restore" in ask(table, dead).reason
    table.container(write_id(OLD, 1))
    found = ask(table, dead)
    assert (found.state, len(found.trash), found.live_bytes) == (KEPT, 1, 5)


def test_what_is_nowhere_or_elsewhere(table: BlobTable, tmp_path: Path) -> None:
    gone = table.container(write_id(OLD, 1))
    (table.path / gone).unlink()
    assert ask(table, gone).reason == "there is no such file, and no data file refers to it"
    assert ask(table, gone).state == GONE
    elsewhere = tmp_path.resolve() / "video.mp4"
    elsewhere.write_bytes(b"x" * 30)
    refer(table, "f1", blob(str(elsewhere), 0, 7, managed=False))
    found = ask(table, str(elsewhere))
    assert (found.state, found.path, found.bytes, found.live_bytes) == (OUTSIDE, f"file://{elsewhere}", 30, 7)
    refer(table, "f2", blob(f"file:{elsewhere}"))
    found = ask(table, f"file://{elsewhere}")
    assert (found.state, found.reason[:15], len(found.referrers)) == (KEPT, "managed_outside", 2)
    for path, why in (("../x", "climbs"), ("", "empty")):
        with pytest.raises(InvalidArgumentError, match=f"path is '{path}': .* {why} .*; give a path from"):
            ask(table, path)


def test_another_table_refers(table: BlobTable, tmp_path: Path) -> None:
    path = table.container(write_id(OLD, 1))
    other = BlobTable(tmp_path.resolve() / "other", OLD)
    file = refer(other, "f1", blob(f"{table.uri}/{path}"))
    found = ask(table, path, other_tables=[str(other.path)])
    assert (found.state, [by.path for by in found.referrers]) == (KEPT, [f"file://{file}"])
    assert ask(table, path).state == UNNEEDED
