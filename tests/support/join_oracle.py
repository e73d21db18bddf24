"""The oracle of a KNN join: every pair compared in float64, sorted, the first k kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from support import oracle
from support.grouped import best_groups

Row = Mapping[str, Any]


def joined(
    left: Sequence[Row],
    right: Sequence[Row],
    k: int | None,
    metric: str,
    *,
    left_vector: str = "v",
    right_vector: str = "emb",
    tie: Callable[[Row], Any],
    holds: Callable[[Row, Row], bool | None] = lambda _, __: True,
    max_distance: float | None = None,
    outer: bool = False,
    groups: tuple[Sequence[str], int] | None = None,
) -> list[tuple[Row, Row | None, Any, float | None]]:
    """(left row, right row, rank, distance), by left row and rank; rows that lack a match with None, if wanted.

    With `groups`, right columns and the number of rows of each group, a rank is that of the group and that of the row.
    """
    found: list[tuple[Row, Row | None, Any, float | None]] = []
    for mine in left:
        pairs = []
        if is_vector(mine[left_vector]):
            for other in right:
                if is_vector(other[right_vector]) and holds(mine, other) is True:
                    distance = oracle.distances(np.array([other[right_vector]]), np.asarray(mine[left_vector]), metric)[
                        0
                    ]
                    if max_distance is None or distance <= max_distance:
                        pairs.append((round(float(distance), 9), tie(other), float(distance), other))
        pairs.sort(key=lambda pair: (pair[0], pair[1]))
        if groups is None:
            ranked: list[tuple[Any, Any]] = list(enumerate(pairs[:k], 1))
        else:
            assert k is not None
            best = best_groups(pairs, lambda pair: tuple(pair[3][name] for name in groups[0]), k, groups[1])
            ranked = [((rank, number), pair) for number, (rank, pair) in enumerate(best, 1)]
        for rank, (_, _, distance, other) in ranked:
            found.append((mine, other, rank, distance))
        if outer and not pairs:
            found.append((mine, None, None, None))
    return found


def is_vector(value: Any) -> bool:
    return value is not None and all(x is not None and np.isfinite(x) for x in value)


def compare(
    got: Iterable[tuple[Any, Any, Any, Any]],
    expected: Iterable[tuple[Row, Row | None, Any, float | None]],
    key: str,
) -> None:
    """(left key, right key, rank, distance) are the oracle's."""
    order = lambda row: (row[0], row[2] if row[2] is not None else 0)  # noqa: E731
    wanted = sorted(((a[key], None if b is None else b[key], rank, d) for a, b, rank, d in expected), key=order)
    found = sorted(got, key=order)
    assert [row[:3] for row in found] == [row[:3] for row in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        if theirs[3] is not None:
            assert abs(mine[3] - theirs[3]) <= 1e-9 * max(1.0, abs(theirs[3])), (mine, theirs)
        else:
            assert mine[3] is None
