"""All references of a table, read while the table may change, until a listing shows no file that was not read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Timeline
from hudi_vector.table_services.references.files import FileReferences, Reader
from hudi_vector.table_services.retention.retained import RetainedFile, list_retained

__all__ = ["Gathered", "Taker", "gather"]

_MOST_LISTINGS = 20


@dataclass(frozen=True)
class Gathered:
    """The outcome of reading a table's references.

    Attributes:
        identity: The identity of a timeline that was read before the last listing.
        doubts: What could not be read or is uncertain.
        retained_files: The number of data files at the last listing.
        opened_files: The number of data files that were read, and not known from an earlier run.
    """

    identity: str
    doubts: tuple[str, ...]
    retained_files: int
    opened_files: int


class Taker(Protocol):
    """An object that takes in references."""

    def add(self, found: FileReferences) -> None:
        """Take in the references of one file."""


def gather(table: NativeTable, read: Reader, taker: Taker) -> Gathered:
    """Read the references of every retained file of a table, and pass those of each readable file to `taker` once.

    A commit and a clean may happen between the listing and the reading, and move rows to files that were not listed.
    The table is therefore listed again after reading, and new files are read, until there are none. Nothing is raised
    if the timeline or a file cannot be read: that is a doubt.
    """
    seen: set[FileInfo] = set()
    doubts: dict[str, None] = {}
    torn: dict[FileInfo, FileReferences] = {}
    opened, identity = 0, ""
    before: Timeline | None = None
    shown: tuple[RetainedFile, ...] = ()
    for _ in range(_MOST_LISTINGS):
        try:
            timeline, listed = table.storage.together(
                table.timeline, partial(list_retained, table.source.uri, table.storage, shown)
            )
        except (OSError, HudiVectorError) as problem:
            return Gathered(identity, (f"the timeline of '{table.source.uri}' cannot be read: {problem}",), 0, opened)
        doubts.update(dict.fromkeys(listed.doubts))
        new = [file for file in listed.files if file.info not in seen]
        if not new and before is not None:
            # A tail that was still being written has grown since, so its `info` is no longer listed.
            cut = [torn[file.info] for file in listed.files if file.info in torn]
            lost = filter(None, (_lost(found, table, timeline) for found in cut))
            # Both may have been listed at once. All that completed in the timeline before was there to be listed.
            return Gathered(before.identity, (*doubts, *lost), len(listed.files), opened)
        identity, before, shown = timeline.identity, timeline, listed.files
        for found in read(new, table.source.options):
            opened += found.was_opened and not found.is_gone
            if found.is_gone:
                continue  # if the next listing still shows it, it is read again
            seen.add(found.file.info)
            if found.torn is not None:
                torn[found.file.info] = found
            if found.doubt is None:
                taker.add(found)
            else:
                pending = found.file.instant in timeline.pending
                doubts[found.doubt + (", and its instant has not completed: mark again later" if pending else "")] = (
                    None
                )
    doubts[f"'{table.source.uri}' changed during {_MOST_LISTINGS} listings, or lists files that are not there"] = None
    return Gathered(identity, tuple(doubts), len(seen), opened)


def _lost(found: FileReferences, table: NativeTable, timeline: Timeline) -> str | None:
    """Return the doubt about a log file with a torn tail, or None if the tail's write never completed."""
    assert found.torn is not None
    # Before table version 8 a log file is named after its base file's instant; only its blocks name their writer.
    named = found.file.instant if table.config.layout.logs_bear_own_instant else None
    writers = [each for each in dict.fromkeys((found.torn.instant, named)) if each is not None]
    completed = [each for each in writers if _may_have_completed(each, timeline)]
    if writers and not completed:
        return None
    why = f"instant {completed[0]} has completed" if completed else "it is unknown whether its write has completed"
    where = f"is cut off in the block at byte {found.torn.offset}" if found.file.info.size else "is empty"
    later = "" if completed or not timeline.pending else "mark again once no write is under way, and if it stays so, "
    return (
        f"the log file '{found.file.info.uri}' {where} and {why}, so that it may have referred to anything; {later}"
        "Hudi's compaction of its file group, and clean after it, remove the file"
    )


def _may_have_completed(instant: str, timeline: Timeline) -> bool:
    """Return True if an instant has completed, or is archived: older than the active timeline."""
    if instant in timeline.pending:
        return False
    archived = timeline.start is not None and instant < timeline.start
    return archived or any(instant == commit.requested for commit in timeline.commits)
