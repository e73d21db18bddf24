"""``hv.table_services.compact_blobs``: plan, copy, commit; what a killed run began is ended first."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.leases import COMPACT
from hudi_vector.errors import InvalidArgumentError, RefusedError
from hudi_vector.options import (
    BLOB_MAX_ELEMENT_SIZE,
    COMPACT_GROUP_SIZE,
    COMPACT_LIVE_THRESHOLD,
    COMPACT_TARGET_SIZE,
    parse_size,
)
from hudi_vector.storage import join
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.arguments import hudi_settings
from hudi_vector.table_services.compaction.state import container_states
from hudi_vector.table_services.plans.compaction import CompactionPlan, Thresholds, choose
from hudi_vector.table_services.plans.compaction_files import COMPACTIONS, publish_plan, read_run
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table_services.compaction.run import Compaction
    from hudi_vector.writing.rewriting.row_order import Order

__all__ = ["COMPACT", "Wanted", "compact_blobs", "of_plan", "publish", "tell_by_default"]

_LOG = logging.getLogger(__name__)
_SMALL_PART = 4  # of the target
_DISORDER_PERCENT = 10


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
    """Repack the live blobs of containers that are mostly dead, or small, and point their rows to the new ones.

    Blobs are copied in the order of the rows, partition by partition and file by file. New containers are durable and
    were read back before one Hudi commit for each group of containers rewrites the references; all else in a row stays
    as it was. Old containers are never deleted here: when older snapshots are gone, the cleaner takes them.

    Rows that other writers change meanwhile keep their new values. Hudi can promise that only to tables with an
    ordering field, or to writers that take turns by a lock (``hoodie.write.concurrency.mode`` and
    ``hoodie.write.lock.provider`` in `options` or the session); for other tables the run is refused, unless
    `assume_single_writer`.

    A run that was killed is ended by the next one, whose plan starts from what is there.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        columns: The BLOB columns whose containers are looked at, all by default; ``"doc.image"`` is a field of a
            struct.
        live_threshold: Percent of a container's bytes below which it is repacked;
            ``hoodie.blob.compact.live.threshold`` by default.
        target_size: Bytes of a new container, such as ``"256MB"``; ``hoodie.blob.compact.target.size`` by default.
        small_threshold: Containers of fewer bytes are joined, where that makes fewer; a quarter of the target by
            default.
        group_size: The most bytes that are repacked before a commit; ``hoodie.blob.compact.group.size`` by default.
        deduplicate: Whether blobs of a column of repacked containers that are equal, by SHA-256, are stored once.
        assume_single_writer: Whether the caller promises that nobody else writes to the table meanwhile.
        plan: The id of a plan that a dry run published, to be run exactly as it was reviewed.
        dry_run: Whether to only say what would happen; the plan is published all the same.
        report: A local file that gets the rows as JSON, one object a line.
        options: Hudi's settings for the commits.
        progress: Gets a sentence at each step; by default a terminal shows them, and the log has them elsewhere.

    Returns:
        The containers with what was done about each, and what was copied, rewritten and released.

    Raises:
        RefusedError: Other writers cannot be kept from losing rows, or another compaction is under way.
        InvalidArgumentError: An argument is not allowed, or the table has no such plan.
        UnknownColumnError: There is no such column.
        InvalidTypeError: A column is no BLOB.
        UnsupportedTableError: Rows of the table cannot be written back as they are.
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

    def decided() -> CompactionPlan:
        if wanted is None:
            assert plan is not None
            return read_run(work.table.source.uri, plan, work.storage_options).plan
        return wanted.plan(work, tuple(chosen), deduplicate=deduplicate)

    if dry_run:
        made = decided()
        if plan is None:
            publish(made, work)
        result = replace(of_plan(made), dry_run=True, refusal=refusal)
        return reported(result, report)
    if refusal is not None:
        raise RefusedError(refusal)
    with ServiceLease(work.table.source.uri, COMPACT, options=work.storage_options) as lease:
        notes = work.end_begun_runs(lease)
        made = decided()
        if plan is None:
            publish(made, work)
        reported(of_plan(made), report)
        done = work.run(made, lease) if made.candidates else of_plan(made)
        work.forget_old_plans(keep=made.plan_id)
    return reported(replace(done, notes=(*notes, *done.notes)), report)


class Wanted:
    """What is worth a copy, from the arguments and the session."""

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
                f"small_threshold = {small_threshold!r} is no size; give bytes, or such as '64MB'"
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
        self, work: Compaction, columns: tuple[str, ...], *, deduplicate: bool, order: Order | None = None
    ) -> CompactionPlan:
        """Decide what is repacked.

        Args:
            work: The table.
            columns: The BLOB columns whose containers are looked at.
            deduplicate: Whether equal blobs are stored once.
            order: How the rows will lie; containers too much of which does not lie so are repacked too.
        """
        from hudi_vector.blobs.names import new_write_id

        now, limits = clock_ms(), replace(self._limits, disorder_percent=_DISORDER_PERCENT if order else None)
        work.tell("counting references")
        states = container_states(work.spark, work.table, columns, order=order) if columns else []
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
    """Make a new plan durable, if it has anything to do."""
    if plan.candidates:
        publish_plan(plan, work.storage_options)


def of_plan(plan: CompactionPlan) -> CompactResult:
    """What a plan says before anything was done."""
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
    """Sentences for the terminal where there is one, and for the log elsewhere."""

    def tell(sentence: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"{service}: {sentence}\n")
        else:
            _LOG.info("%s: %s", service, sentence)

    return tell
