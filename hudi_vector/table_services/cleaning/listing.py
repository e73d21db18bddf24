"""``hv.table_services.list_containers``: how much of each blob file is live, and who refers to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.table_services.cleaning.table import ServiceTable, keep_references
from hudi_vector.table_services.located import locate_here
from hudi_vector.table_services.marking.container_index import container_index
from hudi_vector.table_services.references.kept import KeptReferences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BlobContainer", "BlobContainers", "list_containers"]


@dataclass(frozen=True)
class BlobContainer:
    """A file in the blob area.

    Attributes:
        path: Its path from the table's folder.
        bytes: Its size.
        live_bytes: How many of them any retained data file refers to, each byte counted once.
        references: By how many distinct references.
        files: In how many data files.
        newest: The newest of these, from the table's folder; None without one.
        instant: The requested time of the action that wrote it.
    """

    path: str
    bytes: int
    live_bytes: int
    references: int
    files: int
    newest: str | None
    instant: str | None


@dataclass(frozen=True)
class BlobContainers:
    """The files in a table's blob area; where there is a doubt, more may be live than is counted."""

    table: str
    containers: list[BlobContainer]
    doubts: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return sum(container.bytes for container in self.containers)

    @property
    def live_bytes(self) -> int:
        """How many of these are live."""
        return sum(container.live_bytes for container in self.containers)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each file, with the fields of `BlobContainer`, by path."""
        return [asdict(container) for container in self.containers]

    def lines(self) -> Iterator[str]:
        """The totals in a few sentences for people."""
        yield from (f"more may be live: {doubt}" for doubt in self.doubts)
        yield f"{self.live_bytes} of {self.bytes} bytes in {len(self.containers)} files are live"


def list_containers(spark: SparkSession | None, table: str | os.PathLike[str]) -> BlobContainers:
    """List the files in a table's blob area, with how much of each is live and who refers to it.

    Live is what any data file refers to that is physically there, superseded rows and replaced file groups too: what
    the cleaner goes by. References of other tables are not counted. The answer is kept, and made anew when the table
    has changed; only data files that are new are read.

    Args:
        spark: A registered session; None for a path on this machine, whose data files this process then reads.
        table: The name or path of a Hudi table.

    Returns:
        The files, by path.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> found = hv.table_services.list_containers(spark, "photos")
        >>> [file.path for file in found.containers if 2 * file.live_bytes < file.bytes]
        []
    """
    if spark is None:
        root, _, options = locate_here(table)
        references = KeptReferences(root, options)
    else:
        place = ServiceTable.of(spark, table)
        root, options, references = place.table, place.options, place.references
    found = container_index(root, references, options)
    keep_references(references, root, forget=False)
    below = f"{root}/"
    rows = found.containers.rename_columns({"uri": "path"}).to_pylist()
    for row in rows:
        row |= {name: row[name] and row[name].removeprefix(below) for name in ("path", "newest")}
    return BlobContainers(root, [BlobContainer(**row) for row in rows], found.doubts)
