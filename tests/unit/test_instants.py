"""What may be written after as_of, and what it means on a timeline."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.table.instants import AsOf, as_timeline_time, local_zone, parse_as_of, zone_info

NOON = 1_795_262_400_000_000  # 2026-11-21 12:00:00 UTC


@pytest.mark.parametrize("given", ["20261121115157710", "20261121115157", 20261121115157710, " 20261121115157 "])
def test_instants(given: Any) -> None:
    assert parse_as_of(given, "UTC") == AsOf(str(given).strip(), instant=str(given).strip())


@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ("2026-11-21 12:00:00", "UTC"),
        ("2026-11-21T12:00:00", "UTC"),
        ("2026-11-21 12:00", "UTC"),
        ("2026-11-21 12:00:00.000", "UTC"),
        ("2026-11-21 12:00:00.0", "UTC"),
        ("2026-11-21 12:00:00.000000", "UTC"),
        ("2026-11-21T12:00:00Z", "Asia/Tokyo"),
        ("2026-11-21 12:00:00 Z", "Asia/Tokyo"),
        ("2026-11-21 12:00:00+00:00", "Asia/Tokyo"),
        ("2026-11-21 21:00:00+09:00", "UTC"),
        ("2026-11-21 21:00:00", "Asia/Tokyo"),
        ("2026-11-21 07:00:00", "America/New_York"),
        ("2026-11-21 21:00:00", "+09:00"),
        ("2026-11-21 21:00:00", "GMT+9"),
        (datetime(2026, 11, 21, 12), "UTC"),
        (datetime(2026, 11, 21, 21), "Asia/Tokyo"),
        (datetime(2026, 11, 21, 12, tzinfo=timezone.utc), "Asia/Tokyo"),
        (datetime(2026, 11, 21, 13, tzinfo=timezone(timedelta(hours=1))), "UTC"),
    ],
)
def test_timestamps(given: Any, zone: str) -> None:
    found = parse_as_of(given, zone)
    assert found.instant is None
    assert found.epoch_micros == NOON


def test_dates_are_their_midnight() -> None:
    midnight = NOON - 12 * 3600 * 1_000_000
    assert parse_as_of("2026-11-21", "UTC").epoch_micros == midnight
    assert parse_as_of(date(2026, 11, 21), "UTC").epoch_micros == midnight


@pytest.mark.parametrize(("digits", "micros"), [("5", 500_000), ("05", 50_000), ("123", 123_000), ("123456", 123_456)])
def test_fractions(digits: str, micros: int) -> None:
    assert parse_as_of(f"2026-11-21 12:00:00.{digits}", "UTC").epoch_micros == NOON + micros


@pytest.mark.parametrize("given", ["yesterday", "", "2026-13-01", "2026111", "1.5", 12, 1.5, True, None, [1], "2026-1"])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is no instant and no timestamp: give an instant"):
        parse_as_of(given, "UTC")


@pytest.mark.parametrize(
    ("zone", "digits"),
    [
        ("UTC", "20261121120000000"),
        ("Z", "20261121120000000"),
        ("Asia/Tokyo", "20261121210000000"),
        ("America/New_York", "20261121070000000"),
        ("+05:30", "20261121173000000"),
        ("UTC-3", "20261121090000000"),
        ("-0330", "20261121083000000"),
    ],
)
def test_times_on_a_timeline(zone: str, digits: str) -> None:
    assert as_timeline_time(NOON, zone) == digits
    assert as_timeline_time(NOON + 999, zone) == digits, "a timeline counts milliseconds"
    assert as_timeline_time(NOON - 1, zone) < digits


LAST = 253_402_300_799_999_000  # 9999-12-31 23:59:59.999 UTC


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "-08:00"])
@pytest.mark.parametrize("given", ["9999-12-31 23:59:59", datetime(9999, 12, 31, 23, 59, 59)])
def test_the_last_time_of_all_is_later_in_utc_west_of_it(given: Any, zone: str) -> None:
    found = parse_as_of(given, zone).epoch_micros
    assert found == LAST - 999_000 + 8 * 3600 * 1_000_000
    assert as_timeline_time(found, zone) == "99991231235959999"


@pytest.mark.parametrize(
    ("micros", "zone", "digits"),
    [
        (-62_135_596_800_000_000, "UTC", "00010101000000000"),
        (-30_610_310_400_000_000, "UTC", "09991231000000000"),
        (LAST, "UTC", "99991231235959999"),
        (LAST + 1000, "UTC", "99991231235959999"),
        (LAST, "Asia/Tokyo", "99991231235959999"),
        (1_767_225_600_000_000_000, "UTC", "99991231235959999"),  # seconds read as milliseconds: the year 57970
        (-62_135_596_800_000_001, "UTC", "00010101000000000"),
        (-62_135_596_800_000_000, "America/New_York", "00010101000000000"),
        (-(2**63), "UTC", "00010101000000000"),
    ],
)
def test_a_timeline_has_four_digits_of_a_year(micros: int, zone: str, digits: str) -> None:
    assert as_timeline_time(micros, zone) == digits


def test_the_hour_that_comes_twice() -> None:
    """New York, 2026-11-01: 01:30 in summer time and again in winter time have the same digits."""
    summer = parse_as_of("2026-11-01 01:30:00-04:00", "UTC").epoch_micros
    winter = parse_as_of("2026-11-01 01:30:00-05:00", "UTC").epoch_micros
    assert summer is not None
    assert winter == summer + 3600 * 1_000_000
    assert as_timeline_time(summer, "America/New_York") == as_timeline_time(winter, "America/New_York")
    assert parse_as_of("2026-11-01 01:30:00", "America/New_York").epoch_micros == summer, "the earlier, as in Spark"


def test_the_hour_that_is_left_out() -> None:
    """New York, 2026-03-08: 02:30 does not exist; Java and Python both read it with the offset before the gap."""
    assert parse_as_of("2026-03-08 02:30:00", "America/New_York") == AsOf(
        "2026-03-08 02:30:00", epoch_micros=parse_as_of("2026-03-08 03:30:00-04:00", "UTC").epoch_micros
    )


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "+25:xx", "../etc", "+99:99", "a" * 300])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no time zone known here; give a region"):
        zone_info(name)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads six digits at the most")
def test_nanoseconds_are_cut() -> None:
    assert parse_as_of("2026-11-21 12:00:00.123456789", "UTC").epoch_micros == NOON + 123_456


def test_the_zone_of_this_machine_has_its_seasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The offset of today is another one than that of half a year ago."""
    july = 1_782_900_000_000_000  # 2026-07-01 10:00 UTC
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    monkeypatch.delenv("TZ", raising=False)
    assert as_timeline_time(july, local_zone(str(link))) == "20260701120000000"
    assert as_timeline_time(july + 180 * 86_400_000_000, local_zone(str(link))) == "20261228110000000"
    for place in (tmp_path / "none", tmp_path):  # a copy says nothing, and then today's offset is all there is
        assert zone_info(local_zone(str(place))).utcoffset(None) == datetime.now().astimezone().utcoffset()
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert as_timeline_time(july, local_zone(str(link))) == "20260701190000000"
