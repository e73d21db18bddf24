"""The further arguments of a search: its mode, its recall target, how far an index is read, its limit, its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from hudi_vector import options
from hudi_vector.arguments import as_count, as_share, as_text
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.query.grouping.arguments import Grouping, checked_grouping

__all__ = [
    "AS_SET",
    "BRUTE_FORCE",
    "MODES",
    "JoinOptions",
    "SearchOptions",
    "Tuning",
    "checked_tuning",
    "why_not_by_index",
]

MODES = ("auto", "exact", "approximate")
BRUTE_FORCE = "brute_force"
_USUAL_RECALL = 0.95


class JoinOptions(TypedDict, total=False):
    """Arguments that every search takes in addition to those of its signature, in SQL too.

    Attributes:
        nprobes: The number of lists of an index that are read, instead of the number that the recall target needs; for
            ``hnsw``, the number of rows that a walk keeps as candidates.
        refine_factor: The number of candidates that are scored exactly for each of the k rows.
        timeout: The longest time that the search may take: a text such as ``"30s"`` or ``"500 ms"``, or a number of
            milliseconds; 0 for no limit. SearchTimeoutError says how far a search got. In joins and streams the limit
            holds for each batch of rows that is searched together.
        group_by: A column of the searched table, or a list of columns, of plain values. The answer is then the k
            nearest groups, each as near as its nearest row, with the rank of a row's group in ``_group_rank``, from 1.
        per_group: The largest number of rows of each group, 1 by default.
        group_nulls: ``"keep"``, the default, for NULL as a value like others; ``"drop"`` to leave out rows with NULL in
            a column of `group_by`.
    """

    nprobes: int | None
    refine_factor: int | None
    timeout: str | int | None
    group_by: str | Sequence[str] | None
    per_group: int | None
    group_nulls: str | None


class SearchOptions(JoinOptions, total=False):
    """Further arguments of a search of one table.

    Attributes:
        algorithm: ``"brute_force"``, or the kind of index that has to be used: ``"ivf_sq8"``, ``"ivf_flat"``,
            ``"ivf_rabitq"``, ``"ivf_pq"``, ``"hnsw"``.
    """

    algorithm: str | None


@dataclass(frozen=True)
class Tuning:
    """The arguments of one search; None where they were left out.

    `algorithm` is a kind of index that must be used, or ``brute_force``; `timeout` is in seconds. With a `grouping` the
    nearest groups are searched.
    """

    mode: str | None = None
    algorithm: str | None = None
    nprobes: int | None = None
    refine_factor: int | None = None
    recall_target: float | None = None
    timeout: float | None = None
    grouping: Grouping | None = None

    def settled(self, conf: Mapping[str, str]) -> Tuning:
        """Return a tuning whose mode is set, with the session's settings in place of the arguments that were left out.

        Raises InvalidOptionError if a setting is not allowed, and InvalidArgumentError if the arguments contradict each
        other or the settings.
        """
        mode = self.mode or ("exact" if self.algorithm == BRUTE_FORCE else options.MODE.read(conf))
        target = self.recall_target
        if target is None and options.RECALL_TARGET.key in conf:
            target = _share(options.RECALL_TARGET.read(conf))
        timeout = self.timeout if self.timeout is not None else options.TIMEOUT.read(conf) / 1000
        settled = replace(self, mode=mode, recall_target=target, timeout=timeout or None)
        _require_sense(settled)
        return settled

    @property
    def needs_index(self) -> bool:
        """Return True if an argument makes sense only with an index."""
        return self.algorithm in KINDS or self.nprobes is not None or self.refine_factor is not None

    def target(self, of_index: float | None) -> float | None:
        """Return the recall that a settled search has to reach, below 1; None if it has to find the exact answer.

        `of_index` is the target stored with the index, used if neither the search nor the session has one.
        """
        target = self.recall_target if self.recall_target is not None else of_index
        if target is not None and target < 1:
            return target
        return _USUAL_RECALL if self.mode == "approximate" else None


AS_SET = Tuning()
"""No arguments: the settings of the session decide."""


def checked_tuning(
    mode: Any = None,
    recall_target: Any = None,
    *,
    algorithm: Any = None,
    nprobes: Any = None,
    refine_factor: Any = None,
    timeout: Any = None,
    group_by: Any = None,
    per_group: Any = None,
    group_nulls: Any = None,
) -> Tuning:
    """Return the checked further arguments of a search; raise InvalidArgumentError if one is not allowed.

    `recall_target` is the share of the true nearest rows to find, above 0, up to 1.

    Example:
        >>> checked_tuning("auto", 0.95).recall_target
        0.95
    """
    return Tuning(
        _one_of(mode, "mode", MODES),
        _one_of(algorithm, "algorithm", (BRUTE_FORCE, *KINDS)),
        as_count(nprobes, "nprobes"),
        as_count(refine_factor, "refine_factor"),
        as_share(recall_target, "recall_target"),
        _seconds(timeout),
        checked_grouping(group_by, per_group, group_nulls),
    )


def why_not_by_index(tuning: Tuning, k: int) -> str:
    """Return the reason why a search for k groups uses no index, "" if it may, or if it is not one for groups.

    Raises InvalidArgumentError if there is a reason, and an argument asks for an index.
    """
    reason = "" if tuning.grouping is None else tuning.grouping.without_index(k)
    if reason and tuning.needs_index:
        raise InvalidArgumentError(
            f"{reason}, so that no index is used; leave out algorithm, nprobes and refine_factor"
        )
    return reason


def _require_sense(tuning: Tuning) -> None:
    if tuning.algorithm == BRUTE_FORCE and tuning.mode == "approximate":
        raise InvalidArgumentError("brute_force is exact, and mode is 'approximate'; leave one of them out")
    if tuning.algorithm in KINDS and tuning.mode == "exact":
        raise InvalidArgumentError(
            f"mode 'exact' uses no index, and algorithm is '{tuning.algorithm}'; leave one of them out"
        )


def _one_of(value: Any, name: str, allowed: tuple[str, ...]) -> str | None:
    text = as_text(value, name, allow_null=True)
    if text is None:
        return None
    chosen = text.strip().lower()
    if chosen not in allowed:
        raise InvalidArgumentError(f"unknown {name} {value!r}; give one of {', '.join(allowed)}, or leave it out")
    return chosen


def _seconds(timeout: Any) -> float | None:
    """Return the seconds of a duration, 0 for no limit, None for None."""
    if timeout is None:
        return None
    whole = isinstance(timeout, (str, int)) and not isinstance(timeout, bool)
    milliseconds = options.parse_duration(str(timeout)) if whole else None
    if milliseconds is None:
        raise InvalidArgumentError(
            f"timeout must be a duration such as '30s' or '500 ms', or a number of milliseconds, not {timeout!r}"
        )
    return milliseconds / 1000


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise InvalidOptionError(
            f"{options.RECALL_TARGET.key} = {text!r} is not allowed: give a number above 0, up to 1"
        )
    return value
