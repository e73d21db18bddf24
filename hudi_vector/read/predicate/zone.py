"""Times: fixed offsets of session time zones, wall-clock times as instants, and timestamps in microseconds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import InvalidFilterError

__all__ = ["fixed_offset", "in_micros", "instant"]

_UTC = frozenset({"utc", "z", "gmt", "etc/utc", "etc/gmt", "utc+0", "gmt0", "zulu", "etc/zulu"})
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):([0-5]\d)")
_EPOCH = datetime(1970, 1, 1)
_MOST_MINUTES = 18 * 60  # as in Java


def fixed_offset(zone: str) -> int | None:
    """Return the microseconds that a time zone is always ahead of UTC.

    `zone` is a value of ``spark.sql.session.timeZone``. None means that the offset changes or that the name of the zone
    is not an offset; offsets end at 18 hours.

    Example:
        >>> fixed_offset("+01:30"), fixed_offset("Etc/UTC"), fixed_offset("Europe/Berlin")
        (5400000000, 0, None)
    """
    if zone.lower() in _UTC:
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3])
    if minutes > _MOST_MINUTES:
        return None
    return (-minutes if found[1] == "-" else minutes) * 60_000_000


@lru_cache(maxsize=1024)
def instant(micros: int, zone: str) -> int:
    """Return the instant of a wall-clock time, in microseconds since the epoch.

    `micros` is in microseconds since 1970-01-01 00:00:00 on that clock; `zone` is a value of
    ``spark.sql.session.timeZone``. A time in a gap moves forward by the gap; of two instants in an overlap the earlier
    one is returned. Raises InvalidFilterError if the zone is unknown.

    Example:
        >>> instant(0, "+01:00")
        -3600000000
    """
    fixed = fixed_offset(zone)
    if fixed is not None:
        return micros - fixed
    try:
        rules = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise InvalidFilterError(
            f"the time zone '{zone}' is not known here; use a region such as 'Europe/Berlin' or an offset as '+01:00'"
        ) from None
    # fold=0 uses the offset before a gap or overlap, which is also the rule of java.time.
    offset = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=rules).utcoffset()
    return micros - (offset or timedelta()) // timedelta(microseconds=1)


def in_micros(array: Any) -> Any:
    """Return timestamps in nanoseconds in microseconds, rounded down, and other values as they are.

    Example:
        >>> in_micros(pa.array([-1, 1999], pa.timestamp("ns"))).cast(pa.int64()).to_pylist()
        [-1, 1]
    """
    kind = array.type
    if not pa.types.is_timestamp(kind) or kind.unit != "ns":
        return array
    nanos = pc.cast(array, pa.int64())
    micros = pc.divide(nanos, 1000)
    # Arrow divides towards zero, which is up before 1970.
    is_above = pc.greater(pc.multiply(micros, 1000), nanos)
    return pc.cast(pc.subtract(micros, pc.cast(is_above, pa.int64())), pa.timestamp("us", kind.tz))
