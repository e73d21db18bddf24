"""Hybrid search for every row of a query table, on the driver or in the partitions of the query rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import LongType, StructField

from hudi_vector import options
from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.query.asking.output import Found
from hudi_vector.query.asking.queries import AskedRows, QueryColumns
from hudi_vector.query.distributed import find_unmergeable
from hudi_vector.query.hybrid.checks import as_search_columns
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.hybrid.run import run_hybrid
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.winners import named_rows
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import SparseColumn
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.columns import IN_SQL, RANK, Shown, require_no_clash
from hudi_vector.spark.hybrid.search import FUNCTION, HybridSearch, scored_rows, searched_column
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.search.batch import INDEX, QUERY_PREFIX, QueryBatch, QueryRows
from hudi_vector.spark.search.output import Output, added_output, hidden_meta, output_of, second_side
from hudi_vector.spark.search.search import lance_holds_sparse

__all__ = ["HybridFinder", "HybridQueries", "hybrid_batch_plan"]


@dataclass(frozen=True)
class HybridQueries:
    """The query rows: a target, and for each searched column the column that holds its query."""

    rows: QueryRows
    columns: tuple[SearchColumn, ...]

    @classmethod
    def of(cls, target: Target, names: Any, search: HybridSearch) -> HybridQueries:
        """Return the rows of a target as queries, with one of the named columns for each searched column.

        Raises InvalidArgumentError if the number of columns differs, InvalidTypeError if a column is dense and its
        searched column sparse or the reverse, DimensionMismatchError if their dimensions differ.
        """
        given = as_search_columns(names, "query_columns")
        if len(given) != len(search.columns):
            raise InvalidArgumentError(
                f"{number_of(len(given), 'query column was', 'query columns were')} given for "
                f"{number_of(len(search.columns), 'search column')}; give one for each"
            )
        columns = tuple(searched_column(target, name) for name in given)
        for asking, entry in zip(columns, search.columns, strict=True):
            _require_alike(asking, entry.column, target.label)
        return cls(QueryRows(target, VectorColumn(columns[0].name, 0, "float")), columns)

    @property
    def fields(self) -> list[StructField]:
        """Return the columns without the query columns."""
        asking = {column.name for column in self.columns}
        return [field for field in self.rows.target.schema.fields if field.name not in asking]


def _require_alike(asking: SearchColumn, searched: SearchColumn, label: str) -> None:
    if isinstance(asking, SparseColumn) != isinstance(searched, SparseColumn):
        held, wanted = ("sparse", "dense") if isinstance(asking, SparseColumn) else ("dense", "sparse")
        raise InvalidTypeError(
            f"column '{asking.name}' of '{label}' holds {held} vectors and '{searched.name}' is searched for {wanted} "
            "ones; name a column of that kind"
        )
    lengths = [column.dimension for column in (asking, searched) if isinstance(column, VectorColumn)]
    if all(lengths) and len(set(lengths)) > 1:
        raise DimensionMismatchError(
            f"column '{asking.name}' of '{label}' has {number_of(lengths[0], 'element')}, the searched column "
            f"'{searched.name}' has "
            f"{lengths[1]}; give {lengths[1]}"
        )


@dataclass(frozen=True)
class HybridFinder:
    """A plan that is searched by the thread that asks.

    `question` is without queries; its columns have the table's names. `distances` are the output names of the distances
    by column; `physical` pairs the view's column names with those of the table.
    """

    plan: SearchPlan
    question: HybridQuestion
    distances: tuple[str, ...]
    physical: tuple[tuple[str, str], ...]

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the best rows."""
        plan, question = self.plan, _asked(self.question, asked)
        entries = tuple(enumerate(plan.slices))
        progress = Progress()
        won = run_hybrid(plan, question, [entries] if entries else [], map, True, progress)
        refuse_other_length(plan, len(won.winners.query), progress.counts, question.dense)
        with progress.deadline.limiting():
            rows = named_rows(plan, won.winners, names, dict(self.physical))
        return scored_rows(won, self.distances, rows)


@dataclass(frozen=True)
class _OnDriver:
    """A search that the driver runs for all queries at once, and reports; `question` is without queries."""

    search: HybridSearch
    question: HybridQuestion

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the best rows."""
        return self.search.run(_asked(self.question, asked), names, asked.unusable)


def _asked(question: HybridQuestion, asked: AskedRows) -> HybridQuestion:
    """Return the question with queries, whose lengths dense columns get as dimension."""
    sized = [
        entry if isinstance(probes, tuple) else entry.sized(probes.shape[1])
        for entry, probes in zip(question.columns, asked.probes, strict=True)
    ]
    return replace(question, columns=tuple(sized), probes=asked.probes)


def hybrid_batch_plan(search: HybridSearch, queries: HybridQueries, shown: Shown = IN_SQL) -> JavaObject:
    """Return the logical plan of a hybrid search for many query rows.

    The plan is lazy for a query set that can be collected on the driver. For a larger one it is a Python stage over the
    query partitions, unless only Spark can merge some of the table's log files or read its sparse vectors.
    """
    base, conf = search.base, search.base.conf()
    question = search.without_queries
    outputs = _outputs(search, queries)
    hidden = hidden_meta(outputs, shown)
    batch = QueryBatch(
        base,
        queries.rows,
        QueryColumns(queries.columns, _dimensions(search), queries.rows.target.label),
        _OnDriver(search, question),
        tuple(output for output in outputs if output not in hidden),
        tuple(hidden),
        FUNCTION,
        search.describe,
    )
    dimension = sum(column.dimension for column in queries.columns if isinstance(column, VectorColumn))
    if not queries.rows.fit(base.spark, options.BATCH_COLLECT_MAX_BYTES.read(conf), dimension):
        plan = base.plan(0, conf)
        sparse = (entry.column for entry in search.columns)
        if plan is not None and plan.execution != "spark" and not lance_holds_sparse(plan, sparse):
            physical = dict(base.target.physical)
            names = [physical[field.name] for field in (*search.plain, *search.searched)]
            if find_unmergeable(base.spark.sparkContext, plan, names) is None:
                finder = HybridFinder(plan, question.named(physical), search.distances, base.target.physical)
                return batch.spread(batch.asking, finder)
    return batch.lazy()


def _dimensions(search: HybridSearch) -> tuple[int | None, ...]:
    """Return the dimension of each searched column, None if it declares none or is sparse."""
    columns = [entry.column for entry in search.columns]
    return tuple(column.dimension or None if isinstance(column, VectorColumn) else None for column in columns)


def _outputs(search: HybridSearch, queries: HybridQueries) -> tuple[Output, ...]:
    """Return the table's columns, the query rows' columns, and those that the search adds."""
    require_no_clash(search.base.target, (INDEX,))
    first = [output_of(field, "corpus") for field in search.plain]
    added = [
        added_output(RANK, "rank", field.dataType) if field.name == RANK else output_of(field, "added")
        for field in search.added
    ]
    index = added_output(INDEX, "index", LongType())
    second = second_side(queries.fields, "query", [*first, index, *added], QUERY_PREFIX)
    return (*first, *second, index, *added)
