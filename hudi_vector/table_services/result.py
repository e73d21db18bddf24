"""Results of the cleaner's services, as rows and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hudi_vector.errors import number_of
from hudi_vector.shown import Shown
from hudi_vector.storage import join
from hudi_vector.table_services.mark_report import MARKS, KeptFile, MarkReport, UnneededFile

__all__ = ["CleanFile", "CleanResult", "RestoreResult", "report_lines"]

_ACTIONS = {True: "trash", False: "delete", None: "unneeded"}


@dataclass(frozen=True)
class CleanFile:
    """A file that a result lists.

    Attributes:
        path: Path relative to the table's folder; for a file outside of it its URI.
        bytes: Its size.
        reason: Why the file is in the list that it is in.
    """

    path: str
    bytes: int
    reason: str

    @classmethod
    def of(cls, file: UnneededFile | KeptFile, reason: str | None = None) -> CleanFile:
        """Make an entry for a file of a mark's report, with the report's reason unless another one is given."""
        return cls(file.path, file.bytes, reason or file.reason)


@dataclass(frozen=True, repr=False)
class CleanResult(Shown):
    """The outcome of a mark, a sweep or both.

    Every candidate is in exactly one of `deleted`, `kept` and `failed`; after a dry run or a mark it may be in none,
    because it is still to be swept.

    Attributes:
        table: The table's base path.
        candidates: The files that nothing needs, according to the mark.
        deleted: The candidates that are gone from their place: moved or deleted by this run, or gone before it (0
            bytes).
        kept: The files that stay, with the reason: files that the mark kept, candidates that the sweep did not take,
            and files in the trash whose time is over but that are needed after all.
        failed: Candidates that storage could not move or delete; they are still in their place.
        expired: Files whose time in the trash was over and that were deleted for good.
        leftovers: Staged rows and half-published files of killed processes, which are deleted for good; staged rows are
            listed as their folder, with the bytes of its files.
        dangling: Files of the table that data files refer to but that are not in their place, according to the mark;
            they are in the trash, from where `restore_blobs` brings them back, or gone.
        bytes: The bytes that were moved to the trash or deleted; in a dry run the bytes that would be.
        report: The place of the mark's report.
        mark_id: The id of the mark.
        sweep_id: The id of the sweep, with which its files can be restored; None if nothing was moved or deleted.
        trash: Whether files go to the trash; None after a mark, which moves nothing.
        dry_run: Whether this was a dry run, which moves and deletes nothing.
        doubts: Why nothing may be deleted at all.
        notes: Information for an operator that blocks nothing.
        refusal: In a dry run, why the real run would be refused, or None.
        retained_files: The number of retained data files that the mark found.
        opened_files: How many files all marks of the run read; the others were known from an earlier run.

    Example:
        >>> result = hv.table_services.clean_blobs(spark, "photos", dry_run=True)
        >>> result.is_well
        True
        >>> files = result.rows()
    """

    table: str
    candidates: list[CleanFile]
    deleted: list[CleanFile] = field(default_factory=list)
    kept: list[CleanFile] = field(default_factory=list)
    failed: list[CleanFile] = field(default_factory=list)
    expired: list[CleanFile] = field(default_factory=list)
    leftovers: list[CleanFile] = field(default_factory=list)
    dangling: list[CleanFile] = field(default_factory=list)
    bytes: int = 0
    report: str = ""
    mark_id: str = ""
    sweep_id: str | None = None
    trash: bool | None = True
    dry_run: bool = False
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str | None = None
    retained_files: int = 0
    opened_files: int = 0

    @classmethod
    def of(cls, report: MarkReport, trash: bool | None, dry_run: bool = False) -> CleanResult:
        """Make the result of a mark, before anything is swept."""
        return cls(
            table=report.table,
            candidates=[CleanFile.of(file) for file in report.distinct],
            kept=[CleanFile.of(file) for file in report.kept],
            dangling=[CleanFile.of(file) for file in report.dangling],
            bytes=sum(file.bytes for file in report.distinct),
            report=join(report.table, MARKS, report.mark_id),
            mark_id=report.mark_id,
            trash=trash,
            dry_run=dry_run,
            doubts=report.doubts,
            notes=report.notes,
            retained_files=report.retained_files,
            opened_files=report.opened_files,
        )

    @property
    def is_well(self) -> bool:
        """Return True if nothing was refused, doubtful or failed."""
        return not (self.doubts or self.refusal or self.failed)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per file; a dry run and the real run give the same rows.

        Returns:
            Rows of `path`, `bytes`, `action` and `reason`, ordered by path. The action is ``trash``, ``delete``,
            ``keep``, ``failed``, ``unneeded`` (after a mark), ``expire`` (files that leave the trash for good),
            ``leftover`` or ``dangling``.
        """
        stays = {file.path: ("keep", file) for file in self.kept} | {
            file.path: ("failed", file) for file in self.failed
        }
        goes = _ACTIONS[self.trash]
        shown = [(goes, file) for file in self.candidates if file.path not in stays]
        shown += [*stays.values(), *(("expire", file) for file in self.expired)]
        shown += [("leftover", file) for file in self.leftovers]
        shown += [("dangling", file) for file in self.dangling]
        return [_row(action, file) for action, file in sorted(shown, key=lambda pair: (pair[1].path, pair[0]))]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends."""
        return report_lines(self)


@dataclass(frozen=True, repr=False)
class RestoreResult(Shown):
    """The outcome of a restore from the trash.

    Attributes:
        table: The table's base path.
        restored: The files that are in their place again.
        kept: The files that stay in the trash, with the reason.
        bytes: The bytes of the restored files.

    Example:
        >>> result = hv.table_services.restore_blobs(spark, "photos")
        >>> result.is_well, result.rows()
        (True, [])
    """

    table: str
    restored: list[CleanFile]
    kept: list[CleanFile]
    bytes: int

    @property
    def is_well(self) -> bool:
        """Return True if every requested file was restored."""
        return not self.kept

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `path`, `bytes`, `action` (``restore`` or ``keep``) and `reason`, ordered by path."""
        shown = [*(("restore", file) for file in self.restored), *(("keep", file) for file in self.kept)]
        return [_row(action, file) for action, file in sorted(shown, key=lambda pair: (pair[1].path, pair[0]))]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends."""
        return report_lines(self)


def report_lines(result: CleanResult | RestoreResult) -> Iterator[str]:
    """Yield a result of one of the cleaner's services as a few sentences for people, without line ends.

    Example:
        >>> list(report_lines(RestoreResult("/t", [CleanFile("x", 3, "")], [], 3)))
        ['1 file (3 bytes) restored, 0 stay in the trash']
    """
    if isinstance(result, RestoreResult):
        yield f"{_files(result.restored, result.bytes)} restored, {len(result.kept)} stay in the trash"
        return
    yield from (f"nothing may go: {doubt}" for doubt in result.doubts)
    yield from (f"note: {note}" for note in result.notes)
    if result.refusal:
        yield f"the run would be refused: {result.refusal}"
    kept = f"{len(result.kept)} kept" + (f", {len(result.failed)} failed" if result.failed else "")
    yield f"{_what_went(result)}, {kept}"
    if result.expired:
        gone = "would leave" if result.dry_run else "left"
        yield f"{_files(result.expired, sum(file.bytes for file in result.expired))} {gone} the trash for good"
    if result.leftovers:
        gone = "would be deleted" if result.dry_run else "deleted"
        size = sum(file.bytes for file in result.leftovers)
        yield f"{number_of(len(result.leftovers), 'leftover')} of killed processes ({number_of(size, 'byte')}) {gone}"
    if result.retained_files:
        yield (
            f"{number_of(result.opened_files, 'file was', 'files were')} read to know the references of "
            f"{number_of(result.retained_files, 'data file')}"
        )
    if result.report:
        yield f"report: {result.report}"


def _what_went(result: CleanResult) -> str:
    if result.trash is None:
        return f"{_files(result.candidates, result.bytes)} unneeded, found by mark {result.mark_id}"
    if result.dry_run:
        stay = {file.path for file in result.kept}
        going = [file for file in result.candidates if file.path not in stay]
        return f"{_files(going, result.bytes)} would go {'to the trash' if result.trash else 'for good'}"
    done = "moved to the trash" if result.trash else "deleted"
    by = f" by sweep {result.sweep_id}" if result.sweep_id else ""
    return f"{_files(result.deleted, result.bytes)} {done}{by}"


def _files(files: list[CleanFile], size: int) -> str:
    return f"{number_of(len(files), 'file')} ({number_of(size, 'byte')})"


def _row(action: str, file: CleanFile) -> dict[str, Any]:
    return {"path": file.path, "bytes": file.bytes, "action": action, "reason": file.reason}
