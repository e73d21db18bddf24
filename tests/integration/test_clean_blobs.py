"""The cleaner on a real table: what Hudi's clean made unneeded goes, everything readable stays, and it comes back."""

from __future__ import annotations

import json
import logging
import os
import re

import pytest
from support import tables
from support.blobs import content, got, rows, stored, write
from support.clean_life import refers, retained_rows
from support.prepared import Prepared

import hudi_vector as hv
from hudi_vector import progress
from hudi_vector.blobs.uploads.manifest import open_upload, upload_ids
from hudi_vector.command.main import main
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError, RefusedError
from hudi_vector.table_services.maintenance.history import History, read_history
from hudi_vector.table_services.service_lease import ServiceLease

OUT = {"img": {"inline.threshold": "0"}}
KEEP_LITTLE = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


@pytest.fixture(scope="module")
def little(spark, workspace):
    """Four versions of the same rows, of which Hudi's clean has kept two."""
    made = tables.fresh_path(workspace, "clean")
    for version in range(1, 5):
        frame = rows(spark, [1000 * version] * 4, ts=version).coalesce(1)
        write(frame, made, blobs=OUT, options=KEEP_LITTLE)
    return Prepared.of(spark, made)


@pytest.fixture(scope="module")
def path(little):
    return little.again()


@pytest.fixture(scope="module")
def versions(spark, workspace):
    """Four versions of the same two rows, all of which are there."""
    made = tables.fresh_path(workspace, "versions")
    for version in range(1, 5):
        write(rows(spark, [100] * 2, ts=version), made, blobs=OUT, options={"hoodie.clean.automatic": "false"})
    return Prepared.of(spark, made)


def files(path):
    """The blob area, by paths from the table's folder."""
    return {str(file.relative_to(path)) for file in (path / ".hoodie/blobs").rglob("*") if file.is_file()}


def expected():
    return {i: content(i + 4000, 4000) for i in range(4)}


def test_clean_restore_mark_and_sweep(spark, path, tmp_path):
    before = files(path)
    services = hv.table_services
    assert services.clean_blobs(spark, str(path), dry_run=True).candidates == [], "all are younger than the grace"
    assert files(path) == before

    dry = services.clean_blobs(spark, str(path), grace="0s", dry_run=True, report=str(tmp_path / "dry.json"))
    assert (dry.deleted, dry.doubts, dry.refusal) == ([], (), None)
    needed = {row["img"]["reference"]["external_path"] for row in retained_rows(path) if refers(row)}
    assert {file.path for file in dry.candidates} == {name for name in before if f"file://{path}/{name}" not in needed}
    assert 0 < len(dry.candidates) < len(before)
    assert [json.loads(line) for line in (tmp_path / "dry.json").read_text().splitlines()] == dry.rows()
    assert files(path) == before

    real = services.clean_blobs(spark, str(path), grace="0s")
    gone = {file.path for file in real.deleted}
    assert real.rows() == dry.rows()
    assert (real.candidates, real.bytes, real.failed) == (dry.candidates, dry.bytes, [])
    assert files(path) == before - gone
    assert {file.path for file in real.kept} == before - gone
    assert got(path) == expected()
    assert hv.blobs.verify(None, str(path)).to_pylist() == []

    listed = services.list_containers(spark, str(path))
    assert {file.path for file in listed.containers} == before - gone
    assert all(
        file.live_bytes == file.bytes and file.files and (path / file.newest).exists() for file in listed.containers
    )
    assert (listed.doubts, listed.bytes) == ((), listed.live_bytes)
    explained = {name: services.explain_blob(spark, str(path), name, grace="0s") for name in before}
    assert {name for name, found in explained.items() if found.state == "trashed"} == gone
    assert all(found.live_bytes == found.bytes for name, found in explained.items() if name not in gone)
    assert all(found.upload.state == "committed" for found in explained.values())

    back = services.restore_blobs(spark, str(path), sweep=real.sweep_id)
    assert ({file.path for file in back.restored}, back.bytes) == (gone, real.bytes)
    assert files(path) == before

    marked = services.mark_blobs(spark, str(path), grace="0s")
    assert {file.path for file in marked.candidates} == gone
    swept = services.sweep_blobs(spark, str(path), marked.mark_id, grace="0s", trash=False)
    assert {file.path for file in swept.deleted} == gone
    again = services.sweep_blobs(spark, str(path), marked.mark_id, grace="0s", trash=False)
    assert (again.bytes, {file.reason for file in again.deleted}) == (0, {"gone already"})
    written = upload_ids(str(path))
    aborted = open_upload(str(path), {}, lease_ms=1, now_ms=0).write_id
    assert upload_ids(str(path)) == [aborted, *written]
    assert services.clean_blobs(spark, str(path), grace="0s").candidates == []
    assert upload_ids(str(path)) == written, "what nobody needs of what was noted long ago is gone"
    assert stored(spark, path) == expected()


def test_the_second_run_opens_only_changed_files(spark, path):
    services = hv.table_services
    # Files that changed within the last minute are read each time.
    found = [file for file in path.rglob("*.parquet") if ".hoodie" not in file.parts]
    data = [file for file in found if not file.name.startswith(".")]
    for file in data:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    first = services.clean_blobs(spark, str(path))
    assert (first.opened_files, first.retained_files) == (len(data), len(data))
    assert services.clean_blobs(spark, str(path)).opened_files == 0
    held = services.check_erasure(spark, str(path), "1")
    assert {holder.kind for holder in held.holders} == {"base file", "container"}, "it reads what the cleaner kept"
    os.utime(data[0], (1_700_000_001, 1_700_000_001))
    assert services.mark_blobs(spark, str(path)).opened_files == 1
    verified = services.clean_blobs(spark, str(path), verify_index=True)
    assert (verified.opened_files, verified.notes, verified.doubts) == (len(data), (), ())
    assert services.mark_blobs(spark, str(path)).opened_files == 0


def test_the_executors_find_what_the_driver_finds(spark, path, clean_session, caplog, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_S", 0.01)
    spark.conf.set("hoodie.blob.clean.execution", "local")
    here = hv.table_services.mark_blobs(spark, str(path), grace="0s", verify_index=True)
    spark.conf.set("hoodie.blob.clean.execution", "distributed")
    with caplog.at_level(logging.INFO, "hudi_vector"):
        spread = hv.table_services.mark_blobs(spark, str(path), grace="0s", verify_index=True)
    shown = [text for text in caplog.messages if text.endswith(" data files read")]
    assert shown
    assert {text.split()[2] for text in shown} == {str(spread.retained_files)}
    assert (spread.candidates, spread.kept, spread.doubts, spread.notes) == (here.candidates, here.kept, (), ())
    assert spread.opened_files == here.opened_files > 0


def test_refusals(spark, path, clean_session):
    services = hv.table_services
    with pytest.raises(InvalidOptionError, match="give a whole number of milliseconds"):
        services.clean_blobs(spark, str(path), grace="a while")
    with pytest.raises(InvalidArgumentError, match=r"the report '/no/such/file' cannot be written: .*; name a local"):
        services.clean_blobs(spark, str(path), report="/no/such/file")
    with pytest.raises(InvalidArgumentError, match="has no mark"):
        services.sweep_blobs(spark, str(path), "20260101000000000_0123456789ab")
    with pytest.raises(InvalidArgumentError, match="a dry run changes nothing, and Hudi's clean deletes data files"):
        services.clean_blobs(spark, str(path), run_hudi_clean=True, dry_run=True)
    with pytest.raises(InvalidArgumentError, match="give run_hudi_clean=True with it"):
        services.clean_blobs(spark, str(path), retained_commits=3)
    with pytest.raises(InvalidArgumentError, match="retained_commits = 0 is not allowed"):
        services.clean_blobs(spark, str(path), run_hudi_clean=True, retained_commits=0)
    with pytest.raises(InvalidArgumentError, match="lie in each other"):
        services.mark_blobs(spark, str(path), managed_roots=[f"{path}/x"])
    spark.conf.set("hoodie.blob.clean.managed.roots", f"/no/such/root, {path}")
    with pytest.raises(InvalidArgumentError, match=f"managed root 'file://{path}' and the table"):
        services.clean_blobs(spark, str(path))
    spark.conf.unset("hoodie.blob.clean.managed.roots")
    spark.conf.set("hoodie.blob.clean.max.share", "half")
    with pytest.raises(InvalidOptionError, match="give a whole number of percent"):
        services.clean_blobs(spark, str(path))
    with ServiceLease(str(path), "clean"), pytest.raises(RefusedError, match="another clean of"):
        services.restore_blobs(spark, str(path))


def test_the_commands(spark, versions, clean_session, capsys, tmp_path):
    path = versions.again()
    given = ["--table", str(path), "--format", "json"]
    assert main(["clean-blobs", *given, "--verify-index"]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["action"] for line in out.splitlines()} == {"keep"}
    assert "0 files (0 bytes) moved to the trash" in err
    assert "files were read to know the references of" in err
    assert main(["clean-blobs", *given, "--run-hudi-clean", "--retain-commits", "1"]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["action"] for line in out.splitlines()} == {"keep"}
    assert "0 files (0 bytes) moved to the trash" in err
    assert re.search(r"note: Hudi's clean removed [1-9]\d* data files; the earliest commit it keeps is \d{17}", err)
    assert not (path / ".hoodie/metadata").exists()
    assert main(["clean-blobs", *given, "--run-hudi-clean", "--retain-commits", "25"]) == 0
    assert "note: Hudi's clean found nothing to remove" in capsys.readouterr().err

    assert main(["mark-blobs", *given, "--grace", "0s"]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["action"] for line in out.splitlines()} == {"keep", "unneeded"}
    mark = err.partition("found by mark ")[2].partition(",")[0]

    assert main(["sweep-blobs", *given, "--grace", "0s", "--mark", mark, "--max-share", "1"]) == 3
    assert "hoodie.blob.clean.max.share allows 1 percent" in capsys.readouterr().err
    sweep = ["sweep-blobs", *given, "--grace", "0s", "--mark", mark]
    assert main([*sweep, "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert main(sweep) == 0
    out, err = capsys.readouterr()
    assert out == dry
    assert "moved to the trash by sweep" in err

    trashed = next(row["path"] for row in map(json.loads, out.splitlines()) if row["action"] == "trash")
    assert main(["explain-blob", *given, "--path", trashed]) == 0
    out, err = capsys.readouterr()
    assert "trashed" in {json.loads(line)["action"] for line in out.splitlines()}
    assert f"{trashed} is " in err

    assert main(["list-containers", *given]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["path"] for line in out.splitlines()} == files(path)
    assert "files are live" in err

    assert main(["restore-blobs", "--table", str(path)]) == 0
    assert "restore" in capsys.readouterr().out
    assert main(["restore-blobs", "--table", str(path), "--path", "x"]) == 2
    (tmp_path / "keys").write_text("1\n\n")
    assert main(["check-erasure", *given, "--key", "0", "--keys-file", str(tmp_path / "keys")]) == 1
    out, err = capsys.readouterr()
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"base file", "container"}
    assert "files hold bytes of the 2 keys: erasure" in err
    assert main(["check-erasure", *given, "--key", "no such key"]) == 1
    assert "it is unknown whose bytes it holds" in capsys.readouterr().out
    assert main(["check-erasure", *given, "--keys-file", "/no/such"]) == 2
    assert main(["check-erasure", *given]) == 2
    assert main(["clean-blobs", "--table", "/no/such"]) == 2
    assert got(path) == {i: content(i + 4000, 100) for i in range(2)}


def test_what_is_needed_again_does_not_leave_the_trash(spark, versions):
    services, path = hv.table_services, versions.again()
    found = [file for file in path.rglob("*.parquet") if ".hoodie" not in file.parts]
    aside = {file: file.read_bytes() for file in found if not file.name.startswith(".")}
    swept = services.clean_blobs(spark, str(path), grace="0s", run_hudi_clean=True, retained_commits=1, max_share=100)
    old = min((file for file in aside if not file.exists()), key=lambda file: file.name[-22:])
    old.write_bytes(aside[old])  # a file of a writer that read an older snapshot

    dry = services.clean_blobs(spark, str(path), trash_window="0s", dry_run=True)
    real = services.clean_blobs(spark, str(path), trash_window="0s")
    assert real.rows() == dry.rows()
    needed = {file.path for file in real.dangling}
    assert 0 < len(needed) < len(swept.deleted)
    assert len(real.expired) == len(swept.deleted) - len(needed)
    assert {file.reason.partition(",")[0] for file in real.kept if "/trash/" in file.path} == {
        "its time in the trash is over"
    }
    assert any("restore_blobs brings" in note for note in real.notes)
    assert {file.path for file in services.restore_blobs(spark, str(path)).restored} == needed
    assert services.mark_blobs(spark, str(path)).dangling == []


def test_a_refused_sweep_leaves_the_trash_alone(spark, versions):
    services, path = hv.table_services, versions.again()
    hudi = {"run_hudi_clean": True, "retained_commits": 1}
    swept = services.clean_blobs(spark, str(path), grace="0s", max_share=100, max_files=1, **hudi)
    assert len(swept.deleted) == 1
    limits = {"grace": "0s", "max_share": 0, "trash_window": "0s"}
    assert services.clean_blobs(spark, str(path), dry_run=True, **limits).expired == []
    with pytest.raises(RefusedError, match="bytes in the blob area would go"):
        services.clean_blobs(spark, str(path), **limits)
    assert len(services.restore_blobs(spark, str(path)).restored) == 1


def test_the_upkeep_of_a_table(spark, little, clean_session, tmp_path, capsys):
    path, page = little.again(), tmp_path / "page.html"
    spark.conf.set("hoodie.blob.clean.grace", "0s")
    before = files(path)

    def states(*more):
        code = main(["maintain", "--table", str(path), "--format", "json", *more])
        out, err = capsys.readouterr()
        found = {row["step"]: row["state"] for row in map(json.loads, out.splitlines())}
        return code, *(found.get(step) for step in ("clean_blobs", "figures")), err

    assert states("--dry-run", "--step", "clean-blobs")[:3] == (0, "due", None)
    assert files(path) == before
    assert read_history(str(path)) == History()
    assert states("--report", str(page))[:3] == (0, "done", "done")
    assert files(path) < before
    assert "Charts begin with the second run" in page.read_text()
    assert states("--report", str(page)) == (
        0,
        "not due",
        "not due",
        f"hudi-vector: 4 not due\nhudi-vector: report: {page}\n",
    )
    assert states("--step", "clean-blobs")[:3] == (0, "nothing to do", None)

    maintain = hv.table_services.maintain
    counted = hv.blobs.inventory(None, str(path)).to_pylist()
    whole = maintain(spark, str(path), steps=["figures"], report=str(page)).figures.whole
    assert page.read_text().count("<svg") == 1, "no row dangled, and there is one column"
    sums = (sum(row[count] for row in counted) for count in ("blobs", "bytes", "dead_bytes"))
    assert (whole.blobs, whole.live, whole.dead) == tuple(sums)
    assert len(read_history(str(path)).runs) == 3, "neither dry runs nor those in which nothing was due"

    spark.conf.set("hoodie.blob.maintain.clean.interval", "0")
    with ServiceLease(str(path), "clean"):
        code, clean, figures, _ = states("--step", "figures", "--step", "clean-blobs")
    assert (code, clean, figures) == (1, "refused", "done"), "the others are run"
    with ServiceLease(str(path), "maintain"), pytest.raises(RefusedError, match="another maintain of"):
        maintain(spark, str(path))
    with pytest.raises(InvalidArgumentError, match="'compakt'; the steps are cluster, compact_blobs, clean_blobs, ind"):
        maintain(spark, str(path), steps=["compakt"])
    with pytest.raises(InvalidArgumentError, match=r"the report '/no/such/x' cannot be written"):
        maintain(spark, str(path), report="/no/such/x")
    spark.conf.set("hoodie.blob.maintain.steps", "compact_blobs, cluster")
    spark.conf.set("hoodie.blob.maintain.compact.interval", "0")
    spark.conf.set("hoodie.blob.maintain.cluster.order.by", "id")
    assert [(step.step, step.state) for step in maintain(spark, str(path), dry_run=True).steps] == [
        ("cluster", "due"),
        ("compact_blobs", "nothing to do"),
    ]
    assert [step.state for step in maintain(spark, str(path)).steps] == ["done", "nothing to do"]
    assert got(path) == expected()
    spark.conf.set("hoodie.blob.maintain.steps", "")
    with pytest.raises(InvalidArgumentError, match="no step was given; the steps are cluster, "):
        maintain(spark, str(path))
    spark.conf.unset("hoodie.blob.maintain.steps")
    spark.conf.set("hoodie.blob.maintain.figures.interval", "often")
    with pytest.raises(InvalidOptionError, match=r"maintain\.figures\.interval = 'often' is not allowed"):
        maintain(spark, str(path))


@pytest.mark.parametrize("version", ["6", pytest.param("8", marks=pytest.mark.soak)])
def test_blobs_of_a_table_that_was_upgraded_are_cleaned(spark, workspace, version):
    """Older releases know no BLOB, and Hudi 1.2 cannot add one to their NOT NULL tables; it writes their versions."""
    made = tables.fresh_path(workspace, f"upgraded_{version}")
    old = {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}
    for number in range(1, 5):
        options = old if number < 3 else KEEP_LITTLE
        write(rows(spark, [1000 * number] * 4, ts=number), made, blobs=OUT, options=options)
        properties = (made / ".hoodie/hoodie.properties").read_text()
        assert f"hoodie.table.version={version if number < 3 else 9}\n" in properties
    before = files(made)
    done = hv.table_services.clean_blobs(spark, str(made), grace="0s", max_share=100)
    assert done.doubts == ()
    gone = {file.path for file in done.deleted}
    assert gone
    assert files(made) == before - gone
    assert stored(spark, made) == expected()
    assert hv.blobs.verify(None, str(made), deep=True).to_pylist() == []
    hv.table_services.restore_blobs(spark, str(made))
    assert files(made) == before
