"""Detection of vectors that drifted away from those that an index's model was trained on, from segment statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hudi_vector.errors import number_of
from hudi_vector.index.kinds.joined import AnySegment
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.segment import Segment

__all__ = ["UNKNOWN", "Quality", "mean_quality", "quality_of", "retraining"]

_MORE_ERROR = 1.5
_MANY_CLIPPED = 0.05


@dataclass(frozen=True)
class Quality:
    """The fit of a model to vectors.

    `error` is the mean distance of a vector from its code. `imbalance` is how many times more codes a probe of one list
    scores than if all lists had equal length: about 1 or more.
    """

    error: float = 0.0
    imbalance: float = 0.0


UNKNOWN = Quality()
"""The quality of segments without statistics."""


def quality_of(segment: AnySegment) -> Quality:
    """Return the quality of one segment, all zeros if it has fewer than two codes or is a graph."""
    count = len(segment)
    if count < 2 or not isinstance(segment, Segment):
        return UNKNOWN
    sizes = np.diff(segment.offsets).astype(np.float64)
    # The share of row pairs in one list, which does not depend on the number of rows in the file.
    shared = float((sizes * (sizes - 1)).sum()) / (count * (count - 1.0))
    return Quality(float(segment.error.mean(dtype=np.float64)), shared * len(sizes))


def mean_quality(parts: Iterable[tuple[int, Quality]]) -> Quality:
    """Return the mean quality of several segments, weighted by rows; segments without statistics do not count."""
    known = [(rows, quality) for rows, quality in parts if quality.imbalance]
    rows = sum(weight for weight, _ in known)
    if not rows:
        return UNKNOWN
    return Quality(
        sum(weight * quality.error for weight, quality in known) / rows,
        sum(weight * quality.imbalance for weight, quality in known) / rows,
    )


def retraining(kind: str, trained: Quality, now: Quality, clipped: int, rows: int) -> str:
    """Return why an index should be made again, as one sentence, or an empty text.

    `trained` is the quality of the segments made together with the model, and `now` that of the newest snapshot's
    segments. These have `rows` rows, of which `clipped` have a value outside the model's range. Codes of parts and bits
    have no range and are judged by their error. Uneven lists are no reason: recall does not follow them.

    Example:
        >>> retraining("ivf_pq", Quality(0.1, 1.5), Quality(0.2, 1.5), 0, 100)[:60]
        'vectors lie 2.0 times as far from their codes as when the mo'
    """
    why = ""
    if rows and clipped > _MANY_CLIPPED * rows:
        why = f"{clipped} of {number_of(rows, 'row')} have a value outside the range the model was trained on"
    elif KINDS[kind].codes in ("parts", "bits") and trained.error and now.error > _MORE_ERROR * trained.error:
        why = f"vectors lie {now.error / trained.error:.1f} times as far from their codes as when the model was trained"
    return f"{why}; make the index again with hudi_vector.index.create" if why else ""
