"""What a search is told about indexes: whether one is used, and how much of the truth it has to find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from hudi_vector import options
from hudi_vector.arguments import as_count, as_share, as_text
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError
from hudi_vector.index.kinds.kinds import KINDS

__all__ = ["AS_SET", "BRUTE_FORCE", "MODES", "JoinOptions", "SearchOptions", "Tuning", "checked_tuning"]

MODES = ("auto", "exact", "approximate")
BRUTE_FORCE = "brute_force"
_USUAL_RECALL = 0.95


class JoinOptions(TypedDict, total=False):
    """Arguments that every search takes in addition to those of its signature, in SQL too.

    Attributes:
        nprobes: How many lists of an index are read, instead of the number that the recall target needs; for ``hnsw``,
            how many rows a walk keeps as candidates.
        refine_factor: How many candidates are scored exactly for each of the k rows.
        timeout: How long the search may take: a text such as ``"30s"`` or ``"500 ms"``, or a number of milliseconds; 0
            for no limit. SearchTimeoutError says how far a search got. Joins and streams take it for each batch of rows
            that asks together.
    """

    nprobes: int | None
    refine_factor: int | None
    timeout: str | int | None


class SearchOptions(JoinOptions, total=False):
    """Further arguments of a search of one table.

    Attributes:
        algorithm: ``"brute_force"``, or the kind of index that has to be used: ``"ivf_sq8"``, ``"ivf_flat"``,
            ``"ivf_pq"``, ``"hnsw"``.
    """

    algorithm: str | None


@dataclass(frozen=True)
class Tuning:
    """The arguments of one search; None where they were left out.

    `algorithm` is a kind of index that must be used, or ``brute_force``; `timeout` is in seconds.
    """

    mode: str | None = None
    algorithm: str | None = None
    nprobes: int | None = None
    refine_factor: int | None = None
    recall_target: float | None = None
    timeout: float | None = None

    def settled(self, conf: Mapping[str, str]) -> Tuning:
        """The same with the settings of the session in the place of what was left out.

        Args:
            conf: Settings, as text.

        Returns:
            A tuning whose mode is set.

        Raises:
            InvalidOptionError: A setting is not allowed.
            InvalidArgumentError: The arguments contradict each other, or the settings.
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
        """Whether an argument makes sense only with an index."""
        return self.algorithm in KINDS or self.nprobes is not None or self.refine_factor is not None

    def target(self, of_index: float | None) -> float | None:
        """The recall to be reached, once settled.

        Args:
            of_index: The target kept with the index, which holds where neither the search nor the session has one.

        Returns:
            A number below 1, or None where every row of the exact answer has to be found.
        """
        target = self.recall_target if self.recall_target is not None else of_index
        if target is not None and target < 1:
            return target
        return _USUAL_RECALL if self.mode == "approximate" else None


AS_SET = Tuning()
"""What the session says."""


def checked_tuning(
    mode: Any = None,
    recall_target: Any = None,
    *,
    algorithm: Any = None,
    nprobes: Any = None,
    refine_factor: Any = None,
    timeout: Any = None,
) -> Tuning:
    """Check the arguments of a search that say how an index is used.

    Args:
        mode: ``auto``, ``exact`` or ``approximate``.
        recall_target: The share of the true nearest rows to be found, above 0, up to 1.
        algorithm: As in `SearchOptions`.
        nprobes: As in `SearchOptions`.
        refine_factor: As in `SearchOptions`.
        timeout: As in `SearchOptions`.

    Returns:
        The arguments.

    Raises:
        InvalidArgumentError: One of them is not allowed.

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
    )


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
    """Return the seconds of a duration, 0 for no limit."""
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
