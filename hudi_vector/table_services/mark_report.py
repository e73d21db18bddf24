"""What a mark found: which blob files nothing needs, and for every other one what keeps it.

A report is a side file of ``{table}/.hoodie/blob_service/v1/marks/{mark id}/`` (`hudi_vector.storage.side_files`) with
the totals, and side tables (`hudi_vector.blobs.uploads.side_tables`) with the files. Nothing changes it once it is
published.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MARKS", "KeptFile", "MarkReport", "UnneededFile"]

MARKS = ".hoodie/blob_service/v1/marks"


@dataclass(frozen=True)
class UnneededFile:
    """A blob file that nothing needs: its path, its bytes, and why nothing keeps it.

    `path` starts at the table's folder; it is a URI for a file below a managed root. `mtime_ms` is its modification
    time in milliseconds since 1970, UTC: a file with another one now is another file.
    """

    path: str
    bytes: int
    reason: str
    mtime_ms: int


@dataclass(frozen=True)
class KeptFile:
    """A blob file that stays: its path from the table's folder (a URI outside of it), its bytes, and what keeps it."""

    path: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class MarkReport:
    """The outcome of one mark.

    Attributes:
        mark_id: Its name: the time it was made and random bits.
        table: The table's base path, normalised.
        made_ms: When it was made, milliseconds since 1970, UTC.
        identity: The timeline's identity when the retained files were listed (decision 1).
        candidates: The files that nothing needs; empty where there is a doubt.
        kept: The files that stay, with the reason.
        doubts: Why nothing may be deleted at all, such as a retained file that cannot be read; empty where all
            is clear.
        total_bytes: The bytes of all files in the blob area and below the managed roots.
        notes: What an operator should know and what stops nothing, such as a pending instant that nobody seems to
            work at any more.
        retained_files: How many data files the table retains, those of tables that share its blobs included.
        opened_files: How many of them were read, and not known from an earlier run.
        roots: The managed roots, whose files were judged too; normalised.
        dangling: The files of the table that retained data files refer to and that are not in their place, with the
            reason; those in the trash have its bytes.
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
        """The candidates, each path once."""
        return tuple({file.path: file for file in self.candidates}.values())
