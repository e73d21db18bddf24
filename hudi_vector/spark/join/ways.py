"""The routes made ready: for each of them the right side as the stage and the driver run it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from hudi_vector import options
from hudi_vector.read.conform import conform
from hudi_vector.read.predicate import Predicate, columns, to_text
from hudi_vector.read.predicate_nodes import conjunction
from hudi_vector.read.spec import TIE_COLUMNS
from hudi_vector.search.distributed import find_unmergeable, run_distributed
from hudi_vector.search.execute import Question
from hudi_vector.search.join.held import HeldSide, as_content, in_order
from hudi_vector.search.join.sides import EVERY_ROW, FoundRows, Nearest, PlannedRows, PlannedSide, RightSide, under
from hudi_vector.search.local import run_local
from hudi_vector.search.plain_files import PlainFiles
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.planner import SearchRequest, make_plan
from hudi_vector.search.report import Progress, keep_report, report_of
from hudi_vector.search.tuning import Tuning
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.local_rows import arrow_fields
from hudi_vector.spark.predicates import Filter
from hudi_vector.spark.resolve import storage_options
from hudi_vector.spark.search import TableSearch
from hudi_vector.spark.table_functions import checked_search

__all__ = ["Way", "held_way", "search_way"]

_EXACT = Tuning(mode="exact")


@dataclass(frozen=True)
class Way:
    """A right side ready to be searched, in the tasks of the stage and on the driver.

    `names` are its own names of the right columns; `barred` is why it cannot be taken, `lines` what explain shows.
    """

    stage: RightSide | None
    driver: RightSide | None
    names: Mapping[str, str]
    lines: str = ""
    barred: str = ""


def search_way(request: JoinRequest, queries: int) -> Way:
    """The slices of a Hudi table or the files of a scan, with the index where there is one that helps."""
    return _table_way(request, queries) if request.right.kind == "hudi" else _files_way(request)


def _table_way(request: JoinRequest, queries: int) -> Way:
    spark, right, conf = request.spark, request.right, request.conf
    assert right.table is not None
    search = checked_search(
        spark,
        right.table,
        right.physical[right.column.name],
        request.dimension,
        k=request.k or 1,
        metric=request.metric,
        tuning=request.tuning if request.k else _EXACT,
        max_distance=request.max_distance,
    )
    predicate = request.right_predicate(right.physical, right.predicate)
    search = replace(search, k=request.k or EVERY_ROW, filter=_filter(predicate))
    plan = search.plan(request.dimension or 1, conf, queries=queries)
    assert plan is not None
    way = Way(PlannedSide(plan), _TableSide(search), right.physical, plan.describe())
    if plan.execution == "spark":
        return replace(way, barred=f"the table is {plan.reason}")
    if request.tuning.mode is None and plan.index and plan.snapshot.size <= options.JOIN_BROADCAST_MAX_BYTES.read(conf):
        search = replace(search, tuning=_EXACT)
        plan = search.plan(request.dimension or 1, conf, queries=queries)
        assert plan is not None
        way = Way(PlannedSide(plan), _TableSide(search), right.physical, plan.describe())
    unmergeable = find_unmergeable(spark.sparkContext, plan, list(dict.fromkeys(right.physical.values())))
    return replace(way, barred=f"log files that only Spark merges ({unmergeable})") if unmergeable else way


def _files_way(request: JoinRequest) -> Way:
    right = request.right
    plan = files_plan(request)
    return Way(PlannedSide(plan), _PlanSide(request.spark, plan, request.conf), right.physical, plan.describe())


def files_plan(request: JoinRequest) -> SearchPlan:
    """An exact search over the files of a scan, in Spark's types."""
    right = request.right
    assert right.stored is not None
    snapshot = PlainFiles(right.files, storage_options(request.spark, right.files[0])).snapshot()
    snapshot = replace(snapshot, schema=pa.schema(arrow_fields(right.stored)))
    predicate = request.right_predicate(right.physical, right.predicate)
    asked = SearchRequest(
        # In Spark's types it is a list, whatever a table that the files were copied from called it.
        column=replace(
            right.column, name=right.physical[right.column.name], dimension=request.dimension or 0, is_vector=False
        ),
        metric=request.metric,
        k=request.k or EVERY_ROW,
        max_distance=request.max_distance,
        predicate=predicate,
        filter_text=None if predicate is None else to_text(predicate),
        zone=request.zone,
        tuning=_EXACT,
    )
    return make_plan(snapshot, asked, request.conf)


def held_way(request: JoinRequest) -> Way:
    """The rows of the right side, collected once and sent to every process."""
    right, spark = request.right, request.spark
    fields = arrow_fields(right.schema)
    batches = right.frame._collect_as_arrow()
    table = conform(pa.Table.from_batches(batches), fields) if batches else pa.schema(fields).empty_table()
    keyed = all(name in table.column_names for name in TIE_COLUMNS)
    content = as_content(in_order(table, TIE_COLUMNS if keyed else table.column_names))
    names = {name: name for name in right.schema.names}
    predicate = request.right_predicate(names)
    side = HeldSide(spark.sparkContext.broadcast(content), uuid.uuid4().hex, right.column, request.zone, predicate)
    lines = f"Held in memory: {table.num_rows} rows, {len(content)} bytes"
    return Way(side, side, names, lines)


def fits(request: JoinRequest, limit: int) -> int | None:
    """The bytes of a right side, None where it is larger than the limit.

    Spark's estimate is taken where it is below the limit. It is often far too large, as for joins and for rows made
    in Python: then the rows are computed once, and each partition given up where it passes the limit.
    """
    frame = request.right.frame
    estimated = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    if estimated <= limit:
        return estimated
    sizes = frame.mapInArrow(_sizes(limit), "size LONG").collect()
    measured = sum(row["size"] for row in sizes)
    return measured if measured <= limit else None


def _sizes(limit: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in batches:
            size += batch.nbytes
            if size > limit:
                break
        yield pa.record_batch({"size": pa.array([size])})

    return measure


def _filter(predicate: Predicate | None) -> Filter | None:
    if predicate is None:
        return None
    return Filter(to_text(predicate), predicate, None, tuple(sorted(columns(predicate))))


@dataclass(frozen=True)
class _TableSide:
    """A Hudi table searched from the driver, by its threads or with its slices divided among the executors."""

    search: TableSearch

    def find(self, question: Question, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        own = self.search.filter.predicate if self.search.filter else None
        terms = [term for term in (own, predicate) if term is not None]
        search = replace(self.search, k=question.k, filter=_filter(conjunction(terms) if terms else None))
        return FoundRows(search.run(question.vectors, list(dict.fromkeys(names))))


@dataclass(frozen=True)
class _PlanSide:
    """A plan carried out from the driver."""

    spark: SparkSession
    plan: SearchPlan
    conf: Mapping[str, str]

    def find(self, question: Question, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        del names
        plan, progress = under(self.plan, question, predicate), Progress()
        if plan.execution == "distributed":
            winners = run_distributed(self.spark.sparkContext, plan, question, progress)
        else:
            winners = run_local(plan, question, self.conf, progress)
        got = np.bincount(winners.query, minlength=len(question.vectors))
        keep_report(report_of(plan, progress, len(question.vectors), len(winners), int(got.min())))
        return PlannedRows(plan, winners)
