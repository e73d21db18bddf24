"""Plans of blob compactions: which containers are repacked, and in which groups; decided from their states alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from hudi_vector.errors import number_of
from hudi_vector.storage.stored_values import PathBelow

__all__ = [
    "KEEP",
    "REPACK",
    "CompactionPlan",
    "ContainerState",
    "PlannedContainer",
    "Thresholds",
    "choose",
    "containers_of",
]

REPACK, KEEP = "repack", "keep"


@dataclass(frozen=True)
class Thresholds:
    """The limits that decide whether a container is worth a copy.

    Attributes:
        live_percent: A container is repacked if less than this percentage of its payload is live.
        target_size: Bytes of a new container.
        small_size: Containers with fewer bytes are small.
        group_size: The most live bytes that are repacked for one commit, unless a single container has more.
        max_element_size: Blobs with more bytes get separate files.
        disorder_percent: A container is repacked if a greater percentage of its ranges does not follow the range before
            in the order of the rows; None ignores the order.
    """

    live_percent: int
    target_size: int
    small_size: int
    group_size: int
    max_element_size: int
    disorder_percent: int | None = None


@dataclass(frozen=True)
class ContainerState:
    """The state of a container that the newest snapshot refers to.

    Attributes:
        path: Path relative to the table's folder.
        partition: The partition it was written for.
        column: The column it was written for.
        bytes: The size of the file.
        payload: Bytes of the blobs that were written to it, without the framing of its format.
        live: Bytes of it that rows refer to.
        ranges: The number of distinct ranges that rows refer to.
        dangling: The number of rows whose range the container does not have.
        disorder: The percentage of its ranges that do not follow the range before in the order of the rows.
    """

    path: str
    partition: str
    column: str
    bytes: int
    payload: int
    live: int
    ranges: int
    dangling: int = 0
    disorder: int = 0


@dataclass(frozen=True)
class PlannedContainer:
    """A container with the decision about it; `group` numbers the commit that rewrites its references, -1 for none."""

    path: PathBelow
    partition: str
    column: str
    bytes: int
    live: int
    action: str
    reason: str
    group: int = -1


@dataclass(frozen=True)
class CompactionPlan:
    """A plan of one compaction, which can be reviewed and then run unchanged.

    Attributes:
        plan_id: The plan's id, which begins with the time in UTC.
        table: The table's base path, normalised.
        made_ms: When the plan was made, milliseconds since 1970, UTC.
        columns: The BLOB columns whose references may be rewritten.
        containers: Every container that the newest snapshot refers to, ordered by path.
        target_size: Bytes of a new container.
        max_element_size: Blobs with more bytes get separate files.
        deduplicate: Whether equal blobs are stored once.
    """

    plan_id: str
    table: str
    made_ms: int
    columns: tuple[str, ...]
    containers: tuple[PlannedContainer, ...]
    target_size: int
    max_element_size: int
    deduplicate: bool = False

    @property
    def candidates(self) -> tuple[PlannedContainer, ...]:
        """Return the containers that are repacked."""
        return tuple(each for each in self.containers if each.action == REPACK)

    @property
    def kept(self) -> tuple[PlannedContainer, ...]:
        """Return the containers that stay as they are."""
        return tuple(each for each in self.containers if each.action == KEEP)

    @property
    def groups(self) -> tuple[tuple[PlannedContainer, ...], ...]:
        """Return the candidates of each commit, in the order of the commits."""
        ordered = sorted(self.candidates, key=lambda each: (each.group, each.path))
        return tuple(tuple(members) for _, members in groupby(ordered, key=lambda each: each.group))

    @property
    def containers_after(self) -> int:
        """Return how many new containers the candidates become, estimated from sizes."""
        return sum(containers_of(group, self.target_size) for group in self.groups)


C = TypeVar("C", ContainerState, PlannedContainer)


def choose(states: Iterable[ContainerState], thresholds: Thresholds) -> tuple[PlannedContainer, ...]:
    """Decide for every container whether it is repacked, and return all of them ordered by path.

    A container is repacked if too few of its bytes are live, or too many of its blobs are out of order. Small
    containers of the same partition and column are joined with each other, and with those that are repacked anyway, if
    that gives fewer containers. A container with dangling references is kept. Groups are numbered from 0 in the order
    of partitions and columns.

    Example:
        >>> limits = Thresholds(50, 100, 25, 1000, 100)
        >>> [one.action for one in choose([ContainerState("a", "", "img", 90, 90, 40, 4)], limits)]
        ['repack']
    """
    ordered = sorted(states, key=lambda state: (state.partition, state.column, state.path))
    judged = {state.path: _judged(state, thresholds) for state in ordered}
    wanted = [state for state in ordered if judged[state.path].action == REPACK]
    group, held = 0, 0
    groups: list[list[ContainerState]] = [[]]
    for state in wanted:
        if groups[group] and held + state.live > thresholds.group_size:
            group, held = group + 1, 0
            groups.append([])
        groups[group].append(state)
        held += state.live
    filled = 0
    for members in groups:
        chosen = [state for place in _by_place(members).values() for state in _worth(place, thresholds)]
        taken = {state.path for state in chosen}
        for state in members:
            if state.path in taken:
                judged[state.path] = replace(judged[state.path], group=filled)
            else:
                reason = "it is small, and joining it with others would not make fewer containers"
                judged[state.path] = replace(judged[state.path], action=KEEP, reason=reason)
        filled += bool(chosen)
    return tuple(judged[path] for path in sorted(judged))


def containers_of(group: Iterable[PlannedContainer], target_size: int) -> int:
    """Return how many containers of `target_size` bytes a group becomes, estimated from sizes."""
    return sum(_needed(sum(each.live for each in members), target_size) for members in _by_place(group).values())


def _judged(state: ContainerState, thresholds: Thresholds) -> PlannedContainer:
    share = state.live * 100 // state.payload if state.payload else 100
    if state.dangling:
        action, reason = KEEP, f"{number_of(state.dangling, 'row refers', 'rows refer')} to bytes that it does not have"
    elif _is_low(state, thresholds):
        action, reason = REPACK, f"rows refer to {share} percent of its bytes"
    elif _is_disordered(state, thresholds):
        action, reason = REPACK, f"{state.disorder} percent of its blobs do not lie in the order of their rows"
    elif state.bytes < thresholds.small_size and not _is_alone(state, thresholds):
        action, reason = REPACK, f"it is small, {number_of(state.bytes, 'byte')}"
    else:
        action, reason = KEEP, f"rows refer to {share} percent of its bytes"
    return PlannedContainer(state.path, state.partition, state.column, state.bytes, state.live, action, reason)


def _is_low(state: ContainerState, thresholds: Thresholds) -> bool:
    return state.live * 100 < state.payload * thresholds.live_percent


def _is_disordered(state: ContainerState, thresholds: Thresholds) -> bool:
    return thresholds.disorder_percent is not None and state.disorder > thresholds.disorder_percent


def _is_alone(state: ContainerState, thresholds: Thresholds) -> bool:
    """Return True if the container is the separate file of one blob that is too large to share a container."""
    return state.ranges == 1 and state.live > thresholds.max_element_size


def _worth(members: Sequence[ContainerState], thresholds: Thresholds) -> list[ContainerState]:
    """Return the members that are worth a copy; members that are only small count if that gives fewer containers."""
    low = [state for state in members if _is_low(state, thresholds) or _is_disordered(state, thresholds)]
    joined = _needed(sum(state.live for state in members), thresholds.target_size)
    repacked = _needed(sum(state.live for state in low), thresholds.target_size) if low else 0
    return list(members) if joined < repacked + len(members) - len(low) else low


def _needed(live: int, target_size: int) -> int:
    return -(-live // target_size) if live else 1


def _by_place(members: Iterable[C]) -> dict[tuple[str, str], list[C]]:
    places: dict[tuple[str, str], list[C]] = {}
    for each in members:
        places.setdefault((each.partition, each.column), []).append(each)
    return places
