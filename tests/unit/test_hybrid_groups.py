"""Hybrid search for groups without Spark, against brute force over all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import hybrid
from support.grouped import best_groups
from support.hybrid import found_in, planned, question_in

from hudi_vector.kernels.groups import SpanPool
from hudi_vector.kernels.topk import Bounds, Hits
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.grouping.keys import group_keys
from hudi_vector.query.hybrid import groups, ladder
from hudi_vector.query.hybrid.ladder import Ladder, candidates_of_groups
from hudi_vector.query.hybrid.run import HybridAsked
from hudi_vector.query.local import ThreadedSlices, run_local
from hudi_vector.query.report import Progress

HOWS: list[dict[str, Any]] = [{}, {"normalize": True}, {"fusion": "rrf"}]
METRICS = {"a": "l2", "b": "dot_product", "s": "dot_product"}


def made_rows(count: int, seed: int = 1, crowd: int = 0) -> tuple[dict[str, Any], ...]:
    """Rows of small whole numbers, so that scores are exact and tie; `crowd` rows of one document are the nearest."""
    numbers = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        crowds = i < crowd
        document = int(numbers.integers(0, 60))
        size = int(numbers.integers(1, 5))
        terms = dict(zip(numbers.permutation(12)[:size].tolist(), numbers.integers(-3, 4, size).tolist(), strict=True))
        rows.append(
            {
                "doc": "crowd" if crowds else None if document % 11 == 0 else f"doc {document}",
                "lang": "abc"[document % 3],
                "year": None if i % 17 == 0 else [float("nan"), 0.0, -0.0, 2.5][i % 4],
                "price": float(i % 10),
                "a": None
                if i % 31 == 0
                else ((0 if crowds else 8) + numbers.integers(-2, 3, 6)).astype(float).tolist(),
                "b": None
                if i % 47 == 0
                else ((7 if crowds else 0) + numbers.integers(-3, 4, 3)).astype(float).tolist(),
                "s": None if i % 53 == 0 else {key: float(value) for key, value in terms.items()},
            }
        )
    return tuple({**rows[n], "id": f"{i:05d}"} for i, n in enumerate(numbers.permutation(count)))


def written(folder: Any, rows: tuple[Any, ...], files: int = 3) -> list[str]:
    paths = []
    for part, own in enumerate(np.array_split(np.arange(len(rows)), files)):
        mine = [rows[i] for i in own]
        columns = {name: [row[name] for row in mine] for name in ("id", "doc", "lang", "year", "price")}
        kinds = [pa.string(), pa.string(), pa.string(), pa.float64(), pa.float64()]
        table = pa.table(
            {
                **{name: pa.array(values, kind) for (name, values), kind in zip(columns.items(), kinds, strict=True)},
                "a": pa.array([row["a"] for row in mine], pa.list_(pa.float32())),
                "b": pa.array([row["b"] for row in mine], pa.list_(pa.float64())),
                "s": pa.array(
                    [None if row["s"] is None else list(row["s"].items()) for row in mine],
                    pa.map_(pa.int32(), pa.float32()),
                ),
            }
        )
        paths.append(str(folder / f"{part}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=110)
    return paths


QUERIES = {"a": [1.0, 0.0, -1.0, 2.0, 0.0, 1.0], "b": [1.0, 1.0, 1.0], "s": {1: 1.0, 2: 2.0, 5: -1.0, 30: 4.0}}


def asking(rows: tuple[Any, ...], names: tuple[str, ...], weights: tuple[float, ...]) -> list[tuple[str, Any]]:
    return [
        (name, hybrid.Asked({row["id"]: row[name] for row in rows}, QUERIES[name], METRICS[name], weight))
        for name, weight in zip(names, weights, strict=True)
    ]


def ordered(rows: tuple[Any, ...], names: tuple[str, ...], weights: tuple[float, ...], **how: Any) -> list[Any]:
    """All rows by brute force, the best first; kept, since many tests ask for the same."""
    key = (id(rows), names, weights, *how.items())
    if key not in ORDERED:
        ORDERED[key] = hybrid.brute_force([one for _, one in asking(rows, names, weights)], len(rows), **how)
    return ORDERED[key]


ORDERED: dict[Any, list[Any]] = {}


def best_of(every: list[Any], rows: tuple[Any, ...], k: int, grouping: Grouping) -> list[tuple[Any, ...]]:
    """(score, id, distances, rank of the group) of the rows that a search finds, of all rows by score."""
    values = {row["id"]: tuple(row[name] for name in grouping.columns) for row in rows}
    best = best_groups(every, lambda found: values[found[1]], k, grouping.per_group, grouping.drop_nulls)
    return [(*found, rank) for rank, found in best]


def got(files: list[str], asked: list[tuple[str, Any]], k: int, grouping: Grouping, **more: Any) -> Any:
    return found_in(files, asked, k, grouping=grouping, **more)[0]


ROWS = made_rows(900)
CROWDED = made_rows(1600, seed=2, crowd=1100)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written(tmp_path_factory.mktemp("groups"), ROWS)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """One document has the first thousand ranks of both dense columns."""
    return written(tmp_path_factory.mktemp("crowded"), CROWDED)


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize(
    ("names", "weights"),
    [(("s", "a", "b"), (0.5, 1.0, 0.25)), (("b",), (1.0,)), (("a", "s"), (0.0, 2.0))],
)
def test_the_rows_are_those_of_the_oracle(files, names, weights, how):
    asked, every = asking(ROWS, names, weights), ordered(ROWS, names, weights, **how)
    for k, grouping in (
        (1, Grouping(("doc",))),
        (7, Grouping(("doc",), 3)),
        (7, Grouping(("doc",), 2, drop_nulls=True)),
        (200, Grouping(("doc", "lang"))),
        (5, Grouping(("year",), 2, drop_nulls=True)),
        (3, Grouping(("lang",), 500)),
    ):
        assert got(files, asked, k, grouping, **how) == best_of(every, ROWS, k, grouping)


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize(("names", "weights"), [(("a", "b"), (1.0, 1.0)), (("b", "a", "s"), (3.0, 1.0, 0.5))])
def test_one_group_may_crowd_the_first_ranks(crowded, names, weights, how, monkeypatch):
    monkeypatch.setattr(groups, "_AT_FIRST", 7)  # so few pairs at a time, and so few rungs, are those of a large table
    for name, count in (("_FIRST", 6), ("_MORE", 6), ("_HELD", 20)):
        monkeypatch.setattr(ladder, name, count)
    asked, every = asking(CROWDED, names, weights), ordered(CROWDED, names, weights, **how)
    documents = {row["id"]: row["doc"] for row in CROWDED}
    for column in (0, 1):
        nearest = sorted(every, key=lambda found: found[2][column])[:1000]
        assert {documents[key] for _, key, _ in nearest} == {"crowd"}
    for k, per_group in ((1, 1), (2, 3), (10, 1), (10, 3), (100, 2)):
        grouping = Grouping(("doc",), per_group)
        assert got(crowded, asked, k, grouping, **how) == best_of(every, CROWDED, k, grouping)


@pytest.mark.parametrize("k", [1, 5, 100])
def test_a_group_that_crowds_has_few_candidates(crowded, k):
    """Of 1,100 rows; without bounds for each group, all would be, since their ranks are before those of the others."""
    asked, grouping = asking(CROWDED, ("a", "b"), (1.0, 1.0)), Grouping(("doc",))
    question = HybridAsked.of(question_in(asked, k, grouping, fusion="rrf"))
    slices = ThreadedSlices(planned(crowded, k, grouping=grouping), map)
    found = list(slices.search(question.with_ladder(slices), question.bounds()))
    hits = Hits.joined([part.hits for parts, _ in found for part in parts])
    near = candidates_of_groups(question, hits, is_of_members=False)
    crowd = group_keys(pa.table({"doc": ["crowd"]}))[0]
    assert 1 <= (hits.group[near] == crowd).sum() < 200


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_filter_chooses_the_rows_before_scores_and_ranks_and_groups_do_not(files, how):
    kept = tuple(row for row in ROWS if row["price"] < 4)
    asked, grouping = asking(kept, ("a", "s"), (1.0, 0.5)), Grouping(("doc",), 2, drop_nulls=True)
    every = hybrid.brute_force([one for _, one in asked], len(kept), **how)
    assert got(files, asked, 6, grouping, condition="price < 4", **how) == best_of(every, kept, 6, grouping)
    assert got(files, asked, 6, grouping, condition="price < 0", **how) == []
    assert got(files, asked, 6, grouping, groups=[], **how) == []


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_every_division_of_the_slices_gives_the_same_bits(files, how):
    asked, grouping = asking(ROWS, ("a", "b", "s"), (1.0, 0.5, 0.25)), Grouping(("doc",), 2)
    one = got(files, asked, 20, grouping, **how)
    for tasks in ([[0, 1, 2]], [[2], [1], [0]], [[1, 2], [0]]):
        assert got(files, asked, 20, grouping, groups=tasks, keep=False, **how) == one


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_many_queries_are_answered_as_single_queries_are(crowded, how):
    grouping, names = Grouping(("doc",), 2), ("a", "b", "s")
    plan, singles = planned(crowded, 6, grouping=grouping), []
    for seed in range(3):
        turned = {"a": np.roll(QUERIES["a"], seed), "b": QUERIES["b"], "s": {2 * seed: 1.5, 3: -float(seed)}}
        asked = [(name, hybrid.Asked({}, turned[name], METRICS[name])) for name in names]
        singles.append(question_in(asked, 6, grouping, **how))
    probes = tuple(
        sum(parts, ()) if isinstance(parts[0], tuple) else np.concatenate(parts)
        for parts in zip(*(single.probes for single in singles), strict=True)
    )
    many = run_local(plan, HybridAsked.of(replace(singles[0], probes=probes)), {}, Progress())
    for number, single in enumerate(singles):
        own, alone = many.take(many.query == number), run_local(plan, HybridAsked.of(single), {}, Progress())
        for name in ("distance", "rank", "slice_index", "position", "by_column", "group_rank"):
            assert np.array_equal(getattr(own, name), getattr(alone, name)), name


SMALL = st.integers(-2, 2).map(float)
DRAWN = st.tuples(
    st.sampled_from([None, "x", "y", "z", "w"]),
    st.one_of(st.none(), st.lists(SMALL, min_size=6, max_size=6)),
    st.lists(SMALL, min_size=3, max_size=3),
    st.dictionaries(st.integers(0, 5), SMALL, max_size=3),
)
WEIGHT = st.sampled_from([0.25, 1.0, 3.0])
OTHER = {"rrf": WEIGHT | st.just(0.0), "weighted": WEIGHT | st.sampled_from([0.0, -0.5])}


@settings(max_examples=40, deadline=None)
@given(data=st.data(), how=st.sampled_from(HOWS), drawn=st.lists(DRAWN, min_size=1, max_size=40))
def test_any_rows_give_the_groups_of_the_oracle(tmp_path_factory, data, how, drawn):
    crowd = data.draw(st.integers(0, 150), "rows of a group at the head")
    drawn = [*drawn, *[("x", QUERIES["a"], QUERIES["b"], {2: 2.0})] * crowd]
    rows = tuple(
        {"id": f"{i:05d}", "doc": doc, "lang": None, "year": None, "price": 0.0, "a": a, "b": b, "s": s}
        for i, (doc, a, b, s) in enumerate(data.draw(st.permutations(drawn)))
    )
    files = written(tmp_path_factory.mktemp("any"), rows, data.draw(st.integers(1, 3)))
    other = OTHER[how.get("fusion", "weighted")]
    asked = asking(rows, ("a", "s", "b"), data.draw(st.tuples(WEIGHT, other, other)))
    grouping = Grouping(("doc",), data.draw(st.integers(1, 4)), data.draw(st.booleans()))
    k = data.draw(st.integers(1, 6))
    every = hybrid.brute_force([one for _, one in asked], len(rows), **how)
    assert got(files, asked, k, grouping, **how) == best_of(every, rows, k, grouping)


@given(st.lists(st.integers(0, 30).map(float), max_size=40), st.data())
def test_a_ladder_bounds_every_rank(distances, data):
    rungs = np.unique(data.draw(st.lists(st.sampled_from([*distances, 7.5]), max_size=8)))
    column = np.array(distances)
    bounds = Ladder(((rungs,),), [[np.array([(column < rung).sum() for rung in rungs], np.int64)]])
    nearer = [(column < value).sum() for value in distances]
    assert (bounds.fewest(0, 0, column) <= nearer).all()
    assert (nearer <= bounds.most(0, 0, column)).all()


SPANS = st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4))


@given(st.lists(SPANS, max_size=30), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 29))
def test_a_pool_keeps_every_row_that_may_be_among_the_best(spans, k, count, of_given, cut):
    """Each row has a query, a group, and a distance between two limits."""
    query, group, distance = (np.array([span[n] for span in spans], np.int64) for n in range(3))
    least, largest = (distance + sign * np.array([span[n] for span in spans], float) for sign, n in ((-1, 3), (1, 4)))
    count = count if of_given else 1
    pool = SpanPool(count, None if of_given else k, Bounds.of(2))
    for part in (slice(0, cut), slice(cut, None)):
        positions = np.arange(len(spans))[part]
        pool.add(Hits(query[part], least[part], positions, largest[part, None], group[part]))
        pool.hits()
    kept = set(pool.hits().position.tolist())
    for asked in (0, 1):
        order = [n for n in np.argsort(distance, kind="stable").tolist() if query[n] == asked]
        assert {n for _, n in best_groups(order, lambda n: int(group[n]), 4 if of_given else k, count)} <= kept
