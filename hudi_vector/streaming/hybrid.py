"""Hybrid search for the rows of a DataFrame as they come, on Structured Streaming or in a batch."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from hudi_vector.arguments import checked_names
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.query.batch_rows import Column
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.columns import RANK
from hudi_vector.spark.hybrid.batch import Asking, HybridQueries, best_rows, chosen_probes
from hudi_vector.spark.hybrid.search import HybridSearch, checked_hybrid, lance_holds_sparse
from hudi_vector.spark.resolve import Target
from hudi_vector.streaming.answer import Answer, assembled, joined
from hudi_vector.streaming.api import one_of, refusing, session_of, settings_of, top_k_of
from hudi_vector.streaming.asking import SNAPSHOT, answered, columns_of, require_length, shown_snapshot, stage_of
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.correlated import groups_of
from hudi_vector.streaming.output import CLASHES, JOINS, chosen, output_of
from hudi_vector.streaming.sides import SearchSide, search_side, with_filter
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT, with_moment
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.table.instants import Moment
from hudi_vector.table.native import NativeTable

__all__ = ["hybrid_vector_search"]


def hybrid_vector_search(
    stream: DataFrame,
    search_table: str | os.PathLike[str] | DataFrame,
    search_columns: Sequence[str],
    query_columns: Sequence[str],
    top_k: int,
    *,
    weights: Sequence[float] | None = None,
    metrics: str | Sequence[str] = "cosine",
    fusion: str = "weighted",
    normalize: bool = False,
    config: Mapping[str, Any] | None = None,
    join_type: str = "inner",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    clash: str = "prefix",
) -> DataFrame:
    """The best rows of a Hudi table by several vector columns together, for each row of a DataFrame, streaming or not.

    Each micro-batch is searched at one snapshot, the newest when it is planned; new commits are seen without a restart.

    Args:
        stream: The rows that ask. Their watermark is kept.
        search_table: As for `vector_search`.
        search_columns: The table's columns of dense and sparse vectors, as for `hybrid_search`.
        query_columns: The stream's column with the query of each, dense for dense, sparse for sparse. A row that lacks
            one of them has no match.
        top_k: How many rows each row gets at the most, 1 to 100,000.
        weights: A weight for each column, as for `hybrid_search`.
        metrics: A metric for all columns, or a list with one for each.
        fusion: ``"weighted"`` or ``"rrf"``.
        normalize: Whether each column's scores are brought to 0 … 1 first.
        config: How searches are run: see docs/streaming.md.
        join_type: ``"inner"``, or ``"left_outer"``: rows without a match stay, once, with NULLs.
        filter: A SQL condition on the table's rows, applied before scores; ``l.name`` is a column of the stream's.
        columns: The table's columns to return; by default all without the searched ones.
        clash: What the table's columns are called whose names are taken, as for `vector_search`.

    Returns:
        The stream's columns, the table's columns, ``_distance_<column>`` for each searched column, ``score`` and
        ``_rank`` (from 1).

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: The table can be read by Spark only, or is a view that joins or computes.

    Example:
        >>> best = hv.hybrid_vector_search(
        ...     events, "products", ["embedding", "image"], ["taste", "looks"], 3, weights=[0.7, 0.3]
        ... )
        >>> query = best.writeStream.option("checkpointLocation", "/tmp/best").toTable("best")
    """
    spark = session_of(stream)
    checked = StreamConfig.of({} if config is None else config, settings_of(spark))
    outer = one_of(join_type, "join_type", JOINS) == "left_outer"
    side = search_side(spark, search_table)
    search = checked_hybrid(
        spark,
        side.target,
        search_columns,
        k=top_k_of(top_k),
        weights=weights,
        metrics=metrics,
        fusion=fusion,
        normalize=normalize,
    )
    side = with_filter(spark, side, filter, stream.schema)
    names = tuple((field.name, field.name) for field in stream.schema)
    queries = HybridQueries.of(Target("the stream", stream.schema, None, names), query_columns, search)
    wanted = chosen(
        side.target.schema.fields if columns is not None else search.plain, checked_names(columns), side.target.label
    )
    behind = shown_snapshot(checked)
    output = output_of(
        stream.schema.fields, wanted, one_of(clash, "clash", CLASHES), outer, behind, numbers=search.added
    )
    task = HybridStream(
        plans=_plans(search, side),
        physical=side.target.physical,
        asking=_asking(search, queries),
        distances=search.distances,
        columns=output.columns,
        fields=tuple(arrow_fields(output.schema)),
        outer=outer,
        config=checked,
    )
    refuse = refusing(task.plans, 0)
    refuse(NativeTable(side.source).timeline().moment)
    rows = with_moment(spark, stream, side.source, checked, refuse)
    return map_in_arrow(rows, stage_of(task), output.schema)


def _plans(search: HybridSearch, side: SearchSide) -> TablePlans:
    request = replace(search.base.request(0), predicate=side.predicate, filter_text=side.text, execution="local")
    return TablePlans(
        number=uuid.uuid4().hex,
        source=side.source,
        request=request,
        table_fields=tuple(search.base.sparks_fields()),
        conf=tuple(search.base.conf().items()),
        instead="hudi_vector.hybrid_search_batch",
    )


def _asking(search: HybridSearch, queries: HybridQueries) -> Asking:
    physical = dict(search.base.target.physical)
    own = tuple(entry.named(physical[entry.column.name]) for entry in search.columns)
    return Asking(own, queries.columns, "the stream", search.base.k, search.fusion, search.normalize)


@dataclass(frozen=True)
class HybridStream:
    """A hybrid search of a stream, checked: all that its tasks need."""

    plans: TablePlans
    physical: tuple[tuple[str, str], ...]
    asking: Asking
    distances: tuple[str, ...]
    columns: tuple[Column, ...]
    fields: tuple[pa.Field, ...]
    outer: bool
    config: StreamConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output rows of the rows of a task."""
        return answered(batches, self.asking.k, self.config, self._answer)

    def _answer(self, rows: pa.Table) -> pa.Table:
        for entry, query in zip(self.asking.columns, self.asking.queries, strict=True):
            if isinstance(entry.column, VectorColumn):
                require_length(rows, query.name, entry.column.name, entry.column.dimension, self.plans.source.name)
        question, at, _ = self.asking.question(rows)
        moment = Moment.parse(rows.column(MOMENT)[0].as_py())
        answers = []
        for values, members in groups_of(rows, at, self.plans.asked) if moment.completed and len(at) else []:
            probes = tuple(chosen_probes(asked, members) for asked in question.probes)
            plan = self.plans.plan(moment, 0, values)
            answers.append(self._best(plan, replace(question, probes=probes), at[members]))
        numbers = columns_of("added", self.columns, self.fields)
        found = joined(answers, columns_of("corpus", self.columns, self.fields), numbers)
        shown = self.plans.shown(moment) if self.config.snapshot_column else None
        rows = rows.append_column(SNAPSHOT, pa.array([shown] * len(rows), pa.string()))
        return assembled(self.columns, self.fields, rows, found, self.outer)

    def _best(self, plan: SearchPlan, question: HybridQuestion, at: npt.NDArray[np.int64]) -> Answer:
        if lance_holds_sparse(plan, question.read):
            raise UnsupportedTableError(
                f"'{self.plans.source.name}' cannot be searched by a stream, since only Spark reads sparse vectors in "
                f"Lance base files; search in foreachBatch with {self.plans.instead}"
            )
        names = [field.name for field in columns_of("corpus", self.columns, self.fields)]
        with self.plans.merging():
            found = best_rows(plan, question, names, self.physical, self.distances)
        numbers = {**found.added, RANK: pa.array(found.rank.astype(np.int32))}
        order = [field.name for field in columns_of("added", self.columns, self.fields)]
        return Answer(at[found.query], pa.table([numbers[name] for name in order], names=order), found.rows)
