"""The function ``hv.blobs.verify``, which finds references that do not lead to their bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.counts.here import verify_here
from hudi_vector.options import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["verify"]


@overload
def verify(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    columns: str | Iterable[str] | None = None,
    deep: bool = False,
) -> DataFrame: ...


@overload
def verify(
    spark: Settings | None,
    table: str | os.PathLike[str],
    *,
    columns: str | Iterable[str] | None = None,
    deep: bool = False,
) -> pa.Table: ...


@known_arguments()
def verify(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str],
    *,
    columns: str | Iterable[str] | None = None,
    deep: bool = False,
) -> DataFrame | pa.Table:
    """Find the wrong references of a table's newest snapshot.

    The result has one row for each wrong reference, with the columns ``column``, ``key`` (the record key),
    ``partition``, ``path``, ``offset`` and ``length`` (bytes, as in the reference) and ``problem``, the first that
    applies of:

    - ``contradicts itself``: the fields are not a valid blob, for example INLINE without data or a negative offset;
    - ``relative without base``: a relative path that does not lead into the table's own blob area;
    - ``gone``, ``directory``, ``too short``: the bytes are missing. A range of 0 bytes needs no file;
    - ``unreachable``: the file cannot be checked, since a permission or a driver for the scheme is missing, or since
      references may not name its place (``hoodie.blob.read.allowed``);
    - ``foreign``: the file is in another table's blob area, whose cleaner may delete it, and the two tables are not
      registered with each other (``hv.table_services.register_tables``);
    - ``changed``: a file that the table does not own has another size or modification time than when ``hv.write`` wrote
      the reference; with `deep` also, the bytes do not match their kept checksum.

    Args:
        spark: A registered session; `Settings` of `hudi_vector.options` for a path, or None for a path on this machine.
        table: A catalog name or the path of a Hudi table.
        columns: The BLOB columns to check, all by default; ``"doc.image"`` is a field of a struct.
        deep: Whether to read the bytes of all blobs that have a checksum, which ``hoodie.storage.blob.checksum`` makes
            writes keep.

    Returns:
        With a session, a lazy, unordered DataFrame. Without one, a ``pyarrow.Table`` of the same columns, sorted by
        column, partition and key.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or a view that does more than name one, or only a session can
            read its rows.
        UnknownColumnError: There is no such column.
        InvalidTypeError: A column is not a BLOB.

    Example:
        >>> hv.blobs.verify(spark, "photos", columns="image").groupBy("problem").count().show()
    """
    if spark is None or isinstance(spark, Settings):
        return verify_here(Settings() if spark is None else spark, table, columns, deep)
    from hudi_vector.spark.blobs.checked import wrong_references
    from hudi_vector.spark.blobs.table import BlobTable

    found = BlobTable.of(spark, table)
    return wrong_references(spark, found, tuple(found.chosen(columns)), deep)
