"""The instant a write made, found on the timeline by a token the commit carries."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hudi_vector.table.actions import parse_action
from hudi_vector.table.timeline import Instant, Timeline, parse_layout_1, parse_layout_2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudi_vector.table.config import TableConfig
    from hudi_vector.writing.files import Files

__all__ = ["TOKEN_KEY", "Commit", "commit_counts", "completed_commits", "find_commit", "new_token"]

TOKEN_KEY = "_hudi_vector.write"  # noqa: S105 - Hudi copies options that begin with _ into the commit


@dataclass(frozen=True)
class Commit:
    """A completed instant and the rows it changed; None where the commit does not say."""

    instant: str
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


def new_token() -> str:
    """A text no other write has."""
    return uuid.uuid4().hex


def completed_commits(files: Files, path: str, config: TableConfig) -> frozenset[Instant]:
    """The completed actions that changed data files.

    Args:
        files: Hadoop's file systems.
        path: The table's base path.
        config: The table's settings.

    Returns:
        The instants.
    """
    return frozenset(_timeline(files, path, config).commits)


def find_commit(files: Files, path: str, config: TableConfig, before: frozenset[Instant], token: str) -> Commit | None:
    """The commit that carries a token, among those that are new.

    Args:
        files: Hadoop's file systems.
        path: The table's base path.
        config: The table's settings.
        before: The instants there were before the write.
        token: The write's token.

    Returns:
        The commit, or None if the write made none.
    """
    for instant in sorted(completed_commits(files, path, config) - before, reverse=True):
        name = instant.name if config.timeline_path else f"{instant.requested}.{instant.action}"
        content = files.read(f"{_folder(path, config)}/{name}") or b""
        if token.encode() in content:
            return commit_counts(instant.requested, parse_action(content, name))
    return None


def commit_counts(instant: str, record: Mapping[str, Any]) -> Commit:
    """Add up what a commit wrote.

    Args:
        instant: Its instant.
        record: The record in its timeline file.

    Returns:
        The commit.

    Example:
        >>> commit_counts("20260101000000000", {}).inserted
        0
    """
    statistics = [one for several in (record.get("partitionToWriteStats") or {}).values() for one in several or ()]

    def total(key: str) -> int:
        return sum(int(one.get(key) or 0) for one in statistics)

    return Commit(instant, total("numInserts"), total("numUpdateWrites"), total("numDeletes"))


def _timeline(files: Files, path: str, config: TableConfig) -> Timeline:
    names = files.listing(_folder(path, config))
    if config.timeline_path:
        return parse_layout_2(names)
    # Only the difference of two listings is used, so the zone of these times does not matter.
    return parse_layout_1((name, _digits(milliseconds)) for name, milliseconds in names.items())


def _folder(path: str, config: TableConfig) -> str:
    return f"{path}/.hoodie/{config.timeline_path}".rstrip("/")


def _digits(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return moment.strftime("%Y%m%d%H%M%S") + f"{milliseconds % 1000:03d}"
