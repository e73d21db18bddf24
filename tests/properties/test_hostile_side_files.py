"""Every kind of side file, with whatever a stranger writes into it: a sentence or a doubt, and nothing else is touched."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile import (
    BLOB_KINDS,
    DAY,
    KEYS,
    LOCAL,
    NOW,
    RAW_BODIES,
    TABLE_CHANGES,
    Lair,
    body_of,
    change_table,
    changed,
    copy_of,
    hostile_values,
    newest_of,
    places_in,
    side_tables_of,
    write_body,
)

from hudi_vector.blobs.leases import read_lease
from hudi_vector.blobs.registry import lenders, read_registry
from hudi_vector.blobs.uploads import manifest as uploads
from hudi_vector.blobs.uploads.external_files import pinned_paths
from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.index.catalog import Index
from hudi_vector.index.manifest import IndexManifest
from hudi_vector.index.recall_history import measurements_of, note_recall
from hudi_vector.storage import open_storage
from hudi_vector.storage.temp_area import TempArea
from hudi_vector.streaming.snapshots.noted import Pins
from hudi_vector.table.instants import Moment
from hudi_vector.table_services.cleaning.forget import forget_notes, forget_plans
from hudi_vector.table_services.cleaning.leftovers import remove_leftovers
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.maintenance.history import Run, add_run, read_history
from hudi_vector.table_services.maintenance.report import html_report
from hudi_vector.table_services.marking.container_index import container_index, verify_containers
from hudi_vector.table_services.marking.files import list_marks, read_mark
from hudi_vector.table_services.marking.kept_uploads import KeptUploads
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.clustering_files import begun_clusterings, idle_clusterings, publish_clustering
from hudi_vector.table_services.plans.compaction_files import begun_runs, idle_compactions, publish_run
from hudi_vector.table_services.plans.plan_files import ENDED
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.sharing import part, share
from hudi_vector.table_services.sites import Site
from hudi_vector.table_services.trash.sweep_record import unfinished_sweeps
from hudi_vector.table_services.trash.trash import expire, restore
from hudi_vector.writing.blobs.staging import staging_folder
from hudi_vector.writing.erased.deny_list import add_erased

LIMITS = SweepLimits(100)


def acts(lair: Lair, kind: str) -> Iterator[Callable[[], Any]]:
    """All that reads side files of a kind, or acts upon what they say; each by itself."""
    table, storage = lair.uri, open_storage(lair.uri, LOCAL)
    if kind == "upload":
        names = uploads.upload_ids(table)
        yield lambda: [
            (uploads.read_checksums(each), pinned_paths(each, LOCAL)) for each in uploads.list_uploads(table)
        ]
        yield from (lambda name=name: uploads.renew_lease(table, name) for name in names)
        yield from (lambda name=name: uploads.stage(table, name, []) for name in names)
        yield from (lambda name=name: uploads.finish(table, name, "20260101000000000") for name in names)
        yield from (lambda name=name: uploads.abort(table, name) for name in names)
    if kind == "lease":
        yield lambda: (read_lease(storage, table, "clean"), _held(table))
    if kind == "registered-table":
        yield lambda: (read_registry(table), lenders(table))
        yield lambda: share([table, f"file://{lair.root}/other"])
        yield lambda: [part(table, other) for other in read_registry(table)]
    if kind in ("compaction", "clustering"):
        yield lambda: (idle_compactions(table, NOW), idle_clusterings(table, NOW), forget_plans(table, now_ms=NOW))
        yield lambda: [_ended(table, run) for run in begun_runs(table)]
        yield lambda: [publish_clustering(replace(run, state=ENDED)) for run in begun_clusterings(table)]
    if kind in ("compaction", "clustering", "upload"):
        yield lambda: remove_leftovers(Site(table, LOCAL), lambda: uploads.list_uploads(table), grace_ms=0, now_ms=NOW)
    if kind == "sweep":
        yield lambda: unfinished_sweeps(storage, table)
        yield lambda: restore(table)
        yield lambda: restore(table, managed_roots=[str(lair.media)])
    if kind == "mark":
        yield lambda: [sweep(read_mark(table, name), lair.unneeded, limits=LIMITS) for name in list_marks(table)]
    if kind in ("erasure", "blob-references", "upload"):
        yield lambda: look(table, KEYS, tuple, kept=KeptReferences(table))
    if kind == "erased-keys":
        yield lambda: add_erased(table, ["another"])
    if kind == "maintenance":
        yield lambda: html_report(table, read_history(table), NOW)
        yield lambda: add_run(table, Run(NOW))
    if kind in ("blob-references", "blob-index"):
        kept = KeptReferences(table)
        yield lambda: (container_index(table, kept, LOCAL), verify_containers(table, _kept(table), LOCAL))
    if kind not in ("erasure", "erased-keys", "maintenance", "blob-index"):
        yield lambda: _cleaned(table)
    if kind == "sweep":
        yield lambda: expire(table, window_ms=0, now_ms=NOW)


def _held(table: str) -> None:
    with ServiceLease(table, "clean") as lease:
        lease.check()


def _ended(table: str, run: Any) -> None:
    """What follows a killed run: what bears its names is removed."""
    names = [run.plan.plan_id, *([run.pending.write_id] if run.pending else [])]
    for name in names:
        with suppress(FileNotFoundError):
            shutil.rmtree(staging_folder(table, name).removeprefix("file://"))
    publish_run(replace(run, state=ENDED, pending=None))


def _kept(table: str) -> KeptReferences:
    return KeptReferences(table, verify=True)


def _cleaned(table: str) -> None:
    kept, writes = KeptReferences(table), KeptUploads(table)

    def mark() -> Any:
        return find_unneeded(table, grace_ms=DAY, reader=kept, uploads=writes)

    sweep(mark(), mark, limits=LIMITS)
    found = mark()
    kept.save()
    writes.save()
    forget_notes(found, writes(table, LOCAL))


@pytest.fixture(scope="module")
def prepared() -> Iterator[Callable[[str], tuple[Lair, Path]]]:
    """A table with a side file of a kind, made once, and where copies of it go."""
    # In memory, where there is such a folder: everything here is made durable a thousand times.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        root = Path(folder).resolve()
        made: dict[str, Lair] = {}

        def of(kind: str) -> tuple[Lair, Path]:
            place, template = root / "run", root / f"template-{kind}"
            if kind not in made:
                shutil.rmtree(place, ignore_errors=True)
                made[kind] = Lair(place)
                BLOB_KINDS[kind].make(made[kind])
                shutil.copytree(place, template)
            copy_of(template, place)
            return made[kind], newest_of(place / "t" / BLOB_KINDS[kind].place, kind)

        yield of


def require_harmless(lair: Lair, kind: str, what: str) -> None:
    before = lair.precious()
    for act in acts(lair, kind):
        with suppress(HudiVectorError):
            act()
        assert lair.precious() == before, f"{kind}: {what}"


@pytest.mark.parametrize("kind", BLOB_KINDS)
def test_what_was_not_changed_is_taken_as_it_is(kind: str, prepared: Any) -> None:
    lair, path = prepared(kind)
    write_body(path, kind, body_of(path))
    before = lair.precious()
    for act in acts(lair, kind):
        try:
            act()
        except DataFileError:
            raise
        except HudiVectorError:
            pass  # such as a write that has ended
    assert lair.precious() == before


@pytest.mark.parametrize("kind", BLOB_KINDS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_stranger_changes_a_value(kind: str, data: st.DataObject, prepared: Any) -> None:
    lair, path = prepared(kind)
    body = body_of(path)
    at = data.draw(st.sampled_from(list(places_in(body))), "place")
    value = data.draw(st.sampled_from(hostile_values(lair)), "value")
    drop = data.draw(st.sampled_from([False] * 5 + [True]), "drop")
    write_body(path, kind, changed(body, at, value, drop=drop))
    require_harmless(lair, kind, f"{at} {value!r:.80}")


TABLED = ("upload", "compaction", "mark", "blob-references", "blob-index", "ended-uploads")


@pytest.mark.parametrize("kind", TABLED)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_stranger_changes_a_table(kind: str, data: st.DataObject, prepared: Any) -> None:
    lair, path = prepared(kind)
    at = data.draw(st.sampled_from(side_tables_of(body_of(path))), "table")
    value = data.draw(st.sampled_from(hostile_values(lair)), "value")
    way = data.draw(st.sampled_from([*TABLE_CHANGES, *["value"] * 6]), "way")
    change_table(path, kind, at, data.draw(st.integers(0, 7), "column"), value, way)
    require_harmless(lair, kind, f"{at} {way} {value!r:.80}")


@pytest.mark.parametrize("kind", BLOB_KINDS)
def test_a_stranger_writes_another_body(kind: str, prepared: Any) -> None:
    for body in RAW_BODIES:
        lair, path = prepared(kind)
        write_body(path, kind, body)
        require_harmless(lair, kind, f"{body[:40]!r}")


def test_a_stranger_publishes_the_last_generation(prepared: Any) -> None:
    for kind in BLOB_KINDS:
        lair, path = prepared(kind)
        path.rename(path.with_name(f"99999999-{path.name.partition('-')[2]}"))
        require_harmless(lair, kind, "the last generation")


def test_every_kind_of_side_file_is_here() -> None:
    """A kind that somebody adds is fed to a stranger too."""
    source = Path(uploads.__file__).parents[2]
    kinds = set()
    for path in source.rglob("*.py"):
        if path.name != "records.py":
            text = path.read_text("utf-8")
            found = re.findall(r'\bRecord\(\s*"([a-z-]+)", (?:1|MANIFEST_VERSION), ', text)
            assert len(found) == len(re.findall(r"\bRecord\(", text)), path
            kinds |= set(found)
    elsewhere = {"index-manifest", "index-recall", "temp", "stream-snapshot", "watch-start"}
    assert kinds == set(BLOB_KINDS) | elsewhere


def other_kinds(lair: Lair) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """The side files that are no table's: a file of each, and what reads it and acts by it."""
    root = f"file://{lair.root}"
    folder, own = f"{root}/index", lair.root / "index"
    index = Index(root, folder, IndexManifest("emb", "ivf_sq8", "l2", 4, "float", "m", {}, ()))
    note_recall(index, {"measured_ms": NOW, "recall": 0.9, "milliseconds": 1.5, "more": [1]}, LOCAL)
    pins = Pins(f"{root}/checkpoint", "file:///t", LOCAL)
    pins.of_batch(1, lambda: Moment("20260101000000000"))
    dead = TempArea(f"{root}/temp", LOCAL, "dead")

    def swept() -> None:
        lease = Path(dead.folder.removeprefix("file://"), "lease")
        for file in lease.iterdir():
            os.utime(file, (1, 1))
        TempArea(f"{root}/temp", LOCAL, "next").sweep()

    return {
        "index-recall": (newest_of(own, "index-recall"), lambda: measurements_of(index, LOCAL)),
        "stream-snapshot": (
            newest_of(lair.root / "checkpoint", "stream-snapshot"),
            lambda: pins.of_batch(1, lambda: Moment("1")),
        ),
        "temp": (newest_of(lair.root / "temp", "temp"), swept),
    }


@pytest.mark.parametrize("kind", ["index-recall", "stream-snapshot", "temp"])
def test_a_stranger_changes_a_side_file_of_no_table(kind: str, tmp_path: Path) -> None:
    lair = Lair(tmp_path.resolve())
    path, act = other_kinds(lair)[kind]
    whole, body = path.read_bytes(), body_of(path)
    act()
    mine = ("index", "checkpoint", "temp")
    before = lair.precious(*mine)
    bodies = [changed(body, at, value) for at in places_in(body) for value in hostile_values(lair)]
    bodies += [changed(body, at, None, drop=True) for at in places_in(body)]
    for other in [*bodies, *RAW_BODIES]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole)
        write_body(path, kind, other)
        with suppress(HudiVectorError):
            act()
        assert lair.precious(*mine) == before, f"{kind}: {other!r:.200}"
