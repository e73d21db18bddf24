"""Recall by number of probed lists and candidates, measured on held-out queries, and the choice of a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
_NOWHERE = np.iinfo(np.int64).max
_MARKS = 1 << 20
"""Marks of true rows, by the last bits of their keys: a hundred times as many as the true rows of most rounds."""
_CANDIDATE_COST = 2000
"""Cost of reading a candidate's vector from its file, in scored codes: about 0.1 ms compared with 50 ns."""


def calibrate(
    view: View, queries: npt.NDArray[Any], segments: Ints, positions: Ints, ks: Sequence[int] = (10,)
) -> tuple[Setting, ...]:
    """Measure the share of the true nearest rows that is found, for increasing numbers of lists and candidates.

    Candidates are ranked by exact distance later, so a true row is found if it is among them. Returns for each k the
    settings that no other beats in both recall and cost, cheapest first, with their margins; none if there is no true
    row. Raises InvalidArgumentError if the true rows do not have shape (m, largest k).

    Args:
        view: The index.
        queries: Held-out queries, shape (m, d), not among the rows that the model was trained on.
        segments: The segments of each query's true nearest rows, the nearest first, shape (m, largest k).
        positions: Their row positions in the base files, of the same shape; -1 where there are fewer rows.
        ks: The numbers of rows that searches want.
    """
    shape = (len(queries), max(ks))
    if segments.shape != shape or positions.shape != shape:
        raise InvalidArgumentError(
            f"true rows of shapes {segments.shape} and {positions.shape} were given for "
            f"{number_of(len(queries), 'query')}; both must be {shape}"
        )
    searches = _Searches(view, queries, _Truth.of(view, segments, positions).keys)
    # From the largest: what searches for it find answers for most of those for fewer rows.
    found = {
        k: _calibrated(searches, _Truth.of(view, segments[:, :k], positions[:, :k]), k)
        for k in sorted(ks, reverse=True)
    }
    return tuple(setting for k in ks for setting in found[k])


def _calibrated(searches: _Searches, truth: _Truth, k: int) -> tuple[Setting, ...]:
    """Return the settings of one k that are worth their cost."""
    if not len(truth.keys):
        return ()
    view = searches.view
    least = max(k, _FEWEST_CANDIDATES)
    counts = [int(least * by) for by in _WIDENINGS if by == 1 or least * by <= _MOST_CANDIDATES]

    def measured(nprobes: int, counts: Sequence[int]) -> list[Setting]:
        """Return settings of so many lists: of the most candidates, of the fewest, and of more until they suffice."""
        widest = searches.answer(k, nprobes, counts[-1])
        places = widest.places_of(truth.keys)

        def measure(count: int) -> Setting:
            if view.best_first or count == counts[-1]:
                hit, scored = places < count, widest.scored
            else:
                answer = searches.answer(k, nprobes, count)
                hit, scored = answer.places_of(truth.keys) < count, answer.scored
            share = float(hit.mean())
            return Setting(nprobes, count, share, round(scored / len(searches.queries)), k, truth.margin(hit))

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


@dataclass(frozen=True)
class _Truth:
    """Hold true nearest rows.

    Attributes:
        keys: One number for each (query, true row) pair, by which `_Answer` knows it.
        number: The query of each, numbered among those that have true rows.
        pairs: How many each of these queries has.
    """

    keys: Ints
    number: Ints
    pairs: Ints

    @classmethod
    def of(cls, view: View, segments: Ints, positions: Ints) -> _Truth:
        """Return the true rows of queries, one row of both arrays each; a position of -1 is no row."""
        known = positions >= 0
        query = np.repeat(np.arange(len(known)), known.sum(axis=1))
        _, number, pairs = np.unique(query, return_inverse=True, return_counts=True)
        return cls(_keys(view, query, segments[known], positions[known]), number, pairs)

    def margin(self, hit: npt.NDArray[np.bool_]) -> float:
        """Return how far the mean recall of all queries may be below that of these, of which `hit` pairs were found.

        The rows of one query tend to be found or missed together, so queries are counted, not pairs. The variance is at
        least that of independent pairs with one hit and one miss added: a few queries without a miss prove little.
        """
        shares = np.bincount(self.number, hit) / self.pairs
        missed = (len(hit) - np.count_nonzero(hit) + 1) / (len(hit) + 2)
        variance = max(float(shares.var()), missed * (1 - missed) / (len(hit) / len(shares)))
        return _ERRORS * float(np.sqrt(variance / len(shares)))


@dataclass(frozen=True)
class _Answer:
    """Hold what a search found.

    Attributes:
        keys: One number for each (query, candidate) pair that may be a true row, ascending.
        places: The place of each among its query's candidates; below 0 for those that every search finds.
        scored: The codes that were scored.
        k: The rows that were wanted.
        count: The candidates that were wanted.
        is_widened: Whether more lists were probed than asked for, as these held fewer than k rows.
    """

    keys: Ints
    places: Ints
    scored: int
    k: int
    count: int
    is_widened: bool

    def places_of(self, wanted: Ints) -> Ints:
        """Return the places of other keys, and a number above all places for those that are not there."""
        if not len(self.keys):
            return np.full(len(wanted), _NOWHERE)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found: Ints = np.where(self.keys[at] == wanted, self.places[at], _NOWHERE)
        return found


class _Searches:
    """Searches of the same queries for the rows of some keys; none is done twice."""

    def __init__(self, view: View, queries: npt.NDArray[Any], keys: Ints) -> None:
        self.view = view
        self.queries = queries
        self._marks = np.zeros(_MARKS, np.bool_)
        self._marks[keys % _MARKS] = True
        self._answers: dict[int, list[_Answer]] = {}

    def answer(self, k: int, nprobes: int, count: int) -> _Answer:
        """Return the answer of a search, or an earlier one that has the same candidates in its first places."""
        earlier = self._answers.setdefault(nprobes, [])
        for answer in earlier:
            has_them = answer.count == count or (self.view.best_first and answer.count > count)
            if has_them and (answer.k == k or (answer.k > k and not answer.is_widened)):
                return answer
        earlier.append(self._searched(k, nprobes, count))
        return earlier[-1]

    def _searched(self, k: int, nprobes: int, count: int) -> _Answer:
        view = self.view
        found = view.candidates(self.queries, k, nprobes=nprobes, candidates=count, certain=False)
        keys = _keys(view, found.query, found.segment, found.position)
        # Few candidates are true rows, and to order all of them would take longer than the search.
        marked = np.flatnonzero(self._marks[keys % _MARKS])
        keys = keys[marked]
        places = marked - np.searchsorted(found.query, found.query[marked]) - (view.vectors - len(view))
        order = np.argsort(keys)
        is_widened = found.probed_lists > nprobes * len(self.queries)
        return _Answer(keys[order], places[order], found.scored_codes, k, count, is_widened)


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
