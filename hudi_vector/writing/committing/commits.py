"""Lookup of the instant that a write made, by a token that the commit carries."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.table.actions import parse_action, write_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudi_vector.table.config import TableConfig
    from hudi_vector.table.timeline import Instant, Timeline
    from hudi_vector.writing.files import Files

__all__ = ["TOKEN_KEY", "Commit", "begun_writes", "commit_counts", "find_commit", "listed_timeline", "new_token"]

TOKEN_KEY = "_hudi_vector.write"  # noqa: S105 - Hudi copies options that begin with _ into the commit
_BEGUN = (".commit.requested", ".deltacommit.requested")


@dataclass(frozen=True)
class Commit:
    """A completed instant and the numbers of rows it changed; None if the commit does not say."""

    instant: str
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


def new_token() -> str:
    """Return a unique token."""
    return uuid.uuid4().hex


def listed_timeline(files: Files, path: str, config: TableConfig) -> Timeline:
    """Return the timeline as it is listed now."""
    return _timeline(files.listing(config.layout.folder(path)), config)


def begun_writes(files: Files, path: str, config: TableConfig) -> frozenset[str]:
    """Return the requested times of the commits and deltacommits that have not completed; no table service is one."""
    listed = files.listing(config.layout.folder(path))
    return _timeline(listed, config).pending & {name.partition(".")[0] for name in listed if name.endswith(_BEGUN)}


def find_commit(files: Files, path: str, config: TableConfig, before: frozenset[Instant], token: str) -> Commit | None:
    """Return the commit that carries the write's token, or None if the write made none.

    Only instants that are not in `before`, the instants before the write, are searched.
    """
    for instant in sorted(frozenset(listed_timeline(files, path, config).commits) - before, reverse=True):
        file = config.layout.file(path, instant)
        content = files.read(file) or b""
        if token.encode() in content:
            return commit_counts(instant.requested, parse_action(content, file))
    return None


def commit_counts(instant: str, record: Mapping[str, Any]) -> Commit:
    """Return the commit with the sums of the counts in its timeline record.

    Example:
        >>> commit_counts("20260101000000000", {}).inserted
        0
    """
    statistics = write_statistics(record)

    def total(key: str) -> int:
        return sum(int(one.get(key) or 0) for one in statistics)

    return Commit(instant, total("numInserts"), total("numUpdateWrites"), total("numDeletes"))


def _timeline(listed: Mapping[str, int], config: TableConfig) -> Timeline:
    # Only the difference of two listings is used, so the time zone does not matter.
    return config.layout.timeline(((name, milliseconds * 1_000_000) for name, milliseconds in listed.items()), "UTC")
