"""Sizes of a table at one moment: its blobs by column, its trash, and its vector indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import number_of
from hudi_vector.storage import open_storage
from hudi_vector.table_services.located import locate
from hudi_vector.table_services.trash.trash import list_trash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ColumnFigures", "Figures", "IndexFigures", "add_up", "measure"]

_SUMS = ("blobs", "bytes", "dead_bytes", "dangling")


@dataclass(frozen=True)
class ColumnFigures:
    """Figures of one BLOB column in the newest snapshot.

    Attributes:
        column: The column's dotted path; empty for files in the blob area that belong to no column.
        blobs: The number of rows with a blob.
        inline: Bytes in the table's data files.
        managed: Bytes that rows refer to in files that the table owns.
        external: Bytes that rows refer to in other files.
        dead: Bytes in the blob area that no row of the newest snapshot refers to.
        dangling: The number of rows whose bytes are missing.
    """

    column: str
    blobs: int = 0
    inline: int = 0
    managed: int = 0
    external: int = 0
    dead: int = 0
    dangling: int = 0

    @property
    def live(self) -> int:
        """Return the number of bytes that rows of the newest snapshot refer to, in any file."""
        return self.inline + self.managed + self.external


@dataclass(frozen=True)
class IndexFigures:
    """Figures of one vector index.

    Attributes:
        name: Column, metric and kind.
        files: The number of base files in the newest snapshot.
        covered: The number of these that have a segment.
        rows: The number of rows in the covered files.
        bytes: Bytes of the index's segments.
        imbalance: How uneven the lists of the index are; 1 if they have equal lengths.
        recall: The recall that was measured last; None if it was never measured.
        milliseconds: The median search latency that was measured last; None if it was never measured.
    """

    name: str
    files: int
    covered: int
    rows: int
    bytes: int
    imbalance: float
    recall: float | None = None
    milliseconds: float | None = None


@dataclass(frozen=True)
class Figures:
    """Figures of a table's blobs and indexes at one moment.

    Attributes:
        columns: The figures of each column, ordered by name.
        trash_files: The number of files in the trash.
        trash: The bytes of these files.
        indexes: The figures of each index, ordered by name.
    """

    columns: tuple[ColumnFigures, ...]
    trash_files: int = 0
    trash: int = 0
    indexes: tuple[IndexFigures, ...] = ()

    @property
    def whole(self) -> ColumnFigures:
        """Return the sums over all columns."""
        names = ("blobs", "inline", "managed", "external", "dead", "dangling")
        sums = {name: sum(getattr(column, name) for column in self.columns) for name in names}
        return ColumnFigures("", **sums)

    def lines(self) -> Iterator[str]:
        """Yield a sentence about blobs, if there are any, and one about each index, without line ends."""
        whole = self.whole
        if self.columns or self.trash_files:
            sizes = f"{whole.live} bytes live, {whole.dead} bytes dead, {self.trash} bytes in the trash"
            yield f"{sizes}, {whole.dangling} dangling"
        for index in self.indexes:
            yield f"{index.covered} of {number_of(index.files, 'base file')} covered by the index {index.name}"

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Figures:
        """Make figures from their JSON form."""
        columns = tuple(ColumnFigures(**column) for column in body["columns"])
        indexes = tuple(IndexFigures(**index) for index in body.get("indexes", ()))
        return cls(**{**body, "columns": columns, "indexes": indexes})


def measure(spark: SparkSession, table: str) -> Figures:
    """Count the blobs of a table's newest snapshot, the files in its trash, and what its indexes cover.

    Bytes of blobs are not read. Raise TableNotFoundError if there is no such table, and UnsupportedTableError for a
    view that does more than name a table, or if it is not a Hudi table.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

    from hudi_vector.spark.blobs.inventory import inventory

    root, _, options = locate(spark, table)
    rows = inventory(spark, table).groupBy("column", "kind").agg(*(F.sum(name).alias(name) for name in _SUMS)).collect()
    trash = list_trash(open_storage(root, options), root)
    columns = add_up(row.asDict() for row in rows)
    return Figures(columns, len(trash), sum(file.bytes for file in trash), _indexes(spark, table))


def _indexes(spark: SparkSession, table: str) -> tuple[IndexFigures, ...]:
    from hudi_vector.table_services.vector_index.api import describe

    return tuple(
        IndexFigures(
            name=f"{one.column}, {one.metric}, {one.kind}",
            files=one.files,
            covered=one.covered_files,
            rows=one.covered_rows,
            bytes=one.bytes,
            imbalance=one.imbalance,
            recall=one.recalls[-1][1] if one.recalls else None,
            milliseconds=one.latencies[-1][1] if one.latencies else None,
        )
        for one in describe(spark, table)
    )


def add_up(rows: Iterable[Mapping[str, Any]]) -> tuple[ColumnFigures, ...]:
    """Return the figures of each column, ordered by name, from sums of an inventory by `column` and `kind`.

    Example:
        >>> row = {"column": "img", "kind": "inline", "blobs": 2, "bytes": 30, "dead_bytes": 0, "dangling": 0}
        >>> add_up([row])
        (ColumnFigures(column='img', blobs=2, inline=30, managed=0, external=0, dead=0, dangling=0),)
    """
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        figures = found.setdefault(row["column"] or "", {})
        named = {
            "blobs": row["blobs"],
            row["kind"]: row["bytes"],
            "dead": row["dead_bytes"],
            "dangling": row["dangling"],
        }
        for name, number in named.items():
            figures[name] = figures.get(name, 0) + (number or 0)
    return tuple(ColumnFigures(column, **figures) for column, figures in sorted(found.items()))
