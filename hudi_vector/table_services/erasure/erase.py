"""``hv.table_services.erase``: deletes rows for good, and proves by reading that no byte of them is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import RefusedError, UnsupportedTableError, number_of
from hudi_vector.events import heard_as
from hudi_vector.shown import Shown
from hudi_vector.storage import path_text
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.erasure.api import Holder, look_now, require_keys, wanted_keys
from hudi_vector.table_services.erasure.held import end_dead_uploads, end_killed, why_held
from hudi_vector.table_services.erasure.steps import STEPS, Erasing, Step
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ERASE", "EraseResult", "EraseStep", "erase"]

ERASE = "erase"
"""The name of the lease that prevents two erasures of one table at the same time."""

_DONE, _DUE, _NOTHING, _REFUSED = "done", "due", "nothing to do", "refused"


@dataclass(frozen=True)
class EraseStep:
    """The outcome of one step of an erasure.

    Attributes:
        step: The name of the step.
        state: ``done``, ``nothing to do``, ``refused``, or ``due`` in a dry run.
        text: What was done, or what there is to do.
        seconds: How long the step took, with the look at the table before it.
    """

    step: str
    state: str
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, repr=False)
class EraseResult(Shown):
    """The outcome of an erasure.

    Attributes:
        table: The table's base path.
        erasure_id: The id of this erasure's record.
        keys: The number of keys.
        steps: The outcome of each step.
        remains: The files that still hold bytes of the keys, or may, each with what it needs.
        external: Files with bytes of the keys that the table does not own, as in `ErasureResult`.
        doubts: What could not be read at the end, so that its content is unknown.
        not_looked_at: What is below the table's folder and was not searched, as relative paths.
        report: The folder of the record.
        dry_run: Whether this was a dry run, which changes nothing of the table.
        refusal: In a dry run, why the real run would be refused, or None.

    Example:
        >>> dry = hv.table_services.erase(spark, "photos", ["cat"], dry_run=True)
        >>> dry.erased, dry.steps[0].step
        (False, 'remember')
    """

    table: str
    erasure_id: str
    keys: int
    steps: list[EraseStep]
    remains: list[Holder] = field(default_factory=list)
    external: list[Holder] = field(default_factory=list)
    doubts: tuple[str, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    report: str = ""
    dry_run: bool = False
    refusal: str | None = None

    @property
    def erased(self) -> bool:
        """Return True if the table was read at the end, and no file of it holds bytes of the keys."""
        return not (self.dry_run or self.remains or self.doubts)

    @property
    def is_well(self) -> bool:
        """Return True if the keys are erased, or, in a dry run, if the real run would not be refused."""
        return self.refusal is None if self.dry_run else self.erased

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `step`, `state`, `seconds` and `text`: one per step in order, then one per file that remains.

        For such a file the step is its kind, and the state is ``remains``.
        """
        left = self.remains if not self.dry_run else []
        rows = [*self.steps, *(EraseStep(each.kind, "remains", f"{each.path}: {each.needs}") for each in left)]
        return [{"step": each.step, "state": each.state, "seconds": each.seconds, "text": each.text} for each in rows]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as sentences for people."""
        yield from (f"not known: {doubt}" for doubt in self.doubts)
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        if self.dry_run:
            yield (
                f"{number_of(len(self.remains), 'file holds', 'files hold')} bytes of the "
                f"{number_of(self.keys, 'key')}, and nothing was changed"
            )
        elif self.erased:
            yield f"no file holds bytes of the {number_of(self.keys, 'key')}: erasure {self.erasure_id} is complete"
        else:
            yield (
                f"remains: {number_of(len(self.remains), 'file holds', 'files hold')} bytes of the "
                f"{number_of(self.keys, 'key')}, or may"
            )
        yield from (f"not of this table: {each.path} ({each.kind}) needs {each.needs}" for each in self.external)
        yield (
            f"record: {self.report}, which names "
            f"{number_of(len(self.not_looked_at), 'place that was', 'places that were')} not looked at"
        )


@known_arguments()
@heard_as("erase")
def erase(
    spark: SparkSession,
    table: str | os.PathLike[str],
    keys: str | Iterable[str],
    *,
    remember: bool = True,
    dry_run: bool = False,
    assume_single_writer: bool = False,
) -> EraseResult:
    """Delete the rows of some keys for good, in every version and every file, and prove it by reading the table.

    The steps are: ``remember`` (the list of erased keys), ``delete`` (Hudi deletes the rows), ``repack`` (blobs of
    other rows leave containers that hold bytes of the keys), ``compact_logs`` (Hudi's compaction), ``clean`` (Hudi's
    clean leaves the newest version of each file group alone), ``sweep`` (containers and leftovers), ``trash``,
    ``index`` (indexes are trained and made again), ``metadata_table`` (Hudi's, if it holds keys or statistics; the next
    write makes it again) and ``cache`` (on disk, of this host). A step that is not needed does nothing. In the end all
    is read as by `check_erasure`.

    No step keeps a note: what is left to do is found by reading. After a run that was killed, run it again.

    Older snapshots can no longer be read, so queries and streams that read one fail.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        keys: Record keys, as Hudi keeps them in ``_hoodie_record_key``.
        remember: Whether the keys go to the table's list of erased keys, as salted hashes. Writes with the setting
            ``hoodie.vector.erased.keys`` then leave out, or refuse, rows that would bring one back.
        dry_run: Whether to only say what there is to do; the record of the erasure is still published.
        assume_single_writer: Whether the caller guarantees that no other process writes to the table during the run.
            Commits that have not completed are then rolled back by Hudi.

    Returns:
        What was done step by step, whether the keys are erased, and otherwise what remains and what it needs.

    Raises:
        RefusedError: A savepoint holds rows of the keys, a write, clustering or other erasure is under way, or rows of
            concurrent writers could be lost (a dry run reports this in its result instead).
        InvalidArgumentError: There are no keys.
        InvalidTypeError: A key is not a string.
        UnsupportedTableError: The table has no ``_hoodie_record_key``, or its rows cannot be deleted or written back.
        TableNotFoundError: There is no such table.
        WriteError: Hudi failed.

    Example:
        >>> hv.table_services.erase(spark, "photos", ["no such key"]).erased
        True
    """
    from hudi_vector.table_services.clustering.run import Clustering
    from hudi_vector.table_services.compaction.api import tell_by_default

    name, wanted = path_text(table), wanted_keys(keys)
    place = ServiceTable.of(spark, table)
    require_keys(place.table, place.options)
    work = Clustering.of(spark, name, {}, tell_by_default(ERASE), alone=assume_single_writer, needs_blobs=False)
    if dry_run:
        job = Erasing(spark, place, work, wanted, look_now(spark, place, wanted), remember)
        steps = [_planned(step, job) for step in STEPS]
        return _result(job, steps, dry_run=True, refusal=why_held(work, job.found))
    with ServiceLease(place.table, ERASE, options=place.options) as lease:
        end_killed(work)
        job = Erasing(spark, place, work, wanted, look_now(spark, place, wanted), remember)
        refusal = why_held(work, job.found)
        if refusal is not None:
            raise RefusedError(refusal)
        _require_deletable(job)
        end_dead_uploads(work)
        return _run(job, lease)


def _run(job: Erasing, lease: ServiceLease) -> EraseResult:
    done, is_changed = [], False
    for step in STEPS:
        lease.check()
        begun = time.monotonic()
        if is_changed and step.looks:
            job.look()
            is_changed = False
        if step.due(job):
            job.work.tell(step.name)
        outcome = replace(_outcome(step, job), seconds=round(time.monotonic() - begun, 1))
        is_changed |= outcome.state == _DONE
        done.append(outcome)
    if is_changed:
        job.look()
    return _result(job, done)


def _outcome(step: Step, job: Erasing) -> EraseStep:
    """Run a step if it is due; one that is refused leaves what it was for to the end, which names it."""
    if not step.due(job):
        return EraseStep(step.name, _NOTHING)
    try:
        text = step.run(job)
    except RefusedError as problem:
        return EraseStep(step.name, _REFUSED, str(problem))
    return EraseStep(step.name, _DONE if text else _NOTHING, text)


def _planned(step: Step, job: Erasing) -> EraseStep:
    text = step.due(job)
    return EraseStep(step.name, _DUE if text else _NOTHING, text)


def _result(job: Erasing, steps: list[EraseStep], *, dry_run: bool = False, refusal: str | None = None) -> EraseResult:
    found = job.found
    return EraseResult(
        table=found.table,
        erasure_id=found.erasure_id,
        keys=found.keys,
        steps=steps,
        remains=found.holders,
        external=found.external,
        doubts=found.doubts,
        not_looked_at=found.not_looked_at,
        report=found.report,
        dry_run=dry_run,
        refusal=refusal,
    )


def _require_deletable(job: Erasing) -> None:
    """Raise UnsupportedTableError if Hudi cannot be asked to delete the rows by the columns that the table has."""
    table = job.work.table
    config = table.config
    for wrong, what in (
        (not config.record_key_fields, "no record key"),
        (not config.plain_key_generator, "a key generator that makes other partitions of the rows that are read"),
        (not table.has_stored_partitions, "timestamps as partitions, which Hudi reads otherwise"),
        (config.drops_partition_columns, "partition columns that its files do not hold"),
    ):
        if wrong and job.found.live:
            raise UnsupportedTableError(
                f"'{job.work.name}' has {what}, so that its rows cannot be deleted by key here; delete them with SQL, "
                "and erase again"
            )
