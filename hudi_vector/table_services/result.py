"""What the cleaner's services hand back, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hudi_vector.storage import join
from hudi_vector.table_services.mark_report import MARKS, KeptFile, MarkReport, UnneededFile

__all__ = ["CleanFile", "CleanResult", "RestoreResult", "report_lines"]

_ACTIONS = {True: "trash", False: "delete", None: "unneeded"}


@dataclass(frozen=True)
class CleanFile:
    """A file: its path from the table's folder, its bytes, and why it is where it is listed."""

    path: str
    bytes: int
    reason: str

    @classmethod
    def of(cls, file: UnneededFile | KeptFile, reason: str | None = None) -> CleanFile:
        """A file of a mark's report, with its reason there unless another is given."""
        return cls(file.path, file.bytes, reason or file.reason)


@dataclass(frozen=True)
class CleanResult:
    """The outcome of a mark, a sweep or both.

    Every candidate is in exactly one of `deleted`, `kept` and `failed`, or waits to be swept after a dry run or a mark.

    Attributes:
        table: The table's base path.
        candidates: The files that nothing needs, by the mark.
        deleted: Those that are gone from their place now: by this run, or already before it (with 0 bytes).
        kept: The files that stay: what the mark kept, candidates that the sweep did not take, and files in the trash
            whose time is over and that are needed after all, with the reason.
        failed: Candidates that storage would not move or delete; they are in their place.
        expired: Files whose time in the trash was over and that are deleted for good.
        leftovers: What killed processes had staged or half published, and is deleted for good; of staged rows the
            folder, with the bytes of its files.
        dangling: Files of the table that data files refer to and that are not in their place, by the mark: in the
            trash, from where `restore_blobs` brings them back, or gone.
        bytes: The bytes that went to the trash, or for good; in a dry run those that would go.
        report: Where the mark's report lies.
        mark_id: The mark.
        sweep_id: The sweep, by which its files can be restored; None where nothing was moved or deleted.
        trash: Whether files go to the trash; None after a mark, which moves nothing.
        dry_run: Whether nothing was to be changed.
        doubts: Why nothing may go at all.
        notes: What an operator should know and what stops nothing.
        refusal: Why the real run would be refused, in a dry run.
        retained_files: How many data files the mark found.
        opened_files: How many files were read by all marks of the run; the others were known from an earlier one.
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
        """What a mark found, before anything is swept."""
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
        """Whether nothing was refused, doubtful or failed."""
        return not (self.doubts or self.refusal or self.failed)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each file, the same for a dry run and the real one.

        Returns:
            Rows of `path`, `bytes`, `action` (``trash``, ``delete``, ``keep``, ``failed``, ``unneeded`` after a mark,
            ``expire`` for files that leave the trash for good, ``leftover``, or ``dangling``) and `reason`, by path.
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


@dataclass(frozen=True)
class RestoreResult:
    """What came back from the trash.

    Attributes:
        table: The table's base path.
        restored: The files that are in their place again.
        kept: Those that stay in the trash, with the reason.
        bytes: The bytes of the restored ones.
    """

    table: str
    restored: list[CleanFile]
    kept: list[CleanFile]
    bytes: int

    @property
    def is_well(self) -> bool:
        """Whether all that was asked for came back."""
        return not self.kept

    def rows(self) -> list[dict[str, Any]]:
        """Rows of `path`, `bytes`, `action` (``restore`` or ``keep``) and `reason`, by path."""
        shown = [*(("restore", file) for file in self.restored), *(("keep", file) for file in self.kept)]
        return [_row(action, file) for action, file in sorted(shown, key=lambda pair: (pair[1].path, pair[0]))]


def report_lines(result: CleanResult | RestoreResult) -> Iterator[str]:
    """A result in a few sentences for people.

    Args:
        result: Of any of the cleaner's services.

    Yields:
        Lines without their ends.

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
        yield f"{len(result.leftovers)} leftovers of killed processes ({size} bytes) {gone}"
    if result.retained_files:
        yield f"{result.opened_files} files were read to know the references of {result.retained_files} data files"
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
    return f"{len(files)} file{'' if len(files) == 1 else 's'} ({size} bytes)"


def _row(action: str, file: CleanFile) -> dict[str, Any]:
    return {"path": file.path, "bytes": file.bytes, "action": action, "reason": file.reason}
