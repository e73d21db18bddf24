"""Resolution of a name, a path or a plan to a target that can be searched.

A name or plan is searched directly only if there are only plain projections between it and a single Hudi table
(decision 7). Spark searches every other target through its plan.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import StructField, StructType

from hudi_vector.arguments import as_text
from hudi_vector.errors import HudiVectorError, TableNotFoundError, UnsupportedTableError, first_line
from hudi_vector.options import ALLOWED_BLOBS, CACHE_DIR, CACHE_DIR_MAX_BYTES, IO_PARALLELISM, require_known_in_session
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.fitness import not_a_session, require_fit, require_running
from hudi_vector.spark.catalyst.gateway import JavaObject, first_sentence, option_value, simple_name
from hudi_vector.spark.catalyst.handles import frame_of, handles_of, state_of
from hudi_vector.spark.catalyst.settings import hadoop_settings, session_settings
from hudi_vector.spark.relation_schema import relation_schema
from hudi_vector.spark.unwrap import Peeled, peel
from hudi_vector.storage import StorageOptions, normalise, open_storage, path_text, scheme_of
from hudi_vector.storage.disk_cache import disk_cache_at
from hudi_vector.storage.settings import HADOOP_KEYS
from hudi_vector.table.config import PROPERTIES, PROPERTIES_COPY
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = [
    "Target",
    "as_it_was",
    "kept_by_spark",
    "reader_of_all_files",
    "resolve_frame",
    "resolve_name",
    "schema_then",
    "storage_options",
    "table_named",
    "undivided",
]

_QUERY_TYPE = "hoodie.datasource.query.type"
_AS_OF = "as.of.instant"
_SKIPS_FILES = "hoodie.enable.data.skipping"


@dataclass(frozen=True)
class Target:
    """A table, view or plan that can be searched.

    `source` is the Hudi table to read directly, or None if Spark searches the plan; `reason` then says why. `physical`
    pairs each column of `schema` with its name in the table. `as_of` is the instant that the relation was loaded with.
    `name` is the catalog name or path from which the plan can be loaded again, None if a plan was given.
    """

    label: str
    schema: StructType
    source: Source | None
    physical: tuple[tuple[str, str], ...]
    reason: str | None = None
    as_of: str | None = None
    name: str | None = None
    plan: JavaObject | None = None

    def table(self) -> Source:
        """Return the Hudi table; raise UnsupportedTableError if the target is not directly a Hudi table."""
        if self.source is None:
            raise UnsupportedTableError(
                f"'{self.label}' is not the name of a table: {self.reason}; name the table itself"
            )
        return self.source

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the target as a DataFrame whose files are listed again."""
        if self.name is not None:
            return _load(spark, self.name)
        assert self.plan is not None
        self.plan.refresh()
        return frame_of(spark, self.plan)


def resolve_name(spark: SparkSession, name: str | os.PathLike[str]) -> Target:
    """Return the target of a name: ``table``, ``database.table``, a view, or a path with or without a scheme.

    Raises:
        InvalidTypeError: `spark` is not a SparkSession, or the name is not a text.
        SessionError: The session is stopped, belongs to Spark Connect, or has no Hudi.
        InvalidOptionError: The session sets a misspelt key of this package.
        TableNotFoundError: There is no such table, or no Hudi table at the path.
    """
    if not isinstance(spark, SparkSession):
        raise not_a_session(spark)
    require_running(spark)
    require_known_in_session(session_settings(spark))
    name = as_text(path_text(name), "table")
    opened = _opened(spark, name)
    known = None if opened is None else _TARGETS.get(opened.key)
    if known is not None:
        return known
    target = None if opened is None else _unloaded(spark, name, opened.table)
    if opened is not None and target is not None:
        _TARGETS.put(opened.key, target)
        return target
    frame = _load(spark, name)
    target = _target(spark, frame._jdf.queryExecution().analyzed(), label=name, name=name)
    _remember(spark, name, target)
    return target


def _unloaded(spark: SparkSession, path: str, table: NativeTable) -> Target | None:
    """Return the target of a path whose columns are known without loading it, else None."""
    schema = None if not is_path(path) or _is_relative(path) else relation_schema(spark, table)
    if schema is None:
        return None
    source = replace(table.source, spelled=path.rstrip("/"))
    return Target(path, schema, source, tuple((name, name) for name in schema.names), name=path)


def table_named(spark: SparkSession, name: str | os.PathLike[str], look: bool = True) -> Source:
    """Return the Hudi table of a name; Spark does not load a table on other storage whose path is given.

    Without `look`, nothing is asked about such a table either: who opens it raises TableNotFoundError. Raises what
    `resolve_name` raises, and UnsupportedTableError if the name is not directly that of a Hudi table.
    """
    if isinstance(spark, SparkSession):
        require_running(spark)
        require_known_in_session(session_settings(spark))
        path = as_text(path_text(name), "table")
        if is_path(path) and scheme_of(path) != "file":
            source = Source(normalise(path), path, storage_options(spark, normalise(path)), path.rstrip("/"))
            if not look or _has_commits(source):
                return source
    return resolve_name(spark, name).table()


def _has_commits(source: Source) -> bool:
    try:
        return bool(NativeTable(source).first_timeline().commits)
    except (HudiVectorError, OSError):
        return False


def resolve_frame(spark: SparkSession, plan: JavaObject, label: str) -> Target:
    """Return the target of an analysed logical plan, which messages call `label`.

    Raises InvalidOptionError if the session sets a misspelt key of this package.
    """
    require_known_in_session(session_settings(spark))
    return _target(spark, plan, label, name=None)


def reader_of_all_files(spark: SparkSession) -> DataFrameReader:
    """Return Hudi's reader without its data skipping, which leaves out files with rows that a filter keeps.

    Hudi applies functions and casts, such as ``upper(s)``, to a column's least and greatest value, although these need
    not become the least and greatest result.
    """
    return spark.read.format("hudi").option(_SKIPS_FILES, "false")


def kept_by_spark(spark: SparkSession, frame: DataFrame, alias: str, condition: str) -> DataFrame:
    """Return the rows of a DataFrame, named `alias`, that meet a condition, without Hudi's data skipping."""
    target = resolve_frame(spark, frame._jdf.queryExecution().analyzed(), "the DataFrame")
    if target.source is None:
        return frame.alias(alias).where(undivided(condition))
    reader = reader_of_all_files(spark)
    if target.as_of is not None:
        reader = reader.option(_AS_OF, target.as_of)
    rows = reader.load(target.source.hadoop_path)
    return (
        rows.select([rows[quoted(inner)].alias(outer) for outer, inner in target.physical])
        .alias(alias)
        .where(condition)
    )


def undivided(condition: str) -> Column:
    """Return a condition that Spark evaluates as a whole, so that no part of it reaches Hudi's data skipping.

    For rows whose files no option of the reader can keep: those of views, subqueries and DataFrames with conditions.
    """
    return F.when(F.monotonically_increasing_id() >= 0, F.expr(condition))


def as_it_was(spark: SparkSession, target: Target, as_of: AsOf, writers_zone: str) -> Target:
    """Return a target with the columns and types that its table had at a point in its history, as Hudi reads as of it.

    Columns that were added later are left out; those dropped since are there, unless a view chose the columns.
    `writers_zone` is the time zone of the writing JVM. Raises InstantNotAvailableError if the point is before the
    oldest instant that the table still keeps.
    """
    assert target.source is not None
    read = schema_then(spark, target.source, as_of, writers_zone)
    if read is None:
        return target
    fields = {field.name: field for field in read.fields}
    kept = [pair for pair in target.physical if pair[1] in fields]
    if target.name is not None and (is_path(target.name) or catalog_location(spark, target.name) is not None):
        kept += [(name, name) for name in fields if (name, name) not in kept]
    columns = []
    for outer, inner in kept:
        field = fields[inner]
        columns.append(StructField(outer, field.dataType, field.nullable, field.metadata))
    return replace(target, schema=StructType(columns), physical=tuple(kept))


def schema_then(spark: SparkSession, source: Source, as_of: AsOf, writers_zone: str) -> StructType | None:
    """Return the columns that a table had at a point in its history, as Hudi reads them, None if they are unchanged.

    `writers_zone` is the time zone of the writing JVM. Raises InstantNotAvailableError if the point is before the
    oldest instant that the table still keeps.
    """
    instant = NativeTable(source).instant_of_other_schema(as_of, writers_zone)
    if instant is None:
        return None
    return spark.read.format("hudi").option(_AS_OF, instant).load(source.hadoop_path).schema


def _is_relative(path: str) -> bool:
    """Return True if a path depends on the working directory: no leading slash, no scheme before the first slash."""
    return not path.startswith("/") and ":" not in path.partition("/")[0]


def is_path(name: str) -> bool:
    """Return True if a table argument is a path and not a name: if it contains a slash."""
    return "/" in name


def _load(spark: SparkSession, name: str) -> DataFrame:
    try:
        if not is_path(name):
            return spark.table(name)
        _require_table_at(spark, name)
        return spark.read.format("hudi").load(name)
    except AnalysisException as problem:
        text = first_sentence(problem)
        if "TABLE_OR_VIEW_NOT_FOUND" in text or "cannot be found" in text:
            raise TableNotFoundError(
                f"there is no table, view or path '{name}'; give a catalog name, a temporary view, or the path of a "
                "Hudi table"
            ) from None
        require_fit(spark)
        raise TableNotFoundError(f"'{name}' cannot be read: {text}") from None
    except (Py4JJavaError, PySparkException) as problem:
        require_fit(spark)
        raise TableNotFoundError(f"'{name}' cannot be read as a Hudi table: {first_sentence(problem)}") from None


def _require_table_at(spark: SparkSession, path: str) -> None:
    paths = handles_of(spark).named("org.apache.hadoop.fs.Path")
    try:
        folder = paths(path)
        system = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        found = any(system.exists(paths(folder, name)) for name in (PROPERTIES, PROPERTIES_COPY))
    except Py4JJavaError as problem:
        why = _why_absent(spark, path) or f"'{path}' cannot be opened: {_java_message(problem)}"
        raise TableNotFoundError(why) from None
    if not found:
        raise TableNotFoundError(
            f"there is no Hudi table at '{path}': it has no .hoodie/hoodie.properties; give the table's base path"
        )


def _why_absent(spark: SparkSession, path: str) -> str | None:
    """Return what our own reader says against a path of an object store, which Hadoop may have no client for.

    Returns None for a path that this reader does not read.
    """
    uri = normalise(path)
    if scheme_of(uri) == "file":
        return None
    try:
        NativeTable(Source(uri, path, storage_options(spark, uri))).first_timeline()
    except UnsupportedTableError:
        return None
    except HudiVectorError as problem:
        return str(problem)
    return None


def _java_message(problem: Py4JJavaError) -> str:
    return first_line(str(problem.java_exception.toString()))


def _target(spark: SparkSession, plan: JavaObject, label: str, name: str | None) -> Target:
    schema = StructType.fromJson(json.loads(plan.schema().json()))
    found = _table_behind(plan)
    if isinstance(found, str):
        return Target(label, schema, None, (), found, None, name, plan)
    physical = found.physical(plan)
    if physical is None:
        return Target(label, schema, None, (), "the view computes columns", None, name, plan)
    fs_relation = found.relation.relation()
    root = fs_relation.location().rootPaths().apply(0)
    spelled = str(root.toString())
    if _is_relative(spelled):  # Hudi cannot read several partitions by a relative path
        spelled = str(root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).makeQualified(root))
    uri = normalise(spelled)
    as_of = option_value(fs_relation.options().get(_AS_OF))
    source = Source(uri, label, storage_options(spark, uri), spelled)
    try:
        open_storage(uri, source.options)
    except HudiVectorError as problem:
        return Target(label, schema, None, (), str(problem), None, name, plan)
    return Target(label, schema, source, physical, None, as_of, name, plan)


def _table_behind(plan: JavaObject) -> Peeled | str:
    """Return the single Hudi relation below a plan's plain projections, or the reason why there is none."""
    peeled = peel(plan)
    if isinstance(peeled, str):
        return peeled
    return _not_direct(peeled.relation) or peeled


def _not_direct(relation: JavaObject) -> str | None:
    if simple_name(relation) != "LogicalRelation":
        return "it is no snapshot of a Hudi table"
    fs_relation = relation.relation()
    if simple_name(fs_relation) != "HadoopFsRelation" or simple_name(fs_relation.location()) != "HoodieFileIndex":
        is_empty = simple_name(fs_relation) == "EmptyRelation"
        return "it has no completed commit yet" if is_empty else "it is no snapshot of a Hudi table"
    options = fs_relation.options()
    if (option_value(options.get(_QUERY_TYPE)) or "snapshot") != "snapshot":
        return f"it is read with {_QUERY_TYPE} = {option_value(options.get(_QUERY_TYPE))}"
    return None


def storage_options(spark: SparkSession, uri: str | None = None) -> StorageOptions:
    """Return the session's Hadoop settings for the storage of `uri`, or for every storage if it is None.

    A local `uri` needs none. ``hoodie.blob.read.allowed``, the places that references may name, and the cache on disk
    are always included, and ``hoodie.vector.io.parallelism`` is for other storage than a local disk.
    """
    settings = session_settings(spark)
    ours = {option.key: text for option in (ALLOWED_BLOBS, CACHE_DIR) if (text := option.read(settings))}
    if CACHE_DIR.key in ours:
        most = CACHE_DIR_MAX_BYTES.read(settings)
        disk_cache_at(ours[CACHE_DIR.key], most)  # a folder that cannot be used is refused before a job begins
        ours[CACHE_DIR_MAX_BYTES.key] = str(most)
    if uri is not None and scheme_of(uri) == "file":
        return StorageOptions.of(ours)
    ours[IO_PARALLELISM.key] = str(IO_PARALLELISM.read(settings))
    return StorageOptions.of({**hadoop_settings(spark, HADOOP_KEYS), **ours})


# Targets by name and timeline: Spark need not load a table again that has not changed since.
_TARGETS: Recent[Any, Target] = Recent(256)


@dataclass(frozen=True)
class _Opened:
    """A table that was opened, and all that a target of its name depends on: place, schema, settings and timeline."""

    key: Any
    table: NativeTable


def _remember(spark: SparkSession, name: str, target: Target) -> None:
    # The plan, a JVM object, is not kept: frame() loads it again by name.
    if target.source is None or target.as_of is not None:
        return
    opened = _opened(spark, name)
    if opened is not None:
        _TARGETS.put(opened.key, replace(target, plan=None))


def _opened(spark: SparkSession, name: str) -> _Opened | None:
    """Open the table of a name; return None for views and for tables whose timeline cannot be read."""
    located = (normalise(name), "") if is_path(name) else catalog_location(spark, name)
    if located is None:
        return None
    uri, schema = located
    options = storage_options(spark, uri)
    try:
        table = NativeTable(Source(uri, name, options))
        identity = table.first_timeline().identity
    except (HudiVectorError, UnsupportedTableError, OSError):
        return None
    return _Opened((name, uri, schema, options, identity), table)


def catalog_location(spark: SparkSession, name: str) -> tuple[str, str] | None:
    """Return a Hudi table's normalised location in the session catalog, and its schema as JSON.

    Return None for temporary views and for everything else that is not a Hudi table of the session catalog.
    """
    state = state_of(spark)
    try:
        identifier = state.parser.parseTableIdentifier(name)
        if state.catalog.isTempView(identifier):
            return None
        table = state.catalog.getTableMetadata(identifier)
        if str(table.provider().toString()).lower() != "some(hudi)":
            return None
        return normalise(str(table.location().toString())), str(table.schema().json())
    except (Py4JJavaError, PySparkException):
        return None
