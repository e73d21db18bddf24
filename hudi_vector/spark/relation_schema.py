"""The columns of the relation that Hudi makes of a table's path, known without making it.

Hudi sends some twenty requests one after another to make a relation, and again after each commit. The columns follow
from the timeline: Hudi 1.2 takes the schema of the last completed commit that may change it, and puts its meta columns
before them (TableSchemaResolver, HoodieHadoopFsRelationFactory).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.storage import FileInfo, join
from hudi_vector.table import actions
from hudi_vector.table.avro_schema import META_FIELDS
from hudi_vector.table.config import TableConfig
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["relation_schema"]

_OPERATION = "_hoodie_operation"
# Settings by which Hudi's relation reads another way, or gets other columns.
_CHANGES_READS = re.compile(
    r"(?<![\w.])(?:spark\.)?(?:hoodie\.(?:datasource|schema|bootstrap|incremental)\.[\w.]+|as\.of\.instant)"
)


def relation_schema(spark: SparkSession, table: NativeTable) -> StructType | None:
    """Return the columns of the relation that Hudi would make of a table now, None if only making it shows them."""
    if _reads_change(spark) or not _is_plain(table.config):
        return None
    try:
        timeline = table.first_timeline()
        action = table.last_write(timeline)
        schema = None if action is None else actions.written_schema(action)
        if action is None or schema is None or table.evolves_on_read(timeline) or _has_operations(table, action):
            return None
        java = handles_of(spark)
        made = java.made("relation", schema, lambda: _struct(java, schema))
        return _with_meta_columns(java, StructType.fromJson(json.loads(made.json())))
    except (HudiVectorError, OSError, pa.ArrowException, Py4JError):
        return None  # Hudi says what is wrong


def _reads_change(spark: SparkSession) -> bool:
    java = handles_of(spark)
    try:
        properties = java.named("org.apache.hudi.common.config.DFSPropertiesConfiguration").getGlobalProps()
    except (Py4JError, TypeError):  # a session without Hudi
        return True
    known = f"{' '.join(session_settings(spark))} {properties.toString()}"
    return _CHANGES_READS.search(known) is not None


def _is_plain(config: TableConfig) -> bool:
    return (
        config.layout.keeps_completion_times
        and config.populates_meta_fields
        and config.base_file_format == "parquet"
        and not config.bootstrapped
        and not config.drops_partition_columns
        and (config.plain_key_generator or not config.partition_fields)
    )


def _has_operations(table: NativeTable, action: Mapping[str, Any]) -> bool:
    """Return True if rows may have the column of Flink's changelogs, which no schema of a commit names."""
    written = actions.smallest_base_file(action)
    if written is not None:
        return _OPERATION in _stored_columns(table, join(table.source.uri, written[0]), written[1])
    slices = table.snapshot().file_slices
    if not slices:
        return False
    bases = [part.base_file for part in slices if part.base_file is not None]
    smallest = min(bases, key=lambda file: (file.size, file.uri), default=None)
    return smallest is None or _OPERATION in _stored_columns(table, smallest.uri, smallest.size)


_COLUMNS: Recent[str, frozenset[str]] = Recent(256)


def _stored_columns(table: NativeTable, uri: str, size: int) -> frozenset[str]:
    known = _COLUMNS.get(uri)
    if known is None:
        known = frozenset(table.columns_of(FileInfo(uri, size, 0)))
        _COLUMNS.put(uri, known)
    return known


def _struct(java: Handles, text: str) -> JavaObject:
    """Return Spark's columns of a commit's schema, as Hudi converts them, its meta columns first."""
    schemas = java.named("org.apache.hudi.common.schema.HoodieSchemaUtils")
    parsed = java.named("org.apache.hudi.common.schema.HoodieSchema").parse(text)
    whole = schemas.addMetadataFields(parsed, False)
    return java.named("org.apache.hudi.HoodieSchemaConversionUtils").convertHoodieSchemaToStructType(whole)


def _with_meta_columns(java: Handles, schema: StructType) -> StructType:
    """Return a schema whose meta columns are marked, as Hudi marks them."""
    marked = str(java.made("meta column", "", lambda: _meta_column(java)).json())
    for field in schema.fields:
        if field.name in META_FIELDS:
            field.metadata = json.loads(marked)
    return schema


def _meta_column(java: Handles) -> JavaObject:
    return java.module("org.apache.hudi.SparkAdapterSupport").sparkAdapter().createCatalystMetadataForMetaField()
