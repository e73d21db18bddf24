"""The columns of the relation that Hudi makes of a table's path, known without making it.

Hudi sends some twenty requests one after another to make a relation, and again after each commit. The columns follow
from the timeline: Hudi 1.2 takes the schema of the last completed commit that may change it, and puts its meta columns
before them (TableSchemaResolver, HoodieHadoopFsRelationFactory).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.storage import join
from hudi_vector.table import actions
from hudi_vector.table.avro_schema import META_FIELDS
from hudi_vector.table.config import TableConfig
from hudi_vector.table.model import Snapshot
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent
from hudi_vector.table.timeline import Timeline

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
        # The columns of a file are asked for while the files are listed.
        snapshot, written = table.storage.together(table.snapshot, lambda: _last_write(table, timeline))
        if written is None or timeline.identity != snapshot.identity or not _is_as_written(table, snapshot, written):
            return None
        java = handles_of(spark)
        made = java.made("relation", written.schema, lambda: _struct(java, written.schema))
        return _with_meta_columns(java, StructType.fromJson(json.loads(made.json())))
    except (HudiVectorError, OSError, pa.ArrowException, Py4JError):
        return None  # Hudi says what is wrong


@dataclass(frozen=True)
class _Written:
    """The last commit of a writer: its Avro schema, and the columns of a base file that it wrote, None without one."""

    schema: str
    columns: frozenset[str] | None


def _last_write(table: NativeTable, timeline: Timeline) -> _Written | None:
    action = table.last_write(timeline)
    schema = None if action is None else actions.written_schema(action)
    if action is None or schema is None:
        return None
    file = actions.smallest_base_file(action)
    return _Written(schema, None if file is None else _stored_columns(table, join(table.source.uri, file[0]), file[1]))


def _reads_change(spark: SparkSession) -> bool:
    java = handles_of(spark)
    keys = str(spark._jsparkSession.sessionState().conf().settings().keySet().toString())
    try:
        properties = java.named("org.apache.hudi.common.config.DFSPropertiesConfiguration").getGlobalProps()
    except (Py4JError, TypeError):  # a session without Hudi
        return True
    return _CHANGES_READS.search(keys) is not None or not bool(properties.isEmpty())


def _is_plain(config: TableConfig) -> bool:
    return (
        config.layout.keeps_completion_times
        and config.populates_meta_fields
        and config.base_file_format == "parquet"
        and not config.bootstrapped
        and not config.drops_partition_columns
        and (config.plain_key_generator or not config.partition_fields)
    )


def _is_as_written(table: NativeTable, snapshot: Snapshot, written: _Written) -> bool:
    """Return True if no schema history, no odd partition path and no column of operations changes the columns."""
    deep = len(snapshot.config.partition_fields)
    if snapshot.instant is None or snapshot.evolves_on_read:
        return False
    # Hudi reads a table of several partition columns without them if the values in a path are more or fewer.
    if deep > 1 and any(part.partition_path.count("/") + 1 != deep for part in snapshot.file_slices):
        return False
    columns = written.columns
    if columns is None:
        bases = [part.base_file for part in snapshot.file_slices if part.base_file is not None]
        smallest = min(bases, key=lambda file: (file.size, file.uri), default=None)
        columns = None if smallest is None else _stored_columns(table, smallest.uri, smallest.size)
    return columns is not None and _OPERATION not in columns


_COLUMNS: Recent[str, frozenset[str]] = Recent(256)


def _stored_columns(table: NativeTable, uri: str, size: int) -> frozenset[str]:
    known = _COLUMNS.get(uri)
    if known is None:
        with table.storage.open(uri, size=size) as opened:
            known = frozenset(pq.read_schema(opened).names)
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
