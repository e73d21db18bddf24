"""Random histories of marks, sweeps, restores and expiry, killed anywhere, beside a model of where each file is."""

from __future__ import annotations

import tempfile
import uuid
from typing import ClassVar

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from support.soak import Soak
from support.swept import OLD_MS, Area, dying

from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.result import CleanResult
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.trash.sweep_record import unfinished_sweeps
from hudi_vector.table_services.trash.trash import expire, restore

WINDOW_MS = 50 * LEASE_MS
STEPS = st.integers(1, 10)


class Sweeping(RuleBasedStateMachine):
    """The model knows the bytes of every file that was put and not yet expired, and what the newest marks said."""

    scheme: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = self.swept_at = OLD_MS
        self.contents: dict[str, bytes] = {}
        self.due: dict[str, int] = {}  # a file expires after this time
        self.marks: list[MarkReport] = []
        self.outside: set[str] = set()
        self.killed = False

    @initialize()
    def begin(self) -> None:
        self.area = Area(f"file://{self.folder.name}/t" if self.scheme == "file" else f"memory:///{uuid.uuid4().hex}")

    def teardown(self) -> None:
        if hasattr(self, "area"):
            self.end()
            for info in self.area.storage.list_files(self.area.table, recursive=True):
                self.area.storage.delete(info.uri)
        self.folder.cleanup()

    def end(self) -> None:
        """Everything that is unneeded for long enough is gone in the end, and nothing else."""
        self.now += 10 * LEASE_MS
        self.swept(self.area.mark(), len(self.contents) + 1)
        assert unfinished_sweeps(self.area.storage, self.area.table) == []
        self.now += WINDOW_MS + LEASE_MS
        expire(self.area.table, window_ms=WINDOW_MS, now_ms=self.now)
        assert set(self.area.in_place()) == self.area.needed
        assert self.area.trashed() == 0

    @rule(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=3))
    def put(self, sizes: list[int]) -> None:
        for size in sizes:
            content = bytes([65 + size]) * size
            self.contents[self.area.put(len(self.contents) + len(self.outside), content)] = content

    @rule(chosen=st.lists(st.integers(0, 11), min_size=1, max_size=3), needed=st.booleans())
    def commit(self, chosen: list[int], needed: bool) -> None:
        """A commit refers to files that are in their place, or no longer does."""
        # By numbers: objects have the time of the clock, so that what is there may differ when a history repeats.
        there = sorted(self.contents)
        for path in {there[number % len(there)] for number in chosen} if there else ():
            if needed and path in self.area.in_place():
                self.area.needed.add(path)
            else:
                self.area.needed.discard(path)

    @rule(old=st.integers(0, 3), files=st.integers(1, 4), trash=st.booleans())
    def sweep(self, old: int, files: int, trash: bool) -> None:
        report = self.marked(old)
        going = self.going(report)
        before = self.area.in_place()
        result = self.swept(report, files, trash=trash)
        taken = {file.path for file in result.deleted if file.path in before}
        assert taken <= going
        assert len(taken) == min(files, len(going))
        assert set(self.area.in_place()) == set(before) - taken
        assert {file.path for file in result.deleted} - taken == {
            file.path for file in report.candidates if file.path not in before
        }
        assert result.bytes == sum(len(before[path]) for path in taken)
        assert not result.failed
        if not trash:
            self.forget(taken - set(self.area.in_trash()))

    @rule(old=st.integers(0, 3), files=st.integers(1, 4), step=STEPS, after=st.booleans())
    def killed_sweep(self, old: int, files: int, step: int, after: bool) -> None:
        report = self.marked(old)
        going, before = self.going(report), set(self.area.in_place())
        with dying(step, after):
            self.swept(report, files)
        assert before - set(self.area.in_place()) <= going
        self.is_killed()

    @rule()
    def restore(self) -> None:
        wanted = set(self.area.in_trash())
        result = restore(self.area.table)
        assert {file.path for file in result.restored} == wanted
        assert result.kept == []
        assert wanted <= set(self.area.in_place())
        # A copy that a killed sweep made stays until the record of that sweep is ended.
        assert not self.area.trashed() or unfinished_sweeps(self.area.storage, self.area.table)

    @rule(step=STEPS, after=st.booleans())
    def killed_restore(self, step: int, after: bool) -> None:
        with dying(step, after):
            restore(self.area.table)
        self.is_killed()

    @rule(leases=st.integers(1, 70), dry_run=st.booleans())
    def expire(self, leases: int, dry_run: bool) -> None:
        self.now += leases * LEASE_MS
        before = set(self.area.in_trash())
        expire(self.area.table, window_ms=WINDOW_MS, now_ms=self.now, dry_run=dry_run)
        gone = before - set(self.area.in_trash())
        assert not (dry_run and gone)
        assert all(self.due[path] < self.now for path in gone)
        self.forget(gone - set(self.area.in_place()))

    @rule(leases=st.integers(1, 70), step=STEPS, after=st.booleans())
    def killed_expire(self, leases: int, step: int, after: bool) -> None:
        self.now += leases * LEASE_MS
        before = set(self.area.in_trash())
        with dying(step, after):
            expire(self.area.table, window_ms=WINDOW_MS, now_ms=self.now)
        gone = before - set(self.area.in_trash())
        assert all(self.due[path] < self.now for path in gone)
        self.forget(gone - set(self.area.in_place()))

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "area"):
            return
        place, trash = self.area.in_place(), self.area.in_trash()
        assert {**trash, **place} == self.contents
        assert all(place[path] == trash[path] for path in place.keys() & trash.keys())
        assert self.area.needed <= place.keys()
        if self.scheme == "file":
            assert not place.keys() & trash.keys(), "a local file is in exactly one place"
            assert self.area.trashed() == len(trash)
        for path in trash:
            self.due.setdefault(path, self.swept_at + WINDOW_MS)
        for path in self.due.keys() - trash.keys():
            del self.due[path]

    def swept(self, report: MarkReport, files: int, trash: bool = True) -> CleanResult:
        self.now = self.swept_at = self.now + LEASE_MS
        limits = SweepLimits(100, files)
        return sweep(report, self.area.mark, limits=limits, trash=trash, now_ms=lambda: self.now)

    def marked(self, old: int) -> MarkReport:
        """A mark of now, or one of the last that were made."""
        self.marks.append(self.area.mark())
        return self.marks[max(0, len(self.marks) - 1 - old)]

    def going(self, report: MarkReport) -> set[str]:
        """What the report and the present agree on."""
        present = {file.path: file for file in self.area.mark().candidates}
        return {file.path for file in report.candidates if present.get(file.path) == file}

    def forget(self, gone: set[str]) -> None:
        for path in gone:
            del self.contents[path]
            self.area.needed.discard(path)
            self.outside.add(path)

    def is_killed(self) -> None:
        self.now += LEASE_MS + 1


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_no_history_loses_a_file(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    machine = type("Sweeping", (Sweeping,), {"scheme": scheme})
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=30, deadline=None))


@pytest.mark.soak
def test_no_long_history_loses_a_file(soak: Soak, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a local disk: objects have the time of the clock, so that histories among them do not repeat."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    longer = settings(max_examples=50, stateful_step_count=100, deadline=None, print_blob=True)
    for number in soak.seeds(10):
        machine = seed(number)(type("Sweeping", (Sweeping,), {"scheme": "file"}))
        run_state_machine_as_test(machine, settings=longer)
