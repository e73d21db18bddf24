"""The order of samples in an epoch, and its division among ranks: arithmetic of a seed, without any data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.arguments import as_count
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["DEFAULT_BLOCK", "SampleOrder", "make_order"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

DEFAULT_BLOCK = 8
"""The number of neighbouring rows that stay together when rows are shuffled, unless the caller gives another one."""


@dataclass(frozen=True)
class SampleOrder:
    """The order of n samples, in batches, as one rank of several reads them.

    The order of all samples depends on `rows`, `shuffle`, `seed`, `block` and the epoch, and on nothing else. It is cut
    into batches, numbered from 0. Batch j of rank r is number r + j · `world_size`.

    Attributes:
        rows: The number of samples.
        batch_size: The number of samples of a batch.
        shuffle: Whether samples are shuffled; otherwise they are in the order of the table.
        seed: The seed of the shuffles.
        block: How many neighbours stay together in a shuffle. Where blocks begin differs from epoch to epoch.
        rank: The number of this rank.
        world_size: The number of ranks.
        drop_last: Whether batches are left out that are not full, or that not every rank has.
    """

    rows: int
    batch_size: int
    shuffle: bool = False
    seed: int = 0
    block: int = DEFAULT_BLOCK
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    @property
    def batches(self) -> int:
        """Return the number of batches of this rank.

        Example:
            >>> SampleOrder(10, 4).batches, SampleOrder(10, 4, drop_last=True).batches
            (3, 2)
        """
        if self.drop_last:
            return self.rows // self.batch_size // self.world_size
        return len(range(self.rank, -(-self.rows // self.batch_size), self.world_size))

    @property
    def samples(self) -> int:
        """Return the number of samples of this rank.

        Example:
            >>> SampleOrder(10, 4).samples, SampleOrder(10, 4, rank=1, world_size=2).samples
            (10, 4)
        """
        last = self.batches - 1
        return max(0, last) * self.batch_size + (len(self._cut(last)) if last >= 0 else 0)

    def batch(self, epoch: int, number: int) -> Ints:
        """Return the positions of a batch of this rank, `number` from 0 to `batches`.

        Example:
            >>> SampleOrder(10, 4).batch(0, 2).tolist()
            [8, 9]
        """
        part = self._cut(number)
        return _order(self.rows, self.shuffle, self.seed, self.block, epoch)[part.start : part.stop]

    def _cut(self, number: int) -> range:
        begin = (self.rank + number * self.world_size) * self.batch_size
        return range(begin, min(begin + self.batch_size, self.rows))


def make_order(
    rows: int,
    batch_size: Any,
    *,
    shuffle: Any = False,
    seed: Any = 0,
    shuffle_block: Any = DEFAULT_BLOCK,
    rank: Any = 0,
    world_size: Any = 1,
    drop_last: Any = False,
) -> SampleOrder:
    """Return an order of `rows` samples after checks of the arguments that a caller gave.

    Raises InvalidArgumentError or InvalidTypeError.
    """
    for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
        if not isinstance(value, bool):
            raise InvalidTypeError(f"{name} is True or False, not {value!r}")
    world = as_count(world_size, "world_size") or 1
    own = as_count(rank, "rank", 0) or 0
    if own >= world:
        raise InvalidArgumentError(f"rank {own} is not one of {world} ranks; ranks are counted from 0 to {world - 1}")
    return SampleOrder(
        rows=rows,
        batch_size=as_count(batch_size, "batch_size") or 1,
        shuffle=shuffle,
        seed=as_count(seed, "seed", 0) or 0,
        block=as_count(shuffle_block, "shuffle_block") or 1,
        rank=own,
        world_size=world,
        drop_last=drop_last,
    )


@lru_cache(maxsize=2)
def _order(rows: int, shuffle: bool, seed: int, block: int, epoch: int) -> Ints:
    """Return the positions of all samples in the order of an epoch, shape (n,)."""
    if not shuffle:
        return np.arange(rows, dtype=np.int64)
    first = block - int(_words(seed, epoch, 1)[0] % np.uint64(block))
    edges = np.concatenate([[0], np.arange(first, rows, block), [rows]]).astype(np.int64)
    chosen = np.argsort(_words(seed, epoch, len(edges) - 1), kind="stable")
    begins, sizes = edges[:-1][chosen], np.diff(edges)[chosen]
    return np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(rows, dtype=np.int64)


def _words(seed: int, epoch: int, count: int) -> Words:
    """Return `count` random words of a seed and an epoch: the same in every version of numpy, unlike its generators."""
    start = np.array([seed % 2**64], np.uint64)
    key = _mixed(_mixed(start) ^ np.array([epoch % 2**64], np.uint64))
    return _mixed(key + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _mixed(words: Words) -> Words:
    """Return words with their bits mixed, as SplitMix64 does; sums and products wrap around."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed
