"""Hybrid search for every row of a query table, on the driver or in the partitions of the query rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from hudi_vector import options
from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError
from hudi_vector.query.batch_rows import Column, Found, assemble, query_vectors
from hudi_vector.query.distributed import find_unmergeable
from hudi_vector.query.hybrid.checks import as_search_columns
from hudi_vector.query.hybrid.question import HybridColumn, HybridQuestion, Probes
from hudi_vector.query.hybrid.run import run_hybrid
from hudi_vector.query.join.task import gathered
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.winners import named_rows
from hudi_vector.read.cache import process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import SparseColumn, sparse_block_of
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.columns import require_no_clash
from hudi_vector.spark.hybrid.search import FUNCTION, HybridSearch, added_columns, searched_column
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.search.batch import INDEX, Output, QueryRows, added_output, numbered, output_of, prefixed
from hudi_vector.spark.search.search import lance_holds_sparse
from hudi_vector.spark.search.spread import spread_plan

__all__ = ["Asking", "HybridAnswers", "HybridQueries", "best_rows", "hybrid_batch_plan"]

_ROWS_AT_ONCE = 1 << 18
_BATCH_BYTES = 64 << 20


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
                f"{len(given)} query columns were given for {len(search.columns)} search columns; give one for each"
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
            f"column '{asking.name}' of '{label}' has {lengths[0]} elements, the searched column '{searched.name}' has "
            f"{lengths[1]}; give {lengths[1]}"
        )


@dataclass(frozen=True)
class Asking:
    """The conversion of query rows to a question."""

    columns: tuple[HybridColumn, ...]
    queries: tuple[SearchColumn, ...]
    label: str
    k: int
    fusion: str
    normalize: bool

    def question(self, rows: pa.Table) -> tuple[HybridQuestion, npt.NDArray[np.int64], int]:
        """Return the question of the rows that have all queries, their row numbers, and how many rows lack one."""
        sized, probes, places = [], [], []
        for entry, column in zip(self.columns, self.queries, strict=True):
            found, at = self._probes(rows, entry, column)
            sized.append(entry if isinstance(found, tuple) else entry.sized(found.shape[1]))
            probes.append(found)
            places.append(at)
        common = places[0]
        for at in places[1:]:
            common = np.intersect1d(common, at, assume_unique=True)
        chosen = [_chosen_probes(found, np.searchsorted(at, common)) for found, at in zip(probes, places, strict=True)]
        question = HybridQuestion(tuple(sized), tuple(chosen), self.k, self.fusion, self.normalize)
        return question, common, rows.num_rows - len(common)

    def _probes(
        self, rows: pa.Table, entry: HybridColumn, column: SearchColumn
    ) -> tuple[Probes, npt.NDArray[np.int64]]:
        if isinstance(column, VectorColumn):
            assert isinstance(entry.column, VectorColumn)
            vectors, at, _ = query_vectors(rows, column, self.label, entry.column.dimension or None)
            return vectors, at
        array = rows.column(column.name)
        chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        block = sparse_block_of(chunk, column, np.arange(len(chunk), dtype=np.int64), ScanCounts())
        return block.vectors(), block.positions


def _chosen_probes(probes: Probes, places: npt.NDArray[np.intp]) -> Probes:
    """Return the queries of one column at the given places."""
    return tuple(probes[place] for place in places) if isinstance(probes, tuple) else probes[places]


@dataclass(frozen=True)
class HybridAnswers:
    """The search that each task gets: the plan, the conversion of query rows, and the output columns.

    `physical` pairs the view's column names with those of the table; `conf` are settings as text.
    """

    plan: SearchPlan
    asking: Asking
    distances: tuple[str, ...]
    columns: tuple[Column, ...]
    physical: tuple[tuple[str, str], ...]
    schema: tuple[pa.Field, ...]
    conf: tuple[tuple[str, str], ...]

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of a partition of query rows."""
        for rows in gathered(batches, max(1, _ROWS_AT_ONCE // self.asking.k), _BATCH_BYTES):
            yield from self.run(rows)

    def run(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of some query rows."""
        process_cache().resize(options.CACHE_MAX_BYTES.read(dict(self.conf)))
        question, at, _ = self.asking.question(rows)
        step = max(1, _ROWS_AT_ONCE // question.k)
        for start in range(0, question.queries, step):
            found = self._search(question.part(start, start + step))
            table = assemble(self.columns, found, rows, at[start : start + step])
            yield from conform(table, list(self.schema)).combine_chunks().to_batches()

    def _search(self, question: HybridQuestion) -> Found:
        names = list(dict.fromkeys(column.source for column in self.columns if column.side == "corpus"))
        return best_rows(self.plan, question, names, self.physical, self.distances)


def best_rows(
    plan: SearchPlan,
    question: HybridQuestion,
    names: Sequence[str],
    physical: Iterable[tuple[str, str]],
    distances: Sequence[str],
) -> Found:
    """Return the best rows of a table, found and read by this thread.

    The columns of `question` have the table's names. `names` are the columns to return and `physical` pairs them with
    the table's names. `distances` are the output names of the distances by column.
    """
    entries = tuple(enumerate(plan.slices))
    progress = Progress()
    won = run_hybrid(plan, question, [entries] if entries else [], map, True, progress)
    if question.queries:
        refuse_other_length(plan, len(won.winners.query), progress.counts, question.dense)
    rows = named_rows(plan, won.winners, names, dict(physical))
    added = added_columns(distances, won.distances, won.score)
    return Found(won.winners.query, won.winners.distance, won.winners.rank, rows, added)


@dataclass(frozen=True)
class _Batch:
    """A checked search, its query rows, and its output columns."""

    search: HybridSearch
    queries: HybridQueries
    outputs: tuple[Output, ...]

    @property
    def asking(self) -> Asking:
        search = self.search
        return Asking(
            search.columns,
            self.queries.columns,
            self.queries.rows.target.label,
            search.base.k,
            search.fusion,
            search.normalize,
        )

    def produce(self, names: Sequence[str]) -> pa.Table:
        """Return the rows with exactly these columns, ordered by query and rank."""
        by_name = {output.column.name: output.column for output in self.outputs}
        wanted = [by_name[name] for name in names]
        needed = [column.source for column in wanted if column.side == "query"]
        needed += [column.name for column in self.queries.columns]
        rows = self.queries.rows.rows(self.search.base.spark, needed)
        question, at, unusable = self.asking.question(rows)
        sources = list(dict.fromkeys(column.source for column in wanted if column.side == "corpus"))
        found = self.search.run(question, sources, unusable)
        return assemble(wanted, found, rows, at) if wanted else pa.table({"": pa.nulls(len(found.query))})

    def lazy(self) -> JavaObject:
        """Return the plan for a query set that is collected on the driver."""
        visible = StructType([output.field for output in self.outputs])
        return lazy_relation(self.search.base.spark, FUNCTION, visible, [], self.produce, self.search.describe)

    def spread(self, plan: SearchPlan) -> JavaObject:
        """Return the plan for a query set that stays in its partitions."""
        base = self.search.base
        physical = dict(base.target.physical)
        frame = self.queries.rows.frame(base.spark)
        needed = {output.column.source for output in self.outputs if output.column.side == "query"}
        needed |= {column.name for column in self.queries.columns}
        frame = frame.select([frame[quoted(name)] for name in frame.columns if name in needed])
        frame, index = numbered(frame)
        visible = StructType([output.field for output in self.outputs])
        own = tuple(entry.named(physical[entry.column.name]) for entry in self.search.columns)
        answers = HybridAnswers(
            plan=plan,
            asking=replace(self.asking, columns=own),
            distances=self.search.distances,
            columns=tuple(
                Column(o.column.name, "index", index) if o.column.side == "index" else o.column for o in self.outputs
            ),
            physical=base.target.physical,
            schema=tuple(arrow_fields(visible)),
            conf=tuple(base.conf().items()),
        )
        partitions = base.spark.sparkContext.defaultParallelism
        return spread_plan(base.spark, frame.repartition(partitions), answers, visible, [])


def hybrid_batch_plan(search: HybridSearch, queries: HybridQueries) -> JavaObject:
    """Return the logical plan of a hybrid search for many query rows.

    The plan is lazy for a query set that can be collected on the driver. For a larger one it is a Python stage over the
    query partitions, unless only Spark can merge some of the table's log files or read its sparse vectors.
    """
    require_no_clash(search.base.target, (INDEX,))
    first = [output_of(field, "corpus", field.name) for field in search.plain]
    added = [Output(Column(field.name, "added", field.name), field) for field in search.added[:-1]]
    added += [added_output(search.added[-1].name, "rank", search.added[-1].dataType)]  # type: ignore[arg-type]
    index = added_output(INDEX, "index", LongType())
    second = prefixed(queries.fields, "query", [*first, index, *added])
    batch = _Batch(search, queries, (*first, *second, index, *added))
    base, conf = search.base, search.base.conf()
    dimension = sum(column.dimension for column in queries.columns if isinstance(column, VectorColumn))
    if not queries.rows.fit(base.spark, options.BATCH_COLLECT_MAX_BYTES.read(conf), dimension):
        plan = base.plan(0, conf)
        sparse = (entry.column for entry in search.columns)
        if plan is not None and plan.execution != "spark" and not lance_holds_sparse(plan, sparse):
            physical = dict(base.target.physical)
            names = [physical[field.name] for field in (*search.plain, *search.searched)]
            if find_unmergeable(base.spark.sparkContext, plan, names) is None:
                return batch.spread(plan)
    return batch.lazy()
