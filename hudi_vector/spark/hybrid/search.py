"""A hybrid search on Spark, checked at analysis and run when its statement is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from hudi_vector.errors import InvalidTypeError, UnknownColumnError
from hudi_vector.kernels.metrics import Floats, require_comparable
from hudi_vector.kernels.sparse import SparseVector
from hudi_vector.query.asking.output import Found
from hudi_vector.query.grouping.arguments import GROUP_RANK, Grouping, group_ranks
from hudi_vector.query.hybrid.checks import (
    as_fusion,
    as_metrics,
    as_normalize,
    as_probe,
    as_search_columns,
    as_weights,
    distance_names,
)
from hudi_vector.query.hybrid.question import HybridColumn, HybridQuestion, question_of
from hudi_vector.query.hybrid.run import HybridAsked, HybridWinners
from hudi_vector.query.tuning import checked_tuning
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import sparse_column_of
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.columns import IN_SQL, RANK, Shown, require_no_clash, vector_column
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.search.search import TableSearch, Wanted
from hudi_vector.spark.search.table_functions import checked_search

__all__ = [
    "FUNCTION",
    "HybridSearch",
    "checked_hybrid",
    "hybrid_relation",
    "probes_of",
    "scored_rows",
    "searched_column",
]

FUNCTION = "hudi_hybrid_search"
SCORE = "score"


@dataclass(frozen=True)
class HybridSearch:
    """A checked hybrid search without its queries: the table, the columns, weights, k, the filter and the groups.

    `distances` are the names of the distance columns in the output, one for each searched column. The search of the
    table, `base`, does not leave out rows whose group is NULL, since they have ranks too.
    """

    base: TableSearch
    columns: tuple[HybridColumn, ...]
    distances: tuple[str, ...]
    fusion: str
    normalize: bool
    grouping: Grouping | None = None

    @property
    def plain(self) -> list[StructField]:
        """Return the table's columns without the searched ones."""
        searched = {column.column.name for column in self.columns}
        return [field for field in self.base.target.schema.fields if field.name not in searched]

    @property
    def searched(self) -> list[StructField]:
        """Return the searched columns, each once."""
        names = dict.fromkeys(column.column.name for column in self.columns)
        return [self.base.target.schema[name] for name in names]

    @property
    def added(self) -> list[StructField]:
        """Return the columns that the search adds: the distances, the score and the rank, and that of the group."""
        names = [RANK, *self.base.group_columns]
        numbers = [StructField(name, DoubleType(), False) for name in (*self.distances, SCORE)]
        return numbers + [StructField(name, IntegerType(), False) for name in names]

    @property
    def without_queries(self) -> HybridQuestion:
        """Return the question, to which queries are added."""
        return HybridQuestion(self.columns, (), self.base.k, self.fusion, self.normalize, self.grouping)

    def run(self, question: HybridQuestion, names: Sequence[str], unusable: int = 0) -> Found:
        """Search, and return the found rows with the named columns, ordered by query and rank.

        `names` are columns of the target. `unusable` is the number of query rows that lack a vector, for the report.
        The distance of a row is its negated score; the distances by column and the score are in `added`.
        """
        wanted = Wanted(HybridAsked.of(question), question.read, names)
        winners, rows = self.base.answer(wanted, self.base.conf(), unusable)
        return scored_rows(HybridWinners.of(winners, question), self.distances, rows)

    def describe(self) -> str:
        """Return the text for EXPLAIN."""
        text = f"{FUNCTION} {self.base.target.label} k={self.base.k} {self.base.metric}"
        text += f" groups=[{self.grouping.describe()}]" if self.grouping else ""
        return text + (f" filter=[{self.base.filter.text}]" if self.base.filter else "")


def checked_hybrid(
    spark: SparkSession,
    target: Target,
    search_columns: Any,
    *,
    k: Any,
    weights: Any = None,
    metrics: Any = None,
    fusion: Any = None,
    normalize: Any = None,
    filter: Any = None,  # noqa: A002 - the name SQL gives it
    as_of: Any = None,
    execution: Any = None,
    timeout: Any = None,
    group_by: Any = None,
    per_group: Any = None,
    group_nulls: Any = None,
) -> HybridSearch:
    """Return a hybrid search after all checks that are possible before it runs and without its queries.

    The arguments are the same as for `hudi_vector.hybrid_search`; None selects the default.
    """
    names = as_search_columns(search_columns)
    how = as_fusion(fusion)
    weight = as_weights(weights, len(names), how)
    metric = as_metrics(metrics, len(names))
    base = checked_search(
        spark,
        target,
        VectorColumn(names[0], 0, "float"),
        None,
        k=k,
        tuning=checked_tuning(
            "exact", timeout=timeout, group_by=group_by, per_group=per_group, group_nulls=group_nulls
        ),
        filter=filter,
        as_of=as_of,
        execution=execution,
    )
    found = [searched_column(base.target, name) for name in names]
    columns = tuple(HybridColumn(*parts) for parts in zip(found, metric, weight, strict=True))
    for entry in columns:
        element = entry.column.element if isinstance(entry.column, VectorColumn) else None
        require_comparable(entry.metric, entry.column.name, element)
    normalized = as_normalize(normalize, how)
    described = HybridQuestion(columns, (), base.k, how, normalized).describe()
    grouping = base.tuning.grouping
    tuning = replace(base.tuning, grouping=None if grouping is None else replace(grouping, drop_nulls=False))
    search = HybridSearch(
        base=replace(base, column=VectorColumn(found[0].name, 0, "float"), metric=described, tuning=tuning),
        columns=columns,
        distances=distance_names([column.name for column in found]),
        fusion=how,
        normalize=normalized,
        grouping=grouping,
    )
    require_no_clash(base.target, [field.name for field in search.added])
    return search


def searched_column(target: Target, name: str) -> SearchColumn:
    """Return a column of dense or sparse vectors; its name matches in any case, an exact match first.

    Raises UnknownColumnError if there is no such column, InvalidTypeError if it holds no vectors.
    """
    fields = target.schema.fields
    exact = [number for number, field in enumerate(fields) if field.name == name]
    matching = exact or [number for number, field in enumerate(fields) if field.name.lower() == name.lower()]
    if not matching:
        raise UnknownColumnError.of(name, target.schema.fieldNames(), target.label)
    field = fields[matching[0]]
    sparse = sparse_column_of(arrow_fields(StructType([field]))[0])
    if sparse is not None:
        return sparse
    try:
        return vector_column(target.schema, name, target.label, None)
    except InvalidTypeError:
        raise InvalidTypeError(
            f"column '{field.name}' of '{target.label}' is {field.dataType.simpleString().upper()}; a hybrid search "
            "needs a VECTOR, an array of FLOAT, DOUBLE or TINYINT, a MAP<STRING, FLOAT>, or a "
            "STRUCT<indices: ARRAY<INT>, values: ARRAY<FLOAT>>"
        ) from None


def probes_of(search: HybridSearch, values: Sequence[Any]) -> HybridQuestion:
    """Return the checked question of one query; `values` holds a query for each column."""
    label = search.base.target.label
    pairs = zip(values, search.columns, strict=True)
    probes: list[Floats | SparseVector] = [as_probe(value, entry.column, label) for value, entry in pairs]
    return question_of(search.columns, probes, search.base.k, search.fusion, search.normalize, search.grouping)


@dataclass(frozen=True)
class _Single:
    """A checked search and its single query."""

    search: HybridSearch
    question: HybridQuestion

    def produce(self, names: Sequence[str]) -> pa.Table:
        """Return the rows with exactly these columns, ordered by rank."""
        added = {field.name for field in self.search.added}
        found = self.search.run(self.question, [name for name in names if name not in added])
        values = {**found.added, RANK: pa.array(found.rank.astype(np.int32))}
        columns: list[Any] = [values[name] if name in values else found.rows.column(name) for name in names]
        return pa.table(columns, names=list(names)) if names else pa.table({"": pa.nulls(len(found.query))})


def scored_rows(won: HybridWinners, names: Sequence[str], rows: pa.Table) -> Found:
    """Return the rows found with their distances, which get these names, their scores and the ranks of their groups."""
    winners = won.winners
    added = {name: pa.array(won.distances[:, number]) for number, name in enumerate(names)}
    added |= {SCORE: pa.array(won.score)}
    added |= {} if winners.group_rank is None else {GROUP_RANK: group_ranks(winners.group_rank)}
    return Found(winners.query, winners.distance, winners.rank, rows, added)


def hybrid_relation(search: HybridSearch, question: HybridQuestion, shown: Shown = IN_SQL) -> JavaObject:
    """Return the logical plan of a hybrid search for one query."""
    single = _Single(search, question)
    columns, named = shown.parted(search.plain)
    visible = StructType([*columns, *search.added])
    hidden = [*named, *(StructField(field.name, field.dataType) for field in search.searched)]
    return lazy_relation(search.base.spark, FUNCTION, visible, hidden, single.produce, search.describe)
