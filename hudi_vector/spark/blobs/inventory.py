"""The function ``hv.blobs.inventory``: counts of blobs and bytes by file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.counts.here import inventory_here
from hudi_vector.options import Settings
from hudi_vector.storage import open_storage
from hudi_vector.storage.listed import with_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["inventory"]


@overload
def inventory(spark: SparkSession, table: str | os.PathLike[str]) -> DataFrame: ...


@overload
def inventory(spark: Settings | None, table: str | os.PathLike[str]) -> pa.Table: ...


@known_arguments()
def inventory(spark: SparkSession | Settings | None, table: str | os.PathLike[str]) -> DataFrame | pa.Table:
    """Count a table's blobs, their bytes, and the bytes that nothing refers to.

    The result has one row for each BLOB column, partition and file, and one for all INLINE blobs of a column and
    partition:

    - ``column`` (dotted if nested), ``partition`` (its path, empty without one);
    - ``container``: the file's URI, or ``inline``;
    - ``kind``: ``inline``; ``managed`` for files in the table's blob area and for others that references call managed;
      ``external`` for all other files;
    - ``blobs``: the number of rows of the newest snapshot that refer to the file, without NULL blobs;
    - ``bytes``: the bytes that these rows refer to, each distinct range counted once;
    - ``shared``: the number of rows, beyond the first, that refer to the same range;
    - ``dead_bytes``: the bytes of a file in the blob area that no row of the newest snapshot refers to. Older snapshots
      and running writes may refer to them. The overhead of Parquet and Lance containers counts as dead. If several
      columns or partitions share a file, its dead bytes are in the row of the one that the file was written for;
    - ``dangling``: the number of rows whose file is gone, a directory or too short. A file that cannot be looked up
      counts as present.

    Files in the blob area that no row refers to have ``blobs`` = 0.

    Args:
        spark: A registered session; `Settings` of `hudi_vector.options` for a path, or None for a path on this machine.
        table: A catalog name or the path of a Hudi table.

    Returns:
        With a session, a lazy, unordered DataFrame. This call lists the table's files and blob area; the rows are read
        at every run of the DataFrame, so cache it to use it more than once. The run fails on a blob whose fields
        contradict each other. Without a session, a ``pyarrow.Table`` of the same columns, sorted by the first three.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or a view that does more than name one, or only a session can
            read its rows.
        InvalidBlobError: Without a session, the fields of a blob contradict each other.

    Example:
        >>> hv.blobs.inventory(spark, "photos").groupBy("kind").sum("blobs", "bytes", "dead_bytes").show()
    """
    if spark is None or isinstance(spark, Settings):
        return inventory_here(Settings() if spark is None else spark, table)
    from hudi_vector.spark.blobs.counted import inventory_of
    from hudi_vector.spark.blobs.table import BlobTable

    found = BlobTable.of(spark, table)
    storage = open_storage(found.area.uri, found.options)
    return inventory_of(found, with_names(storage.list_files(found.area.uri, recursive=True))[0])
