"""The SQL functions on BLOB columns: expressions of Spark, with Python only for OUT_OF_LINE bytes.

``read_blob`` takes the bytes of INLINE blobs inside the JVM. Of each other row, a few small values go to Python, and
the bytes come back, or the place of a large value in a local file, which the JVM reads. Every function takes the blob
as a whole, through ``element_at(array_repeat(blob, 1), 1)``: where a file slice has log files, Hudi 1.2 reads single
fields of a BLOB by position and returns wrong fields.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.places import PIECE_TYPE, placed_pieces
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE, BlobColumns
from hudi_vector.errors import BlobReadError, InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.options import VERIFY_BLOBS, require_known_in_session
from hudi_vector.schema import BLOB, HUDI_TYPE, blob_struct
from hudi_vector.spark.blobs.late import read_late
from hudi_vector.spark.blobs.origin import argument_is_of_object_stores
from hudi_vector.spark.catalyst.file_range import range_of_file
from hudi_vector.spark.catalyst.gateway import JavaObject, node_name
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.resolve import storage_options
from hudi_vector.workers import begin_task

__all__ = [
    "COPIES",
    "NO_NUMBER",
    "blob_length",
    "blob_location",
    "blob_ref",
    "bytes_column",
    "bytes_of",
    "is_blob",
    "numbers_of",
    "read_blob",
    "to_blob",
    "try_read_blob",
    "verifies",
    "whole",
]

NO_NUMBER = -(2**63)
"""The substitute for NULL in integers that go to pandas, which would convert a column with NULLs to floats."""

_BUDGET = 64 << 20

_LOST = (
    f"{BlobReadError.__module__}.BlobReadError: the blob at 'file://%s' (offset %d, length %d) cannot be read: "
    "the file is gone or became shorter while it was read"
)
"""The text of an error of the JVM, in the form that errors of Python workers have."""

COPIES = 8
"""The assumed number of copies of bytes on their way to Spark: as read, as Python values, as Arrow values, in the
stream, and memory that allocators keep for the next piece."""


def read_blob(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``read_blob(blob[, offset, length])``: the bytes; the query fails if they cannot be read."""
    return _read(spark, "read_blob", arguments, "raise")


def try_read_blob(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``try_read_blob(blob[, offset, length])``: the bytes, or NULL if they cannot be read."""
    return _read(spark, "try_read_blob", arguments, "null")


def blob_length(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``blob_length(blob)``: the number of bytes; NULL for a reference without a length."""
    blob = _blob(_counted(arguments, 1, 1, "blob_length(blob)")[0], spark)
    return _as_call(spark, "blob_length", arguments, _filled(spark, "blob_length", _length, [blob]))


def _length(given: Column) -> Column:
    blob = whole(given)
    inline = F.octet_length(blob["data"]).cast("bigint")
    return F.when(blob["type"] == INLINE, inline).otherwise(blob["reference"]["length"])


def blob_location(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``blob_location(blob)``: the path of the file that holds an OUT_OF_LINE blob; NULL for INLINE blobs."""
    blob = _blob(_counted(arguments, 1, 1, "blob_location(blob)")[0], spark)
    return _as_call(spark, "blob_location", arguments, _filled(spark, "blob_location", _location, [blob]))


def _location(given: Column) -> Column:
    blob = whole(given)
    return F.when(blob["type"] == OUT_OF_LINE, blob["reference"]["external_path"])


def to_blob(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``to_blob(bytes)``: an INLINE blob; NULL for NULL."""
    (given,) = _counted(arguments, 1, 1, "to_blob(bytes)")
    kind = str(given.dataType().typeName())
    if kind not in ("binary", "string", "void"):
        raise InvalidTypeError(f"its argument is {kind.upper()}, and it takes BINARY; cast it")
    data = _column(spark, given).cast("binary")
    return _as_call(spark, "to_blob", arguments, _filled(spark, "to_blob", _inline, [data]), {HUDI_TYPE: BLOB})


def _inline(data: Column) -> Column:
    struct = F.struct(F.lit(INLINE).alias("type"), data.alias("data"), _no_reference())
    return F.when(data.isNotNull(), struct)


def blob_ref(spark: SparkSession, arguments: list[JavaObject]) -> JavaObject:
    """Build ``blob_ref(path[, offset, length[, managed]])``: an OUT_OF_LINE blob; NULL for a NULL path."""
    usage = "blob_ref(path[, offset, length[, managed]])"
    given = _counted(arguments, 1, 4, usage)
    if len(given) == 2:
        raise InvalidArgumentError(f"an offset was given without a length; write {usage}")
    kinds = ("string", "bigint", "bigint", "boolean")
    columns = [_column(spark, expression).cast(kind) for expression, kind in zip(given, kinds, strict=False)]
    return _as_call(spark, "blob_ref", arguments, _filled(spark, "blob_ref", _out_of_line, columns), {HUDI_TYPE: BLOB})


def _out_of_line(path: Column, *rest: Column) -> Column:
    offset, length = rest[:2] or [F.lit(None).cast("bigint")] * 2
    managed = rest[2] if len(rest) > 2 else F.lit(False)
    given = {"external_path": path, "offset": offset, "length": length, "managed": managed}
    reference = F.struct(*(value.alias(name) for name, value in given.items()))
    fields = (F.lit(OUT_OF_LINE).alias("type"), F.lit(None).cast("binary").alias("data"), reference.alias("reference"))
    return F.when(path.isNotNull(), F.struct(*fields))


def _read(spark: SparkSession, name: str, arguments: list[JavaObject], on_error: str) -> JavaObject:
    given = _counted(arguments, 1, 3, f"{name}(blob[, offset, length])")
    if len(given) == 2:
        raise InvalidArgumentError(f"an offset was given without a length; write {name}(blob, offset, length)")
    fetcher = BlobFetcher(
        options=storage_options(spark),
        on_error=on_error,
        verify=verifies(spark),
        from_remote=argument_is_of_object_stores(spark, given[0]),
    )
    read_late(spark)
    part = [_column(spark, expression).cast("bigint") for expression in given[1:]]
    settled = (fetcher, spark.sparkContext._jsc._get_object_id(), spark.sparkContext._python_includes)

    def make(blob: Column, *part: Column) -> Column:
        return bytes_of(whole(blob), fetcher, name, part)

    # The expression names the application's accumulator, and the files that its workers import from.
    value = _filled(spark, f"{name} {pickle.dumps(settled).hex()}", make, [_blob(given[0], spark), *part])
    return _as_call(spark, name, arguments, value)


def _filled(spark: SparkSession, described: str, make: Callable[..., Column], given: Sequence[Column]) -> Column:
    """Return ``make(*given)``, made once for each description of all else that it depends on.

    To make it takes up to 200 calls into the JVM, and to put other arguments into what was made takes four.
    """
    handles = handles_of(spark)
    names = [f"hudi_vector_argument_{place}" for place in range(len(given))]

    def template() -> JavaObject:
        return make(*(F.col(name) for name in names))._jc.expr()

    kept = handles.made("function", f"{len(given)} {described}", lambda: handles.without_origin(template))
    return _column(spark, handles.filled(kept, {name: one._jc.expr() for name, one in zip(names, given, strict=True)}))


def verifies(spark: SparkSession) -> bool:
    """Return True if the session has bytes compared with their checksums (``hoodie.blob.read.verify``)."""
    require_known_in_session(session_settings(spark))
    return VERIFY_BLOBS.in_session(spark) == "true"


def bytes_of(
    blob: Column, fetcher: BlobFetcher, name: str, part: Sequence[Column] = (), budget: int = _BUDGET
) -> Column:
    """Return a BINARY column with the bytes of a blob.

    Args:
        blob: The blob, as returned by `whole`.
        fetcher: The reader of OUT_OF_LINE bytes.
        name: The name of the Python stage in Spark's plan.
        part: Offset and length of the requested part; empty for the whole blob.
        budget: The bytes that a Python process holds for one piece, unless a single value is larger.
    """
    kind, data, reference = blob["type"], blob["data"], blob["reference"]
    inside = (kind == INLINE) & data.isNotNull()
    value = data
    if part:
        start, count = part
        # Python refuses a part that starts past the end, with the same message as for files.
        inside = inside & (start >= 0) & (count >= 0) & (start <= F.octet_length(data))
        value = data.substr(start.cast("int") + 1, F.least(count, F.lit(2**31 - 1)).cast("int"))
    asked = ~inside if not part else ~inside & part[0].isNotNull() & part[1].isNotNull()
    is_there = kind.isNotNull() | data.isNotNull() | reference.isNotNull()
    numbers = [reference["offset"], reference["length"], *part]
    arguments = [
        F.when(asked, F.coalesce(kind, F.when(is_there, F.lit("")))),
        F.when(asked & (kind == INLINE), data) if part else F.lit(None).cast("binary"),
        F.when(asked, reference["external_path"]),
        *(F.coalesce(F.when(asked, number), F.lit(NO_NUMBER)) for number in numbers),
    ]
    inside = F.coalesce(inside, F.lit(False))
    read = partial(_read_batch, fetcher, budget)
    return F.when(inside, value).otherwise(bytes_column(read, arguments, name, fetcher.on_error))


def bytes_column(
    read_batch: Callable[[Sequence[pd.Series]], Iterator[pa.StructArray]],
    arguments: Sequence[Column],
    name: str,
    on_error: str,
) -> Column:
    """Return a BINARY column whose bytes Python reads, or the JVM at a place that Python names.

    Args:
        read_batch: Yields the values of a batch of rows, one for each row, in arrays of `PIECE_TYPE` of bounded size.
        arguments: The columns of these batches.
        name: The name of the Python stage in Spark's plan.
        on_error: ``"raise"``, or ``"null"`` for NULL where the JVM cannot read what Python found readable.
    """

    def read(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        begin_task()
        for batch in batches:
            with in_few_words():
                for values in read_batch(batch):
                    # Spark uses Arrow values directly; Python bytes would take two more copies.
                    fields = zip(PIECE_TYPE.names, values.flatten(), strict=True)
                    yield pd.DataFrame({field: pd.arrays.ArrowExtensionArray(array) for field, array in fields})

    read.__name__ = name
    read.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.DataFrame]}
    value = F.pandas_udf(read, from_arrow_type(PIECE_TYPE))(*arguments)  # type: ignore[attr-defined,call-overload]
    path, offset, length = (value[field] for field in ("path", "offset", "length"))
    found = range_of_file(path, offset, length)
    if on_error == "raise":
        found = F.coalesce(found, F.raise_error(F.format_string(_LOST, path, offset, length)))
    return F.when(path.isNotNull(), found).otherwise(value["bytes"])


def _read_batch(fetcher: BlobFetcher, budget: int, batch: Sequence[pd.Series]) -> Iterator[pa.StructArray]:
    """Yield the values of one batch of rows, in arrays of bounded size."""
    kind, data, path, offset, length, *part = batch
    if kind.isna().all():
        yield pa.nulls(len(kind), PIECE_TYPE)
        return
    columns = BlobColumns(
        pa.array(kind, pa.string(), from_pandas=True),
        pa.array(data, pa.binary(), from_pandas=True),
        pa.array(path, pa.string(), from_pandas=True),
        numbers_of(offset),
        numbers_of(length),
        pa.nulls(len(kind), pa.bool_()),
    )
    yield from placed_pieces(fetcher, columns, _part_of(part), max(1, budget // COPIES))


def _part_of(numbers: Sequence[pd.Series]) -> Part:
    """Return the requested part of each row; rows that need no bytes have `NO_NUMBER`, replaced by 0."""
    values = (given.to_numpy(np.int64) for given in numbers)
    return Part(*(np.where(given == NO_NUMBER, 0, given) for given in values))


def numbers_of(given: pd.Series) -> pa.Int64Array:
    """Return integers from Spark as an Arrow array, NULL in place of `NO_NUMBER`."""
    values = given.to_numpy(np.int64)
    return pa.array(values, pa.int64(), mask=values == NO_NUMBER)


def _counted(arguments: list[JavaObject], fewest: int, most: int, usage: str) -> list[JavaObject]:
    if not fewest <= len(arguments) <= most:
        raise InvalidArgumentError(
            f"{number_of(len(arguments), 'argument was', 'arguments were')} given; write {usage}"
        )
    return arguments


def _column(spark: SparkSession, expression: JavaObject) -> Column:
    return Column(handles_of(spark).named("org.apache.spark.sql.Column")(expression))


def _blob(expression: JavaObject, spark: SparkSession) -> Column:
    described = json.loads(expression.dataType().json())
    if described == "void":
        return F.lit(None).cast(blob_struct())
    if not is_blob(described):
        text = str(expression.dataType().sql())
        raise InvalidTypeError(
            f"{expression.sql()} is {text}, which is no blob; a blob is a BLOB column, or STRUCT<type: STRING, "
            "data: BINARY, reference: STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>>"
        )
    return _column(spark, expression)


def whole(blob: Column) -> Column:
    """Return a blob as an expression for which Spark reads the whole struct, not only the fields that are used."""
    # The code that Spark 3.5 makes for element_at(array(blob), 1) does not compile where the blob is never NULL.
    return F.element_at(F.array_repeat(blob, 1), 1)


def is_blob(described: Any) -> bool:
    """Return True if a Spark type, as parsed JSON, is the BLOB struct; nullability and case of names are ignored."""
    return bool(_shape(described) == _shape(json.loads(blob_struct().json())))


def _shape(described: Any) -> Any:
    """Return names in lower case and types of a struct, without nullability and metadata; other types unchanged."""
    if isinstance(described, dict) and described.get("type") == "struct":
        return [(field["name"].lower(), _shape(field["type"])) for field in described["fields"]]
    return described


def _no_reference() -> Column:
    fields: StructType = blob_struct()
    return F.lit(None).cast(fields["reference"].dataType).alias("reference")


def _as_call(
    spark: SparkSession, name: str, arguments: list[JavaObject], value: Column, metadata: dict[str, str] | None = None
) -> JavaObject:
    """Return the expression of a call, named as it was written, ``read_blob(image)``, and not as it is computed.

    Spark removes the name if the call is inside another expression.
    """
    handles, described = handles_of(spark), json.dumps(metadata or {})
    pretty = handles.module("org.apache.spark.sql.catalyst.util.package")
    shown = [str(a.name() if node_name(a) == "Alias" else pretty.toPrettySQL(a)) for a in arguments]
    read = handles.static("org.apache.spark.sql.types.Metadata", "fromJson")
    kept = handles.made("metadata", described, lambda: read(described))
    return getattr(value._jc, "as")(f"{name}({', '.join(shown)})", kept).expr()
