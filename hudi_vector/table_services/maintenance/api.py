"""``hv.table_services.maintain``: runs what is due on a table, in one job that may be scheduled every hour."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, RefusedError
from hudi_vector.events import heard_as
from hudi_vector.options import MAINTAIN_SINGLE_WRITER, MAINTAIN_STEPS, parse_names
from hudi_vector.shown import Shown
from hudi_vector.storage import path_text
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.arguments import paths, texts
from hudi_vector.table_services.located import locate
from hudi_vector.table_services.maintenance.figures import Figures
from hudi_vector.table_services.maintenance.history import (
    FAILED,
    NOT_DUE,
    NOTHING,
    REFUSED,
    History,
    Run,
    StepOutcome,
    add_run,
    read_history,
)
from hudi_vector.table_services.maintenance.report import html_report
from hudi_vector.table_services.maintenance.steps import STEPS, Job, Outcome, Step, end_killed_runs
from hudi_vector.table_services.report_file import write_report
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MAINTAIN", "MaintainResult", "maintain"]

MAINTAIN = "maintain"
"""The name of the lease that prevents two maintenance runs on one table."""

_LOG = logging.getLogger(__name__)
_MOST_TEXT = 1000  # characters of a step's text that are kept; the log has the full text


@dataclass(frozen=True, repr=False)
class MaintainResult(Shown):
    """The outcome of a maintenance run.

    Attributes:
        table: The table's base path.
        steps: The outcome of each step.
        figures: The sizes of the table's blobs and indexes, if this run measured them.
        report: The file of the report, if one was asked for.
        dry_run: Whether this was a dry run, which changes nothing.

    Example:
        >>> result = hv.table_services.maintain(spark, "photos", dry_run=True)
        >>> result.is_well
        True
        >>> steps = result.rows()
    """

    table: str
    steps: list[StepOutcome]
    figures: Figures | None = None
    report: str | None = None
    dry_run: bool = False

    @property
    def is_well(self) -> bool:
        """Return True if no step was refused and none failed."""
        return all(step.is_well for step in self.steps)

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `step`, `state`, `seconds` and `text`, in the order of the steps."""
        return [
            {"step": step.step, "state": step.state, "seconds": step.seconds, "text": step.text} for step in self.steps
        ]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends."""
        states = [step.state for step in self.steps]
        yield ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        if self.report:
            yield f"report: {self.report}"


@known_arguments()
@heard_as("maintain")
def maintain(
    spark: SparkSession,
    table: str,
    *,
    steps: Collection[str] | None = None,
    dry_run: bool = False,
    report: str | None = None,
    other_tables: Sequence[str] = (),
    assume_single_writer: bool | None = None,
) -> MaintainResult:
    """Run the services that are due on a table; a scheduler may call this every hour.

    The steps are those of ``hoodie.blob.maintain.steps``: ``cluster``, ``compact_blobs``, ``clean_blobs``, ``index``
    (refreshes vector indexes) and ``figures`` (counts the blobs for the report). A step is due once its interval,
    ``hoodie.blob.maintain.{cluster,compact,clean,index,figures}.interval``, has passed since it last succeeded. Other
    settings of a step are those of its service. If a step is refused or fails, the others still run; a step that has
    nothing to do says so. The history of all runs is kept in the table, below ``.hoodie/blob_service/v1/maintenance/``.

    Before the steps, and whichever steps are chosen, a compaction or clustering that was killed is ended. This restores
    rows of other writers that its commit hides, and releases the containers that it holds. It appears as the step
    ``end_killed_runs``, but only if there was such a run.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        steps: Run exactly these steps now, whether they are due or not; by default the steps that are due.
        dry_run: Whether to only report what would happen; nothing is added to the history.
        report: A local file for the report: an HTML page with the table's blobs and vector indexes over time, the last
            runs, and what to do about steps that were refused. It needs no network.
        other_tables: The paths of tables that may refer to this table's blobs, as for `clean_blobs`.
        assume_single_writer: As for `compact_blobs`, for the steps ``cluster`` and ``compact_blobs``;
            ``hoodie.blob.maintain.assume.single.writer`` by default.

    Returns:
        The outcome of each step.

    Raises:
        RefusedError: Another maintenance run of this table is under way.
        InvalidArgumentError: There is no such step, or the report cannot be written.
        InvalidOptionError: A setting has an invalid value.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.maintain(spark, "photos", report="photos.html").is_well
        True
    """
    table = path_text(table)
    root, _, options = locate(spark, table)
    chosen = _chosen(spark, steps)
    job = Job(
        spark,
        table,
        dry_run,
        paths("other_tables", other_tables),
        single_writer=MAINTAIN_SINGLE_WRITER.in_session(spark, assume_single_writer) == "true",
    )
    with ServiceLease(root, MAINTAIN, options=options) as lease:
        history = read_history(root, options)
        if report is not None:  # a report that cannot be written raises before any step runs
            write_report(report, html_report(root, history, clock_ms()))
        due = _due(spark, chosen, history, force=steps is not None)
        run = _run(job, chosen, due, lease.check)
        if any(step.state != NOT_DUE for step in run.steps) and not dry_run:
            history = add_run(root, run, options)
    if report is not None:
        write_report(report, html_report(root, history, clock_ms()))
    return MaintainResult(root, list(run.steps), run.figures, report, dry_run)


def _chosen(spark: SparkSession, names: Collection[str] | None) -> list[Step]:
    known = [step.name for step in STEPS]
    asked = parse_names(MAINTAIN_STEPS.in_session(spark)) if names is None else names
    given = texts("steps", asked)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None or not given:
        what = f"there is no step {unknown!r}" if given else "no step was given"
        raise InvalidArgumentError(f"{what}; the steps are {', '.join(known)}")
    return [step for step in STEPS if step.name in given]


def _due(spark: SparkSession, steps: Sequence[Step], history: History, force: bool) -> frozenset[str]:
    # All intervals are read before any step runs, so that an invalid setting stops the whole job.
    intervals = {step.name: step.interval.in_session(spark) for step in steps}
    now = clock_ms()
    return frozenset(name for name, interval in intervals.items() if force or history.is_due(name, interval, now))


def _run(job: Job, steps: Sequence[Step], due: Collection[str], check: Callable[[], None]) -> Run:
    begun, outcomes, figures = clock_ms(), [], None
    ended = _outcome_of(job, "end_killed_runs", end_killed_runs)[0]
    if ended.state != NOTHING:
        outcomes.append(ended)
    for step in steps:
        if step.name not in due:
            outcomes.append(StepOutcome(step.name, NOT_DUE))
            continue
        check()
        outcome, taken = _outcome_of(job, step.name, step.run)
        outcomes.append(outcome)
        figures = taken or figures
    return Run(begun, tuple(outcomes), figures)


def _outcome_of(job: Job, name: str, run: Callable[[Job], Outcome]) -> tuple[StepOutcome, Figures | None]:
    """Run a step and log its outcome; return the outcome, and the figures if the step took any."""
    _LOG.info("%s of %s begins", name, job.table)
    at = time.monotonic()
    outcome = _attempted(job, name, run)
    seconds = round(time.monotonic() - at, 1)
    _LOG.info("%s of %s: %s after %s s: %s", name, job.table, outcome.state, seconds, outcome.text)
    return StepOutcome(name, outcome.state, outcome.text[:_MOST_TEXT], seconds), outcome.figures


def _attempted(job: Job, name: str, run: Callable[[Job], Outcome]) -> Outcome:
    try:
        return run(job)
    except RefusedError as refused:
        return Outcome(REFUSED, str(refused))
    except HudiVectorError as problem:
        return Outcome(FAILED, str(problem))
    except Exception as problem:  # noqa: BLE001 - no error of one step may stop the others
        from hudi_vector.spark.catalyst.gateway import first_sentence
        from hudi_vector.spark.catalyst.worker_errors import from_worker

        _LOG.error("%s of %s failed", name, job.table, exc_info=problem)
        return Outcome(FAILED, str(from_worker(problem) or f"{type(problem).__name__}: {first_sentence(problem)}"))
