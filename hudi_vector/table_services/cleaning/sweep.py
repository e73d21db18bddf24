"""The sweep: files that two marks find unneeded go to the trash or are deleted for good.

`sweep` runs a plan (`hudi_vector.table_services.cleaning.sweep_plan`): it publishes which files are about to go
(`hudi_vector.table_services.trash.sweep_record`), moves or deletes them, and publishes the outcome. Files on a local
disk go one after the other, objects several at a time. Files do not depend on each other, so the order in which they go
does not matter if the process is killed. A kill between any two steps loses nothing: a local file is in its place or in
the trash, an object in one of them or in both. The next sweep ends the records of killed sweeps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from hudi_vector.blobs.leases import CLEAN
from hudi_vector.blobs.names import BLOB_AREA
from hudi_vector.errors import HudiVectorError, RefusedError
from hudi_vector.progress import followed
from hudi_vector.storage import FileInfo, Storage, StorageOptions, join
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.cleaning.sweep_plan import CHANGED, GONE, SweepPlan, plan_sweep
from hudi_vector.table_services.guards import SweepLimits, is_plain, require_table, root_above
from hudi_vector.table_services.mark_report import MarkReport, UnneededFile
from hudi_vector.table_services.result import CleanFile, CleanResult
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.sites import Site
from hudi_vector.table_services.trash.sweep_record import SweepRecord, begin_sweep, end_sweep, unfinished_sweeps
from hudi_vector.table_services.trash.trash import (
    OUTSIDE_TRASH,
    TRASH,
    TrashedFile,
    list_trash,
    same_content,
    trash_path,
)

__all__ = ["finish_sweep", "sweep"]

_LOG = logging.getLogger(__name__)
_LOCAL = StorageOptions()
_AT_ONCE = 64


def sweep(
    report: MarkReport,
    recheck: Callable[[], MarkReport],
    *,
    trash: bool = True,
    dry_run: bool = False,
    limits: SweepLimits = SweepLimits(),  # noqa: B008 - frozen
    options: StorageOptions = _LOCAL,
    now_ms: Callable[[], int] = clock_ms,
    threads: int | None = None,
) -> CleanResult:
    """Move to the trash, or delete, the files that a mark found unneeded and a second mark still does.

    Running it again takes only what is left.

    Args:
        report: The first mark's report.
        recheck: Makes the second mark; called only if the first one has candidates and no doubts.
        trash: If True, files go to the trash and can be restored; if False, they are deleted for good.
        dry_run: If True, only plan; no lease is taken.
        limits: How much may go.
        options: The storage settings.
        now_ms: The clock, for tests.
        threads: How many files are taken at the same time; by default 1 on a local disk and 16 elsewhere.

    Returns:
        What went, what stayed and why.

    Raises:
        RefusedError: Too much would go (a dry run reports this in its result instead), another run is under way, or the
            trash lies behind a symbolic link.

    Example:
        >>> import tempfile
        >>> report = MarkReport("m", tempfile.mkdtemp(), 0, "")
        >>> sweep(report, lambda: report).deleted
        []
    """
    table = require_table(report, report.table)
    report = replace(report, table=table)
    site = Site(table, options, threads)
    if trash and not all(is_plain(site.storage, table, folder) for folder in (TRASH, OUTSIDE_TRASH)):
        raise RefusedError(
            f"the trash of '{table}' is behind a symbolic link, so that what is moved there might not be found again; "
            f"make {TRASH} a folder"
        )
    if dry_run:
        return _planned(report, plan_sweep(report, _second(report, recheck), site, limits, trash=trash), trash)
    with ServiceLease(table, CLEAN, options=options, now_ms=now_ms) as lease:
        second = _second(report, recheck)
        plan = plan_sweep(report, second, site, limits, trash=trash)
        if plan.refusal:
            raise RefusedError(f"the sweep of mark '{report.mark_id}' of '{table}' is refused: {plan.refusal}")
        return _Run(site, replace(report, roots=second.roots), plan, trash, lease, now_ms).run()


class _Run:
    """One run of a sweep plan; the caller holds the lease."""

    def __init__(
        self,
        site: Site,
        report: MarkReport,
        plan: SweepPlan,
        trash: bool,
        lease: ServiceLease,
        now_ms: Callable[[], int],
    ) -> None:
        self._site = site
        self._storage = site.storage
        self._report = report
        self._plan = plan
        self._trash = trash
        self._lease = lease
        self._now = now_ms
        self._deleted: list[CleanFile] = []
        self._kept: list[CleanFile] = []
        self._failed: list[CleanFile] = []

    def run(self) -> CleanResult:
        """End killed sweeps, publish the record, take the files, end the record and return the result."""
        if not self._plan.doubts:
            self._finish_others()
        taken = {file.path for file in self._deleted}
        record = self._begin([file for file in self._plan.going if file.path not in taken])
        if record is not None:
            for _ in followed(self._taken(record), len(record.files), "files swept"):
                pass
            end_sweep(self._storage, record, [*self._kept, *self._failed], now_ms=self._now())
        self._site.remove_empty_folders(BLOB_AREA, TRASH, OUTSIDE_TRASH)
        planned = _planned(self._report, self._plan, self._trash)
        return replace(
            planned,
            deleted=[*self._plan.gone, *self._deleted],
            kept=[*planned.kept, *self._kept],
            failed=self._failed,
            bytes=sum(file.bytes for file in self._deleted),
            sweep_id=record.sweep_id if record else None,
            dry_run=False,
        )

    def _begin(self, going: list[UnneededFile]) -> SweepRecord | None:
        if not going:
            return None
        mark_id, table = self._report.mark_id, self._report.table
        return begin_sweep(
            self._storage, table, mark_id, going, trash=self._trash, now_ms=self._now(), roots=self._report.roots
        )

    def _taken(self, record: SweepRecord) -> Iterator[UnneededFile]:
        for first in range(0, len(record.files), _AT_ONCE):
            files = record.files[first : first + _AT_ONCE]
            self._site.each(partial(self._take, record=record), files)
            yield from files

    def _finish_others(self) -> None:
        for record in unfinished_sweeps(self._storage, self._report.table):
            self._lease.check()
            try:
                self._deleted += finish_sweep(self._site, record, self._plan.going, now_ms=self._now())
            except (OSError, HudiVectorError) as problem:
                _LOG.warning("sweep %s of %s stays unfinished: %s", record.sweep_id, record.table, problem)

    def _take(self, file: UnneededFile, record: SweepRecord) -> None:
        self._lease.check()
        storage, place = self._site.storage_of(file.path), self._site.uri(file.path)
        trashed = join(record.table, trash_path(record.sweep_id, file.path))
        # `move` and `delete` refuse symbolic links, also those that were put into the path since the plan was made.
        root = root_above(file.path, record.roots)
        try:
            found = storage.info(place)
            if found is None:
                self._deleted.append(CleanFile(file.path, 0, GONE))
            elif not _is(found, file):
                self._kept.append(CleanFile.of(file, CHANGED))
            else:
                if self._trash:
                    self._move(storage, place, trashed, root)
                else:
                    storage.delete(place, root or "")
                self._deleted.append(CleanFile.of(file))
        except FileNotFoundError:
            self._deleted.append(CleanFile(file.path, 0, GONE))
        except OSError as problem:
            self._give_up(file, trashed, problem)

    @staticmethod
    def _move(storage: Storage, place: str, trashed: str, root: str | None) -> None:
        if root is None:
            storage.move(place, trashed)
        else:
            storage.move(place, trashed, root=root)

    def _give_up(self, file: UnneededFile, trashed: str, problem: OSError) -> None:
        """Record a file that storage could not move or delete.

        A file that has left its place counts as deleted. Otherwise it counts as failed, and its copy in the trash is
        removed.
        """
        try:
            if self._site.info(file.path) is None:
                self._deleted.append(CleanFile.of(file))
                return
            if self._trash:
                self._storage.delete(trashed)
        except OSError as further:
            _LOG.warning("%s: %s", trashed, further)
        self._failed.append(CleanFile.of(file, f"it could not be taken away: {problem}"))


def finish_sweep(site: Site, record: SweepRecord, going: Iterable[UnneededFile], *, now_ms: int) -> list[CleanFile]:
    """End a killed sweep and return the files that left their place by this.

    Files that it did not take stay. If it left an object in both places, the move is finished if the object is in
    `going`, the files that two marks find unneeded now; otherwise the copy stays in the trash until it expires. Both
    are safe even if the old run is only slow and later deletes the object in its place.
    """
    storage = site.storage
    goes = {file.path: file for file in going}

    def ended(copy: TrashedFile) -> CleanFile | None:
        """Finish the move of a file whose object is in both places, and return it; None for any other file."""
        place, trashed = site.uri(copy.path), join(record.table, copy.trash_path)
        file, found = goes.get(copy.path), storage.info(place)
        if file is None or found is None or not _is(found, file) or not same_content(storage, place, trashed):
            return None
        storage.delete(place, root_above(copy.path, record.roots) or "")
        return CleanFile.of(file)

    copies = list_trash(storage, record.table, record.sweep_id)
    moved = [file for file in site.each(ended, copies) if file is not None]
    infos = site.each(lambda file: site.info(file.path), record.files)
    left = [file for file, info in zip(record.files, infos, strict=True) if info is not None]
    stayed = [CleanFile.of(file, "the sweep was killed before it") for file in left]
    end_sweep(storage, record, stayed, now_ms=now_ms)
    return moved


def _is(found: FileInfo, file: UnneededFile) -> bool:
    return (found.size, found.mtime_ns // 1_000_000) == (file.bytes, file.mtime_ms)


def _planned(report: MarkReport, plan: SweepPlan, trash: bool) -> CleanResult:
    found = CleanResult.of(report, trash, dry_run=True)
    going = sum(file.bytes for file in plan.going)
    return replace(found, kept=[*found.kept, *plan.kept], bytes=going, doubts=plan.doubts, refusal=plan.refusal)


def _second(report: MarkReport, recheck: Callable[[], MarkReport]) -> MarkReport:
    """Return the second mark; the first report itself if it has doubts or no candidates."""
    if report.doubts or not report.candidates:
        return report
    second = recheck()
    return replace(second, table=require_table(second, report.table))
