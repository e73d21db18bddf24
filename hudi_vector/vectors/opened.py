"""A table whose vector columns change, opened for reading and writing on Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidTypeError, UnknownColumnError, UnsupportedTableError
from hudi_vector.schema import VectorType
from hudi_vector.table.avro_schema import WRITTEN_BY_HUDI

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hudi_vector.writing.rewriting.rewrite import Rewriting

__all__ = ["data_columns", "found_column", "opened_for_change", "renew_in_catalog", "vector_named"]


def opened_for_change(
    spark: SparkSession, table: str | os.PathLike[str], options: Mapping[str, object] | None
) -> Rewriting:
    """Return the table with the Hudi settings of its commits.

    Raises TableNotFoundError if there is no such table, and UnsupportedTableError if its rows have no meta columns,
    without which rows that others change meanwhile could not be recognised.
    """
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.storage import path_text
    from hudi_vector.table_services.arguments import hudi_settings
    from hudi_vector.writing.rewriting.rewrite import LOCKING, Rewriting

    known = BlobTable.of(spark, table)
    if not known.config.populates_meta_fields:
        raise UnsupportedTableError(
            f"'{known.label}' has no meta columns (hoodie.populate.meta.fields is false), so that rows which others "
            "change meanwhile cannot be recognised; write its rows again with hv.write"
        )
    set_here = {key: value for key in LOCKING if (value := spark.conf.get(key, None)) is not None}
    settings = {**set_here, **hudi_settings(options)}
    return Rewriting(spark, as_text(path_text(table), "table"), known, settings)


def data_columns(frame: DataFrame) -> list[str]:
    """Return the names of a table's columns without those that Hudi writes itself."""
    return [name for name in frame.columns if name not in WRITTEN_BY_HUDI]


def found_column(schema: StructType, column: object, table: str) -> str:
    """Return a column's name as the table spells it; raise UnknownColumnError if there is none."""
    wanted = as_text(column, "column")
    for name in schema.names:
        if name.lower() == wanted.lower():
            return str(name)
    raise UnknownColumnError.of(wanted, schema.names, table)


def renew_in_catalog(work: Rewriting) -> None:
    """Give the table's present columns to the catalog, which keeps those of its registration; nothing for a path."""
    import json

    from hudi_vector.spark.catalyst.handles import state_of
    from hudi_vector.writing.target import is_path

    if is_path(work.table):
        return
    state = state_of(work.spark)
    catalog, identifier = state.catalog, state.parser.parseTableIdentifier(work.table.removeprefix("spark_catalog."))
    if catalog.isTempView(identifier):
        return
    known = catalog.getTableMetadata(identifier)
    partitions = {known.partitionColumnNames().apply(number) for number in range(known.partitionColumnNames().size())}
    schema = json.loads(work.now().frame.schema.json())
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in partitions]
    for field in schema["fields"]:
        field["metadata"].pop("__metadata_col", None)  # Spark's mark of a relation's columns, not of a table's
    kept = work.spark._jsparkSession.parseDataType(json.dumps(schema))
    catalog.externalCatalog().alterTableDataSchema(known.database(), known.identifier().table(), kept)
    work.spark.catalog.refreshTable(work.table)


def vector_named(schema: StructType, column: object, table: str) -> tuple[str, VectorType]:
    """Return the name and the type of a VECTOR column; raise InvalidTypeError for a column of another type."""
    from hudi_vector.writing.target import vector_columns

    name = found_column(schema, column, table)
    vector = vector_columns(schema).get(name)
    if vector is None:
        raise InvalidTypeError(
            f"column '{name}' of '{table}' is {schema[name].dataType.simpleString().upper()}, which is no VECTOR; "
            "name a VECTOR column, or add one with hv.vectors.add_column"
        )
    return name, vector
