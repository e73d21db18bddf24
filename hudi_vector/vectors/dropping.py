"""``hv.vectors.drop_column``: the vectors of a column leave the newest files, with its indexes and the column itself.

Rows are written again with NULL in the column, a few file groups in each commit, as a backfill writes them. The last
commit, without rows, takes the column out of the table's schema.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hudi_vector.arguments import as_count, as_text, known_arguments
from hudi_vector.errors import DataFileError, InvalidArgumentError, number_of
from hudi_vector.events import heard_as
from hudi_vector.progress import followed
from hudi_vector.schema import VectorType, quoted
from hudi_vector.shown import Listed, Shown
from hudi_vector.storage import path_text
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.located import locate_anyhow
from hudi_vector.vectors.choosing import choices_now
from hudi_vector.vectors.column_commits import ColumnCommits, values_schema
from hudi_vector.vectors.embedding import VECTOR
from hudi_vector.vectors.holders import ColumnHolder, holders_of
from hudi_vector.vectors.opened import data_columns, opened_for_change, renew_in_catalog, vector_named
from hudi_vector.vectors.price import Batch, batches, group_work, written_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.options import Settings
    from hudi_vector.spark.blobs.table import BlobTable

__all__ = ["DropResult", "drop_column", "find_vectors"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class DropResult(Shown):
    """The price of dropping a vector column, what the run wrote, and which files still hold vectors of the column.

    Attributes:
        table: The table's base path.
        column: The column.
        dry_run: True if the run only computed the price.
        to_clear: The rows with a vector when the run began.
        estimated_commits: The commits that the run planned.
        estimated_bytes: About the bytes that it expected to write, from the present size of the file groups.
        cleared: The rows that the run wrote with NULL in the column.
        instants: The commits of the run; the last one took the column out of the schema.
        written_bytes: The bytes of the data files that the commits wrote.
        indexes: The number of indexes of the column that were removed.
        dropped: True if the column is not in the schema any more.
        holders: The data files that still hold vectors of the column, each with what removes it.

    Example:
        >>> added = hv.vectors.add_column(spark, "articles", "spare", 3)
        >>> dropped = hv.vectors.drop_column(spark, "articles", "spare")
        >>> dropped.dropped, dropped.holders
        (True, ())
    """

    table: str
    column: str
    dry_run: bool
    to_clear: int
    estimated_commits: int
    estimated_bytes: int
    cleared: int = 0
    instants: tuple[str, ...] = ()
    written_bytes: int = 0
    indexes: int = 0
    dropped: bool = False
    holders: tuple[ColumnHolder, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the price, what was written, and what still holds vectors."""
        yield (
            f"price: {number_of(self.to_clear, 'row')} with '{self.column}', "
            f"{number_of(self.estimated_commits, 'commit')}, "
            f"about {self.estimated_bytes} bytes to write"
        )
        if not self.dry_run:
            yield (
                f"written: {number_of(self.cleared, 'row')}, {number_of(len(self.instants), 'commit')}, "
                f"{self.written_bytes} bytes"
            )
            yield (
                f"column '{self.column}' is dropped; {number_of(self.indexes, 'index was', 'indexes were')} removed"
                if self.dropped
                else f"column '{self.column}' is still there, as other writers wrote vectors meanwhile; run it again"
            )
        yield f"{number_of(len(self.holders), 'data file holds', 'data files hold')} vectors of '{self.column}'"


@known_arguments()
@heard_as("vectors.drop_column")
def drop_column(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    *,
    batch_rows: int = 100_000,
    dry_run: bool = False,
    options: Mapping[str, object] | None = None,
) -> DropResult:
    """Drop a vector column with its indexes, and remove its vectors from the newest version of each file.

    The rows are written again without their vector, so that no newer file holds it; then the column leaves the schema.
    The run can be killed at any time and started again. Files of earlier versions hold the vectors until Hudi's clean
    removes them, and with merge-on-read base files do until Hudi's compaction; `find_vectors` lists them at any time.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: A VECTOR column, which searches without a column do not use.
        batch_rows: The most rows of one commit, as for `backfill`.
        dry_run: Only compute the price, and list the files.
        options: Settings of Hudi for the commits.

    Returns:
        The price, what was written, and the files that still hold vectors of the column.

    Raises:
        InvalidArgumentError: Searches that name no column use the column.
        InvalidTypeError: The column is no VECTOR.
        RefusedError: Other writers changed the same files during each of three attempts of a commit.
        TableNotFoundError: There is no such table.
        DataFileError: A data file cannot be read.
        WriteError: Spark or Hudi failed.

    Example:
        >>> added = hv.vectors.add_column(spark, "articles", "tried", 2)
        >>> hv.vectors.drop_column(spark, "articles", "tried", dry_run=True).to_clear
        0
    """
    most = as_count(batch_rows, "batch_rows") or 0
    work = opened_for_change(spark, table, options)
    name, vector = vector_named(work.known.frame.schema, column, work.table)
    choices = choices_now(work)
    if not choices or choices[-1].column == name:
        raise InvalidArgumentError(
            f"searches of '{work.table}' that name no column use '{name}', or none was chosen for them; choose another "
            "one with hv.vectors.use before it is dropped"
        )
    return _Run(ColumnCommits(work, name), vector, most).done(dry_run)


@known_arguments()
def find_vectors(
    spark: SparkSession | Settings | None, table: str | os.PathLike[str], column: str
) -> Listed[ColumnHolder]:
    """Find the data files of all retained versions of a table that hold vectors of a column, dropped or not.

    Args:
        spark: A registered session; or `Settings` of `hudi_vector.options`, if `table` is a path; or None for the
            default settings, if it is a path on this machine.
        table: The name or path of a Hudi table.
        column: The column's name, spelled as in the files.

    Returns:
        The files, each with what removes it; none if no data file holds a vector of the column.

    Raises:
        DataFileError: A data file cannot be read, so that it is unknown what it holds.
        TableNotFoundError: There is no such table.

    Example:
        >>> len(hv.vectors.find_vectors(spark, "articles", "old")) > 0
        True
    """
    name, label = as_text(column, "column"), as_text(path_text(table), "table")
    root, spelled, options = locate_anyhow(spark, label)
    return Listed(_holders(NativeTable(Source(root, label, options, spelled)), name))


@dataclass(frozen=True)
class _Run:
    """A drop of a column."""

    commits: ColumnCommits
    vector: VectorType
    most: int

    def done(self, dry_run: bool) -> DropResult:
        """Return the price, after the run unless it is a dry one."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        work, column = self.commits.work, self.commits.column
        merges = work.known.config.merge_on_read
        groups = group_work(work.known, F.col(quoted(column)).isNotNull())
        planned = list(batches(groups, self.most, merges))
        size = written_bytes(groups, self.vector, merges)
        price = DropResult(
            table=work.known.source.uri,
            column=column,
            dry_run=dry_run,
            to_clear=sum(group.rows for group in groups),
            estimated_commits=len(planned) + 1,
            estimated_bytes=max(0, size - 2 * sum(group.rows for group in groups) * self.vector.width),
        )
        if dry_run:
            return replace(price, holders=tuple(self._left()))
        indexes = self._clear(planned)
        last = self._take_out()
        return replace(
            price,
            cleared=self.commits.rows,
            instants=(*self.commits.instants, *([last] if last else [])),
            written_bytes=self.commits.written_bytes(),
            indexes=indexes,
            dropped=last is not None,
            holders=tuple(self._left()),
        )

    def _left(self) -> list[ColumnHolder]:
        """Return the files that hold vectors of the column now."""
        return _holders(NativeTable(self.commits.work.known.source), self.commits.column)

    def _clear(self, planned: list[Batch]) -> int:
        """Write the rows again without vectors, remove the indexes, and return the number of these."""
        from hudi_vector.table_services.vector_index.api import drop
        from hudi_vector.writing.failures import in_one_sentence

        work, column = self.commits.work, self.commits.column
        gone = drop(work.spark, work.table, column)
        for batch in followed(planned, len(planned), f"commits that clear '{column}'"):
            with in_one_sentence(f"clearing '{column}' of '{work.table}' failed"):
                self.commits.write(partial(self._empty, batch))
        return len(gone)

    def _empty(self, batch: Batch, table: BlobTable) -> DataFrame:
        """Return the keys of the rows of a batch that have a vector, with NULL."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        from hudi_vector.writing.rewriting.repack import key_columns

        rows = batch.chosen(table.frame, F.col(quoted(self.commits.column)).isNotNull())
        none = F.lit(None).cast(values_schema(self.vector)[VECTOR].dataType).alias(VECTOR)
        return rows.select(*key_columns(table), none)

    def _take_out(self) -> str | None:
        """Take the column out of the schema by a commit without rows; return it, None if a row has a vector again."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        from hudi_vector.writing.committing.commits import new_token
        from hudi_vector.writing.failures import in_one_sentence
        from hudi_vector.writing.hudi_options import DROP_COLUMNS
        from hudi_vector.writing.rewriting.rewrite import commit_rows

        work, column = self.commits.work, self.commits.column
        with in_one_sentence(f"dropping '{column}' of '{work.table}' failed"):
            table = work.now()
            if not table.frame.where(F.col(quoted(column)).isNotNull()).isEmpty():
                return None
            names = [F.col(quoted(name)) for name in data_columns(table.frame) if name != column]
            dropping = replace(work, options={**work.options, DROP_COLUMNS: "true"})
            made = commit_rows(dropping, table.frame.where("false").select(*names), table, new_token())
            renew_in_catalog(work)
        return made.instant if made else None


def _holders(native: NativeTable, column: str) -> list[ColumnHolder]:
    holders, doubts = holders_of(native, column)
    if doubts:
        name = native.source.name
        raise DataFileError(f"it is unknown which files of '{name}' hold vectors of '{column}': {doubts[0]}")
    return holders
