"""What killed processes leave goes once nothing can need it, and never before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.blob_states import DAY, HOUR, NOW, OLD, BlobTable, blob, digits, write_id
from support.swept import WRITE

from hudi_vector.blobs.names import STAGING
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads import manifest
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.cleaning.leftovers import find_leftovers, remove_leftovers
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.clustering import ClusteringPlan
from hudi_vector.table_services.plans.clustering_files import ClusteringRun, publish_clustering
from hudi_vector.table_services.plans.compaction import CompactionPlan
from hudi_vector.table_services.plans.compaction_files import PendingCommit, publish_plan, publish_run
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.sites import Site

LOCAL = StorageOptions()
HIDDEN = f".00000000-{'a' * 32}.{'0' * 32}.tmp"


def staged(table: BlobTable, name: str) -> str:
    """A folder of staged rows as Spark leaves it, killed half way."""
    for file in ("part-0.parquet", ".part-0.parquet.crc", "_temporary/0/_temporary/attempt_1/part-1.parquet"):
        table.file(f"{STAGING}/{name}/{file}", b"rows in plain")
    return f"{STAGING}/{name}"


def removed(table: BlobTable, now_ms: int = NOW, grace_ms: int = DAY, *, dry_run: bool = False) -> set[str]:
    gone, stayed = remove_leftovers(
        Site(table.uri, LOCAL),
        lambda: manifest.list_uploads(table.uri),
        grace_ms=grace_ms,
        now_ms=now_ms,
        dry_run=dry_run,
    )
    assert stayed == []
    return {file.path for file in gone}


def kept(table: BlobTable) -> dict[str, str | None]:
    found = find_leftovers(Site(table.uri, LOCAL), lambda: manifest.list_uploads(table.uri), grace_ms=DAY, now_ms=NOW)
    return {each.path: each.kept for each in found}


@pytest.mark.parametrize(
    ("state", "stays_ms"),
    [
        (manifest.OPEN, HOUR + DAY),
        (manifest.STAGED, HOUR + DAY),
        (manifest.PREPARED, manifest.PREPARED_MS + DAY),
        (manifest.COMMITTED, DAY),
        (manifest.ABORTED, DAY),
        ("none", DAY),
    ],
)
def test_staged_rows_go_when_their_write_can_no_longer_commit(state: str, stays_ms: int, table: BlobTable) -> None:
    name = write_id(OLD, 1)
    if state != "none":
        prepared = state == manifest.PREPARED
        name = manifest.open_upload(table.uri, {}, lease_ms=HOUR, prepared=prepared, now_ms=OLD).write_id
    if state == manifest.STAGED:
        manifest.stage(table.uri, name, [], now_ms=OLD)
    if state == manifest.COMMITTED:
        manifest.finish(table.uri, name, "20260101000000000")
    if state == manifest.ABORTED:
        manifest.abort(table.uri, name)
    folder = staged(table, name)
    assert removed(table, OLD + stays_ms - 1) == set()
    assert (table.path / folder / "part-0.parquet").exists()
    assert removed(table, OLD + stays_ms, dry_run=True) == {folder}
    assert (table.path / folder / "part-0.parquet").exists()
    assert removed(table, OLD + stays_ms) == {folder}
    assert not (table.path / folder).exists(), "with its folders"
    assert removed(table, OLD + stays_ms) == set()


def test_a_young_file_keeps_staged_rows(table: BlobTable) -> None:
    folder = staged(table, write_id(OLD, 1))
    table.touch(table.path / folder / "part-0.parquet", NOW - HOUR)
    assert removed(table) == set()
    table.touch(table.path / folder / "part-0.parquet", 0)
    assert removed(table) == set(), "its storage tells no time"
    staged(table, "of somebody else")
    table.touch(table.path / folder / "part-0.parquet", OLD)
    assert removed(table) == {folder}
    assert (table.path / STAGING / "of somebody else" / "part-0.parquet").exists()


def test_a_damaged_manifest_keeps_what_its_write_staged(table: BlobTable) -> None:
    name = manifest.open_upload(table.uri, {}, lease_ms=HOUR, now_ms=OLD).write_id
    folder = staged(table, name)
    for file in (table.path / manifest.UPLOADS / name).iterdir():
        file.write_bytes(b"torn")
    assert removed(table) == set()
    assert "may commit" in str(kept(table)[folder])


def test_a_pending_ingest_keeps_what_it_may_read(table: BlobTable) -> None:
    folder = staged(table, write_id(OLD, 1))
    instant = digits(OLD)
    table.begin(instant)
    assert removed(table) == set()
    assert "has not completed and may read it" in str(kept(table)[folder])
    table.complete(instant)
    assert removed(table) == {folder}


def test_a_compaction_and_a_clustering_that_were_killed_keep_what_they_noted(table: BlobTable) -> None:
    plan, write, order = (staged(table, write_id(OLD, number)) for number in range(3))
    run = publish_plan(CompactionPlan(Path(plan).name, table.uri, OLD, ("img",), (), 1, 1))
    run = publish_run(
        replace(run, state=RUNNING, pending=PendingCommit(Path(write).name, "token", ())),
    )
    planned = CompactionPlan(write_id(OLD, 4), table.uri, OLD, ("img",), (), 1, 1)
    clustering = ClusteringRun(
        ClusteringPlan(Path(order).name, table.uri, OLD, (), (), (), (), BlobSettings(), 0, 0, planned, "{}"), RUNNING
    )
    clustering = publish_clustering(clustering)
    assert removed(table) == set()
    publish_run(replace(run, state=ENDED, pending=None))
    assert removed(table) == {plan, write}
    publish_clustering(ClusteringRun(clustering.plan, ENDED, (), clustering.generation))
    assert removed(table) == {order}


def test_a_clustering_that_has_noted_nothing_yet_keeps_what_no_write_staged(table: BlobTable) -> None:
    folder = staged(table, write_id(OLD, 1))
    with ServiceLease(table.uri, "compact"):
        assert removed(table) == set()
        assert "compacts or clusters the table" in str(kept(table)[folder])
    assert removed(table) == {folder}


@pytest.mark.parametrize("linked", [STAGING, f"{STAGING}/{WRITE}", f"{STAGING}/{WRITE}/part-0.parquet"])
def test_no_link_is_followed(linked: str, table: BlobTable, tmp_path: Path) -> None:
    real = BlobTable(tmp_path.resolve() / "real", OLD)
    staged(real, WRITE)
    (table.path / linked).parent.mkdir(parents=True, exist_ok=True)
    (table.path / linked).symlink_to(real.path / linked)
    assert removed(table) == set()
    assert (table.path / linked).is_symlink()
    assert (real.path / STAGING / WRITE / "part-0.parquet").read_bytes() == b"rows in plain"


def test_half_published_files_go_after_the_grace(table: BlobTable) -> None:
    folders = (
        ".hoodie/blob_service/v1/uploads/x",
        ".hoodie/blob_service/v1/marks/x",
        ".hoodie/blob_refs/v1/references",
        ".hoodie/vector_index/v1/emb/l2-ivf_flat/segments",
    )
    hidden = {table.file(f"{folder}/{HIDDEN}", b"half") for folder in folders}
    others = [table.file(f"{folders[0]}/{name}", b"x") for name in (".mine.tmp", f"00000000-{'a' * 32}", ".x")]
    others.append(table.file(f"partition/{HIDDEN}", b"x"))
    young = table.file(f"{folders[1]}/.{'y' * 9}.{'0' * 32}.tmp", b"half")
    table.touch(table.path / young, NOW - DAY + 1)
    assert removed(table) == hidden
    assert all((table.path / other).exists() for other in [*others, young])


def test_what_a_killed_lance_container_leaves_goes_with_its_write(table: BlobTable) -> None:
    """A process under SIGKILL, between a batch and the end of its container."""
    upload = manifest.open_upload(table.uri, {}, lease_ms=HOUR, now_ms=OLD)
    code = (
        "import sys, time, numpy as np, pyarrow as pa\n"
        "from hudi_vector.blobs.containers.byte_values import ByteValues\n"
        "from hudi_vector.blobs.containers.lance import LanceContainer\n"
        "from hudi_vector.blobs.names import ContainerName\n"
        "from hudi_vector.storage import StorageOptions\n"
        "uri = ContainerName('', 'img', sys.argv[2], 0, 0, 0, 'lance').uri(sys.argv[1])\n"
        "container = LanceContainer(uri, StorageOptions())\n"
        "container.append(ByteValues.of(pa.array([b'x' * 9_000_000], pa.large_binary()), np.arange(1)))\n"
        "print('written', flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, table.uri, upload.write_id], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = table.path / ".hoodie/blobs/img" / upload.write_id
    left = sorted(str(file.relative_to(table.path)) for file in folder.iterdir())
    assert [Path(path).name[:4] for path in left] == [".tmp", upload.write_id[:4]]
    for path in left:
        os.utime(table.path / path, ns=(OLD * 1_000_000,) * 2)

    def mark(now_ms: int = NOW):  # type: ignore[no-untyped-def]
        return find_unneeded(table.uri, grace_ms=DAY, now_ms=now_ms)

    assert mark(OLD + HOUR + DAY - 1).candidates == (), "it may commit"
    instant = table.instant()
    referring = table.base("f1", instant, {1: blob(f"{table.uri}/{left[0]}")})
    table.complete(instant)
    assert [file.path for file in mark().candidates] == left[1:], "whatever is referred to stays"
    referring.unlink()
    result = sweep(mark(), mark, limits=SweepLimits(100))
    assert {file.path for file in result.deleted} == set(left)
    assert not [file for file in folder.parent.rglob("*") if file.is_file()]
