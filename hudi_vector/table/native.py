"""Snapshots of a table read without a JVM, from the names of its timeline files and data files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError, InstantNotAvailableError, TableNotFoundError, UnsupportedTableError
from hudi_vector.storage import FileInfo, Storage, join, open_storage
from hudi_vector.table import actions
from hudi_vector.table.avro_schema import arrow_schema
from hudi_vector.table.config import PROPERTIES, TableConfig, read_properties
from hudi_vector.table.instants import AsOf, Moment, Seen, as_timeline_time, epoch_seconds, local_zone
from hudi_vector.table.model import FileSlice, Snapshot, Source
from hudi_vector.table.names import parse_log_file
from hudi_vector.table.recent import Recent
from hudi_vector.table.slices import cut_file, latest_slices, lost_file
from hudi_vector.table.timeline import Instant, Timeline

__all__ = ["NativeTable"]

_SUPPORTED_VERSIONS = (6, 8, 9)
_MAXIMUM_ATTEMPTS = 20
_HOODIE = ".hoodie"
_USUAL_TIMELINE = "timeline"


class NativeTable:
    """A Hudi table, opened by its base path.

    Example:
        >>> len(NativeTable(Source("file:///tables/products", "products")).snapshot().file_slices) > 0
        True
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.storage: Storage = open_storage(source.uri, source.options)
        self.config: TableConfig
        self._listed: list[FileInfo] | None
        # The folder is guessed, so that the properties and the timeline are asked for at once.
        self.config, self._listed = self.storage.together(self._read_config, self._first_listing)
        # The identity of the timeline for which the properties were read last.
        self._configured_for: str | None = None
        if self.config.layout.folder(source.uri) != join(source.uri, _HOODIE, _USUAL_TIMELINE):
            self._listed = None

    def timeline(self) -> Timeline:
        """Return the active timeline, listed now."""
        layout = self.config.layout
        listed = self.storage.list_files(layout.folder(self.source.uri))
        return self._timeline_of(listed)

    def first_timeline(self) -> Timeline:
        """Return the active timeline as it was listed when the table was opened, or else listed now."""
        return self.timeline() if self._listed is None else self._timeline_of(self._listed)

    def _timeline_of(self, listed: Sequence[FileInfo]) -> Timeline:
        layout = self.config.layout
        return layout.timeline(((info.name, info.mtime_ns) for info in listed), self.timeline_zone(None))

    def _first_listing(self) -> list[FileInfo] | None:
        """Return the files of the timeline of layout 2; None on a local disk, or if they cannot be listed."""
        if self.storage.scheme == "file":
            return None
        try:
            return self.storage.list_files(join(self.source.uri, _HOODIE, _USUAL_TIMELINE))
        except OSError:
            return None

    def timeline_zone(self, writers_zone: str | None) -> str:
        """Return the zone of the instants: UTC if the table says so, else `writers_zone`, else this machine's zone."""
        return "UTC" if self.config.timeline_zone == "UTC" else writers_zone or local_zone()

    def snapshot(self, as_of: AsOf | None = None, writers_zone: str | None = None) -> Snapshot:
        """Return the snapshot of the table now (`as_of` None) or at a point in its history, with all its files.

        `writers_zone` is the zone of the writing JVM, for timestamps on a LOCAL timeline. Raises
        InstantNotAvailableError if the point is before the oldest instant that the table still keeps, DataFileError if
        the table changed during each of 20 listings, and UnsupportedTableError if its schema is missing or has a type
        that cannot be read.
        """
        listed, self._listed = self._listed, None
        for _ in range(_MAXIMUM_ATTEMPTS):
            # A listing from before the files were listed serves as well: the one after them shows any change since.
            config, whole = self.config, self.timeline() if listed is None else self._timeline_of(listed)
            listed = None
            if self._is_other_table(whole):
                continue
            visible, cut = self._visible(whole, as_of, writers_zone)
            until = _last_seen(as_of, visible)
            slices = self._slices(whole, visible, cut, until, as_of)
            # A commit and a clean in between may have removed files that this timeline shows.
            if slices is not None and self.config is config:
                break
        else:
            raise DataFileError(f"'{self.source.name}' changed during {_MAXIMUM_ATTEMPTS} listings; try again")
        commits = visible.commits
        # If all commits that a snapshot saw were archived since, no schema of theirs is left.
        schema = self.schema(visible if commits or until is None else whole)
        return Snapshot(
            source=self.source,
            config=config,
            identity=visible.identity,
            instant=commits[-1].requested if commits else until,
            watermark=visible.watermark,
            schema=schema,
            file_slices=slices,
            as_of=as_of.given or None if as_of else None,
            evolves_on_read=self.evolves_on_read(visible),
            commits=visible.requested,
            pending=visible.pending,
            archived_before=min(whole.start or "", until or whole.start or ""),
            older_schemas=self._older_schemas(slices, visible, schema),
        )

    def _is_other_table(self, whole: Timeline) -> bool:
        """Read the properties again if this timeline is another one or empty; return True if they were changed.

        A table that was upgraded has another timeline, and its old one is left empty; one that was dropped and made
        again may have other partition columns.
        """
        known, self._configured_for = self._configured_for, whole.identity
        if known is None or (known == whole.identity and whole.commits):
            return False
        config = self._read_config()
        if config == self.config:
            return False
        self.config = config
        return True

    def _older_schemas(self, slices: tuple[FileSlice, ...], visible: Timeline, schema: pa.Schema) -> frozenset[str]:
        """Return the instants of base files that have log files and whose columns differ from the newest schema."""
        commits = {entry.requested: entry for entry in visible.commits}
        bases = {entry.base_instant: entry.base_file for entry in slices if entry.log_files and entry.base_file}

        def is_older(instant: str) -> bool:
            text = actions.written_schema(self._action(commits[instant])) if instant in commits else None
            # If the commit was archived or recorded no schema, the file's own schema is read.
            held = _columns(_arrow_schema(text, True)) if text else set(self.columns_of(bases[instant]))
            return held != (_columns(schema) if text else set(schema.names))

        return frozenset(
            instant for instant, older in zip(bases, self.storage.each(is_older, bases), strict=True) if older
        )

    def columns_of(self, file: FileInfo) -> list[str]:
        """Return the names of the columns that a base file holds; none if it is no Parquet file."""
        if not file.name.endswith(".parquet"):
            return []
        with self.storage.open(file.uri, size=file.size) as opened:
            names: list[str] = pq.read_schema(opened).names
        return names

    def schema(self, visible: Timeline) -> pa.Schema:
        """Return the schema of the newest commit that recorded one, as Arrow.

        Without such a commit, the schema in the table's properties is returned. Raises UnsupportedTableError if neither
        has a schema.
        """
        for action in self._newest_first(visible):
            text = actions.written_schema(action)
            if text:
                return _arrow_schema(text, True)
        if self.config.create_schema:
            return _arrow_schema(self.config.create_schema, True)
        raise UnsupportedTableError(f"'{self.source.name}' has no commit yet and no schema; write to it first")

    def last_write(self, visible: Timeline) -> Mapping[str, Any] | None:
        """Return the record of the last completed commit of a writer, whose schema Hudi takes for the table's.

        Table services do not change the schema. It is None if no commit of a writer recorded one.
        """
        written = (each for each in self._newest_first(visible) if not actions.is_service(each))
        return next((each for each in written if actions.written_schema(each)), None)

    def instant_of_other_schema(self, as_of: AsOf, writers_zone: str | None = None) -> str | None:
        """Return the last instant at a point in the table's history if its schema differed from today's, else None.

        `writers_zone` is the zone of the writing JVM, for timestamps on a LOCAL timeline. Raises
        InstantNotAvailableError if the point is before the oldest instant that the table still keeps.
        """
        whole = self.timeline()
        visible, _ = self._visible(whole, as_of, writers_zone)
        if self.schema(visible).equals(self.schema(whole), check_metadata=True):
            return None
        return visible.commits[-1].requested

    def evolves_on_read(self, visible: Timeline) -> bool:
        """Return True if the newest commit carries the schema history that evolution on read needs.

        That of a table service may lack it.
        """
        for action in self._newest_first(visible):
            if actions.evolved_schema(action) is not None:
                return True
            if not actions.is_service(action):
                break
        return False

    def _newest_first(self, visible: Timeline) -> Iterator[Mapping[str, Any]]:
        """Yield the records of the commits, the one that was completed last first; each is read when it is wanted."""
        for instant in sorted(visible.commits, key=lambda entry: entry.completed, reverse=True):
            yield self._action(instant)

    def archived_amid(self, whole: Timeline) -> tuple[Instant, ...]:
        """Return the archived commits that are later than a commit on the timeline, which a savepoint kept there.

        Below table version 8, whose archive is not read, each savepointed commit before the others is taken to have
        been followed by one within a millisecond.
        """
        saved = whole.saved
        kept = tuple(takewhile(lambda commit: commit.requested in saved, whole.commits))
        if not kept:
            return ()
        layout = self.config.layout
        if layout.keeps_completion_times:
            archived = _Archive(self).commits()
            return tuple(commit for commit in archived if commit.requested > kept[0].requested)
        if not self.storage.list_files(layout.archive(self.source.uri), recursive=True):
            return ()
        return tuple(Instant(_next(commit.requested), _next(commit.completed), commit.action) for commit in kept)

    def archived_since(self) -> str | None:
        """Return the earliest completion time of the archived actions, as 17 digits, or None if nothing was archived.

        It is empty if the table has archived actions and its version is below 8, whose archive is not read.
        """
        layout = self.config.layout
        if not layout.keeps_completion_times:
            return "" if self.storage.list_files(layout.archive(self.source.uri), recursive=True) else None
        return min((action.completed for action in _Archive(self).read()), default=None)

    def _visible(self, whole: Timeline, as_of: AsOf | None, writers_zone: str | None) -> tuple[Timeline, str | None]:
        if as_of is None:
            return whole, None
        if as_of.seen is not None:
            visible = whole.as_seen(as_of.seen, self.config.layout.keeps_completion_times)
            return visible, None if as_of.seen.as_of is None else as_of.seen.as_of.ljust(17, "9")
        cut = None if as_of.instant is None else as_of.instant.ljust(17, "9")
        zone = self.timeline_zone(writers_zone)
        visible = _at(whole, as_of, zone)
        if as_of.moment is not None and not visible.commits:
            return visible, cut
        self._require_retained(whole, visible, as_of)
        newest = visible.commits[-1].requested
        if newest in whole.saved and as_of.instant != newest:
            self._require_no_gap(whole, newest, as_of, zone)
        return visible, cut

    def _require_retained(self, whole: Timeline, visible: Timeline, as_of: AsOf) -> None:
        """Raise InstantNotAvailableError if nothing had been committed by then, or a clean took it and no savepoint."""
        oldest = self.oldest_available(whole)
        newest = visible.commits[-1].requested if visible.commits else None
        if newest is None:
            first = whole.start
            raise InstantNotAvailableError(
                f"as_of = '{as_of.given}' lies before the first commit of '{self.source.name}'"
                + (f"; the oldest available instant is {oldest or first}" if first else ", which has none yet")
            )
        asked = as_of.instant.ljust(17, "9") if as_of.instant else newest
        if oldest is not None and asked < oldest and newest not in whole.saved:
            saved = sorted(instant for instant in whole.saved if instant < oldest)
            raise InstantNotAvailableError(
                f"the files of '{self.source.name}' as of '{as_of.given}' were cleaned away; "
                f"the oldest available instant is {oldest}"
                + (f", apart from what savepoints keep: {', '.join(saved)}" if saved else "")
            )

    def _require_no_gap(self, whole: Timeline, newest: str, as_of: AsOf, zone: str) -> None:
        """Raise InstantNotAvailableError if archived commits lie between the newest one on the timeline and a point."""
        hidden = _at(Timeline(self.archived_amid(whole)), as_of, zone).commits
        if hidden and hidden[-1].requested > newest:
            raise InstantNotAvailableError(
                f"the state of '{self.source.name}' as of '{as_of.given}' is not known: the commits after the "
                f"savepoint {newest} were archived; give as_of = '{newest}', or a point from {whole.start} on"
            )

    def oldest_available(self, whole: Timeline) -> str | None:
        """Return the earliest instant that no clean, completed or pending, has touched, or None if unknown."""
        for clean in sorted((entry for entry in whole.completed if entry.action == "clean"), reverse=True):
            retained = actions.earliest_retained(self._action(clean))
            if retained:
                break
        else:
            retained = None
        for plan in self._clean_plans(whole).values():
            retained = max(retained or "", actions.earliest_retained(plan) or "") or None
        return retained

    def _clean_plans(self, whole: Timeline) -> dict[str, Mapping[str, Any]]:
        """Return the plans of the cleans that have not ended, by instant."""
        folder = self.config.layout.folder(self.source.uri)
        pending = sorted(whole.pending_cleans)
        plans = [join(folder, f"{instant}.clean.requested") for instant in pending]
        read = self.storage.each(lambda plan: actions.read_action(self.storage, plan), plans)
        return dict(zip(pending, read, strict=True))

    def undone_since(self, moment: Moment) -> str | None:
        """Return the instant of a commit that a moment saw and a rollback or a restore took back since, or None."""
        later = [
            action
            for action in self.timeline().completed
            if action.action in ("rollback", "restore") and action.completed > moment.completed
        ]
        undone = chain.from_iterable(map(actions.undone_commits, self.storage.each(self._action, later)))
        return min((each for each in undone if each <= moment.completed and each not in moment.unseen), default=None)

    def cleaned_since(self, seen: Seen) -> list[tuple[str, str]]:
        """Return the files of a snapshot that Hudi's clean removed since: path below the table, instant of the clean.

        Cleans that were archived since are not known here.
        """
        whole = self.timeline()
        visible, cut = self._visible(whole, seen.point, None)
        files, replaced = self._data_files(), _replaced(self._read_ahead(visible))
        lost = self._cleaned(whole, seen.completed, files)
        files += [FileInfo(uri, 0, 0) for uri in lost]
        slices = self._latest(files, whole, visible, replaced, cut, seen.instant)
        return _lost_from(slices, lost)

    def _cleaned(self, whole: Timeline, after: str, files: Iterable[FileInfo]) -> dict[str, tuple[str, str]]:
        """Return the files that are gone since cleans that ended after a time, or have not ended, removed them.

        Each URI leads to the path below the table and the instant of the clean.
        """
        ended = [entry for entry in whole.completed if entry.action == "clean" and entry.completed > after]
        cleans = dict(zip((entry.requested for entry in ended), self.storage.each(self._action, ended), strict=True))
        cleans |= self._clean_plans(whole)
        there = {info.uri for info in files}
        removed = ((path, instant) for instant, clean in cleans.items() for path in actions.cleaned_paths(clean))
        found = {join(self.source.uri, path): (path, instant) for path, instant in removed}
        return {uri: named for uri, named in found.items() if uri not in there}

    def _slices(
        self, whole: Timeline, visible: Timeline, cut: str | None, until: str | None, as_of: AsOf | None
    ) -> tuple[FileSlice, ...] | None:
        # A receipt, which asks for what it saw, compares the files itself.
        past = as_of if as_of is not None and as_of.seen is None else None
        key = (self.storage, self.source.uri, whole.identity, visible.identity, cut, until, past is None)
        cached = _SLICES.get(key)
        if cached is not None:
            return cached
        files, ahead = self.storage.together(self._data_files, lambda: self._read_ahead(visible))
        replaced = _replaced(ahead)
        slices = self._latest(files, whole, visible, replaced, cut, until)
        again = self.timeline()
        has_begun = again.pending != whole.pending and not self.config.layout.logs_bear_own_instant
        if again.identity != whole.identity or has_begun:
            return None
        if visible is whole:
            self._require_written(ahead, slices, replaced)
        if past is not None and visible.commits:
            newest = visible.commits[-1].requested
            gone = self._cleaned(whole, newest, files)
            before = [*files, *(FileInfo(uri, 0, 0) for uri in gone)]
            complete = self._latest(before, whole, visible, replaced, cut, until) if gone else slices
            self._require_kept(whole, newest, past, slices, _lost_from(complete, gone))
        _SLICES.put(key, slices)
        return slices

    def _latest(
        self,
        files: list[FileInfo],
        whole: Timeline,
        visible: Timeline,
        replaced: frozenset[tuple[str, str]],
        cut: str | None,
        until: str | None,
    ) -> tuple[FileSlice, ...]:
        return latest_slices(
            self.source.uri,
            self._written_by_now(files, whole),
            visible,
            whole,
            replaced,
            _Archive(self),
            logs_bear_own_instant=self.config.layout.logs_bear_own_instant,
            cut=cut,
            until=until,
        )

    def _written_by_now(self, files: list[FileInfo], whole: Timeline) -> list[FileInfo]:
        """Return data files without the log files of writes that have not ended, where their names do not tell these.

        Before table version 8 a log file bears the instant of its base file. The actions on the timeline name theirs; a
        file that none of them names is of an archived commit if it is older than the first commit on the timeline, and
        than a minute before the first action that has not ended, as clocks differ.
        """
        logs = [info for info in files if parse_log_file(info.name)]
        if self.config.layout.logs_bear_own_instant or not whole.pending or not logs:
            return files
        zone = self.timeline_zone(None)
        begun, first = (epoch_seconds(instant, zone) or 0.0 for instant in (min(whole.pending), whole.start or ""))
        since = max(begun - 60, first) * 1e9
        ended = [entry for entry in whole.completed if entry.wrote_data or entry.action == "rollback"]
        named = set[str]().union(*map(actions.log_files_of, self.storage.each(self._action, ended)))
        unknown = {info.uri for info in logs if info.name not in named and info.mtime_ns >= since}
        return [info for info in files if info.uri not in unknown]

    def _require_written(
        self, ahead: Sequence[Mapping[str, Any]], slices: tuple[FileSlice, ...], replaced: frozenset[tuple[str, str]]
    ) -> None:
        """Raise DataFileError if a file that an action read ahead wrote is lost or cut: the answer would lack rows."""
        written = {path: size for action in ahead for path, size in actions.written_files(action).items()}
        lost = lost_file(written, slices, replaced)
        if lost is not None:
            raise DataFileError(
                f"the data file '{lost}' of '{self.source.name}' is not there, but its commit is, and no later file "
                "takes its place: something other than Hudi removed it; bring it back from a copy, or restore the "
                "table to a savepoint from before that commit"
            )
        cut = cut_file(written, slices)
        if cut is not None:
            raise DataFileError(
                f"the data file '{cut[0]}' of '{self.source.name}' has {cut[1]:,} bytes, and its commit wrote "
                f"{written[cut[0]]:,}: something other than Hudi cut it; bring it back from a copy, or restore the "
                "table to a savepoint from before that commit"
            )

    def _require_kept(
        self,
        whole: Timeline,
        newest: str,
        as_of: AsOf,
        slices: tuple[FileSlice, ...],
        lost: Sequence[tuple[str, str]],
    ) -> None:
        """Raise InstantNotAvailableError if the slices of a snapshot of the past lack files that cleans removed.

        `newest` is its last commit. What archived cleans removed is not known; a savepoint lists what it keeps.
        """
        begin = f"the files of '{self.source.name}' as of '{as_of.given}' were cleaned away"
        if lost:
            path, clean = lost[0]
            raise InstantNotAvailableError(f"{begin}: Hudi's clean of {clean} took '{path}'; give a later point")
        if newest not in whole.saved:
            return
        if newest < (self.oldest_available(whole) or "") or self.archived_amid(whole):
            savepoint = next(at for at in whole.completed if at.action == "savepoint" and at.requested == newest)
            kept = {join(self.source.uri, path) for path in actions.saved_paths(self._action(savepoint))}
            if kept != {file.uri for entry in slices for file in entry.files}:
                raise InstantNotAvailableError(f"{begin}, and its savepoint keeps other files; give a later point")

    def _data_files(self) -> list[FileInfo]:
        listed = self.storage.list_except(self.source.uri, _HOODIE, is_deep=bool(self.config.partition_fields))
        return [info for info in listed if not info.name.endswith(".crc")]

    def _read_ahead(self, visible: Timeline) -> list[Mapping[str, Any]]:
        """Return the newest commit and all that replaced file groups, read at once; the first for the schema too."""
        newest = max(visible.commits, key=lambda entry: entry.completed, default=None)
        wanted = {entry for entry in visible.commits if entry.action == "replacecommit" or entry is newest}
        return self.storage.each(self._action, sorted(wanted))

    def _action(self, instant: Instant) -> Mapping[str, Any]:
        # The instant is part of the key: a table created again at the same path has other completion times.
        key = (self.storage, self.config.layout.file(self.source.uri, instant), instant)
        known = _ACTIONS.get(key)
        return _ACTIONS.first(key, actions.read_action(self.storage, key[1])) if known is None else known

    def _read_config(self) -> TableConfig:
        """Return the table's properties; raise UnsupportedTableError if tables of its version cannot be read."""
        uri = join(self.source.uri, PROPERTIES)
        try:
            content = read_properties(self.storage.read, self.source.uri)
        except DataFileError:
            raise
        except OSError as problem:
            raise DataFileError(f"'{uri}' cannot be read: {problem}") from problem
        if content is None:
            raise TableNotFoundError(f"there is no Hudi table at '{self.source.name}': '{uri}' does not exist")
        config = _parsed_config(content, uri)
        if config.version not in _SUPPORTED_VERSIONS:
            raise UnsupportedTableError(
                f"'{self.source.name}' is a Hudi table of version {config.version}; "
                f"versions {', '.join(map(str, _SUPPORTED_VERSIONS))} can be read: upgrade the table"
            )
        return config


class _Archive:
    """The archived actions of a table of version 8 and later, read from the timeline's history on first use."""

    def __init__(self, table: NativeTable) -> None:
        self._table = table
        self._known: dict[str, str] | None = None

    def __call__(self, instant: str) -> str | None:
        """Return when an archived action completed, or None."""
        if self._known is None:
            self._known = {action.requested: action.completed for action in self.read()}
        return self._known.get(instant)

    def commits(self) -> list[Instant]:
        """Return the archived actions that may have changed data files, ordered by requested time."""
        return sorted(action for action in self.read() if action.wrote_data)

    def read(self) -> set[Instant]:
        """Return the archived actions, whose names are those of completed ones."""
        storage = self._table.storage
        listed = storage.list_files(self._table.config.layout.archive(self._table.source.uri))
        parts = storage.each(self._of_file, [info for info in listed if info.name.endswith(".parquet")])
        return {action for part in parts for action in part}

    def _of_file(self, info: FileInfo) -> list[Instant]:
        with self._table.storage.open(info.uri, size=info.size) as file:
            history = pq.ParquetFile(file, page_checksum_verification=True)
            rows = history.read(columns=["instantTime", "completionTime", "action"])
        return [Instant(*row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]


def _at(timeline: Timeline, as_of: AsOf, zone: str) -> Timeline:
    """Return what a timeline, whose instants are times of `zone`, shows at an instant, a time or a moment."""
    if as_of.moment is not None:
        return timeline.at_moment(as_of.moment)
    if as_of.instant is not None:
        return timeline.until_requested(as_of.instant)
    assert as_of.epoch_micros is not None
    return timeline.until_completed(as_timeline_time(as_of.epoch_micros, zone))


def _last_seen(as_of: AsOf | None, visible: Timeline) -> str | None:
    """Return the last instant that a snapshot of the past sees, None for a snapshot of now."""
    if as_of is None:
        return None
    if as_of.seen is not None:
        return as_of.seen.instant
    return visible.commits[-1].requested if visible.commits else None


def _lost_from(slices: Iterable[FileSlice], gone: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of the files that are gone, by URI, which slices made with them hold."""
    return sorted(gone[file.uri] for entry in slices for file in entry.files if file.uri in gone)


def _next(instant: str) -> str:
    """Return the digits that follow those of an instant."""
    return str(int(instant) + 1)


_SliceKey = tuple[Storage, str, str, str, "str | None", "str | None", bool]


# Slices by table and timeline, so that an unchanged table is not listed again. Two stores may have the same paths.
_SLICES: Recent[_SliceKey, tuple[FileSlice, ...]] = Recent(64, len, 200_000)
_ACTIONS: Recent[tuple[Storage, str, Instant], Mapping[str, Any]] = Recent(1024, actions.files_named, 200_000)


def _replaced(read: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    return frozenset(group for action in read for group in actions.replaced_file_ids(action))


@lru_cache(maxsize=256)
def _parsed_config(content: bytes, uri: str) -> TableConfig:
    return TableConfig.of_file(content, uri)


_arrow_schema = lru_cache(maxsize=256)(arrow_schema)


def _columns(schema: pa.Schema) -> set[tuple[str, str]]:
    return {(field.name, str(field.type)) for field in schema}
