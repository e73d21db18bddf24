"""The choice of a join's route by one rule over a description of the right side; explain prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_vector.errors import InvalidArgumentError

__all__ = ["ROUTES", "RightFacts", "Route", "choose_route"]

ROUTES = ("search", "lance", "external", "temp", "broadcast", "crossjoin")
"""All routes: search of a table's slices or files; of a Lance dataset; of an external index over files; of temporary
files; of rows in the memory of every process; and Spark's comparison of all pairs."""

# The possible routes for each kind of right side; the first that is available is taken.
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
    "temp": "it is written once to temporary Parquet files",
    "broadcast": "every process holds it in memory and multiplies blocks of vectors",
    "crossjoin": "Spark compares every pair",
}


@dataclass(frozen=True)
class RightFacts:
    """The facts about the right side that decide the route.

    `kind` is ``hudi``, ``lance``, ``files`` or ``plan``: the right side without aliases, views, pass-through
    projections and exactly translatable filters. `why_plan` says what made it a plan. `size` is in bytes, None if the
    right side is not known to fit in a broadcast. `barred` gives the reason for each route that cannot be taken.
    `pairs_by_spark` is the reason why only Spark can evaluate the condition over both sides, "" if there is none.
    """

    kind: str
    why_plan: str = ""
    size: int | None = None
    barred: Mapping[str, str] | None = None
    pairs_by_spark: str = ""


@dataclass(frozen=True)
class Route:
    """The chosen route with its reason, and the routes that were not taken, each with its reason."""

    name: str
    reason: str
    passed_over: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        """Return lines for explain."""
        lines = [f"  route       {self.name}: {self.reason}"]
        return "\n".join(lines + [f"    not {name}: {reason}" for name, reason in self.passed_over])


def choose_route(facts: RightFacts, asked: str, broadcast_limit: int) -> Route:
    """Choose the route of a join.

    `asked` is a route that must be taken, or ``auto``. `broadcast_limit` is the largest size, in bytes, of a right side
    that is held in memory; it does not limit a route that was asked for. Raises InvalidArgumentError if the route that
    was asked for cannot be taken.

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
    """Return why a route is not taken, or "" if it can be; without a `limit`, the size is not checked."""
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
