"""The function ``hv.blobs.get``, which reads the blobs of single rows by their record keys."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reading.batches import read_batches
from hudi_vector.blobs.reading.by_key import KeyedBlobs, find_blobs, why_not_direct
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.source import blob_path, blob_path_or_none, source_here
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedTableError,
    number_of,
)
from hudi_vector.options import CACHE_MAX_BYTES, Settings
from hudi_vector.storage import scheme_of
from hudi_vector.table.model import Snapshot
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["get"]

_LOG = logging.getLogger(__name__)
_BUDGET = 64 << 20


@known_arguments()
def get(
    spark: SparkSession | Settings | None, table: str | os.PathLike[str], keys: Any, column: str
) -> dict[Any, bytes | None]:
    """Read the blobs of some rows, found by record key.

    No Spark job runs: of the files of the table's newest snapshot, statistics of record keys exclude row groups, the
    record keys of the others are read and kept in the process's cache, and of the rows that are found only the pages
    and blobs that hold them are read. Log files are merged as Hudi merges them. Spark finds the rows, by a filter on
    the key fields, in a table whose layout only Hudi's own reader understands; the log says why.

    Args:
        spark: A registered session; `Settings` of `hudi_vector.options` for a path, or None for a path on this machine.
        table: A catalog name or the path of a Hudi table.
        keys: Values of the key field, text or whole numbers; for several key fields tuples of values, in the table's
            order of key fields. All bytes are collected on the driver and must fit there.
        column: A BLOB column; ``"doc.image"`` is a field of a struct.

    Returns:
        Bytes by key, None for a NULL blob. A key that the table does not have is absent.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or has no key fields, or only a session can find its rows.
        UnknownColumnError: There is no such column.
        InvalidTypeError: The column is not a BLOB, or a key is neither text nor a whole number.
        InvalidArgumentError: A key has another number of parts than the table's keys, or several rows have it.
        BlobReadError: Bytes cannot be read.

    Example:
        >>> hv.blobs.get(spark, "photos", ["cat", "dog"], "image")
        {'cat': b'catcat...', 'dog': b'dogdog...'}
    """
    if spark is None or isinstance(spark, Settings):
        return _here(Settings() if spark is None else spark, table, keys, column)
    from hudi_vector.spark.blobs.table import table_source
    from hudi_vector.spark.resolve import storage_options

    source = table_source(spark, table, look=False)
    try:
        snapshot = NativeTable(source).snapshot()
        path = blob_path_or_none(snapshot, column)
        if path is None:
            return _by_spark(spark, table, keys, column, "the column is not found by its name")
        wanted = _texts(keys, snapshot.config.record_key_fields, source.name)
        found = _found(snapshot, path, wanted, CACHE_MAX_BYTES.in_session(spark))
    except (DataFileError, UnsupportedTableError) as problem:
        return _by_spark(spark, table, keys, column, str(problem))
    # Reading Hadoop's settings for every storage from the JVM takes longer than finding the rows.
    options = source.options if _are_local(found.blobs, source.uri) else storage_options(spark)
    return _values(found, wanted, BlobFetcher(options, source.uri), table)


def _here(settings: Settings, table: str | os.PathLike[str], keys: Any, column: str) -> dict[Any, bytes | None]:
    """Return what `get` returns for a table that is given by its path, without a session."""
    source = source_here(settings, table)
    snapshot = NativeTable(source).snapshot()
    path = blob_path(snapshot, column)
    wanted = _texts(keys, snapshot.config.record_key_fields, source.name)
    try:
        found = _found(snapshot, path, wanted, CACHE_MAX_BYTES.in_session(settings))
    except UnsupportedTableError as problem:
        raise UnsupportedTableError(f"{problem}; give a session, by which Spark finds the rows") from problem
    return _values(found, wanted, BlobFetcher(source.options, source.uri), table)


def _found(
    snapshot: Snapshot, path: tuple[str, ...], wanted: dict[Any, tuple[str, ...]], cache_bytes: int
) -> KeyedBlobs:
    """Return the blobs of the rows with the `wanted` keys; raise UnsupportedTableError if only Spark finds them."""
    if not wanted:
        return KeyedBlobs.together(())
    reason = why_not_direct(snapshot)
    if reason is not None:
        raise UnsupportedTableError(f"only Spark finds rows of '{snapshot.source.name}' by key, since {reason}")
    return find_blobs(snapshot, path, set(wanted.values()), cache_bytes)


def _values(
    found: KeyedBlobs, wanted: dict[Any, tuple[str, ...]], fetcher: BlobFetcher, table: object
) -> dict[Any, bytes | None]:
    """Return the bytes of the rows that were found, by the key that the caller gave."""
    _require_one_row(found.keys, found.partitions, table)
    by_key = dict(zip(found.keys, _bytes(found.blobs, fetcher), strict=True))
    return {key: by_key[parts] for key, parts in wanted.items() if parts in by_key}


def _are_local(blobs: pa.StructArray, table: str) -> bool:
    """Return True if all references of blobs lead to files of this machine."""
    paths = BlobColumns.of(blobs).path.drop_null().unique().to_pylist()
    return all(scheme_of(file_uri(path, table)) == "file" for path in paths)


def _bytes(blobs: pa.StructArray, fetcher: BlobFetcher) -> Iterator[bytes | None]:
    batches = iter([pa.record_batch({"blob": blobs})])
    for read in read_batches(batches, {"blob": "blob"}, fetcher, _BUDGET):
        yield from (value.as_py() for value in read.column("blob"))


def _by_spark(
    spark: SparkSession, name: str | os.PathLike[str], keys: Any, column: str, reason: str
) -> dict[Any, bytes | None]:
    """Return what `get` returns, by a Spark job that filters the rows by the key fields."""
    from hudi_vector.spark.blobs.rows_by_key import rows_by_key
    from hudi_vector.spark.blobs.table import BlobTable

    table = BlobTable.of(spark, name)
    (chosen,) = table.chosen([column])
    wanted = _texts(keys, table.config.record_key_fields, table.label)
    if not wanted:
        return {}
    _LOG.info("single blobs of %s are found by Spark: %s", table.label, reason)
    rows = rows_by_key(table, wanted, chosen)
    _require_one_row([key for key, _, _ in rows], [partition for _, partition, _ in rows], name)
    values = {key: value for key, _, value in rows}
    return {key: values[parts] for key, parts in wanted.items() if parts in values}


def _require_one_row(keys: Sequence[tuple[str, ...]], partitions: Sequence[str], table: object) -> None:
    """Raise InvalidArgumentError if two rows have the same key."""
    seen: dict[tuple[str, ...], str] = {}
    for key, partition in zip(keys, partitions, strict=True):
        if key in seen:
            raise InvalidArgumentError(
                f"partitions '{seen[key]}' and '{partition}' of '{table}' both have the key "
                f"'{', '.join(key)}'; filter a DataFrame by partition and use read_blobs"
            )
        seen[key] = partition


def _texts(keys: Any, fields: Sequence[str], label: str) -> dict[Any, tuple[str, ...]]:
    """Return each key with its values as texts, as Spark casts the key fields of the table that `label` names.

    Raises UnsupportedTableError if the table has no key fields, InvalidTypeError or InvalidArgumentError for a key that
    does not fit them.
    """
    if not fields:
        raise UnsupportedTableError(
            f"'{label}' has no key fields to look for; filter a DataFrame by its columns and use read_blobs"
        )
    texts: dict[Any, tuple[str, ...]] = {}
    if not isinstance(keys, (Iterable, Integral)):
        raise InvalidTypeError(f"keys are a list of keys, or one that is text or a whole number, not {keys!r}")
    for key in [keys] if isinstance(keys, (str, Integral)) else keys:
        parts = _parts(key)
        if len(parts) != len(fields):
            raise InvalidArgumentError(
                f"the key {key!r} has {number_of(len(parts), 'part')}, and '{label}' has the key fields "
                f"{', '.join(fields)}; "
                "give a tuple with a value for each"
            )
        texts[key] = tuple(_value_text(part, key) for part in parts)
    return texts


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _value_text(value: Any, key: Any) -> str:
    # bool is an int in Python, but Hudi writes it as 'true'.
    if isinstance(value, bool) or not isinstance(value, (str, Integral)):
        raise InvalidTypeError(
            f"the key {key!r} holds a {type(value).__name__}; give text or a whole number, as the key field holds it"
        )
    return str(value)
