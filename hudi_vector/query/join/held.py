"""A right side that is small enough to hold in memory: its rows are sent once to every process and searched there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK, VectorBlock
from hudi_vector.query.execute import Asked, Question, SliceFound, joined
from hudi_vector.query.grouped.question import GroupedQuestion
from hudi_vector.query.join.sides import Nearest
from hudi_vector.query.merge import SliceHits, Winners, break_ties, merge_hits, order_of_keys
from hudi_vector.read.predicate.form import Predicate, evaluate
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.table.recent import Recent

__all__ = ["Content", "HeldSide", "as_content", "in_order"]


class Content(Protocol):
    """Bytes that reach every process once, for example a Spark broadcast."""

    @property
    def value(self) -> bytes:
        """Return the bytes."""
        ...


_Opened = tuple[pa.Table, VectorBlock]
_OPENED: Recent[tuple[str, VectorColumn], _Opened] = Recent(4)


@dataclass(frozen=True)
class HeldSide:
    """Rows in memory, in the order that decides ties.

    `identity` names the content within a process; only rows that meet `predicate` are searched.
    """

    content: Content
    identity: str
    column: VectorColumn
    zone: str
    predicate: Predicate | None = None

    def find(self, question: Question | GroupedQuestion, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        """Return the nearest of the rows, found by products of blocks of queries and rows."""
        del names
        column = replace(self.column, dimension=self.column.dimension or question.vectors.shape[1], is_vector=False)
        table, block = self._opened(column)
        terms = [term for term in (self.predicate, predicate) if term is not None]
        if terms:
            block = block.select(evaluate(conjunction(terms), table, self.zone)[block.positions])
        if isinstance(question, GroupedQuestion):
            return HeldRows(table, _OneBlock(table, block).best(question))
        bounds = Bounds.of(len(question.vectors), question.max_distance)
        parts = []
        for first in range(0, len(question.vectors), question.block_queries):
            part = slice(first, first + question.block_queries)
            known = Bounds(bounds.distance[part], bounds.is_full[part])
            top = TopK(question.vectors[part], question.metric, question.k, known)
            if len(block):
                top.offer(block)
            parts.append((first, break_ties(top.hits(), question.k, lambda _: None)))
            question.deadline.check()
        return HeldRows(table, joined(parts))

    def _opened(self, column: VectorColumn) -> _Opened:
        key = (self.identity, column)
        known = _OPENED.get(key)
        if known is None:
            table = pa.ipc.open_stream(self.content.value).read_all().combine_chunks()
            vectors = table.column(column.name)
            array = vectors.chunk(0) if vectors.num_chunks else pa.array([], vectors.type)
            positions = np.arange(table.num_rows, dtype=np.int64)
            known = _OPENED.first(key, (table, block_of(array, column, positions, ScanCounts())))
        return known


@dataclass(frozen=True)
class HeldRows:
    """The rows found in a table in memory."""

    table: pa.Table
    hits: Hits

    @property
    def query(self) -> Ints:
        """Return the query number of each row."""
        return self.hits.query

    @property
    def distance(self) -> Floats:
        """Return the distance of each row."""
        return self.hits.distance

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows."""
        return self.table.select(list(dict.fromkeys(names))).take(pa.array(self.hits.position))

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """Return the rows at these indices, or where the mask is True."""
        return HeldRows(self.table, self.hits.take(chosen))


@dataclass(frozen=True)
class _OneBlock:
    """The rows in memory that pass the condition, as the rows of a search for groups."""

    table: pa.Table
    block: VectorBlock

    def best(self, question: GroupedQuestion) -> Hits:
        """Return the best rows of the nearest groups, by query and group."""
        parts: list[SliceHits] = []
        for hits, _ in question.found(self, question.bounds()):
            parts += hits
        winners = self.merged(question, parts)
        return Hits(winners.query, winners.distance, winners.position)

    def search(self, asked: Asked, bounds: Bounds) -> list[SliceFound]:
        """Return the hits of the block."""
        collector = asked.collector(bounds)
        if len(self.block):
            collector.offer(asked.with_rows((self.block,), self._rows))
        asked.deadline.check()
        return [([SliceHits(0, collector.hits())], ScanCounts())]

    def merged(self, asked: Asked, parts: list[SliceHits]) -> Winners:
        """Return the best rows among the hits; their places decide ties."""
        return merge_hits(parts, asked.k, lambda _, __: None, asked.per_group)

    def columns(self, winners: Winners, names: Sequence[str]) -> pa.Table:
        """Return columns of winners, in their order."""
        return self._rows(winners.position, names)

    def wider(self, times: int) -> None:
        """Return None: rows in memory have no index."""

    def limited(self, condition: Predicate | None) -> _OneBlock:
        """Return all rows: they are in memory."""
        del condition
        return self

    def _rows(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        return self.table.select(list(names)).take(pa.array(positions))


def as_content(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def in_order(table: pa.Table, ties: Sequence[str]) -> pa.Table:
    """Return the rows in the order that decides ties: by the columns `ties`, the most significant first, NULLs first.

    Example:
        >>> in_order(pa.table({"a": [2, None, 1]}), ["a"]).column("a").to_pylist()
        [None, 1, 2]
    """
    return table.take(pa.array(np.argsort(order_of_keys(table.select(list(ties))))))
