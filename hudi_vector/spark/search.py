"""A search as Spark sees it: checked at analysis, run when the statement that holds it is planned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    StructField,
    StructType,
)

from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.read.spec import TIE_COLUMNS, VectorColumn
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.search.distributed import run_distributed
from hudi_vector.search.execute import Question
from hudi_vector.search.local import run_local, threads_of
from hudi_vector.search.merge import Winners
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.planner import SearchRequest, make_plan
from hudi_vector.search.report import Progress, keep_report, report_of
from hudi_vector.search.winners import fetch_rows
from hudi_vector.spark.local_rows import arrow_fields
from hudi_vector.spark.predicates import Filter, analyse_filter
from hudi_vector.spark.renamed import renamed
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.scanned import Scanned, search_frame
from hudi_vector.spark.snapshots import forget, snapshot_for
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Snapshot
from hudi_vector.table.native import NativeTable

__all__ = ["DISTANCE", "HUDI_DISTANCE", "RANK", "Found", "TableSearch", "vector_column"]

DISTANCE, HUDI_DISTANCE, RANK = "_distance", "_hudi_distance", "_rank"
_SETTINGS = ("hoodie.vector.",)


@dataclass(frozen=True)
class Found:
    """Rows found: for each its query, its distance, its rank from 1, and the columns asked for."""

    query: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]
    rows: pa.Table


def vector_column(schema: StructType, name: str, table: str, dimension: int | None) -> VectorColumn:
    """The searched column, as the schema describes it.

    Args:
        schema: The table's columns.
        name: The column's name, in any case.
        table: How messages name the table.
        dimension: The query's length, for an array column that does not say its own.

    Raises:
        UnknownColumnError: There is no such column.
        InvalidTypeError: It is no VECTOR and no array of FLOAT, DOUBLE or TINYINT.
    """
    matching = [field for field in schema.fields if field.name == name] or [
        field for field in schema.fields if field.name.lower() == name.lower()
    ]
    if not matching:
        raise UnknownColumnError.of(name, schema.fieldNames(), table)
    field = matching[0]
    descriptor = str(field.metadata.get(HUDI_TYPE, ""))
    if descriptor.upper().startswith("VECTOR"):
        vector = VectorType.parse(descriptor)
        return VectorColumn(field.name, vector.dimension, vector.element, is_vector=True)
    elements: dict[type[DataType], str] = {FloatType: "float", DoubleType: "double", ByteType: "int8"}
    element = elements.get(type(field.dataType.elementType)) if isinstance(field.dataType, ArrayType) else None
    if element is None:
        raise InvalidTypeError(
            f"column '{field.name}' of '{table}' is {field.dataType.simpleString().upper()}; a search needs a VECTOR "
            "or an array of FLOAT, DOUBLE or TINYINT"
        )
    return VectorColumn(field.name, dimension or 0, element, is_vector=False)


@dataclass(frozen=True)
class TableSearch:
    """One side of a search that was checked: the table, the column, the metric, k, the filter."""

    spark: SparkSession
    target: Target
    column: VectorColumn
    metric: str
    k: int
    max_distance: float | None = None
    filter: Filter | None = None
    as_of: AsOf | None = None
    execution: str = "auto"

    @property
    def columns(self) -> list[StructField]:
        """The table's columns without the searched one."""
        return [field for field in self.target.schema.fields if field.name != self.column.name]

    @property
    def vector_field(self) -> StructField:
        """The searched column as a field."""
        return self.target.schema[self.column.name]

    def conf(self) -> Mapping[str, str]:
        """The session's settings of this package."""
        return package_settings(self.spark)

    def plan(self, dimension: int, conf: Mapping[str, str]) -> SearchPlan | None:
        """What will be done now, or None where Spark searches a plan that is no Hudi table's.

        Args:
            dimension: The queries' length.
            conf: Settings, as text.
        """
        source = self.target.source
        if source is None:
            return None
        snapshot = snapshot_for(self.spark, source, self.as_of)
        return make_plan(self._in_sparks_types(snapshot), self._request(dimension), conf)

    def run(self, vectors: npt.NDArray[np.float64], names: Sequence[str]) -> Found:
        """Search, and read the columns asked for.

        Args:
            vectors: The queries, shape (m, d).
            names: Columns of the target.

        Returns:
            The rows found, by query and rank.
        """
        question = Question(vectors, self.metric, self.k, self.max_distance)
        conf = self.conf()
        attempts = 3 if self.as_of is None else 1
        for attempt in range(attempts):
            try:
                return self._run_once(question, names, conf)
            except DataFileError as problem:
                # Hudi's clean took a planned file: the newest snapshot does not need it (decision 9).
                if attempt + 1 == attempts or self.target.source is None or not self._moved_on(problem):
                    raise
                forget(self.spark, self.target.source)
        raise AssertionError("unreachable")

    def _moved_on(self, problem: DataFileError) -> bool:
        del problem
        source = self.target.source
        assert source is not None
        before = snapshot_for(self.spark, source, None).identity
        return NativeTable(source).timeline().identity != before

    def _run_once(self, question: Question, names: Sequence[str], conf: Mapping[str, str]) -> Found:
        begun = time.perf_counter()
        progress = Progress()
        plan = self.plan(question.vectors.shape[1], conf)
        progress.seconds["plan"] = time.perf_counter() - begun
        if plan is None or plan.execution == "spark":
            found = self._spark_way(plan, question, names)
            progress.seconds["scan"] = time.perf_counter() - begun - progress.seconds["plan"]
        else:
            found = self._direct(plan, question, names, conf, progress)
        if plan is not None:
            fewest = (
                int(np.bincount(found.query, minlength=len(question.vectors)).min()) if len(question.vectors) else 0
            )
            keep_report(report_of(plan, progress, len(question.vectors), len(found.query), fewest))
        return found

    def _direct(
        self, plan: SearchPlan, question: Question, names: Sequence[str], conf: Mapping[str, str], progress: Progress
    ) -> Found:
        if plan.execution == "distributed":
            winners = run_distributed(self.spark.sparkContext, plan, question, conf, progress)
        else:
            winners = run_local(plan, question, conf, progress)
        return self._with_rows(plan, winners, names, conf, progress)

    def _with_rows(
        self, plan: SearchPlan, winners: Winners, names: Sequence[str], conf: Mapping[str, str], progress: Progress
    ) -> Found:
        begun = time.perf_counter()
        physical = dict(self.target.physical)
        wanted = [physical[name] for name in names]
        rows = fetch_rows(plan, winners, wanted, keep=True, threads=threads_of(conf))
        progress.seconds["rows"] = time.perf_counter() - begun
        rows = rows.rename_columns(list(names)) if names else rows
        return Found(winners.query, winners.distance, winners.rank, rows)

    def _spark_way(self, plan: SearchPlan | None, question: Question, names: Sequence[str]) -> Found:
        frame = self.frame(plan.snapshot if plan else None)
        if self.filter is not None:
            frame = frame.filter(self.filter.text)
        ties = [name for name in TIE_COLUMNS if name in frame.columns]
        if len(ties) < len(TIE_COLUMNS):
            ties = [field.name for field in frame.schema.fields if _is_orderable(field.dataType)]
        column = replace(self.column, dimension=question.vectors.shape[1])
        scanned: Scanned = search_frame(frame, column, question, names, ties)
        begins = np.searchsorted(scanned.query, scanned.query, side="left")
        return Found(scanned.query, scanned.distance, np.arange(len(scanned.query)) - begins + 1, scanned.rows)

    def frame(self, snapshot: Snapshot | None) -> DataFrame:
        """The target's rows at a snapshot, read by Spark."""
        source = self.target.source
        if source is None or snapshot is None:
            return self.target.frame(self.spark)
        if snapshot.instant is None:
            return self.target.frame(self.spark).limit(0)
        self._require_readable_as_of(snapshot)
        reader = self.spark.read.format("hudi").option("as.of.instant", snapshot.instant)
        frame = reader.load(source.uri)
        extra = [name for name in TIE_COLUMNS if name not in {inner for _, inner in self.target.physical}]
        return frame.select(
            [frame[inner].alias(outer) for outer, inner in self.target.physical]
            + [frame[name] for name in extra if name in frame.columns]
        )

    def _require_readable_as_of(self, snapshot: Snapshot) -> None:
        """Spark reads by requested time: refuse where that would not be this snapshot."""
        assert self.target.source is not None
        assert snapshot.instant is not None
        read = NativeTable(self.target.source).timeline().until_requested(snapshot.instant)
        if {entry.requested for entry in read.commits} != snapshot.commits:
            raise UnsupportedTableError(
                f"'{self.target.label}' must be read through Spark, which cannot tell this snapshot from one with "
                "commits that completed later; give as_of an instant of the timeline, or run the query again"
            )

    def _request(self, dimension: int) -> SearchRequest:
        physical = dict(self.target.physical)
        predicate = self.filter.predicate if self.filter else None
        return SearchRequest(
            column=replace(self.column, name=physical[self.column.name], dimension=dimension),
            metric=self.metric,
            k=self.k,
            max_distance=self.max_distance,
            predicate=renamed(predicate, physical) if predicate is not None else None,
            filter_text=self.filter.text if self.filter else None,
            zone=str(self.spark.conf.get("spark.sql.session.timeZone")),
            execution=self.execution,
            why_spark=f"the filter ({self.filter.reason})" if self.filter and predicate is None else None,
        )

    def _in_sparks_types(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the columns as Spark's schema types them, so that both read the same values."""
        physical = dict(self.target.physical)
        fields = []
        for field, arrow in zip(self.target.schema.fields, arrow_fields(self.target.schema), strict=True):
            metadata = {HUDI_TYPE: field.metadata[HUDI_TYPE]} if HUDI_TYPE in field.metadata else None
            fields.append(pa.field(physical[field.name], arrow.type, True, metadata))
        named = {field.name for field in fields}
        fields += [field for field in snapshot.schema if field.name not in named]
        return replace(snapshot, schema=pa.schema(fields))


def package_settings(spark: SparkSession) -> dict[str, str]:
    """The session's settings of this package, in one call."""
    settings = spark._jsparkSession.sessionState().conf().settings()
    keys = [str(key) for key in settings.keySet().toArray() if str(key).startswith(_SETTINGS)]
    return {key: str(settings.get(key)) for key in keys}


def _is_orderable(kind: DataType) -> bool:
    return not isinstance(kind, (ArrayType, MapType, StructType))


def distance_fields() -> list[StructField]:
    """The columns a search adds that are seen by ``SELECT *``."""
    return [StructField(DISTANCE, DoubleType(), False)]


def hidden_fields(search: TableSearch) -> list[StructField]:
    """The columns a search adds that have to be named."""
    return [
        StructField(search.column.name, search.vector_field.dataType),
        StructField(HUDI_DISTANCE, DoubleType()),
        StructField(RANK, IntegerType()),
    ]


def checked_filter(spark: SparkSession, target: Target, text: str | None) -> Filter | None:
    """The filter of a search, analysed against its table."""
    return None if text is None else analyse_filter(spark, target.schema, text, target.label)


def require_no_clash(target: Target, names: Sequence[str]) -> None:
    """Refuse tables with columns of the names a search adds.

    Raises:
        InvalidArgumentError: There is such a column.
    """
    lower = {field.name.lower() for field in target.schema.fields}
    for name in names:
        if name in lower:
            raise InvalidArgumentError(
                f"'{target.label}' has a column '{name}', the name of a column that the search adds; "
                "search a view that gives it another name"
            )


Vector = Callable[[], Any]
