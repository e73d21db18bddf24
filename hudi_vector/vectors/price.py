"""The price of a backfill: what its commits will write, by file group, and which rows each commit takes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from hudi_vector.schema import VectorType, quoted
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hudi_vector.spark.blobs.table import BlobTable

__all__ = ["Batch", "GroupWork", "batches", "group_work", "is_missing", "written_bytes"]

_MOST_NAMED = 32  # Spark takes long to plan conditions with more parts


@dataclass(frozen=True)
class GroupWork:
    """A file group with rows to fill: `rows` of its `all_rows`; `size` is the bytes of its newest slice."""

    partition: str
    file_id: str
    rows: int
    all_rows: int
    size: int

    def written(self, vector: VectorType, merge_on_read: bool) -> int:
        """Return the bytes that filling the group writes: all its rows on COW, the filled rows on MOR."""
        share = self.rows / max(1, self.all_rows) if merge_on_read else 1.0
        return round(self.size * share) + self.rows * vector.width


@dataclass(frozen=True)
class Batch:
    """The rows of one commit: those to fill of some file groups, at most `limit` of them; None for all."""

    groups: tuple[GroupWork, ...]
    rows: int
    limit: int | None = None

    def chosen(self, frame: DataFrame, missing: Column) -> DataFrame:
        """Return the rows of the batch without a vector; files of other groups are skipped where they can be."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        name, ids = F.col("_hoodie_file_name"), [group.file_id for group in self.groups]
        found = F.substring_index(name, "_", 1).isin(ids)
        if len(ids) <= _MOST_NAMED:
            # Parquet compares these with a file's smallest and largest name, unlike the condition above.
            begins = [name.startswith(f"{each}_") | (name == each) for each in ids]
            found = reduce(operator.or_, begins, F.lit(False))
        rows = frame.where(found).where(missing)
        return rows if self.limit is None else rows.limit(self.limit)


def group_work(table: BlobTable, missing: Column) -> list[GroupWork]:
    """Return the file groups with rows to fill, by partition and file id.

    `missing` is true for the rows to fill. The count reads the columns that `missing` names.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    slices = NativeTable(table.source).snapshot().file_slices
    sizes = {(entry.partition_path, entry.file_id): entry.size for entry in slices}
    file_id = F.substring_index(F.col("_hoodie_file_name"), "_", 1)
    counted = table.frame.groupBy(F.col("_hoodie_partition_path").alias("partition"), file_id.alias("file_id")).agg(
        F.count(F.lit(1)).alias("all_rows"), F.sum(missing.cast("int")).alias("rows")
    )
    found = counted.where("rows > 0").collect()
    return sorted(
        (
            GroupWork(row["partition"], row["file_id"], row["rows"], row["all_rows"], sizes.get((row[0], row[1]), 0))
            for row in found
        ),
        key=lambda group: (group.partition, group.file_id),
    )


def batches(groups: Sequence[GroupWork], most: int, merge_on_read: bool) -> Iterator[Batch]:
    """Yield the commits of a backfill, of at most `most` rows each.

    On COW a commit rewrites the base files of its groups, so that a group is never split, even if it has more rows. On
    MOR a commit writes the rows alone, and a large group is filled by several commits.

    Example:
        >>> groups = [GroupWork("", "a", 3, 3, 9), GroupWork("", "b", 9, 9, 9)]
        >>> [batch.rows for batch in batches(groups, 4, False)], [batch.rows for batch in batches(groups, 4, True)]
        ([3, 9], [3, 4, 4, 1])
    """
    taken: list[GroupWork] = []
    for group in groups:
        if taken and sum(each.rows for each in taken) + group.rows > most:
            yield Batch(tuple(taken), sum(each.rows for each in taken))
            taken = []
        if merge_on_read and group.rows > most:
            for begun in range(0, group.rows, most):
                yield Batch((group,), min(most, group.rows - begun), most)
        else:
            taken.append(group)
    if taken:
        yield Batch(tuple(taken), sum(each.rows for each in taken))


def written_bytes(groups: Sequence[GroupWork], vector: VectorType, merge_on_read: bool) -> int:
    """Return the estimated bytes that a backfill of the groups writes.

    Example:
        >>> written_bytes([GroupWork("", "a", 10, 100, 5000)], VectorType(4), False)
        5160
        >>> written_bytes([GroupWork("", "a", 10, 100, 5000)], VectorType(4), True)
        660
    """
    return sum(group.written(vector, merge_on_read) for group in groups)


def is_missing(column: str, source: Sequence[str]) -> Column:
    """Return a condition for rows without a vector that have a value in every source column."""
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    found = F.col(quoted(column)).isNull()
    for name in source:
        found = found & F.col(quoted(name)).isNotNull()
    return found
