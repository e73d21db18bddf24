"""Timelines read from file names, in both layouts."""

from __future__ import annotations

import pytest

from hudi_vector.table.config import TableConfig
from hudi_vector.table.instants import Moment
from hudi_vector.table.timeline import Instant, Timeline, parse_layout_1, parse_layout_2


def at(number: int) -> str:
    return f"202601010000{number:02d}000"


def commit(requested: int, completed: int, action: str = "commit") -> str:
    return f"{at(requested)}_{at(completed)}.{action}"


def test_layout_2_reads_states_from_names() -> None:
    timeline = parse_layout_2(
        [
            f"{at(1)}.commit.requested",
            f"{at(1)}.inflight",
            commit(1, 2),
            f"{at(3)}.compaction.requested",
            f"{at(3)}.compaction.inflight",
            commit(3, 5, "commit"),
            f"{at(4)}.deltacommit.requested",
            f"{at(6)}.clustering.requested",
            commit(7, 8, "rollback"),
            "history",
            "manifest_1",
            "archived.txt",
            f"{at(1)}_{at(2)}.commit.crc",
        ]
    )
    assert timeline.completed == (
        Instant(at(1), at(2), "commit"),
        Instant(at(3), at(5), "commit"),
        Instant(at(7), at(8), "rollback"),
    )
    assert timeline.pending == {at(4), at(6)}
    assert [entry.requested for entry in timeline.commits] == [at(1), at(3)]
    assert timeline.watermark == at(5)
    assert timeline.start == at(1)


def test_layout_1_takes_times_from_the_files() -> None:
    timeline = parse_layout_1(
        [
            ("20260101000001000.commit.requested", at(1)),
            ("20260101000001000.inflight", at(1)),
            ("20260101000001000.commit", at(2)),
            ("20260101000003000.deltacommit.inflight", at(3)),
            ("20260101000004.commit", at(9)),
            ("hoodie.properties", at(1)),
            (commit(5, 6), at(6)),
        ]
    )
    assert timeline.completed == (
        Instant("20260101000001000", at(2), "commit"),
        Instant("20260101000004", at(9), "commit"),
    )
    assert timeline.pending == {at(3)}


def test_an_empty_timeline() -> None:
    timeline = parse_layout_2([])
    assert timeline == Timeline(())
    assert timeline.start is timeline.watermark is None
    assert timeline.commits == ()


def test_a_savepoint_says_nothing_about_its_commit() -> None:
    timeline = parse_layout_2(
        [f"{at(1)}.commit.requested", f"{at(1)}.savepoint.inflight", commit(1, 5, "savepoint"), commit(3, 4)]
    )
    assert timeline.pending == {at(1)}
    assert parse_layout_2([f"{at(1)}.savepoint.inflight", commit(1, 2)]).pending == frozenset()
    assert parse_layout_2([f"{at(1)}.savepoint.inflight"]).pending == frozenset()


def test_savepointed_commits_do_not_begin_the_active_timeline() -> None:
    names = [commit(1, 2), commit(1, 3, "savepoint"), commit(8, 9), commit(10, 11)]
    assert parse_layout_2(names).start == at(8)
    assert parse_layout_2(names[:2]).start == at(1), "unless there are no others"


def test_pending_cleans_are_known() -> None:
    timeline = parse_layout_2([f"{at(1)}.clean.requested", f"{at(2)}.clean.requested", commit(2, 3, "clean")])
    assert timeline.pending_cleans == {at(1)}


@pytest.mark.parametrize(
    ("cut", "requested", "completed"),
    [
        (at(0), [], []),
        (at(1), [1], []),
        (at(2), [1, 2], []),
        (at(3), [1, 2], [2]),
        (at(9), [1, 2], [1, 2]),
        (at(9)[:14], [1, 2], [1, 2]),
        (at(1)[:14], [1], []),
    ],
)
def test_cuts_where_the_second_commit_ends_first(cut: str, requested: list[int], completed: list[int]) -> None:
    timeline = parse_layout_2([commit(1, 9), commit(2, 3)])
    assert [e.requested for e in timeline.until_requested(cut).commits] == [at(number) for number in requested]
    assert [e.requested for e in timeline.until_completed(cut).commits] == [at(number) for number in completed]


def test_an_instant_of_seconds_covers_its_milliseconds() -> None:
    timeline = parse_layout_2(["20260101000001999_20260101000002500.commit"])
    assert timeline.until_requested("20260101000001").commits
    assert timeline.until_completed("20260101000002").commits
    assert not timeline.until_completed("20260101000002499").commits


def test_instants_of_seconds_compare_with_instants_of_milliseconds() -> None:
    timeline = parse_layout_1([("20260101000004.commit", at(9))])
    assert timeline.until_requested("20260101000004000").commits
    assert not timeline.until_requested("20260101000003999").commits


def test_the_identity_is_that_of_the_set() -> None:
    names = [commit(1, 9), commit(2, 3)]
    identity = parse_layout_2(names).identity
    assert parse_layout_2(names[::-1]).identity == identity
    assert parse_layout_2([*names, f"{at(4)}.commit.requested"]).identity == identity, "nothing has changed yet"
    others = [
        [commit(2, 3)],  # the later request ended first: the last instant is the same
        [commit(1, 8), commit(2, 3)],
        [*names, commit(4, 5, "rollback")],
        [commit(1, 9, "replacecommit"), commit(2, 3)],
    ]
    assert len({identity, *(parse_layout_2(other).identity for other in others)}) == 5


def test_an_instants_name_is_that_of_its_file() -> None:
    (instant,) = parse_layout_2([commit(1, 2, "replacecommit")]).completed
    assert instant.name == commit(1, 2, "replacecommit")
    assert instant.wrote_data
    assert not Instant(at(1), at(2), "clean").wrote_data


def test_a_moment_shows_again_what_a_listing_showed():
    before = ["20260101000000000_20260101000002000.commit", "20260101000001000.commit.requested"]
    shown = parse_layout_2(before)
    assert shown.moment.text == "20260101000002000 20260101000001000"
    # Completed with an earlier time than what was seen, and later: neither was there.
    after = [*before, "20260101000001000_20260101000001500.commit", "20260101000003000_20260101000004000.commit"]
    later = parse_layout_2(after)
    assert later.at_moment(Moment.parse(shown.moment.text)).identity == shown.identity
    assert later.at_moment(later.moment).identity == later.identity


def test_nothing_was_shown():
    empty = parse_layout_2([])
    assert Moment.parse(empty.moment.text) == empty.moment == Moment()
    assert parse_layout_2(["20260101000000000_20260101000002000.commit"]).at_moment(Moment()).commits == ()


@pytest.mark.parametrize(
    ("properties", "folder", "archive", "name"),
    [
        ("hoodie.table.version=6\nhoodie.timeline.path=x", "", "/archived", f"{at(1)}.commit"),
        ("hoodie.table.version=8", "/timeline", "/timeline/history", commit(1, 2)),
        ("hoodie.table.version=9\nhoodie.timeline.path=x", "/x", "/x/history", commit(1, 2)),
    ],
)
def test_the_layout_says_where_a_timeline_lies(properties: str, folder: str, archive: str, name: str) -> None:
    layout = TableConfig.parse(properties).layout
    assert layout.folder("s3://b/t") == f"s3://b/t/.hoodie{folder}"
    assert layout.archive("s3://b/t") == f"s3://b/t/.hoodie{archive}"
    assert layout.file("s3://b/t", Instant(at(1), at(2), "commit")) == f"s3://b/t/.hoodie{folder}/{name}"
    assert layout.keeps_completion_times == layout.logs_bear_own_instant == bool(folder)


def test_a_listing_of_either_layout_becomes_the_timeline() -> None:
    second = 1_767_225_600_000_000_000  # 2026-01-01 00:00:00 UTC
    files = [(f"{at(1)}.commit", second + 2_500_000_000), (commit(1, 3), second)]
    old, new = (TableConfig.parse(f"hoodie.table.version={version}").layout for version in (6, 8))
    assert old.timeline(files, "UTC").completed == (Instant(at(1), "20260101000002500", "commit"),)
    assert old.timeline(files, "+09:00").watermark == "20260101090002500"
    assert new.timeline(files, "no zone is needed").completed == (Instant(at(1), at(3), "commit"),)
