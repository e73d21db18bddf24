"""The planner, which makes a plan from a snapshot and a request, and reads nothing from storage."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa

from hudi_vector import options
from hudi_vector.errors import number_of
from hudi_vector.index.catalog import Index
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.query.grouping.arguments import rows_at_first
from hudi_vector.query.index_choice import Choice, IndexNeed, choose_index
from hudi_vector.query.lance.choice import LANCE_INDEX, choose_lance_index, covered_by
from hudi_vector.query.plan import IndexUse, SearchPlan, SliceAccess
from hudi_vector.query.tuning import AS_SET, Tuning, why_not_by_index
from hudi_vector.read.predicate.form import Predicate, columns, evaluate, restrict
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.storage import scheme_of
from hudi_vector.table.model import FileSlice, Snapshot
from hudi_vector.table.recent import Recent

__all__ = ["SearchRequest", "make_plan"]

# What hudi-rs opens; the rest is merged by Spark.
_HUDI_RS_SCHEMES = frozenset({"file", "s3", "gs", "az", "abfs", "abfss"})
_WHOLE_NUMBER = re.compile(r"-?\d+", re.ASCII)
_BLOCKS_ARE_COMPLETE = 8
_UNTOUCHED = "rows that no log file touches"
_UNKNOWN_PARTITIONS = frozenset({"__HIVE_DEFAULT_PARTITION__", "default", ""})


@dataclass(frozen=True)
class SearchRequest:
    """A checked request of a user: everything but the query vectors and the snapshot."""

    column: VectorColumn
    metric: str
    k: int
    max_distance: float | None = None
    predicate: Predicate | None = None
    filter_text: str | None = None
    zone: str = "UTC"
    execution: str = "auto"
    why_spark: str | None = None
    tuning: Tuning = AS_SET
    queries: int = 1


def make_plan(
    snapshot: Snapshot, request: SearchRequest, conf: Mapping[str, str], indexes: Sequence[Index] = ()
) -> SearchPlan:
    """Decide how every slice is read and where the search runs.

    `conf` are settings as text, `indexes` the indexes of the column. Raises InvalidArgumentError if the requested kind
    of index is missing, or if `nprobes` or `refine_factor` is given although the answer must be exact.
    """
    grouping = request.tuning.grouping
    if grouping is not None:
        request = replace(request, predicate=grouping.filtered(request.predicate, snapshot.schema))
    spec = ScanSpec(
        table_uri=snapshot.source.uri,
        schema=snapshot.schema,
        column=request.column,
        predicate=request.predicate,
        zone=request.zone,
        has_keys=snapshot.config.populates_meta_fields,
        ties=snapshot.ties,
        carried=() if grouping is None else grouping.columns,
        by_event_time=snapshot.config.merges_by_event_time,
        options=snapshot.source.options,
    )
    kept = _kept(snapshot, request)
    whole_table = request.why_spark or snapshot.needs_spark
    column = request.column
    tuning = request.tuning.settled(conf)
    rows = request.k if grouping is None else rows_at_first(request.k)
    need = IndexNeed(
        column.dimension, column.element, request.metric, rows, request.queries, request.predicate is not None
    )
    for_groups = why_not_by_index(tuning, request.k)
    use: IndexUse | None
    pruned_segments: tuple[ManifestEntry, ...] = ()
    if for_groups:
        slices, use, why = _laid_out(kept, snapshot, whole_table, None), None, for_groups
    elif snapshot.lance_indexes is not None:
        own, why = choose_lance_index(snapshot.lance_indexes, column.name, need, tuning, snapshot.source.uri)
        accesses = _laid_out(kept, snapshot, whole_table, None)
        slices, use = tuple(covered_by(access, own) for access in accesses), own
    else:
        choice = choose_index(indexes, need, tuning, conf)
        slices, use, why = _laid_out(kept, snapshot, whole_table, choice.index), choice.use, choice.reason
        pruned_segments = _pruned_segments(snapshot, kept, choice)
    used = any(access.access in ("index", LANCE_INDEX) for access in slices)
    execution, reason = _execution(slices, whole_table, request.execution, conf)
    return SearchPlan(
        snapshot=snapshot,
        spec=spec,
        metric=request.metric,
        k=request.k,
        max_distance=request.max_distance,
        filter_text=request.filter_text,
        slices=slices,
        pruned_slices=len(snapshot.file_slices) - len(kept),
        execution=execution,
        reason=reason,
        index=use if used else None,
        why_no_index=why or "it covers none of the slices",
        timeout=tuning.timeout,
        grouping=grouping,
        pruned_segments=pruned_segments,
    )


def _laid_out(
    kept: Sequence[FileSlice], snapshot: Snapshot, whole_table: str | None, index: Index | None
) -> tuple[SliceAccess, ...]:
    """Return the accesses of slices, which go through the index where it has a segment of the slice.

    The accesses are kept for the next search of the same snapshot and index: over many files, computing them again
    takes longer than the search.
    """
    key = (id(snapshot), id(index), whole_table)
    laid = _LAID.get(key) or _LAID.first(key, _Laid(snapshot, index, {}))
    found: list[SliceAccess] = []
    for entry in kept:
        accesses = laid.accesses.get(id(entry))
        if accesses is None:
            accesses = _indexed(_access(entry, snapshot, whole_table), index, snapshot.config.version)
            laid.accesses[id(entry)] = accesses
        found += accesses
    return tuple(found)


@dataclass(frozen=True)
class _Laid:
    """Accesses by the `id` of a slice; the snapshot and the index are held, so that no other object gets their `id`."""

    snapshot: Snapshot
    index: Index | None
    accesses: dict[int, tuple[SliceAccess, ...]]


_LAID: Recent[tuple[int, int, str | None], _Laid] = Recent(8)


def _indexed(access: SliceAccess, index: Index | None, version: int) -> tuple[SliceAccess, ...]:
    """Return the accesses of a slice through its index segment if it has one; rows that log files touch are merged."""
    base = access.file_slice.base_file
    if index is None or access.access not in ("parquet", "merged") or base is None:
        return (access,)
    entry = index.entry_of(base)
    if access.access == "merged":
        # Before version 8, only the timeline shows which blocks belong to a commit that never completed.
        if entry is None or version < _BLOCKS_ARE_COMPLETE:
            return (access,)
        parted = replace(access, segment=entry, index_folder=index.folder)
        return (replace(parted, access="index", reason=_UNTOUCHED), replace(parted, access="touched"))
    if entry is not None:
        return (SliceAccess(access.file_slice, "index", access.reason, entry),)
    why = "rewritten since it was indexed" if index.entry_at(base) else "no segment of the index yet"
    return (replace(access, reason=why),)


def _pruned_segments(snapshot: Snapshot, kept: Sequence[FileSlice], choice: Choice) -> tuple[ManifestEntry, ...]:
    """Return the index segments of the slices that were pruned, () if there is no index."""
    if choice.index is None or len(kept) == len(snapshot.file_slices):
        return ()
    searched = set(map(id, kept))
    pruned = [entry.base_file for entry in snapshot.file_slices if id(entry) not in searched]
    return tuple(entry for _, entry in choice.index.covered(base for base in pruned if base is not None))


def _access(entry: FileSlice, snapshot: Snapshot, whole_table: str | None) -> SliceAccess:
    if whole_table is not None:
        return SliceAccess(entry, "spark", whole_table)
    kind = entry.base_file.name.rpartition(".")[2] if entry.base_file else "parquet"
    if kind not in ("parquet", "lance"):
        return SliceAccess(entry, "spark", f"base files of format {kind}")
    lance = kind == "lance"
    if not entry.log_files:
        return SliceAccess(entry, "lance" if lance else "parquet")
    reason = _merge_needs_spark(entry, snapshot, lance)
    if reason:
        return SliceAccess(entry, "spark", reason)
    return SliceAccess(entry, "merged", number_of(len(entry.log_files), "log file"))


def _merge_needs_spark(entry: FileSlice, snapshot: Snapshot, lance: bool) -> str | None:
    """Return the reason why hudi-rs cannot merge this slice correctly, None if it can."""
    config = snapshot.config
    if entry.base_file is None:
        return "log files without a base file"
    if entry.base_instant in snapshot.older_schemas:
        return "log files on a base file of an older schema"
    if lance:
        return "log files on a Lance base file"
    if not config.plain_merge:
        return "a merge mode or payload of the user's own"
    if not config.populates_meta_fields:
        return "log files without meta fields"
    kinds = [(field.metadata or {}).get(HUDI_TYPE.encode()) for field in snapshot.schema]
    if b"BLOB" in kinds:
        return "BLOB columns in log files"
    vectors = [kind for kind in kinds if kind is not None]
    if len(vectors) > len(set(vectors)):
        return "several VECTOR columns of one type in log files"
    if not config.layout.logs_bear_own_instant and snapshot.as_of is not None:
        return "log files of table version 6 as of an earlier instant"
    if scheme_of(snapshot.source.uri) not in _HUDI_RS_SCHEMES:
        return f"log files on '{scheme_of(snapshot.source.uri)}://'"
    return None


def _execution(
    slices: tuple[SliceAccess, ...], whole_table: str | None, asked: str, conf: Mapping[str, str]
) -> tuple[str, str]:
    reason = whole_table or next((access.reason for access in slices if access.access == "spark"), None)
    if reason is not None:
        return "spark", f"read by Spark's own Hudi reader ({reason})"
    if asked == "auto":
        asked = options.EXECUTION.read(conf)
    if asked != "auto":
        return asked, "as asked"
    size = sum(access.size for access in slices)
    limit = options.LOCAL_MAX_BYTES.read(conf)
    if size <= limit:
        return "local", f"{size} bytes, no more than {options.LOCAL_MAX_BYTES.key} = {limit}"
    return "distributed", f"{size} bytes, more than {options.LOCAL_MAX_BYTES.key} = {limit}"


def _kept(snapshot: Snapshot, request: SearchRequest) -> list[FileSlice]:
    """Return the slices of the partitions in which rows may pass the filter."""
    if request.predicate is None:
        return list(snapshot.file_slices)
    needed = columns(request.predicate)
    verdicts: dict[tuple[object, ...], bool] = {}
    kept = []
    for entry in snapshot.file_slices:
        place = (entry.partition_path, entry.constants)
        known = {*snapshot.config.partition_fields, *(name for name, _ in entry.constants)}
        if needed and needed.isdisjoint(known):
            verdicts[place] = True
        elif place not in verdicts:
            verdicts[place] = _partition_may_match(entry, snapshot, request)
        if verdicts[place]:
            kept.append(entry)
    return kept


def _partition_may_match(entry: FileSlice, snapshot: Snapshot, request: SearchRequest) -> bool:
    config = snapshot.config
    assert request.predicate is not None
    values = dict(entry.constants)
    if config.partition_fields and config.plain_key_generator:
        values = partition_values(entry.partition_path, snapshot)
    if not values:
        return True
    decided = restrict(request.predicate, tuple(values))
    if decided is None:
        return True
    row = pa.table({name: pa.repeat(value, 1) for name, value in values.items()})
    return bool(evaluate(decided, row, request.zone)[0])


def partition_values(path: str, snapshot: Snapshot) -> dict[str, pa.Scalar]:
    """Return the values of the partition columns that a partition path, relative to the table, states for certain.

    These are text and whole numbers; columns of other types, NULLs and values with a slash are left out.
    """
    config = snapshot.config
    segments = path.split("/")
    if len(segments) != len(config.partition_fields):
        return {}
    values: dict[str, pa.Scalar] = {}
    for name, segment in zip(config.partition_fields, segments, strict=True):
        text = segment
        if config.hive_style_partitioning:
            prefix, _, text = segment.partition("=")
            if prefix != name:
                return {}
        if config.url_encode_partitioning:
            text = unquote(text)
        index = snapshot.schema.get_field_index(name)
        if index < 0 or text in _UNKNOWN_PARTITIONS:
            continue
        kind = snapshot.schema.field(index).type
        if pa.types.is_string(kind):
            values[name] = pa.scalar(text, kind)
        elif pa.types.is_integer(kind) and _WHOLE_NUMBER.fullmatch(text):
            with contextlib.suppress(pa.ArrowInvalid, OverflowError):  # too large for the column, so not its value
                values[name] = pa.scalar(int(text), kind)
    return values
