"""The order of samples: each exactly once, whatever the shares, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector import errors
from hudi_vector.blobs.samples.order import SampleOrder, make_order

counts = st.integers(0, 300)
orders = st.builds(
    SampleOrder,
    rows=counts,
    batch_size=st.integers(1, 40),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**70),
    block=st.integers(1, 50),
)
epochs = st.integers(0, 2**40)


def positions(order: SampleOrder, epoch: int) -> list[int]:
    return [n for number in range(order.batches) for n in order.batch(epoch, number).tolist()]


@given(orders, epochs)
def test_an_epoch_has_every_sample_once(order: SampleOrder, epoch: int) -> None:
    found = positions(order, epoch)
    assert sorted(found) == list(range(order.rows))
    assert order.samples == order.rows
    if not order.shuffle:
        assert found == sorted(found)


@given(orders, epochs, st.integers(1, 7))
def test_ranks_share_every_batch_and_none_twice(order: SampleOrder, epoch: int, world: int) -> None:
    whole = [order.batch(epoch, number).tolist() for number in range(order.batches)]
    ranks = [
        SampleOrder(order.rows, order.batch_size, order.shuffle, order.seed, order.block, rank, world)
        for rank in range(world)
    ]
    for rank, one in enumerate(ranks):
        own = [one.batch(epoch, number).tolist() for number in range(one.batches)]
        assert own == whole[rank::world]
        assert one.samples == sum(map(len, own))


@given(orders, epochs, st.integers(1, 7))
def test_without_the_last_ranks_have_as_many_full_batches(order: SampleOrder, epoch: int, world: int) -> None:
    ranks = [
        SampleOrder(order.rows, order.batch_size, order.shuffle, order.seed, order.block, rank, world, drop_last=True)
        for rank in range(world)
    ]
    batches = [one.batch(epoch, number) for one in ranks for number in range(one.batches)]
    assert {one.batches for one in ranks} == {order.rows // order.batch_size // world}
    assert all(len(batch) == order.batch_size for batch in batches)
    seen = np.concatenate([np.empty(0, np.int64), *batches])
    assert len(np.unique(seen)) == len(seen)


@given(orders, epochs)
def test_neighbours_of_a_block_stay_together(order: SampleOrder, epoch: int) -> None:
    found = np.array(positions(order, epoch))
    breaks = int((np.diff(found) != 1).sum())
    assert breaks <= -(-order.rows // order.block)


def test_seeds_and_epochs_give_other_orders() -> None:
    found = {
        tuple(positions(SampleOrder(100, 10, True, seed, 4), epoch)) for seed in (0, 1, 2**64 - 1) for epoch in range(5)
    }
    assert len(found) == 15


def test_an_order_is_the_same_for_ever() -> None:
    """A training that is resumed next year, with another numpy, must find its order again."""
    order = SampleOrder(20, 5, True, 7, 3)
    found = [order.batch(2, number).tolist() for number in range(4)]
    assert found == [[6, 7, 8, 15, 16], [17, 18, 19, 9, 10], [11, 0, 1, 2, 12], [13, 14, 3, 4, 5]]


@given(counts, st.integers(0, 2**64 - 1), st.integers(1, 50), epochs)
def test_the_shuffle_is_that_of_a_plain_program(rows: int, seed: int, block: int, epoch: int) -> None:
    """SplitMix64 by Python's whole numbers, and a sort."""

    def mixed(word: int) -> int:
        word = (word + 0x9E3779B97F4A7C15) % 2**64
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    key = mixed(mixed(seed) ^ epoch)
    words = [mixed((key + number * 0x9E3779B97F4A7C15) % 2**64) for number in range(rows + 1)]
    edges = [0, *range(block - words[0] % block, rows, block), rows]
    blocks = sorted(range(len(edges) - 1), key=words.__getitem__)
    expected = [position for number in blocks for position in range(edges[number], edges[number + 1])]
    assert positions(SampleOrder(rows, 7, True, seed, block), epoch) == expected


def test_shuffles_are_fair() -> None:
    """Each sample comes first about as often as any other."""
    order = SampleOrder(10, 10, True, 1, 1)
    first = np.bincount([order.batch(epoch, 0)[0] for epoch in range(5000)], minlength=10)
    assert first.min() > 400
    assert first.max() < 600


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"batch_size": 0}, errors.InvalidArgumentError, "batch_size must be a whole number, 1 or more, not 0"),
        ({"shuffle": "yes"}, errors.InvalidTypeError, "shuffle is True or False, not 'yes'"),
        ({"drop_last": 1}, errors.InvalidTypeError, "drop_last is True or False, not 1"),
        ({"seed": -1}, errors.InvalidArgumentError, "seed must be a whole number, 0 or more, not -1"),
        ({"shuffle_block": 0}, errors.InvalidArgumentError, "shuffle_block must be a whole number, 1 or more, not 0"),
        ({"rank": 2, "world_size": 2}, errors.InvalidArgumentError, "rank 2 is not one of 2 ranks; ranks are counted from 0 to 1"),
        ({"world_size": 0}, errors.InvalidArgumentError, "world_size must be a whole number, 1 or more, not 0"),
    ],
)  # fmt: skip
def test_wrong_input(arguments, error, sentence) -> None:
    with pytest.raises(error) as caught:
        make_order(10, **{"batch_size": 4, **arguments})
    assert str(caught.value) == sentence
