"""Whose file a reference names: the table's own, another table's, or one that lies anywhere else."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.blobs.names import BLOB_AREA, ContainerName
from hudi_vector.blobs.paths import file_uri
from hudi_vector.storage import join, normalise

__all__ = ["BlobArea"]


@dataclass(frozen=True)
class BlobArea:
    """The folder in which a table keeps its blobs.

    Attributes:
        table: Its base path, as `normalise` spells it.
        lenders: The base paths of the tables to whose blobs its rows may refer (`hudi_vector.blobs.registry`).

    Example:
        >>> BlobArea.of("/tables/t").owns("file:///tables/t/.hoodie/blobs/img/x.blob")
        True
    """

    table: str
    lenders: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: str) -> BlobArea:
        """The area of a table, whose base path may be spelled in any way."""
        return cls(normalise(table))

    @property
    def uri(self) -> str:
        """The folder."""
        return join(self.table, BLOB_AREA)

    def file(self, path: str) -> str:
        """The one spelling of a reference's path.

        Raises:
            InvalidBlobError: The path is empty or climbs.
        """
        return file_uri(path, self.table)

    def owns(self, uri: str) -> bool:
        """Whether a file lies in the area."""
        return uri.startswith(f"{self.uri}/")

    def is_foreign(self, uri: str) -> bool:
        """Whether a file lies in the area of another table, whose cleaner may delete it."""
        return f"/{BLOB_AREA}/" in uri and not self.owns(uri) and self.lender(uri) is None

    def lender(self, uri: str) -> str | None:
        """The table that lends a file: its cleaner keeps what this table refers to."""
        table, found, _ = uri.partition(f"/{BLOB_AREA}/")
        return table if found and table in self.lenders else None

    def owner(self, uri: str) -> tuple[str, str] | None:
        """The column and the partition a container was written for, None where its name does not say."""
        name = ContainerName.parse(self.table, uri)
        return None if name is None else (name.column, name.partition)
