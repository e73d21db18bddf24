"""Which snapshot was visible at the time of each row: commits that had completed by then."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.read.predicate.zone import instant
from hudi_vector.table.instants import Moment, as_timeline_time
from hudi_vector.table.timeline import Timeline

__all__ = ["EventTime", "History", "moments_of"]


@dataclass(frozen=True)
class EventTime:
    """The column of the rows' times. `zone` is the timeline's, `session_zone` that of times without a zone."""

    column: str
    zone: str
    session_zone: str


@dataclass(frozen=True)
class History:
    """The points at which a table changed, as one moment shows them.

    `completed` are the completion times of the commits on the timeline, ascending. `archived` is the completion time of
    the first action that has left it, None where there is none.
    """

    completed: tuple[str, ...]
    archived: str | None
    unseen: tuple[str, ...]

    @classmethod
    def of(cls, visible: Timeline, moment: Moment, archived: str | None) -> History:
        """The history a timeline shows."""
        completed = sorted({entry.completed for entry in visible.commits})
        return cls(tuple(completed), archived, moment.unseen)

    def at(self, time: str) -> Moment | None:
        """What was visible at a time.

        Args:
            time: 17 digits in the timeline's zone.

        Returns:
            The moment, which the timeline may have lost; None before the first commit.
        """
        seen = bisect_right(self.completed, time)
        if seen:
            return Moment(self.completed[seen - 1], self.unseen)
        return Moment(time, self.unseen) if self.archived is not None and self.archived <= time else None

    def has(self, moment: Moment) -> bool:
        """Whether the commits of a moment are still on the timeline."""
        return moment.completed in self.completed

    def after(self, moment: Moment) -> tuple[Moment, ...]:
        """The later points, the next one first."""
        return tuple(Moment(time, self.unseen) for time in self.completed if time > moment.completed)


def moments_of(
    rows: pa.Table, at: npt.NDArray[np.int64], event_time: EventTime, history: History
) -> dict[Moment | None, npt.NDArray[np.int64]]:
    """Rows that ask, by what was visible at their times.

    Args:
        rows: The rows.
        at: Those of them that are wanted.
        event_time: Where their times are.
        history: The table's.

    Returns:
        Which of the wanted rows go with each moment; None for rows without a time, or before the first commit.
    """
    times = _micros(rows.column(event_time.column).take(pa.array(at)), event_time.session_zone)
    seen = {time: history.at(as_timeline_time(time, event_time.zone)) for time in set(times) if time is not None}
    found: dict[Moment | None, list[int]] = {}
    for number, time in enumerate(times):
        found.setdefault(None if time is None else seen[time], []).append(number)
    return {moment: np.array(members, np.int64) for moment, members in found.items()}


def _micros(times: pa.ChunkedArray, session_zone: str) -> list[int | None]:
    """Times as microseconds since 1970 in UTC; those without a zone are the session's, as Spark casts them."""
    held: list[int | None] = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_pylist()
    if times.type.tz is not None:
        return held
    return [None if micros is None else instant(micros, session_zone) for micros in held]
