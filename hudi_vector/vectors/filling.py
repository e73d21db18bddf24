"""``hv.vectors.backfill``: the empty vectors of a column are computed and written, a few file groups in each commit.

The rows without a vector are what is left to do, so a run that was killed goes on with them when it is started again.
Each commit holds rows of which the version is still the one whose source was read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_count, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.events import heard_as
from hudi_vector.progress import followed
from hudi_vector.schema import VectorType, quoted
from hudi_vector.shown import Shown
from hudi_vector.table_services.arguments import texts
from hudi_vector.vectors.column_commits import ColumnCommits, values_schema
from hudi_vector.vectors.embedding import Embedding
from hudi_vector.vectors.opened import found_column, opened_for_change, vector_named
from hudi_vector.vectors.price import Batch, GroupWork, batches, group_work, is_missing, written_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.spark.blobs.table import BlobTable

__all__ = ["BackfillResult", "backfill"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class BackfillResult(Shown):
    """The price of a backfill, and what the run wrote.

    Attributes:
        table: The table's base path.
        column: The filled column.
        dry_run: True if the run only computed the price.
        to_fill: The rows without a vector, with a value in each source column, when the run began.
        file_groups: The file groups that hold these rows.
        vector_bytes: The bytes of their vectors.
        estimated_commits: The commits that the run planned.
        estimated_bytes: The bytes that it expected to write: with copy-on-write all rows of the file
            groups, since base files are rewritten, and with merge-on-read the filled rows, each with the new vectors.
        filled: The rows that the run filled.
        changed: The rows that other writers changed during the run, and that it left as they are; start it again.
        instants: The commits of the run.
        written_bytes: The bytes of the data files that these commits wrote.

    Example:
        >>> added = hv.vectors.add_column(spark, "articles", "priced", 4)
        >>> price = hv.vectors.backfill(
        ...     spark, "articles", "priced", lambda rows: rows[["id"]].to_numpy() * [1, 2, 3, 4],
        ...     source="id", dry_run=True,
        ... )
        >>> price.to_fill, price.estimated_commits, price.filled
        (20, 1, 0)
    """

    table: str
    column: str
    dry_run: bool
    to_fill: int
    file_groups: int
    vector_bytes: int
    estimated_commits: int
    estimated_bytes: int
    filled: int = 0
    changed: int = 0
    instants: tuple[str, ...] = ()
    written_bytes: int = 0

    def lines(self) -> Iterator[str]:
        """Yield the price, and what was written."""
        yield (
            f"price: {number_of(self.to_fill, 'row')} without '{self.column}' in "
            f"{number_of(self.file_groups, 'file group')}, "
            f"{number_of(self.estimated_commits, 'commit')}, about {self.estimated_bytes} bytes to write"
        )
        if self.dry_run:
            yield "nothing was written: this was a dry run"
            return
        yield (
            f"written: {number_of(self.filled, 'row')}, {number_of(len(self.instants), 'commit')}, "
            f"{self.written_bytes} bytes"
        )
        if self.changed:
            yield (
                f"{number_of(self.changed, 'row was', 'rows were')} changed by other writers meanwhile; run it again "
                "for them"
            )


@known_arguments()
@heard_as("vectors.backfill")
def backfill(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    embed: Callable[[Any], Any],
    *,
    source: str | list[str],
    batch_rows: int = 100_000,
    call_rows: int = 256,
    dry_run: bool = False,
    options: Mapping[str, object] | None = None,
) -> BackfillResult:
    """Fill the rows of a vector column that have no vector, by vectors that a function makes of other columns.

    The run can be killed at any time: the rows of its completed commits keep their vectors, and the next run goes on
    with the rows that have none. Rows with NULL in a source column are left without a vector.

    A row that another writer changed after its source was read keeps that writer's values, and gets no vector of the
    old source. If both write the same files at the same time, Hudi refuses the commit of the run, which is tried again;
    a row of theirs that the commit replaced nevertheless is written again as they wrote it. The commits of the run do
    not clean, so the states of the table from before the run stay readable until the next write.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: A VECTOR column.
        embed: A function of a pandas DataFrame with the source columns that returns an array of shape (rows, dimension)
            of finite numbers. It runs in Spark's Python workers, so that it is pickled; a model is best loaded by the
            function itself, once a process.
        source: The columns that `embed` reads, one or several.
        batch_rows: The most rows of one commit. With copy-on-write a file group is never split, since each commit
            rewrites its base file: one with more rows is filled by one commit.
        call_rows: The most rows that `embed` gets at once.
        dry_run: Only compute the price: rows, file groups, commits and bytes.
        options: Settings of Hudi for the commits, such as ``hoodie.write.lock.provider``.

    Returns:
        The price, and what was written.

    Raises:
        InvalidTypeError: The column is no VECTOR, or an argument has a wrong type.
        DimensionMismatchError: `embed` returned an array of another shape.
        InvalidVectorError: `embed` returned NaN, infinity, or numbers that the column's type cannot hold.
        RefusedError: Other writers changed the same files during each of three attempts of a commit.
        TableNotFoundError: There is no such table.
        WriteError: Spark or Hudi failed.

    Example:
        >>> added = hv.vectors.add_column(spark, "articles", "filled", 2)
        >>> filled = hv.vectors.backfill(
        ...     spark, "articles", "filled", lambda rows: [[len(text), 1] for text in rows["text"]], source="text"
        ... )
        >>> filled.filled
        20
    """
    if not callable(embed):
        raise InvalidTypeError(f"embed is a function of a pandas DataFrame of the source columns, not {embed!r}")
    most = as_count(batch_rows, "batch_rows") or 0
    at_once = as_count(call_rows, "call_rows") or 0
    work = opened_for_change(spark, table, options)
    schema = work.known.frame.schema
    name, vector = vector_named(schema, column, work.table)
    sources = [found_column(schema, each, work.table) for each in texts("source", source)]
    if not sources or name in sources:
        raise InvalidArgumentError(
            f"source is {sources}; name one or more columns of '{work.table}' other than '{name}' from which embed "
            "computes the vectors"
        )
    run = _Run(ColumnCommits(work, name), vector, sources, Embedding(embed, sources, vector, at_once))
    groups = group_work(work.known, is_missing(name, sources))
    return run.result(groups, most, dry_run=True) if dry_run else run.fill(groups, most)


@dataclass(frozen=True)
class _Run:
    """A backfill of a column: how its vectors are made, and where they are committed."""

    commits: ColumnCommits
    vector: VectorType
    sources: list[str]
    embedding: Embedding

    def result(self, groups: list[GroupWork], most: int, dry_run: bool) -> BackfillResult:
        """Return the price of filling the groups, and what the commits so far have written."""
        work, commits = self.commits.work, self.commits
        merges, rows = work.known.config.merge_on_read, sum(group.rows for group in groups)
        return BackfillResult(
            table=work.known.source.uri,
            column=commits.column,
            dry_run=dry_run,
            to_fill=rows,
            file_groups=len(groups),
            vector_bytes=rows * self.vector.width,
            estimated_commits=sum(1 for _ in batches(groups, most, merges)),
            estimated_bytes=written_bytes(groups, self.vector, merges),
            filled=commits.rows,
            changed=commits.changed,
            instants=tuple(commits.instants),
            written_bytes=commits.written_bytes(),
        )

    def fill(self, groups: list[GroupWork], most: int) -> BackfillResult:
        """Fill the groups, a commit for each batch."""
        from hudi_vector.writing.failures import in_one_sentence

        work, column = self.commits.work, self.commits.column
        price = self.result(groups, most, dry_run=True)
        _LOG.info(
            "filling '%s' of '%s': %d rows, %d commits, about %d bytes",
            column, work.table, price.to_fill, price.estimated_commits, price.estimated_bytes,
        )  # fmt: skip
        planned = list(batches(groups, most, work.known.config.merge_on_read))
        for batch in followed(planned, len(planned), f"commits that fill '{column}'"):
            with in_one_sentence(f"filling '{column}' of '{work.table}' failed"):
                self.commits.write(partial(self._vectors, batch))
        return self.result(groups, most, dry_run=False)

    def _vectors(self, batch: Batch, table: BlobTable) -> DataFrame:
        """Return the keys of the rows of a batch that have no vector, with the vectors that they get."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
        from hudi_vector.writing.rewriting.repack import key_columns

        rows = batch.chosen(table.frame, is_missing(self.commits.column, self.sources))
        sources = [F.col(quoted(each)).alias(f"source{place}") for place, each in enumerate(self.sources)]
        return map_in_arrow(rows.select(*key_columns(table), *sources), self.embedding, values_schema(self.vector))
