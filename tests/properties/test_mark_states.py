"""Random small tables against a model in memory that only knows who refers to what."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support.blob_states import DAY, HOUR, NOW, BlobTable, blob, digits, inline, write_id
from support.soak import Soak

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.names import written_ms
from hudi_vector.blobs.registry import REGISTERED, enter
from hudi_vector.blobs.uploads import manifest
from hudi_vector.storage import StorageOptions, normalise
from hudi_vector.table_services.cleaning.forget import NOTES_KEPT_MS, forget_notes
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.container_index import container_index, verify_containers
from hudi_vector.table_services.marking.kept_uploads import KeptUploads
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.compaction_files import CompactionRun, publish_plan, publish_run
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.trash.trash import expire, restore

START = NOW - 40 * DAY
GROUPS = ("f1", "f2", "f3")

STATES = (manifest.OPEN, manifest.STAGED, manifest.COMMITTED, manifest.ABORTED, manifest.UNREADABLE, "none")


@dataclass
class Model:
    """What a table holds, beside the table: files with what they refer to, containers with who may yet commit them."""

    table: BlobTable
    grace_ms: int
    files: dict[Path, frozenset[str]] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)
    open_until: dict[str, float] = field(default_factory=dict)
    ingests: dict[str, int] = field(default_factory=dict)
    has_unreadable_file: bool = False
    has_torn_manifest: bool = False
    others: dict[str, tuple[BlobTable, bool]] = field(default_factory=dict)
    lent: dict[Path, tuple[str, frozenset[str]]] = field(default_factory=dict)

    @property
    def is_doubtful(self) -> bool:
        """Whether nobody can say what is referred to; a torn manifest may pin files below the root, where there are."""
        below_root = any(path.startswith("file:") for path in self.born)
        return self.has_unreadable_file or (self.has_torn_manifest and below_root)

    def expected(self, at_ms: int = NOW) -> set[str]:
        """The containers that nothing needs at some time."""
        if self.is_doubtful:
            return set()
        referred = frozenset().union(*self.files.values())
        referred = referred.union(*(paths for name, paths in self.lent.values() if self.others[name][1]))
        horizon = at_ms - self.grace_ms
        oldest = min(self.ingests.values(), default=at_ms + self.grace_ms) - self.grace_ms
        return {
            path
            for path, born in self.born.items()
            if path not in referred and born <= min(horizon, oldest) and self.open_until[path] <= horizon
        }

    def over(self, at_ms: int) -> set[str]:
        """The writes before some time that could not commit any more then, and of which no file is left."""
        names = {Path(path).parent.name for path in self.born}
        files: dict[str, list[str]] = {name: [path for path in self.born if name in path] for name in names}
        return {
            name
            for name, paths in files.items()
            if (self.table.path / manifest.UPLOADS / name).is_dir()
            and (written_ms(name) or 0) < at_ms
            and all(self.open_until[path] <= at_ms for path in paths)
            and not any((self.table.path / path).exists() for path in paths)
        }

    def upload(self, state: str, lease_ms: int, age_ms: int) -> None:
        """A write with two containers, whose files may be younger than it."""
        table, at = self.table, self.table.clock_ms
        name = write_id(at, len(self.born))
        if state != "none":
            name = manifest.open_upload(str(table.path), {}, lease_ms=lease_ms, now_ms=at).write_id
        paths = [table.container(name, number) for number in range(2)]
        for path in paths:
            table.touch(table.path / path, at + age_ms)
            self.born[path] = at + age_ms
            self.open_until[path] = {manifest.OPEN: at + lease_ms, manifest.STAGED: at + lease_ms}.get(state, 0)
        if state in (manifest.STAGED, manifest.COMMITTED):
            made = [WrittenContainer(path, "", "img", 1, 1, 1) for path in paths]
            manifest.stage(str(table.path), name, made, now_ms=at)
        if state == manifest.COMMITTED:
            manifest.finish(str(table.path), name, "20260101000000000")
        if state == manifest.ABORTED:
            manifest.abort(str(table.path), name)
        if state == manifest.UNREADABLE:
            for file in (table.path / manifest.UPLOADS / name).iterdir():
                file.write_bytes(b"torn")
            self.open_until |= dict.fromkeys(paths, float("inf"))
            self.has_torn_manifest = True

    @property
    def root(self) -> Path:
        """A folder beside the table that holds files of its own."""
        return self.table.path.parent / "media"

    def media(self, age_ms: int) -> None:
        """A file below the root, which may have come later than its name says."""
        file, at = self.root / f"{len(self.born) % 3}" / f"{len(self.born)}.png", self.table.clock_ms + age_ms
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"media")
        self.table.touch(file, at)
        self.born[f"file://{file}"], self.open_until[f"file://{file}"] = at, 0

    def uri(self, path: str) -> str:
        """Where a container or a file below the root lies."""
        return path if path.startswith("file:") else f"{self.table.uri}/{path}"

    def write(self, group: str, kind: str, chosen: list[int], ends: bool, action: str) -> None:
        """A commit of one file that refers to some of the containers there are."""
        table, instant = self.table, self.table.instant()
        there = sorted(self.born)
        paths = frozenset(there[number % len(there)] for number in chosen) if there else frozenset()
        blobs = {number: blob(self.uri(path), number) for number, path in enumerate(sorted(paths))}
        blobs |= {100: None, 101: inline(b"x")}
        ways = {"base": table.base, "lance": table.lance, "changes": table.changes}
        file = ways[kind](group, instant, blobs) if kind in ways else table.log(group, instant, blobs, kind)
        self.files[file] = paths
        if ends:
            table.complete(instant, action, [group] if action == "replacecommit" else ())
            return
        table.begin(instant, action)
        self.ingests[instant] = table.clock_ms

    def borrow(self, name: str, chosen: list[int]) -> None:
        """Another table, registered or not, refers to some of the containers."""
        if name not in self.others:
            other = BlobTable(self.table.path.parent / name, self.table.clock_ms)
            self.others[name] = (other, name.startswith("registered"))
            if self.others[name][1]:
                enter(self.table.uri, other.uri, REGISTERED)
        other, there, instant = self.others[name][0], sorted(self.born), self.others[name][0].instant()
        paths = frozenset(there[number % len(there)] for number in chosen) if there else frozenset()
        values = {number: blob(self.uri(path)) for number, path in enumerate(sorted(paths))}
        self.lent[other.base("f1", instant, values)] = (name, paths)
        other.complete(instant, "commit")

    def give_back(self, number: int) -> None:
        """A data file of another table goes."""
        if self.lent:
            file = sorted(self.lent)[number % len(self.lent)]
            file.unlink()
            del self.lent[file]

    def clean(self, number: int) -> None:
        """One data file goes, whatever it was."""
        if self.files:
            file = sorted(self.files)[number % len(self.files)]
            file.unlink()
            del self.files[file]

    def doubt(self) -> None:
        """A file that nobody can read."""
        self.table.file("f9_0-1-2_20260101000000000.parquet", b"PAR1")
        self.has_unreadable_file = True


def bytes_of(path: str) -> bytes:
    """What is in a container: each has bytes of its own."""
    return hashlib.sha256(path.encode()).digest() * 4


@dataclass
class Lived(Model):
    """A table at which Hudi's services and ours are at work, of which every retained file is read after each step."""

    begun: dict[Path, str] = field(default_factory=dict)
    saved: dict[str, frozenset[Path]] = field(default_factory=dict)
    trashed: set[str] = field(default_factory=set)
    runs: dict[str, CompactionRun] = field(default_factory=dict)

    def step(self, name: str, *arguments: Any) -> None:
        """Do one thing, and read back all that is retained."""
        if name == "wait":
            self.table.clock_ms += arguments[0] * DAY
        elif name == "service":
            self.table.begin(self.table.instant(), *arguments)
        else:
            getattr(self, name)(*arguments)
        for paths in self.files.values():
            for path in paths:
                assert (self.table.path / path).read_bytes() == bytes_of(path), (name, path)

    def upload(self, state: str, lease_ms: int, age_ms: int) -> None:
        known = set(self.born)
        super().upload(state, lease_ms, age_ms)
        for path in self.born.keys() - known:
            (self.table.path / path).write_bytes(bytes_of(path))
            self.table.touch(self.table.path / path, self.born[path])

    def write(self, group: str, kind: str, chosen: list[int], ends: bool, action: str) -> None:
        instant, known = digits(self.table.clock_ms + 1000), set(self.files)
        super().write(group, kind, chosen, ends, action)
        self.begun |= dict.fromkeys(self.files.keys() - known, instant)

    def clean(self, number: int) -> None:
        """Hudi's clean takes a file that no savepoint holds."""
        held = frozenset().union(*self.saved.values())
        free = sorted(self.files.keys() - held)
        if free:
            self._forget({free[number % len(free)]})

    def savepoint(self) -> None:
        """What is there of the newest completed commit and all before it is held."""
        done = [instant for instant in self.begun.values() if instant not in self.ingests]
        if done:
            newest = max(done)
            files = frozenset(file for file, instant in self.begun.items() if instant in done and instant <= newest)
            if newest not in self.saved:
                self.table.savepoint(newest, sorted(files))
                self.saved[newest] = files

    def unsave(self) -> None:
        if self.saved:
            instant = min(self.saved)
            del self.saved[instant]
            self._drop_actions(lambda name: name.startswith(instant) and name.endswith(".savepoint"))

    def roll_back(self) -> None:
        """The newest commit, completed or not, is taken back where no savepoint holds it."""
        newest = max(self.begun.values(), default=None)
        if newest is not None and newest > max(self.saved, default=""):
            self._take_back(lambda instant: instant == newest, "rollback")

    def restore(self) -> None:
        """The table becomes what it was at the newest savepoint."""
        if self.saved:
            saved = max(self.saved)
            self._take_back(lambda instant: instant > saved, "restore")

    def sweep(self) -> None:
        """The cleaner takes what the model says, and nothing else."""
        at, table = self.table.clock_ms, str(self.table.path)

        def mark() -> MarkReport:
            return find_unneeded(table, grace_ms=self.grace_ms, now_ms=at)

        compacting = {each.path for run in self.runs.values() for each in run.plan.candidates}
        wanted = self.expected(at) - compacting
        done = sweep(mark(), mark, limits=SweepLimits(100), now_ms=lambda: at)
        assert {file.path for file in done.deleted} == wanted
        assert (done.failed, bool(done.doubts)) == ([], self.is_doubtful)
        for path in wanted:
            del self.born[path]
            assert not (self.table.path / path).exists()
        self.trashed |= wanted

    def give_back(self) -> None:
        """All that is in the trash is in its place again, as new."""
        done = restore(str(self.table.path))
        assert ({file.path for file in done.restored}, done.kept) == (self.trashed, [])
        for path in self.trashed:
            self.born[path] = self.table.clock_ms
            self.table.touch(self.table.path / path)
            assert (self.table.path / path).read_bytes() == bytes_of(path)
        self.trashed = set()

    def expire(self) -> None:
        """What is in the trash goes for good."""
        done = expire(str(self.table.path), window_ms=0, now_ms=self.table.clock_ms + 1)
        assert len(done.gone) == len(self.trashed)
        self.trashed = set()

    def compact(self, chosen: list[int]) -> None:
        """A compaction of ours begins to copy containers: they stay until it ends, whoever refers to them."""
        there, table = sorted(self.born), normalise(str(self.table.path))
        paths = sorted({there[number % len(there)] for number in chosen}) if there else []
        if paths:
            planned = tuple(PlannedContainer(path, "", "img", 100, 50, "repack", "half is dead", 0) for path in paths)
            plan = CompactionPlan(write_id(self.table.clock_ms, len(self.runs)), table, 0, ("img",), planned, 100, 100)
            run = publish_run(replace(publish_plan(plan), state=RUNNING))
            self.runs[plan.plan_id] = run

    def compacted(self) -> None:
        """The oldest compaction ends: rows refer to new containers."""
        if self.runs:
            run = self.runs.pop(min(self.runs))
            publish_run(replace(run, state=ENDED))
            known = set(self.born)
            self.upload(manifest.COMMITTED, HOUR, 0)
            new = [sorted(self.born).index(path) for path in self.born.keys() - known]
            self.write(GROUPS[0], "base", new, True, "commit")

    def _take_back(self, gone: Callable[[str], bool], how: str) -> None:
        self._forget({file for file, instant in self.begun.items() if gone(instant)})
        self.ingests = {instant: at for instant, at in self.ingests.items() if not gone(instant)}
        self._drop_actions(lambda name: gone(re.split(r"[_.]", name)[0]))
        instant = self.table.instant()
        self.table.begin(instant, how)
        self.table.complete(instant, how)

    def _forget(self, files: set[Path]) -> None:
        for file in files:
            file.unlink()
            del self.files[file], self.begun[file]

    def _drop_actions(self, gone: Callable[[str], bool]) -> None:
        for file in self.table.timeline.iterdir():
            if gone(file.name):
                file.unlink()


uploads = st.tuples(
    st.just("upload"),
    st.sampled_from(STATES),
    st.sampled_from([HOUR, 10 * DAY, 60 * DAY]),
    st.sampled_from([0, 0, HOUR, 20 * DAY]),
)
writes = st.tuples(
    st.just("write"),
    st.sampled_from(GROUPS),
    st.sampled_from(["base", "base", "avro", "parquet", "lance", "changes"]),
    st.lists(st.integers(0, 20), max_size=3),
    st.sampled_from([True] * 6 + [False]),
    st.sampled_from(["commit", "deltacommit", "replacecommit"]),
)
cleans = st.tuples(st.just("clean"), st.integers(0, 20))
waits = st.tuples(st.just("wait"), st.integers(1, 9))
services = st.tuples(st.just("service"), st.sampled_from(["clustering", "compaction", "clean", "rollback"]))
ordinary = st.one_of(uploads, uploads, writes, writes, writes, cleans, waits, services)
borrows = st.tuples(
    st.just("borrow"),
    st.sampled_from(["registered", "registered too", "strange"]),
    st.lists(st.integers(0, 20), max_size=3),
)
media = st.tuples(st.just("media"), st.sampled_from([0, 0, HOUR, 20 * DAY]))
rooted = st.one_of(media, media, media, uploads, writes, writes, writes, cleans, waits, services, borrows)
shared = st.one_of(
    uploads, uploads, writes, cleans, waits, borrows, borrows, st.tuples(st.just("give_back"), st.integers(0, 9))
)


compactions = st.tuples(st.just("compact"), st.lists(st.integers(0, 20), min_size=1, max_size=3))
turns = st.sampled_from(["savepoint", "unsave", "roll_back", "restore", "sweep", "give_back", "expire", "compacted"])
alone = st.one_of(uploads, writes, compactions, cleans, waits, services, turns.map(lambda name: (name,)))
SAVE, SWEEP, MONTH = ("savepoint",), ("sweep",), ("wait", 30)
COMMIT = ("upload", manifest.COMMITTED, HOUR, 0)
# What belongs together comes together more often than by chance, with anything between.
EPISODES = [
    [COMMIT, ("write", "f1", "base", [0, 1], True, "commit")],
    [COMMIT, ("write", "f2", "avro", [0, 3], True, "deltacommit"), SAVE],
    [SAVE, COMMIT, ("write", "f2", "base", [20, 0], True, "commit"), ("restore",), MONTH, SWEEP],
    [COMMIT, ("write", "f3", "parquet", [19, 20], False, "deltacommit"), ("roll_back",), MONTH, SWEEP],
    [SAVE, ("clean", 0), ("clean", 1), ("clean", 0), ("unsave",), ("clean", 0), MONTH, SWEEP],
    [COMMIT, MONTH, SWEEP, ("give_back",), ("write", "f1", "lance", [0, 5], True, "replacecommit")],
    [COMMIT, MONTH, SWEEP, ("expire",)],
    [("compact", [0, 1, 2]), ("clean", 0), MONTH, SWEEP, ("compacted",), MONTH, SWEEP],
]
lived = st.lists(st.one_of(st.sampled_from(EPISODES), st.lists(alone, max_size=2)), min_size=3, max_size=8).map(
    lambda parts: [step for part in parts for step in part]
)


def played(model: Model, history: list[tuple]) -> None:
    for step, *arguments in history:
        if step == "wait":
            model.table.clock_ms = min(model.table.clock_ms + arguments[0] * DAY, NOW)
        elif step == "service":
            model.table.begin(model.table.instant(), *arguments)
        else:
            getattr(model, step)(*arguments)


def agrees(history: list[tuple], grace: int, *, rooted: bool = False) -> None:
    """A mark of the table, and of the root where it is listed, finds what the model says."""
    with tempfile.TemporaryDirectory() as folder:
        model = Model(BlobTable(Path(folder).resolve() / "t", START), grace)
        played(model, history)
        roots = [str(model.root)] if rooted else []
        report = find_unneeded(str(model.table.path), grace_ms=grace, now_ms=NOW, managed_roots=roots)
        found = {file.path for file in report.candidates}
        assert found == model.expected()
        assert bool(report.doubts) == model.is_doubtful
        kept = {file.path for file in report.kept}
        assert found | kept == set(model.born)
        assert not found & kept


graces = st.sampled_from([0, DAY, 15 * DAY])


@settings(max_examples=150)
@given(history=st.lists(ordinary, max_size=14), grace=graces)
def test_a_mark_knows_what_the_model_knows(history: list[tuple], grace: int) -> None:
    agrees(history, grace)


@settings(max_examples=60)
@given(history=st.lists(shared, max_size=14), grace=graces)
def test_registered_tables_keep_what_they_refer_to(history: list[tuple], grace: int) -> None:
    agrees(history, grace)


@settings(max_examples=60)
@given(history=st.lists(rooted, max_size=14), grace=graces)
def test_files_below_a_root_are_judged_as_those_of_the_blob_area(history: list[tuple], grace: int) -> None:
    agrees(history, grace, rooted=True)


@settings(max_examples=20)
@given(history=st.lists(ordinary, max_size=14), grace=graces, last=st.lists(ordinary, max_size=3))
def test_a_doubt_keeps_everything(history: list[tuple], grace: int, last: list[tuple]) -> None:
    agrees([*history, ("doubt",), *last], grace)


def lives(history: list[tuple], grace: int) -> None:
    """A life whose end is swept."""
    with tempfile.TemporaryDirectory() as folder:
        life = Lived(BlobTable(Path(folder).resolve() / "t", START), grace)
        for step in [*history, ("wait", 30), ("sweep",)]:
            life.step(*step)


@settings(max_examples=60)
@given(history=lived, grace=graces)
def test_whatever_hudi_and_the_services_do_all_that_is_retained_reads_back(history: list[tuple], grace: int) -> None:
    lives(history, grace)


@pytest.mark.soak
def test_long_lives_without_spark(soak: Soak) -> None:
    @settings(max_examples=300, print_blob=True)
    @given(
        history=st.lists(lived, max_size=4).map(lambda parts: [step for part in parts for step in part]), grace=graces
    )
    def long_life(history: list[tuple], grace: int) -> None:
        lives(history, grace)

    for number in soak.seeds(10):
        seed(number)(long_life)()


@pytest.mark.soak
def test_long_histories(soak: Soak) -> None:
    @settings(max_examples=300, print_blob=True)
    @given(history=st.lists(st.one_of(ordinary, rooted), max_size=40), grace=graces)
    def long_history(history: list[tuple], grace: int) -> None:
        agrees(history, grace, rooted=True)

    for number in soak.seeds(10):
        seed(number)(long_history)()


@settings(max_examples=30)
@given(history=st.lists(ordinary, max_size=14), more=st.lists(ordinary, max_size=14))
def test_what_was_kept_changes_no_verdict(history: list[tuple], more: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(BlobTable(Path(folder).resolve() / "t", START), DAY)
        path = str(model.table.path)
        known: set[Path] = set()
        for part in (history, [], more, []):
            played(model, part)
            kept, uploads = KeptReferences(path), KeptUploads(path)
            plain = find_unneeded(path, grace_ms=DAY, now_ms=NOW)
            quick, whole = (
                find_unneeded(path, grace_ms=DAY, now_ms=NOW, reader=reader, uploads=uploads)
                for reader in (kept, kept.whole)
            )
            uploads.save()
            assert (plain.candidates, plain.kept, plain.doubts) == (quick.candidates, quick.kept, quick.doubts)
            assert (plain.candidates, plain.kept, plain.doubts) == (whole.candidates, whole.kept, whole.doubts)
            assert {file.path for file in quick.candidates} == model.expected()
            assert plain.opened_files == len(model.files)
            assert quick.opened_files == len(model.files.keys() - known) == kept.save()
            known = set(model.files)
            indexed(model, kept, plain)


@settings(max_examples=60)
@given(history=st.lists(shared, max_size=14), grace=graces, days=st.sampled_from([0, 10, 31]))
def test_what_is_forgotten_changes_no_verdict(history: list[tuple], grace: int, days: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(BlobTable(Path(folder).resolve() / "t", START), grace)
        played(model, history)
        path, later = str(model.table.path), NOW + days * DAY
        for file in find_unneeded(path, grace_ms=grace, now_ms=NOW).candidates:
            (model.table.path / file.path).unlink()
        before = find_unneeded(path, grace_ms=grace, now_ms=later)
        over = {f"{manifest.UPLOADS}/{name}" for name in model.over(later - NOTES_KEPT_MS)}
        assert set(forget_notes(before, manifest.list_uploads(path))) == over
        after = find_unneeded(path, grace_ms=grace, now_ms=later)
        assert (after.candidates, after.kept, after.doubts) == (before.candidates, before.kept, before.doubts)


def indexed(model: Model, kept: KeptReferences, report: MarkReport) -> None:
    """The index of containers counts what the model counts, and agrees with the verdicts; again it is only loaded."""
    table = model.table.uri
    expected = {}
    for path in model.born:
        by = [file for file, paths in model.files.items() if path in paths]
        offsets = {sorted(model.files[file]).index(path) for file in by}
        live = {byte for offset in offsets for byte in range(offset, offset + 5)}
        expected[f"{table}/{path}"] = (100, len(live), len(offsets), len(by))
    opened = kept.opened
    for _ in range(2):
        rows = container_index(table, kept, StorageOptions()).containers.to_pylist()
        assert {
            row["uri"]: (row["bytes"], row["live_bytes"], row["references"], row["files"]) for row in rows
        } == expected
        assert all(row["newest"] and row["instant"] in row["newest"] for row in rows if row["files"])
        kept_by_reference = {f"{table}/{file.path}" for file in report.kept if file.reason.endswith("refers to it")}
        assert {row["uri"] for row in rows if row["files"]} == kept_by_reference
    assert kept.opened == opened
    assert verify_containers(table, kept, StorageOptions()) == []
