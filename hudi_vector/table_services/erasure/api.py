"""``hv.table_services.check_erasure``: files that still hold bytes of given records, and what removes them.

`look` does the work without Spark, which is only needed to find the keys that still have rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hudi_vector.arguments import is_unicode, known_arguments
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.names import BLOB_AREA, write_of
from hudi_vector.errors import DataFileError, InvalidArgumentError, UnsupportedTableError, number_of
from hudi_vector.events import heard_as
from hudi_vector.index.locations import in_directory
from hudi_vector.options import INDEX_EXTERNAL_DIR
from hudi_vector.shown import Shown
from hudi_vector.storage import FileInfo, StorageOptions, join, normalise
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.listed import list_below, shown
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.arguments import paths, texts
from hudi_vector.table_services.cleaning.leftovers import Leftover, list_leftovers
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.erasure.caches import cached_of, receipts_with
from hudi_vector.table_services.erasure.container_use import ContainerUse
from hudi_vector.table_services.erasure.key_rows import KeyScan
from hudi_vector.table_services.erasure.others import rows_elsewhere
from hudi_vector.table_services.erasure.places import metadata_files, not_looked_at, segments_holding
from hudi_vector.table_services.erasure.record import (
    COMPLETE,
    ERASURES,
    OPEN,
    ErasureRecord,
    find_newest,
    publish_record,
)
from hudi_vector.table_services.marking.container_index import Fold
from hudi_vector.table_services.marking.sharers import sharing_tables
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers
from hudi_vector.table_services.retention.retained import BASE, RetainedFile
from hudi_vector.table_services.retention.savepoints import saved_files
from hudi_vector.table_services.trash.trash import TrashedFile, list_trash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ErasureResult", "Holder", "check_erasure", "look", "look_now", "require_keys", "rows_of", "wanted_keys"]

T = TypeVar("T")

_LOCAL = StorageOptions()
_TRASH_NEEDS = "the trash's window to end, or clean_blobs with trash_window='0s'"
_REPACKED = "compact_blobs with live_threshold=100"
_CLEANED = "then Hudi's clean, then clean_blobs"
_STAGED = "its write to end, or its lease and the grace to run out and clean_blobs: it is unknown whose rows it holds"
_HALF_PUBLISHED = "clean_blobs after the grace: it is unknown what it holds"
_CLOCKS_APART_MS = 600_000  # the greatest expected difference between the storage's clock and ours
_OWNER = "its owner: the table refers to it and does not own it"
_STATISTICS = "Hudi's metadata table to be removed and made again: it holds keys, or least and greatest values"
_LENT = "erase of that table: its rows of the keys refer to blobs of this one"
_APART = "its own erase: it is another table, which shares blobs with this one"
_CACHED = "erase on this host, or the removal of the folder of the cache; other hosts have their own"
_RECEIPT = "its owner: a receipt names one of the keys"
_KEY = "_hoodie_record_key"


@dataclass(frozen=True)
class Holder:
    """A file that holds bytes of the keys.

    Attributes:
        path: Path relative to the table's folder; for a file outside of it its URI, or its path on this host.
        bytes: The size of the whole file; 0 for an external file.
        kind: ``base file``, ``log file``, ``container``, ``trash``, ``leftover``, ``segment``, ``metadata table``,
            ``cache``, ``registered table``, ``receipt`` or ``external``.
        needs: What must happen before the bytes of the keys are gone.
    """

    path: str
    bytes: int
    kind: str
    needs: str


@dataclass(frozen=True, repr=False)
class ErasureResult(Shown):
    """The files that hold bytes of some keys.

    Attributes:
        table: The table's base path.
        erasure_id: The id of this erasure's record.
        keys: The number of keys.
        live: The number of keys that have rows in the newest snapshot.
        holders: The files of the table that hold bytes of the keys.
        external: What the table does not own, which does not keep the erasure open: files that rows of the keys refer
            to, data files of registered tables with rows of the keys, and receipts.
        doubts: What could not be read or listed, so that its content is unknown.
        report: The folder of the record.
        not_looked_at: What is below the table's folder and was not searched, as relative paths: the timeline, the
            metadata table, models of indexes, containers with parts that were dead before the first question, and so
            on.

    Example:
        >>> result = hv.table_services.check_erasure(spark, "photos", ["cat"])
        >>> result.keys
        1
        >>> files = result.rows()
    """

    table: str
    erasure_id: str
    keys: int
    holders: list[Holder] = field(default_factory=list)
    external: list[Holder] = field(default_factory=list)
    doubts: tuple[str, ...] = ()
    report: str = ""
    not_looked_at: tuple[str, ...] = ()
    live: int = 0

    @property
    def is_well(self) -> bool:
        """Return True if no file of the table holds bytes of the keys and nothing is in doubt."""
        return not (self.holders or self.doubts)

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `path`, `bytes`, `kind` and `needs`, ordered by kind and path."""
        shown = sorted([*self.holders, *self.external], key=lambda holder: (holder.kind, holder.path))
        return [{"path": each.path, "bytes": each.bytes, "kind": each.kind, "needs": each.needs} for each in shown]

    def lines(self) -> Iterator[str]:
        """Yield the result as sentences for people."""
        yield from (f"not known: {doubt}" for doubt in self.doubts)
        if self.is_well:
            yield f"no file holds bytes of the {number_of(self.keys, 'key')}: erasure {self.erasure_id} is complete"
        else:
            yield (
                f"{number_of(len(self.holders), 'file holds', 'files hold')} bytes of the "
                f"{number_of(self.keys, 'key')}: erasure {self.erasure_id} is open"
            )
        yield (
            f"record: {self.report}, which names "
            f"{number_of(len(self.not_looked_at), 'place that was', 'places that were')} not looked at"
        )


@known_arguments()
@heard_as("check_erasure")
def check_erasure(
    spark: SparkSession, table: str | os.PathLike[str], keys: str | Iterable[str], *, receipts: str | None = None
) -> ErasureResult:
    """Find the files that still hold bytes of some records, and what must run to remove these bytes.

    Call this function for the first time before the rows are deleted, or right after, while retained files still show
    which containers hold their blobs; a record in the table remembers these containers. Call it again with the same
    keys after each step. Once no file holds any of the bytes, the record is marked complete for good. The record
    contains no key, only a salted hash of all keys.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        keys: Record keys, as Hudi keeps them in ``_hoodie_record_key``.
        receipts: A folder on this machine with receipts of searches as JSON files; those with one of the keys are in
            `external`.

    Returns:
        The base files and log files of every retained version, containers, files in the trash, segments and packs of
        indexes, files of Hudi's metadata table, leftovers of killed processes, entries of this host's cache on disk,
        and files of registered tables that hold bytes of the keys, each with what it needs; and what was not searched.

    Raises:
        InvalidArgumentError: There are no keys, or the folder of receipts cannot be read.
        InvalidTypeError: A key is not a string.
        UnsupportedTableError: The table has no ``_hoodie_record_key``.
        TableNotFoundError: There is no such table.
        DataFileError: The newest rows could not be read.

    Example:
        >>> hv.table_services.check_erasure(spark, "photos", ["cat"]).holders
    """
    wanted = wanted_keys(keys)
    found = look_now(spark, ServiceTable.of(spark, table), wanted)
    named = [] if receipts is None else receipts_with(paths("receipts", receipts)[0], wanted)
    return replace(found, external=[*found.external, *(Holder(*each, "receipt", _RECEIPT) for each in named)])


def rows_of(spark: SparkSession, place: ServiceTable, keys: Collection[str]) -> DataFrame:
    """Return the rows of some keys in the newest snapshot, with all columns; nothing is read yet."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    # A filter on the bare column would use the record index, and with it Hudi 1.2 misses keys that hold a field's name.
    return spark.read.format("hudi").load(place.path).where(F.concat(F.col(_KEY), F.lit("")).isin(list(keys)))


def look_now(spark: SparkSession, place: ServiceTable, keys: Collection[str]) -> ErasureResult:
    """Look as `look` does, for the keys that have rows now; the references that were read are kept for later runs."""
    from hudi_vector.writing.failures import in_one_sentence

    def live() -> set[str]:
        with in_one_sentence(f"looking for the keys in '{place.table}' failed", DataFileError):
            return {row[0] for row in rows_of(spark, place, keys).select(_KEY).distinct().collect()}

    directory = INDEX_EXTERNAL_DIR.in_session(spark)
    indexes = in_directory(directory, place.table, "").root if directory else None
    found = look(place.table, keys, live, place.options, kept=place.references, indexes=indexes)
    place.keep_references(forget=False)
    return found


def look(
    table: str,
    keys: Collection[str],
    live: Callable[[], Collection[str]],
    options: StorageOptions = _LOCAL,
    *,
    kept: KeptReferences | None = None,
    indexes: str | None = None,
    now_ms: int | None = None,
) -> ErasureResult:
    """Search every retained file for bytes of the keys, publish the erasure's record, and return the result.

    Raise UnsupportedTableError if the table has no ``_hoodie_record_key``.

    Args:
        table: The table's base path.
        keys: The record keys.
        live: Returns the keys that have rows in the newest snapshot; called only if a data file holds keys or cannot be
            read.
        options: Options to open storage.
        kept: The references of data files as earlier runs stored them; without it all files are read.
        indexes: The folder of the table's indexes in another directory, if there is one.
        now_ms: The time in milliseconds since 1970, UTC, for tests; the clock's by default.
    """
    now = clock_ms() if now_ms is None else now_ms
    native = require_keys(normalise(table), options)
    root, storage = native.source.uri, native.storage
    area, places, scan = BlobArea(root), Places(), KeyScan(keys)
    listed, odd = list_below(storage, area.uri)
    files = {places.identity(info.uri): info for info in listed}
    mine, everyone = Referrers({name: info.uri for name, info in files.items()}, places), Fold(list(files.values()))
    # Leftovers are listed before data files are read: rows that are committed in between are found in one of the two.
    left = _listed(partial(list_leftovers, storage, root), odd)
    gathered = gather(native, scan, mine)
    # Folded references have paths but no ranges, which are needed here to find dead bytes.
    read = read_here if kept is None else kept.whole
    tables, doubts = sharing_tables(native, ())
    doubts += [doubt for each in tables for doubt in gather(each, read, everyone).doubts]
    home = places.home(area.uri)
    theirs = rows_elsewhere(tables[1:], keys, home, doubts)
    doubts += [*odd, *gathered.doubts, *mine.doubts, *everyone.doubts]
    use = ContainerUse.of(root, everyone, options)
    trash = _listed(partial(list_trash, storage, root), doubts)
    segments = _listed(partial(segments_holding, native, scan.held), doubts)
    segments += _listed(partial(segments_holding, native, scan.held, indexes), doubts) if indexes else []
    statistics = _listed(partial(metadata_files, storage, root), doubts)
    passed_over = tuple(_listed(partial(not_looked_at, storage, root, use.loose, left, trash), doubts))
    unknown = tuple(dict.fromkeys(doubts))
    named = {
        uri: join(BLOB_AREA, uri.removeprefix(home)) if uri.startswith(home) else None for uri, _ in mine.below("")
    }
    there = {info.uri.removeprefix(f"{root}/"): info for info in files.values()}
    alive = frozenset(live()) if scan.held or unknown else frozenset[str]()
    holders = list(_data_files(native, scan.held, alive))
    has_rows = bool(holders)
    before = find_newest(storage, root, keys)
    is_open = before is not None and before.state == OPEN
    record = before if before is not None and is_open else ErasureRecord.new(root, keys, now)
    # The metadata table changes with each commit; what came after a complete erasure has no keys of rows that are gone.
    shows = is_open or has_rows or before is None
    record = _suspecting(record, there, use, trash, left, statistics if shows else [])
    known = {*record.containers, *filter(None, named.values())}
    # What died in them before the first question may have been a blob of an older version of these rows.
    passed_over = tuple(sorted({*passed_over, *(use.partly_dead - known - {*record.suspects})}))
    holders += [
        Holder(path, info.size, "container", _container_needs(has_rows, path in known, path, use))
        for path, info in sorted(there.items())
        if (has_rows and path in known) or (path in use.partly_dead and (path in known or path in record.suspects))
    ]
    holders += [
        Holder(file.trash_path, file.bytes, "trash", _TRASH_NEEDS)
        for file in trash
        if file.path in known or file.path in record.suspects
    ]
    holders += _elsewhere(segments, left, statistics, record)
    holders += [Holder(each.uri, each.bytes, "registered table", _LENT) for each in theirs if each.borrows]
    held = {holder.path for holder in holders}
    cached = [] if options.cache is None else cached_of(options.cache, storage, root, held)
    holders += [Holder(path, size, "cache", _CACHED) for path, _, size in cached]
    external = [Holder(uri, 0, "external", _OWNER) for uri, path in named.items() if path is None]
    external += [Holder(each.uri, each.bytes, "registered table", _APART) for each in theirs if not each.borrows]
    record = replace(
        record,
        containers=tuple(sorted(known)),
        rows_ms=now if has_rows or unknown else 0,
        not_looked_at=passed_over,
    )
    if not holders and not unknown:
        record = replace(record, state=COMPLETE, completed_ms=now, identity=gathered.identity)
    record = publish_record(storage, record)
    report = join(root, ERASURES, record.erasure_id)
    return ErasureResult(
        root, record.erasure_id, record.keys, holders, external, unknown, report, passed_over, len(alive)
    )


def _suspecting(
    record: ErasureRecord,
    there: Mapping[str, FileInfo],
    use: ContainerUse,
    trash: Iterable[TrashedFile],
    left: Iterable[Leftover],
    statistics: Iterable[FileInfo],
) -> ErasureRecord:
    """Return the record with the files added that may have come to hold bytes of the keys since the last look.

    As long as a look finds rows of the keys, an upsert or a compaction may move their blobs to new containers; once the
    rows are gone too, no data file shows where. The files in question are containers to which nothing refers, newer
    containers that are partly unreferenced, files in the trash, staged or half-published files, and files of Hudi's
    metadata table with keys or statistics. A container that other rows refer to completely cannot hold bytes of the
    keys.
    """
    if not record.rows_ms:
        return record
    since_ns = (record.rows_ms - _CLOCKS_APART_MS) * 1_000_000
    is_first = record.generation < 0
    new = {path for path in use.partly_dead if path in use.loose or (not is_first and there[path].mtime_ns > since_ns)}
    mine = {path for path in new if write_of(record.table, join(record.table, path))}
    others = {*(file.path for file in trash), *(each.path for each in left)}
    others |= {info.uri.removeprefix(f"{record.table}/") for info in statistics}
    return replace(record, suspects=tuple(sorted({*record.suspects, *mine, *others})))


def _listed(listing: Callable[[], Iterable[T]], doubts: list[str]) -> list[T]:
    """Return what `listing` gives; if that raises an OSError, add a doubt and return an empty list."""
    try:
        return list(listing())
    except OSError as problem:
        doubts.append(shown(f"some files below the table's folder cannot be listed: {problem}"))
        return []


def _elsewhere(
    segments: Iterable[tuple[str, int, str]],
    left: Iterable[Leftover],
    statistics: Iterable[FileInfo],
    record: ErasureRecord,
) -> Iterator[Holder]:
    for each in left:
        if each.files and each.path in record.suspects:
            yield Holder(each.path, each.bytes, "leftover", _STAGED if each.write_id else _HALF_PUBLISHED)
    for path, size, needs in segments:
        yield Holder(path, size, "segment", needs)
    for info in statistics:
        path = info.uri.removeprefix(f"{record.table}/")
        if path in record.suspects:
            yield Holder(shown(path), info.size, "metadata table", _STATISTICS)


def _data_files(
    native: NativeTable, held: dict[RetainedFile, frozenset[str]], live: frozenset[str]
) -> Iterator[Holder]:
    timeline, saved = native.timeline(), saved_files(native)
    newest = {file.uri for each in native.snapshot().file_slices for file in each.files} if held else set()
    files = sorted(held, key=lambda file: file.path)
    infos = native.storage.each(lambda file: native.storage.info(file.info.uri), files)
    for file, info in zip(files, infos, strict=True):
        if info is None:
            continue  # Hudi's clean removed the file while others were read
        if file.path in saved:
            needs = f"savepoint {saved[file.path]} to be deleted, and Hudi's clean after it"
        elif file.instant in timeline.pending:
            needs = f"instant {file.instant} to complete or to be rolled back"
        elif file.info.uri in newest and held[file] & live:
            needs = "the rows to be deleted, and Hudi's compaction and clean after it"
        elif file.info.uri in newest:
            needs = "Hudi's compaction of its file group, and clean after it"
        else:
            needs = "Hudi's clean, which keeps as many versions as its settings say"
        yield Holder(file.path, file.info.size, "base file" if file.kind == BASE else "log file", needs)


def _container_needs(has_rows: bool, is_known: bool, path: str, use: ContainerUse) -> str:
    is_loose = path in use.loose
    if is_loose and not is_known:
        return "clean_blobs: nothing refers to it, so it is unknown whose bytes it holds"
    if is_loose:
        return "clean_blobs"
    if has_rows and is_known:
        return "the data files first, and clean_blobs after them"
    if path in use.lent:
        return f"the rows of '{use.lent[path]}' that refer to it to be deleted, Hudi's clean there, then clean_blobs"
    if is_known:
        return f"{_REPACKED}, since other rows refer to it, {_CLEANED}"
    return f"{_REPACKED}, since it is unknown whose bytes its dead parts are, {_CLEANED}"


def require_keys(root: str, options: StorageOptions) -> NativeTable:
    """Open a table by its normalised base path; raise UnsupportedTableError if its rows have no record key."""
    native = NativeTable(Source(root, root, options))
    if not native.config.populates_meta_fields:
        raise UnsupportedTableError(
            f"'{root}' keeps no {_KEY} in its rows (hoodie.populate.meta.fields is false), so that rows cannot be "
            "found by key; look for them with a query"
        )
    return native


def wanted_keys(keys: str | Iterable[str]) -> list[str]:
    """Return the keys that a caller gave, each once, sorted; raise InvalidArgumentError if there are none."""
    found = texts("keys", keys)
    if not found:
        raise InvalidArgumentError("there are no keys to look for; give one or more record keys")
    for key in found:
        if not is_unicode(key):
            raise InvalidArgumentError(f"the key {key!r} is not UTF-8, as every record key is; leave it out")
    return sorted(set(found))
