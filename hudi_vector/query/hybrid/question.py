"""The question of a hybrid search: several columns, a query for each, and the fusion of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hudi_vector.kernels.metrics import Floats, exact_distances
from hudi_vector.kernels.sparse import SparseBlock, SparseVector, sparse_distances
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.read.several import Block, SearchColumn
from hudi_vector.read.spec import VectorColumn

__all__ = ["RANK_CONSTANT", "HybridColumn", "HybridQuestion", "Probes", "question_of"]

RANK_CONSTANT = 60
"""The constant of reciprocal rank fusion: a column adds weight / (constant + rank) to a score."""

Probes = Floats | tuple[SparseVector, ...]
"""The queries of one column: an array of shape (m, d), or m sparse vectors."""


Q = TypeVar("Q", bound="HybridQuestion")


@dataclass(frozen=True)
class HybridColumn:
    """A searched column with its metric and weight."""

    column: SearchColumn
    metric: str
    weight: float

    def named(self, name: str) -> HybridColumn:
        """Return the column under the table's own name."""
        return replace(self, column=replace(self.column, name=name))

    def sized(self, dimension: int) -> HybridColumn:
        """Return the column, which must be dense, with the given dimension."""
        assert isinstance(self.column, VectorColumn)
        return replace(self, column=replace(self.column, dimension=dimension))

    def distances(self, block: Block, probes: Probes, query: int) -> Floats:
        """Return the exact distances of all rows of a block to one query, shape (n,)."""
        if isinstance(block, SparseBlock):
            return sparse_distances(block, probes[query], self.metric)
        return exact_distances(block.values, probes[query], self.metric)  # type: ignore[arg-type]


@dataclass(frozen=True)
class HybridQuestion:
    """The searched columns, the queries of each, and the fusion. Picklable: executors get it.

    With a `grouping`, k is the number of groups, each as good as its best row. Scores and ranks are those of rows among
    all rows, also among those that the grouping leaves out.
    """

    columns: tuple[HybridColumn, ...]
    probes: tuple[Probes, ...]
    k: int
    fusion: str = "weighted"
    normalize: bool = False
    grouping: Grouping | None = None
    deadline: Deadline = field(default=NEVER, repr=False, compare=False)

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return len(self.probes[0])

    @property
    def read(self) -> tuple[SearchColumn, ...]:
        """Return the columns to read."""
        return tuple(column.column for column in self.columns)

    @property
    def dense(self) -> tuple[VectorColumn, ...]:
        """Return the columns of dense vectors, with the dimension of their queries."""
        return tuple(column for column in self.read if isinstance(column, VectorColumn))

    def by(self: Q, deadline: Deadline) -> Q:
        """Return the question with a deadline, unless it has one already."""
        return replace(self, deadline=deadline) if self.deadline is NEVER else self

    def named(self: Q, names: Mapping[str, str]) -> Q:
        """Return the question with other names for the searched columns and those of the groups."""
        columns = tuple(entry.named(names[entry.column.name]) for entry in self.columns)
        return replace(self, columns=columns, grouping=None if self.grouping is None else self.grouping.named(names))

    def describe(self) -> str:
        """Return columns, metrics, weights and fusion as text."""
        parts = [f"{entry.weight:g} × {entry.column.name} ({entry.metric})" for entry in self.columns]
        return f"{' + '.join(parts)}, {self.fusion}" + (", normalized" if self.normalize else "")


def question_of(
    columns: Sequence[HybridColumn],
    probes: Sequence[Floats | SparseVector],
    k: int,
    fusion: str,
    normalize: bool,
    grouping: Grouping | None = None,
) -> HybridQuestion:
    """Return the question of a single query, which has a checked vector for each column.

    `fusion` is ``weighted`` or ``rrf``. Every dense column gets the dimension of its vector.
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
    return HybridQuestion(tuple(sized), tuple(rows), k, fusion, normalize, grouping)
