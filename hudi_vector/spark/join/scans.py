"""Snapshots of the files that Spark's readers of Parquet, Delta and Lance would read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_vector.query.files.plain_files import Constants, DeltaFiles, PlainFiles
from hudi_vector.query.lance.dataset import LanceDataset
from hudi_vector.read.conform import vector_type
from hudi_vector.spark.catalyst.gateway import JavaObject, simple_name
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import normalise
from hudi_vector.table.model import Snapshot

__all__ = ["Scanned", "hands_filters_on", "scanned_snapshot"]

_OF_FILES, _OF_SOURCE = "LogicalRelation", "DataSourceV2Relation"
_DELTA, _LANCE = "org.apache.spark.sql.delta.", "org.lance.spark."


@dataclass(frozen=True)
class Scanned:
    """The snapshot that a relation reads.

    `kind` is ``files`` or ``lance``; `stored` are the columns with the types in which Spark reads them.
    """

    kind: str
    snapshot: Snapshot
    stored: StructType


def scanned_snapshot(spark: SparkSession, relation: JavaObject, vector: str) -> Scanned | str | None:
    """Return the files that a relation, a leaf of an analysed or optimized plan, reads.

    Return a text with the reason if the files cannot be searched in its place, and None for a relation of files of
    another format, which may be a Hudi table. `vector` is the searched column; bytes of one length in it are vectors.

    Raises UnsupportedTableError if a Delta table cannot be read from its files, MissingDependencyError if the package
    that reads the format is not installed, DataFileError if a file is gone or damaged.
    """
    if simple_name(relation) != _OF_FILES:
        table = relation.table() if simple_name(relation) == _OF_SOURCE else None
        if table is None or not str(table.getClass().getName()).startswith(_LANCE):
            return f"it reads a {simple_name(relation)}"
        return _lance(spark, relation, table.readOptions())
    scanned = relation.relation()
    if _is_delta(scanned):
        return _delta(spark, scanned, vector)
    if simple_name(scanned) != "HadoopFsRelation":
        return f"it reads a {simple_name(scanned)}"
    return _parquet(spark, scanned, vector) if simple_name(scanned.fileFormat()) == "ParquetFileFormat" else None


def hands_filters_on(relation: JavaObject) -> bool:
    """Return True if the optimizer pushes conditions into the relation's reader, which replaces the relation.

    `relation` is a leaf of an analysed plan.
    """
    return simple_name(relation) == _OF_SOURCE or (
        simple_name(relation) == _OF_FILES and _is_delta(relation.relation())
    )


def _is_delta(scanned: JavaObject) -> bool:
    if str(scanned.getClass().getName()).startswith(_DELTA):
        return True
    is_plain = simple_name(scanned) == "HadoopFsRelation"
    return is_plain and str(scanned.fileFormat().getClass().getName()).startswith(_DELTA)


def _parquet(spark: SparkSession, relation: JavaObject, vector: str) -> Scanned | str:
    location = relation.location()
    if simple_name(location) == "CatalogFileIndex":
        location = location.filterPartitions(handles_of(spark).sequence([]))
    files = [unquote(str(file)) for file in location.inputFiles()]
    if not files:
        return "it has no files"
    constants = {} if relation.partitionSchema().isEmpty() else _folders(location, relation.partitionSchema(), files)
    snapshot = PlainFiles(files, storage_options(spark, files[0]), vector, constants).snapshot()
    return Scanned("files", snapshot, _without_bytes(relation, snapshot, vector))


def _delta(spark: SparkSession, relation: JavaObject, vector: str) -> Scanned | str:
    location = relation.location()
    if simple_name(location) != "TahoeLogFileIndex":
        return f"it reads a {simple_name(location)} of a Delta table"
    if not location.partitionFilters().isEmpty():
        return "it reads a folder of a Delta table"
    version = location.getSnapshot().version()
    uri = str(location.path().toString())
    snapshot = DeltaFiles(uri, storage_options(spark, uri), column=vector, version=int(version)).snapshot()
    return Scanned("files", snapshot, _without_bytes(relation, snapshot, vector))


def _without_bytes(relation: JavaObject, snapshot: Snapshot, vector: str) -> StructType:
    """Return the columns as Spark reads them, without the searched column if the files hold its vectors as bytes."""
    stored = _schema(relation.dataSchema())
    at = snapshot.schema.get_field_index(vector)
    if at < 0 or vector_type(snapshot.schema.field(at)) is None:
        return stored
    return StructType([field for field in stored if field.name != vector])


def _lance(spark: SparkSession, relation: JavaObject, options: JavaObject) -> Scanned | str:
    if options.getNearest() is not None:
        return "its reader searches by itself, with the option nearest"
    uri, version = str(options.getDatasetUri()), relation.options().get("version")
    snapshot = LanceDataset(uri, storage_options(spark, uri), None if version is None else int(version)).snapshot()
    shown = _schema(relation.schema())
    kept = [field for field in shown if field.name in snapshot.schema.names]
    plain = [field for field in kept if vector_type(snapshot.schema.field(field.name)) is None]
    return Scanned("lance", snapshot, StructType(plain))


def _folders(location: JavaObject, columns: JavaObject, files: Sequence[str]) -> Constants:
    """Return the partition values that Spark found in the names of folders, by file."""
    kinds = [columns.apply(index).dataType() for index in range(columns.length())]
    fields = arrow_fields(_schema(columns))
    partitions = location.partitionSpec().partitions()
    found = {}
    for number in range(partitions.length()):
        row, place = partitions.apply(number).values(), partitions.apply(number).path()
        values = [None if row.isNullAt(at) else row.get(at, kind) for at, kind in enumerate(kinds)]
        found[normalise(str(place.toString()))] = tuple(
            (field.name, _scalar(value, field.type)) for value, field in zip(values, fields, strict=True)
        )
    uris = [normalise(file) for file in files]
    return {uri: found[next(folder for folder in _above(uri) if folder in found)] for uri in uris}


def _above(uri: str) -> Iterator[str]:
    """Yield the folders that contain a file, the innermost first."""
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        yield uri


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value of an internal row of Spark, which holds dates as days and timestamps as microseconds."""
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.scalar(value, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    if isinstance(value, (bool, int, float)):
        return pa.scalar(value, kind)
    text = str(value.toString())
    return pa.scalar(Decimal(text) if pa.types.is_decimal(kind) else text, kind)


def _schema(described: JavaObject) -> StructType:
    return StructType.fromJson(json.loads(str(described.json())))
