"""Calibration: how many lists and candidates an index needs for a recall, measured on held-out queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.manifest import Setting
from hudi_vector.kernels.topk import Ints

__all__ = ["calibrate", "setting_at", "setting_for", "settings_at"]

_WIDENINGS = (1, 2, 5, 10, 20)
_FEWEST_CANDIDATES, _MOST_CANDIDATES = 10, 5000
_ERRORS = 1.645
"""How many standard errors of a mean recall its margin has: in 19 of 20 samples the mean of all queries is above it."""
_CANDIDATE_COST = 2000
"""What reading one candidate's vector from its file costs, in codes scored: about 0.1 ms against 50 ns."""


def calibrate(
    view: View, queries: npt.NDArray[Any], segments: Ints, positions: Ints, k: int = 10
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
        Settings that no other one beats in both recall and cost, cheapest first, with the margins that so many queries
        leave; none where there is no true row.

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

    def measure(nprobes: int, candidates: int) -> Setting:
        found = view.candidates(queries, k, nprobes=nprobes, candidates=candidates, certain=False)
        hit = np.isin(truth, _keys(view, found.query, found.segment, found.position))
        scored = round(found.scored_codes / len(queries))
        return Setting(nprobes, candidates, float(hit.mean()), scored, k, _margin(query, hit))

    least = max(k, _FEWEST_CANDIDATES)
    counts = [least * widening for widening in _WIDENINGS if widening == 1 or least * widening <= _MOST_CANDIDATES]
    measured, before = [], 0.0
    for nprobes in view.efforts:
        here = [measure(nprobes, counts[-1]), measure(nprobes, counts[0])]
        for count in counts[1:-1]:
            if here[-1].recall >= here[0].recall:
                break  # more candidates cost more and find nothing more
            here.append(measure(nprobes, count))
        measured.extend(here)
        if here[0].recall == 1.0 and (here[1].recall == 1.0 or here[1].recall <= before):
            break  # and so do more lists
        before = here[1].recall
    return _best(measured)


def settings_at(settings: Sequence[Setting], k: int) -> list[Setting]:
    """The settings a search of k rows may go by: those of the next k that was measured.

    Args:
        settings: From `calibrate`, for one k or several.
        k: How many rows the search wants.

    Returns:
        The settings; none where only smaller k were measured.

    Example:
        >>> ten, hundred = Setting(1, 10, 0.9, 100, 10), Setting(4, 200, 0.9, 400, 100)
        >>> [settings_at([ten, hundred], k) for k in (7, 11, 101)] == [[ten], [hundred], []]
        True
    """
    measured = min((setting.k for setting in settings if setting.k >= k), default=None)
    return [setting for setting in settings if setting.k == measured]


def setting_at(settings: Sequence[Setting], k: int, target: float) -> Setting | None:
    """The setting a search of k rows goes by.

    The candidates that find a part of the nearest of many rows find at least as large a part of fewer. Of lists more
    are looked at than a setting says where they hold fewer than k rows, so that a search of fewer rows needs at least
    as many as the k below. Where the margin of few rows is too wide, since each query tells little, a setting that is
    good for more rows is taken.

    Args:
        settings: From `calibrate`, for one k or several.
        k: How many rows the search wants.
        target: The recall wanted, above 0 to 1.

    Returns:
        The setting, or None where none reached the recall, or only smaller k were measured.

    Example:
        >>> ten, hundred = Setting(4, 10, 0.9, 400, 10), Setting(1, 200, 0.9, 100, 100)
        >>> setting_at([ten, hundred], 40, 0.9)
        Setting(nprobes=4, candidates=200, recall=0.9, scored=100, k=100, margin=0.0)
    """
    above = sorted({setting.k for setting in settings if setting.k >= k})
    reached = (setting_for(settings_at(settings, measured), target) for measured in above)
    chosen = next((setting for setting in reached if setting is not None), None)
    below = max((setting.k for setting in settings if setting.k < k), default=None)
    if chosen is None or chosen.k == k or below is None:
        return chosen
    fewer = settings_at(settings, below)
    lower = setting_for(fewer, target) or max(fewer, key=lambda setting: setting.recall)
    return replace(chosen, nprobes=max(chosen.nprobes, lower.nprobes))


def setting_for(settings: Sequence[Setting], target: float) -> Setting | None:
    """The cheapest setting that reached a recall, its margin taken off.

    Args:
        settings: From `calibrate`, for one k.
        target: The recall wanted, above 0 to 1.

    Returns:
        The setting, or None where none reached it: then the search is certain instead.

    Example:
        >>> few, many = Setting(1, 10, 0.8, 100), Setting(8, 20, 0.97, 800)
        >>> setting_for([few, many], 0.95).nprobes
        8
    """
    return min((setting for setting in settings if setting.least >= target), key=_cost, default=None)


def _cost(setting: Setting) -> int:
    return setting.scored + _CANDIDATE_COST * setting.candidates


def _margin(query: Ints, hit: npt.NDArray[np.bool_]) -> float:
    """By how much the mean recall of all queries may be below that of these, by the pairs that were found or not.

    Rows of one query are found together or missed together, so that queries are counted and not pairs. The error is at
    least that of pairs which are found each by itself, one of them missed: a few queries that find all prove little.
    """
    asked, pairs = np.unique(query, return_counts=True)
    shares = np.bincount(query, hit)[asked] / pairs
    missed = (np.count_nonzero(~hit) + 1) / (len(hit) + 2)
    variance = max(float(shares.var()), missed * (1 - missed) / float(pairs.mean()))
    return _ERRORS * float(np.sqrt(variance / len(shares)))


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
