"""Snapshots of random histories: listed slices equal a model of them, searches equal brute force."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.opened import found_in
from support.written_table import Row, WrittenTable, brute_force, rows_of

from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.storage import FileInfo
from hudi_vector.table.slices import latest_slices
from hudi_vector.table.timeline import Instant, Timeline

BASE = "file:///tables/t"
_STEPS = ("write", "write", "write", "insert", "log", "log", "log", "compact", "replace", "clean", "crash", "late")


@dataclass
class Group:
    """One file group of the model: its versions in the order they were asked for."""

    partition: str
    file_id: str
    bases: dict[str, bool] = field(default_factory=dict)
    """Instant of each base file, and whether its action completed."""
    logs: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Instant of each log file, with its completion time, and whether its action completed."""
    replaced_by: str | None = None
    removed: set[str] = field(default_factory=set)
    """Instants whose files a clean took."""


@dataclass
class History:
    """A table of names only: what happened, in the model's own words."""

    groups: list[Group] = field(default_factory=list)
    completed: list[Instant] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)
    horizon: str = ""

    def files(self) -> list[FileInfo]:
        """Every file that lies in the table."""
        found = []
        for group in self.groups:
            folder = f"{BASE}/{group.partition}".rstrip("/")
            names = [f"{group.file_id}_0-1-2_{instant}.parquet" for instant in group.bases]
            names += [f".{group.file_id}_{instant}.log.1_0-1-2" for instant in group.logs]
            gone = {f"_{instant}." for instant in group.removed}
            found += [FileInfo(f"{folder}/{name}", 1, 1) for name in names if not any(part in name for part in gone)]
        return found

    def expected(self, at: str) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
        """(partition, file id, base instant, log instants) of every live slice as of an instant.

        Told as Hudi's users know it: a group is live unless what was asked for by then replaced it; its newest
        base file by then counts; logs of commits asked for by then count if they ended after that base was begun.
        """
        found = []
        for group in self.groups:
            if group.replaced_by is not None and group.replaced_by <= at:
                continue
            bases = [instant for instant, done in group.bases.items() if done and instant <= at]
            base = max(bases, default=None)
            logs = [
                instant
                for instant, (ended, done) in group.logs.items()
                if done and instant <= at and (base is None or ended >= base) and not self._beyond(group, ended, at)
            ]
            if base is not None or logs:
                found.append((group.partition, group.file_id, base, tuple(sorted(logs))))
        return sorted(found)

    @staticmethod
    def _beyond(group: Group, ended: str, at: str) -> bool:
        """Hudi puts a log that ended after a later base was begun into that base's slice, as of earlier too."""
        return any(at < instant <= ended for instant in group.bases)

    def timeline(self) -> Timeline:
        """The same as a timeline."""
        return Timeline(tuple(sorted(self.completed)), frozenset(self.pending))


class Builder:
    """Makes a history step by step; instants are small numbers written as Hudi writes instants."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.history = History()
        self.clock = itertools.count(20260101000000000)
        self.numbers = itertools.count()
        self.late: list[tuple[str, Group]] = []

    def tick(self) -> str:
        return str(next(self.clock))

    def live(self) -> list[Group]:
        return [group for group in self.history.groups if group.replaced_by is None]

    def new_group(self) -> Group:
        group = Group(self.draw(st.sampled_from(["", "p", "q/r"])), f"f{next(self.numbers)}-0")
        self.history.groups.append(group)
        return group

    def end(self, instant: str, action: str) -> str:
        done = self.tick()
        self.history.completed.append(Instant(instant, done, action))
        return done

    def step(self, kind: str) -> None:
        """One action on the table; an action on a group needs one."""
        getattr(self, f"_{kind}" if self.live() else "_insert")()

    def _pick(self) -> Group:
        return self.draw(st.sampled_from(self.live()))

    def _insert(self) -> None:
        instant = self.tick()
        group = self.new_group()
        if self.draw(st.booleans()):
            group.bases[instant] = True
            self.end(instant, "commit")
        else:
            group.logs[instant] = (self.end(instant, "deltacommit"), True)

    def _write(self) -> None:
        instant = self.tick()
        self._pick().bases[instant] = True
        self.end(instant, "commit")

    def _log(self) -> None:
        instant = self.tick()
        group = self._pick()
        group.logs[instant] = (self.end(instant, "deltacommit"), True)

    def _compact(self) -> None:
        """A compaction, during which another writer may log to the group; it may still be pending."""
        group, instant = self._pick(), self.tick()
        during = self.tick() if self.draw(st.booleans()) else None
        if during is not None:
            group.logs[during] = (self.end(during, "deltacommit"), True)
        if self.draw(st.integers(0, 3)):
            group.bases[instant] = True
            self.end(instant, "commit")
        else:
            self.history.pending.add(instant)

    def _replace(self) -> None:
        instant = self.tick()
        group = self._pick()
        fresh = Group(group.partition, f"f{next(self.numbers)}-0", {instant: True})
        self.history.groups.append(fresh)
        group.replaced_by = instant
        self.end(instant, "replacecommit")

    def _clean(self) -> None:
        """Takes the base files that no instant from a horizon on needs."""
        horizon = self.draw(st.sampled_from([entry.requested for entry in sorted(self.history.completed)]))
        for group in self.history.groups:
            older = sorted(instant for instant, done in group.bases.items() if done and instant <= horizon)
            group.removed |= set(older[:-1])
        self.history.horizon = max(self.history.horizon, horizon)
        self.end(self.tick(), "clean")

    def _crash(self) -> None:
        """A writer that left files behind, and no more."""
        instant = self.tick()
        if self.draw(st.booleans()):
            self._pick().bases[instant] = False
        else:
            self._pick().logs[instant] = ("", False)
        self.history.pending.add(instant)

    def _late(self) -> None:
        """Two commits on two groups; the one asked for first ends last."""
        first, second = self.tick(), self.tick()
        one = self._pick()
        self.new_group().bases[second] = True
        self.end(second, "commit")
        one.bases[first] = True
        self.end(first, "commit")


@st.composite
def histories(draw: st.DrawFn) -> History:
    builder = Builder(draw)
    for kind in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=14)):
        builder.step(kind)
    return builder.history


def listed(history: History, at: str | None) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    whole = history.timeline()
    visible = whole if at is None else whole.until_requested(at)
    replaced = frozenset(
        (group.partition, group.file_id)
        for group in history.groups
        if group.replaced_by is not None and (at is None or group.replaced_by <= at)
    )
    found = latest_slices(
        BASE, history.files(), visible, whole, replaced, lambda instant: None, logs_bear_own_instant=True, cut=at
    )
    rows = []
    for entry in found:
        base = entry.base_file.name.rpartition("_")[2].split(".")[0] if entry.base_file else None
        logs = tuple(log.name.rpartition(".log")[0].rpartition("_")[2] for log in entry.log_files)
        rows.append((entry.partition_path, entry.file_id, base, logs))
    return rows


@settings(max_examples=400)
@given(histories())
def test_the_latest_slices_are_the_models(history: History) -> None:
    assert listed(history, None) == history.expected("9" * 17)


@settings(max_examples=400)
@given(histories())
def test_the_slices_as_of_every_retained_instant_are_the_models(history: History) -> None:
    for entry in history.timeline().commits:
        if entry.requested >= history.horizon:
            assert listed(history, entry.requested) == history.expected(entry.requested)


@given(histories())
def test_the_order_of_the_listing_does_not_matter(history: History) -> None:
    files = history.files()
    whole = history.timeline()
    arguments = (whole, whole, frozenset(), lambda instant: None, True)
    assert latest_slices(BASE, files, *arguments) == latest_slices(BASE, files[::-1], *arguments)


# Whole tables: what a search finds at every instant of a random history.


@dataclass(frozen=True)
class Commit:
    """What one commit of the model did to the rows."""

    requested: str
    completed: str
    files: dict[tuple[str, str], list[Row]]
    replaced: frozenset[tuple[str, str]] = frozenset()


def rows_at(commits: list[Commit]) -> list[Row]:
    """The rows after these commits, in the order they were asked for."""
    files: dict[tuple[str, str], list[Row]] = {}
    gone: set[tuple[str, str]] = set()
    for commit in sorted(commits, key=lambda entry: entry.requested):
        files |= commit.files
        gone |= commit.replaced
    return [row for key, rows in files.items() if key not in gone for row in rows]


class TableHistory:
    """Writes a random history as a table, and keeps what every commit did."""

    def __init__(self, path: Path, draw: st.DataObject) -> None:
        self.table = WrittenTable(path, row_group_rows=draw.draw(st.sampled_from([None, 3])))
        self.draw = draw.draw
        self.commits: list[Commit] = []
        self.keys = itertools.count()
        self.names = itertools.count()
        self.horizon = ""

    def live(self) -> dict[tuple[str, str], list[Row]]:
        files: dict[tuple[str, str], list[Row]] = {}
        gone: set[tuple[str, str]] = set()
        for commit in sorted(self.commits, key=lambda entry: entry.requested):
            files |= commit.files
            gone |= commit.replaced
        return {key: rows for key, rows in files.items() if key not in gone}

    def step(self) -> None:
        kind = self.draw(st.sampled_from(["insert", "update", "delete", "cluster", "clean", "crash", "late"]))
        getattr(self, f"_{kind}" if self.live() else "_insert")()

    def _rows(self, group: str) -> list[Row]:
        count, seed = self.draw(st.integers(1, 8)), self.draw(st.integers(0, 20))
        rows = rows_of(count, group, seed, first=next(self.keys) * 10)
        # Seeds repeat, so that equal vectors lie in several files; some rows have none.
        return [
            Row(r.id, group, r.price, r.name, None if r.price is not None and r.price < 10 else r.emb) for r in rows
        ]

    def _commit(self, files: dict[tuple[str, str], list[Row]], replaced: frozenset[tuple[str, str]] = frozenset()):
        by_group = {group: [f for g, f in replaced if g == group] for group, _ in replaced}
        action = "replacecommit" if replaced else "commit"
        instant = self.table.commit(files, action=action, replaced=by_group or None)
        self.commits.append(Commit(instant, str(self.table.clock), files, replaced))

    def _insert(self) -> None:
        group = self.draw(st.sampled_from(["a", "b"]))
        self._commit({(group, f"f{next(self.names)}-0"): self._rows(group)})

    def _update(self) -> None:
        key = self.draw(st.sampled_from(sorted(self.live())))
        present = self.live()[key]
        fresh = rows_of(len(present), key[0], self.draw(st.integers(0, 20)))
        rows = [Row(old.id, key[0], new.price, new.name, new.emb) for old, new in zip(present, fresh, strict=True)]
        self._commit({key: rows})

    def _delete(self) -> None:
        key = self.draw(st.sampled_from(sorted(self.live())))
        self._commit({key: self.live()[key][1:]})

    def _cluster(self) -> None:
        group = self.draw(st.sampled_from(sorted({group for group, _ in self.live()})))
        old = {key: rows for key, rows in self.live().items() if key[0] == group}
        self._commit({(group, f"f{next(self.names)}-0"): list(itertools.chain(*old.values()))}, frozenset(old))

    def _clean(self) -> None:
        """Keeps what the newest commit needs."""
        horizon = max(commit.requested for commit in self.commits)
        for commit in self.commits:
            for group, file_id in commit.files:
                newer = any(
                    (group, file_id) in other.files or (group, file_id) in other.replaced
                    for other in self.commits
                    if commit.requested < other.requested
                )
                if newer:
                    path = self.table.path / group / f"{file_id}_0-1-2_{commit.requested}.parquet"
                    path.unlink(missing_ok=True)
        self.horizon = horizon
        self.table.complete(self.table.next_instant(), "clean", earliest=horizon)

    def _crash(self) -> None:
        instant = self.table.next_instant()
        group, file_id = self.draw(st.sampled_from(sorted(self.live())))
        self.table.write_base(group, file_id, instant, self._rows(group))
        self.table.begin(instant)

    def _late(self) -> None:
        """The commit that is asked for first ends last."""
        first, second = self.table.next_instant(), self.table.next_instant()
        made = []
        for instant in (second, first):
            key = ("b", f"f{next(self.names)}-0")
            rows = self._rows("b")
            self.table.write_base(*key, instant, rows)
            self.table.begin(instant)
            made.append(Commit(instant, self.table.complete(instant), {key: rows}))
        self.commits += made


@settings(max_examples=30)
@given(st.data())
def test_searches_equal_brute_force_at_every_instant(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = TableHistory(Path(folder) / "t", data)
        for _ in range(data.draw(st.integers(1, 8))):
            history.step()
            check(history, history.commits, None, data)  # now, after every step
        for commit in history.commits:
            until = [other for other in history.commits if other.requested <= commit.requested]
            if commit.requested >= history.horizon:
                check(history, until, commit.requested, data)
            else:
                with pytest.raises(InstantNotAvailableError, match="were cleaned away"):
                    found_in(history.table.path, [1.0] * 4, as_of=commit.requested)
        for commit in history.commits:
            visible = [other for other in history.commits if other.completed <= commit.completed]
            if max(other.requested for other in visible) >= history.horizon:
                moment = f"{commit.completed[:4]}-01-01 00:{commit.completed[10:12]}:{commit.completed[12:14]}"
                check(history, visible, moment, data)


def check(history: TableHistory, commits: list[Commit], as_of: str | None, data: st.DataObject) -> None:
    query = rows_of(1, seed=data.draw(st.integers(0, 20)))[0].emb
    k = data.draw(st.integers(1, 12))
    assert query is not None
    expected = brute_force(rows_at(commits), query, k)
    answers = []
    for threads in ("1", "2"):
        found = found_in(
            history.table.path,
            query,
            k,
            metric="l2",
            as_of=as_of,
            columns=["_hoodie_record_key", "grp", "emb"],
            options={
                "hoodie.vector.search.local.threads": threads,
                "hoodie.vector.cache.max.bytes": data.draw(st.sampled_from(["0", "1000000"])),
            },
        )
        keys = zip(found["_hoodie_record_key"].to_pylist(), found["grp"].to_pylist(), strict=True)
        assert list(keys) == [(key, group) for _, key, group in expected]
        wanted = pytest.approx([distance for distance, _, _ in expected], rel=1e-12)
        assert found["_distance"].to_pylist() == wanted
        answers.append(found["_distance"].to_numpy().tobytes())
    assert answers[0] == answers[1]
