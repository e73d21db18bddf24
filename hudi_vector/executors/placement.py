"""Which executor works on which file slices: the one that has read them, as long as the work stays balanced.

Only names and sizes are needed; nothing is asked of Spark here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hudi_vector.table.recent import Recent
from hudi_vector.workers import balanced

__all__ = ["Group", "Item", "Placement", "groups_of"]

_UNEVEN = 1.25
"""An executor gets no further slice that it has read once its share of the bytes is exceeded by so much."""

_TASK_BYTES = 256 << 20
_MOST_TASKS = 3
"""A core gets more than one task only for many bytes: to begin one takes longer than to read a few megabytes."""

_MOST_HOMES = 3
_MOST_ITEMS = 1 << 18
_MOST_PLANS = 32


@dataclass(frozen=True)
class Item:
    """A file slice of a search: a name that its later versions have too, and the bytes that are read of it."""

    name: str
    size: int


@dataclass(frozen=True)
class Group:
    """The places of the items that one task works on, and the name of the executor that should; None for any."""

    executor: str | None
    items: tuple[int, ...]


def groups_of(
    items: Sequence[Item], homes: Mapping[str, Sequence[str]], executors: Sequence[str], cores: int
) -> list[Group]:
    """Divide items into tasks, each for the executor that has read its items.

    Args:
        items: What is divided.
        homes: The executors that have read an item, by its name.
        executors: The names of the executors at hand; without any, tasks are for no particular one.
        cores: The cores of all executors.

    Returns:
        The tasks. An executor that is lost leaves only its own items to others.
    """
    at = _placed(items, homes, executors) if executors else [None] * len(items)
    each = max(1, cores // max(1, len(executors)))
    groups = []
    for executor in sorted(set(at), key=str):
        own = [number for number, home in enumerate(at) if home == executor]
        sizes = [items[number].size for number in own]
        tasks = each * min(_MOST_TASKS, max(1, sum(sizes) // (each * _TASK_BYTES)))
        groups += [Group(executor, tuple(own[n] for n in sorted(part))) for part in balanced(sizes, tasks)]
    return groups


class Placement:
    """The executors that have read each item, so that the next search finds them; threads may share it.

    Example:
        >>> placement = Placement()
        >>> items = [Item("a", 10), Item("b", 10)]
        >>> placement.groups(items, ["1", "2"], cores=2)
        [Group(executor='1', items=(0,)), Group(executor='2', items=(1,))]
        >>> placement.groups(items[1:], ["1", "2"], cores=2)
        [Group(executor='2', items=(0,))]
    """

    def __init__(self) -> None:
        self._homes: Recent[str, tuple[str, ...]] = Recent(_MOST_ITEMS)
        self._made: Recent[tuple[tuple[Item, ...], tuple[str, ...], int], list[Group]] = Recent(_MOST_PLANS)

    def groups(self, items: Sequence[Item], executors: Sequence[str], cores: int) -> list[Group]:
        """Divide items into tasks and note who reads what; the same search is divided as it was the last time.

        The arguments are those of `groups_of`.
        """
        key = (tuple(items), tuple(executors), cores)
        made = self._made.get(key)
        if made is None:
            homes = {item.name: self._homes.get(item.name) or () for item in items}
            made = groups_of(items, homes, executors, cores)
            for group in made:
                if group.executor is not None:
                    self._note(group.executor, [items[number].name for number in group.items], homes)
            self._made.put(key, made)
        return made

    def _note(self, executor: str, names: Sequence[str], homes: Mapping[str, Sequence[str]]) -> None:
        for name in names:
            others = (other for other in homes[name] if other != executor)
            self._homes.put(name, (executor, *others)[:_MOST_HOMES])


def _placed(items: Sequence[Item], homes: Mapping[str, Sequence[str]], executors: Sequence[str]) -> list[str | None]:
    """Return an executor for each item: one that has read it within its share, else the one with the least to do."""
    load = dict.fromkeys(executors, 0)
    at: list[str | None] = [None] * len(items)
    most = _UNEVEN * sum(item.size for item in items) / len(executors)
    ordered = sorted(range(len(items)), key=lambda number: (-items[number].size, items[number].name))

    def known(number: int) -> list[str]:
        return [home for home in homes.get(items[number].name, ()) if home in load]

    def place(number: int, executor: str) -> None:
        at[number] = executor
        load[executor] += items[number].size

    left = []
    for number in ordered:
        # The last that has read it first: an earlier one may have read only what an index needs.
        fit = (home for home in known(number) if not load[home] or load[home] + items[number].size <= most)
        home = next(fit, None)
        if home is None:
            left.append(number)
        else:
            place(number, home)
    for number in left:
        place(number, min(executors, key=lambda name: (load[name], name not in known(number))))
    return at
