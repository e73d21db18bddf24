"""``hv.table_services.list_containers``: how much of each blob file is live, and which data files refer to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import number_of
from hudi_vector.shown import Shown
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.marking.container_index import container_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.options import Settings

__all__ = ["BlobContainer", "BlobContainers", "list_containers"]


@dataclass(frozen=True)
class BlobContainer:
    """A file in the blob area.

    Attributes:
        path: The file's path from the table's folder.
        bytes: The file's size.
        live_bytes: How many of its bytes retained data files refer to, each byte counted once.
        references: The number of distinct references to it.
        files: The number of data files that refer to it.
        newest: The newest of these data files, from the table's folder, or None.
        instant: The requested time of the action that wrote `newest`, or None.
    """

    path: str
    bytes: int
    live_bytes: int
    references: int
    files: int
    newest: str | None
    instant: str | None


@dataclass(frozen=True, repr=False)
class BlobContainers(Shown):
    """The files in a table's blob area; if there are doubts, more bytes may be live than are counted.

    Example:
        >>> found = hv.table_services.list_containers(spark, "photos")
        >>> found.live_bytes <= found.bytes
        True
    """

    table: str
    containers: list[BlobContainer]
    doubts: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Return the total size of the files."""
        return sum(container.bytes for container in self.containers)

    @property
    def live_bytes(self) -> int:
        """Return the number of live bytes in all files."""
        return sum(container.live_bytes for container in self.containers)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each file, with the fields of `BlobContainer`, ordered by path."""
        return [asdict(container) for container in self.containers]

    def lines(self) -> Iterator[str]:
        """Yield the totals as a few sentences for people."""
        yield from (f"more may be live: {doubt}" for doubt in self.doubts)
        yield f"{self.live_bytes} of {self.bytes} bytes in {number_of(len(self.containers), 'file')} are live"


@known_arguments()
def list_containers(spark: SparkSession | Settings | None, table: str | os.PathLike[str]) -> BlobContainers:
    """List the files in a table's blob area, with their live bytes and the number of references to them.

    A byte is live if any data file on storage refers to it, superseded rows and replaced file groups included; the
    cleaner uses the same definition. References from other tables are not counted. The result is kept and computed
    again when the table has changed; then only new data files are read.

    Args:
        spark: A registered session; or, as for `clean_blobs`, `Settings` or None.
        table: The name or path of a Hudi table.

    Returns:
        The files, ordered by path.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> found = hv.table_services.list_containers(spark, "photos")
        >>> [file.path for file in found.containers if 2 * file.live_bytes < file.bytes]
        []
    """
    place = ServiceTable.of(spark, table)
    found = container_index(place.table, place.references, place.options)
    place.keep_references(forget=False)
    below = f"{place.table}/"
    rows = found.containers.rename_columns({"uri": "path"}).to_pylist()
    for row in rows:
        row |= {name: row[name] and row[name].removeprefix(below) for name in ("path", "newest")}
    return BlobContainers(place.table, [BlobContainer(**row) for row in rows], found.doubts)
