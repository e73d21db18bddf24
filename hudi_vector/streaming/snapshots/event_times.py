"""The snapshots visible at the times of rows: a snapshot holds the commits that had completed by then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.read.predicate.zone import instant
from hudi_vector.table.instants import Moment, as_timeline_time
from hudi_vector.table.timeline import Instant, Timeline

__all__ = ["EventTime", "History", "moments_of"]


@dataclass(frozen=True)
class EventTime:
    """The column of the rows' times; `zone` is the timeline's zone, `session_zone` the zone of times without one."""

    column: str
    zone: str
    session_zone: str


@dataclass(frozen=True)
class History:
    """The completion times at which a table changed, as one moment shows them.

    `completed` are the completion times of the commits on the timeline, ascending. `archived` is the completion time of
    the first action that was archived, None if there is none. `unseen` are the pending actions of that moment. `amid`
    are the completion times, ascending, of archived commits later than one that a savepoint kept on the timeline.
    """

    completed: tuple[str, ...]
    archived: str | None
    unseen: tuple[str, ...]
    amid: tuple[str, ...]

    @classmethod
    def of(cls, visible: Timeline, moment: Moment, archived: str | None, amid: Iterable[Instant] = ()) -> History:
        """Return the history that a timeline shows at a moment."""
        return cls(_times(visible.commits), archived, moment.unseen, _times(amid))

    def at(self, time: str) -> Moment | None:
        """Return what was visible at a time, given as 17 digits in the timeline's zone; None before the first commit.

        The commits of the returned moment may have been archived (see `has`).
        """
        seen = max(_last(self.completed, time), _last(self.amid, time))
        if seen:
            return Moment(seen, self.unseen)
        return Moment(time, self.unseen) if self.archived is not None and self.archived <= time else None

    def has(self, moment: Moment) -> bool:
        """Return True if the newest commit of a moment is still on the timeline."""
        return moment.completed in self.completed

    def after(self, moment: Moment) -> tuple[Moment, ...]:
        """Return the moments of the later commits, the next one first."""
        return tuple(Moment(time, self.unseen) for time in self.completed if time > moment.completed)


def _times(commits: Iterable[Instant]) -> tuple[str, ...]:
    return tuple(sorted({commit.completed for commit in commits}))


def _last(times: Sequence[str], until: str) -> str:
    """Return the last of ascending times until one, empty if there is none."""
    place = bisect_right(times, until)
    return times[place - 1] if place else ""


def moments_of(
    rows: pa.Table, at: npt.NDArray[np.int64], event_time: EventTime, history: History
) -> dict[Moment | None, npt.NDArray[np.int64]]:
    """Group asking rows by the moment that was visible at their times.

    `at` selects rows; the arrays in the result are positions in `at`. The key None holds rows without a time or with a
    time before the first commit.
    """
    times = _micros(rows.column(event_time.column).take(pa.array(at)), event_time.session_zone)
    seen = {time: history.at(as_timeline_time(time, event_time.zone)) for time in set(times) if time is not None}
    found: dict[Moment | None, list[int]] = {}
    for number, time in enumerate(times):
        found.setdefault(None if time is None else seen[time], []).append(number)
    return {moment: np.array(members, np.int64) for moment, members in found.items()}


def _micros(times: pa.ChunkedArray, session_zone: str) -> list[int | None]:
    """Return times as microseconds since 1970 in UTC; times without a zone are the session's, as in Spark's casts."""
    held: list[int | None] = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_pylist()
    if times.type.tz is not None:
        return held
    return [None if micros is None else instant(micros, session_zone) for micros in held]
