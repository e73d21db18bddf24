"""References of rows rewritten by one Hudi commit, and what concurrent writers did looked after.

The rows are read anew right before the commit, and only those are written that are still the version whose blobs were
copied. What another writer commits between this read and the commit is found afterwards: rows are compared with what
they were right before our instant, and where ours stands over a newer one, that is written again. Hudi itself keeps the
newer row where the table has an ordering field and the newer row a greater value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.errors import RefusedError
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Instant
from hudi_vector.writing.commits import Commit, new_token
from hudi_vector.writing.failures import in_one_sentence
from hudi_vector.writing.files import Files
from hudi_vector.writing.request import write_request
from hudi_vector.writing.rewriting.references import blob_at, moved_blob, with_blob
from hudi_vector.writing.rewriting.repack import key_columns, version_column
from hudi_vector.writing.writer import hand_to_hudi, plan_write, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "LOCKING",
    "Rewriting",
    "committed_now",
    "is_concurrent",
    "is_conflict",
    "reapply_overwritten",
    "rewrite_rows",
    "same_rows",
    "still_there",
]

CONCURRENCY = "hoodie.write.concurrency.mode"
_LOCK = "hoodie.write.lock.provider"
LOCKING = (CONCURRENCY, _LOCK)
"""The settings that say whether writers take turns."""

_OURS = {
    # Hudi then refuses our commit if another one changed the same files while it was made, whatever others do.
    CONCURRENCY: "optimistic_concurrency_control",
    _LOCK: "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
_QUIET = {
    # What was there before our commit is looked at after it.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
}
_CONFLICT = "HoodieWriteConflictException"
_ATTEMPTS = 3
_ROUNDS = 5
_KEY, _PARTITION, _VERSION, _CHANGES = (f"__hudi_vector_{name}" for name in ("key", "partition", "version", "changes"))


@dataclass(frozen=True)
class Rewriting:
    """A table whose references are rewritten, by its name, and Hudi's settings for the commits.

    `alone` says that nobody else writes: Hudi then rolls back what an earlier writer left unfinished.
    """

    spark: SparkSession
    table: str
    options: Mapping[str, str]
    alone: bool = False

    def opened(self) -> BlobTable:
        """The table as it is now."""
        return BlobTable.of(self.spark, self.table)

    def settings(self) -> dict[str, str]:
        """The settings of a commit; what the caller set stays."""
        ours = {} if self.alone or is_concurrent(self.options) else _OURS
        return {**ours, **_QUIET, **self.options}


def is_concurrent(options: Mapping[str, str]) -> bool:
    """Whether settings say that writers take turns by a lock.

    Args:
        options: Hudi's settings.

    Example:
        >>> is_concurrent({})
        False
    """
    mode = options.get(CONCURRENCY, "single_writer").lower()
    return mode != "single_writer" and bool(options.get(_LOCK))


def committed_now(table: BlobTable) -> frozenset[Instant]:
    """The completed actions that changed data files, by a listing of now."""
    return frozenset(NativeTable(table.source).timeline().commits)


def rewrite_rows(work: Rewriting, targets: DataFrame, token: str, before_commit: Callable[[], None]) -> Commit | None:
    """Rewrite the references of rows, everything else as it is.

    Args:
        work: The table.
        targets: From `repack.targets_of`.
        token: A text for the commit to carry.
        before_commit: Called when all is ready; what it raises stops the commit.

    Returns:
        The commit, None if no row is left as it was.

    Raises:
        RefusedError: Other writers changed the same files, time after time.
        WriteError: Spark or Hudi gave the commit up.
    """
    for _ in range(_ATTEMPTS):
        with in_one_sentence(_failed(work)):
            table = work.opened()
            left = still_there(table, targets)
            if left is None:
                return None
            before_commit()
            try:
                return _commit(work, _changed(table, left), table, token)
            except Py4JJavaError as problem:
                if not is_conflict(problem):
                    raise
    raise RefusedError(
        f"other writers changed the same files of '{work.table}' during each of {_ATTEMPTS} attempts to rewrite "
        "references; nothing was changed, run it again when less is written"
    )


def still_there(table: BlobTable, targets: DataFrame) -> DataFrame | None:
    """The targets that one row each still is; an upsert would make one of rows that share a key."""
    wanted = targets.select("key", "partition", F.col("version").alias("wanted"))
    hits = table.frame.select(*key_columns(table)).join(wanted, ["key", "partition"])
    same = F.col("version").eqNullSafe(F.col("wanted")).cast("int")
    each = hits.groupBy("key", "partition").agg(F.count(F.lit(1)).alias("rows"), F.max(same).alias("same"))
    found = each.agg(F.sum("same"), F.sum(F.when(F.col("rows") > 1, 1).otherwise(0))).first()
    assert found is not None
    if not found[0]:
        return None
    return targets.join(each.where("rows > 1"), ["key", "partition"], "left_anti") if found[1] else targets


def _changed(table: BlobTable, targets: DataFrame) -> DataFrame:
    """The rows as they are to be."""
    rows = same_rows(table, targets)
    for name in table.columns:
        blob, change = blob_at(name), F.element_at(_CHANGES, F.lit(name))
        moved = moved_blob(blob, change["path"], change["begin"], change["count"])
        rows = with_blob(rows, name, F.when(change.isNotNull(), moved).otherwise(blob))
    return rows.drop(_CHANGES)


def same_rows(table: BlobTable, targets: DataFrame) -> DataFrame:
    """The rows of a table that are still the targets' versions.

    Args:
        table: The table.
        targets: Rows of `key`, `partition`, `version` and what is to stand beside the table's columns, as
            ``__hudi_vector_…``.
    """
    wanted = targets.select(*(F.col(name).alias(f"__hudi_vector_{name}") for name in targets.columns))
    same = (table.key() == F.col(_KEY)) & (table.partition() == F.col(_PARTITION))
    same &= version_column(table).eqNullSafe(F.col(_VERSION))
    return table.frame.join(wanted, same).drop(_KEY, _PARTITION, _VERSION)


def _commit(work: Rewriting, rows: DataFrame, table: BlobTable, token: str) -> Commit | None:
    files = Files(work.spark)
    plain = rows.drop(*[name for name in rows.columns if name.startswith("_hoodie_")])
    request = write_request(
        work.table, record_key=table.config.record_key_fields, operation="upsert", options=work.settings()
    )
    return hand_to_hudi(work.spark, files, plain, plan_write(plain, request, files), token)


def reapply_overwritten(
    work: Rewriting, targets: DataFrame, seen: frozenset[Instant], instant: str, folder: str
) -> int:
    """Write again what our commit stands over although it was written after our rows were read.

    Args:
        work: The table.
        targets: The rows we meant to change, with the version that was read.
        seen: What was committed before they were read.
        instant: Our commit.
        folder: Where rows are kept in between.

    Returns:
        How many rows had been overwritten, those that had been deleted among them.

    Raises:
        RefusedError: Other writers came in between each time.
        WriteError: Spark or Hudi gave a commit up.
    """
    with in_one_sentence(_failed(work)):
        return _reapply(work, targets, seen, instant, folder)


def is_conflict(problem: Py4JJavaError) -> bool:
    """Whether Hudi refused a commit because of another one."""
    return _CONFLICT in str(problem)


def _failed(work: Rewriting) -> str:
    return f"the rewrite of references of '{work.table}' failed"


def _reapply(work: Rewriting, targets: DataFrame, seen: frozenset[Instant], instant: str, folder: str) -> int:
    restored = 0
    for number in range(_ROUNDS):
        table = work.opened()
        earlier = [commit for commit in committed_now(table) if commit.requested < instant]
        if not set(earlier) - seen or not table.config.populates_meta_fields:
            return restored
        seen = committed_now(table)
        prior = max(commit.requested for commit in earlier)
        lost = _overwritten(work, table, targets, instant, prior, f"{folder}/overwritten-{number}")
        count = lost.count()
        if not count:
            return restored
        restored += count
        _remove(work, table, lost.where("before IS NULL"))
        newer = lost.where("before IS NOT NULL")
        rows = _as_of(work, table, prior).withColumn(_KEY, table.key()).withColumn(_PARTITION, table.partition())
        kept = newer.select(F.col("key").alias(_KEY), F.col("partition").alias(_PARTITION))
        rows = rows.join(kept, [_KEY, _PARTITION], "left_semi").drop(_KEY, _PARTITION)
        again = None if rows.isEmpty() else _commit(work, rows, table, new_token())
        if again is None:
            return restored
        targets, instant = newer.select("key", "partition", F.col("now").alias("version")), again.instant
    raise RefusedError(
        f"other writers changed '{work.table}' while rows of theirs were restored, {_ROUNDS} times in a row; "
        "run the compaction again when less is written: it goes on where this run stopped"
    )


def _as_of(work: Rewriting, table: BlobTable, instant: str) -> DataFrame:
    reader = work.spark.read.format("hudi").option("as.of.instant", instant)
    return reader.load(table.source.hadoop_path)


def _overwritten(
    work: Rewriting, table: BlobTable, targets: DataFrame, instant: str, prior: str, folder: str
) -> DataFrame:
    """The rows of an instant that were not, right before it, what was read: their versions `before` and `now`."""
    keys = key_columns(table)
    ours = table.frame.where(F.col("_hoodie_commit_time") == instant).select(*keys).withColumnRenamed("version", "now")
    before = _as_of(work, table, prior).select(*keys).withColumnRenamed("version", "before")
    compared = targets.join(ours, ["key", "partition"]).join(before, ["key", "partition"], "left")
    lost = compared.where(~F.col("before").eqNullSafe(F.col("version"))).select("key", "partition", "before", "now")
    lost.write.mode("overwrite").parquet(folder)
    return work.spark.read.schema(lost.schema).parquet(folder)


def _remove(work: Rewriting, table: BlobTable, gone: DataFrame) -> None:
    """Delete what another writer had deleted."""
    if gone.isEmpty():
        return
    marked = table.frame.withColumn(_KEY, table.key()).withColumn(_PARTITION, table.partition())
    keys = gone.select(F.col("key").alias(_KEY), F.col("partition").alias(_PARTITION))
    rows = marked.join(keys, [_KEY, _PARTITION], "left_semi").drop(_KEY, _PARTITION)
    key = table.config.record_key_fields
    write(rows, work.table, record_key=key, operation="delete", options=work.settings())
