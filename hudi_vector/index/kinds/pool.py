"""The pool of rows that may be among the k nearest, with an upper limit for the rank of the k-th."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hudi_vector.index.kinds.model import Floats64
from hudi_vector.kernels.topk import Ints, rank_within

__all__ = ["Part", "Pool"]


Part = tuple[Ints, Ints, Floats64, Floats64]
"""Queries, entries, and lower and upper bounds of their ranks."""


@dataclass
class Pool:
    """The rows that may be among the k nearest, each with bounds of its rank.

    `within` is the limit of each query: rows with a larger rank are not among its k nearest.
    """

    k: int
    within: Floats64
    query: Ints
    entry: Ints
    lower: Floats64
    upper: Floats64

    def add(self, parts: list[Part]) -> None:
        """Add rows, lower the limits where k rows are certainly nearer, and drop the rows beyond the limits."""
        query, entry, lower, upper = (
            np.concatenate([own, *(part[place] for part in parts)])
            for place, own in enumerate((self.query, self.entry, self.lower, self.upper))
        )
        order, rank = rank_within(query, upper)
        kth = order[rank == self.k - 1]
        self.within[query[kth]] = np.minimum(self.within[query[kth]], upper[kth])
        near = lower <= self.within[query]
        self.query, self.entry, self.lower, self.upper = query[near], entry[near], lower[near], upper[near]

    def give_up(self, most: int | None) -> Ints:
        """Drop the rows of all queries that have more than `most`, and return these queries; None gives up none."""
        if most is None:
            return self.query[:0]
        over = np.bincount(self.query, minlength=len(self.within)) > most
        self.within[over] = -np.inf
        kept = ~over[self.query]
        self.query, self.entry = self.query[kept], self.entry[kept]
        self.lower, self.upper = self.lower[kept], self.upper[kept]
        return np.flatnonzero(over)
