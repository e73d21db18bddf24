"""The target of a write: its path, and the existing table there, if any."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudi_vector.errors import HudiVectorError, InvalidArgumentError, TableNotFoundError, UnsupportedTableError
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.spark.catalyst.settings import pairs_of
from hudi_vector.spark.relation_schema import relation_schema
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import normalise, path_text
from hudi_vector.table.config import PROPERTIES, TableConfig, properties_of, read_properties
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from hudi_vector.writing.files import Files

__all__ = ["ExistingTable", "Target", "is_path", "resolve_target", "vector_columns"]

_OUR_CATALOG = "spark_catalog."


@dataclass(frozen=True)
class ExistingTable:
    """The configuration, properties and schema of a table before a write."""

    config: TableConfig
    properties: Mapping[str, str]
    schema: StructType

    @property
    def vectors(self) -> dict[str, VectorType]:
        """Return the table's vector columns by name."""
        return vector_columns(self.schema)


@dataclass(frozen=True)
class Target:
    """The path and table that a write goes to.

    `given` is the table as the user named it, `name` the Hudi table name, `quoted_name` the name in the catalog (None
    for a path), `is_registered` whether the catalog has the table. `existing` is None if the table has to be made.
    """

    given: str
    path: str
    name: str
    quoted_name: str | None = None
    is_registered: bool = False
    existing: ExistingTable | None = None
    catalog_properties: Mapping[str, str] = field(default_factory=dict)


def is_path(table: str) -> bool:
    """Return True if a table is named by path, which means the name contains a slash; catalog names have none.

    True for ``/tables/a``, ``tables/a``, ``s3a://bucket/a`` and ``file:/tables/a``.
    """
    return "/" in table


def vector_columns(schema: StructType) -> dict[str, VectorType]:
    """Return the vector types, by name, of the columns whose metadata says VECTOR."""
    described = {column.name: str(column.metadata.get(HUDI_TYPE, "")) for column in schema.fields}
    return {name: VectorType.parse(text) for name, text in described.items() if text.upper().startswith("VECTOR")}


def resolve_target(
    spark: SparkSession, files: Files, table: str, name: str | None, columns: StructType | None = None
) -> Target:
    """Return the target of a write; `existing` is None if the table has to be made.

    Args:
        spark: The session.
        files: Hadoop's file systems, as the session opens them.
        table: A path or a catalog name.
        name: The Hudi table name that the user set; None if not set.
        columns: The columns of the table, if they are known.

    Raises:
        TableNotFoundError: The database does not exist.
        UnsupportedTableError: The name belongs to a view or to a table that is not a Hudi table.
        InvalidArgumentError: The path is not empty and is not a Hudi table; or the name is not in the catalog but its
            folder holds a Hudi table.
    """
    table = path_text(table)
    if is_path(table):
        path = files.qualified(table)
        existing = _existing(spark, files, table, path, columns)
        return Target(table, path, name or _name(existing) or _safe_name(path), existing=existing)
    return _catalog_target(spark, files, table, name, columns)


def _catalog_target(
    spark: SparkSession, files: Files, table: str, name: str | None, columns: StructType | None
) -> Target:
    state = spark._jsparkSession.sessionState()
    catalog = state.catalog()
    identifier = state.sqlParser().parseTableIdentifier(table.removeprefix(_OUR_CATALOG))
    if catalog.isTempView(identifier):
        raise UnsupportedTableError(f"'{table}' is a temporary view; write to the table's name or path")
    if not catalog.tableExists(identifier):
        database = identifier.database().get() if identifier.database().isDefined() else catalog.getCurrentDatabase()
        if not catalog.databaseExists(database):
            raise TableNotFoundError(f"database '{database}' does not exist; create it, or write to a path")
        path = files.qualified(catalog.defaultTablePath(identifier).toString())
        if _existing(spark, files, table, path) is not None:
            raise InvalidArgumentError(
                f"'{table}' is not in the catalog, but its folder {path} holds a Hudi table; "
                "register that with CREATE TABLE … USING hudi LOCATION, or write to its path"
            )
        return Target(table, path, name or identifier.table(), identifier.quotedString())
    metadata = catalog.getTableMetadata(identifier)
    provider = metadata.provider().get() if metadata.provider().isDefined() else metadata.tableType().name().lower()
    if provider.lower() != "hudi":
        raise UnsupportedTableError(f"'{table}' is no Hudi table (it is of type {provider}); name another table")
    path = files.qualified(metadata.location().toString())
    existing = _existing(spark, files, table, path, columns)
    return Target(
        given=table,
        path=path,
        name=name or _name(existing) or identifier.table(),
        quoted_name=identifier.quotedString(),
        is_registered=True,
        existing=existing,
        catalog_properties=pairs_of(metadata.properties()),
    )


def _existing(
    spark: SparkSession, files: Files, table: str, path: str, columns: StructType | None = None
) -> ExistingTable | None:
    uri, content = f"{path}/{PROPERTIES}", read_properties(files.read, path)
    if content is None:
        if not files.is_empty(path):
            raise InvalidArgumentError(f"'{table}' is not empty and holds no Hudi table; write to an empty folder")
        return None
    config = TableConfig.of_file(content, uri)
    return ExistingTable(config, properties_of(content, uri), columns or _columns(spark, table, path))


def _columns(spark: SparkSession, table: str, path: str) -> StructType:
    """Return the columns of the relation that Hudi makes of a path; it is made only if nothing else shows them."""
    with suppress(HudiVectorError, OSError):  # Hudi says what is wrong
        source = Source(normalise(path), table, storage_options(spark, path))
        if (known := relation_schema(spark, NativeTable(source))) is not None:
            return known
    return spark.read.format("hudi").load(path).schema


def _name(existing: ExistingTable | None) -> str | None:
    return existing.config.name or None if existing else None


def _safe_name(path: str) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    return re.sub(r"\W", "_", last) or "table"
