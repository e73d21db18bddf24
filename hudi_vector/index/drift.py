"""Whether vectors drifted away from those that an index's model was trained on, told by figures of its segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hudi_vector.index.kinds.joined import AnySegment
from hudi_vector.index.kinds.segment import Segment

__all__ = ["UNKNOWN", "Quality", "mean_quality", "quality_of", "retraining"]

_MORE_ERROR = 1.5
_MORE_IMBALANCE = 2.0
_MANY_CLIPPED = 0.05
_EXACT_KINDS = frozenset({"ivf_flat", "hnsw"})


@dataclass(frozen=True)
class Quality:
    """How well a model fits vectors.

    `error` is the mean distance of a vector from its code; `imbalance` how many times more codes a probe of one list
    looks at than if all lists were of one length, 1 at the least but for chance.
    """

    error: float = 0.0
    imbalance: float = 0.0


UNKNOWN = Quality()
"""Of what nobody measured."""


def quality_of(segment: AnySegment) -> Quality:
    """The quality of one segment.

    Args:
        segment: The segment.

    Returns:
        Its quality; zeros where it has less than two codes, or a graph.
    """
    count = len(segment)
    if count < 2 or not isinstance(segment, Segment):
        return UNKNOWN
    sizes = np.diff(segment.offsets).astype(np.float64)
    # Of pairs of rows, how many share a list: so a small file tells no more imbalance than a large one.
    shared = float((sizes * (sizes - 1)).sum()) / (count * (count - 1.0))
    return Quality(float(segment.error.mean(dtype=np.float64)), shared * len(sizes))


def mean_quality(parts: Iterable[tuple[int, Quality]]) -> Quality:
    """The quality of several segments.

    Args:
        parts: The rows and the quality of each; those without figures do not count.

    Returns:
        The mean by rows.
    """
    told = [(rows, quality) for rows, quality in parts if quality.imbalance]
    rows = sum(weight for weight, _ in told)
    if not rows:
        return UNKNOWN
    return Quality(
        sum(weight * quality.error for weight, quality in told) / rows,
        sum(weight * quality.imbalance for weight, quality in told) / rows,
    )


def retraining(kind: str, trained: Quality, now: Quality, clipped: int, rows: int) -> str:
    """Why an index should be made anew, as one sentence, or nothing.

    Args:
        kind: The kind of index.
        trained: The quality of the segments that were made when the model was.
        now: The quality of those of the newest snapshot.
        clipped: Their rows with a value outside of the model's range.
        rows: Their rows.

    Example:
        >>> retraining("ivf_sq8", Quality(0.1, 1.5), Quality(0.2, 1.5), 0, 100)[:60]
        'vectors lie 2.0 times as far from their codes as when the mo'
    """
    why = ""
    if rows and clipped > _MANY_CLIPPED * rows:
        why = f"{clipped} of {rows} rows have a value outside the range the model was trained on"
    elif kind not in _EXACT_KINDS and trained.error and now.error > _MORE_ERROR * trained.error:
        why = f"vectors lie {now.error / trained.error:.1f} times as far from their codes as when the model was trained"
    elif trained.imbalance and now.imbalance > _MORE_IMBALANCE * trained.imbalance:
        why = (
            f"lists are {now.imbalance / trained.imbalance:.1f} times as uneven as when the model was trained, and "
            "probes look at as many more codes"
        )
    return f"{why}; make the index anew with hudi_vector.index.create" if why else ""
