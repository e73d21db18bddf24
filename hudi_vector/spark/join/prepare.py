"""Preparation of a join: checks of its arguments, analysis of both sides and the condition, choice of a route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_vector import options as settings
from hudi_vector.arguments import as_distance, as_k, as_text
from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError, SessionError, number_of
from hudi_vector.index.build import indexable_files
from hudi_vector.kernels.metrics import metric_named, require_comparable
from hudi_vector.query.files.deleted import checked_deleted
from hudi_vector.query.grouping.arguments import GROUP_RANK
from hudi_vector.query.join.parallel import few_rows
from hudi_vector.query.join.routing import RightFacts, Route, choose_route
from hudi_vector.query.tuning import checked_tuning
from hudi_vector.read.conform import vector_type
from hudi_vector.read.list_length import stored_length
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.columns import vector_column
from hudi_vector.spark.join.condition import asked_condition, excluded, self_pairs
from hudi_vector.spark.join.left import LeftSide
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.join.right import RightSource, bytes_source, right_source, stored_source, without_rows
from hudi_vector.spark.join.routes.copied import fits, held_way, temp_barred, temp_way
from hudi_vector.spark.join.routes.external import external_way
from hudi_vector.spark.join.routes.ways import EXACT, Way, snapshot_way, table_way
from hudi_vector.spark.join.stored import stored_frame, stored_snapshot
from hudi_vector.spark.resolve import kept_by_spark, resolve_name
from hudi_vector.spark.search.scanned import length_in
from hudi_vector.spark.search.search import settings_of
from hudi_vector.storage import path_text
from hudi_vector.table.model import Snapshot
from hudi_vector.table.native import NativeTable

__all__ = ["Prepared", "one_of", "prepare", "require_distinct"]

_TYPES = ("inner", "left_outer")
_GROUPS = "the rank of groups"
_MANY = 1 << 20


@dataclass(frozen=True)
class Prepared:
    """A join that is ready to run.

    `way` is the prepared right side, None for a cross join. `on_driver` says whether the driver searches for all left
    rows at once.
    """

    request: JoinRequest
    route: Route
    way: Way | None
    on_driver: bool


def prepare(
    left: Any,
    right: Any,
    query_column: Any,
    column: Any,
    k: Any,
    *,
    metric: Any = "cosine",
    condition: Any = None,
    mode: Any = "auto",
    recall_target: Any = None,
    max_distance: Any = None,
    join_type: Any = "inner",
    exclude_self: Any = None,
    rank_column: Any = "_rank",
    distance_column: Any = "_distance",
    deleted: Any = None,
    spark: SparkSession | None = None,
    run: bool = True,
    **options: Any,
) -> Prepared:
    """Check the arguments of `hudi_vector.knn_join` and choose the route of the join.

    `spark` is by default the session of the sides, or the active session if both are names. With `run`, the data that
    the route needs is made now: rows in memory, a temporary dataset, or an index.
    """
    session = spark or _session(left, right)
    farthest = as_distance(max_distance)
    if k is None and farthest is None:
        raise InvalidArgumentError("k and max_distance are both missing; give k, max_distance, or both")
    wanted = None if k is None else as_k(k)
    measured = metric_named(metric)
    kind = one_of(join_type, "join_type", _TYPES)
    tuning = checked_tuning(None if mode == "auto" else mode, recall_target, **options)
    added = _added_names(rank_column, distance_column, tuning.grouping is not None)
    if tuning.grouping is not None and wanted is None:
        raise InvalidArgumentError("group_by needs k, the number of groups of each left row; give k")

    asking = _left_side(session, left, query_column)
    found, found_label, stored = _frame(session, right, "right")
    require_distinct(found, found_label)
    vector = as_text(column, "column")
    decoded = None if stored else bytes_source(session, found, vector, found_label)
    found = decoded.frame if decoded else found
    asked = asked_condition(session, asking, found.schema, found_label, condition)
    if asked.by_spark and asked.right_only and asked.text is not None:
        found, stored, decoded = kept_by_spark(session, found, "r", asked.text), None, None
    if stored is not None:
        source = stored_source(found, vector, found_label, *stored)
    else:
        source = decoded or right_source(session, found, vector, found_label)
    source = without_rows(source, checked_deleted(deleted))
    require_comparable(measured, source.column.name, source.column.element)
    own = self_pairs(asking, found.schema, found_label, _key_fields(source), exclude_self)
    for schema, label in ((asking.schema, asking.label), (found.schema, found_label)):
        _require_free(schema.names, label, added)
    if tuning.grouping is not None:
        tuning = replace(tuning, grouping=tuning.grouping.within(pa.schema(arrow_fields(found.schema)), found_label))
    request = JoinRequest(
        spark=session,
        left=asking,
        right=source,
        k=wanted,
        max_distance=farthest,
        metric=measured,
        outer=kind == "left_outer",
        tuning=tuning,
        asked=asked,
        condition=excluded(asked.condition, own, found.schema),
        self_columns=tuple(own),
        rank_column=added["rank_column"],
        distance_column=added["distance_column"],
        dimension=_dimension(asking, source),
        conf=settings_of(session),
    )
    request.outputs()
    return _routed(request, run)


def _routed(request: JoinRequest, run: bool) -> Prepared:
    right, conf = request.right, request.conf
    asked, limit = settings.JOIN_PATH.read(conf), settings.JOIN_BROADCAST_MAX_BYTES.read(conf)
    few = request.left.has_no_more_than(few_rows(request.spark.sparkContext.defaultParallelism))
    queries = few_rows(1) if few else _MANY
    by_spark = "" if request.asked.right_only else request.asked.by_spark
    ways: dict[str, Way] = {}
    if not by_spark:
        if right.kind == "files" and asked in ("auto", "external"):
            ways["external"] = external_way(request, queries, asked == "external", run)
        direct = _DIRECT.get(right.kind)
        if direct is not None and asked in ("auto", direct) and _is_needed(ways):
            ways[direct] = _direct(request, queries)
    facts = RightFacts(
        right.kind, right.why_plan, None, {n: w.barred for n, w in ways.items() if w.barred}, pairs_by_spark=by_spark
    )
    if not by_spark and _is_needed(ways) and asked in ("auto", "temp"):
        size = fits(request, limit) if asked == "auto" else None
        reason = temp_barred(request)
        facts = replace(facts, size=size, barred={**(facts.barred or {}), **({"temp": reason} if reason else {})})
    route = choose_route(facts, asked, limit)
    if right.deleted and route.name not in _BY_PLACE:
        raise InvalidArgumentError(
            f"deleted leaves out rows by their places in files, which the route '{route.name}' does not know: "
            f"{by_spark or route.reason}; let the files be searched, or filter the right side instead"
        )
    if route.name in _COMPUTED:
        ways[route.name] = _COMPUTED[route.name](request, queries) if run else _unmade(route.name)
    return Prepared(request, route, ways.get(route.name), few)


_BY_PLACE = frozenset({"external", "search"})
_DIRECT = {"hudi": "search", "files": "search", "lance": "lance"}
_COMPUTED: dict[str, Callable[[JoinRequest, int], Way]] = {
    "broadcast": lambda request, _: held_way(request),
    "temp": temp_way,
}


def _is_needed(ways: Mapping[str, Way]) -> bool:
    """Return True if every route that was checked so far is barred."""
    return all(way.barred for way in ways.values())


def _direct(request: JoinRequest, queries: int) -> Way:
    """Return the route that searches the right side's table, dataset or files in place."""
    right = request.right
    if right.kind == "hudi":
        return table_way(request, queries)
    assert right.snapshot is not None
    # A Lance dataset may contain an index; files do not.
    tuning = request.tuning if right.kind == "lance" and request.k else EXACT
    return snapshot_way(request, right.snapshot, right.physical, queries, tuning)


def _unmade(route: str) -> Way:
    how = {"broadcast": "Collected when the join is made", "temp": "Written when the join is made"}
    return Way(None, None, {}, how[route])


def _session(left: Any, right: Any) -> SparkSession:
    frame = next((side for side in (left, right) if isinstance(side, DataFrame)), None)
    session = frame.sparkSession if frame is not None else SparkSession.getActiveSession()
    if session is None:
        raise SessionError("a join of tables by name needs an active SparkSession; make one, or give a DataFrame")
    return session


def _frame(spark: SparkSession, side: Any, name: str) -> tuple[DataFrame, str, tuple[str, Snapshot] | None]:
    """Return a side's rows, its name in messages, and kind and snapshot of a Lance dataset or Delta table, else None.

    Raises InvalidTypeError if the side is neither a DataFrame nor a name.
    """
    if isinstance(side, DataFrame):
        return side, f"the {name} side", None
    side = path_text(side)
    if not isinstance(side, str):
        raise InvalidTypeError(f"the {name} side must be a DataFrame or the name of a table, not {side!r}")
    stored = stored_snapshot(spark, as_text(side, name))
    frame = stored_frame(spark, stored[1]) if stored else resolve_name(spark, side).frame(spark)
    return frame, side, stored


def _left_side(spark: SparkSession, left: Any, vector: Any) -> LeftSide:
    frame, label, _ = _frame(spark, left, "left")
    if frame.isStreaming:
        raise InvalidArgumentError("the left side is a stream; use it batch by batch, in foreachBatch")
    require_distinct(frame, label)
    return LeftSide(label, frame, vector_column(frame.schema, as_text(vector, "query_column"), label, None))


def require_distinct(frame: DataFrame, label: str) -> None:
    """Raise InvalidArgumentError if a side has two columns of the same name, in any case."""
    seen: set[str] = set()
    for name in frame.columns:
        if name.lower() in seen:
            raise InvalidArgumentError(f"'{label}' has two columns '{name}'; give one of them another name")
        seen.add(name.lower())


def _require_free(names: list[str], label: str, added: Mapping[str, str]) -> None:
    taken = {name.lower() for name in names}
    for argument, name in added.items():
        if name.lower() in taken:
            what = "it" if argument == _GROUPS else argument
            raise InvalidArgumentError(
                f"'{label}' has a column '{name}', the name of a column that the join adds; give {what} another name"
            )


def _added_names(rank: Any, distance: Any, grouped: bool) -> dict[str, str]:
    """Return the names of the columns that the join adds, each by the argument that gives it or adds the column."""
    added = {name: as_text(value, name) for name, value in (("rank_column", rank), ("distance_column", distance))}
    if grouped:
        added[_GROUPS] = GROUP_RANK
    for (one, name), (other, same) in combinations(added.items(), 2):
        if name.lower() == same.lower():
            raise InvalidArgumentError(f"{one} and {other} are both '{name}'; give them different names")
    return added


def one_of(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return a word in lower case; raise InvalidTypeError if it is not a text, InvalidArgumentError if not allowed."""
    text = (as_text(value, name)).strip().lower()
    if text not in allowed:
        raise InvalidArgumentError(f"unknown {name} {value!r}; give one of {', '.join(allowed)}")
    return text


def _key_fields(source: RightSource) -> tuple[str, ...]:
    if source.table is None or source.table.source is None:
        return ()
    return NativeTable(source.table.source).config.record_key_fields


def _dimension(left: LeftSide, right: RightSource) -> int | None:
    """Return the length of the right vectors, as either side declares it, else of one vector; None without vectors.

    Raises DimensionMismatchError if the sides declare different lengths.
    """
    own, other = right.column.dimension or None, left.column.dimension or None
    if own and other and own != other:
        raise DimensionMismatchError(
            f"column '{left.column.name}' of '{left.label}' holds vectors of {number_of(other, 'element')}, column "
            f"'{right.column.name}' of '{right.label}' of {own}; join columns of one length"
        )
    if own or other:
        return own or other
    held = right.snapshot
    if held is not None:
        name = right.physical[right.column.name]
        declared = vector_type(held.schema.field(name))
        if declared:
            return declared.dimension
        if right.kind == "files":
            # The first page of the column holds the length; Spark would start a job for it.
            return stored_length(indexable_files(held), name, held.source.options)
    return length_in(right.frame, right.column.name)
