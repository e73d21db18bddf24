"""The cleaner on a real table: what Hudi's clean made unneeded goes, everything readable stays, and it comes back."""

from __future__ import annotations

import json
import re

import pytest
from support import tables
from support.blobs import content, rows, stored, write

import hudi_vector as hv
from hudi_vector.cli import main
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError, RefusedError
from hudi_vector.table_services.service_lease import ServiceLease

OUT = {"img": {"inline.threshold": "0"}}
KEEP_LITTLE = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


@pytest.fixture(scope="module")
def path(spark, workspace):
    """Four versions of the same rows, of which Hudi's clean has kept two."""
    made = tables.fresh_path(workspace, "clean")
    for version in range(1, 5):
        write(rows(spark, [1000 * version] * 4, ts=version), made, blobs=OUT, options=KEEP_LITTLE)
    return made


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
    assert 0 < len(dry.candidates) < len(before)
    assert [json.loads(line) for line in (tmp_path / "dry.json").read_text().splitlines()] == dry.rows()
    assert files(path) == before

    real = services.clean_blobs(spark, str(path), grace="0s")
    gone = {file.path for file in real.deleted}
    assert real.rows() == dry.rows()
    assert (real.candidates, real.bytes, real.failed) == (dry.candidates, dry.bytes, [])
    assert files(path) == before - gone
    assert {file.path for file in real.kept} == before - gone
    assert stored(spark, path) == expected()
    assert hv.blobs.verify(spark, str(path)).collect() == []

    back = services.restore_blobs(spark, str(path), sweep=real.sweep_id)
    assert ({file.path for file in back.restored}, back.bytes) == (gone, real.bytes)
    assert files(path) == before

    marked = services.mark_blobs(spark, str(path), grace="0s")
    assert {file.path for file in marked.candidates} == gone
    swept = services.sweep_blobs(spark, str(path), marked.mark_id, grace="0s", trash=False)
    assert {file.path for file in swept.deleted} == gone
    again = services.sweep_blobs(spark, str(path), marked.mark_id, grace="0s", trash=False)
    assert (again.bytes, {file.reason for file in again.deleted}) == (0, {"gone already"})
    assert services.clean_blobs(spark, str(path), grace="0s").candidates == []
    assert stored(spark, path) == expected()


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


def test_the_commands(spark, workspace, clean_session, capsys, tmp_path):
    path = tables.fresh_path(workspace, "commands")
    for version in range(1, 4):
        write(rows(spark, [100] * 2, ts=version), path, blobs=OUT, options={"hoodie.clean.automatic": "false"})
    given = ["--table", str(path), "--format", "json"]
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

    assert main(["sweep-blobs", *given, "--grace", "0s", "--mark", mark, "--max-share", "1"]) == 1
    assert "hoodie.blob.clean.max.share allows 1 percent" in capsys.readouterr().err
    sweep = ["sweep-blobs", *given, "--grace", "0s", "--mark", mark]
    assert main([*sweep, "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert main(sweep) == 0
    out, err = capsys.readouterr()
    assert out == dry
    assert "moved to the trash by sweep" in err

    assert main(["restore-blobs", "--table", str(path)]) == 0
    assert "restore" in capsys.readouterr().out
    assert main(["restore-blobs", "--table", str(path), "--path", "x"]) == 2
    (tmp_path / "keys").write_text("1\n\n")
    assert main(["check-erasure", *given, "--key", "0", "--keys-file", str(tmp_path / "keys")]) == 1
    out, err = capsys.readouterr()
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"base file", "container"}
    assert "files hold bytes of the 2 keys: erasure" in err
    assert main(["check-erasure", *given, "--key", "no such key"]) == 1
    assert "nobody can say whose bytes it holds" in capsys.readouterr().out
    assert main(["check-erasure", *given, "--keys-file", "/no/such"]) == 2
    assert main(["check-erasure", *given]) == 2
    assert main(["clean-blobs", "--table", "/no/such"]) == 2
    assert stored(spark, path) == {i: content(i + 3000, 100) for i in range(2)}
