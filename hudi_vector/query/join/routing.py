"""Which way a join takes: one mechanical rule over a description of the right side, printed by explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_vector.errors import InvalidArgumentError

__all__ = ["ROUTES", "RightFacts", "Route", "choose_route"]

ROUTES = ("search", "lance", "external", "temp", "broadcast", "crossjoin")
"""All routes: over a table's slices or files; a Lance dataset; an external index over files; a temporary Lance dataset;
held in memory by every process; Spark's brute force."""

# What each kind of right side may take, the first that is free to be taken wins.
_ORDER = {
    "hudi": ("search", "broadcast", "temp", "crossjoin"),
    "lance": ("lance", "broadcast", "temp", "crossjoin"),
    "files": ("external", "search", "broadcast", "temp", "crossjoin"),
    "plan": ("broadcast", "temp", "crossjoin"),
}
_WHAT = {
    "hudi": "the right side is a Hudi table",
    "lance": "the right side is a Lance dataset",
    "files": "the right side is a scan of Parquet files",
    "plan": "the right side is computed",
}
_HOW = {
    "search": "its slices are searched where the left rows are",
    "lance": "its fragments are searched through pylance",
    "external": "an index over its files is searched",
    "temp": "it is written once to a temporary Lance dataset",
    "broadcast": "every process holds it in memory and multiplies blocks of vectors",
    "crossjoin": "Spark compares every pair",
}


@dataclass(frozen=True)
class RightFacts:
    """What the rule looks at.

    `kind` is ``hudi``, ``lance``, ``files`` or ``plan``: what the right side is once aliases, views, pass-through
    projections and exactly translatable filters are taken off; `why_plan` says what made it a plan. `size` are its
    bytes, None where they are not known to fit in a broadcast. `barred` are the routes that cannot be taken, each
    with its reason. `pairs_by_spark` is why only Spark can evaluate the condition over both sides.
    """

    kind: str
    why_plan: str = ""
    size: int | None = None
    barred: Mapping[str, str] | None = None
    pairs_by_spark: str = ""


@dataclass(frozen=True)
class Route:
    """The way that is taken, why, and the ways that were passed over, each with its reason."""

    name: str
    reason: str
    passed_over: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        """Lines for explain."""
        lines = [f"  route       {self.name}: {self.reason}"]
        return "\n".join(lines + [f"    not {name}: {reason}" for name, reason in self.passed_over])


def choose_route(facts: RightFacts, asked: str, broadcast_limit: int) -> Route:
    """Choose.

    Args:
        facts: The right side.
        asked: A route that has to be taken, or ``auto``.
        broadcast_limit: The largest size in bytes of a right side that is held in memory.

    Returns:
        The route.

    Raises:
        InvalidArgumentError: The route that was asked for cannot be taken.

    Example:
        >>> choose_route(RightFacts("plan", "a Join", size=100), "auto", 1000).name
        'broadcast'
    """
    what = _WHAT[facts.kind] + (f" ({facts.why_plan})" if facts.why_plan else "")
    if asked != "auto":
        problem = _problem(asked, facts, None)
        if problem:
            raise InvalidArgumentError(
                f"hoodie.vector.join.path = '{asked}' was asked for, and {problem}; set it to auto, or to a route that "
                "is open to such a right side"
            )
        return Route(asked, f"as asked; {what}: {_HOW[asked]}")
    passed: list[tuple[str, str]] = []
    for name in _ORDER[facts.kind]:
        problem = _problem(name, facts, broadcast_limit)
        if not problem:
            size = f" of {facts.size} bytes" if name == "broadcast" else ""
            return Route(name, f"{what}{size}: {_HOW[name]}", tuple(passed))
        passed.append((name, problem))
    raise AssertionError("the last resort is always open")


def _problem(name: str, facts: RightFacts, limit: int | None) -> str:
    """Why a route is not taken, or nothing."""
    if name not in _ORDER[facts.kind]:
        return f"{_WHAT[facts.kind]}" + (f" ({facts.why_plan})" if facts.why_plan else "")
    if name != "crossjoin" and facts.pairs_by_spark:
        return f"only Spark can evaluate the condition over both sides ({facts.pairs_by_spark})"
    barred = (facts.barred or {}).get(name)
    if barred:
        return barred
    if name == "broadcast" and limit is not None and (facts.size is None or facts.size > limit):
        known = "its size is not known to fit" if facts.size is None else f"it has {facts.size} bytes"
        return f"{known}, and no more than {limit} bytes are held in memory"
    return ""
