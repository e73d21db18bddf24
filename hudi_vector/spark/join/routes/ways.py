"""Prepared routes: the right side as the Python stage and the driver search it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from hudi_vector import options
from hudi_vector.events import failure_heard
from hudi_vector.index.catalog import Index
from hudi_vector.query.distributed import find_unmergeable, run_distributed
from hudi_vector.query.execute import Question
from hudi_vector.query.grouped.question import GroupedQuestion
from hudi_vector.query.join.sides import FoundRows, Nearest, PlannedRows, PlannedSide, RightSide, under
from hudi_vector.query.local import run_local
from hudi_vector.query.plan import EVERY_ROW, SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.report import Progress, keep_report, report_of
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.conform import vector_type
from hudi_vector.read.predicate.form import Predicate, columns, to_text
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.predicates import Filter
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.search.search import TableSearch
from hudi_vector.spark.search.table_functions import checked_search
from hudi_vector.table.model import Snapshot

__all__ = ["EXACT", "Way", "snapshot_way", "table_way"]

EXACT = Tuning(mode="exact")


@dataclass(frozen=True)
class Way:
    """A route with its right side prepared for the search in tasks (`stage`) and on the driver (`driver`).

    `names` gives the right side's name of each right column. `lines` is the text for explain. `barred` says why the
    route cannot be taken, and is empty otherwise. `release` releases the data that was made for the route.
    """

    stage: RightSide | None
    driver: RightSide | None
    names: Mapping[str, str]
    lines: str = ""
    barred: str = ""
    release: Callable[[], None] | None = None


def table_way(request: JoinRequest, queries: int) -> Way:
    """Return the route over the file slices of a Hudi table, with its index if that helps.

    `queries` is the number of left rows that are searched at once.
    """
    spark, right, conf = request.spark, request.right, request.conf
    assert right.table is not None
    search = checked_search(
        spark,
        right.table,
        right.physical[right.column.name],
        request.dimension,
        k=request.k or 1,
        metric=request.metric,
        tuning=request.tuned(request.tuning if request.k else EXACT, right.physical),
        max_distance=request.max_distance,
    )
    predicate = request.right_predicate(right.physical, right.predicate)
    search = replace(search, k=request.k or EVERY_ROW, filter=_filter(predicate))
    plan = _planned(search, request, queries)
    if plan.index and plan.index.certain and plan.snapshot.size <= options.JOIN_BROADCAST_MAX_BYTES.read(conf):
        # A table this small is read faster than its index.
        search = replace(search, tuning=request.tuned(EXACT, right.physical))
        plan = _planned(search, request, queries)
    way = Way(PlannedSide(plan), _TableSide(search), right.physical, plan.describe())
    if plan.execution == "spark":
        return replace(way, barred=f"the table is {plan.reason}")
    unmergeable = find_unmergeable(spark.sparkContext, plan, list(dict.fromkeys(right.physical.values())))
    return replace(way, barred=f"log files that only Spark merges ({unmergeable})") if unmergeable else way


def _planned(search: TableSearch, request: JoinRequest, queries: int) -> SearchPlan:
    plan = search.plan(request.dimension or 1, request.conf, queries=queries)
    assert plan is not None
    return plan


def snapshot_way(
    request: JoinRequest,
    snapshot: Snapshot,
    physical: Mapping[str, str],
    queries: int,
    tuning: Tuning = EXACT,
    indexes: Sequence[Index] = (),
) -> Way:
    """Return the route over the slices of files or of a Lance dataset, in the types in which Spark reads them.

    `physical` gives the snapshot's name of each right column; `queries` is the number of left rows that are searched at
    once; `indexes` are the available external indexes.
    """
    right = request.right
    own = right.predicate if physical is right.physical else None
    if right.stored is not None and physical is right.physical:
        snapshot = snapshot.with_fields(arrow_fields(right.stored))
    predicate = request.right_predicate(physical, own)
    kind = vector_type(snapshot.schema.field(physical[right.column.name]))
    column = replace(
        right.column,
        name=physical[right.column.name],
        dimension=request.dimension or 0,
        is_vector=kind is not None,
    )
    asked = SearchRequest(
        column=column,
        metric=request.metric,
        k=request.k or EVERY_ROW,
        max_distance=request.max_distance,
        predicate=predicate,
        filter_text=None if predicate is None else to_text(predicate),
        zone=request.zone,
        tuning=request.tuned(tuning, physical),
        queries=queries,
    )
    plan = make_plan(snapshot, asked, request.conf, indexes)
    return Way(PlannedSide(plan), _PlanSide(request.spark, plan, request.conf), physical, plan.describe())


def _filter(predicate: Predicate | None) -> Filter | None:
    if predicate is None:
        return None
    return Filter(to_text(predicate), predicate, None, tuple(sorted(columns(predicate))))


@dataclass(frozen=True)
class _TableSide:
    """A Hudi table searched from the driver, by its threads or by executors that divide the slices."""

    search: TableSearch

    def find(self, question: Question | GroupedQuestion, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        own = self.search.filter.predicate if self.search.filter else None
        terms = [term for term in (own, predicate) if term is not None]
        tuning = replace(self.search.tuning, grouping=question.grouping)
        condition = _filter(conjunction(terms) if terms else None)
        search = replace(self.search, k=question.k, filter=condition, tuning=tuning)
        return FoundRows(search.run(question.vectors, list(dict.fromkeys(names))))


@dataclass(frozen=True)
class _PlanSide:
    """A plan that is run from the driver, by its threads or by executors that divide the slices."""

    spark: SparkSession
    plan: SearchPlan
    conf: Mapping[str, str]

    def find(self, question: Question | GroupedQuestion, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        del names
        plan, progress = under(self.plan, question, predicate), Progress()
        with failure_heard(None) as running:
            running.planned(plan, plan.execution)
            if plan.execution == "distributed":
                winners = run_distributed(self.spark.sparkContext, plan, question, self.conf, progress)
            else:
                winners = run_local(plan, question, self.conf, progress)
        keep_report(report_of(plan, progress, len(question.vectors), winners), plan.snapshot)
        return PlannedRows(plan, winners)
