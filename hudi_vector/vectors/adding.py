"""``hv.vectors.add_column``: a new VECTOR column, by a commit without rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.arguments import as_text, known_arguments
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.schema import HUDI_TYPE, VectorType, quoted, vector_field
from hudi_vector.vectors.choosing import keep_only_column
from hudi_vector.vectors.opened import data_columns, opened_for_change, renew_in_catalog
from hudi_vector.vectors.result import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.writing.request import VectorSpec

__all__ = ["add_column"]

_NULLS = "hoodie.write.set.null.for.missing.columns"
"""A setting for writers that lack columns; with it Hudi 1.2.0 adds no column to a table with a BLOB."""


@known_arguments()
def add_column(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    vector: VectorSpec,
    *,
    options: Mapping[str, object] | None = None,
) -> ColumnChange:
    """Add a VECTOR column to a table, by one commit that writes no row.

    All rows have NULL in the column afterwards. No data file is written: Hudi reads the column as NULL from files that
    do not hold it. Searches that name no column go on with the column they used until `use` says otherwise.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table. Give the name of a table that the catalog has, which then shows the
            column too.
        column: The name of the new column.
        vector: Its type: a dimension, a dimension with ``"float"``, ``"double"`` or ``"int8"``, or a text such as
            ``"VECTOR(768)"``.
        options: Settings of Hudi for the commit.

    Returns:
        The commit; its `instant` is None if the table has the column already, with this type.

    Raises:
        InvalidArgumentError: The table has a column of that name and another type, or the name or type is not allowed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: The table has no meta columns.
        WriteError: Spark or Hudi failed.

    Example:
        >>> hv.vectors.add_column(spark, "articles", "new", "VECTOR(8)").vector
        'VECTOR(8)'
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

    from hudi_vector.writing.committing.commits import new_token
    from hudi_vector.writing.failures import in_one_sentence
    from hudi_vector.writing.request import vector_type
    from hudi_vector.writing.rewriting.rewrite import commit_rows

    name = _new_name(column)
    kind = vector_type(name, vector)
    work = opened_for_change(spark, table, options)
    schema = work.known.frame.schema
    known = next((field for field in schema.fields if field.name.lower() == name.lower()), None)
    if known is not None:
        _require_same(work.table, known.name, str(known.metadata.get(HUDI_TYPE, "")) or known.dataType, kind)
        return ColumnChange(work.known.source.uri, known.name, kind.descriptor, None)
    keep_only_column(work)
    work = replace(work, options={**work.options, _NULLS: "false"})
    field = vector_field(name, kind.dimension, kind.element)
    empty = F.lit(None).cast(field.dataType).alias(name, metadata=field.metadata)
    kept = [F.col(quoted(each)) for each in data_columns(work.known.frame)]
    with in_one_sentence(f"adding column '{name}' to '{work.table}' failed"):
        made = commit_rows(work, work.known.frame.where("false").select(*kept, empty), work.known, new_token())
        renew_in_catalog(work)
    return ColumnChange(work.known.source.uri, name, kind.descriptor, made.instant if made else None)


def _new_name(column: object) -> str:
    name = (as_text(column, "column")).strip()
    if name.startswith("_hoodie_") or "." in name:
        raise InvalidArgumentError(
            f"column '{name}' cannot be added: names with a dot are of nested fields, and _hoodie_ begins the names of "
            "Hudi's own columns; give another name"
        )
    return name


def _require_same(table: str, column: str, present: object, wanted: VectorType) -> None:
    text = present if isinstance(present, str) else present.simpleString().upper()  # type: ignore[attr-defined]
    if not text.upper().startswith("VECTOR") or VectorType.parse(text) != wanted:
        raise InvalidArgumentError(
            f"'{table}' has a column '{column}' already, of type {text}, which is not {wanted.descriptor}; "
            "give another name"
        )
