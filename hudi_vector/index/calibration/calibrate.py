"""Recall by number of probed lists and candidates, measured on held-out queries, and the choice of a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.manifest import Setting
from hudi_vector.kernels.topk import Ints

__all__ = ["calibrate", "setting_at", "setting_for", "settings_at"]

_WIDENINGS = (1, 1.25, 1.5, 2, 3, 5, 10, 20, 50)
_FEWEST_CANDIDATES, _MOST_CANDIDATES = 10, 5000
_ERRORS = 1.645
"""Standard errors in a margin: the recall of all queries exceeds a measured one less its margin in 19 of 20 cases."""
_LEAST_ASKED, _CLEARLY_MORE = 0.8, 0.01
"""The recall from which numbers of lists between powers of two are measured, and the gain that makes them worth it."""
_CANDIDATE_COST = 2000
"""Cost of reading a candidate's vector from its file, in scored codes: about 0.1 ms compared with 50 ns."""


def calibrate(
    view: View, queries: npt.NDArray[Any], segments: Ints, positions: Ints, k: int = 10
) -> tuple[Setting, ...]:
    """Measure the share of the true nearest rows that is found, for increasing numbers of lists and candidates.

    Candidates are ranked by exact distance later, so a true row is found if it is among them. Returns the settings that
    no other beats in both recall and cost, cheapest first, with their margins; none if there is no true row. Raises
    InvalidArgumentError if the true rows do not have shape (m, k).

    Args:
        view: The index.
        queries: Held-out queries, shape (m, d), not among the rows that the model was trained on.
        segments: The segments of each query's k true nearest rows, shape (m, k).
        positions: Their row positions in the base files, shape (m, k); -1 where there are fewer than k rows.
        k: The number of rows that a search wants.
    """
    if segments.shape != (len(queries), k) or positions.shape != segments.shape:
        raise InvalidArgumentError(
            f"true rows of shapes {segments.shape} and {positions.shape} were given for "
            f"{number_of(len(queries), 'query')}; "
            f"both must be ({len(queries)}, {k})"
        )
    known = positions >= 0
    if not known.any():
        return ()
    query = np.repeat(np.arange(len(queries)), k).reshape(known.shape)[known]
    truth = _keys(view, query, segments[known], positions[known])
    least = max(k, _FEWEST_CANDIDATES)
    counts = [int(least * by) for by in _WIDENINGS if by == 1 or least * by <= _MOST_CANDIDATES]

    def searched(nprobes: int, count: int) -> tuple[Ints, int]:
        """Return the place of each true row among its query's candidates, `count` if absent, and the scored codes."""
        found = view.candidates(queries, k, nprobes=nprobes, candidates=count, certain=False)
        keys = _keys(view, found.query, found.segment, found.position)
        return _places(found.query, keys, truth, view.vectors - len(view), count), found.scored_codes

    def measured(nprobes: int, counts: Sequence[int]) -> list[Setting]:
        """Return settings of so many lists: of the most candidates, of the fewest, and of more until they suffice."""
        widest = searched(nprobes, counts[-1])

        def measure(count: int) -> Setting:
            place, scored = widest if view.best_first or count == counts[-1] else searched(nprobes, count)
            hit = place < count
            return Setting(nprobes, count, float(hit.mean()), round(scored / len(queries)), k, _margin(query, hit))

        here = [measure(counts[-1]), measure(counts[0])]
        for count in counts[1:-1]:
            if here[-1].recall >= here[0].recall:
                break  # more candidates would cost more and find no more
            here.append(measure(count))
        return here

    steps: list[list[Setting]] = []
    for nprobes in view.efforts:
        steps.append(measured(nprobes, counts))
        most, fewest = (setting.recall for setting in steps[-1][:2])
        if most == 1.0 and (fewest == 1.0 or (len(steps) > 1 and fewest <= steps[-2][1].recall)):
            break  # more lists would cost more and find no more
    if view.best_first:
        for nprobes, suffices in list(_between(steps)):
            steps.append(measured(nprobes, [count for count in counts if count <= suffices]))
    return _best([setting for step in steps for setting in step])


def settings_at(settings: Sequence[Setting], k: int) -> list[Setting]:
    """Return the settings of the smallest measured k that is at least `k`, or none if only smaller k were measured.

    Example:
        >>> ten, hundred = Setting(1, 10, 0.9, 100, 10), Setting(4, 200, 0.9, 400, 100)
        >>> [settings_at([ten, hundred], k) for k in (7, 11, 101)] == [[ten], [hundred], []]
        True
    """
    measured = min((setting.k for setting in settings if setting.k >= k), default=None)
    return [setting for setting in settings if setting.k == measured]


def setting_at(settings: Sequence[Setting], k: int, target: float) -> Setting | None:
    """Return the setting for a search of k rows with a target recall above 0 to 1, or None.

    Candidates that contain a share of the nearest rows for a large k contain at least that share for a smaller k, so a
    setting of a larger k may be taken, also where the margin of a smaller one is too wide. A search probes more lists
    than its setting says while they hold fewer than k rows. A setting measured for a larger k may therefore name too
    few lists, and gets at least as many as the next smaller measured k needs. None is returned if no setting reached
    the recall, or if only smaller k were measured.

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
    """Return the cheapest setting of one k whose recall less its margin reaches the target (above 0 to 1), or None.

    Without one, the caller searches exhaustively.

    Example:
        >>> few, many = Setting(1, 10, 0.8, 100), Setting(8, 20, 0.97, 800)
        >>> setting_for([few, many], 0.95).nprobes
        8
    """
    return min((setting for setting in settings if setting.least >= target), key=_cost, default=None)


def _cost(setting: Setting) -> int:
    return setting.scored + _CANDIDATE_COST * setting.candidates


def _margin(query: Ints, hit: npt.NDArray[np.bool_]) -> float:
    """Return how far the mean recall of all queries may be below that of these queries.

    `query` and `hit` hold, for each (query, true row) pair, the query and whether the row was found. The rows of one
    query tend to be found or missed together, so queries are counted, not pairs. The variance is at least that of
    independent pairs with one hit and one miss added: a few queries without a miss prove little.
    """
    asked, pairs = np.unique(query, return_counts=True)
    shares = np.bincount(query, hit)[asked] / pairs
    missed = (np.count_nonzero(~hit) + 1) / (len(hit) + 2)
    variance = max(float(shares.var()), missed * (1 - missed) / float(pairs.mean()))
    return _ERRORS * float(np.sqrt(variance / len(shares)))


def _between(steps: Sequence[Sequence[Setting]]) -> Iterator[tuple[int, int]]:
    """Yield numbers of lists at every quarter between two steps of which the second finds clearly more rows.

    With each come the candidates that suffice for the second step. Recalls that few searches ask for are left out.
    """
    for (lower, *_), (upper, *others) in pairwise(steps):
        if upper.recall >= max(_LEAST_ASKED, lower.recall + _CLEARLY_MORE):
            suffices = min(
                (each.candidates for each in others if each.recall >= upper.recall), default=upper.candidates
            )
            apart = upper.nprobes - lower.nprobes
            for nprobes in sorted({lower.nprobes + apart * part // 4 for part in (1, 2, 3)} - {lower.nprobes}):
                yield nprobes, suffices


def _places(query: Ints, keys: Ints, wanted: Ints, always: int, absent: int) -> Ints:
    """Return for each wanted key its place among its query's keys, the first `always` of which have places below 0.

    `keys` are distinct and sorted by query. The place of a key that is not there is `absent`.
    """
    if not len(keys):
        return np.full(len(wanted), absent)
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    place = np.arange(len(keys)) - np.searchsorted(query, query) - always
    found: Ints = np.where(keys[at] == wanted, place[at], absent)
    return found


def _keys(view: View, query: Ints, segment: Ints, position: Ints) -> Ints:
    """Return one number for each (query, row) pair."""
    keys: Ints = query * (view.bases[-1] + 1) + view.bases[segment] + position
    return keys


def _best(measured: list[Setting]) -> tuple[Setting, ...]:
    kept: list[Setting] = []
    for setting in sorted(measured, key=lambda one: (_cost(one), -one.recall)):
        if not kept or setting.recall > kept[-1].recall:
            kept.append(setting)
    return tuple(kept)
