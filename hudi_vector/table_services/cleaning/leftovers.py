"""What killed processes left below a table: rows that were staged for a commit, and files that were half published.

Rows, and what compactions note of them, are staged in ``.hoodie/blob_service/v1/staging/{write or plan}/``. Whoever
makes a folder there removes it, and whoever ends a dead compaction or clustering does so for it; the folders of killed
writes, and of prepared ones that nobody finished, stay. A folder is a leftover once its write can no longer commit, no
service is at it, and all of it is older than the grace: the rule for containers
(`hudi_vector.table_services.marking.verdict`).

`hudi_vector.storage.Storage.publish` writes local files under hidden names first. One of these is a leftover when it is
older than the grace, since a publishing takes a moment.

Nothing refers to either, so that they are deleted for good. What Lance leaves in the blob area is judged by the mark.
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
from hudi_vector.table_services.plans.compaction_files import begun_runs
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.retention.pending import PendingInstant, is_stale, pending_ingests
from hudi_vector.table_services.sites import Site

__all__ = ["Leftover", "find_leftovers", "list_leftovers", "remove_leftovers"]

_LOG = logging.getLogger(__name__)

_PUBLISHED = (".hoodie/blob_service", ".hoodie/blob_refs", ".hoodie/vector_index")
"""Where this package publishes files, from the table's folder."""


@dataclass(frozen=True)
class Leftover:
    """A folder of staged rows with its files, or one half published file.

    Attributes:
        path: Of the folder or the file, from the table's folder.
        files: The files.
        write_id: The write or the plan that the rows were staged for; None of a file.
        kept: Why it may still be needed, None where it is not.
    """

    path: str
    files: tuple[FileInfo, ...]
    write_id: str | None = None
    kept: str | None = None

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(info.size for info in self.files)

    @property
    def reason(self) -> str:
        """Why it is where it is, in words."""
        if self.kept is not None:
            return self.kept
        if self.write_id is None:
            return "a process was killed while it published it"
        return f"write '{self.write_id}' staged it, and can no longer commit"


def list_leftovers(storage: Storage, table: str) -> list[Leftover]:
    """All that is staged or half published now, whether it is needed or not.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.

    Returns:
        It, by path; what lies behind a symbolic link is left out.
    """
    home = join(table, STAGING)
    # Object stores may show a folder that holds nothing, and there is none to remove.
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
    """Delete what nothing needs of what is staged or half published.

    Args:
        site: The table.
        uploads: As for `find_leftovers`.
        grace_ms: As for `find_leftovers`.
        now_ms: As for `find_leftovers`.
        ignore_stale_pending: As for `find_leftovers`.
        dry_run: Whether it is only listed.

    Returns:
        What is gone, and what storage would not delete, of a write's rows the folder alone.

    Raises:
        OSError: As for `find_leftovers`.
    """
    native = NativeTable(Source(site.table, site.table, site.options))
    found = find_leftovers(native, uploads, grace_ms=grace_ms, now_ms=now_ms, ignore_stale_pending=ignore_stale_pending)
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
    native: NativeTable,
    uploads: Callable[[], Iterable[Upload]],
    *,
    grace_ms: int,
    now_ms: int,
    ignore_stale_pending: bool = False,
) -> list[Leftover]:
    """What is staged or half published, and of each whether something may still need it.

    Args:
        native: The table.
        uploads: Reads its writes. They are read after the listing: a write that opens in between staged nothing that
            was listed.
        grace_ms: How old a leftover must be, milliseconds.
        now_ms: The time, milliseconds since 1970, UTC.
        ignore_stale_pending: Whether pending instants that have shown no sign of life for 7 days hold nothing back.

    Returns:
        All of it, by path.

    Raises:
        OSError: Storage cannot be read, or a plan or manifest is damaged, so that nobody can say what is needed.
    """
    found = list_leftovers(native.storage, native.source.uri)
    if not found:
        return []
    needs = _Needs.of(native, {each.write_id: each for each in uploads()}, now_ms - grace_ms, grace_ms)
    if ignore_stale_pending:
        writes = needs.uploads.values()
        needs = needs.without(lambda instant: is_stale(instant, writes, now_ms))
    return [Leftover(each.path, each.files, each.write_id, needs.keeps(each)) for each in found]


def _deleted(site: Site, file: FileInfo) -> bool:
    """Delete a file that is as it was listed; whether it is gone."""
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
    """What may need staged rows; times in milliseconds since 1970, UTC."""

    horizon_ms: int
    grace_ms: int
    uploads: dict[str, Upload]
    running: frozenset[str]
    service: str | None
    pending: Sequence[PendingInstant]

    @classmethod
    def of(cls, native: NativeTable, uploads: dict[str, Upload], horizon_ms: int, grace_ms: int) -> _Needs:
        table, options = native.source.uri, native.source.options
        runs = begun_runs(table, options)
        running = {name for run in runs for name in (run.plan.plan_id, run.pending and run.pending.write_id) if name}
        running |= {run.plan.plan_id for run in begun_clusterings(table, options)}
        lease = read_lease(native.storage, table, COMPACT)
        # A clustering stages before it notes anything.
        service = lease.holder if lease is not None and lease.until_ms > horizon_ms else None
        return cls(horizon_ms, grace_ms, uploads, frozenset(running), service, pending_ingests(native))

    def without(self, ignored: Callable[[PendingInstant], bool]) -> _Needs:
        pending = [instant for instant in self.pending if not ignored(instant)]
        return _Needs(self.horizon_ms, self.grace_ms, self.uploads, self.running, self.service, pending)

    def keeps(self, leftover: Leftover) -> str | None:
        """Why something may still need it."""
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
