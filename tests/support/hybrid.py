"""Rows with several vector columns, a hybrid search of files, and the brute force that one is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.hybrid.checks import as_probe
from hudi_vector.query.hybrid.question import HybridColumn, HybridQuestion, question_of
from hudi_vector.query.hybrid.run import HybridAsked, HybridWinners, run_hybrid
from hudi_vector.query.local import run_local
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.report import Progress
from hudi_vector.query.tuning import Tuning
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.predicate.form import parse
from hudi_vector.read.sparse import sparse_column_of
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage import StorageOptions
from support import oracle


@dataclass(frozen=True)
class Asked:
    """One column of a hybrid search: its vectors by key (None for NULL), a query, a metric, a weight."""

    vectors: Mapping[str, Any]
    query: Any
    metric: str = "cosine"
    weight: float = 1.0


def distances(vectors: Sequence[Any], query: Any, metric: str) -> list[float]:
    """The distances of vectors to a query, all of them arrays or all of them dicts, by the plain formulas."""
    if isinstance(query, Mapping):
        return [_sparse_distance(vector, query, metric) for vector in vectors]
    return oracle.distances(np.array(vectors), query, metric).tolist() if vectors else []  # type: ignore[no-any-return]


def _sparse_distance(vector: Mapping[Any, float], query: Mapping[Any, float], metric: str) -> float:
    union = sorted({*vector, *query})
    row, asked = ([entries.get(index, 0.0) for index in union] or [0.0] for entries in (vector, query))
    return float(oracle.distances(np.array([row]), np.array(asked), metric)[0])


def score_of(found: float, metric: str) -> float:
    """Larger is better."""
    if metric == "l2":
        return 1 / (1 + found)
    return 1 - found if metric == "cosine" else -found


def brute_force(
    asked: Sequence[Asked], k: int, fusion: str = "weighted", normalize: bool = False
) -> list[tuple[float, str, list[float]]]:
    """(score, key, distances) of the k best rows, those of equal score by key."""
    keys = [key for key in asked[0].vectors if all(one.vectors[key] is not None for one in asked)]
    columns = [distances([one.vectors[key] for key in keys], one.query, one.metric) for one in asked]
    far = {key: [column[place] for column in columns] for place, key in enumerate(keys)}
    total = dict.fromkeys(keys, 0.0)
    for one, known in zip(asked, columns, strict=True):
        column = np.array(known)
        scores = [score_of(value, one.metric) for value in column]
        if normalize and keys:
            worst, span = min(scores), max(scores) - min(scores)
            scores = [(score - worst) / span if span else 0.0 for score in scores]
        nearer = np.searchsorted(np.sort(column), column)
        for key, score, before in zip(keys, scores, nearer, strict=True):
            total[key] += one.weight / (61 + before) if fusion == "rrf" else one.weight * score
    ordered = sorted(keys, key=lambda key: (-total[key], key.encode()))
    return [(total[key], key, far[key]) for key in ordered[:k]]


def assert_same(got: Sequence[tuple[float, str, Sequence[float]]], wanted: Sequence[tuple[float, str, Any]]) -> None:
    """As many rows, with these scores and distances; keys may change places only where scores nearly tie."""
    assert len(got) == len(wanted), f"{len(got)} rows, expected {len(wanted)}"
    np.testing.assert_allclose([row[0] for row in got], [row[0] for row in wanted], rtol=1e-6, atol=1e-9)
    assert [row[0] for row in got] == sorted((row[0] for row in got), reverse=True)
    gaps = -np.diff([row[0] for row in wanted])
    if ((gaps > 1e-9) | (gaps == 0)).all():
        assert [row[1] for row in got] == [row[1] for row in wanted]
        for row, expected in zip(got, wanted, strict=True):
            np.testing.assert_allclose(row[2], expected[2], rtol=1e-6, atol=1e-7)


COLUMNS = {
    "a": VectorColumn("a", 6, "float", is_vector=False),
    "b": VectorColumn("b", 3, "double", is_vector=False),
    "s": sparse_column_of(pa.field("s", pa.map_(pa.int32(), pa.float32()))),
    "w": sparse_column_of(pa.field("w", pa.map_(pa.string(), pa.float64()))),
    "t": sparse_column_of(
        pa.field("t", pa.struct([("indices", pa.list_(pa.int64())), ("values", pa.list_(pa.float64()))]))
    ),
}


def planned(files: Sequence[str], k: int, condition: str | None = None, grouping: Grouping | None = None) -> SearchPlan:
    """The plan of a hybrid search of files."""
    snapshot = PlainFiles(files, StorageOptions()).snapshot()
    request = SearchRequest(
        column=VectorColumn("", 0, "float"),
        metric="l2",
        k=k,
        predicate=parse(condition, snapshot.schema) if condition else None,
        execution="local",
        tuning=Tuning(mode="exact", grouping=None if grouping is None else replace(grouping, drop_nulls=False)),
    )
    return make_plan(snapshot, request, {})


def question_in(
    asked: Sequence[tuple[str, Asked]],
    k: int,
    grouping: Grouping | None = None,
    fusion: str = "weighted",
    normalize: bool = False,
) -> HybridQuestion:
    """The question of one query for each of some columns in `COLUMNS`."""
    columns = [HybridColumn(COLUMNS[name], one.metric, one.weight) for name, one in asked]
    probes = [as_probe(one.query, COLUMNS[name], "t") for name, one in asked]
    return question_of(columns, probes, k, fusion, normalize, grouping)


def found_in(
    files: Sequence[str],
    asked: Sequence[tuple[str, Asked]],
    k: int,
    condition: str | None = None,
    keep: bool = True,
    groups: Sequence[Sequence[int]] | None = None,
    grouping: Grouping | None = None,
    **more: Any,
) -> tuple[list[tuple[Any, ...]], Progress]:
    """(score, id, distances) of what is found, with a grouping also the rank of its group, and the progress.

    `groups` are the slices that one task searches.
    """
    plan, question = planned(files, k, condition, grouping), question_in(asked, k, grouping, **more)
    progress = Progress()
    if groups is None:
        won = HybridWinners.of(run_local(plan, HybridAsked.of(question), {}, progress), question)
    else:
        entries = list(enumerate(plan.slices))
        won = run_hybrid(plan, question, [tuple(entries[i] for i in g) for g in groups], map, keep, progress)
    names = fetch_rows(plan, won.winners, ["id"], keep=False).column("id").to_pylist() if len(won.winners) else []
    ranks = [] if won.winners.group_rank is None else [won.winners.group_rank.tolist()]
    return list(zip(won.score.tolist(), names, won.distances.tolist(), *ranks, strict=True)), progress
