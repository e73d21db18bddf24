"""Pending actions on a table's timeline, which may yet refer to blobs that nothing refers to now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hudi_vector.blobs.uploads.manifest import Upload
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import FileInfo, join
from hudi_vector.table.instants import zone_info
from hudi_vector.table.native import NativeTable

__all__ = ["STALE_MS", "PendingInstant", "is_stale", "pending_ingests"]

STALE_MS = 7 * 86_400_000
"""The time without activity after which a pending instant is stale, milliseconds."""

# These write only references that the files they read already hold, and these files stay until a later clean.
_SERVICES = frozenset(
    {"clean", "clustering", "compaction", "indexing", "logcompaction", "restore", "rollback", "savepoint"}
)
# The largest difference between two time zones: UTC-12 and UTC+14.
_ZONES_APART_MS = 26 * 3_600_000


@dataclass(frozen=True)
class PendingInstant:
    """An ingest that has not completed; times in milliseconds since 1970, UTC.

    Attributes:
        table: The base path of its table.
        requested: Its requested time, which is its name on the timeline.
        action: Its action, like ``commit``; ``ingest`` if no file of it was found.
        since_ms: A time before which it did not begin.
        alive_ms: The last time at which it showed activity.
        beat_ms: Its last heartbeat, or None if its writer keeps none.
    """

    table: str
    requested: str
    action: str
    since_ms: int
    alive_ms: int
    beat_ms: int | None = None


def pending_ingests(table: NativeTable, writers_zone: str | None = None) -> tuple[PendingInstant, ...]:
    """Return the ingests of a table that have not completed, ordered by requested time.

    Pending table services are left out. `writers_zone` is the time zone of the writers' JVM, if known. Otherwise an
    ingest counts as begun 26 hours before the earlier of its requested time and the modification times of its files,
    unless the timeline is in UTC. Raise OSError if the timeline cannot be listed, and InvalidArgumentError if a
    requested time is not a time.
    """
    timeline, listed, beating = table.storage.together(
        table.timeline,
        lambda: table.storage.list_files(table.config.layout.folder(table.source.uri)),
        lambda: table.storage.list_files(join(table.source.uri, ".hoodie/.heartbeat")),
    )
    files: dict[str, list[FileInfo]] = {}
    for info in listed:
        files.setdefault(info.name.partition(".")[0], []).append(info)
    beats = {info.name: info.mtime_ns // 1_000_000 for info in beating}
    found = []
    for requested in sorted(timeline.pending):
        actions = {_action(info.name) for info in files.get(requested, ())} - _SERVICES
        if files.get(requested) and not actions:
            continue
        times = [info.mtime_ns // 1_000_000 for info in files.get(requested, ())]
        since, beat = _since(requested, times, table, writers_zone), beats.get(requested)
        alive = max([*times, *([] if beat is None else [beat])], default=since)
        found.append(PendingInstant(table.source.uri, requested, min(actions, default="ingest"), since, alive, beat))
    return tuple(found)


def is_stale(instant: PendingInstant, uploads: Iterable[Upload], now_ms: int) -> bool:
    """Return True if a pending instant has shown neither heartbeat nor lease for 7 days.

    It is False while a file of the instant changes, or while an upload that may belong to it may commit. `uploads` are
    those of its table; a write opens its upload before Hudi requests the instant. `now_ms` is in milliseconds since
    1970, UTC.
    """
    limit = now_ms - STALE_MS
    if instant.alive_ms > limit:
        return False
    return not any(upload.may_commit(limit) and upload.opened_ms <= instant.alive_ms for upload in uploads)


def _action(name: str) -> str:
    """Return the action in a pending file's name; a commit in flight has none there, and is ``commit``."""
    action = name.split(".")[1]
    return "commit" if action == "inflight" else action


def _since(requested: str, times: list[int], table: NativeTable, writers_zone: str | None) -> int:
    known = table.config.timeline_zone == "UTC" or writers_zone is not None
    zone = zone_info(table.timeline_zone(writers_zone) if known else "UTC")
    try:
        named = datetime.strptime(requested[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
    except ValueError as problem:
        raise InvalidArgumentError(f"the instant '{requested}' is no time: {problem}") from problem
    began = named + timedelta(milliseconds=int(requested[14:] or 0))
    earliest = min([int(began.timestamp() * 1000), *times])
    return earliest if known else earliest - _ZONES_APART_MS
