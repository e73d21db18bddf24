"""Plans of blob compactions: what they choose, and that repeating them comes to an end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.table_services.plans.compaction import (
    KEEP,
    REPACK,
    CompactionPlan,
    ContainerState,
    PlannedContainer,
    Thresholds,
    choose,
)

TARGET = 100


@st.composite
def thresholds(draw: st.DrawFn) -> Thresholds:
    return Thresholds(
        live_percent=draw(st.integers(0, 100)),
        target_size=TARGET,
        small_size=draw(st.integers(0, TARGET)),
        group_size=draw(st.sampled_from([1, 90, 300, 10_000])),
        max_element_size=draw(st.integers(1, TARGET)),
    )


@st.composite
def blobs_of_containers(draw: st.DrawFn) -> dict[str, tuple[str, list[int], int]]:
    """For each container its partition, the live blobs in it, and its dead bytes."""
    found = {}
    for number in range(draw(st.integers(0, 12))):
        partition = draw(st.sampled_from(["", "p=1", "p=2"]))
        live = draw(st.lists(st.integers(0, 2 * TARGET), min_size=1, max_size=6))
        found[f"c{number:02d}"] = (partition, live, draw(st.integers(0, 3 * TARGET)))
    return found


def states(blobs: dict[str, tuple[str, list[int], int]]) -> list[ContainerState]:
    return [
        ContainerState(path, partition, "img", sum(live) + dead, sum(live) + dead, sum(live), len(live))
        for path, (partition, live, dead) in blobs.items()
    ]


def plan_of(containers: Sequence[PlannedContainer]) -> CompactionPlan:
    return CompactionPlan("id", "/t", 0, ("img",), tuple(containers), TARGET, TARGET)


def repacked(
    blobs: dict[str, tuple[str, list[int], int]], plan: CompactionPlan, limits: Thresholds, run: int
) -> dict[str, tuple[str, list[int], int]]:
    """What the copy makes of it: chunks of the target size, large blobs in files of their own."""
    left = {path: held for path, held in blobs.items() if path in {each.path for each in plan.kept}}
    for group in plan.groups:
        for partition in sorted({each.partition for each in group}):
            ordered = [size for each in group if each.partition == partition for size in blobs[each.path][1]]
            before, chunks = 0, {}
            for number, size in enumerate(ordered):
                alone = size > limits.max_element_size
                chunks.setdefault(f"alone{number}" if alone else str(before // TARGET), []).append(size)
                before += 0 if alone else size
            left |= {
                f"{run}-{group[0].group}-{partition}-{name}": (partition, sizes, 0) for name, sizes in chunks.items()
            }
    return left


@given(blobs_of_containers(), thresholds())
def test_a_plan_takes_what_is_worth_it_and_comes_to_an_end(
    blobs: dict[str, tuple[str, list[int], int]], limits: Thresholds
) -> None:
    total = sum(sum(live) for _, live, _ in blobs.values())
    for run in range(40):
        plan = plan_of(choose(states(blobs), limits))
        assert [each.path for each in plan.containers] == sorted(blobs)
        check(plan, limits)
        if not plan.candidates:
            break
        blobs = repacked(blobs, plan, limits, run)
        assert sum(sum(live) for _, live, _ in blobs.values()) == total
    assert not plan.candidates


def check(plan: CompactionPlan, limits: Thresholds) -> None:
    for each in plan.containers:
        low = each.live * 100 < each.bytes * limits.live_percent
        assert not low or each.action == REPACK, "a container that is mostly dead is always repacked"
        assert low or each.action == KEEP or each.bytes < limits.small_size
        assert (each.group >= 0) == (each.action == REPACK)
    assert [group[0].group for group in plan.groups] == list(range(len(plan.groups)))
    for group in plan.groups:
        assert len(group) == 1 or sum(each.live for each in group) <= limits.group_size
        for partition in {each.partition for each in group}:
            members = [each for each in group if each.partition == partition]
            low = [each for each in members if each.live * 100 < each.bytes * limits.live_percent]
            after = max(1, -(-sum(each.live for each in members) // TARGET))
            assert len(low) == len(members) or after < len(members) + sum(each.live for each in low) // TARGET + 1


def test_containers_with_dangling_references_stay() -> None:
    limits = Thresholds(50, TARGET, 25, 1000, TARGET)
    (kept,) = choose([ContainerState("a", "", "img", 10, 10, 1, 1, dangling=2)], limits)
    assert (kept.action, kept.reason) == (KEEP, "2 rows refer to bytes that it does not have")


def test_containers_whose_blobs_lie_out_of_order_are_repacked_when_asked() -> None:
    states = [ContainerState("a", "", "img", 90, 90, 90, 9, disorder=60), ContainerState("b", "", "img", 90, 90, 90, 9)]
    for percent, actions in ((None, [KEEP, KEEP]), (10, [REPACK, KEEP]), (60, [KEEP, KEEP])):
        limits = Thresholds(50, TARGET, 0, 1000, TARGET, disorder_percent=percent)
        assert [each.action for each in choose(states, limits)] == actions


def test_framing_of_a_format_is_not_dead() -> None:
    limits = Thresholds(50, TARGET, 0, 1000, TARGET)
    (kept,) = choose([ContainerState("a", "", "img", 100, 40, 40, 40)], limits)
    assert (kept.action, kept.reason) == (KEEP, "rows refer to 100 percent of its bytes")
