"""Marking: the search for blob files of a table that nothing needs.

A file is unneeded only if all of these hold:

- No data file on storage refers to any byte of it, neither in the table nor in the tables that share its blobs. All
  base files and every block of log files count, including superseded rows, replaced file groups, and the files of
  savepoints and pending instants.
- It lies in the table's blob area and has a name that this package gives, or it lies below a managed root.
- It is older than the grace, both by its modification time and by the time in its write id.
- It is older, by the grace, than the oldest ingest that has not completed.
- No write that may still commit made it or names it, and no unfinished compaction repacks it.

Any doubt keeps every file.

The order of reading makes this safe while others write: first the blob area is listed, then the manifests and the
pending instants are read, and last the data files, until a listing shows no file that was not read. References of a
commit that happens in between are therefore seen, and files uploaded in between are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.names import BLOB_AREA, new_write_id
from hudi_vector.blobs.uploads.external_files import file_infos
from hudi_vector.blobs.uploads.manifest import UNREADABLE, Upload
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, number_of
from hudi_vector.storage import FileInfo, StorageOptions, normalise, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.listed import list_below, shown
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.mark_report import KeptFile, MarkReport, UnneededFile
from hudi_vector.table_services.marking.dangling import dangling_files, dangling_notes
from hudi_vector.table_services.marking.kept_uploads import UploadReader, all_uploads
from hudi_vector.table_services.marking.sharers import claims_of_writes, registered_tables, sharing_tables
from hudi_vector.table_services.marking.verdict import Case, judge, reason_of_reference
from hudi_vector.table_services.plans.compaction_files import begun_runs
from hudi_vector.table_services.references.files import Reader, read_here
from hudi_vector.table_services.references.gather import Gathered, gather
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers
from hudi_vector.table_services.retention.pending import PendingInstant, is_stale, pending_ingests
from hudi_vector.table_services.retention.savepoints import saved_files
from hudi_vector.table_services.sites import Site
from hudi_vector.table_services.trash.trash import TrashedFile, list_trash

__all__ = ["find_unneeded"]

_LOCAL = StorageOptions()


def find_unneeded(
    table: str,
    *,
    grace_ms: int,
    options: StorageOptions = _LOCAL,
    now_ms: int | None = None,
    managed_roots: Sequence[str] = (),
    other_tables: Sequence[str] = (),
    reader: Reader = read_here,
    uploads: UploadReader = all_uploads,
    writers_zone: str | None = None,
    ignore_stale_pending: bool = False,
) -> MarkReport:
    """Find the blob files of a table that nothing needs. Nothing is written or deleted.

    Args:
        table: The table's base path.
        grace_ms: The minimum age of a file that may go, milliseconds. It must be longer than any write takes from its
            first upload to its commit.
        options: The storage settings.
        now_ms: The time in milliseconds since 1970, UTC, for tests; the clock's time by default.
        managed_roots: Folders outside the blob area, all of whose files belong to this table. Their files are judged by
            the same rule, except that any name is allowed.
        other_tables: The base paths of tables that may refer to this table's blobs, in addition to those in its
            registry.
        reader: Reads the retained files; by default with threads of this process.
        uploads: Reads the manifests of writes; ended writes may come without their containers.
        writers_zone: The time zone of the writers' JVM, if known. Otherwise pending instants are assumed to have begun
            26 hours earlier, unless the timeline is in UTC.
        ignore_stale_pending: If True, pending instants without a heartbeat or lease for 7 days do not keep any file.

    Returns:
        The candidates, and what keeps each other file. If there is a doubt, no file is a candidate.

    Raises:
        InvalidArgumentError: The grace is negative, or a managed root contains a table or lies in one.
        TableNotFoundError: There is no Hudi table at the path.
        UnsupportedTableError: The table's version is not supported.

    Example:
        >>> report = find_unneeded("/tables/photos", grace_ms=86_400_000)
        >>> [file.path for file in report.candidates]
        []
    """
    now = clock_ms() if now_ms is None else now_ms
    if grace_ms < 0:
        raise InvalidArgumentError(f"a grace of {grace_ms} ms is negative; it is the age that a file must have")
    source = Source(normalise(table), table, options)
    storage = open_storage(source.uri, options)
    native, registry, listed = storage.together(
        lambda: NativeTable(source),
        lambda: registered_tables(source.uri, options),
        lambda: list_below(storage, BlobArea(source.uri).uri),
    )
    tables, doubts = sharing_tables(native, other_tables, registry)
    roots = _require_apart(managed_roots, tables)
    mark = _Mark(native, now, grace_ms, roots, writers_zone, ignore_stale_pending, uploads)
    return mark.report(tables, reader, doubts, listed)


@dataclass(frozen=True)
class _Mark:
    native: NativeTable
    now_ms: int
    grace_ms: int
    roots: tuple[str, ...]
    writers_zone: str | None
    ignore_stale: bool
    read_uploads: UploadReader

    def report(
        self,
        tables: Sequence[NativeTable],
        reader: Reader,
        doubts: list[str],
        listed: tuple[list[FileInfo], list[str]],
    ) -> MarkReport:
        """Return the report; `listed` are the files of the blob area, and doubts about it."""
        uri, options, storage = self.native.source.uri, self.native.source.options, self.native.storage
        area = BlobArea(uri)
        files, odd = listed
        below = storage.each(lambda root: list_below(open_storage(root, options), root), self.roots)
        outside = [info for found, _ in below for info in found]
        doubts += [*odd, *(doubt for _, found in below for doubt in found)]
        doubts += _tables_within(self.roots, outside)
        written, compacting, ingests, saved = storage.together(
            lambda: storage.each(lambda each: self._uploads(each, doubts), tables),
            lambda: self._compacting(doubts),
            lambda: storage.each(lambda each: self._ingests(each, doubts), tables),
            lambda: self._saved(doubts),
        )
        uploads = {each.source.uri: found for each, found in zip(tables, written, strict=True)}
        pending, notes = self._pending([each for found in ingests for each in found], uploads)
        places = Places()
        identities = {places.identity(info.uri): info.uri for info in [*files, *outside]}
        claiming = [upload for each in tables for upload in uploads[each.source.uri].values()]
        if not outside:
            # A damaged manifest of this table needs no doubt here: `judge` keeps the containers of its write.
            claiming = [each for each in claiming if each.table != uri or each.state != UNREADABLE]
        paths = {identity: found.removeprefix(f"{uri}/") for identity, found in identities.items()}
        claims = claims_of_writes(claiming, self.now_ms - self.grace_ms, paths, places, options, doubts)
        referrers = Referrers(identities, places)
        site = Site(uri, options)
        gathered, trashed = storage.together(
            lambda: [gather(each, reader, referrers) for each in tables], lambda: self._trashed(site, doubts)
        )
        doubts += [doubt for each in gathered for doubt in each.doubts] + list(referrers.doubts)
        case = Case(uri, self.now_ms, self.grace_ms, uploads[uri], pending, referrers, saved, {})
        case = replace(case, named={**claims, **_named(case)}, compacting=compacting)
        home = places.home(area.uri)
        judged = [
            judge(info, case) if places.identity(info.uri).startswith(home) else _linked(info, case) for info in files
        ]
        judged += [judge(info, case, is_ours=False) for info in outside]
        homes = {home: f"{BLOB_AREA}/", **{places.home(root): f"{root.rstrip('/')}/" for root in self.roots}}
        dangling = [] if trashed is None else dangling_files(site, case, places, homes, trashed)
        judged += _managed_outside(
            case, (*homes, *(places.identity(site.uri(file.path)) for file in dangling)), options
        )
        report = self._made(judged, doubts, notes, gathered, sum(info.size for info in [*files, *outside]))
        return replace(
            report,
            dangling=tuple(dangling),
            notes=(*report.notes, *dangling_notes(dangling), *_elsewhere(referrers), *_empty(self.roots, below)),
        )

    def _made(
        self,
        judged: Sequence[KeptFile | UnneededFile],
        doubts: Iterable[str],
        notes: tuple[str, ...],
        gathered: Sequence[Gathered],
        total: int,
    ) -> MarkReport:
        report = MarkReport(
            mark_id=new_write_id(self.now_ms),
            table=self.native.source.uri,
            made_ms=self.now_ms,
            identity=gathered[0].identity,
            candidates=tuple(file for file in judged if isinstance(file, UnneededFile)),
            kept=tuple(file for file in judged if isinstance(file, KeptFile)),
            doubts=tuple(dict.fromkeys(doubts)),
            total_bytes=total,
            notes=notes,
            retained_files=sum(each.retained_files for each in gathered),
            opened_files=sum(each.opened_files for each in gathered),
            roots=self.roots,
        )
        return _doubted(report) if report.doubts else report

    def _ingests(self, table: NativeTable, doubts: list[str]) -> Sequence[PendingInstant]:
        try:
            return pending_ingests(table, self.writers_zone)
        except (OSError, HudiVectorError) as problem:
            doubts.append(f"the pending instants of '{table.source.uri}' cannot be listed: {problem}")
            return ()

    def _pending(
        self, ingests: Sequence[PendingInstant], uploads: dict[str, dict[str, Upload]]
    ) -> tuple[PendingInstant | None, tuple[str, ...]]:
        """Return the ingest that began first, or None, and notes about stale ingests."""
        holding, notes = [], []
        for instant in ingests:
            stale = is_stale(instant, uploads[instant.table].values(), self.now_ms)
            if stale:
                effect = "is ignored" if self.ignore_stale else "keeps whatever is not older than it"
                notes.append(
                    f"{instant.action} '{instant.requested}' of '{instant.table}' is pending, has shown neither "
                    f"heartbeat nor lease for 7 days, and {effect}; roll it back with Hudi"
                )
            if not (stale and self.ignore_stale):
                holding.append(instant)
        return min(holding, key=lambda instant: instant.since_ms, default=None), tuple(notes)

    def _compacting(self, doubts: list[str]) -> dict[str, str]:
        """Return the plan ids of unfinished compactions by the paths of the containers that they repack."""
        try:
            runs = begun_runs(self.native.source.uri, self.native.source.options)
        except (OSError, HudiVectorError, ValueError, LookupError, TypeError) as problem:
            doubts.append(f"the compactions of '{self.native.source.uri}' cannot be read: {problem}")
            return {}
        return {each.path: run.plan.plan_id for run in runs for each in run.plan.candidates}

    def _uploads(self, table: NativeTable, doubts: list[str]) -> dict[str, Upload]:
        try:
            found = self.read_uploads(table.source.uri, table.source.options)
        except (OSError, HudiVectorError, ValueError, LookupError, TypeError) as problem:
            doubts.append(f"the manifests of uploads to '{table.source.uri}' cannot be read: {problem}")
            return {}
        return {upload.write_id: upload for upload in found}

    @staticmethod
    def _trashed(site: Site, doubts: list[str]) -> list[TrashedFile] | None:
        """Return the files in the trash, None if it cannot be listed."""
        try:
            return list_trash(site.storage, site.table)
        except OSError as problem:
            doubts.append(shown(f"the trash of '{site.table}' cannot be listed: {problem}"))
            return None

    def _saved(self, doubts: list[str]) -> dict[str, str]:
        try:
            return saved_files(self.native)
        except (OSError, HudiVectorError, LookupError, TypeError) as problem:
            doubts.append(f"the savepoints of '{self.native.source.uri}' cannot be read: {problem}")
            return {}


def _elsewhere(referrers: Referrers) -> Iterator[str]:
    """Yield a note if references name containers at a place where the table was."""
    if found := referrers.elsewhere:
        many = number_of(len(found), "container of this table is", "containers of this table are")
        yield (
            f"{many} named by data files at another place, such as '{found[0]}': the table was moved or copied, and "
            "hv.blobs.relocate points its rows here"
        )


def _tables_within(roots: Sequence[str], listed: Sequence[FileInfo]) -> list[str]:
    """Return a doubt for each managed root that contains a Hudi table, whose files are not this table's."""
    strange = [info.uri for info in listed if "/.hoodie/" in info.uri]
    return [
        f"the managed root '{root}' holds a Hudi table: '{next(uri for uri in strange if uri.startswith(root))}'"
        for root in roots
        if any(uri.startswith(f"{root}/") for uri in strange)
    ]


def _require_apart(roots: Sequence[str], tables: Sequence[NativeTable]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(map(normalise, roots)))
    for root in found:
        for table in (table.source.uri for table in tables):
            if f"{root}/".startswith(f"{table}/") or f"{table}/".startswith(f"{root.rstrip('/')}/"):
                raise InvalidArgumentError(f"the managed root '{root}' and the table '{table}' lie in each other")
    return found


def _empty(roots: Sequence[str], below: Sequence[tuple[list[FileInfo], list[str]]]) -> Iterator[str]:
    """Yield a note for each managed root without a file, since a name that is spelt wrongly looks like that too."""
    for root, (files, doubts) in zip(roots, below, strict=True):
        if not files and not doubts:
            yield f"no file lies below the managed root '{root}'; if there should be some, look at how it is spelt"


def _named(case: Case) -> dict[str, Upload]:
    running = [upload for upload in case.uploads.values() if upload.may_commit(case.horizon_ms)]
    return {container.path: upload for upload in running for container in upload.containers}


def _managed_outside(case: Case, own: tuple[str, ...], options: StorageOptions) -> list[KeptFile]:
    """Return the files outside of the table's own that references call managed, as kept files.

    RFC-100 would delete managed files; this package deletes only files in the blob area and below managed roots.
    """
    found = [(uri, referrer) for uri, referrer in case.referrers.managed_outside() if not uri.startswith(own)]
    infos = file_infos([uri for uri, _ in found], options, lenient=True)
    return [
        KeptFile(uri, int(info.size or 0) if info else 0, f"managed_outside: {reason_of_reference(referrer, case)}")
        for (uri, referrer), info in zip(found, infos, strict=True)
    ]


def _linked(file: FileInfo, case: Case) -> KeptFile:
    return KeptFile(file.uri.removeprefix(f"{case.table}/"), file.size, "it is a link that leads out of the blob area")


def _doubted(report: MarkReport) -> MarkReport:
    """Return the report with all candidates moved to the kept files."""
    reason = "nothing that was read refers to it, but a doubt keeps everything"
    kept = tuple(KeptFile(file.path, file.bytes, reason) for file in report.candidates)
    return replace(report, candidates=(), kept=(*report.kept, *kept))
