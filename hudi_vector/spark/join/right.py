"""The right side of a join, reduced to what it reads below aliases, views, plain projections and exact filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, ByteType, DoubleType, FloatType, StructField, StructType

from hudi_vector.errors import HudiVectorError, InvalidArgumentError
from hudi_vector.query.files.deleted import Deleted, without_deleted
from hudi_vector.read.conform import conform, vector_type
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.gateway import JavaObject, first_sentence
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.predicates import without_inferred
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError
from hudi_vector.spark.columns import vector_column
from hudi_vector.spark.join.scans import Scanned, hands_filters_on, scanned_snapshot
from hudi_vector.spark.resolve import Target, resolve_frame
from hudi_vector.spark.unwrap import Peeled, folded, peel, translated
from hudi_vector.table.model import Snapshot

__all__ = ["RightSource", "bytes_source", "right_source", "stored_source", "without_rows"]


@dataclass(frozen=True)
class RightSource:
    """The right side of a join.

    Attributes:
        label: The name of the side in messages.
        frame: The rows as a DataFrame.
        column: The vector column.
        kind: ``hudi``, ``lance``, ``files`` or ``plan``.
        why_plan: The reason for the kind ``plan``.
        physical: The name in the source for each column, unless the kind is ``plan``.
        predicate: The condition of the removed filters, over the names in the source.
        table: The Hudi table, for ``hudi``.
        snapshot: The snapshot to search, for ``lance`` and ``files``.
        stored: The columns of the files as Spark reads them.
        deleted: Whether the caller removed rows from the snapshot, of which Spark does not know.
    """

    label: str
    frame: DataFrame
    column: VectorColumn
    kind: str
    why_plan: str = ""
    physical: Mapping[str, str] = field(default_factory=dict)
    predicate: Predicate | None = None
    table: Target | None = None
    snapshot: Snapshot | None = None
    stored: StructType | None = None
    deleted: bool = False

    @property
    def schema(self) -> StructType:
        """Return the columns."""
        return self.frame.schema


def bytes_source(spark: SparkSession, frame: DataFrame, vector: str, label: str) -> RightSource | None:
    """Return a right side whose files hold the vectors as bytes of one length; its frame has arrays in their place.

    Return None if the vector column is something else. `label` is the name of the side in messages.
    """
    named = [field for field in frame.schema.fields if field.name.lower() == vector.lower()]
    if len(named) != 1 or not isinstance(named[0].dataType, BinaryType):
        return None
    [field] = named
    found = _read_of(spark, RightSource(label, frame, VectorColumn(field.name, 0, "float"), "plan"))
    if found.kind != "files" or found.snapshot is None:
        return None
    held = vector_type(found.snapshot.schema.field(found.physical[field.name]))
    if held is None:
        return None
    decoded = _decoded(frame, field.name, held)
    return replace(found, frame=decoded, column=vector_column(decoded.schema, vector, label, None))


def _decoded(frame: DataFrame, name: str, held: VectorType) -> DataFrame:
    element = {"float": FloatType, "double": DoubleType, "int8": ByteType}[held.element]()
    array = StructField(name, ArrayType(element, False), True, {HUDI_TYPE: held.descriptor})
    schema = StructType([array if field.name == name else field for field in frame.schema.fields])
    fields = [
        field.with_metadata({HUDI_TYPE: held.descriptor}) if field.name == name else field
        for field in arrow_fields(schema)
    ]

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            at = batch.schema.get_field_index(name)
            fixed = pa.table(batch).set_column(at, name, batch.column(at).cast(pa.binary(held.width)))
            yield from conform(fixed, fields).combine_chunks().to_batches()

    return map_in_arrow(frame, decode, schema)


def right_source(spark: SparkSession, frame: DataFrame, vector: str, label: str) -> RightSource:
    """Return a right side with the source that it reads, or of kind ``plan`` with the reason why it must be computed.

    `label` is the name of the side in messages. Raises UnknownColumnError if there is no column `vector`,
    InvalidTypeError if it holds no vectors.
    """
    column = vector_column(frame.schema, vector, label, None)
    return _read_of(spark, RightSource(label, frame, column, "plan"))


def _read_of(spark: SparkSession, plain: RightSource) -> RightSource:
    """Return a right side of kind ``plan`` with the source that it reads instead, or with the reason for the kind."""
    try:
        found = _peeled(spark, plain.frame)
        if isinstance(found, str):
            return replace(plain, why_plan=found)
        plan, peeled = found
        terms = translated(peeled)
    except UntranslatableError as refused:
        return replace(plain, why_plan=f"a filter of it cannot be pushed down exactly: {refused}")
    except (Py4JJavaError, PySparkException) as problem:
        return replace(plain, why_plan=f"its plan cannot be taken apart: {first_sentence(problem)}")
    physical = peeled.physical(plan)
    if physical is None:
        return replace(plain, why_plan="it computes columns")
    read = replace(plain, physical=dict(physical), predicate=without_inferred(conjunction(terms)) if terms else None)
    return _of_relation(spark, read, peeled.relation)


def stored_source(frame: DataFrame, vector: str, label: str, kind: str, snapshot: Snapshot) -> RightSource:
    """Return a right side that was named by its path, with rows and snapshot from `hudi_vector.spark.join.stored`.

    `kind` is ``lance`` or ``files``. Raises UnknownColumnError if there is no column `vector`, InvalidTypeError if it
    holds no vectors.
    """
    column = vector_column(frame.schema, vector, label, None)
    names = {name: name for name in frame.schema.names}
    return RightSource(label, frame, column, kind, physical=names, snapshot=snapshot)


def without_rows(source: RightSource, deleted: Deleted) -> RightSource:
    """Return a right side of files without the rows that the caller gave as deleted.

    Raises InvalidArgumentError if rows are given and the side is not of kind ``files`` or has no such file.
    """
    if not deleted:
        return source
    if source.kind != "files" or source.snapshot is None:
        why = f": {source.why_plan}" if source.why_plan else ""
        raise InvalidArgumentError(
            f"deleted names rows of files, and '{source.label}' is not searched as files{why}; filter it instead"
        )
    return replace(source, snapshot=without_deleted(source.snapshot, deleted), deleted=True)


def _peeled(spark: SparkSession, frame: DataFrame) -> tuple[JavaObject, Peeled] | str:
    execution = frame._jdf.queryExecution()
    plan = execution.analyzed()
    found = peel(plan, through_filters=True)
    if isinstance(found, str) or not found.filters:
        return found if isinstance(found, str) else (plan, found)
    # In an optimized plan, constants are folded and both sides of comparisons have the same type.
    plan = folded(spark, plan) if hands_filters_on(found.relation) else execution.optimizedPlan()
    found = peel(plan, through_filters=True)
    return found if isinstance(found, str) else (plan, found)


def _of_relation(spark: SparkSession, read: RightSource, relation: JavaObject) -> RightSource:
    try:
        scanned = scanned_snapshot(spark, relation, read.physical.get(read.column.name, ""))
    except (HudiVectorError, OSError) as problem:
        return replace(read, why_plan=str(problem))
    except Py4JError:
        return replace(read, why_plan="its reader is of a version that is not known here")
    if isinstance(scanned, Scanned):
        known = {*scanned.snapshot.schema.names, *scanned.stored.names}
        unknown = next((name for name in read.physical.values() if name not in known), None)
        if unknown is not None:
            return replace(read, why_plan=f"its column {unknown} is none of what is stored")
        return replace(read, kind=scanned.kind, snapshot=scanned.snapshot, stored=scanned.stored)
    if scanned is not None:
        return replace(read, why_plan=scanned)
    target = resolve_frame(spark, relation, read.label)
    if target.source is None:
        return replace(read, why_plan=target.reason or "")
    return replace(read, kind="hudi", table=target)
