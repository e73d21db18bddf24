"""Instants and clocks: what a user may write after ``as_of``, and what it means on a table's timeline.

An instant (14 or 17 digits) is Hudi's own as-of: everything requested no later than it. A timestamp means what
was visible then: everything completed no later than it; it becomes a time of the timeline through the table's
zone, ``hoodie.table.timeline.timezone`` (LOCAL: the zone of the JVM that writes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hudi_vector.errors import InvalidArgumentError

__all__ = ["AsOf", "Moment", "as_timeline_time", "parse_as_of", "zone_info"]

_INSTANT = re.compile(r"\d{14}(\d{3})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Moment:
    """What one listing of a timeline showed, in few words: it can be shown again later, by anybody.

    `completed` is the newest completion time of all actions, empty where there was none. `unseen` are the requested
    times of the actions that were under way: they may complete later with an earlier time than others.
    """

    completed: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The moment as text."""
        return " ".join((self.completed, *self.unseen))

    @classmethod
    def parse(cls, text: str) -> Moment:
        """The moment of a text.

        Example:
            >>> Moment.parse("20260101000001000 20260101000000000").unseen
            ('20260101000000000',)
        """
        completed, *unseen = text.split(" ")
        return cls(completed, tuple(unseen))

    @property
    def as_of(self) -> AsOf:
        """The point in the table's history."""
        return AsOf(self.completed, moment=self)


@dataclass(frozen=True)
class AsOf:
    """A point in a table's history: an instant by its digits, an epoch time in microseconds, or a `Moment`."""

    given: str
    instant: str | None = None
    epoch_micros: int | None = None
    moment: Moment | None = None


def parse_as_of(value: Any, session_zone: str) -> AsOf:
    """Read what a user wrote after ``as_of``.

    Args:
        value: An instant of 14 or 17 digits; a timestamp or date as text (``2026-11-21 10:00:00``, with or
            without an offset), ``datetime`` or ``date``.
        session_zone: The zone of timestamps that name none.

    Returns:
        The point in time.

    Raises:
        InvalidArgumentError: It is none of these.

    Example:
        >>> parse_as_of("20261121115157710", "UTC").instant
        '20261121115157710'
        >>> parse_as_of("1970-01-01 00:00:01", "UTC").epoch_micros
        1000000
    """
    text = str(value).strip()
    if isinstance(value, (str, int)) and not isinstance(value, bool) and _INSTANT.fullmatch(text):
        return AsOf(text, instant=text)
    if isinstance(value, datetime):
        moment: datetime | None = value
    elif isinstance(value, date):
        moment = datetime.combine(value, time())
    else:
        moment = _from_text(text) if isinstance(value, str) else None
    if moment is None:
        raise InvalidArgumentError(
            f"as_of = {value!r} is no instant and no timestamp: give an instant of the timeline (14 or 17 digits), "
            "or a timestamp such as '2026-11-21 10:00:00'"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_info(session_zone))
    return AsOf(text, epoch_micros=(moment.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1))


def _from_text(text: str) -> datetime | None:
    tidy = text.replace("T", " ", 1)
    tidy = re.sub(r"\s*Z$", "+00:00", tidy)
    tidy = re.sub(r"\.(\d{1,6})(?=\D|$)", lambda digits: "." + digits[1].ljust(6, "0"), tidy)
    try:
        return datetime.fromisoformat(tidy)
    except ValueError:
        return None


def as_timeline_time(epoch_micros: int, zone: str) -> str:
    """An epoch time as the timeline writes it: 17 digits, to the millisecond.

    Args:
        epoch_micros: Microseconds since 1970 in UTC.
        zone: The timeline's zone.

    Returns:
        The digits.

    Example:
        >>> as_timeline_time(1_000_000, "Asia/Tokyo")
        '19700101090001000'
    """
    local = (_EPOCH + timedelta(microseconds=epoch_micros)).astimezone(zone_info(zone))
    return local.strftime("%Y%m%d%H%M%S") + f"{local.microsecond // 1000:03d}"


def zone_info(name: str) -> tzinfo:
    """A time zone by the names Java and Spark use.

    Args:
        name: A region such as ``Asia/Tokyo``, ``UTC``, ``Z``, or an offset such as ``+09:00`` or ``GMT+9``.

    Returns:
        The zone.

    Raises:
        InvalidArgumentError: There is no such zone.
    """
    short = re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", name.strip())
    offset = re.fullmatch(r"([+-])(\d{1,2})(?::?(\d{2}))?", short)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    if short in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    try:
        return ZoneInfo(short)
    except (ZoneInfoNotFoundError, ValueError) as unknown:
        raise InvalidArgumentError(f"'{name}' is no time zone known here") from unknown
