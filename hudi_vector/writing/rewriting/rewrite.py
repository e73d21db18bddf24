"""Rewriting of rows' references in one Hudi commit, and restoring of rows that concurrent writers changed.

Rows are read again right before the commit, and only rows whose version is still the one whose blobs were copied are
written. Commits of other writers between this read and our commit are detected afterwards: rows are compared with their
state right before our instant, and a newer row that our commit overwrote is written again. Hudi itself keeps the newer
row if the table has an ordering field and the newer row has the greater value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.errors import RefusedError, WriteError
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.stored_partitions import require_stored_partitions, with_stored_partitions
from hudi_vector.table.actions import changed_file_groups, read_action, write_statistics
from hudi_vector.table.avro_schema import WRITTEN_BY_HUDI
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import Instant, Timeline
from hudi_vector.writing.blobs.staged_files import stage_list
from hudi_vector.writing.client import metadata_setting
from hudi_vector.writing.committing.commits import Commit, new_token
from hudi_vector.writing.committing.hand_over import hand_to_hudi
from hudi_vector.writing.failures import in_one_sentence, is_conflict
from hudi_vector.writing.files import Files
from hudi_vector.writing.request import write_request
from hudi_vector.writing.rewriting.references import blob_at, moved_blob, with_blob
from hudi_vector.writing.rewriting.repack import key_columns, version_column
from hudi_vector.writing.writer import plan_write, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "LOCKING",
    "Rewriting",
    "commit_rows",
    "committed_now",
    "is_concurrent",
    "listed_now",
    "reapply_overwritten",
    "rewrite_rows",
    "same_rows",
    "still_there",
]

CONCURRENCY = "hoodie.write.concurrency.mode"
_LOCK = "hoodie.write.lock.provider"
LOCKING = (CONCURRENCY, _LOCK)
"""The settings that decide whether writers use a lock."""

_OURS = {
    # With these, Hudi refuses our commit if another one changed the same files meanwhile, whatever settings the
    # other writer has.
    CONCURRENCY: "optimistic_concurrency_control",
    _LOCK: "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
_QUIET = {
    # The table's state before our commit must still be readable after it.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
}
_READ_KEY = "_hudi_vector.read"
"""The commits that were there when the rows of a commit were read; Hudi copies such options into the commit."""
_TIME_TRAVEL = "HoodieTimeTravelException"
_ATTEMPTS = 3
_ROUNDS = 5
_PARTITION_PATH = "_hoodie_partition_path"
_KEY, _PARTITION, _VERSION, _CHANGES = (f"__hudi_vector_{name}" for name in ("key", "partition", "version", "changes"))


@dataclass
class Rewriting:
    """A table whose references are rewritten, by name and as it was opened, and Hudi's settings for the commits.

    `alone` says that no other process writes: Hudi then rolls back what an earlier writer left unfinished.
    """

    spark: SparkSession
    table: str
    known: BlobTable
    options: Mapping[str, str]
    alone: bool = False
    _newest: BlobTable | None = field(default=None, init=False, repr=False, compare=False)
    _listed: frozenset[Instant] = field(default=frozenset(), init=False, repr=False, compare=False)

    def opened(self) -> BlobTable:
        """Return the table in its present state, which Spark loads again."""
        return self.known.again()

    def now(self, timeline: Timeline | None = None) -> BlobTable:
        """Return the table in its present state; Spark loads and lists it again only if that has changed.

        `timeline` is given if it was just listed. To list it is one round of requests, and to load and list the table
        some twenty.
        """
        newest = self._newest or self.known
        timeline = listed_now(newest) if timeline is None else timeline
        self._newest, self._listed = newest.seen_in(timeline), frozenset(timeline.commits)
        return self._newest

    def read(self) -> str:
        """Return the commits that `now` listed last, as the text that a commit carries."""
        return ",".join(sorted(commit.requested for commit in self._listed))

    def settings(self) -> dict[str, str]:
        """Return the settings of a commit; the caller's options override all others.

        A table without Hudi's metadata table stays without it: Hudi's default would build one, which the next writer
        that has it off removes.
        """
        ours = {} if self.alone or is_concurrent(self.options) else _OURS
        kept = metadata_setting(self.spark, self.known.source.hadoop_path, self.options)
        return {**kept, **ours, **_QUIET, **self.options}


def is_concurrent(options: Mapping[str, str]) -> bool:
    """Return True if Hudi's settings make writers use a lock.

    Example:
        >>> is_concurrent({})
        False
    """
    mode = options.get(CONCURRENCY, "single_writer").lower()
    return mode != "single_writer" and bool(options.get(_LOCK))


def listed_now(table: BlobTable) -> Timeline:
    """Return the timeline from a new listing."""
    return NativeTable(table.source).first_timeline()


def committed_now(table: BlobTable) -> frozenset[Instant]:
    """Return the completed instants that changed data files, from a new listing."""
    return frozenset(listed_now(table).commits)


def rewrite_rows(work: Rewriting, targets: DataFrame, token: str, before_commit: Callable[[], None]) -> Commit | None:
    """Rewrite the references of rows and nothing else; return the commit, or None if no row has its version any more.

    Args:
        work: The table.
        targets: The new references, from `repack.targets_of`.
        token: A unique text that the commit carries.
        before_commit: Called when all is ready; an exception stops the commit.

    Raises:
        RefusedError: Other writers changed the same files during each of three attempts.
        WriteError: Spark or Hudi failed.
    """
    for _ in range(_ATTEMPTS):
        with in_one_sentence(_failed(work)):
            table = work.now()
            left = still_there(table, targets)
            if left is None:
                return None
            before_commit()
            try:
                return commit_rows(work, _changed(table, left), table, token)
            except Py4JJavaError as problem:
                if not is_conflict(problem):
                    raise
    raise RefusedError(
        f"other writers changed the same files of '{work.table}' during each of {_ATTEMPTS} attempts to rewrite "
        "references; nothing was changed, run it again when less is written"
    )


def still_there(table: BlobTable, targets: DataFrame) -> DataFrame | None:
    """Return the targets that are still one row of the same version, or None if there are none.

    Keys of several rows are left out, as an upsert would merge these rows. Targets whose version has changed may
    remain; `same_rows` drops them.
    """
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
    """Return the rows of the targets with their new references."""
    rows = same_rows(table, targets)
    for name in table.columns:
        blob, change = blob_at(name), F.element_at(_CHANGES, F.lit(name))
        moved = moved_blob(blob, change["path"], change["begin"], change["count"])
        rows = with_blob(rows, name, F.when(change.isNotNull(), moved).otherwise(blob))
    return rows.drop(_CHANGES)


def same_rows(table: BlobTable, targets: DataFrame) -> DataFrame:
    """Return the rows of a table that still have the version in the targets.

    `targets` has `key`, `partition`, `version` and further columns, which are added to the rows as ``__hudi_vector_…``.
    """
    wanted = targets.select(*(F.col(name).alias(f"__hudi_vector_{name}") for name in targets.columns))
    same = (table.key() == F.col(_KEY)) & (table.partition() == F.col(_PARTITION))
    same &= version_column(table).eqNullSafe(F.col(_VERSION))
    return table.frame.join(wanted, same).drop(_KEY, _PARTITION, _VERSION)


def commit_rows(work: Rewriting, rows: DataFrame, table: BlobTable, token: str) -> Commit | None:
    """Write rows of a table by one upsert, as they are; return the commit, or None if the write made none.

    Raises UnsupportedTableError if the rows were read with other values of their partition columns.
    """
    if _PARTITION_PATH in rows.columns:
        require_stored_partitions(work.table, table.frame.schema, table.config)
    files = Files(work.spark)
    plain = rows.drop(*WRITTEN_BY_HUDI)
    options = {**work.settings(), _READ_KEY: work.read()}
    request = write_request(work.table, record_key=table.config.record_key_fields, operation="upsert", options=options)
    return hand_to_hudi(work.spark, files, plain, plan_write(plain, request, files, table.frame.schema), token)


def reapply_overwritten(
    work: Rewriting,
    targets: DataFrame,
    seen: frozenset[Instant],
    instant: str,
    folder: str,
    completed: frozenset[Instant] | None = None,
) -> int:
    """Write again the rows of other writers that our commit overwrote; return their number, including deleted rows.

    Args:
        work: The table.
        targets: The rows we meant to change, with the version that was read.
        seen: The instants that were completed before the rows were read.
        instant: Our commit.
        folder: The folder for intermediate rows.
        completed: The instants that were completed after our commit, if they have been listed.

    Raises:
        RefusedError: Other writers came in between in each of five rounds.
        WriteError: Spark or Hudi failed.
    """
    with in_one_sentence(_failed(work)):
        return _reapply(work, targets, seen, instant, folder, completed)


def _failed(work: Rewriting) -> str:
    return f"the rewrite of references of '{work.table}' failed"


def _reapply(
    work: Rewriting,
    targets: DataFrame,
    seen: frozenset[Instant],
    instant: str,
    folder: str,
    completed: frozenset[Instant] | None,
) -> int:
    restored = 0
    for number in range(_ROUNDS):
        listed = committed_now(work.known) if completed is None else completed
        completed, earlier = None, [commit for commit in listed if commit.requested < instant]
        others = set(earlier) - seen
        if not others or not work.known.config.populates_meta_fields:
            return restored
        ours = [commit for commit in listed if commit.requested == instant]
        if ours and _cannot_overwrite(work, ours[0], list(others)):
            return restored
        table, seen = work.opened(), listed
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
        again = None if rows.isEmpty() else commit_rows(work, rows, table, new_token())
        if again is None:
            return restored
        targets, instant = newer.select("key", "partition", F.col("now").alias("version")), again.instant
    raise RefusedError(
        f"other writers changed '{work.table}' while rows of theirs were restored, {_ROUNDS} times in a row; "
        "run the compaction again when less is written: it goes on where this run stopped"
    )


def _cannot_overwrite(work: Rewriting, ours: Instant, others: Sequence[Instant]) -> bool:
    """Return True if our commit cannot have overwritten rows of the other commits, as the records of all of them say.

    It cannot if its rows were read after the others, or if it only updated rows, none of them in a file group that one
    of the others changed: whoever changes or deletes a row changes its file group, and a row that comes back after it
    was deleted is an insert. Hudi reads no earlier state while an instant before it is unfinished, as one is that lost
    a conflict, so that rows are only compared where this does not hold.
    """
    native = NativeTable(work.known.source)
    files = [native.config.layout.file(native.source.uri, commit) for commit in (ours, *others)]
    try:
        record, *theirs = native.storage.each(partial(read_action, native.storage), files)
    except FileNotFoundError:  # it was archived since it was listed
        return False
    read = str((record.get("extraMetadata") or {}).get(_READ_KEY)).split(",")
    changed = [
        changed_file_groups(one) for commit, one in zip(others, theirs, strict=True) if commit.requested not in read
    ]
    if not changed:
        return True
    mine = changed_file_groups(record)
    if mine is None or any(one.get("numInserts") != 0 for one in write_statistics(record)):
        return False
    return all(groups is not None and mine.isdisjoint(groups) for groups in changed)


def _as_of(work: Rewriting, table: BlobTable, instant: str) -> DataFrame:
    reader = work.spark.read.format("hudi").option("as.of.instant", instant)
    return with_stored_partitions(reader.load(table.source.hadoop_path), table.config)


def _overwritten(
    work: Rewriting, table: BlobTable, targets: DataFrame, instant: str, prior: str, folder: str
) -> DataFrame:
    """Return the rows of an instant whose version right before it was not the one that was read.

    The result has the versions `before` the instant (NULL if deleted) and `now`, and is stored in `folder`.
    """
    keys = key_columns(table)
    ours = table.frame.where(F.col("_hoodie_commit_time") == instant).select(*keys).withColumnRenamed("version", "now")
    before = _as_of(work, table, prior).select(*keys).withColumnRenamed("version", "before")
    compared = targets.join(ours, ["key", "partition"]).join(before, ["key", "partition"], "left")
    lost = compared.where(~F.col("before").eqNullSafe(F.col("version"))).select("key", "partition", "before", "now")
    try:
        return stage_list(lost, folder, table.options).frame
    except WriteError as problem:
        if _TIME_TRAVEL not in str(problem):
            raise
        raise RefusedError(
            f"rows of '{work.table}' that others wrote meanwhile cannot be compared with those of commit {instant}: an "
            "earlier instant of another writer is unfinished, and Hudi reads no state behind it; wait until that "
            "writer has ended, or roll the instant back if it is dead, and run this again: it goes on from here"
        ) from None


def _remove(work: Rewriting, table: BlobTable, gone: DataFrame) -> None:
    """Delete the rows again that another writer had deleted."""
    if gone.isEmpty():
        return
    marked = table.frame.withColumn(_KEY, table.key()).withColumn(_PARTITION, table.partition())
    keys = gone.select(F.col("key").alias(_KEY), F.col("partition").alias(_PARTITION))
    rows = marked.join(keys, [_KEY, _PARTITION], "left_semi").drop(_KEY, _PARTITION)
    key = table.config.record_key_fields
    write(rows, work.table, record_key=key, operation="delete", options=work.settings())
