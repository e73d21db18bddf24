"""``hv.table_services.compact_blobs``: plans, copies and commits, after ending what a killed run had begun."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.leases import COMPACT
from hudi_vector.errors import InvalidArgumentError, RefusedError
from hudi_vector.events import heard_as
from hudi_vector.options import (
    BLOB_MAX_ELEMENT_SIZE,
    COMPACT_GROUP_SIZE,
    COMPACT_LIVE_THRESHOLD,
    COMPACT_TARGET_SIZE,
    parse_size,
)
from hudi_vector.progress import is_shown
from hudi_vector.storage import join
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.arguments import hudi_settings
from hudi_vector.table_services.compaction.state import AreaLook, container_states
from hudi_vector.table_services.plans.compaction import CompactionPlan, Thresholds, choose
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    CompactionRun,
    plan_of,
    publish_plan,
    read_run,
)
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table_services.compaction.run import Compaction
    from hudi_vector.writing.rewriting.row_order import Order

__all__ = ["COMPACT", "Wanted", "compact_blobs", "of_plan", "publish", "tell_by_default"]

_LOG = logging.getLogger(__name__)
_SMALL_PART = 4  # small means less than a quarter of the target size
_DISORDER_PERCENT = 10


@known_arguments()
@heard_as("compact_blobs")
def compact_blobs(
    spark: SparkSession,
    table: str,
    *,
    columns: str | Iterable[str] | None = None,
    live_threshold: int | None = None,
    target_size: str | int | None = None,
    small_threshold: str | int | None = None,
    group_size: str | int | None = None,
    deduplicate: bool = False,
    assume_single_writer: bool = False,
    plan: str | None = None,
    dry_run: bool = False,
    report: str | None = None,
    options: Mapping[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> CompactResult:
    """Repack the live blobs of containers that are mostly dead, or small, and point their rows to the new containers.

    Blobs are copied in the order of the rows, by partition and file. New containers are durable and have been read back
    before references are rewritten, with one Hudi commit for each group of containers; nothing else in a row changes.
    Old containers are never deleted here: the cleaner takes them once older snapshots are gone.

    Rows that other writers change during the run keep their new values. Hudi can guarantee this only if the table has
    ordering fields, or if its writers take turns by a lock (``hoodie.write.concurrency.mode`` and
    ``hoodie.write.lock.provider`` in `options` or in the session). For other tables the run is refused, unless
    `assume_single_writer` is given.

    A run that was killed is ended by the next run, which then plans from the present state of the table.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        columns: The BLOB columns whose containers are considered, all by default; ``"doc.image"`` is a field of a
            struct.
        live_threshold: A container is repacked if less than this percentage of its bytes is live;
            ``hoodie.blob.compact.live.threshold`` by default.
        target_size: The bytes of a new container, for example ``"256MB"``; ``hoodie.blob.compact.target.size`` by
            default.
        small_threshold: Containers with fewer bytes are joined if that gives fewer containers; a quarter of the target
            size by default.
        group_size: The most bytes that are repacked for one commit; ``hoodie.blob.compact.group.size`` by default.
        deduplicate: Whether equal blobs (by SHA-256) of a column in the repacked containers are stored once.
        assume_single_writer: Whether the caller guarantees that no other process writes to the table during the run.
        plan: The id of a plan that a dry run published, to run exactly that plan.
        dry_run: Whether to only plan; the plan is published too.
        report: A local file that gets the rows of the result as JSON, one object per line.
        options: Hudi's settings for the commits.
        progress: A function that is called with a sentence at each step; by default the sentences are shown on a
            terminal, or logged if there is none.

    Returns:
        The containers with what was done about each, and what was copied, rewritten and released.

    Raises:
        RefusedError: Rows of other writers could be lost, or another compaction is running.
        InvalidArgumentError: An argument is not allowed, or the table has no such plan.
        UnknownColumnError: There is no such column.
        InvalidTypeError: A column is not a BLOB column.
        UnsupportedTableError: Rows of the table cannot be written back unchanged.
        BlobWriteError: Bytes could not be stored.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.compact_blobs(spark, "photos", dry_run=True).candidates
        []
        >>> hv.table_services.compact_blobs(spark, "photos").reclaimable_bytes
        0
    """
    from hudi_vector.table_services.compaction.run import Compaction

    tell = progress or tell_by_default("compact-blobs")
    if plan is not None and any(value is not None for value in (columns, live_threshold, target_size, small_threshold)):
        raise InvalidArgumentError("a plan says what is repacked; leave columns, thresholds and sizes out with plan")
    given = hudi_settings(options)
    work = Compaction.of(spark, table, given, tell, alone=assume_single_writer)
    refusal = work.why_refused()
    wanted = None if plan is not None else Wanted(spark, live_threshold, target_size, small_threshold, group_size)
    chosen = work.table.chosen(columns)

    def decided(look: Callable[[], AreaLook]) -> CompactionPlan | CompactionRun:
        """Return a new plan, or the run of the plan that was named."""
        if wanted is None:
            assert plan is not None
            return read_run(work.table.source.uri, plan, work.storage_options)
        return wanted.plan(work, tuple(chosen), deduplicate=deduplicate, look=look)

    if dry_run:
        made = plan_of(decided(work.look))
        if plan is None:
            publish(made, work)
        result = replace(of_plan(made), dry_run=True, refusal=refusal)
        return reported(result, report)
    if refusal is not None:
        raise RefusedError(refusal)
    # A plan may rest on what was there before the lease was held, so that this does not wait for the lease.
    look = work.look if wanted is None else work.storage.begun(work.look)
    with ServiceLease(work.table.source.uri, COMPACT, options=work.storage_options, meanwhile=work.begun) as lease:
        begun, seen = lease.seen()
        notes = work.end_begun_runs(lease, begun)
        work = work.reopened() if notes else work.seen_in(seen)
        found = decided(work.look if notes else look)
        made = plan_of(found)
        reported(of_plan(made), report)
        if made.candidates:
            done = work.run(found, lease, None if notes else seen)
        else:
            done = of_plan(made)
            work.forget_old_plans(keep=made.plan_id)
    return reported(replace(done, notes=(*notes, *done.notes)), report)


class Wanted:
    """Thresholds of a compaction, from the arguments, the session's settings and the defaults.

    Raises InvalidArgumentError if `small_threshold` is not a size or is greater than the target size.
    """

    def __init__(
        self,
        spark: SparkSession,
        live_threshold: int | None,
        target_size: str | int | None,
        small_threshold: str | int | None,
        group_size: str | int | None,
    ) -> None:
        target = COMPACT_TARGET_SIZE.in_session(spark, target_size)
        small = target // _SMALL_PART if small_threshold is None else parse_size(str(small_threshold))
        if small is None:
            raise InvalidArgumentError(
                f"small_threshold = {small_threshold!r} is not a size; give bytes, or a text such as '64MB'"
            )
        if small > target:
            raise InvalidArgumentError(
                f"small_threshold = {small} is above the target size of {target} bytes, so that new containers would "
                "be small at once; give less"
            )
        self._limits = Thresholds(
            live_percent=COMPACT_LIVE_THRESHOLD.in_session(spark, live_threshold),
            target_size=target,
            small_size=small,
            group_size=COMPACT_GROUP_SIZE.in_session(spark, group_size),
            max_element_size=min(target, BLOB_MAX_ELEMENT_SIZE.in_session(spark)),
        )

    def plan(
        self,
        work: Compaction,
        columns: tuple[str, ...],
        *,
        deduplicate: bool,
        look: Callable[[], AreaLook],
        order: Order | None = None,
    ) -> CompactionPlan:
        """Count the references to containers of some BLOB columns, and decide which containers are repacked.

        `look` returns what is in the table's blob area.

        With `order`, the planned order of the rows, containers with too many blobs out of that order are repacked too.
        With `deduplicate`, equal blobs are to be stored once. The plan is not published here.
        """
        from hudi_vector.blobs.names import new_write_id

        now, limits = clock_ms(), replace(self._limits, disorder_percent=_DISORDER_PERCENT if order else None)
        work.tell("counting references")
        states = container_states(work.table, columns, look(), order=order) if columns else []
        return CompactionPlan(
            plan_id=new_write_id(now),
            table=work.table.source.uri,
            made_ms=now,
            columns=columns,
            containers=choose(states, limits),
            target_size=limits.target_size,
            max_element_size=limits.max_element_size,
            deduplicate=deduplicate,
        )


def publish(plan: CompactionPlan, work: Compaction) -> None:
    """Make a new plan durable if it has candidates."""
    if plan.candidates:
        publish_plan(plan, work.storage_options)


def of_plan(plan: CompactionPlan) -> CompactResult:
    """Return the result that a plan predicts, before anything was done."""
    candidates = list(plan.candidates)
    return CompactResult(
        table=plan.table,
        candidates=candidates,
        kept=list(plan.kept),
        released=[],
        bytes=sum(each.live for each in candidates),
        containers_before=len(candidates),
        containers_after=plan.containers_after,
        plan_id=plan.plan_id if candidates else "",
        report=join(plan.table, COMPACTIONS, plan.plan_id) if candidates else "",
    )


def tell_by_default(service: str) -> Callable[[str], None]:
    """Return a function that writes a sentence to standard error if that is a terminal, or else to the log."""

    def tell(sentence: str) -> None:
        if is_shown(sys.stderr):
            sys.stderr.write(f"{service}: {sentence}\n")
        else:
            _LOG.info("%s: %s", service, sentence)

    return tell
