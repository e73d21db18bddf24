"""A Hudi table with blobs: its newest snapshot, its BLOB columns, and the keys of its rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType

from hudi_vector.arguments import as_text
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.struct import INLINE
from hudi_vector.errors import HudiVectorError, InvalidTypeError, UnknownColumnError
from hudi_vector.schema import quoted
from hudi_vector.spark.blobs.functions import is_blob, whole
from hudi_vector.spark.catalyst.nested_fields import column_names, field_at
from hudi_vector.spark.resolve import storage_options, table_named
from hudi_vector.spark.stored_partitions import are_stored_partitions, with_stored_partitions
from hudi_vector.storage import StorageOptions, path_text, scheme_of
from hudi_vector.table.config import TableConfig
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Timeline

__all__ = ["BlobTable", "table_source"]

_RECORD_KEY, _PARTITION_PATH, _COMMIT_TIME = "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class BlobTable:
    """The newest snapshot of a table; `columns` are the dotted paths of its BLOB columns.

    `state` identifies the completed actions that were listed before Spark loaded `frame`: while they are still those of
    the table, so is `frame`.
    """

    source: Source
    frame: DataFrame
    area: BlobArea
    columns: tuple[str, ...]
    config: TableConfig
    state: str = ""

    @property
    def label(self) -> str:
        """Return the name of the table in messages."""
        return self.source.name

    @property
    def has_stored_partitions(self) -> bool:
        """Return False if the rows of `frame` may have other values in partition columns than were written."""
        return are_stored_partitions(self.frame.schema, self.config)

    @property
    def options(self) -> StorageOptions:
        """Return the settings that open the table's storage and any storage that references lead to."""
        return self.source.options

    @classmethod
    def of(cls, spark: SparkSession, name: str | os.PathLike[str]) -> BlobTable:
        """Open a table by catalog name, path, or a view that passes it on unchanged, without the session's caches.

        Raises TableNotFoundError if there is no such table, UnsupportedTableError if it is not a Hudi table or the view
        does more than name it.
        """
        source, native = _opened(spark, name)
        state = native.first_timeline().identity
        # The catalog's relation may be older than the table, and a view may hide columns.
        frame = _newest(spark, source, native.config)
        return cls(source, frame, BlobArea.of(source.uri), _blob_columns(frame), native.config, state)

    def seen_in(self, timeline: Timeline) -> BlobTable:
        """Return the table in a timeline that was just listed; load it again only if actions have completed since.

        Hudi sends 17 requests one after another to load a table, and some more to list its files.
        """
        if timeline.identity == self.state:
            return self
        return replace(self.again(), state=timeline.identity)

    def again(self) -> BlobTable:
        """Return the table as it is now, which Spark loads whether it has changed or not."""
        frame = _newest(self.frame.sparkSession, self.source, self.config)
        return replace(self, frame=frame, columns=_blob_columns(frame), state="")

    def chosen(self, columns: str | Iterable[str] | None) -> list[str]:
        """Return the BLOB columns that a user named, in any case, or all for None.

        Raises UnknownColumnError if there is no such column, InvalidTypeError if a column is not a BLOB.
        """
        if columns is None:
            return list(self.columns)
        return [self._chosen(name) for name in column_names(columns)]

    def blob(self, column: str) -> Column:
        """Return a BLOB column that Spark reads whole: with log files, Hudi 1.2 reads single fields by position."""
        top, *inside = column.split(".")
        found = whole(F.col(quoted(top)))
        for name in inside:
            found = found[name]
        return found

    def placement(self, column: str) -> Column:
        """Return a struct that says where each blob of a column is stored; only the size of INLINE bytes is read."""
        blob = self.blob(column)
        reference = blob["reference"]
        # An INLINE blob that Hudi reads as a descriptor has its size in the reference to its base file.
        described = F.when(blob["type"] == INLINE, reference["length"])
        size = F.coalesce(F.octet_length(blob["data"]).cast("long"), described)
        return F.struct(
            blob["type"].alias("kind"),
            size.alias("size"),
            reference["external_path"].alias("path"),
            reference["offset"].alias("offset"),
            reference["length"].alias("length"),
            reference["managed"].alias("managed"),
        )

    def field(self, name: str) -> Column:
        """Return the column at a dotted path."""
        return F.col(quoted(*name.split(".")))

    def key(self) -> Column:
        """Return the record key of each row, as Hudi writes it."""
        fields = self.config.record_key_fields
        if self.config.populates_meta_fields:
            return F.col(_RECORD_KEY)
        if len(fields) == 1:
            return self.field(fields[0]).cast("string")
        return F.concat_ws(",", *(F.concat(F.lit(f"{name}:"), self.field(name).cast("string")) for name in fields))

    def commit_time(self) -> Column:
        """Return the instant that wrote each row last, NULL in a table without Hudi's meta columns."""
        return F.col(_COMMIT_TIME) if self.config.populates_meta_fields else F.lit(None).cast("string")

    def partition(self) -> Column:
        """Return the partition path of each row, empty in a table without partitions."""
        if self.config.populates_meta_fields:
            return F.col(_PARTITION_PATH)
        folders = []
        for name in self.config.partition_fields:
            value = F.coalesce(self.field(name).cast("string"), F.lit(_NO_PARTITION))
            folders.append(F.concat(F.lit(f"{name}="), value) if self.config.hive_style_partitioning else value)
        return F.concat_ws("/", *folders)

    def _chosen(self, name: str) -> str:
        for column in self.columns:
            if column.lower() == name.lower():
                return column
        found = field_at(self.frame.schema, name)
        if found is None:
            raise UnknownColumnError.of(name, [*self.columns, *self.frame.columns], self.label)
        raise InvalidTypeError(
            f"column '{name}' of '{self.label}' is {found.dataType.simpleString()}, which is no BLOB; "
            f"its BLOB columns are {', '.join(self.columns) or 'none'}"
        )


def _opened(spark: SparkSession, name: str | os.PathLike[str]) -> tuple[Source, NativeTable]:
    """Return a table with the session's settings, as references may lead to another storage than the table's."""
    source = replace(table_source(spark, name, look=False), options=storage_options(spark))
    if scheme_of(source.uri) != "file":
        with suppress(HudiVectorError, OSError):
            native = NativeTable(source)
            if native.first_timeline().commits:
                return source, native
        source = replace(table_source(spark, name), options=source.options)  # which says what is missing, if so
    return source, NativeTable(source)


def table_source(spark: SparkSession, name: str | os.PathLike[str], look: bool = True) -> Source:
    """Return a table by catalog name, path, or view of it, with the settings of its storage.

    Without `look`, whether there is a table at a path on other storage is left to who opens it.

    Raises TableNotFoundError if there is no such table, UnsupportedTableError if it is not a Hudi table or the view
    does more than name it.
    """
    shown = as_text(path_text(name), "table")
    return replace(table_named(spark, shown, look), name=shown)


def _newest(spark: SparkSession, source: Source, config: TableConfig) -> DataFrame:
    """Return the rows of a table's newest snapshot."""
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "snapshot")
    return with_stored_partitions(reader.load(source.hadoop_path), config)


def _blob_columns(frame: DataFrame) -> tuple[str, ...]:
    return tuple(".".join(parts) for parts in _blob_paths(frame.schema, ()))


def _blob_paths(schema: StructType, above: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    for entry in schema.fields:
        path = (*above, entry.name)
        if is_blob(json.loads(entry.dataType.json())):
            yield path
        elif isinstance(entry.dataType, StructType):
            yield from _blob_paths(entry.dataType, path)
