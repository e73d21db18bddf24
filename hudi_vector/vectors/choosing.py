"""``hv.vectors.use``: the column for searches that name none, by a commit without rows and a property of the table.

The property keeps all choices with the instants of their commits, since Hudi archives commits after a while.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import WriteError
from hudi_vector.schema import quoted
from hudi_vector.table.config import stored_properties
from hudi_vector.table.searched_column import FROM_THE_START, PROPERTY, Choice, choices_of, stored
from hudi_vector.vectors.opened import data_columns, opened_for_change, vector_named
from hudi_vector.vectors.result import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.writing.rewriting.rewrite import Rewriting

__all__ = ["choices_now", "keep_only_column", "use"]

_SAID = "_hudi_vector.searched.column"  # Hudi copies options that begin with _ into the commit
_TABLE = "org.apache.hudi.table.HoodieSparkTable"
_CONFIG = "org.apache.hudi.common.table.HoodieTableConfig"


@known_arguments()
def use(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    *,
    options: Mapping[str, object] | None = None,
) -> ColumnChange:
    """Choose the column for searches that name none, in one commit.

    ``hv.search``, ``hv.search_batch``, ``hv.open`` and the SQL functions of searches use the column from then on. A
    search as of an earlier instant uses the column of that time, and so does a table that Hudi restored to an earlier
    state. To go back, choose the old column.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: A VECTOR column.
        options: Settings of Hudi for the commit.

    Returns:
        The commit, which holds no rows; its `instant` is None if searches use the column already.

    Raises:
        UnknownColumnError: The table has no such column.
        InvalidTypeError: The column is no VECTOR.
        TableNotFoundError: There is no such table.
        WriteError: Spark or Hudi failed.

    Example:
        >>> hv.vectors.use(spark, "articles", "old").column
        'old'
        >>> hv.search(spark, "articles", query=[1.0, 2.0], k=3).count()
        3
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    from hudi_vector.writing.committing.commits import new_token
    from hudi_vector.writing.failures import in_one_sentence
    from hudi_vector.writing.rewriting.rewrite import commit_rows

    work = opened_for_change(spark, table, options)
    frame = work.known.frame
    name, vector = vector_named(frame.schema, column, work.table)
    choices = choices_now(work)
    if choices and choices[-1].column == name:
        return ColumnChange(work.known.source.uri, name, vector.descriptor, None)
    rows = frame.where("false").select(*[F.col(quoted(each)) for each in data_columns(frame)])
    with in_one_sentence(f"choosing column '{name}' of '{work.table}' failed"):
        made = commit_rows(replace(work, options={**work.options, _SAID: name}), rows, work.known, new_token())
        if made is None:
            raise WriteError(f"Hudi made no commit without rows for '{work.table}', so that no column was chosen")
        _store(work, [*choices, Choice(made.instant, name)])
    return ColumnChange(work.known.source.uri, name, vector.descriptor, made.instant)


def keep_only_column(work: Rewriting) -> None:
    """Choose the only VECTOR column of a table for searches, since it was made, if nothing was chosen before."""
    from hudi_vector.writing.target import vector_columns

    held = list(vector_columns(work.known.frame.schema))
    if len(held) == 1 and not choices_now(work):
        _store(work, [Choice(FROM_THE_START, held[0])])


def choices_now(work: Rewriting) -> list[Choice]:
    """Return the choices of a table, the earliest first."""
    from hudi_vector.writing.files import Files

    return choices_of(stored_properties(Files(work.spark).read, work.known.source.hadoop_path), work.table)


def _store(work: Rewriting, choices: list[Choice]) -> None:
    """Set the table's property, as Hudi sets its own: with a copy of the old file until the new one is whole."""
    from hudi_vector.spark.catalyst.handles import handles_of
    from hudi_vector.writing.client import hudi_client

    named = handles_of(work.spark).named
    with hudi_client(work.spark, work.known.source.hadoop_path, work.options) as client:
        meta = named(_TABLE).create(client.getConfig(), client.getEngineContext()).getMetaClient()
        changed = named("java.util.Properties")()
        changed.setProperty(PROPERTY, stored(choices))
        named(_CONFIG).update(meta.getStorage(), meta.getMetaPath(), changed)
