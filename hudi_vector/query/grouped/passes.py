"""The passes of a search for groups over rows.

One pass finds the best row of each of the k nearest groups. If more rows of each group are wanted, a second pass
collects them: a row of such a group may lie in a slice where k other groups are nearer, so the first pass cannot know
that it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.query.execute import Asked, SearchedRows, SliceFound
from hudi_vector.query.grouping.keys import group_keys
from hudi_vector.query.merge import SliceHits, Winners
from hudi_vector.read.predicate.change import literal_values
from hudi_vector.read.predicate.nodes import Column, In, IsNull, Literal, Or, Predicate, conjunction
from hudi_vector.read.spec import ScanCounts

__all__ = ["InPasses", "Members", "in_passes", "members_of"]


@dataclass(frozen=True)
class Members:
    """The groups whose rows are searched: the distinct keys for each query, and the values of all of them together."""

    keys: tuple[tuple[bytes, ...], ...]
    values: pa.Table

    @classmethod
    def of(cls, winners: Winners, values: pa.Table, queries: int) -> Members:
        """Return the groups of the rows that were found, whose columns have these values."""
        found: list[dict[bytes, None]] = [{} for _ in range(queries)]
        for query, key in zip(winners.query.tolist(), group_keys(values), strict=True):
            found[query][key] = None
        return cls(tuple(map(tuple, found)), values)

    def of_queries(self, part: slice) -> tuple[Ints, list[bytes]]:
        """Return the number of each group's query within a part of the queries, and its key."""
        keys = self.keys[part]
        return np.repeat(np.arange(len(keys)), [len(own) for own in keys]), [key for own in keys for key in own]

    def condition(self) -> Predicate | None:
        """Return a condition that the rows of the groups meet, and few others; None if no column has a plain type."""
        found = (_among(field.name, self.values.column(field.name), field.type) for field in self.values.schema)
        terms = [term for term in found if term is not None]
        return conjunction(terms) if terms else None


def _among(name: str, values: pa.ChunkedArray, kind: pa.DataType) -> Predicate | None:
    """Return the condition that a column has one of some values, None for a type that such a condition may not know."""
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind)):
        return None
    column, distinct = Column(name, kind), values.unique()
    listed = tuple(Literal(value, kind) for value in literal_values(distinct.drop_null(), kind))
    if not distinct.null_count:
        return In(column, listed)
    return Or((IsNull(column), In(column, listed))) if listed else IsNull(column)


P = TypeVar("P", bound="InPasses")


class InPasses(Asked, Protocol):
    """A question for groups whose rows are found in passes."""

    def one_of_each(self: P) -> P:
        """Return the question for the best row of each group alone."""
        ...

    def among(self: P, members: Members) -> P:
        """Return the question for the rows of some groups."""
        ...


Pass = Callable[[P, SearchedRows, Bounds], Iterable[SliceFound]]
"""A function that yields the hits of all slices with their final distances."""


def in_passes(asked: P, slices: SearchedRows, bounds: Bounds, search: Pass[P]) -> Iterator[SliceFound]:
    """Yield the hits of all slices: in one pass, or in two for more than one row of each group."""
    if asked.per_group == 1:
        yield from search(asked, slices, bounds)
        return
    nearest = asked.one_of_each()
    parts, counts = list[SliceHits](), ScanCounts()
    for hits, seen in search(nearest, slices, bounds):
        parts += hits
        counts.add(seen)
    yield [], counts
    yield from members_of(asked, slices.merged(nearest, parts), slices, search)


def members_of(asked: P, winners: Winners, slices: SearchedRows, search: Pass[P]) -> Iterator[SliceFound]:
    """Yield the best rows of the groups that have a row among the winners."""
    members = Members.of(winners, slices.columns(winners, asked.needs), asked.queries)
    # Not those of the caller, which are tightened to the k-th group: rows of nearer groups may be farther.
    limits = Bounds(asked.bounds().distance, np.ones(asked.queries, np.bool_))
    for hits, seen in search(asked.among(members), slices.limited(members.condition()), limits):
        yield hits, ScanCounts(bytes_read=seen.bytes_read)
