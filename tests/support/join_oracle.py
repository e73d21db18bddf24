"""The oracle of a KNN join: every pair compared in float64, sorted, the first k kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from support import oracle

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
) -> list[tuple[Row, Row | None, int | None, float | None]]:
    """(left row, right row, rank, distance), by left row and rank; rows that lack a match with None, if wanted."""
    found: list[tuple[Row, Row | None, int | None, float | None]] = []
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
        for rank, (_, _, distance, other) in enumerate(pairs[:k], 1):
            found.append((mine, other, rank, distance))
        if outer and not pairs:
            found.append((mine, None, None, None))
    return found


def is_vector(value: Any) -> bool:
    return value is not None and all(x is not None and np.isfinite(x) for x in value)


def compare(
    got: Iterable[tuple[Any, Any, Any, Any]],
    expected: Iterable[tuple[Row, Row | None, int | None, float | None]],
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
