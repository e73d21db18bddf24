"""The values that a user may give as ``as_of``, and their meaning on a table's timeline.

An instant (14 or 17 digits) selects, as in Hudi's own as-of read, the actions requested no later than it. A timestamp
selects the actions completed no later than it; it is converted to a time of the timeline in the table's zone,
``hoodie.table.timeline.timezone`` (LOCAL: the zone of the JVM that writes).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hudi_vector.errors import InvalidArgumentError

__all__ = ["AsOf", "Moment", "Seen", "as_timeline_time", "epoch_seconds", "local_zone", "parse_as_of", "zone_info"]

_INSTANT = re.compile(r"\d{14}(\d{3})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Moment:
    """A compact record of what one listing of a timeline showed, from which any later process can restore that view.

    `completed` is the newest completion time of all actions, empty if there was none. `unseen` are the requested times
    of the actions that were pending: they may complete later with an earlier completion time than others.
    """

    completed: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the moment as text."""
        return " ".join((self.completed, *self.unseen))

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Return the moment that a text describes.

        Example:
            >>> Moment.parse("20260101000001000 20260101000000000").unseen
            ('20260101000000000',)
        """
        completed, *unseen = text.split(" ")
        return cls(completed, tuple(unseen))

    @property
    def as_of(self) -> AsOf:
        """Return the moment as a point in the table's history."""
        return AsOf(self.completed, moment=self)


@dataclass(frozen=True)
class Seen:
    """The commits that one snapshot saw, from which a later listing restores it as long as its files are there.

    `instant` is the last of them by requested time, `completed` their newest completion time, and `pending` are the
    requested times of the actions that had not completed. `as_of` is the instant of an as-of read, None of any other.
    """

    instant: str
    completed: str
    pending: tuple[str, ...] = ()
    as_of: str | None = None

    @property
    def point(self) -> AsOf:
        """Return the snapshot as a point in the table's history; it is as of an instant only if that was asked for."""
        return AsOf(self.as_of or "", seen=self)


@dataclass(frozen=True)
class AsOf:
    """A point in a table's history: an instant by its digits, an epoch time in microseconds, a `Moment`, or `Seen`.

    A point given as `Seen` is not refused if its files were cleaned away: its reader compares the files.
    """

    given: str
    instant: str | None = None
    epoch_micros: int | None = None
    moment: Moment | None = None
    seen: Seen | None = None


def parse_as_of(value: Any, session_zone: str) -> AsOf:
    """Parse an ``as_of`` value; raise InvalidArgumentError if it is neither an instant nor a timestamp.

    An instant has 14 or 17 digits. A timestamp or date is a ``datetime``, a ``date`` or text (``2026-11-21 10:00:00``,
    with or without an offset); `session_zone` is the zone of timestamps without one.

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
    return AsOf(text, epoch_micros=(moment - _EPOCH) // timedelta(microseconds=1))


def _from_text(text: str) -> datetime | None:
    tidy = text.replace("T", " ", 1)
    tidy = re.sub(r"\s*Z$", "+00:00", tidy)
    tidy = re.sub(r"\.(\d{1,6})(?=\D|$)", lambda digits: "." + digits[1].ljust(6, "0"), tidy)
    try:
        return datetime.fromisoformat(tidy)
    except ValueError:
        return None


def as_timeline_time(epoch_micros: int, zone: str) -> str:
    """Return an epoch time, in microseconds UTC, as the 17 digits of a timeline in the given zone, to the millisecond.

    A time before the year 1 or after 9999, for which a timeline has no digits, is the first or the last that it has.

    Example:
        >>> as_timeline_time(1_000_000, "Asia/Tokyo")
        '19700101090001000'
    """
    try:
        local = (_EPOCH + timedelta(microseconds=epoch_micros)).astimezone(zone_info(zone))
    except OverflowError:
        local = datetime.max if epoch_micros > 0 else datetime.min
    return f"{local.year:04d}{local:%m%d%H%M%S}{local.microsecond // 1000:03d}"


def epoch_seconds(instant: str, zone: str) -> float | None:
    """Return the time of an instant of 14 or 17 digits in the given zone, in seconds since 1970 UTC.

    Return None for an instant that is no time, as those of bootstraps are.

    Example:
        >>> epoch_seconds("19700101090001500", "Asia/Tokyo")
        1.5
    """
    try:
        local = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone_info(zone))
    except ValueError:
        return None
    return (local - _EPOCH).total_seconds() + int(instant[14:] or 0) / 1000


def local_zone(localtime: str = "/etc/localtime") -> str:
    """Return the time zone of this machine: the variable TZ, else the region that `localtime` is a link to.

    Without either, it is the offset of today, which another season may not have.
    """
    named = os.environ.get("TZ")
    if named:
        return named.lstrip(":")
    region = os.path.realpath(localtime).partition("/zoneinfo/")[2]
    if region:
        with suppress(ZoneInfoNotFoundError, ValueError):
            return ZoneInfo(region).key
    return datetime.now().astimezone().strftime("%z")


def zone_info(name: str) -> tzinfo:
    """Return a time zone by a name that Java or Spark uses; raise InvalidArgumentError if there is no such zone.

    The name is a region (``Asia/Tokyo``), ``UTC``, ``Z``, or an offset (``+09:00``, ``GMT+9``).
    """
    short = re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", name.strip())
    offset = re.fullmatch(r"([+-])(\d{1,2})(?::?(\d{2}))?", short)
    if short in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    try:
        if offset is None:
            return ZoneInfo(short)
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    except (ZoneInfoNotFoundError, ValueError, OSError) as unknown:
        raise InvalidArgumentError(
            f"'{name}' is no time zone known here; give a region such as 'Europe/Berlin', or an offset such as '+02:00'"
        ) from unknown
