"""Results of a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudi_vector.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BlobUpload", "WriteResult"]


@dataclass(frozen=True, repr=False)
class BlobUpload(Shown):
    """The blobs that a write stored out of line.

    Attributes:
        write_id: The write's id, which names the folders of its containers and its manifest.
        containers: The number of files made.
        blobs: The number of blobs in these files.
        bytes: The number of bytes of these blobs.
        staged_bytes: The bytes of the rows, with inline blobs, that were staged under the table before Hudi wrote them:
            the part of the data that was written twice.
    """

    write_id: str
    containers: int
    blobs: int
    bytes: int
    staged_bytes: int


@dataclass(frozen=True, repr=False)
class WriteResult(Shown):
    """The result of a completed write.

    Attributes:
        table: The table as the caller named it.
        path: The table's base path.
        operation: The operation.
        instant: The instant that the write made, or None if it made none.
        inserted: The number of new rows, as the commit counts them; None if it does not say.
        updated: The number of rows that replaced an older version; None if the commit does not say.
        deleted: The number of deleted rows; None if the commit does not say.
        invalid: The number of invalid vectors that were skipped or stored as NULL, by column and reason.
        skipped: The number of rows left out because a vector was invalid.
        erased: The number of rows left out because their record keys were erased.
        blobs: The blobs stored out of line; None for a write without blob columns.

    Example:
        >>> df = spark.createDataFrame([(1, "pen"), (2, "cup")], "id INT, name STRING")
        >>> result = hv.write(df, "/tmp/goods", record_key="id")
        >>> result.inserted, result.skipped
        (2, 0)
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
    erased: int = 0
