"""What a hybrid search is asked: several columns, a query for each, and how their scores become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hudi_vector.kernels.metrics import Floats, exact_distances
from hudi_vector.kernels.sparse import SparseBlock, SparseVector, sparse_distances
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.read.several import Block, SearchColumn
from hudi_vector.read.spec import VectorColumn

__all__ = ["RANK_CONSTANT", "HybridColumn", "HybridQuestion", "Probes", "question_of"]

RANK_CONSTANT = 60
"""What is added to a rank before it divides a weight."""

Probes = Floats | tuple[SparseVector, ...]
"""The queries of one column: shape (m, d), or m sparse ones."""


@dataclass(frozen=True)
class HybridColumn:
    """A searched column, its metric and its weight."""

    column: SearchColumn
    metric: str
    weight: float

    def named(self, name: str) -> HybridColumn:
        """The same under the table's own name."""
        return replace(self, column=replace(self.column, name=name))

    def sized(self, dimension: int) -> HybridColumn:
        """The same for dense vectors of a length."""
        assert isinstance(self.column, VectorColumn)
        return replace(self, column=replace(self.column, dimension=dimension))

    def distances(self, block: Block, probes: Probes, query: int) -> Floats:
        """The exact distances of all rows of a block to one query, shape (n,)."""
        if isinstance(block, SparseBlock):
            return sparse_distances(block, probes[query], self.metric)
        return exact_distances(block.values, probes[query], self.metric)  # type: ignore[arg-type]


@dataclass(frozen=True)
class HybridQuestion:
    """The columns, the queries of each, and what is made of them. Picklable: executors get it."""

    columns: tuple[HybridColumn, ...]
    probes: tuple[Probes, ...]
    k: int
    fusion: str = "weighted"
    normalize: bool = False
    deadline: Deadline = field(default=NEVER, repr=False, compare=False)

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return len(self.probes[0])

    @property
    def read(self) -> tuple[SearchColumn, ...]:
        """The columns to read."""
        return tuple(column.column for column in self.columns)

    @property
    def dense(self) -> tuple[VectorColumn, ...]:
        """The columns of dense vectors, with the lengths of their queries."""
        return tuple(column for column in self.read if isinstance(column, VectorColumn))

    def part(self, first: int, last: int) -> HybridQuestion:
        """The queries from first to last."""
        return replace(self, probes=tuple(probes[first:last] for probes in self.probes))

    def describe(self) -> str:
        """The columns, metrics and weights as text, and what is made of them."""
        parts = [f"{entry.weight:g} × {entry.column.name} ({entry.metric})" for entry in self.columns]
        return f"{' + '.join(parts)}, {self.fusion}" + (", normalized" if self.normalize else "")


def question_of(
    columns: Sequence[HybridColumn], probes: Sequence[Floats | SparseVector], k: int, fusion: str, normalize: bool
) -> HybridQuestion:
    """The question of one query, which has a vector for each column.

    Args:
        columns: The searched columns.
        probes: A checked vector for each.
        k: How many rows.
        fusion: ``weighted`` or ``rrf``.
        normalize: Whether scores are normalized.

    Returns:
        The question; columns that do not say their dimension have that of the query.
    """
    sized: list[HybridColumn] = []
    rows: list[Probes] = []
    for entry, probe in zip(columns, probes, strict=True):
        if isinstance(probe, SparseVector):
            sized.append(entry)
            rows.append((probe,))
        else:
            sized.append(entry.sized(len(probe)))
            rows.append(probe[None, :])
    return HybridQuestion(tuple(sized), tuple(rows), k, fusion, normalize)
