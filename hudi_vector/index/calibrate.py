"""Calibration: how many lists and candidates an index needs for a recall, measured on held-out queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.candidates import View
from hudi_vector.index.manifest import Setting
from hudi_vector.kernels.topk import Ints

__all__ = ["CALIBRATED_K", "calibrate", "setting_for"]

CALIBRATED_K = 10
"""How many rows the searches of a calibration want."""

_WIDENINGS = (1, 2, 5, 10, 20)
_CANDIDATE_COST = 2000
"""What reading one candidate's vector from its file costs, in codes scored: about 0.1 ms against 50 ns."""


def calibrate(
    view: View, queries: npt.NDArray[Any], segments: Ints, positions: Ints, k: int = CALIBRATED_K
) -> tuple[Setting, ...]:
    """Measure which part of the true nearest rows is found, with few lists and candidates and with many.

    Candidates are ranked by exact distances later, so a true row is found if it is among them.

    Args:
        view: The index.
        queries: Held-out queries, shape (m, d), not among the rows the model was trained on.
        segments: For each query the segments of its k true nearest rows, shape (m, k).
        positions: Their positions in these segments' base files, shape (m, k); -1 where there are fewer than k rows.
        k: How many rows a search wants.

    Returns:
        Settings that no other one beats in both recall and cost, cheapest first; none where there is no true row.

    Raises:
        InvalidArgumentError: The true rows are not of shape (m, k).
    """
    if segments.shape != (len(queries), k) or positions.shape != segments.shape:
        raise InvalidArgumentError(
            f"true rows of shapes {segments.shape} and {positions.shape} were given for {len(queries)} queries; "
            f"both must be ({len(queries)}, {k})"
        )
    known = positions >= 0
    if not known.any():
        return ()
    query = np.repeat(np.arange(len(queries)), k).reshape(known.shape)[known]
    truth = _keys(view, query, segments[known], positions[known])
    measured = []
    for nprobes in view.efforts:
        for widening in _WIDENINGS:
            found = view.candidates(queries, k, nprobes=nprobes, candidates=k * widening, certain=False)
            hit = np.isin(truth, _keys(view, found.query, found.segment, found.position))
            measured.append(Setting(nprobes, k * widening, float(hit.mean()), round(found.scored_codes / len(queries))))
        if measured[-1].recall == 1.0 and measured[-len(_WIDENINGS)].recall == 1.0:
            break  # more lists cost more and find nothing more
    return _best(measured)


def setting_for(settings: Sequence[Setting], target: float) -> Setting | None:
    """The cheapest setting that reached a recall.

    Args:
        settings: From `calibrate`.
        target: The recall wanted, above 0 to 1.

    Returns:
        The setting, or None where none reached it: then the search is certain instead.

    Example:
        >>> few, many = Setting(1, 10, 0.8, 100), Setting(8, 20, 0.97, 800)
        >>> setting_for([few, many], 0.95).nprobes
        8
    """
    return min((setting for setting in settings if setting.recall >= target), key=_cost, default=None)


def _cost(setting: Setting) -> int:
    return setting.scored + _CANDIDATE_COST * setting.candidates


def _keys(view: View, query: Ints, segment: Ints, position: Ints) -> Ints:
    """One number for each (query, row)."""
    keys: Ints = query * (view.bases[-1] + 1) + view.bases[segment] + position
    return keys


def _best(measured: list[Setting]) -> tuple[Setting, ...]:
    kept: list[Setting] = []
    for setting in sorted(measured, key=lambda one: (_cost(one), -one.recall)):
        if not kept or setting.recall > kept[-1].recall:
            kept.append(setting)
    return tuple(kept)
