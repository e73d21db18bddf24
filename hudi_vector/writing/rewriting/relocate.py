"""The public function ``hv.blobs.relocate``: points the references of a copied or moved table to its new place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.names import BLOB_AREA, reference_base
from hudi_vector.errors import InvalidArgumentError, RefusedError, TableNotFoundError, number_of
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.nested_fields import field_path
from hudi_vector.spark.stored_partitions import require_stored_partitions, with_stored_partitions
from hudi_vector.storage import normalise, scheme_of
from hudi_vector.writing.blobs.columns import blob_paths
from hudi_vector.writing.files import Files
from hudi_vector.writing.rewriting.references import blob_at, moved_blob, with_blob
from hudi_vector.writing.target import resolve_target
from hudi_vector.writing.writer import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.table.config import TableConfig
    from hudi_vector.writing.result import WriteResult

__all__ = ["relocate_blobs"]

_KEYED = ("_hoodie_record_key", "_hoodie_partition_path")


@known_arguments()
def relocate_blobs(spark: SparkSession, table: str, old_path: str) -> WriteResult | None:
    """Point the managed references of a copied or moved table to its containers at the new place.

    This is one upsert of the rows that refer to the old place. Every container must exist at the new place; if one is
    missing, nothing is changed. Older versions of the rows still refer to the old place.

    Args:
        spark: A registered session.
        table: The table at its new place, a path or a catalog name.
        old_path: The base path the table had before.

    Returns:
        The result of the write, or None if no row refers to the old place.

    Raises:
        TableNotFoundError: The table does not exist.
        InvalidArgumentError: The old path is the table's present path, or the table has no BLOB column.
        RefusedError: Several rows have one record key, which the upsert would make one.
        UnsupportedTableError: The table is partitioned by timestamps.
        InvalidBlobError: A container was not copied.

    Example:
        >>> import shutil
        >>> _ = shutil.copytree("/tables/photos", "/tables/moved")
        >>> moved = hv.blobs.relocate(spark, "/tables/moved", "/tables/photos")
    """
    target = resolve_target(spark, Files(spark), table, None)
    if target.existing is None:
        raise TableNotFoundError(f"there is no table '{table}'; give the place it was copied to")
    if normalise(old_path) == normalise(target.path):
        raise InvalidArgumentError(f"'{old_path}' is where the table is now; give the place it was copied from")
    columns = list(blob_paths(target.existing.schema))
    if not columns:
        raise InvalidArgumentError(f"'{table}' has no BLOB column; there is nothing to relocate")
    rows = with_stored_partitions(spark.read.format("hudi").load(target.path), target.existing.config)
    require_stored_partitions(table, rows.schema, target.existing.config)
    changed = {name: _Moved(blob_at(name), old_path, reference_base(target.path)) for name in columns}
    every, applies = rows, reduce(lambda one, other: one | other, (each.applies for each in changed.values()))
    rows = every.where(applies)
    if rows.isEmpty():
        return None
    _require_single_rows(table, every, applies, target.existing.config)
    for name, each in changed.items():
        rows = with_blob(rows, name, each.blob)
    settings = {name: {"inline.threshold": "16MiB"} for name in columns}  # inline blobs stay inline
    key = target.existing.config.record_key_fields
    return write(rows, table, record_key=key, operation="upsert", blobs=settings)


def _require_single_rows(table: str, rows: DataFrame, applies: Column, config: TableConfig) -> None:
    """Raise RefusedError if a row to which `applies` applies has the key and partition of another row."""
    names = _KEYED if config.populates_meta_fields else [*config.record_key_fields, *config.partition_fields]
    counts = [F.count(F.lit(1)).alias("rows"), F.max(applies).alias("moves")]
    shared = rows.groupBy(*[F.col(quoted(*field_path(rows.schema, name))) for name in names]).agg(*counts)
    several = shared.where("rows > 1 AND moves").count()
    if several:
        raise RefusedError(
            f"nothing was changed: several rows of '{table}' have one record key ({number_of(several, 'such key')}), "
            "and an upsert would write one of them over the others; give each of these rows another key, and relocate "
            "again"
        )


class _Moved:
    """A BLOB column with its managed references moved.

    `applies` is True for rows that change; `blob` is the new value.
    """

    def __init__(self, blob: Column, old_path: str, new_path: str) -> None:
        reference = blob["reference"]
        path = reference["external_path"]
        known = F.lit(False)
        moved = path
        for old in _spellings(old_path):
            begins = path.startswith(f"{old}/{BLOB_AREA}/")
            known = known | begins
            moved = F.when(
                begins, F.concat(F.lit(new_path), path.substr(F.lit(len(old) + 1), F.length(path)))
            ).otherwise(moved)
        self.applies = F.coalesce(reference["managed"] & known, F.lit(False))
        self.blob = F.when(self.applies, moved_blob(blob, moved)).otherwise(blob)


def _spellings(path: str) -> Iterator[str]:
    """Yield the forms in which a table's path may begin a reference."""
    bare = path.rstrip("/")
    uri = normalise(path)
    yield from dict.fromkeys([bare, uri, *([uri.removeprefix("file://")] if scheme_of(uri) == "file" else [])])
