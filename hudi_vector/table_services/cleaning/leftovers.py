"""Leftovers of killed processes below a table: rows staged for a commit, and half published files.

Rows, and the notes of compactions about them, are staged in ``.hoodie/blob_service/v1/staging/{write or plan}/``. The
process that makes such a folder removes it, and a run that ends a dead compaction or clustering removes that one's
folder. The folders of killed writes, of prepared writes that were never finished, and of runs that were killed after
they had noted their end, remain. A folder is a leftover once its write can no longer commit, no service works on it,
and all of it is older than the grace. Containers follow the same rule
(`hudi_vector.table_services.marking.verdict`).

`hudi_vector.storage.Storage.publish` writes local files under hidden names first. Publishing takes a moment, so such a
file is a leftover once it is older than the grace.

No reference leads to either kind, so they are deleted for good. Temporary files of Lance in the blob area are judged by
the mark instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hudi_vector.blobs.leases import COMPACT, read_lease
from hudi_vector.blobs.names import STAGING, is_write_id, written_ms
from hudi_vector.blobs.uploads.manifest import Upload
from hudi_vector.storage import FileInfo, Storage, is_half_published, join
from hudi_vector.storage.listed import with_names
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.guards import is_plain
from hudi_vector.table_services.plans.clustering_files import begun_clusterings
from hudi_vector.table_services.plans.compaction_files import unended_runs
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.retention.pending import PendingInstant, is_stale, pending_ingests
from hudi_vector.table_services.sites import Site

__all__ = ["Leftover", "find_leftovers", "list_leftovers", "remove_leftovers"]

_LOG = logging.getLogger(__name__)

_PUBLISHED = (".hoodie/blob_service", ".hoodie/blob_refs", ".hoodie/vector_index")
"""The folders in which this package publishes files, from the table's folder."""


@dataclass(frozen=True)
class Leftover:
    """A folder of staged rows with its files, or one half published file.

    Attributes:
        path: The path of the folder or the file, from the table's folder.
        files: The files.
        write_id: The write or the plan for which the rows were staged; None for a half published file.
        kept: Why it may still be needed, or None if it is not.
    """

    path: str
    files: tuple[FileInfo, ...]
    write_id: str | None = None
    kept: str | None = None

    @property
    def bytes(self) -> int:
        """Return the total size of all its files."""
        return sum(info.size for info in self.files)

    @property
    def reason(self) -> str:
        """Return the reason why it is kept, or else how it came to be left."""
        if self.kept is not None:
            return self.kept
        if self.write_id is None:
            return "a process was killed while it published it"
        return f"write '{self.write_id}' staged it, and can no longer commit"


def list_leftovers(storage: Storage, table: str) -> list[Leftover]:
    """Return everything that is staged or half published now, needed or not, ordered by path.

    `table` is a normalised base path. Left out are files whose names are not UTF-8, files and folders behind a symbolic
    link, and folders that contain a file behind one.
    """
    home = join(table, STAGING)
    # An empty folder needs removing on a local disk only; object stores may list one, but have none to remove.
    folders = storage.list_folders(home) if storage.scheme == "file" else []
    staged: dict[str, list[FileInfo]] = {name: [] for name in folders}
    for info in with_names(storage.list_files(home, recursive=True))[0]:
        staged.setdefault(info.uri.removeprefix(f"{home}/").partition("/")[0], []).append(info)
    found = [
        Leftover(join(STAGING, name), tuple(files), name)
        for name, files in staged.items()
        if is_write_id(name) and all(is_plain(storage, table, info.uri.removeprefix(f"{table}/")) for info in files)
    ]
    hidden = (
        info
        for folder in (_PUBLISHED if storage.scheme == "file" else ())
        for info in with_names(storage.list_files(join(table, folder), recursive=True))[0]
        if is_half_published(info.name) and not info.uri.startswith(f"{home}/")
    )
    found += [Leftover(info.uri.removeprefix(f"{table}/"), (info,)) for info in hidden]
    return sorted((each for each in found if is_plain(storage, table, each.path)), key=lambda each: each.path)


def remove_leftovers(
    site: Site,
    uploads: Callable[[], Iterable[Upload]],
    *,
    grace_ms: int,
    now_ms: int,
    ignore_stale_pending: bool = False,
    dry_run: bool = False,
) -> tuple[list[CleanFile], list[CleanFile]]:
    """Delete the leftovers that nothing needs.

    The other arguments are those of `find_leftovers`. Return two lists: what is gone (in a dry run, what would go), and
    what storage would not delete. Staged rows are one entry each, with the path of their folder. Raise OSError as
    `find_leftovers` does.
    """
    found = find_leftovers(site, uploads, grace_ms=grace_ms, now_ms=now_ms, ignore_stale_pending=ignore_stale_pending)
    dead = [each for each in found if each.kept is None]
    files = [info for each in dead for info in each.files]
    gone = [True] * len(files) if dry_run else site.each(lambda info: _deleted(site, info), files)
    left = {info for info, is_gone in zip(files, gone, strict=True) if not is_gone}
    for each in () if dry_run else dead:
        if each.write_id is not None:
            site.storage.remove_empty_folders(join(site.table, each.path))
    rows = [(CleanFile(each.path, each.bytes, each.reason), left.isdisjoint(each.files)) for each in dead]
    return [row for row, is_gone in rows if is_gone], [row for row, is_gone in rows if not is_gone]


def find_leftovers(
    site: Site,
    uploads: Callable[[], Iterable[Upload]],
    *,
    grace_ms: int,
    now_ms: int,
    ignore_stale_pending: bool = False,
) -> list[Leftover]:
    """Return everything that is staged or half published, ordered by path, with `kept` where it may be needed.

    `uploads` reads the table's writes. It is called after the listing: a write that opens in between has staged nothing
    that was listed. `grace_ms` is the minimum age of a leftover; `now_ms` is in milliseconds since 1970, UTC. With
    `ignore_stale_pending`, pending instants without a heartbeat or lease for 7 days keep nothing. Raise OSError if
    storage cannot be read or a plan or manifest is damaged, since it is then unknown what is needed.
    """
    found = list_leftovers(site.storage, site.table)
    if not found:
        return []
    native = NativeTable(Source(site.table, site.table, site.options))
    needs = _Needs.of(native, {each.write_id: each for each in uploads()}, now_ms - grace_ms, grace_ms)
    if ignore_stale_pending:
        writes = needs.uploads.values()
        needs = needs.without(lambda instant: is_stale(instant, writes, now_ms))
    return [Leftover(each.path, each.files, each.write_id, needs.keeps(each)) for each in found]


def _deleted(site: Site, file: FileInfo) -> bool:
    """Delete a file if it is still as it was listed; return True if it is gone."""
    storage = site.storage
    try:
        found = storage.info(file.uri)
        if found == file and is_plain(storage, site.table, file.uri.removeprefix(f"{site.table}/")):
            storage.delete(file.uri)
            return True
    except OSError as problem:
        _LOG.warning("%s stays until the next run: %s", file.uri, problem)
        return False
    return found is None


@dataclass(frozen=True)
class _Needs:
    """The uploads and runs that may still need staged rows; times in milliseconds since 1970, UTC.

    Attributes:
        horizon_ms: The present less the grace.
        grace_ms: The minimum age of a leftover.
        uploads: The table's writes by write id.
        running: The ids of the compactions and clusterings that have begun and not ended, and of the writes of these
            compactions.
        service: The holder of the COMPACT lease, unless the lease ran out before the horizon or there is none.
        pending: The ingests that have not completed.
    """

    horizon_ms: int
    grace_ms: int
    uploads: dict[str, Upload]
    running: frozenset[str]
    service: str | None
    pending: Sequence[PendingInstant]

    @classmethod
    def of(cls, native: NativeTable, uploads: dict[str, Upload], horizon_ms: int, grace_ms: int) -> _Needs:
        table, options = native.source.uri, native.source.options
        runs = unended_runs(table, options)
        running = {name for run in runs for name in (run.plan.plan_id, run.pending and run.pending.write_id) if name}
        running |= {run.plan.plan_id for run in begun_clusterings(table, options)}
        lease = read_lease(native.storage, table, COMPACT)
        # A clustering stages rows before it records anything, so at first only the lease shows that it runs.
        service = lease.holder if lease is not None and lease.until_ms > horizon_ms else None
        return cls(horizon_ms, grace_ms, uploads, frozenset(running), service, pending_ingests(native))

    def without(self, ignored: Callable[[PendingInstant], bool]) -> _Needs:
        pending = [instant for instant in self.pending if not ignored(instant)]
        return _Needs(self.horizon_ms, self.grace_ms, self.uploads, self.running, self.service, pending)

    def keeps(self, leftover: Leftover) -> str | None:
        """Return why something may still need a leftover, or None if nothing does."""
        name = leftover.write_id
        times = [info.mtime_ns // 1_000_000 for info in leftover.files]
        if name is None:
            is_old = 0 < max(times) <= self.horizon_ms
            return None if is_old else "it is younger than the grace, or its storage tells no time"
        upload, made = self.uploads.get(name), written_ms(name)
        if upload is not None and upload.may_commit(self.horizon_ms):
            return (
                f"write '{name}' is {upload.state} and may commit until its lease has run out, and the grace after it"
            )
        if name in self.running:
            return f"the compaction or clustering that staged '{name}' has not ended; run it again to end it"
        if upload is None and self.service is not None:
            return f"{self.service} compacts or clusters the table"
        if made is None or 0 in times or max([made, *times]) > self.horizon_ms:
            return f"a file of '{name}' is younger than the grace, or its storage tells no time"
        for instant in self.pending:
            if max([made, *times]) > instant.since_ms - self.grace_ms:
                return f"{instant.action} '{instant.requested}' has not completed and may read it"
        return None
