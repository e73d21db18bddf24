"""The blob area of a table, and whose area a file lies in."""

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
        table: The table's base path, as `normalise` spells it.
        lenders: The base paths of the tables to whose blobs the rows may refer (`hudi_vector.blobs.registry`).

    Example:
        >>> BlobArea.of("/tables/t").owns("file:///tables/t/.hoodie/blobs/img/x.blob")
        True
    """

    table: str
    lenders: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: str) -> BlobArea:
        """Return the area of a table without lenders; the base path may be spelled in any form."""
        return cls(normalise(table))

    @property
    def uri(self) -> str:
        """Return the URI of the folder."""
        return join(self.table, BLOB_AREA)

    def file(self, path: str) -> str:
        """Return the URI of a reference's path. Raises InvalidBlobError if the path is invalid (see `file_uri`)."""
        return file_uri(path, self.table)

    def owns(self, uri: str) -> bool:
        """Return True if a file lies in this area."""
        return uri.startswith(f"{self.uri}/")

    def is_foreign(self, uri: str) -> bool:
        """Return True if a file lies in the area of a table that is no lender; that table's cleaner may delete it."""
        return f"/{BLOB_AREA}/" in uri and not self.owns(uri) and self.lender(uri) is None

    def lender(self, uri: str) -> str | None:
        """Return the lender in whose area a file lies, or None. A lender's cleaner keeps what this table refers to."""
        table, found, _ = uri.partition(f"/{BLOB_AREA}/")
        return table if found and table in self.lenders else None

    def owner(self, uri: str) -> tuple[str, str] | None:
        """Return the column and the partition for which a container was written, or None if its name does not say."""
        name = ContainerName.parse(self.table, uri)
        return None if name is None else (name.column, name.partition)
