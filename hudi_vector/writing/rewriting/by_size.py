"""Application of the current inline thresholds to stored blobs: moves them out of their rows, or into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from hudi_vector.blobs.names import BLOB_AREA, reference_base
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE
from hudi_vector.errors import DataFileError
from hudi_vector.schema import blob_struct
from hudi_vector.spark.blobs.api import try_read_blob
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.table.timeline import Instant
from hudi_vector.writing.blobs.staged_files import stage_list
from hudi_vector.writing.committing.commits import TOKEN_KEY
from hudi_vector.writing.failures import in_one_sentence
from hudi_vector.writing.rewriting.references import blob_at, moved_blob, with_blob
from hudi_vector.writing.rewriting.repack import key_columns
from hudi_vector.writing.rewriting.rewrite import Rewriting, listed_now, reapply_overwritten, same_rows, still_there
from hudi_vector.writing.writer import write

__all__ = ["BY_SIZE", "BY_SIZE_SCHEMA", "BySize", "count_by_size", "store_by_size"]

BY_SIZE = "by-size"
"""The subfolder with the keys of the rows that change, which are targets of `rewrite.reapply_overwritten`."""
BY_SIZE_SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in ("key", "partition", "version")),
        *(StructField(name, IntegerType()) for name in ("out", "into")),
    ]
)
"""The columns of that list: a row, and how many of its blobs leave it and move into it."""
_WANTED = "__hudi_vector_wanted"


@dataclass(frozen=True)
class BySize:
    """The result of `store_by_size`.

    `moved_out` and `moved_in` count the blobs that left or entered their rows, `instant` is the commit (None if there
    was none), and `restored` counts the rows of other writers that were written again.
    """

    moved_out: int = 0
    moved_in: int = 0
    instant: str | None = None
    restored: int = 0


def count_by_size(table: BlobTable, settings: BlobSettings) -> tuple[int, int]:
    """Return how many blobs would leave their rows, and how many would move into them.

    Raises DataFileError if the rows cannot be read.
    """
    out, into = _flags(table, settings)
    found = table.frame.select(_count(out).alias("out"), _count(into).alias("into")).agg(F.sum("out"), F.sum("into"))
    with in_one_sentence(_failed(table), DataFileError):
        row = found.first()
    return (int(row[0] or 0), int(row[1] or 0)) if row else (0, 0)


def store_by_size(
    work: Rewriting,
    settings: BlobSettings,
    folder: str,
    token: str,
    before_commit: Callable[[frozenset[Instant]], None],
    committed: Callable[[str], None],
) -> BySize:
    """Apply the inline thresholds to the rows of a table, by one upsert of the rows that change.

    Only managed blobs may move into their rows; external files stay, and so do blobs that cannot be read.

    Args:
        work: The table.
        settings: How blobs are stored.
        folder: The folder for intermediate files; its subfolder `BY_SIZE` gets the keys of the rows that change.
        token: A unique text that the commit carries.
        before_commit: Called, when all is ready, with the instants completed before the rows were read; an exception
            stops the commit.
        committed: Called with the instant, before rows that other writers wrote meanwhile are restored.
    """
    timeline = listed_now(work.known)
    table, seen = work.now(timeline), frozenset(timeline.commits)
    out, into = _flags(table, settings)
    number = {"out": _count(out), "into": _count(into)}
    marked = table.frame.select(*key_columns(table), *(count.alias(name) for name, count in number.items()))
    kept = stage_list(marked.where("out + into > 0"), f"{folder}/{BY_SIZE}", table.options)
    kept.note()
    targets = kept.frame
    with in_one_sentence(_failed(table), DataFileError):
        moved = targets.agg(F.sum("out"), F.sum("into")).first()
        left = still_there(table, targets) if moved and (moved[0] or moved[1]) else None
    if moved is None or left is None:
        return BySize()
    rows = _with_inline(same_rows(table, left.select("key", "partition", "version")), table, into)
    before_commit(seen)
    blobs = {name: {"check_files": False, "pin": "false"} for name in table.columns}
    key = table.config.record_key_fields
    options = {**settings.to_options(), **work.settings(), TOKEN_KEY: token}
    done = write(rows, work.table, record_key=key, operation="upsert", blobs=blobs, options=options)
    if done.instant is None:
        return BySize()
    committed(done.instant)
    restored = reapply_overwritten(work, left, seen, done.instant, folder)
    return BySize(int(moved[0]), int(moved[1]), done.instant, restored)


def _failed(table: BlobTable) -> str:
    return f"reading the sizes of the blobs of '{table.label}' failed"


def _flags(table: BlobTable, settings: BlobSettings) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
    """Return for each column whether a row's blob must leave the row, and whether it must move into the row."""
    threshold = settings.inline_threshold
    out = {name: _too_large(table.blob(name), threshold) for name in table.columns}
    return out, {name: _small(table, name, threshold) for name in table.columns}


def _too_large(blob: Column, threshold: int) -> Column:
    return F.coalesce((blob["type"] == INLINE) & (F.octet_length(blob["data"]) >= threshold), F.lit(False))


def _small(table: BlobTable, name: str, threshold: int) -> Column:
    blob = table.blob(name)
    reference = blob["reference"]
    own = reference["managed"] & reference["external_path"].contains(f"{BLOB_AREA}/")
    return F.coalesce((blob["type"] == OUT_OF_LINE) & own & (reference["length"] < threshold), F.lit(False))


def _count(flags: Mapping[str, Column]) -> Column:
    return sum((flag.cast("int") for flag in flags.values()), F.lit(0))


def _with_inline(rows: DataFrame, table: BlobTable, into: Mapping[str, Column]) -> DataFrame:
    """Return rows of a table in which the blobs that must move into their row hold their bytes, if they can be read."""
    # Columns by themselves: reading repeats its argument a hundred times, which Spark would plan for seconds.
    names = {name: f"{_WANTED}{number}" for number, name in enumerate(into)}
    for name, applies in into.items():
        rows = rows.withColumn(names[name], F.when(applies, _from_anywhere(blob_at(name), table)))
    for name in names.values():
        rows = rows.withColumn(name, try_read_blob(name))
    for name, data in names.items():
        rows = with_blob(rows, name, F.when(F.col(data).isNotNull(), _inline(F.col(data))).otherwise(blob_at(name)))
    return rows.drop(*names.values())


def _from_anywhere(blob: Column, table: BlobTable) -> Column:
    """Return a blob with an absolute path, as the reader of the blob does not know the table's folder."""
    path = blob["reference"]["external_path"]
    base = F.lit(reference_base(table.source.uri) + "/")
    return moved_blob(blob, F.when(path.startswith(f"{BLOB_AREA}/"), F.concat(base, path)).otherwise(path))


def _inline(data: Column) -> Column:
    nothing = F.lit(None).cast(blob_struct()["reference"].dataType)
    return F.struct(F.lit(INLINE).alias("type"), data.alias("data"), nothing.alias("reference"))
