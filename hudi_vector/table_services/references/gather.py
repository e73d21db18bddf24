"""All references of a table, read while the table may change: until a listing shows no file that was not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Timeline
from hudi_vector.table_services.references.files import FileReferences, Reader
from hudi_vector.table_services.retention.retained import list_retained

__all__ = ["Gathered", "Taker", "gather"]

_MOST_LISTINGS = 20


@dataclass(frozen=True)
class Gathered:
    """How a table's references were read: the timeline's identity at the last listing, what is in doubt, and counts."""

    identity: str
    doubts: tuple[str, ...]
    retained_files: int
    opened_files: int


class Taker(Protocol):
    """What takes references in."""

    def add(self, found: FileReferences) -> None:
        """Those of one file."""


def gather(table: NativeTable, read: Reader, taker: Taker) -> Gathered:
    """Read the references of every retained file of a table.

    A commit and a clean may come between the listing and the reading: rows then move to files that were not listed.
    So the table is listed again after reading, and new files are read, until there are none.

    Args:
        table: The table.
        read: Reads files.
        taker: Takes the references in, of each file once.

    Returns:
        What was read, and the doubts.
    """
    seen: set[FileInfo] = set()
    doubts: dict[str, None] = {}
    torn: dict[FileInfo, FileReferences] = {}
    opened, identity = 0, ""
    for _ in range(_MOST_LISTINGS):
        try:
            timeline = table.timeline()
        except (OSError, HudiVectorError) as problem:
            return Gathered(identity, (f"the timeline of '{table.source.uri}' cannot be read: {problem}",), 0, opened)
        identity = timeline.identity
        listed = list_retained(table.source.uri, table.storage)
        doubts.update(dict.fromkeys(listed.doubts))
        new = [file for file in listed.files if file.info not in seen]
        if not new:
            # A tail that was being written when it was read belongs to a file that has another size by now.
            cut = [torn[file.info] for file in listed.files if file.info in torn]
            lost = filter(None, (_lost(found, table, timeline) for found in cut))
            return Gathered(identity, (*doubts, *lost), len(listed.files), opened)
        for found in read(new, table.source.options):
            opened += found.was_opened and not found.is_gone
            if found.is_gone:
                continue  # if the next listing shows it again, it is read again
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
    """The doubt about a log file with a torn tail; none where the write of that never completed."""
    assert found.torn is not None
    # Until table version 8 a log file bears the instant of its base file, and only its blocks tell who wrote them.
    named = found.file.instant if table.config.version >= 8 else None
    writers = [each for each in dict.fromkeys((found.torn.instant, named)) if each is not None]
    completed = [each for each in writers if _may_have_completed(each, timeline)]
    if writers and not completed:
        return None
    why = f"instant {completed[0]} has completed" if completed else "nobody can tell whether its write has completed"
    where = f"is cut off in the block at byte {found.torn.offset}" if found.file.info.size else "is empty"
    later = "" if completed or not timeline.pending else "mark again once no write is under way, and if it stays so, "
    return (
        f"the log file '{found.file.info.uri}' {where} and {why}, so that it may have referred to anything; {later}"
        "Hudi's compaction of its file group, and clean after it, remove the file"
    )


def _may_have_completed(instant: str, timeline: Timeline) -> bool:
    """Whether an instant is completed, or older than the active timeline and so archived."""
    if instant in timeline.pending:
        return False
    archived = timeline.start is not None and instant < timeline.start
    return archived or any(instant == commit.requested for commit in timeline.commits)
