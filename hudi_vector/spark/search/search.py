"""A search in a Spark statement, which is checked at analysis and runs when the statement is planned."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from hudi_vector import options
from hudi_vector.errors import DataFileError, InstantNotAvailableError, UnmergeableError, UnsupportedTableError
from hudi_vector.events import RunningSearch, failure_heard
from hudi_vector.query.answered import Answered
from hudi_vector.query.asking.output import Found
from hudi_vector.query.deadline import Deadline
from hudi_vector.query.distributed import run_distributed
from hudi_vector.query.execute import Asked, Question, reading_ahead
from hudi_vector.query.explain import described
from hudi_vector.query.grouped.question import GroupedQuestion, question_of
from hudi_vector.query.grouping.arguments import GROUP_RANK, group_ranks
from hudi_vector.query.index_choice import IndexNeed, choose_index, indexes_and_heads, known_indexes
from hudi_vector.query.lengths import refuse_lengths, refuse_other_length
from hudi_vector.query.local import run_local, threads_of
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.report import Progress, SearchFacts, keep_report, report_of, report_of_frame
from hudi_vector.query.tuning import AS_SET, Tuning, why_not_by_index
from hudi_vector.query.winners import named_rows, stored_names
from hudi_vector.read.predicate.change import renamed
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import SparseColumn
from hudi_vector.read.spec import TIE_COLUMNS, ScanCounts, VectorColumn
from hudi_vector.schema import HUDI_TYPE, quoted
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.predicates import Filter
from hudi_vector.spark.catalyst.settings import session_settings, time_zone
from hudi_vector.spark.resolve import Target, reader_of_all_files, undivided
from hudi_vector.spark.search.scanned import length_in, search_frame
from hudi_vector.spark.snapshots import forget, snapshot_for
from hudi_vector.storage import open_storage
from hudi_vector.storage.parallel import counted
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Timeline

__all__ = ["TableSearch", "Wanted", "lance_holds_sparse", "settings_of"]

_ATTEMPTS = 3


@dataclass(frozen=True)
class Wanted:
    """The input of a search: queries, searched columns, and columns to return, all in the target's names.

    `dimension` is the length of the queries, 0 where each column has its own.
    """

    asked: Asked
    columns: tuple[SearchColumn, ...]
    names: Sequence[str]
    dimension: int = 0

    @property
    def dense(self) -> list[VectorColumn]:
        """Return the searched columns of dense vectors."""
        return [column for column in self.columns if isinstance(column, VectorColumn)]


@dataclass(frozen=True)
class TableSearch:
    """A checked search without its queries: the table, the column, the metric, k and the filter."""

    spark: SparkSession
    target: Target
    column: VectorColumn
    metric: str
    k: int
    max_distance: float | None = None
    filter: Filter | None = None
    as_of: AsOf | None = None
    execution: str = "auto"
    tuning: Tuning = AS_SET

    @property
    def columns(self) -> list[StructField]:
        """Return the table's columns without the searched one."""
        return [field for field in self.target.schema.fields if field.name != self.column.name]

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Return the columns that a search for groups adds."""
        return () if self.tuning.grouping is None else (GROUP_RANK,)

    @property
    def vector_field(self) -> StructField:
        """Return the field of the searched column."""
        return self.target.schema[self.column.name]

    def conf(self) -> Mapping[str, str]:
        """Return the session's settings that searches read, as text."""
        return settings_of(self.spark)

    def check_index(self) -> None:
        """Raise InvalidArgumentError at analysis if the arguments need an index that is missing or may not be used."""
        conf = self.conf()
        settled, source = self.tuning.settled(conf), self.target.source
        if source is None or not settled.needs_index:
            return
        why_not_by_index(settled, self.k)
        request = self.request(self.column.dimension, None, 1)
        need = IndexNeed(request.column.dimension, request.column.element, self.metric, self.k, 1)
        choose_index(known_indexes(source, request.column.name, conf, self.tuning), need, settled, conf)

    def plan(
        self, dimension: int, conf: Mapping[str, str], why_spark: str | None = None, queries: int = 1
    ) -> SearchPlan | None:
        """Return the plan of a search that runs now, None if the target is a plan, which Spark searches.

        `dimension` is the queries' length. `why_spark` is a reason to read through Spark that the planner cannot see.
        """
        source = self.target.source
        if source is None:
            return None
        request = self.request(dimension, why_spark, queries)
        storage = open_storage(source.uri, source.options)
        indexes = storage.begun(partial(indexes_and_heads, source, request.column.name, conf, self.tuning))
        # In this thread: Spark tells only it which statement runs.
        snapshot = snapshot_for(self.spark, source, self.as_of)
        return make_plan(snapshot.with_fields(self.sparks_fields()), request, conf, indexes())

    def _deadline(self, plan: SearchPlan | None, progress: Progress) -> Deadline:
        """Return the deadline of a search that is running, also where Spark searches a plan that is not a table."""
        if plan is not None:
            return plan.deadline(progress.begun)
        return Deadline(self.target.label, self.tuning.settled(self.conf()).timeout, begun=progress.begun)

    def explain(self, dimension: int, queries: int) -> str:
        """Describe how so many queries of a length would be answered now."""
        plan = self.plan(dimension, self.conf(), queries=queries)
        if plan is not None:
            return described(plan)
        return (
            f"Search of {self.target.label}\n"
            f"  execution   spark: searched by Spark over the plan itself, because {self.target.reason}"
        )

    def run(self, vectors: npt.NDArray[np.float64], names: Sequence[str], unusable: int = 0) -> Found:
        """Search for queries of shape (m, d), and return the rows found with the named columns, by query and rank.

        `unusable` is the number of query rows without a vector, for the report.
        """
        conf = self.conf()
        grouping, block = self.tuning.grouping, options.BATCH_BLOCK_QUERIES.read(conf)
        question = question_of(vectors, self.metric, self.k, self.max_distance, grouping, block)
        column = replace(self.column, dimension=vectors.shape[1])
        winners, rows = self.answer(Wanted(question, (column,), names, vectors.shape[1]), conf, unusable)
        added = {} if grouping is None else {GROUP_RANK: group_ranks(winners.group_rank)}
        return Found(winners.query, winners.distance, winners.rank, rows, added)

    def answer(self, wanted: Wanted, conf: Mapping[str, str], unusable: int) -> tuple[Winners, pa.Table]:
        """Plan and search, keep the report, and return the rows found, by query and rank, with the wanted columns.

        Log files that only Spark merges are searched once more through Spark; where files are gone, a newer snapshot
        is searched. `unusable` is the number of query rows without a vector, for the report.
        """
        source = self.target.source
        with counted(source is not None and source.is_counted), failure_heard(source) as running:
            return self._answer(wanted, conf, Progress(unusable_queries=unusable), running)

    def _answer(
        self, wanted: Wanted, conf: Mapping[str, str], progress: Progress, running: RunningSearch
    ) -> tuple[Winners, pa.Table]:
        plan = self._planned(wanted, conf, progress)
        for attempt in range(_ATTEMPTS):
            try:
                running.planned(plan, "spark" if plan is None else plan.execution)
                return self._run(plan, wanted, conf, progress)
            except UnmergeableError as problem:
                progress.counts = ScanCounts()
                why = f"files that only it reads ({problem})"
                plan = self.plan(wanted.dimension, conf, why, wanted.asked.queries)
            except DataFileError:
                if attempt + 1 == _ATTEMPTS or plan is None or self.as_of is not None or self.target.source is None:
                    raise
                # Hudi's clean took a file of this snapshot (decision 9).
                forget(self.spark, self.target.source)
                newer = self._planned(wanted, conf, progress)
                if newer is None or newer.snapshot.identity == plan.snapshot.identity:
                    raise
                plan = newer
        raise AssertionError("the last attempt returns or raises")

    def _planned(self, wanted: Wanted, conf: Mapping[str, str], progress: Progress) -> SearchPlan | None:
        begun = time.perf_counter()
        plan = self.plan(wanted.dimension, conf, queries=wanted.asked.queries)
        if plan is not None and lance_holds_sparse(plan, wanted.columns):
            plan = replace(plan, execution="spark", reason="Spark reads sparse vectors in Lance base files")
        progress.seconds["plan"] = time.perf_counter() - begun
        return plan

    def _run(
        self, plan: SearchPlan | None, wanted: Wanted, conf: Mapping[str, str], progress: Progress
    ) -> tuple[Winners, pa.Table]:
        if plan is None or plan.execution == "spark":
            winners, rows = self._by_spark(plan, wanted, progress)
        else:
            winners, rows = self._direct(plan, wanted, conf, progress)
        queries = wanted.asked.queries
        if plan is None:
            facts = SearchFacts(self.target.label, self.metric, self.k, self.max_distance, queries)
            report = report_of_frame(facts, self.target.reason or "it is a plan", progress, winners)
        else:
            report = report_of(plan, progress, queries, winners)
        keep_report(report, None if plan is None else plan.snapshot, self._answered(plan, wanted, winners, conf))
        return winners, rows

    def _answered(
        self, plan: SearchPlan | None, wanted: Wanted, winners: Winners, conf: Mapping[str, str]
    ) -> Answered | None:
        """Return what a receipt is made of; None if the target is a plan, or several columns are searched."""
        asked = wanted.asked
        if plan is None or not isinstance(asked, (Question, GroupedQuestion)):
            return None
        physical = dict(self.target.physical)
        names = [physical[name] for name in wanted.names]
        is_renamed = any(outer != inner for outer, inner in self.target.physical)
        text = None if is_renamed else plan.filter_text
        return Answered(plan, asked.vectors, winners, names, conf, text)

    def _direct(
        self, plan: SearchPlan, wanted: Wanted, conf: Mapping[str, str], progress: Progress
    ) -> tuple[Winners, pa.Table]:
        physical = dict(self.target.physical)
        asked, ahead = wanted.asked.named(physical), None
        if plan.execution == "distributed":
            winners = run_distributed(self.spark.sparkContext, plan, asked, conf, progress)
        else:
            asked, ahead = reading_ahead(asked, stored_names(wanted.names, physical))
            winners = run_local(plan, asked, conf, progress)
        begun = time.perf_counter()
        if asked.queries:
            dense = [replace(column, name=physical[column.name]) for column in wanted.dense]
            refuse_other_length(plan, len(winners), progress.counts, dense)
        with progress.deadline.limiting():
            rows = named_rows(plan, winners, wanted.names, physical, threads_of(conf), ahead)
        progress.seconds["rows"] = time.perf_counter() - begun
        progress.deadline.check()
        return winners, rows

    def _by_spark(self, plan: SearchPlan | None, wanted: Wanted, progress: Progress) -> tuple[Winners, pa.Table]:
        begun = time.perf_counter()
        frame, ties = self._spark_rows(plan)
        with self._deadline(plan, progress).cancelling(self.spark.sparkContext):
            winners, rows = search_frame(frame, wanted.columns, wanted.asked, wanted.names, ties, progress.counts)
        progress.seconds["scan"] = time.perf_counter() - begun
        if wanted.asked.queries:
            lengths = partial(length_in, frame)
            refuse_lengths(wanted.dense, len(winners), progress.counts, lengths, self.target.label)
        return winners, rows

    def _spark_rows(self, plan: SearchPlan | None) -> tuple[DataFrame, list[str]]:
        """Return the rows that pass the filter, read by Spark, and the columns that order rows of equal distance."""
        frame = self._frame(plan.snapshot if plan else None)
        if self.filter is not None:
            text, of_table = self.filter.text, self.target.source is not None and plan is not None
            frame = frame.filter(text if of_table or self.filter.predicate is not None else undivided(text))
        grouping = self.tuning.grouping
        if grouping is not None and grouping.drop_nulls:
            for name in grouping.columns:
                frame = frame.filter(F.col(quoted(name)).isNotNull())
        ties = [name for name in TIE_COLUMNS if name in frame.columns]
        if len(ties) < len(TIE_COLUMNS):
            ties = [field.name for field in frame.schema.fields if _is_orderable(field.dataType)]
        return frame, ties

    def _frame(self, snapshot: Snapshot | None) -> DataFrame:
        """Return the target's rows at a snapshot, read by Spark; without one, the rows of its plan."""
        source = self.target.source
        if source is None or snapshot is None:
            return self.target.frame(self.spark)
        if snapshot.instant is None:
            return self.target.frame(self.spark).limit(0)
        frame = self._read(source, snapshot, snapshot.instant)
        own = [frame[quoted(inner)].alias(outer) for outer, inner in self.target.physical]
        shown = {inner for _, inner in self.target.physical}
        return frame.select(own + [frame[name] for name in TIE_COLUMNS if name in frame.columns and name not in shown])

    def _read(self, source: Source, snapshot: Snapshot, instant: str) -> DataFrame:
        """Return the rows of a table at a snapshot, of which `instant` is the last, as Hudi's reader gives them."""
        table, reader = NativeTable(source), reader_of_all_files(self.spark)
        before = table.timeline()
        # Hudi reads as of no instant after an action that has not ended, and by the history of columns in the commit of
        # the instant, which a table service may lack. Without an instant it reads what has completed.
        as_of_differs = snapshot.evolves_on_read or min(snapshot.pending, default=instant) < instant
        if as_of_differs and before.requested == snapshot.commits:
            frame = reader.load(source.hadoop_path)
            self._require_these_commits(table.timeline(), snapshot)
            return frame
        if instant in before.saved and instant < (table.oldest_available(before) or ""):
            raise InstantNotAvailableError(
                f"'{self.target.label}' must be read through Spark, and Hudi reads no savepoint from before its last "
                f"clean, as {instant} is; give as_of a later instant"
            )
        self._require_these_commits(before.until_requested(instant), snapshot)
        return reader.option("as.of.instant", instant).load(source.hadoop_path)

    def _require_these_commits(self, read: Timeline, snapshot: Snapshot) -> None:
        """Raise UnsupportedTableError if Spark, which reads by requested time, reads other commits."""
        if read.requested != snapshot.commits:
            raise UnsupportedTableError(
                f"'{self.target.label}' must be read through Spark, which cannot tell this snapshot from one with "
                "commits that completed later; give as_of an instant of the timeline, or run the query again"
            )

    def request(self, dimension: int, why_spark: str | None = None, queries: int = 1) -> SearchRequest:
        """Return the request to the planner, in the table's own column names.

        `dimension` is the queries' length. `why_spark` is a reason to read through Spark that the planner cannot see.
        """
        physical = dict(self.target.physical)
        predicate = self.filter.predicate if self.filter else None
        tuning = self.tuning
        if tuning.grouping is not None:
            tuning = replace(tuning, grouping=tuning.grouping.named(physical))
        return SearchRequest(
            column=replace(self.column, name=physical[self.column.name], dimension=dimension),
            metric=self.metric,
            k=self.k,
            max_distance=self.max_distance,
            predicate=renamed(predicate, physical) if predicate is not None else None,
            filter_text=self.filter.text if self.filter else None,
            zone=time_zone(self.spark),
            execution=self.execution,
            why_spark=why_spark or (f"the filter ({self.filter.reason})" if self.filter and not predicate else None),
            tuning=tuning,
            queries=queries,
        )

    def sparks_fields(self) -> list[pa.Field]:
        """Return the table's columns with the types of Spark's schema, so that all readers read the same values."""
        physical = dict(self.target.physical)
        fields = []
        for field, arrow in zip(self.target.schema.fields, arrow_fields(self.target.schema), strict=True):
            metadata = {HUDI_TYPE: field.metadata[HUDI_TYPE]} if HUDI_TYPE in field.metadata else None
            fields.append(pa.field(physical[field.name], arrow.type, True, metadata))
        return fields


def settings_of(spark: SparkSession) -> Mapping[str, str]:
    """Return a session's settings that searches read, as text."""
    settings = session_settings(spark)
    return {option.key: settings[option.key] for option in options.SEARCH if option.key in settings}


def lance_holds_sparse(plan: SearchPlan, columns: Iterable[SearchColumn]) -> bool:
    """Return True if a plan would read sparse vectors from Lance base files, which only Spark can do."""
    sparse = any(isinstance(column, SparseColumn) for column in columns)
    return sparse and any(access.access == "lance" for access in plan.slices)


def _is_orderable(kind: DataType) -> bool:
    return not isinstance(kind, (ArrayType, MapType, StructType))
