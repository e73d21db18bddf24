"""``hv.table_services.clean_blobs`` and its parts: mark, sweep, restore.

With a session, Spark resolves the table's location and storage settings, and reads the data files if there are many.
Everything else runs in this process, and without a session all of it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.leases import CLEAN
from hudi_vector.errors import HudiVectorError, RefusedError
from hudi_vector.events import heard_as
from hudi_vector.options import CLEAN_TRASH_WINDOW
from hudi_vector.storage.listed import shown
from hudi_vector.table_services.cleaning.hudi_clean import clean_with_hudi, require_sense
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.guards import require_table
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.files import read_mark
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.result import CleanFile, CleanResult, RestoreResult
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.trash.trash import Expired, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.options import Settings

__all__ = ["clean_blobs", "mark_blobs", "restore_blobs", "sweep_blobs"]


@known_arguments()
@heard_as("clean_blobs")
def clean_blobs(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str],
    *,
    grace: str | int | None = None,
    dry_run: bool = False,
    trash: bool = True,
    report: str | None = None,
    max_share: int | None = None,
    max_files: int | None = None,
    trash_window: str | int | None = None,
    other_tables: Sequence[str] = (),
    managed_roots: Sequence[str] | None = None,
    ignore_stale_pending: bool = False,
    verify_index: bool = False,
    run_hudi_clean: bool = False,
    retained_commits: int | None = None,
) -> CleanResult:
    """Move the blob files that nothing needs to the trash, expire old trash and remove leftovers.

    A first mark finds the unneeded files and is published. The sweep takes those that a second mark finds unneeded too.
    Then the files whose trash window is over, and leftovers of killed processes, are deleted for good.

    Args:
        spark: A registered session; or `Settings` of `hudi_vector.options`, if `table` is a path; or None for the
            default settings, if it is a path on this machine. Without a session this process reads all data files.
        table: The name or path of a Hudi table.
        grace: The minimum age of a file that may go, as text like ``"24h"`` or in milliseconds;
            ``hoodie.blob.clean.grace`` by default.
        dry_run: If True, only report what would happen. The mark is still published, for `sweep_blobs`.
        trash: If True, move files to the trash, from where `restore_blobs` brings them back; if False, delete them for
            good.
        report: A local file for the result's rows, one JSON object per line. It is written before the sweep with the
            planned rows and again at the end, so it exists even if the sweep fails.
        max_share: The largest share of the bytes in the blob area and the managed roots that may go, in percent; a
            sweep of more is refused. ``hoodie.blob.clean.max.share`` by default.
        max_files: The largest number of files that may go in one run; the others wait for the next run.
            ``hoodie.blob.clean.max.files`` by default.
        trash_window: How long files stay in the trash; ``hoodie.blob.clean.trash.window`` by default.
        other_tables: The paths of tables that may refer to this table's blobs, in addition to those in its registry.
        managed_roots: Folders outside the blob area, all of whose files belong to this table;
            ``hoodie.blob.clean.managed.roots`` by default.
        ignore_stale_pending: If True, pending instants without a heartbeat or lease for 7 days do not keep any file.
        verify_index: If True, read every data file even if its references are kept from an earlier run, compare the
            two, replace what was kept, and note the differences.
        run_hudi_clean: If True, run Hudi's own clean first, so that blobs it makes unneeded can go in the same run.
        retained_commits: How many commits Hudi's clean leaves readable; ``hoodie.clean.commits.retained`` by default.

    Returns:
        What went, what stayed and why. If there is any doubt, nothing goes and the result names the doubt.

    Raises:
        RefusedError: Too much would go (a dry run reports this in its result instead), another run is under way, the
            trash lies behind a symbolic link, or Hudi's clean failed.
        InvalidOptionError: A setting has an invalid value.
        InvalidArgumentError: The report cannot be written, Hudi's clean is requested in a dry run or without a session,
            or `retained_commits` is less than 1 or given without `run_hudi_clean`.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.clean_blobs(spark, "photos", dry_run=True).candidates
        []
    """
    require_sense(run_hudi_clean, retained_commits, dry_run)
    place = ServiceTable.of(
        spark, table, grace, other_tables, ignore_stale_pending, managed_roots, verify_index, look=run_hudi_clean
    )
    limits, window = place.limits(max_share, max_files), CLEAN_TRASH_WINDOW.in_session(place.session, trash_window)
    done = (clean_with_hudi(place.spark, place.path, retained_commits),) if run_hudi_clean else ()
    rest = _Rest(place, window, dry_run)
    found = place.first_mark(done, rest.begin)
    reported(CleanResult.of(found, trash, dry_run=True), report)
    marks = [found]

    def again() -> MarkReport:
        marks.append(place.mark())
        return marks[-1]

    result = sweep(found, again, trash=trash, dry_run=dry_run, limits=limits, options=place.options)
    # After the sweep, so that a refused sweep raises before anything is deleted for good.
    result = rest.without_leftovers(rest.with_expired(result, marks), marks)
    if not dry_run:
        place.forget_notes(marks[-1])
    return reported(replace(result, opened_files=place.references.opened), report)


class _Rest:
    """The work of a run besides the sweep: it empties the trash, and removes leftovers of killed processes."""

    def __init__(self, place: ServiceTable, window_ms: int, dry_run: bool) -> None:
        self._place, self._window_ms, self._dry_run = place, window_ms, dry_run
        self._expired: Callable[[], Expired] | None = None
        self._leftovers: Callable[[], tuple[list[CleanFile], list[CleanFile]]] | None = None

    def begin(self, found: MarkReport) -> None:
        """Begin to look, while the mark is published; only if no second mark follows, and nothing is deleted."""
        if self._dry_run and not found.candidates:
            self._expired = self._place.storage.begun(partial(self._empty_trash, [found]))
            self._leftovers = self._place.storage.begun(partial(self._place.remove_leftovers, [found], True))

    def with_expired(self, result: CleanResult, marks: Sequence[MarkReport]) -> CleanResult:
        """Return the result with the files that left the trash; unchanged if the real run would be refused."""
        if result.refusal:
            return result
        try:
            expired = (self._expired or partial(self._empty_trash, marks))()
        except (OSError, RefusedError) as problem:
            return replace(result, notes=(*result.notes, shown(f"the trash was not emptied: {problem}")))
        kept = [*result.kept, *expired.kept]
        stay = f"{len(expired.kept)} of the files in the trash stay although their time is over, since data files "
        stay += "may refer to them; restore_blobs brings them back"
        notes = (*result.notes, stay) if expired.kept else result.notes
        return replace(result, expired=expired.gone, kept=kept, notes=notes)

    def without_leftovers(self, result: CleanResult, marks: Sequence[MarkReport]) -> CleanResult:
        """Return the result with the leftovers that were removed; unchanged if the real run would be refused."""
        if result.refusal:
            return result
        try:
            gone, stay = (self._leftovers or partial(self._place.remove_leftovers, marks, self._dry_run))()
        except (OSError, HudiVectorError, ValueError, LookupError, TypeError) as problem:
            note = shown(f"leftovers of killed processes were not looked at: {problem}")
            return replace(result, notes=(*result.notes, note))
        return replace(result, leftovers=gone, failed=[*result.failed, *stay])

    def _empty_trash(self, marks: Sequence[MarkReport]) -> Expired:
        # The time of the mark, so that files swept by this run stay in the trash even with a window of 0.
        return self._place.empty_trash(self._window_ms, marks, marks[0].made_ms, self._dry_run)


@known_arguments()
@heard_as("mark_blobs")
def mark_blobs(
    spark: SparkSession | Settings | None,
    table: str,
    *,
    grace: str | int | None = None,
    report: str | None = None,
    other_tables: Sequence[str] = (),
    managed_roots: Sequence[str] | None = None,
    ignore_stale_pending: bool = False,
    verify_index: bool = False,
) -> CleanResult:
    """Find the blob files that nothing needs and publish the report, for review and for `sweep_blobs`.

    Args:
        spark: As for `clean_blobs`.
        table: The name or path of a Hudi table.
        grace: As for `clean_blobs`.
        report: A local file for the result's rows, one JSON object per line.
        other_tables: As for `clean_blobs`.
        managed_roots: As for `clean_blobs`.
        ignore_stale_pending: As for `clean_blobs`.
        verify_index: As for `clean_blobs`.

    Returns:
        The candidates and what keeps each other file; `mark_id` names the mark, and `bytes` is the candidates' total
        size.

    Raises:
        InvalidOptionError: A setting has an invalid value.
        InvalidArgumentError: The report cannot be written.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.mark_blobs(spark, "photos").mark_id
        '...'
    """
    place = ServiceTable.of(
        spark, table, grace, other_tables, ignore_stale_pending, managed_roots, verify_index, look=False
    )
    found = place.first_mark()
    return reported(CleanResult.of(found, None), report)


@known_arguments()
@heard_as("sweep_blobs")
def sweep_blobs(
    spark: SparkSession | Settings | None,
    table: str,
    mark: str,
    *,
    grace: str | int | None = None,
    dry_run: bool = False,
    trash: bool = True,
    report: str | None = None,
    max_share: int | None = None,
    max_files: int | None = None,
    other_tables: Sequence[str] = (),
    managed_roots: Sequence[str] | None = None,
    ignore_stale_pending: bool = False,
) -> CleanResult:
    """Sweep the candidates of a published mark that a second mark still finds unneeded.

    Running it again takes only what is left.

    Args:
        spark: As for `clean_blobs`.
        table: The name or path of the table that was marked.
        mark: The mark's id.
        grace: The grace of the second mark, as for `clean_blobs`.
        dry_run: As for `clean_blobs`.
        trash: As for `clean_blobs`.
        report: As for `clean_blobs`.
        max_share: As for `clean_blobs`.
        max_files: As for `clean_blobs`.
        other_tables: As for `clean_blobs`.
        managed_roots: As for `clean_blobs`.
        ignore_stale_pending: As for `clean_blobs`.

    Returns:
        What went, what stayed and why.

    Raises:
        RefusedError: Too much would go (a dry run reports this in its result instead), another run is under way, or the
            trash lies behind a symbolic link.
        InvalidArgumentError: The table has no such mark, or the report cannot be written.
        TableNotFoundError: There is no such table.

    Example:
        >>> marked = hv.table_services.mark_blobs(spark, "photos")
        >>> swept = hv.table_services.sweep_blobs(spark, "photos", marked.mark_id)
    """
    place = ServiceTable.of(spark, table, grace, other_tables, ignore_stale_pending, managed_roots)
    found = read_mark(place.table, mark, place.options)
    require_table(found, place.table)
    limits = place.limits(max_share, max_files)
    reported(CleanResult.of(found, trash, dry_run=True), report)
    result = sweep(found, place.mark, trash=trash, dry_run=dry_run, limits=limits, options=place.options)
    return reported(replace(result, opened_files=place.references.opened), report)


@known_arguments()
@heard_as("restore_blobs")
def restore_blobs(
    spark: SparkSession | Settings | None,
    table: str,
    *,
    sweep: str | None = None,
    paths: Collection[str] | None = None,
    managed_roots: Sequence[str] | None = None,
) -> RestoreResult:
    """Bring files back from the trash without ever overwriting another file.

    Running it again changes nothing.

    Args:
        spark: As for `clean_blobs`.
        table: The name or path of the table that was swept.
        sweep: The id of a sweep, to bring back only the files that it took.
        paths: Only these files, given by their paths from the table's folder; all files by default.
        managed_roots: The folders outside the blob area below which files may be put back;
            ``hoodie.blob.clean.managed.roots`` by default. Files from elsewhere stay in the trash.

    Returns:
        The files that are back in their place, and those that stay in the trash, with the reason.

    Raises:
        RefusedError: A run of the cleaner is under way.
        InvalidArgumentError: The trash holds nothing of that sweep, or does not hold one of the paths.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.restore_blobs(spark, "photos").restored
        []
    """
    place = ServiceTable.of(spark, table, managed_roots=managed_roots)
    roots = place.marking["managed_roots"]
    with ServiceLease(place.table, CLEAN, options=place.options):
        return restore(place.table, sweep_id=sweep, paths=paths, managed_roots=roots, options=place.options)
