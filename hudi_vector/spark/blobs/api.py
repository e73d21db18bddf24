"""The Python functions on blobs: ``hv.read_blobs`` for a DataFrame, and the SQL functions as Columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import DataType, StructType

from hudi_vector.arguments import as_text, known_arguments
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError, UnknownColumnError, kind_of
from hudi_vector.options import parse_size
from hudi_vector.schema import quoted
from hudi_vector.spark.blobs.functions import bytes_of, is_blob, verifies, whole
from hudi_vector.spark.blobs.late import read_late
from hudi_vector.spark.blobs.origin import column_is_of_object_stores
from hudi_vector.spark.blobs.references import bytes_at, is_reference
from hudi_vector.spark.catalyst.nested_fields import column_names, field_at, field_path
from hudi_vector.spark.resolve import storage_options

__all__ = ["blob_length", "blob_location", "blob_ref", "read_blob", "read_blobs", "to_blob", "try_read_blob"]

ColumnOrName = Column | str


@known_arguments()
def read_blobs(
    df: DataFrame,
    columns: str | Iterable[str],
    *,
    as_: Mapping[str, str] | None = None,
    memory_budget: int | str = "64MB",
    max_gap: int | str | None = None,
    threads: int | None = None,
    on_error: str = "raise",
    table: str | None = None,
    verify: bool | None = None,
) -> DataFrame:
    """Add the bytes of blobs to a DataFrame; they are read last, after all operations of `df`.

    Bytes of INLINE blobs never leave the JVM. Tasks read references in few, large, parallel reads: ranges of one file
    that are close to each other are one read. The Python process of a task holds the bytes of one piece
    (`memory_budget`) at a time, or of one value that is larger. Values of 256 KiB to 64 MiB in local files do not pass
    through Python: the JVM reads them, one at a time, where Python found them readable.

    Args:
        df: Rows with BLOB columns from a table, a view or a search, or rows with references from `blob_references`.
        columns: One such column or several; ``"doc.image"`` is a field of a struct.
        as_: Names of new columns for the bytes, by column; a column that is not named is replaced by its bytes.
        memory_budget: Bytes of one piece, as a number or a text like ``"64MB"``.
        max_gap: Ranges of a file with at most this many bytes between them are read together; None chooses by storage.
        threads: The number of reads that a Python process runs at once, of large values in local files too; None
            chooses by storage.
        on_error: ``"raise"``, or ``"null"`` for NULL in place of bytes that cannot be read.
        table: The base path of the table that relative references start from.
        verify: Whether bytes are compared with the checksums kept when they were written; None follows
            ``hoodie.blob.read.verify``. Bytes that changed count as unreadable.

    Returns:
        A lazy DataFrame with BINARY columns. Apply limits and filters to `df`, before the bytes are read.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        InvalidOptionError: `memory_budget` or `max_gap` is not a valid size.
        UnknownColumnError: There is no such column.
        InvalidTypeError: `df` is not a DataFrame, or a column is not a BLOB.

    Example:
        >>> first = spark.table("photos").orderBy("taken").limit(10)
        >>> hv.read_blobs(first, "image", as_={"image": "bytes"}).columns[-1]
        'bytes'
    """
    if not isinstance(df, DataFrame):
        raise InvalidTypeError(f"df is a Spark DataFrame, not {kind_of(df)}; a table is spark.table(name)")
    names, new_names = column_names(columns), _new_names(as_, df)
    unknown = sorted(set(new_names) - set(names))
    if unknown:
        raise InvalidArgumentError(
            f"as_ names '{unknown[0]}', which is not among the columns to read: {', '.join(names)}"
        )
    fetcher = BlobFetcher(
        options=storage_options(df.sparkSession),
        table=table,
        max_gap=None if max_gap is None else _bytes("max_gap", max_gap, 0),
        threads=threads,
        on_error=on_error,
        verify=verifies(df.sparkSession) if verify is None else verify,
    )
    read_late(df.sparkSession)
    plan = df._jdf.queryExecution().analyzed()
    budget = _bytes("memory_budget", memory_budget, 1)
    kinds = {name: _require_blob(df.schema, name) for name in names}
    for name in names:
        path = field_path(df.schema, name)
        column = F.col(quoted(*path))
        reader = replace(fetcher, from_remote=table is None and column_is_of_object_stores(plan, path[0]))
        if is_reference(kinds[name]):
            value = bytes_at(column, reader, "read_blobs", budget)
        else:
            value = bytes_of(whole(column), reader, "read_blobs", budget=budget)
        df = df.withColumn(*_placed(path, new_names.get(name), value))
    return df


@known_arguments()
def read_blob(blob: ColumnOrName, offset: Any = None, length: Any = None) -> Column:
    """Read the bytes of a blob, as SQL's ``read_blob(blob[, offset, length])``.

    Args:
        blob: A BLOB column.
        offset: The first byte to read, from 0; a Column or a number.
        length: The number of bytes to read; fewer are returned if the blob ends earlier.

    Returns:
        A BINARY column, NULL for NULL. The query fails if the bytes of a row cannot be read.

    Raises:
        InvalidArgumentError: Only one of `offset` and `length` is given.

    Example:
        >>> photos.where("id = 'cat'").select(read_blob("image", 0, 3)).first()[0]
        bytearray(b'cat')
    """
    return F.call_function("read_blob", _column(blob), *_part(offset, length))


@known_arguments()
def try_read_blob(blob: ColumnOrName, offset: Any = None, length: Any = None) -> Column:
    """Read the bytes of a blob, or return NULL if they cannot be read.

    Args:
        blob: A BLOB column.
        offset: The first byte to read, from 0; a Column or a number.
        length: The number of bytes to read; fewer are returned if the blob ends earlier.

    Returns:
        A BINARY column.

    Raises:
        InvalidArgumentError: Only one of `offset` and `length` is given.

    Example:
        >>> photos.where(try_read_blob("image").isNull()).count()
        0
    """
    return F.call_function("try_read_blob", _column(blob), *_part(offset, length))


@known_arguments()
def blob_length(blob: ColumnOrName) -> Column:
    """Return the number of bytes of a blob without reading any; NULL for a reference without a length.

    Args:
        blob: A BLOB column.

    Returns:
        A BIGINT column.

    Example:
        >>> photos.select(blob_length("image")).first()[0]
        3000
    """
    return F.call_function("blob_length", _column(blob))


@known_arguments()
def blob_location(blob: ColumnOrName) -> Column:
    """Return the path of the file that holds a blob; NULL for INLINE blobs.

    Args:
        blob: A BLOB column.

    Returns:
        A STRING column.

    Example:
        >>> photos.select(blob_location("image")).first()[0][-5:]
        '.blob'
    """
    return F.call_function("blob_location", _column(blob))


@known_arguments()
def to_blob(data: ColumnOrName) -> Column:
    """Make an INLINE blob from bytes.

    Args:
        data: A BINARY column.

    Returns:
        A BLOB column; NULL for NULL.

    Example:
        >>> uploads.select(to_blob("image").alias("image")).first().image.type
        'INLINE'
    """
    return F.call_function("to_blob", _column(data))


@known_arguments()
def blob_ref(path: ColumnOrName, offset: Any = None, length: Any = None, managed: Any = None) -> Column:
    """Make a reference to a file, or to a range of it, as an OUT_OF_LINE blob.

    Args:
        path: A column of paths.
        offset: The first byte; a Column or a number. None, without a length, refers to the whole file.
        length: The number of bytes; a Column or a number.
        managed: Whether the table owns the bytes; False by default.

    Returns:
        A BLOB column; NULL for a NULL path.

    Raises:
        InvalidArgumentError: Only one of `offset` and `length` is given.

    Example:
        >>> uploads.select(blob_ref("path").alias("image")).first().image.type
        'OUT_OF_LINE'
    """
    if managed is not None and offset is None:
        offset, length = F.lit(None), F.lit(None)
    more = [] if managed is None else [_value(managed)]
    return F.call_function("blob_ref", _column(path), *_part(offset, length), *more)


def _part(offset: Any, length: Any) -> list[Column]:
    if (offset is None) != (length is None):
        raise InvalidArgumentError("offset and length go together; give both or neither")
    return [] if offset is None else [_value(offset), _value(length)]


def _value(given: Any) -> Column:
    return given if isinstance(given, Column) else F.lit(given)


def _column(given: ColumnOrName) -> Column:
    return given if isinstance(given, Column) else F.col(as_text(given, "column"))


def _new_names(given: Mapping[str, str] | None, df: DataFrame) -> dict[str, str]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidTypeError(f"as_ is a mapping of columns to new names, not {given!r}")
    taken = {name.lower() for name in df.columns}
    for column, name in (given or {}).items():
        if not isinstance(name, str) or name.lower() in taken:
            what = "a column of the DataFrame" if isinstance(name, str) else "no text"
            raise InvalidArgumentError(f"as_ names '{column}' {name!r}, which is {what}; give another name")
        taken.add(name.lower())
    return dict(given or {})


def _bytes(name: str, given: int | str, least: int) -> int:
    number = parse_size(given) if isinstance(given, str) else given
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise InvalidOptionError(
            f"{name} = {given!r} is not allowed: give bytes, {least} or more, such as 65536 or '64MB'"
        )
    return number


def _require_blob(schema: StructType, name: str) -> DataType:
    found = field_at(schema, name)
    if found is None:
        raise UnknownColumnError.of(name, schema.names, "the DataFrame")
    kind = found.dataType
    if not is_blob(json.loads(kind.json())) and not is_reference(kind):
        raise InvalidTypeError(f"column '{name}' is {kind.simpleString()}, which is no BLOB")
    return kind


def _placed(path: Sequence[str], new_name: str | None, value: Column) -> tuple[str, Column]:
    """Return the name and the new value of the top-level column that takes the bytes."""
    top, *rest = path
    if new_name is not None or not rest:
        return new_name or top, value
    return top, F.col(quoted(top)).withField(quoted(*rest), value)
