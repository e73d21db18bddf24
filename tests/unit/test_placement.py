"""Which executor works on which slices, and how much a Python worker keeps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.executors.memory import WorkerMemory
from hudi_vector.executors.placement import Group, Item, Placement, groups_of

MB, GB = 1 << 20, 1 << 30

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=40)
EXECUTORS = st.integers(1, 6).map(lambda count: [f"e{number}" for number in range(count)])


class Homes(Placement):
    """The executor of each item, as searches one after another place them."""

    def place(self, items: Sequence[Item], executors: Sequence[str], cores: int = 0) -> dict[str, str]:
        """Place items, and return the executor of each."""
        groups = self.groups(items, executors, cores or len(executors))
        assert sorted(number for group in groups for number in group.items) == list(range(len(items)))
        return {items[number].name: str(group.executor) for group in groups for number in group.items}


def items_of(sizes: Sequence[int]) -> list[Item]:
    return [Item(f"f{number}", size) for number, size in enumerate(sizes)]


@given(SIZES, EXECUTORS)
def test_bytes_are_divided_evenly_and_the_second_search_finds_what_the_first_read(
    sizes: list[int], executors: list[str]
) -> None:
    items, homes = items_of(sizes), Homes()
    first = homes.place(items, executors)
    for found in (first, homes.place(items, executors)):
        loads = [sum(item.size for item in items if found[item.name] == name) for name in executors]
        assert max(loads) <= 1.25 * sum(sizes) / len(executors) + max(sizes)


@given(st.lists(st.tuples(st.integers(90, 110), st.integers(1, 1000)), min_size=1, max_size=40), EXECUTORS)
def test_a_search_repeats_the_last_one_wherever_others_were_before(
    sizes: list[tuple[int, int]], executors: list[str]
) -> None:
    items, others, homes = items_of([size for size, _ in sizes]), items_of([size for _, size in sizes]), Homes()
    homes.place(others, executors)  # such as one by an index, which counts other bytes
    found = homes.place(items, executors)
    assert homes.place(items, executors) == found == homes.place(items, executors)


@given(st.integers(1, 60), st.integers(2, 6), st.data())
def test_a_lost_executor_costs_its_slices_only(files: int, count: int, data: st.DataObject) -> None:
    items, executors, homes = items_of([100] * files), [f"e{number}" for number in range(count)], Homes()
    before = homes.place(items, executors)
    lost = data.draw(st.sampled_from(executors))
    replaced = data.draw(st.booleans())
    left = [name for name in executors if name != lost] + ["new"] * replaced
    after = homes.place(items, left)
    assert {name for name in before if before[name] != lost and after[name] != before[name]} == set()
    assert not replaced or files < count or "new" in after.values()


def test_more_executors_get_their_share() -> None:
    items, homes = items_of([10] * 8), Homes()
    homes.place(items, ["e0", "e1"])
    found = homes.place(items, ["e0", "e1", "e2", "e3"])
    assert sorted(map(list(found.values()).count, ["e0", "e1", "e2", "e3"])) == [2, 2, 2, 2]


def test_a_filter_that_leaves_the_slices_of_one_executor_teaches_another_once() -> None:
    items, homes = items_of([10] * 8), Homes()
    whole = homes.place(items, ["e0", "e1"])
    some = [item for item in items if whole[item.name] == "e0"]
    assert set(homes.place(some, ["e0", "e1"]).values()) == {"e0", "e1"}
    settled = [homes.place(asked, ["e0", "e1"]) for asked in (items, some)]
    assert settled[0] == whole
    assert settled == [homes.place(asked, ["e0", "e1"]) for asked in (items, some)]


def test_tasks_are_as_many_as_cores_and_more_for_many_bytes() -> None:
    small, large = items_of([MB] * 12), items_of([GB] * 12)
    assert [len(groups_of(small, {}, executors, 4)) for executors in ((), ("e0", "e1"))] == [4, 4]
    assert [len(groups_of(large, {}, executors, 4)) for executors in ((), ("e0", "e1"))] == [12, 12]
    assert groups_of(items_of([3]), {}, ["e0", "e1"], 2) == [Group("e0", (0,))]
    assert groups_of([], {}, ["e0"], 2) == []


@pytest.mark.parametrize(
    ("memory", "wanted"),
    [
        (WorkerMemory(), 2 * GB),
        (WorkerMemory(cores=8), GB),  # a quarter of the machine's
        (WorkerMemory(python=GB, cores=2), 256 * MB),
        (WorkerMemory(is_limited=True, heap=GB), 192 * MB),  # half of the least overhead
        (WorkerMemory(is_limited=True, heap=GB, overhead=2 * GB, cores=4), 256 * MB),
    ],
)
def test_workers_keep_what_their_executor_has_room_for(memory: WorkerMemory, wanted: int) -> None:
    assert memory.budget(2 * GB, machine=32 * GB) == wanted
    assert memory.budget(MB, machine=32 * GB) == MB
