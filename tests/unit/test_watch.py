"""The nearest rows from one snapshot to the next, against a search of each."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.written_table import Row, WrittenTable

from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.query.changes.compare import advanced, changes_between, ranked
from hudi_vector.query.changes.task import WatchTask
from hudi_vector.query.opened.request import Asked
from hudi_vector.query.tuning import Tuning
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Instant

QUERIES = np.array([[0.0, 0.0], [3.0, 3.0], [-4.0, 1.0]])


def asked(k, **more):
    given = {"text": None, "max_distance": None, **more}
    return Asked.of(
        "t", "emb", QUERIES, k, "l2", given["text"], given["max_distance"], None, {}, "UTC", Tuning(mode="exact")
    )


def snapshot_of(written):
    return NativeTable(Source(f"file://{written.path}", "t")).snapshot()


# A commit writes some file groups anew; a point of a small grid makes many rows equally far.
POINT = st.tuples(st.integers(-4, 4).map(float), st.integers(-4, 4).map(float))
GROUP = st.dictionaries(st.integers(0, 9), POINT | st.none(), max_size=5)
COMMITS = st.lists(st.dictionaries(st.sampled_from("abc"), GROUP, min_size=1), min_size=2, max_size=5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    numbers = iter(range(10_000))
    return lambda: tmp_path_factory.mktemp("watch") / str(next(numbers))


@settings(max_examples=40)
@given(COMMITS, st.integers(1, 6), st.sampled_from([None, 2.0]), st.sampled_from([None, "price < 2"]))
def test_what_is_carried_on_is_what_a_search_finds(place, commits, k, max_distance, text):
    written = WrittenTable(place(), dimension=2, partitioned=False)
    question = asked(k, text=text, max_distance=max_distance)
    before = None
    for commit in commits:
        files = {}
        for name, group in commit.items():
            # Keys of a group are its own: a record lies in one file group.
            files["", name] = [
                Row(10 * "abc".index(name) + key, "", float(key % 4), f"n{key}", point) for key, point in group.items()
            ]
        written.commit(files)
        snapshot = snapshot_of(written)
        whole = ranked(question, snapshot)
        if before is not None:
            after = advanced(question, before, snapshot)
            assert after.members == whole.members
        before = whole


def watch(written, k=2, start="", **more):
    given = {"on_gap": "fail", "unchanged": False, **more}
    return WatchTask(
        Source(f"file://{written.path}", "t"), asked(k), start, given["on_gap"], given["unchanged"], uuid.uuid4().hex
    )


@settings(max_examples=15)
@given(COMMITS, st.randoms(use_true_random=False))
def test_an_instant_changes_the_same_whenever_it_is_asked(place, commits, order):
    written = WrittenTable(place(), dimension=2, partitioned=False)
    rankings = [ranked_before_anything()]
    for commit in commits:
        files = {
            ("", name): [Row(10 * "abc".index(name) + key, "", 1.0, "n", point) for key, point in group.items()]
            for name, group in commit.items()
        }
        written.commit(files)
        whole = ranked(asked(3), snapshot_of(written))
        rankings.append([whole.ranks(query) for query in range(len(QUERIES))])
    instants = list(NativeTable(Source(f"file://{written.path}", "t")).timeline().commits)
    in_order = watch(written, 3)
    told = [list(in_order.changes(instant)) for instant in instants]
    shuffled = list(range(len(instants)))
    order.shuffle(shuffled)
    for at in shuffled:
        noted = list(watch(written, 3).changes(instants[at]))
        plain = [[(n.query, n.change, n.key, n.from_rank, n.to_rank) for n in found] for found in (noted, told[at])]
        assert noted == told[at]
        assert plain[0] == plain[1]
        wanted = [
            (query, c.change, c.key, c.from_rank, c.to_rank)
            for query in range(len(QUERIES))
            for c in changes_between(rankings[at][query], rankings[at + 1][query])
        ]
        assert plain[0] == wanted


def ranked_before_anything():
    return [{} for _ in QUERIES]


def test_instants_before_the_start_say_nothing_and_queries_without_changes_may(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    commit(written, a=[row(1, 0), row(2, 1)])
    commit(written, b=[row(11, 900)])
    first, second = NativeTable(Source(f"file://{written.path}", "t")).timeline().commits
    assert list(watch(written, start=first.completed).changes(first)) == []
    assert list(watch(written).changes(second)) == []
    found = list(watch(written, unchanged=True).changes(second))
    assert [(n.query, n.change, n.key, n.computed) for n in found] == [
        (query, "unchanged", None, "changed files") for query in range(3)
    ]


def archive(written, instant):
    """Take an instant from the active timeline, as Hudi's archival does."""
    history = written.timeline / "history"
    history.mkdir(exist_ok=True)
    (written.timeline / instant.name).unlink()
    columns = {"instantTime": instant.requested, "completionTime": instant.completed, "action": instant.action}
    table = pa.table({name: [value] for name, value in columns.items()})
    pq.write_table(table, history / f"{instant.requested}_{instant.requested}_0.parquet")


def test_a_gap_is_told_or_filled_with_whole_rankings(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    commit(written, a=[row(1, 0), row(2, 1)])
    commit(written, a=[row(1, 0), row(3, 0.5)])
    first, second = NativeTable(Source(f"file://{written.path}", "t")).timeline().commits
    archive(written, first)
    for instant, why in ((second, "the commit before it was archived"), (first, "it was archived before the stream")):
        with pytest.raises(InstantNotAvailableError, match=f"instant {instant.requested} changed .* {why}"):
            list(watch(written).changes(instant))
    found = list(watch(written, on_gap="snapshot").changes(second))
    assert [(n.query, n.change, n.key, n.to_rank) for n in found][:2] == [
        (0, "snapshot", "1", 1),
        (0, "snapshot", "3", 2),
    ]
    done = written.next_instant()
    written.complete(written.next_instant(), action="restore", done=done)
    restored = Instant("20270101000000000", done, "restore")
    with pytest.raises(InstantNotAvailableError, match="was restored to an earlier state"):
        list(watch(written).changes(restored))
    assert {n.change for n in watch(written, on_gap="snapshot").changes(restored)} == {"snapshot"}


def test_commits_that_were_archived_after_a_savepoint_are_a_gap(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    for distance in (1, 2, 3):
        commit(written, a=[row(1, distance)])
    saved, archived, last = NativeTable(Source(f"file://{written.path}", "t")).timeline().commits
    written.complete(saved.requested, action="savepoint")
    assert [(n.from_rank, n.to_rank) for n in watch(written).changes(last)][:1] == [(1, 1)], "there is no gap yet"
    archive(written, archived)
    with pytest.raises(InstantNotAvailableError, match="the commit before it was archived"):
        list(watch(written).changes(last))
    assert {n.change for n in watch(written, on_gap="snapshot").changes(last)} == {"snapshot"}


def test_files_that_were_cleaned_are_a_gap(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    commit(written, a=[row(1, 0), row(2, 1)])
    commit(written, a=[row(1, 0), row(3, 0.5)])
    first, second = NativeTable(Source(f"file://{written.path}", "t")).timeline().commits
    written.remove("", "a", first.requested)
    written.complete(written.next_instant(), action="clean", earliest=second.requested)
    with pytest.raises(InstantNotAvailableError, match=r"were cleaned away.*on_gap='snapshot'"):
        list(watch(written).changes(second))
    found = list(watch(written, on_gap="snapshot").changes(second))
    assert [n.key for n in found if n.query == 0] == ["1", "3"]
    assert list(watch(written, on_gap="snapshot").changes(first)) == []


def commit(written, **groups):
    written.commit({("", name): rows for name, rows in groups.items()})
    return snapshot_of(written)


def row(number, x):
    return Row(number, "", 1.0, "n", (float(x), 0.0))


def test_a_fresh_search_only_where_a_row_may_come_from_elsewhere(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    question = asked(2)
    before = ranked(question, commit(written, a=[row(1, 0), row(2, 1)], b=[row(11, 5), row(12, 6)]))
    # A nearer row comes: nothing else has to be looked at.
    nearer = advanced(question, before, commit(written, a=[row(1, 0), row(2, 1), row(3, 0.5)]))
    assert [m.key for m in nearer.members[0]] == ["1", "3"]
    assert 0 not in nearer.searched
    # The second falls behind what the other file group holds.
    fallen = advanced(question, nearer, commit(written, a=[row(1, 0), row(2, 7), row(3, 8)]))
    assert [m.key for m in fallen.members[0]] == ["1", "11"]
    assert 0 in fallen.searched
    # A member of two is gone.
    gone = advanced(question, fallen, commit(written, a=[row(2, 7)]))
    assert [m.key for m in gone.members[0]] == ["11", "12"]
    assert 0 in gone.searched
    # The file group is written anew, its rows are as they were.
    same = advanced(question, gone, commit(written, b=[row(11, 5), row(12, 6)]))
    assert [m.key for m in same.members[0]] == ["11", "12"]
    assert same.searched == frozenset()


def test_fewer_than_k_rows_are_all_there_are(tmp_path):
    written = WrittenTable(tmp_path / "t", dimension=2, partitioned=False)
    question = asked(5)
    before = ranked(question, commit(written, a=[row(1, 0)], b=[row(11, 5)]))
    after = advanced(question, before, commit(written, b=[row(12, 6)]))
    assert [m.key for m in after.members[0]] == ["1", "12"]
    assert after.searched == frozenset()


def test_a_row_that_changes_its_distance_alone_has_moved():
    before = {("a", "p"): (1, 0.25), ("b", "p"): (2, 0.5), ("c", "p"): (3, 0.75)}
    after = {("b", "p"): (1, 0.25), ("d", "p"): (2, 0.3), ("c", "p"): (3, 0.75)}
    found = [
        (c.change, c.key, c.from_rank, c.to_rank, c.from_distance, c.to_distance)
        for c in changes_between(before, after)
    ]
    assert found == [
        ("moved", "b", 2, 1, 0.5, 0.25),
        ("entered", "d", None, 2, None, 0.3),
        ("left", "a", 1, None, 0.25, None),
    ]
