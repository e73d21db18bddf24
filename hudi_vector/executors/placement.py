"""Which executor works on which file slices: the one that has read them, as long as the work stays balanced.

Only names and sizes are needed; nothing is asked of Spark here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hudi_vector.workers import balanced

__all__ = ["Group", "Item", "groups_of", "homes_of"]

_UNEVEN = 1.25
"""An executor gets no further slice that it has read once its share of the bytes is exceeded by so much."""

_TASK_BYTES = 256 << 20
_MOST_TASKS = 3
"""A core gets more than one task only for many bytes: to begin one takes longer than to read a few megabytes."""

_MOST_HOMES = 3


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


def homes_of(name: str, executor: str, homes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the executors that have read an item once `executor` has read it too, the last few of them.

    Example:
        >>> homes_of("f", "2", {"f": ("1",)})
        ('2', '1')
    """
    others = (other for other in homes.get(name, ()) if other != executor)
    return (executor, *others)[:_MOST_HOMES]


def _placed(items: Sequence[Item], homes: Mapping[str, Sequence[str]], executors: Sequence[str]) -> list[str | None]:
    """Return an executor for each item: one that has read it within its share, else the one with the least to do."""
    load = dict.fromkeys(executors, 0)
    at: list[str | None] = [None] * len(items)
    most = _UNEVEN * sum(item.size for item in items) / len(executors)
    ordered = sorted(range(len(items)), key=lambda number: (-items[number].size, items[number].name))

    def known(number: int) -> list[str]:
        return [home for home in homes.get(items[number].name, ()) if home in load]

    def place(number: int, among: Iterable[str]) -> bool:
        chosen = min(among, key=lambda name: load[name], default=None)
        if chosen is None or (chosen in known(number) and load[chosen] and load[chosen] + items[number].size > most):
            return False
        at[number] = chosen
        load[chosen] += items[number].size
        return True

    for number in [number for number in ordered if not place(number, known(number))]:
        at[number] = min(executors, key=lambda name: (load[name], name not in known(number)))
        load[str(at[number])] += items[number].size
    return at
