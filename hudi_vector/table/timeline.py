"""A Hudi timeline, read from the names of its files.

Layout 2 (table versions 8 and 9) keeps ``<requested>_<completed>.<action>`` in ``.hoodie/timeline``; layout 1 (versions
up to 6) keeps ``<requested>.<action>`` in ``.hoodie`` itself. In both, ``.requested`` and ``.inflight`` mark earlier
states; in layout 2 these files remain after completion.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hudi_vector.table.instants import Moment, Seen

__all__ = ["Instant", "Timeline", "parse_layout_1", "parse_layout_2"]

_NAME = re.compile(r"(\d{17}|\d{14})(?:_(\d{17}|\d{14}))?\.([a-z]+)(?:\.([a-z]+))?")

_COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
# A completed compaction becomes a commit, a completed clustering a replacecommit.
_STATES = frozenset({"requested", "inflight"})


@dataclass(frozen=True, order=True)
class Instant:
    """A completed action on the timeline, with the times when it was requested and completed."""

    requested: str
    completed: str
    action: str

    @property
    def name(self) -> str:
        """Return the name of the completed action's file in layout 2."""
        return f"{self.requested}_{self.completed}.{self.action}"

    @property
    def wrote_data(self) -> bool:
        """Return True if this action may have added or replaced data files."""
        return self.action in _COMMITS


@dataclass(frozen=True)
class Timeline:
    """The completed and the pending actions of a table, from one listing."""

    completed: tuple[Instant, ...]
    pending: frozenset[str] = frozenset()
    pending_cleans: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """Return a hash of the set of completed instants: equal timelines have equal snapshots.

        The last instant would not identify a snapshot, since an action may complete after one that was requested later.
        """
        names = "\n".join(sorted(instant.name for instant in self.completed))
        return hashlib.sha256(names.encode()).hexdigest()[:32]

    @property
    def commits(self) -> tuple[Instant, ...]:
        """Return the completed actions that may have changed data files, ordered by requested time."""
        return tuple(sorted(instant for instant in self.completed if instant.wrote_data))

    @property
    def requested(self) -> frozenset[str]:
        """Return the requested times of the commits."""
        return frozenset(instant.requested for instant in self.commits)

    @property
    def start(self) -> str | None:
        """Return the earliest commit on the active timeline, or None.

        Earlier commits are archived, and their data is committed. A savepoint keeps its commit on the timeline while
        the commits around it are archived, so savepointed commits are skipped unless there are no others.
        """
        commits, saved = [instant.requested for instant in self.commits], self.saved
        return next((requested for requested in commits if requested not in saved), commits[0] if commits else None)

    @property
    def saved(self) -> frozenset[str]:
        """Return the requested times of the commits with a savepoint, which keeps their files."""
        return frozenset(instant.requested for instant in self.completed if instant.action == "savepoint")

    @property
    def watermark(self) -> str | None:
        """Return the newest completion time of the commits, or None."""
        return max((instant.completed for instant in self.commits), default=None)

    def until_requested(self, instant: str) -> Timeline:
        """Return the actions requested no later than an instant of 14 or 17 digits, as Hudi's own as-of read sees them.

        Pending actions stay pending.
        """
        return self._keep(lambda entry: entry.requested <= _padded(instant, len(entry.requested)))

    def until_completed(self, instant: str) -> Timeline:
        """Return the actions completed no later than a time, given as 17 digits in the timeline's zone."""
        return self._keep(lambda entry: entry.completed <= _padded(instant, len(entry.completed)))

    @property
    def moment(self) -> Moment:
        """Return a record of this listing, from which `at_moment` of a later listing restores it."""
        newest = max((entry.completed for entry in self.completed), default="")
        return Moment(newest, tuple(sorted(self.pending)))

    def at_moment(self, moment: Moment) -> Timeline:
        """Return the completed actions that an earlier listing showed, without those archived since."""
        unseen = frozenset(moment.unseen)
        return self._keep(lambda entry: entry.completed <= moment.completed and entry.requested not in unseen)

    def as_seen(self, seen: Seen, by_completion: bool) -> Timeline:
        """Return the completed actions that a snapshot saw, without those archived since; what was pending still is.

        `by_completion` is False if completion times may have changed since: in layout 1 they are those of files.
        """
        pending = frozenset(seen.pending)

        def was_seen(entry: Instant) -> bool:
            is_late = by_completion and entry.completed > seen.completed
            return entry.requested <= seen.instant and entry.requested not in pending and not is_late

        return replace(self._keep(was_seen), pending=self.pending | pending)

    def _keep(self, wanted: Callable[[Instant], bool]) -> Timeline:
        kept = tuple(entry for entry in self.completed if wanted(entry))
        return Timeline(kept, self.pending, self.pending_cleans)


def parse_layout_2(names: Iterable[str]) -> Timeline:
    """Return the timeline from the file names of ``.hoodie/timeline``; names that are not instants are skipped.

    Example:
        >>> parse_layout_2(["20260101000000000_20260101000001000.commit"]).watermark
        '20260101000001000'
    """
    completed: list[Instant] = []
    begun: dict[str, set[str]] = {}
    for name in names:
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        requested, done, action, state = found.groups()
        if action == "inflight" and state is None:
            action, state = "commit", "inflight"
        if done is not None and state is None:
            completed.append(Instant(requested, done, action))
        elif state in _STATES:
            begun.setdefault(requested, set()).add(action)
    return _timeline(completed, begun)


def parse_layout_1(modified: Iterable[tuple[str, str]]) -> Timeline:
    """Return the timeline from the files of ``.hoodie`` in a table of version 6 or less.

    Each file is its name and its modification time, as 17 digits in the timeline's zone, which replaces the completion
    time that this layout does not record.

    Example:
        >>> parse_layout_1([("20260101000000000.commit", "20260101000001000")]).start
        '20260101000000000'
    """
    completed: list[Instant] = []
    begun: dict[str, set[str]] = {}
    for name, time in modified:
        found = _NAME.fullmatch(name)
        if found is None or found[2] is not None:
            continue
        requested, _, action, state = found.groups()
        if action == "inflight" and state is None:
            action, state = "commit", "inflight"
        if state is None:
            completed.append(Instant(requested, time, action))
        elif state in _STATES:
            begun.setdefault(requested, set()).add(action)
    return _timeline(completed, begun)


def _timeline(completed: list[Instant], begun: dict[str, set[str]]) -> Timeline:
    # A savepoint has the requested time of its commit, so it does not show whether that commit completed.
    done = {instant.requested for instant in completed if instant.action != "savepoint"}
    pending = {time: actions for time, actions in begun.items() if time not in done and actions != {"savepoint"}}
    cleans = frozenset(time for time, actions in pending.items() if "clean" in actions)
    return Timeline(tuple(sorted(completed)), frozenset(pending), cleans)


def _padded(instant: str, digits: int) -> str:
    """Return an instant with `digits` digits; an instant of seconds covers every millisecond of its second."""
    return instant + "9" * (digits - len(instant)) if len(instant) < digits else instant[:digits]
