"""The checked arguments of a search without Spark, and its result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import as_distance, as_k, as_settings, as_text, as_vector
from hudi_vector.errors import InvalidTypeError, UnknownColumnError, UnsupportedTableError
from hudi_vector.events import RunningSearch
from hudi_vector.index.catalog import Index
from hudi_vector.kernels.metrics import Floats, metric_named, require_comparable
from hudi_vector.options import require_known
from hudi_vector.query.answered import Answered
from hudi_vector.query.execute import reading_ahead
from hudi_vector.query.grouped.question import question_of
from hudi_vector.query.index_choice import known_indexes
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.local import run_local, threads_of
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.report import Progress, SearchReport, answering, keep_report, report_of
from hudi_vector.query.tuning import AS_SET, Tuning
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.conform import vector_type
from hudi_vector.read.predicate.form import Predicate, parse, to_text
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.read.rows_ahead import RowsAhead
from hudi_vector.read.spec import VectorColumn
from hudi_vector.table.instants import AsOf, parse_as_of, zone_info
from hudi_vector.table.model import Snapshot
from hudi_vector.table.searched_column import searched_column

__all__ = ["Asked", "Found", "as_queries", "as_zone", "require_readable", "spelled", "vector_column"]

_ELEMENTS = {pa.float32(): "float", pa.float64(): "double", pa.int8(): "int8"}


@dataclass(frozen=True)
class Found:
    """The rows found by a search; `ahead` has columns of some. `vectors` are its queries, shape (m, d)."""

    plan: SearchPlan
    winners: Winners
    progress: Progress
    conf: Mapping[str, str]
    vectors: Floats
    ahead: RowsAhead | None = None

    def columns(self, names: list[str]) -> dict[str, Any]:
        """Read columns of the rows, in the rows' order, by name."""
        begun = time.perf_counter()
        with self.progress.deadline.limiting():
            threads = threads_of(self.conf)
            fetched = fetch_rows(self.plan, self.winners, names, keep=True, threads=threads, ahead=self.ahead)
        self.progress.seconds["rows"] = time.perf_counter() - begun
        self.progress.deadline.check()
        return {name: fetched.column(name) for name in names}

    def report(self, names: Sequence[str]) -> SearchReport:
        """Return the report of the search, whose result has these columns, and keep it among the last reports."""
        report = report_of(self.plan, self.progress, len(self.vectors), self.winners)
        plan = self.plan
        answered = Answered(plan, self.vectors, self.winners, names, self.conf, plan.filter_text)
        keep_report(report, plan.snapshot, answered)
        return answering(report, answered)


@dataclass(frozen=True)
class Asked:
    """The arguments of a search, checked as far as possible without the table; `vectors` has shape (m, d), float64.

    `where` is a condition in parsed form that must hold in addition to `filter`.
    """

    table: str
    column: str
    vectors: Floats
    k: int
    metric: str
    filter: str | None
    max_distance: float | None
    as_of: AsOf | None
    conf: Mapping[str, str]
    zone: str
    tuning: Tuning = AS_SET
    where: Predicate | None = None

    @classmethod
    def of(
        cls,
        table: str,
        column: Any,
        vectors: Floats,
        k: Any,
        metric: Any,
        text: Any,
        max_distance: Any,
        as_of: Any,
        options: Any,
        zone: Any,
        tuning: Tuning = AS_SET,
    ) -> Asked:
        """Check the arguments that can be checked without the table."""
        named = as_zone(zone)
        conf = as_settings(options, "options")
        require_known(conf)
        return cls(
            table=table,
            column=as_text(column, "column", allow_null=True) or "",
            vectors=vectors,
            k=as_k(k),
            metric=metric_named(metric),
            filter=as_text(text, "filter", allow_null=True),
            max_distance=as_distance(max_distance),
            as_of=None if as_of is None else parse_as_of(as_of, named),
            conf=conf,
            zone=named,
            tuning=tuning,
        )

    def plan(self, snapshot: Snapshot, indexes: Sequence[Index] | None = None) -> SearchPlan:
        """Return the plan of the search on a snapshot, with the given indexes; None looks for indexes now."""
        column = vector_column(snapshot, self.column, self.table, self.vectors.shape[1])
        require_comparable(self.metric, column.name, column.element)
        for vector in self.vectors[:1]:
            as_vector(vector, column.dimension)
        tuning = self.tuning
        if tuning.grouping is not None:
            tuning = replace(tuning, grouping=tuning.grouping.within(snapshot.schema, self.table))
        terms = [] if self.filter is None else [parse(self.filter, snapshot.schema, self.table)]
        terms += [] if self.where is None else [self.where]
        predicate = conjunction(terms) if terms else None
        request = SearchRequest(
            column=column,
            metric=self.metric,
            k=self.k,
            max_distance=self.max_distance,
            predicate=predicate,
            filter_text=self.filter if self.where is None or predicate is None else to_text(predicate),
            zone=self.zone,
            execution="local",
            tuning=tuning,
            queries=len(self.vectors),
        )
        if indexes is None:
            indexes = known_indexes(snapshot.source, column.name, self.conf, self.tuning)
        plan = make_plan(snapshot, request, self.conf, indexes)
        return replace(plan, reason="without Spark") if plan.execution == "local" else plan

    def find(
        self,
        snapshot: Snapshot,
        indexes: Sequence[Index] | None = None,
        running: RunningSearch | None = None,
        names: Sequence[str] = (),
    ) -> Found:
        """Plan and search on a snapshot, with the given indexes; None looks for indexes now. `running` gets the plan.

        `names` are the columns that the rows found will be wanted with.

        Raises UnsupportedTableError if only Spark can read a slice, and DimensionMismatchError if the queries have
        another length than all vectors.
        """
        begun = time.perf_counter()
        _require_direct(snapshot)  # first: its schema may lack columns that a filter names
        plan = self.plan(snapshot, indexes)
        if running is not None:
            running.planned(plan, "local")
        require_readable(plan)
        progress = Progress()
        progress.seconds["plan"] = time.perf_counter() - begun
        question = question_of(self.vectors, self.metric, self.k, self.max_distance, plan.grouping)
        question, ahead = reading_ahead(question, names)
        winners = run_local(plan, question, self.conf, progress)
        if len(self.vectors):
            refuse_other_length(plan, len(winners), progress.counts)
        return Found(plan, winners, progress, self.conf, self.vectors, ahead)


def as_zone(value: Any) -> str:
    """Return the name of the zone of timestamps without one, UTC for None.

    Raises InvalidTypeError if it is no text, or blank, and InvalidArgumentError if no such zone is known.
    """
    named = as_text(value, "zone", allow_null=True) or "UTC"
    zone_info(named)
    return named


def as_queries(value: Any) -> Floats:
    """Return query vectors, shape (m, d), float64; m may be 0.

    `value` is a two-dimensional array of numbers, or a list of vectors of one length. Raises InvalidVectorError if a
    vector holds NULL, NaN or infinity, and InvalidTypeError if the values are not vectors of one length.

    Example:
        >>> as_queries([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    is_array = isinstance(value, np.ndarray) and not np.ma.is_masked(value)
    if is_array and value.ndim == 2 and value.size and value.dtype.kind in "fiu":
        whole: Floats = value.astype(np.float64)
        if np.isfinite(whole).all():
            return whole
    try:
        rows = list(value)
    except TypeError:
        raise InvalidTypeError(f"the queries must be an array of shape (m, d), not {value!r}") from None
    vectors = [as_vector(row, None) for row in rows]
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidTypeError("the queries must be vectors of one length")
    if not vectors:
        return np.empty((0, np.shape(value)[1] if np.ndim(value) == 2 else 0), np.float64)
    return np.stack(vectors)


def require_readable(plan: SearchPlan) -> None:
    """Raise UnsupportedTableError if only Spark can read the snapshot or a slice of the plan."""
    _require_direct(plan.snapshot)
    why = next((access.reason for access in plan.slices if access.access == "spark"), None)
    if why is not None:
        raise _only_by_spark(plan.snapshot, f"because of {why}")


def _require_direct(snapshot: Snapshot) -> None:
    if snapshot.needs_spark is not None:
        raise _only_by_spark(snapshot, f"since {snapshot.needs_spark}")


def _only_by_spark(snapshot: Snapshot, why: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"'{snapshot.source.name}' can only be searched through Spark, {why}; use hudi_vector.search(spark, …)"
    )


def spelled(name: str, schema: pa.Schema, table: str) -> str:
    """Return a column's name as the table spells it, ignoring case; raise UnknownColumnError if there is none."""
    if name in schema.names:
        return name
    found = next((present for present in schema.names if present.lower() == name.lower()), None)
    if found is None:
        raise UnknownColumnError.of(name, schema.names, table)
    return str(found)


def vector_column(snapshot: Snapshot, name: str, table: str, dimension: int) -> VectorColumn:
    """Return the searched column as the table declares it; a column of lists gets the given dimension.

    An empty name means the column that the table has chosen for searches. Raises UnknownColumnError if there is no such
    column, and InvalidTypeError if it does not hold vectors.
    """
    field = snapshot.schema.field(spelled(name or searched_column(snapshot), snapshot.schema, table))
    vector = vector_type(field)
    if vector is not None:
        return VectorColumn(field.name, vector.dimension, vector.element, is_vector=True)
    element = _ELEMENTS.get(field.type.value_type) if pa.types.is_list(field.type) else None
    if element is None:
        raise InvalidTypeError(
            f"column '{field.name}' of '{table}' is {field.type}; a search needs a VECTOR or an array of FLOAT, "
            "DOUBLE or TINYINT"
        )
    return VectorColumn(field.name, dimension, element, is_vector=False)
