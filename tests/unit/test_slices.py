"""File slices by hand: one case for each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from hudi_vector.storage import FileInfo
from hudi_vector.table.slices import cut_file, latest_slices, lost_file
from hudi_vector.table.timeline import Instant, Timeline

BASE = "file:///t"
_Shown = list[tuple[str, str, "str | None", list[str]]]


def at(number: int) -> str:
    return f"202601010000{number:02d}000"


def base(instant: int, group: str = "f", partition: str = "", suffix: str = "parquet") -> str:
    return f"{partition}/{group}_0-1-2_{at(instant)}.{suffix}".lstrip("/")


def log(instant: int, group: str = "f", version: int = 1, partition: str = "", token: str = "0-1-2") -> str:
    return f"{partition}/.{group}_{at(instant)}.log.{version}_{token}".lstrip("/")


def timeline(*commits: tuple[int, int], pending: Iterable[int] = (), action: str = "commit") -> Timeline:
    completed = tuple(sorted(Instant(at(requested), at(done), action) for requested, done in commits))
    return Timeline(completed, frozenset(at(number) for number in pending))


def slices(
    files: list[str],
    whole: Timeline,
    *,
    cut: int | None = None,
    replaced: Iterable[tuple[str, str]] = (),
    archived: Callable[[str], str | None] = lambda instant: None,
    own: bool = True,
) -> _Shown:
    visible = whole if cut is None else whole.until_requested(at(cut))
    infos = [FileInfo(f"{BASE}/{name}", 1, 1) for name in files]
    limit = None if cut is None else at(cut)
    found = latest_slices(BASE, infos, visible, whole, frozenset(replaced), archived, own, limit)
    return [
        (
            entry.partition_path,
            entry.base_instant,
            entry.base_file.uri[len(BASE) + 1 :] if entry.base_file else None,
            [file.uri[len(BASE) + 1 :] for file in entry.log_files],
        )
        for entry in found
    ]


def test_the_newest_base_file_of_a_group() -> None:
    assert slices([base(1), base(3)], timeline((1, 2), (3, 4))) == [("", at(3), base(3), [])]


def test_groups_are_ordered_by_partition_and_file_id() -> None:
    files = [base(1, "b", "q"), base(1, "c", "p"), base(1, "a", "p"), base(1, "z", "p/r"), base(1, "y")]
    found = [entry[2] for entry in slices(files, timeline((1, 2)))]
    assert found == [base(1, "y"), base(1, "a", "p"), base(1, "c", "p"), base(1, "z", "p/r"), base(1, "b", "q")]


def test_one_file_id_in_two_partitions_is_two_groups() -> None:
    files = [base(1, "f", "p"), base(3, "f", "q")]
    assert [entry[0] for entry in slices(files, timeline((1, 2), (3, 4)))] == ["p", "q"]


def test_uncommitted_base_files_do_not_count() -> None:
    assert slices([base(1), base(5)], timeline((1, 2), pending=[5])) == [("", at(1), base(1), [])]
    assert slices([base(5)], timeline((1, 2), pending=[5])) == []


def test_base_files_before_the_active_timeline_are_archived_unless_pending() -> None:
    assert slices([base(1)], timeline((5, 6))) == [("", at(1), base(1), [])]
    assert slices([base(1)], timeline((5, 6), pending=[1])) == []
    assert slices([base(1)], timeline()) == []


def test_a_rolled_back_commit_within_the_timeline_does_not_count() -> None:
    assert slices([base(1), base(3)], timeline((1, 2), (5, 6))) == [("", at(1), base(1), [])]


def test_logs_belong_to_the_newest_base_begun_before_they_ended() -> None:
    whole = timeline((1, 2), (3, 7), (5, 6))
    files = [base(1), log(3), base(5)]
    assert slices(files, whole) == [("", at(5), base(5), [log(3)])], "written during the compaction"
    whole = timeline((1, 2), (3, 4), (5, 6))
    assert slices(files, whole) == [("", at(5), base(5), [])], "merged by the compaction"


def test_a_pending_compaction_continues_the_slice() -> None:
    whole = timeline((1, 2), (3, 4), (6, 7), pending=[5])
    assert slices([base(1), log(3), base(5), log(6)], whole) == [("", at(1), base(1), [log(3), log(6)])]


def test_uncommitted_logs_do_not_count() -> None:
    whole = timeline((1, 2), pending=[3])
    assert slices([base(1), log(3)], whole) == [("", at(1), base(1), [])]


def test_logs_alone_are_a_slice() -> None:
    assert slices([log(1), log(3)], timeline((1, 2), (3, 4))) == [("", at(1), None, [log(1), log(3)])]
    assert slices([log(3)], timeline((1, 2), pending=[3])) == []


def test_logs_are_ordered_by_instant_version_and_token() -> None:
    files = [log(3, version=2), log(3, version=10), log(3), log(1, token="0-2-2"), log(1, token="0-1-2")]
    found = slices(files, timeline((1, 2), (3, 4)))[0][3]
    assert found == [log(1, token="0-1-2"), log(1, token="0-2-2"), log(3), log(3, version=2), log(3, version=10)]


def test_change_logs_markers_and_checksums_are_passed_over() -> None:
    files = [
        base(1),
        log(3) + ".cdc",
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        base(1) + ".crc",
        "readme.txt",
        "_SUCCESS",
    ]
    assert slices(files, timeline((1, 2), (3, 4))) == [("", at(1), base(1), [])]


def test_replaced_groups_are_gone() -> None:
    files = [base(1, "f"), base(1, "g"), base(1, "f", "p")]
    found = slices(files, timeline((1, 2)), replaced=[("", "f")])
    assert [entry[2] for entry in found] == [base(1, "g"), base(1, "f", "p")]


def test_as_of_an_earlier_instant() -> None:
    whole = timeline((1, 2), (3, 4), (5, 6), (7, 8))
    files = [base(1), log(3), base(5), log(7)]
    assert slices(files, whole, cut=1) == [("", at(1), base(1), [])]
    assert slices(files, whole, cut=3) == [("", at(1), base(1), [log(3)])]
    assert slices(files, whole, cut=5) == [("", at(5), base(5), [])]
    assert slices(files, whole, cut=7) == [("", at(5), base(5), [log(7)])]


def test_as_of_leaves_out_logs_of_a_later_slice() -> None:
    """A log of 3 that ended after the compaction of 5 began lies in the slice of 5, which as of 4 is not there."""
    whole = timeline((1, 2), (3, 7), (5, 6))
    assert slices([base(1), log(3), base(5)], whole, cut=4) == [("", at(1), base(1), [])]


def test_archived_logs_use_their_completion_from_the_history() -> None:
    whole = timeline((20, 21))
    files = [base(1), log(3), base(5)]
    assert slices(files, whole) == [("", at(5), base(5), [])], "without a history they ended when they began"
    archived = {at(3): at(6)}.get
    assert slices(files, whole, archived=archived) == [("", at(5), base(5), [log(3)])]


def test_before_version_8_logs_bear_the_instant_of_their_base() -> None:
    whole = timeline((1, 2), (3, 4), (5, 6), action="deltacommit")
    files = [base(1), log(1), log(1, version=2), base(5), log(5)]
    assert slices(files, whole, own=False) == [("", at(5), base(5), [log(5)])]
    assert slices(files[:3], whole, own=False) == [("", at(1), base(1), [log(1), log(1, version=2)])]


@pytest.mark.parametrize("suffix", ["orc", "hfile"])
def test_other_formats_are_listed_too(suffix: str) -> None:
    assert slices([base(1, suffix=suffix)], timeline((1, 2))) == [("", at(1), base(1, suffix=suffix), [])]


@pytest.mark.parametrize(
    ("there", "lost"),
    [
        ([base(3)], None),
        ([base(1), base(3)], None),
        ([base(5)], None),
        ([base(1)], base(3)),
        ([log(3)], base(3)),
        ([base(7)], base(3)),
        ([base(3, "g")], base(3)),
        ([], base(3)),
    ],
    ids=["there", "first one kept", "later one", "stale", "log only", "later one pending", "another group", "none"],
)
def test_a_written_base_file_is_lost_without_a_later_one(there: list[str], lost: str | None) -> None:
    whole = timeline((1, 2), (3, 4), (5, 6), pending=[7])
    assert lost_of([base(3), "readme.txt"], there, whole) == lost
    assert lost_of([base(3)], there, whole, [("", "f")]) is None


@pytest.mark.parametrize(
    ("there", "lost"),
    [
        ([base(1), log(3)], None),
        ([log(3)], None),
        ([base(5)], None),
        ([base(1)], log(3)),
        ([base(1), log(3, version=2)], log(3)),
        ([base(1), base(7)], log(3)),
        ([], log(3)),
    ],
    ids=["there", "no base file", "compacted", "stale", "another one", "compaction pending", "none"],
)
def test_a_written_log_file_is_lost_until_it_is_compacted(there: list[str], lost: str | None) -> None:
    whole = timeline((1, 2), (3, 4), (5, 6), pending=[7], action="deltacommit")
    assert lost_of([log(3) + ".cdc", log(3)], there, whole) == lost
    assert lost_of([log(3)], there, whole, [("", "f")]) is None


def test_before_version_8_a_lost_log_file_bears_the_instant_of_its_base() -> None:
    whole = timeline((1, 2), (3, 4), (5, 6), action="deltacommit")
    assert lost_of([log(1, version=2)], [base(1), log(1)], whole, own=False) == log(1, version=2)
    assert lost_of([log(1, version=2)], [base(1), base(5)], whole, own=False) is None


@pytest.mark.parametrize(("size", "written", "cut"), [(9, 10, 9), (10, 10, None), (11, 10, None), (9, 0, None)])
def test_a_file_with_fewer_bytes_than_its_commit_wrote_is_cut(size: int, written: int, cut: int | None) -> None:
    whole = timeline((1, 2))
    found = latest_slices(
        BASE, [FileInfo(f"{BASE}/{base(1)}", size, 1)], whole, whole, frozenset(), lambda _: None, True
    )
    asked = {base(1): written, "p/other": 10}
    assert cut_file(asked, found) == (None if cut is None else (base(1), cut))


def lost_of(
    written: list[str],
    there: list[str],
    whole: Timeline,
    replaced: Iterable[tuple[str, str]] = (),
    *,
    own: bool = True,
) -> str | None:
    infos = [FileInfo(f"{BASE}/{name}", 1, 1) for name in there]
    found = latest_slices(BASE, infos, whole, whole, frozenset(), lambda instant: None, own)
    return lost_file(written, found, frozenset(replaced))
