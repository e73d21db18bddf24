"""Report of a mark: the blob files that nothing needs, and what keeps every other one.

A report lies in ``{table}/.hoodie/blob_service/v1/marks/{mark id}/``: a side file (`hudi_vector.storage.side_files`)
with the totals, and side tables (`hudi_vector.blobs.uploads.side_tables`) with the files. A published report never
changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MARKS", "KeptFile", "MarkReport", "UnneededFile"]

MARKS = ".hoodie/blob_service/v1/marks"


@dataclass(frozen=True)
class UnneededFile:
    """A blob file that nothing needs.

    Attributes:
        path: Path relative to the table's folder; for a file below a managed root its URI.
        bytes: Its size.
        reason: Why nothing keeps it.
        mtime_ms: Modification time, milliseconds since 1970, UTC; a file with a different time is no longer the same
            file.
    """

    path: str
    bytes: int
    reason: str
    mtime_ms: int


@dataclass(frozen=True)
class KeptFile:
    """A blob file that stays.

    Attributes:
        path: Path relative to the table's folder; for a file outside of it its URI.
        bytes: Its size.
        reason: What keeps it.
    """

    path: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class MarkReport:
    """The outcome of one mark.

    Attributes:
        mark_id: The mark's id: the time it was made, followed by random characters.
        table: The table's base path, normalised.
        made_ms: When the mark was made, milliseconds since 1970, UTC.
        identity: The timeline's identity when the retained files were listed.
        candidates: The files that nothing needs; empty if there is a doubt.
        kept: The files that stay, with the reason.
        doubts: Why nothing may be deleted at all, for example a retained file that cannot be read; empty if there is no
            such reason.
        total_bytes: The bytes of all files in the blob area and below the managed roots.
        notes: Information for an operator that blocks nothing, for example a pending instant that seems abandoned.
        retained_files: The number of data files that the table retains, including those of tables that share its blobs.
        opened_files: How many of these were read; the references of the others were known from an earlier run.
        roots: The managed roots, normalised; their files were judged too.
        dangling: The files of the table that retained data files refer to but that are not in their place, with the
            reason; the bytes are those of the file in the trash, if it is there.
    """

    mark_id: str
    table: str
    made_ms: int
    identity: str
    candidates: tuple[UnneededFile, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    doubts: tuple[str, ...] = ()
    total_bytes: int = 0
    notes: tuple[str, ...] = ()
    retained_files: int = 0
    opened_files: int = 0
    roots: tuple[str, ...] = ()
    dangling: tuple[KeptFile, ...] = ()

    @property
    def distinct(self) -> tuple[UnneededFile, ...]:
        """Return the candidates with each path once."""
        return tuple({file.path: file for file in self.candidates}.values())
