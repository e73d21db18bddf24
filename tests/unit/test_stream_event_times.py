"""Which snapshot was visible at the time of a row."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.streaming.snapshots.event_times import EventTime, History, moments_of
from hudi_vector.table.instants import Moment
from hudi_vector.table.timeline import Instant, parse_layout_2


def at(second, millisecond=0):
    return f"197001010000{second:02d}{millisecond:03d}"


def history(archived=None):
    names = [f"{at(1)}_{at(5)}.commit", f"{at(2)}_{at(3)}.deltacommit", f"{at(6)}_{at(8)}.clean"]
    timeline = parse_layout_2([*names, f"{at(7)}.commit.requested"])
    return History.of(timeline, timeline.moment, archived)


def test_commits_count_from_their_completion():
    seen = history()
    assert seen.at(at(2, 999)) is None
    assert seen.at(at(3)) == Moment(at(3), (at(7),))
    assert seen.at(at(4, 999)).completed == at(3)
    assert seen.at(at(59)).completed == at(5)  # a clean changes nothing
    assert [moment.completed for moment in seen.after(seen.at(at(3)))] == [at(5)]


def test_before_the_first_commit_and_before_what_the_timeline_still_has():
    seen = history(archived=at(1))
    assert seen.at(at(0, 999)) is None
    lost = seen.at(at(2))
    assert not seen.has(lost)
    assert [moment.completed for moment in seen.after(lost)] == [at(3), at(5)]
    assert seen.has(seen.at(at(3)))
    assert not history(archived="").has(history(archived="").at(at(0)))


def test_times_of_commits_that_were_archived_after_a_savepoint_are_gone():
    timeline = parse_layout_2([f"{at(1)}_{at(2)}.commit", f"{at(1)}_{at(3)}.savepoint", f"{at(8)}_{at(9)}.commit"])
    amid = [Instant(at(4), at(5), "commit"), Instant(at(6), at(7), "commit")]
    seen = History.of(timeline, timeline.moment, None, amid)
    assert [seen.has(seen.at(at(second))) for second in (2, 4, 5, 6, 7, 8, 9)] == [True, True, *[False] * 4, True]


def rows(times, tz="UTC"):
    return pa.table({"at": pa.array(times, pa.timestamp("us", tz=tz))})


def test_rows_go_with_what_was_visible_at_their_times():
    micros = [4_000_000, None, 9_999_999, 1, 2_999_999, 3_000_000]
    found = moments_of(rows(micros), np.array([0, 1, 2, 4, 5]), EventTime("at", "UTC", "UTC"), history())
    named = {moment and moment.completed: members.tolist() for moment, members in found.items()}
    assert named == {at(3): [0, 4], None: [1, 3], at(5): [2]}


def test_zones_of_the_timeline_and_of_times_without_one():
    hour = 3_600_000_000
    [moment] = moments_of(rows([4_000_000 - hour]), np.array([0]), EventTime("at", "+01:00", "UTC"), history())
    assert moment.completed == at(3)
    [moment] = moments_of(rows([4_000_000], None), np.array([0]), EventTime("at", "UTC", "UTC"), history())
    assert moment.completed == at(3)
    local = int((dt.datetime(1970, 1, 1, 1, 0, 4) - dt.datetime(1970, 1, 1)).total_seconds() * 1e6)
    [moment] = moments_of(rows([local], None), np.array([0]), EventTime("at", "UTC", "Europe/Berlin"), history())
    assert moment.completed == at(3)


def test_rows_after_the_year_9999_go_with_the_newest_and_those_before_the_year_1_with_none():
    micros = [253_402_300_800_000_000, 1_767_225_600_000_000_000, -62_135_596_800_000_001]  # 10000, 57970, before 1
    found = moments_of(rows(micros), np.arange(3), EventTime("at", "UTC", "UTC"), history())
    named = {moment and moment.completed: members.tolist() for moment, members in found.items()}
    assert named == {at(5): [0, 1], None: [2]}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=8),
    st.lists(st.integers(0, 60_000_000), max_size=20),
)
def test_what_is_visible_is_what_had_completed(commits, micros):
    names = {f"{at(begun)}{''}_{at(min(59, begun + took))}.commit" for begun, took in commits}
    timeline = parse_layout_2(names)
    found = moments_of(
        rows(micros), np.arange(len(micros)), EventTime("at", "UTC", "UTC"), History.of(timeline, timeline.moment, None)
    )
    seen = {int(member): moment for moment, members in found.items() for member in members}
    assert sorted(seen) == list(range(len(micros)))
    for number, time in enumerate(micros):
        expected = timeline.until_completed(at(time // 1_000_000, time // 1000 % 1000))
        shown = timeline.at_moment(seen[number]) if seen[number] else timeline.at_moment(Moment())
        assert shown.identity == expected.identity
