"""The files of a table at an instant: file slices computed from a timeline and the names of data files.

This follows Hudi's file-system view:

- A base file counts if its instant is committed, or is before the active timeline and not pending.
- From table version 8 on, a log file belongs to the newest base file requested no later than the log's completion; in
  earlier versions, to the base file whose instant is in its name.
- A slice whose compaction is pending continues the slice before it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hudi_vector.storage import FileInfo
from hudi_vector.table.model import FileSlice
from hudi_vector.table.names import BaseFileName, LogFileName, parse_base_file, parse_log_file
from hudi_vector.table.timeline import Timeline

__all__ = ["cut_file", "latest_slices", "lost_file"]

_PARTITION_METADATA = ".hoodie_partition_metadata"


@dataclass
class _FileGroup:
    bases: list[tuple[BaseFileName, FileInfo]] = field(default_factory=list)
    logs: list[tuple[LogFileName, FileInfo]] = field(default_factory=list)


def latest_slices(
    base_uri: str,
    files: Iterable[FileInfo],
    visible: Timeline,
    whole: Timeline,
    replaced: frozenset[tuple[str, str]],
    archived_completion: Callable[[str], str | None],
    logs_bear_own_instant: bool,
    cut: str | None = None,
    until: str | None = None,
) -> tuple[FileSlice, ...]:
    """Return the latest slice of every file group in a snapshot, ordered by partition path and file id.

    Args:
        base_uri: The table's base path, normalised.
        files: All data files below it, except those in ``.hoodie``.
        visible: The part of the timeline that the snapshot sees.
        whole: The whole active timeline.
        replaced: The file groups that visible actions replaced.
        archived_completion: Returns the completion time of an archived instant, or None.
        logs_bear_own_instant: True from table version 8 on.
        cut: The instant of an as-of read, or None. As in Hudi, a log file that belongs to a base file requested later
            is left out.
        until: The last instant that the snapshot saw, if later ones may have been archived since; else None.
    """
    committed = _Committed(visible, whole, archived_completion, until)
    slices = []
    for (partition, file_id), group in sorted(_groups(base_uri, files).items()):
        if (partition, file_id) in replaced:
            continue
        made = _latest(partition, file_id, group, committed, logs_bear_own_instant, cut)
        if made is not None:
            slices.append(made)
    return tuple(slices)


def lost_file(written: Iterable[str], slices: Iterable[FileSlice], replaced: frozenset[tuple[str, str]]) -> str | None:
    """Return the first written data file that must be in the latest slices and is not, or None.

    A file may be gone once its group has a later base file or was replaced.
    """
    gone = {file_id for _, file_id in replaced}
    newest: dict[str, str] = {}
    there: set[str] = set()
    for entry in slices:
        there.update(info.name for info in entry.files)
        if entry.base_file is not None:
            newest[entry.file_id] = entry.base_instant

    def is_lost(name: str) -> bool:
        parsed = parse_base_file(name) or parse_log_file(name)
        if parsed is None or name in there or parsed.file_id in gone:
            return False
        if isinstance(parsed, BaseFileName):
            return newest.get(parsed.file_id, "") < parsed.instant
        # Before version 8 a log file bears the instant of its base file.
        return not parsed.is_cdc and newest.get(parsed.file_id, "") <= parsed.instant

    return next((path for path in written if is_lost(posixpath.basename(path))), None)


def cut_file(written: Mapping[str, int], slices: Iterable[FileSlice]) -> tuple[str, int] | None:
    """Return the first data file in the latest slices that has fewer bytes than were written, and these, or None.

    `written` has the bytes of each file by its path below the table.
    """
    bytes_there = {info.name: info.size for entry in slices for info in entry.files}
    found = ((path, bytes_there.get(posixpath.basename(path))) for path in written)
    return next(((path, size) for path, size in found if size is not None and size < written[path]), None)


class _Committed:
    """The set of committed instants that a snapshot sees, archived ones included, with their completion times."""

    def __init__(
        self, visible: Timeline, whole: Timeline, archived: Callable[[str], str | None], until: str | None
    ) -> None:
        self._completed = {instant.requested: instant.completed for instant in visible.commits}
        self._pending = whole.pending
        self._start = whole.start
        self._archived = archived
        self._until = until

    def __contains__(self, instant: str) -> bool:
        return instant in self._completed or self._is_archived(instant)

    def completion(self, instant: str) -> str | None:
        """Return when an instant was completed, or None if it is not committed.

        For an archived instant without a known completion time, the instant itself is returned.
        """
        done = self._completed.get(instant)
        if done is None and self._is_archived(instant):
            return self._archived(instant) or instant
        return done

    def _is_archived(self, instant: str) -> bool:
        if self._start is None or instant >= self._start or instant in self._pending:
            return False
        return self._until is None or instant <= self._until


def _groups(base_uri: str, files: Iterable[FileInfo]) -> dict[tuple[str, str], _FileGroup]:
    groups: dict[tuple[str, str], _FileGroup] = {}
    for partition, name, info in _located(base_uri, files):
        if name.startswith("."):
            log = parse_log_file(name)
            if log is not None and not log.is_cdc:
                groups.setdefault((partition, log.file_id), _FileGroup()).logs.append((log, info))
            continue
        base = parse_base_file(name)
        if base is not None:
            groups.setdefault((partition, base.file_id), _FileGroup()).bases.append((base, info))
    return groups


def _located(base_uri: str, files: Iterable[FileInfo]) -> Iterator[tuple[str, str, FileInfo]]:
    start = len(base_uri) + 1
    for info in files:
        partition, name = posixpath.split(info.uri[start:])
        if not name.startswith(_PARTITION_METADATA) and not name.endswith(".crc"):
            yield partition, name, info


def _latest(
    partition: str,
    file_id: str,
    group: _FileGroup,
    committed: _Committed,
    logs_bear_own_instant: bool,
    cut: str | None,
) -> FileSlice | None:
    bases = [(name, info) for name, info in group.bases if name.instant in committed]
    base_name, base_info = max(bases, key=lambda base: base[0].instant, default=(None, None))
    start = base_name.instant if base_name is not None else ""
    keys = sorted(name.instant for name, _ in group.bases)
    logs = []
    for log, info in group.logs:
        if logs_bear_own_instant:
            done = committed.completion(log.instant)
            if done is None:
                continue
            belongs_to = max((key for key in keys if key <= done), default="")
        else:
            belongs_to = log.instant
        if belongs_to >= start and (cut is None or belongs_to <= cut):
            logs.append((log, info))
    if base_info is None and not logs:
        return None
    logs.sort(key=lambda entry: (entry[0].instant, entry[0].version, entry[0].write_token))
    oldest = start or min(log.instant for log, _ in logs)
    return FileSlice(partition, file_id, oldest, base_info, tuple(info for _, info in logs))
