"""What a write answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BlobUpload", "WriteResult"]


@dataclass(frozen=True)
class BlobUpload:
    """What a write stored out of line.

    Attributes:
        write_id: The write, which names the folders of its containers and its manifest.
        containers: Files that were made.
        blobs: Blobs in them.
        bytes: Bytes of these blobs.
        staged_bytes: Bytes of the rows that waited for Hudi beside the table, inline blobs among them: what the
            write wrote a second time.
    """

    write_id: str
    containers: int
    blobs: int
    bytes: int
    staged_bytes: int


@dataclass(frozen=True)
class WriteResult:
    """A completed write.

    Attributes:
        table: The table as it was named.
        path: Its base path.
        operation: The operation.
        instant: The instant this write made, or None if it made none.
        inserted: Rows that are new, as the commit counts them; None if it does not say.
        updated: Rows that replaced an older version.
        deleted: Rows that were deleted.
        invalid: Invalid vectors that were skipped or stored as NULL, by column and reason.
        skipped: Rows that were left out because a vector was invalid.
        blobs: What was stored out of line; None for a write without blob columns.
    """

    table: str
    path: str
    operation: str
    instant: str | None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    invalid: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    skipped: int = 0
    blobs: BlobUpload | None = None
