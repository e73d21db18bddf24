"""A run of blob compaction: each group of containers has a separate upload, copy and commit.

    open manifest → note upload and commit → write containers and references → staged manifest → Hudi's commit →
    committed manifest → restore overwritten rows of other writers → clear the note

After a run was killed, the next run looks for the noted commit by its token. If there is no such commit, the upload is
aborted; otherwise the steps that follow a commit are completed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hudi_vector.blobs.copies.copying import Copier
from hudi_vector.blobs.uploads.manifest import (
    ABORTED,
    COMMITTED,
    abort,
    finish,
    list_uploads,
    open_upload,
    read_upload,
    renew_lease,
    stage,
)
from hudi_vector.errors import DataFileError, HudiVectorError, RefusedError
from hudi_vector.storage import StorageOptions, join
from hudi_vector.storage.leases import Renewals, clock_ms
from hudi_vector.table_services.cleaning.forget import forget_plans
from hudi_vector.table_services.compaction.dead_writes import roll_back_dead
from hudi_vector.table_services.compaction.state import require_suitable, settings_of
from hudi_vector.table_services.marking.sharers import named_by_others
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer, containers_of
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    REPACKING,
    RESIZING,
    CompactionRun,
    PendingCommit,
    begun_runs,
    publish_run,
    read_run,
)
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.retention.pending import PendingInstant, pending_ingests
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.blobs.settings import BlobSettings
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table.native import NativeTable
    from hudi_vector.writing.commits import Commit
    from hudi_vector.writing.rewriting.repack import Copied

__all__ = ["Compaction"]

C = TypeVar("C", bound="Compaction")


@dataclass
class _Done:
    """Totals of a run over the groups that are done."""

    bytes: int = 0
    blobs: int = 0
    containers: int = 0
    deduplicated: int = 0
    references: int = 0
    restored: int = 0
    commits: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Compaction:
    """A table whose blobs are compacted, with the settings for its commits.

    Attributes:
        spark: A registered session.
        name: The table, as the user named it.
        table: The opened table.
        path: The table's base path, fully qualified by Hadoop.
        hudi_options: Hudi's settings for the commits, including the session's lock settings.
        tell: A function that is called with a sentence at each step.
        alone: Whether no other process writes to the table during the run.
    """

    spark: SparkSession
    name: str
    table: BlobTable
    path: str
    hudi_options: Mapping[str, str]
    tell: Callable[[str], None]
    alone: bool

    @classmethod
    def of(
        cls: type[C],
        spark: SparkSession,
        name: str,
        options: Mapping[str, str],
        tell: Callable[[str], None],
        *,
        alone: bool,
        needs_blobs: bool = True,
    ) -> C:
        """Open a table; one without BLOB columns is accepted only if `needs_blobs` is false.

        Raise TableNotFoundError if there is no such table, and UnsupportedTableError if it is not a Hudi table or its
        rows cannot be written back unchanged.
        """
        from hudi_vector.spark.blobs.table import BlobTable
        from hudi_vector.writing.files import Files
        from hudi_vector.writing.rewriting.rewrite import LOCKING

        table = BlobTable.of(spark, name)
        if needs_blobs or table.columns:
            require_suitable(table)
        session = {key: value for key in LOCKING if (value := spark.conf.get(key, None))}
        path = Files(spark).qualified(table.source.hadoop_path)
        return cls(spark, name, table, path, {**session, **options}, tell, alone)

    @property
    def storage_options(self) -> StorageOptions:
        """Return the options to open storage."""
        return self.table.options

    def why_refused(self) -> str | None:
        """Return why rows of concurrent writers could be lost, or None."""
        from hudi_vector.writing.rewriting.rewrite import is_concurrent

        if self.alone or not self.table.columns:
            return None
        config = self.table.config
        if not config.populates_meta_fields:
            lacks = "Hudi's own columns, which distinguish the versions of a row"
        elif not config.ordering_fields and not is_concurrent(self.hudi_options):
            lacks = "an ordering field, and no lock by which its writers take turns is set"
        else:
            return None
        return (
            f"'{self.name}' has not {lacks}, so rows that others write meanwhile could be lost; set "
            "hoodie.write.concurrency.mode and hoodie.write.lock.provider as its writers do, or, if no other "
            "job writes, give assume_single_writer"
        )

    def run(self, plan: CompactionPlan, lease: ServiceLease) -> CompactResult:
        """Repack the candidates of a published plan, group by group; the caller holds `lease`."""
        run = publish_run(
            replace(read_run(plan.table, plan.plan_id, self.storage_options), state=RUNNING), self.storage_options
        )
        done = _Done()
        groups = plan.groups
        uploads = {each.write_id: each for each in list_uploads(plan.table, options=self.storage_options)}
        for number, members in enumerate(groups, 1):
            lease.check()
            tell = _numbered(self.tell, number, len(groups))
            settings = settings_of(self.spark, self.table, plan, members, uploads)
            run = self._group(run, members, settings, lease, done, tell)
        self._end(run)
        left = self._referred(plan.candidates)
        released = [each for each in plan.candidates if each.path not in left]
        lent = named_by_others(self._native(), [join(plan.table, each.path) for each in released])
        released = [each for each in released if join(plan.table, each.path) not in lent]
        done.notes += [f"another table refers to '{uri}', which stays" for uri in sorted(lent)]
        done.doubts += [f"{count} rows still refer to '{path}', which stays" for path, count in sorted(left.items())]
        return CompactResult(
            table=plan.table,
            candidates=list(plan.candidates),
            kept=list(plan.kept),
            released=released,
            bytes=done.bytes,
            blobs=done.blobs,
            references=done.references,
            containers_before=len(plan.candidates),
            containers_after=done.containers,
            reclaimable_bytes=sum(each.bytes for each in released),
            deduplicated_bytes=done.deduplicated,
            restored_rows=done.restored,
            commits=tuple(done.commits),
            plan_id=plan.plan_id,
            report=_home_of(plan),
            doubts=tuple(done.doubts),
            notes=tuple(done.notes),
        )

    def reopened(self: C) -> C:
        """Open the table again to see its present state."""
        self.spark.catalog.refreshByPath(self.path)
        return type(self).of(
            self.spark, self.name, self.hudi_options, self.tell, alone=self.alone, needs_blobs=bool(self.table.columns)
        )

    def end_begun_runs(self, lease: ServiceLease) -> tuple[str, ...]:
        """End the runs that killed processes had begun, and return a sentence for each; the caller holds `lease`."""
        notes = []
        for run in begun_runs(self.table.source.uri, self.storage_options):
            lease.check()
            how = "between two groups" if run.pending is None else self._settle(run.pending)
            self._end(run)
            notes.append(f"compaction {run.plan.plan_id} had been killed {how}")
            self.tell(notes[-1])
        for each in self._roll_back_dead(pending_ingests(self._native())) if notes else ():
            notes.append(f"{each.action} '{each.requested}', whose writer had been killed, was rolled back")
            self.tell(notes[-1])
        return tuple(notes)

    def forget_old_plans(self, keep: str) -> None:
        """Remove old plans that no run needs, except `keep`; plans that cannot be removed stay until the next run."""
        try:
            forget_plans(self.table.source.uri, now_ms=clock_ms(), keep=keep, options=self.storage_options)
        except (OSError, HudiVectorError) as problem:
            self.tell(f"old plans stay until the next run: {problem}")

    def _copied(
        self,
        plan: CompactionPlan,
        members: Sequence[PlannedContainer],
        settings: Mapping[str, BlobSettings],
        write_id: str,
    ) -> Copied:
        """Copy the bytes of a group to new containers, and return them with the new place of each reference."""
        from hudi_vector.writing.rewriting.equal_blobs import copy_equal_once
        from hudi_vector.writing.rewriting.repack import copy_ranges, referring

        sizes = {join(plan.table, each.path): each.bytes for each in members}
        references = referring(self._rewriting.opened(), sizes)
        copier = Copier(self.path, write_id, tuple(settings.items()), self.storage_options)
        asked = references, copier, plan.target_size, containers_of(members, plan.target_size), self._folder(write_id)
        return copy_equal_once(*asked, self._stored(plan)) if plan.deduplicate else copy_ranges(*asked)

    def _stored(self, plan: CompactionPlan) -> Any:
        """Return a DataFrame of the blobs that earlier groups stored, with digests; None if there is one group."""
        from hudi_vector.writing.files import Files
        from hudi_vector.writing.rewriting.equal_blobs import STORED

        if len(plan.groups) == 1:
            return None
        folder = self._folder(plan.plan_id)
        if Files(self.spark).is_empty(folder):
            return self.spark.createDataFrame([], STORED)
        return self.spark.read.schema(STORED).parquet(folder)

    def _end(self, run: CompactionRun) -> None:
        self._remove_staged(run.plan.plan_id)
        publish_run(replace(run, state=ENDED, pending=None), self.storage_options)

    def _group(
        self,
        run: CompactionRun,
        members: Sequence[PlannedContainer],
        settings: Mapping[str, BlobSettings],
        lease: ServiceLease,
        done: _Done,
        tell: Callable[[str], None],
    ) -> CompactionRun:
        from hudi_vector.writing.commits import new_token
        from hudi_vector.writing.rewriting.repack import targets_of
        from hudi_vector.writing.rewriting.rewrite import committed_now, rewrite_rows

        plan, options = run.plan, self.storage_options
        lease_ms = min(each.lease_ms for each in settings.values())
        upload = open_upload(self.path, settings, lease_ms=lease_ms, options=options)
        folder = self._folder(upload.write_id)
        try:
            renew = partial(renew_lease, upload.table, upload.write_id, options=options)
            with Renewals(f"the lease of upload {upload.write_id}", renew, upload.lease_ms):
                pending = PendingCommit(upload.write_id, new_token(), tuple(sorted(committed_now(self.table))))
                run = publish_run(replace(run, pending=pending), options)
                tell("copying")
                copied = self._copied(plan, members, settings, upload.write_id)
                targets = targets_of(copied.moves, self.path, columns=len(self.table.columns))
                stage(self.path, upload.write_id, copied.containers, options=options)
                tell("looking at the rows once more")

                def before_commit() -> None:
                    lease.check()
                    renew()  # raises if the lease ran out, since the copied bytes may then be gone
                    self._require_quiet()
                    tell("committing")

                commit = rewrite_rows(self._rewriting, targets, pending.token, before_commit)
        except Exception:
            # This process still runs, so it ends the noted commit itself; after a kill the next run has to.
            if run.pending is not None:
                self._settle(run.pending)
                self._end(run)
            raise
        moved, lost = _counted(copied.moves)
        if lost:
            done.doubts.append(
                f"{lost} blobs cannot be read, or differ from what was written, and stay where "
                "they are; hudi_vector.blobs.verify(…, deep=True) lists them"
            )
        if commit is None:
            self._drop(upload.write_id)
            done.notes.append("all rows of a group were changed meanwhile, so that its commit was not needed")
        else:
            self._after(commit, pending, targets, folder, done, tell)
            if copied.stored is not None:
                copied.stored.write.mode("append").parquet(self._folder(plan.plan_id))
            done.bytes += sum(each.blob_bytes for each in copied.containers)
            done.blobs += sum(each.blobs for each in copied.containers)
            done.containers += len(copied.containers)
            done.deduplicated += copied.shared_bytes
            done.references += moved
        run = publish_run(replace(run, pending=None), options)
        self._remove_staged(upload.write_id)
        return run

    def _after(
        self,
        commit: Commit,
        pending: PendingCommit,
        targets: Any,
        folder: str,
        done: _Done,
        tell: Callable[[str], None],
    ) -> None:
        """Do what follows a commit: finish the upload, and restore rows of other writers that the commit overwrote."""
        from hudi_vector.writing.rewriting.rewrite import reapply_overwritten

        tell(f"committed {commit.instant}")
        if pending.kind == REPACKING:  # a commit of the other kind has finished its upload itself
            finish(self.path, pending.write_id, commit.instant, options=self.storage_options)
        done.commits.append(commit.instant)
        seen = frozenset(pending.seen)
        done.restored += reapply_overwritten(self._rewriting, targets, seen, commit.instant, folder)
        tell("looked after other writers")

    def _settle(self, pending: PendingCommit) -> str:
        """Find out whether a noted commit was made, complete or abort it, and return the outcome in words."""
        from hudi_vector.writing.commits import find_commit
        from hudi_vector.writing.files import Files
        from hudi_vector.writing.rewriting.by_size import BY_SIZE
        from hudi_vector.writing.rewriting.repack import MOVES, targets_of

        commit = find_commit(Files(self.spark), self.path, self.table.config, frozenset(pending.seen), pending.token)
        if commit is None:
            if pending.kind == REPACKING:
                self._drop(pending.write_id)
            self._remove_staged(pending.write_id)
            return "before its commit, and nothing refers to what it copied"
        folder = self._folder(pending.write_id)
        if pending.kind == RESIZING:
            targets = self.spark.read.parquet(f"{folder}/{BY_SIZE}")
        else:
            moves = self.spark.read.parquet(f"{folder}/{MOVES}")
            targets = targets_of(moves, self.path, columns=len(self.table.columns))
        done = _Done()
        self._after(commit, pending, targets, folder, done, self.tell)
        self._remove_staged(pending.write_id)
        return f"after its commit {commit.instant}, which was looked after" + (
            f"; {done.restored} rows of other writers were restored" if done.restored else ""
        )

    def _drop(self, write_id: str) -> None:
        """Abort an upload that no commit refers to, and remove its staged rows."""
        if read_upload(self.path, write_id, options=self.storage_options).state not in (ABORTED, COMMITTED):
            with suppress(HudiVectorError, OSError):
                abort(self.path, write_id, options=self.storage_options)
        self._remove_staged(write_id)

    def _folder(self, write_id: str) -> str:
        from hudi_vector.writing.blobs.staging import staging_folder

        return staging_folder(self.path, write_id)

    def _remove_staged(self, write_id: str) -> None:
        from hudi_vector.writing.files import Files

        Files(self.spark).delete(self._folder(write_id))

    @property
    def _rewriting(self) -> Any:
        from hudi_vector.writing.rewriting.rewrite import Rewriting

        return Rewriting(self.spark, self.name, self.hudi_options, self.alone)

    def _require_quiet(self) -> None:
        """Raise RefusedError if a write without a lock is pending, because our rows could hide its rows.

        A write whose process was killed is rolled back.
        """
        from hudi_vector.writing.rewriting.rewrite import is_concurrent

        if self.alone or is_concurrent(self.hudi_options):
            return
        pending = pending_ingests(self._native())
        dead = self._roll_back_dead(pending)
        for instant in pending:
            if instant not in dead:
                raise RefusedError(
                    f"{instant.action} '{instant.requested}' of '{self.name}' has not completed, and its writer and "
                    "this compaction do not take turns by a lock; run again when it has, or give assume_single_writer "
                    "if it was abandoned"
                )

    def _roll_back_dead(self, pending: Sequence[PendingInstant]) -> list[PendingInstant]:
        return roll_back_dead(self.spark, self.path, self._rewriting.settings(), pending)

    def _native(self) -> NativeTable:
        from hudi_vector.table.native import NativeTable

        return NativeTable(self.table.source)

    def _referred(self, containers: Sequence[PlannedContainer]) -> dict[str, int]:
        """Return, by path, how many references of the newest snapshot each container still has, if any."""
        from hudi_vector.writing.failures import in_one_sentence
        from hudi_vector.writing.rewriting.repack import referring

        root = self.table.source.uri
        sizes = {join(root, each.path): each.bytes for each in containers}
        with in_one_sentence(f"counting the references of '{self.name}' failed", DataFileError):
            counted = referring(self._rewriting.opened(), sizes).groupBy("file").count().collect()
        return {row["file"].removeprefix(f"{root}/"): row["count"] for row in counted}


def _numbered(tell: Callable[[str], None], number: int, total: int) -> Callable[[str], None]:
    return lambda sentence: tell(f"group {number} of {total}: {sentence}")


def _counted(moves: Any) -> tuple[int, int]:
    """Return how many references point to copied bytes, and how many point to bytes that could not be read."""
    total, moved = moves.selectExpr("count(*)", "count(new_path)").first()
    return moved, total - moved


def _home_of(plan: CompactionPlan) -> str:
    return join(plan.table, COMPACTIONS, plan.plan_id)
