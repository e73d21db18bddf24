"""Search without Spark: a table by its path, the answer as an Arrow table.

Everything but the table's resolution is shared with the SQL functions: the snapshot, the plan, the kernels, the
order of rows. Slices that only Spark can read are refused with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.kernels.metrics import metric_named
from hudi_vector.read.conform import vector_type
from hudi_vector.read.predicate import parse
from hudi_vector.read.spec import VectorColumn
from hudi_vector.search.checks import as_distance, as_k, as_text, as_vector
from hudi_vector.search.execute import Question
from hudi_vector.search.local import run_local, threads_of
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.planner import SearchRequest, make_plan, table_needs_spark
from hudi_vector.search.report import Progress, SearchReport, keep_report, report_of
from hudi_vector.search.winners import fetch_rows
from hudi_vector.storage import StorageOptions, normalise
from hudi_vector.table.instants import AsOf, parse_as_of, zone_info
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

__all__ = ["SearchResult", "explain_table", "search_table"]

_DISTANCE, _RANK = "_distance", "_rank"
_ELEMENTS = {pa.float32(): "float", pa.float64(): "double", pa.int8(): "int8"}


@dataclass(frozen=True)
class SearchResult:
    """The rows found, with ``_distance`` and ``_rank``; what the search did; what it was to do."""

    rows: pa.Table
    report: SearchReport
    plan: SearchPlan


def search_table(
    table: str,
    column: str,
    query: Any,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
    as_of: Any = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> SearchResult:
    """The exact k nearest rows of a table to one vector, without Spark.

    Args:
        table: The table's base path, of any scheme that pyarrow or an installed fsspec package opens.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT.
        query: The query vector: a list or one-dimensional array of numbers, as long as the column's vectors.
        k: How many rows, 1 to 100,000.
        metric: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an alias of one.
        filter: A condition over the table's columns in the dialect of `hudi_vector.read.predicate_text`, applied
            before distances.
        max_distance: The largest distance wanted, inclusive, in the metric's unit.
        as_of: An instant of the timeline (14 or 17 digits), or a timestamp: what was visible then.
        columns: The columns to return; all without the vector by default. The vector comes as a list.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …).
        options: Settings of this package, by key.
        zone: The zone of timestamps that name none, in ``filter`` and ``as_of``; UTC by default.

    Returns:
        The rows, ascending by ``_distance``, with the report and the plan.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.
        UnsupportedTableError: A slice of the table can only be read by Spark.
        InstantNotAvailableError: The table does not, or no longer, have what ``as_of`` asks for.
        DataFileError: A data file cannot be read.

    Example:
        >>> found = search_table("/tables/products", "embedding", [1.0, 2.0, 3.0], 5)  # doctest: +SKIP
        >>> found.rows.column("_distance").to_pylist()  # doctest: +SKIP
    """
    asked = _Asked.of(table, column, query, k, metric, filter, max_distance, as_of, columns, options, zone)
    opened = NativeTable(_source(table, storage_options))
    try:
        return asked.run(lambda: opened.snapshot(asked.as_of))
    except DataFileError as problem:
        failed = problem
    # Hudi's clean took a planned file (decision 9): the newest snapshot does not need it; an older one does, and
    # asking for it again says so.
    return asked.run(lambda: _snapshot_again(opened, asked.as_of, failed))


def explain_table(
    table: str,
    column: str,
    query: Any,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
    as_of: Any = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> str:
    """What `search_table` with the same arguments would do now, without doing it.

    Args:
        table: As for `search_table`.
        column: As for `search_table`.
        query: As for `search_table`.
        k: As for `search_table`.
        metric: As for `search_table`.
        filter: As for `search_table`.
        max_distance: As for `search_table`.
        as_of: As for `search_table`.
        columns: As for `search_table`; they do not change how the search runs.
        storage_options: As for `search_table`.
        options: As for `search_table`.
        zone: As for `search_table`.

    Returns:
        The plan as text; slices that would be refused are in it, with the reason.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.

    Example:
        >>> print(explain_table("/tables/products", "embedding", [1.0, 2.0, 3.0]))  # doctest: +SKIP
    """
    asked = _Asked.of(table, column, query, k, metric, filter, max_distance, as_of, columns, options, zone)
    snapshot = NativeTable(_source(table, storage_options)).snapshot(asked.as_of)
    asked.names(snapshot)
    return asked.plan(snapshot).describe()


@dataclass(frozen=True)
class _Asked:
    """The arguments of a search, those checked that can be without the table."""

    table: str
    column: str
    vector: npt.NDArray[np.float64]
    k: int
    metric: str
    filter: str | None
    max_distance: float | None
    as_of: AsOf | None
    columns: tuple[str, ...] | None
    conf: Mapping[str, str]
    zone: str

    @classmethod
    def of(
        cls,
        table: Any,
        column: Any,
        query: Any,
        k: Any,
        metric: Any,
        text: Any,
        max_distance: Any,
        as_of: Any,
        columns: Any,
        options: Any,
        zone: Any,
    ) -> _Asked:
        named = as_text(zone, "zone", allow_null=True) or "UTC"
        zone_info(named)
        if isinstance(columns, str):
            raise InvalidTypeError(f"columns must be a list of names, not the text {columns!r}")
        return cls(
            table=as_text(table, "table") or "",
            column=as_text(column, "column") or "",
            vector=as_vector(query, None),
            k=as_k(k),
            metric=metric_named(metric),
            filter=as_text(text, "filter", allow_null=True),
            max_distance=as_distance(max_distance),
            as_of=None if as_of is None else parse_as_of(as_of, named),
            columns=None if columns is None else tuple(as_text(name, "columns") or "" for name in columns),
            conf={key: str(value) for key, value in (options or {}).items()},
            zone=named,
        )

    def plan(self, snapshot: Snapshot) -> SearchPlan:
        """What is done on this snapshot."""
        column = _vector_column(snapshot, self.column, self.table, len(self.vector))
        as_vector(self.vector, column.dimension)
        request = SearchRequest(
            column=column,
            metric=self.metric,
            k=self.k,
            max_distance=self.max_distance,
            predicate=None if self.filter is None else parse(self.filter, snapshot.schema),
            filter_text=self.filter,
            zone=self.zone,
            execution="local",
        )
        plan = make_plan(snapshot, request, self.conf)
        return replace(plan, reason="without Spark") if plan.execution == "local" else plan

    def names(self, snapshot: Snapshot) -> list[str]:
        """The columns of the answer, as the table spells them."""
        schema = snapshot.schema
        for name in (_DISTANCE, _RANK):
            if name in {present.lower() for present in schema.names}:
                raise InvalidArgumentError(
                    f"'{self.table}' has a column '{name}', the name of a column that the search adds; "
                    "search it through Spark, over a view that gives it another name"
                )
        searched = _spelled(self.column, schema, self.table)
        if self.columns is None:
            return [*(name for name in schema.names if name != searched), _DISTANCE, _RANK]
        added = (_DISTANCE, _RANK)
        wanted = [name if name in added else _spelled(name, schema, self.table) for name in self.columns]
        return list(dict.fromkeys([*wanted, *added]))

    def run(self, choose: Callable[[], Snapshot]) -> SearchResult:
        """Choose a snapshot, plan, search and read the winners' columns."""
        begun = time.perf_counter()
        snapshot = choose()
        names = self.names(snapshot)
        plan = self.plan(snapshot)
        _require_readable(plan)
        progress = Progress()
        progress.seconds["plan"] = time.perf_counter() - begun
        question = Question(self.vector[None, :], self.metric, self.k, self.max_distance)
        winners = run_local(plan, question, self.conf, progress)
        scanned = time.perf_counter()
        inner = [name for name in names if name not in (_DISTANCE, _RANK)]
        fetched = fetch_rows(plan, winners, inner, keep=True, threads=threads_of(self.conf))
        values: dict[str, Any] = {name: fetched.column(name) for name in inner}
        values[_DISTANCE] = pa.array(winners.distance)
        values[_RANK] = pa.array(winners.rank.astype(np.int32))
        rows = pa.table({name: values[name] for name in names})
        progress.seconds["rows"] = time.perf_counter() - scanned
        report = report_of(plan, progress, queries=1, returned=len(winners), fewest=len(winners))
        keep_report(report)
        return SearchResult(rows, report, plan)


def _source(table: str, storage_options: Mapping[str, str] | None) -> Source:
    return Source(normalise(table), table, StorageOptions.of(storage_options or {}))


def _snapshot_again(opened: NativeTable, as_of: AsOf | None, problem: DataFileError) -> Snapshot:
    if as_of is not None:
        opened.snapshot(as_of)  # says which instants are left, if this one is no longer there
        raise problem
    return opened.snapshot()


def _require_readable(plan: SearchPlan) -> None:
    slices = (access.reason for access in plan.slices if access.access == "spark")
    reason = table_needs_spark(plan.snapshot) or next(slices, None)
    if reason is not None:
        raise UnsupportedTableError(
            f"'{plan.snapshot.source.name}' can only be searched through Spark, because of {reason}; "
            "use hudi_vector.search(spark, …)"
        )


def _spelled(name: str, schema: pa.Schema, table: str) -> str:
    """A column's name as the table spells it."""
    if name in schema.names:
        return name
    found = next((present for present in schema.names if present.lower() == name.lower()), None)
    if found is None:
        raise UnknownColumnError.of(name, schema.names, table)
    return str(found)


def _vector_column(snapshot: Snapshot, name: str, table: str, dimension: int) -> VectorColumn:
    field = snapshot.schema.field(_spelled(name, snapshot.schema, table))
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
