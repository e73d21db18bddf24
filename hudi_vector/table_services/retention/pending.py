"""Actions on a table's timeline that have not completed, and may yet refer to blobs that nothing refers to now."""

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
"""How long a pending instant may give no sign of life, milliseconds."""

# What these write refers only to blobs that the files they read refer to, and those stay until a later clean.
_SERVICES = frozenset(
    {"clean", "clustering", "compaction", "indexing", "logcompaction", "restore", "rollback", "savepoint"}
)
# How far the writers' zone can be from any other.
_ZONES_APART_MS = 26 * 3_600_000


@dataclass(frozen=True)
class PendingInstant:
    """An ingest that has not completed.

    Attributes:
        table: The base path of its table.
        requested: Its name on the timeline.
        action: What it does.
        since_ms: A time before which it did not begin, milliseconds since 1970, UTC.
        alive_ms: When it was last seen to do something, milliseconds since 1970, UTC.
    """

    table: str
    requested: str
    action: str
    since_ms: int
    alive_ms: int


def pending_ingests(table: NativeTable, writers_zone: str | None = None) -> tuple[PendingInstant, ...]:
    """The ingests of a table that have not completed, by the time they were requested.

    Args:
        table: The table.
        writers_zone: The zone of the JVM that writes, where it is known; else each is taken to have begun 26 hours
            before the earlier of its name's and its file's time, unless the timeline is in UTC.

    Returns:
        The pending instants but those of table services.

    Raises:
        OSError: The timeline cannot be listed.
    """
    pending = table.timeline().pending
    folder = join(table.source.uri, ".hoodie", table.config.timeline_path)
    files: dict[str, list[FileInfo]] = {}
    for info in table.storage.list_files(folder):
        files.setdefault(info.name.partition(".")[0], []).append(info)
    beats = {info.name: info for info in table.storage.list_files(join(table.source.uri, ".hoodie/.heartbeat"))}
    found = []
    for requested in sorted(pending):
        actions = {_action(info.name) for info in files.get(requested, ())} - _SERVICES
        if files.get(requested) and not actions:
            continue
        times = [info.mtime_ns // 1_000_000 for info in files.get(requested, ())]
        signs = [*times, *(beat.mtime_ns // 1_000_000 for name, beat in beats.items() if name == requested)]
        since = _since(requested, times, table, writers_zone)
        action = min(actions, default="ingest")
        found.append(PendingInstant(table.source.uri, requested, action, since, max(signs, default=since)))
    return tuple(found)


def is_stale(instant: PendingInstant, uploads: Iterable[Upload], now_ms: int) -> bool:
    """Whether a pending instant has shown neither heartbeat nor lease for 7 days.

    Args:
        instant: The instant.
        uploads: The uploads of its table; a write opens its own before Hudi requests its instant.
        now_ms: The time, milliseconds since 1970, UTC.

    Returns:
        False while a file of it changes, or an upload that may belong to it may commit.
    """
    limit = now_ms - STALE_MS
    if instant.alive_ms > limit:
        return False
    return not any(upload.may_commit(limit) and upload.opened_ms <= instant.alive_ms for upload in uploads)


def _action(name: str) -> str:
    """The action in a pending file's name; a commit in flight bears none."""
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
