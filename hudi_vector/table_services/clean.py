"""``hv.table_services.clean_blobs`` and its parts: mark, sweep, restore.

Spark only says where a table lies and how its storage is opened; marks and sweeps run in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.options import CLEAN_GRACE, CLEAN_MAX_FILES, CLEAN_MAX_SHARE, CLEAN_TRASH_WINDOW, Option
from hudi_vector.storage import StorageOptions, join
from hudi_vector.table_services.guards import SweepLimits, require_table
from hudi_vector.table_services.mark_report import MARKS, MarkReport
from hudi_vector.table_services.report_file import write_rows
from hudi_vector.table_services.result import CleanFile, CleanResult, RestoreResult
from hudi_vector.table_services.service_lease import ServiceLease, clock_ms
from hudi_vector.table_services.sweep import CLEAN, sweep
from hudi_vector.table_services.trash import expire, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["clean_blobs", "mark_blobs", "restore_blobs", "sweep_blobs"]


def clean_blobs(
    spark: SparkSession,
    table: str,
    *,
    grace: str | int | None = None,
    dry_run: bool = False,
    trash: bool = True,
    report: str | None = None,
    max_share: int | None = None,
    max_files: int | None = None,
    trash_window: str | int | None = None,
    other_tables: Sequence[str] = (),
    ignore_stale_pending: bool = False,
) -> CleanResult:
    """Mark, empty the trash of what is over its window, and sweep what the mark and a second one agree on.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        grace: How old a file must be, such as ``"24h"``, or milliseconds; ``hoodie.blob.clean.grace`` by default.
        dry_run: Whether to only say what would happen. The mark is published all the same, for `sweep_blobs`.
        trash: Whether files go to the trash, from where `restore_blobs` brings them back, or for good.
        report: A local file that gets the rows as JSON, one object a line, whatever comes of the run.
        max_share: Percent of the blob area's bytes that may go; ``hoodie.blob.clean.max.share`` by default.
        max_files: How many files may go in one run; ``hoodie.blob.clean.max.files`` by default.
        trash_window: How long files stay in the trash; ``hoodie.blob.clean.trash.window`` by default.
        other_tables: The paths of tables that may refer to this table's blobs.
        ignore_stale_pending: Whether pending instants that have shown no sign of life for 7 days hold nothing back.

    Returns:
        What went, what stayed and why. Where there is a doubt nothing goes, and the result names it.

    Raises:
        RefusedError: Too much would go, or another run is under way; a dry run says the former in its result.
        InvalidOptionError: A setting has a value it cannot have.
        InvalidArgumentError: The report cannot be written.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.clean_blobs(spark, "photos", dry_run=True).candidates  # doctest: +SKIP
    """
    place = _Place.of(spark, table, grace, other_tables, ignore_stale_pending)
    limits, window = place.limits(max_share, max_files), place.chosen(CLEAN_TRASH_WINDOW, trash_window)
    found = place.mark()
    place.publish(found)
    _reported(_of_mark(found, trash, dry_run=True), report)
    # Before the sweep, so that a dry run knows all that will leave the trash.
    expired = [] if found.doubts else place.empty_trash(window, dry_run)
    result = sweep(found, place.mark, trash=trash, dry_run=dry_run, limits=limits, options=place.options)
    return _reported(replace(result, expired=expired, report=_home_of(found)), report)


def mark_blobs(
    spark: SparkSession,
    table: str,
    *,
    grace: str | int | None = None,
    report: str | None = None,
    other_tables: Sequence[str] = (),
    ignore_stale_pending: bool = False,
) -> CleanResult:
    """Find what nothing needs and publish the report, for review and for `sweep_blobs`.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        grace: As for `clean_blobs`.
        report: As for `clean_blobs`.
        other_tables: As for `clean_blobs`.
        ignore_stale_pending: As for `clean_blobs`.

    Returns:
        The candidates and what keeps the other files; `mark_id` names the mark, `bytes` are those of the candidates.

    Raises:
        InvalidOptionError: A setting has a value it cannot have.
        InvalidArgumentError: The report cannot be written.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.mark_blobs(spark, "photos").mark_id  # doctest: +SKIP
    """
    place = _Place.of(spark, table, grace, other_tables, ignore_stale_pending)
    found = place.mark()
    place.publish(found)
    return _reported(_of_mark(found, None), report)


def sweep_blobs(
    spark: SparkSession,
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
    ignore_stale_pending: bool = False,
) -> CleanResult:
    """Sweep exactly what a published mark lists, as far as a second mark agrees; again takes only what is left.

    Args:
        spark: A registered session.
        table: The name or path of the table that was marked.
        mark: The mark's id.
        grace: For the second mark, as for `clean_blobs`.
        dry_run: As for `clean_blobs`.
        trash: As for `clean_blobs`.
        report: As for `clean_blobs`.
        max_share: As for `clean_blobs`.
        max_files: As for `clean_blobs`.
        other_tables: As for `clean_blobs`.
        ignore_stale_pending: As for `clean_blobs`.

    Returns:
        What went, what stayed and why.

    Raises:
        RefusedError: Too much would go, or another run is under way.
        InvalidArgumentError: The table has no such mark, or the report cannot be written.
        TableNotFoundError: There is no such table.

    Example:
        >>> marked = hv.table_services.mark_blobs(spark, "photos")  # doctest: +SKIP
        >>> hv.table_services.sweep_blobs(spark, "photos", marked.mark_id)  # doctest: +SKIP
    """
    from hudi_vector.table_services.mark_files import read_mark

    place = _Place.of(spark, table, grace, other_tables, ignore_stale_pending)
    found: MarkReport = read_mark(place.table, mark, place.options)
    require_table(found, place.table)
    limits = place.limits(max_share, max_files)
    _reported(_of_mark(found, trash, dry_run=True), report)
    result = sweep(found, place.mark, trash=trash, dry_run=dry_run, limits=limits, options=place.options)
    return _reported(replace(result, report=_home_of(found)), report)


def restore_blobs(
    spark: SparkSession, table: str, *, sweep: str | None = None, paths: Collection[str] | None = None
) -> RestoreResult:
    """Bring files back from the trash, never over another file; again changes nothing.

    Args:
        spark: A registered session.
        table: The name or path of the table that was swept.
        sweep: The id of a sweep, to bring back only what that took.
        paths: Only these files, by their paths from the table's folder; all by default.

    Returns:
        What is in its place again, and what stays in the trash and why.

    Raises:
        RefusedError: A run of the cleaner is under way.
        InvalidArgumentError: The trash holds nothing of that sweep, or not that path.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.restore_blobs(spark, "photos").restored  # doctest: +SKIP
    """
    place = _Place.of(spark, table)
    with ServiceLease(place.table, CLEAN, options=place.options):
        return restore(place.table, sweep_id=sweep, paths=paths, options=place.options)


@dataclass(frozen=True)
class _Place:
    """A table, how its storage is opened and how it is marked."""

    table: str
    options: StorageOptions = field(repr=False)
    setting: Callable[[str], str | None]
    grace_ms: int
    marking: dict[str, Any]

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        name: str,
        grace: str | int | None = None,
        other_tables: Sequence[str] = (),
        ignore_stale_pending: bool = False,
    ) -> _Place:
        from hudi_vector.spark.resolve import resolve_name, storage_options

        target = resolve_name(spark, name)
        if target.source is None:
            raise UnsupportedTableError(f"'{name}' is not the name of a table: {target.reason}; name the table itself")

        def setting(key: str) -> str | None:
            return spark.conf.get(key, None)

        # Other writers may have another zone than this JVM, so the mark is not told one.
        marking = {"other_tables": tuple(other_tables), "ignore_stale_pending": ignore_stale_pending}
        grace_ms = _chosen(CLEAN_GRACE, grace, setting)
        return cls(target.source.uri, storage_options(spark), setting, grace_ms, marking)

    def chosen(self, option: Option[int], given: str | int | None) -> int:
        """What a caller gave, or the session's setting."""
        return _chosen(option, given, self.setting)

    def limits(self, max_share: int | None, max_files: int | None) -> SweepLimits:
        """How much may go."""
        return SweepLimits(self.chosen(CLEAN_MAX_SHARE, max_share), self.chosen(CLEAN_MAX_FILES, max_files))

    def mark(self) -> MarkReport:
        """What nothing needs now."""
        from hudi_vector.table_services.mark import find_unneeded

        found: MarkReport = find_unneeded(self.table, grace_ms=self.grace_ms, options=self.options, **self.marking)
        return found

    def publish(self, report: MarkReport) -> None:
        """Make a mark durable, before anything is swept."""
        from hudi_vector.table_services.mark_files import publish_mark

        publish_mark(report, self.options)

    def empty_trash(self, window_ms: int, dry_run: bool) -> list[CleanFile]:
        """Delete for good what has been in the trash for longer than the window."""
        run = partial(expire, self.table, window_ms=window_ms, now_ms=clock_ms(), options=self.options)
        if dry_run:
            return run(dry_run=True)
        with ServiceLease(self.table, CLEAN, options=self.options):
            return run()


def _chosen(option: Option[int], given: str | int | None, setting: Callable[[str], str | None]) -> int:
    text = setting(option.key) if given is None else str(given)
    return option.default if text is None else option.parse(text)


def _of_mark(found: MarkReport, trash: bool | None, dry_run: bool = False) -> CleanResult:
    return CleanResult(
        table=found.table,
        candidates=[CleanFile.of(file) for file in found.candidates],
        kept=[CleanFile.of(file) for file in found.kept],
        bytes=sum(file.bytes for file in found.candidates),
        report=_home_of(found),
        mark_id=found.mark_id,
        trash=trash,
        dry_run=dry_run,
        doubts=found.doubts,
        notes=found.notes,
    )


def _home_of(found: MarkReport) -> str:
    return join(found.table, MARKS, found.mark_id)


def _reported(result: CleanResult, path: str | None) -> CleanResult:
    """Write the rows to the file that was asked for."""
    if path is None:
        return result
    write_rows(result.rows(), path)
    return replace(result, report=path)
