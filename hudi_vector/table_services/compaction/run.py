"""A run of blob compaction: each group of containers has a separate upload, copy and commit.

    open manifest, note of upload and commit → write containers → references, note of them, staged manifest
    → Hudi's commit → committed manifest → restore overwritten rows of other writers → clear the note

The parts between two arrows are sent at once to an object store, where a run may be killed with any of them done. No
part says more than that a run was under way: before the first arrow nothing was copied, and before Hudi's commit
nothing refers to what was copied. A manifest that says *committed* only repeats what the timeline says.

After a run was killed, the next run looks for the noted commit by its token. If there is no such commit, the upload is
aborted; otherwise the steps that follow a commit are completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

from hudi_vector.blobs.copies.copying import Copier
from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.uploads.manifest import (
    ABORTED,
    COMMITTED,
    Upload,
    abort,
    finish,
    new_upload,
    publish_new,
    read_upload,
    read_uploads,
)
from hudi_vector.blobs.uploads.running import RunningUpload
from hudi_vector.errors import DataFileError, HudiVectorError, InvalidArgumentError, RefusedError, number_of
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.cleaning.forget import forget_plans
from hudi_vector.table_services.compaction.dead_writes import roll_back_dead
from hudi_vector.table_services.compaction.state import AreaLook, look_at_area, require_suitable, settings_of
from hudi_vector.table_services.marking.sharers import named_by_others, registered_tables
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer, containers_of
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    REPACKING,
    RESIZING,
    CompactionRun,
    PendingCommit,
    new_run,
    plan_of,
    publish_run,
    unended_runs,
)
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.retention.pending import PendingInstant, pending_ingests
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.blobs.settings import BlobSettings
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table.native import NativeTable
    from hudi_vector.table.timeline import Timeline
    from hudi_vector.writing.committing.commits import Commit
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
    folders: list[str] = field(default_factory=list)  # of staged rows, to be removed
    stored: list[DataFrame] = field(default_factory=list)  # what groups have stored, as in `equal_blobs.STORED`
    commits: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: Timeline | None = None  # as it was listed before the next group is read


@dataclass(frozen=True)
class _Begun:
    """A run as it was noted last; `publish_list` makes its containers durable, if they are not."""

    run: CompactionRun
    publish_list: Callable[[], None] = lambda: None


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
        uploads: The uploads of the table that were read, by id.
    """

    spark: SparkSession
    name: str
    table: BlobTable
    path: str
    hudi_options: Mapping[str, str]
    tell: Callable[[str], None]
    alone: bool
    uploads: dict[str, Upload] = field(default_factory=dict, compare=False, repr=False)

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

    @property
    def storage(self) -> Storage:
        """Return the storage of the table."""
        return open_storage(self.table.source.uri, self.storage_options)

    def uploads_of(self, write_ids: Iterable[str]) -> Mapping[str, Upload]:
        """Return the uploads of writes by their ids, as far as there are any; each is read once."""
        missing = sorted({*write_ids} - self.uploads.keys())
        found = read_uploads(self.table.source.uri, missing, options=self.storage_options)
        self.uploads.update((each.write_id, each) for each in found)
        return self.uploads

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

    def look(self) -> AreaLook:
        """Look at the table's blob area."""
        return look_at_area(self.table, self.uploads_of)

    def begun(self) -> tuple[Sequence[CompactionRun], Timeline]:
        """Return the runs that have not ended, without their containers, and the timeline."""
        from hudi_vector.writing.rewriting.rewrite import listed_now

        runs, seen = self.storage.together(
            lambda: unended_runs(self.table.source.uri, self.storage_options), lambda: listed_now(self.table)
        )
        return runs, seen

    def run(
        self,
        planned: CompactionPlan | CompactionRun,
        lease: ServiceLease,
        seen: Timeline | None = None,
    ) -> CompactResult:
        """Repack the candidates of a plan, group by group, and end its run; the caller holds `lease`.

        A plan that was not published is given as it is, another one with its run. `seen` is the timeline as it is now,
        if it has been listed.
        """
        plan = plan_of(planned)
        groups, done, options = plan.groups, _Done(seen=seen), self.storage_options
        begun = _Begun(planned) if isinstance(planned, CompactionRun) else _Begun(*new_run(planned, options))
        writes = (ContainerName.parse(plan.table, join(plan.table, each.path)) for each in plan.candidates)
        uploads = self.uploads_of({name.write_id for name in writes if name})
        for number, members in enumerate(groups, 1):
            lease.check()
            tell, is_last = _numbered(self.tell, number, len(groups)), number == len(groups)
            settings = settings_of(self.spark, self.table, plan, members, uploads)
            noted = self._group(plan, begun, members, settings, lease, done, tell)
            if not is_last:
                begun = _Begun(publish_run(replace(noted, state=RUNNING, pending=None), options))
                self._remove_staged(done.folders.pop())
        done.folders += [plan.plan_id] if done.stored else []
        _, registry, _, *removals = self.storage.together(
            lambda: publish_run(replace(noted, state=ENDED, pending=None), options),
            lambda: registered_tables(plan.table, options),
            lambda: self.forget_old_plans(keep=plan.plan_id),
            *(partial(self._removal, folder) for folder in done.folders),
        )
        lease.at_release(*removals)  # until the run has ended, the next one may need what was staged
        left = self._referred(plan.candidates)
        released = [each for each in plan.candidates if each.path not in left]
        lent = named_by_others(self.table.source, [join(plan.table, each.path) for each in released], registry)
        released = [each for each in released if join(plan.table, each.path) not in lent]
        done.notes += [f"another table refers to '{uri}', which stays" for uri in sorted(lent)]
        done.doubts += [
            f"{number_of(count, 'row still refers', 'rows still refer')} to '{path}', which stays"
            for path, count in sorted(left.items())
        ]
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

    def seen_in(self: C, timeline: Timeline) -> C:
        """Return the same table in a timeline that was just listed; it is loaded again only if that has changed."""
        return replace(self, table=self.table.seen_in(timeline))

    def reopened(self: C) -> C:
        """Open the table again to see its present state."""
        self.spark.catalog.refreshByPath(self.path)
        return type(self).of(
            self.spark, self.name, self.hudi_options, self.tell, alone=self.alone, needs_blobs=bool(self.table.columns)
        )

    def end_begun_runs(self, lease: ServiceLease, begun: Sequence[CompactionRun] | None = None) -> tuple[str, ...]:
        """End the runs that killed processes had begun, and return a sentence for each; the caller holds `lease`.

        `begun` are these runs if they have been read.
        """
        notes = []
        for run in unended_runs(self.table.source.uri, self.storage_options) if begun is None else begun:
            lease.check()
            how = "between two groups" if run.pending is None else self._settle(run.pending)
            self._end(run)
            notes.append(f"compaction {run.plan.plan_id} had been killed {how}")
            self.tell(notes[-1])
        if notes:
            notes += map(_rolled_back, self._roll_back_dead(pending_ingests(self._native())))
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
        stored: Sequence[DataFrame],
    ) -> Copied:
        """Copy the bytes of a group to new containers, and return them with the new place of each reference."""
        from hudi_vector.writing.rewriting.equal_blobs import copy_equal_once
        from hudi_vector.writing.rewriting.repack import copy_ranges, referring

        sizes = {join(plan.table, each.path): each.bytes for each in members}
        references = referring(self.table, sizes)
        names = (ContainerName.parse(plan.table, uri) for uri in sizes)
        sources = {
            name.write_id: self.uploads[name.write_id] for name in names if name and name.write_id in self.uploads
        }
        known = tuple(replace(each, containers=(), pins=()) for each in sources.values())
        copier = Copier(self.path, write_id, tuple(settings.items()), self.storage_options, known)
        asked = references, copier, plan.target_size, containers_of(members, plan.target_size), self._folder(write_id)
        return copy_equal_once(*asked, self._known(plan, stored)) if plan.deduplicate else copy_ranges(*asked)

    def _known(self, plan: CompactionPlan, stored: Sequence[DataFrame]) -> DataFrame | None:
        """Return the blobs that earlier groups stored, with digests; None if there is one group."""
        from hudi_vector.spark.catalyst.local_rows import no_rows
        from hudi_vector.writing.rewriting.equal_blobs import STORED

        if len(plan.groups) == 1:
            return None
        return reduce(lambda one, other: one.unionByName(other), stored, no_rows(self.spark, STORED))

    def _end(self, run: CompactionRun) -> None:
        """Note that a run has ended, then remove its staged rows: until the note, the next run may need them."""
        publish_run(replace(run, state=ENDED, pending=None), self.storage_options)
        for write_id in {run.plan.plan_id, *([run.pending.write_id] if run.pending else [])}:
            self._remove_staged(write_id)

    def _group(
        self,
        plan: CompactionPlan,
        begun: _Begun,
        members: Sequence[PlannedContainer],
        settings: Mapping[str, BlobSettings],
        lease: ServiceLease,
        done: _Done,
        tell: Callable[[str], None],
    ) -> CompactionRun:
        """Repack a group of containers; return the run, in which the group's commit is still noted."""
        from hudi_vector.writing.committing.commits import new_token
        from hudi_vector.writing.rewriting.repack import targets_of
        from hudi_vector.writing.rewriting.rewrite import listed_now

        options = self.storage_options
        seen = listed_now(self.table) if done.seen is None else done.seen
        upload = new_upload(self.path, settings, lease_ms=min(each.lease_ms for each in settings.values()))
        pending = PendingCommit(upload.write_id, new_token(), tuple(sorted(seen.commits)))
        upload, noted, work = self._noted(upload, begun, pending)
        running = RunningUpload(upload, options)
        done.folders.append(upload.write_id)
        with ExitStack() as held:
            try:
                with running.renewals():
                    tell("copying")
                    copied = work._copied(plan, members, settings, upload.write_id, done.stored)
                    moves = held.enter_context(copied.moves.held())
                    targets = targets_of(moves, self.path, columns=len(self.table.columns))
                    commit = work._rewritten(targets, pending, copied, running, lease, tell)
            except Exception:
                # This process still runs, so it ends the noted commit itself; after a kill the next run has to.
                self._settle(pending)
                self._end(noted)
                raise
            moved, lost = _counted(moves)
            if lost:
                done.doubts.append(
                    f"{number_of(lost, 'blob')} cannot be read as written, and nothing of that was moved; "
                    "hudi_vector.blobs.verify(…, deep=True) says which"
                )
            if commit is None:
                self._drop(upload.write_id)
                done.notes.append("all rows of a group were changed meanwhile, so that its commit was not needed")
                return noted
            self._after(commit, pending, targets, done, tell, running.finish)
            self._add(done, copied, moved, plan)
        return noted

    def _noted(self: C, upload: Upload, begun: _Begun, pending: PendingCommit) -> tuple[Upload, CompactionRun, C]:
        """Make durable what a kill must find before anything is copied: an upload, the plan, and the commit to come.

        The table that is returned with them is that of this moment.
        """
        from hudi_vector.writing.rewriting.rewrite import listed_now

        options, run = self.storage_options, replace(begun.run, state=RUNNING, pending=pending)
        opened: Upload
        noted: CompactionRun
        try:
            opened, _, noted, timeline = self.storage.together(
                partial(publish_new, upload, options),
                begun.publish_list,
                partial(publish_run, run, options),
                partial(listed_now, self.table),
            )
            work = self.seen_in(timeline)
        except Exception:
            # Any part may be durable, or become so: the end has a higher generation than the note.
            with suppress(HudiVectorError, OSError):
                self._drop(upload.write_id)
                self._end(replace(run, generation=run.generation + 1))
            raise
        return opened, noted, work

    def _rewritten(
        self,
        targets: DataFrame,
        pending: PendingCommit,
        copied: Copied,
        running: RunningUpload,
        lease: ServiceLease,
        tell: Callable[[str], None],
    ) -> Commit | None:
        """Point rows to what was copied, with one commit; return it, or None if no row needs it any more."""
        from hudi_vector.writing.rewriting.rewrite import rewrite_rows

        steps: list[Callable[[], object]] = []
        tell("looking at the rows once more")

        def stage() -> None:
            self.storage.together(lambda: running.stage(copied.containers), copied.moves.note)

        def before_commit() -> None:
            lease.check()
            # Only now: what is published shows at the same time that no other process has ended the upload.
            steps.append(self.storage.begun(running.require_held if steps else stage))
            self._require_quiet()
            steps[-1]()
            tell("committing")

        try:
            return rewrite_rows(self._rewriting, targets, pending.token, before_commit)
        except BaseException:
            for step in steps:
                with suppress(HudiVectorError, OSError):
                    step()  # or it would publish the upload while it is aborted
            raise

    def _add(self, done: _Done, copied: Copied, moved: int, plan: CompactionPlan) -> None:
        """Add what a group has copied to the totals, and keep what it stored for the groups after it."""
        from hudi_vector.writing.blobs.staged_files import stage_list

        if copied.stored is not None:
            folder = f"{self._folder(plan.plan_id)}/{len(done.stored)}"
            done.stored.append(stage_list(copied.stored, folder, self.storage_options).frame)
        done.bytes += sum(each.blob_bytes for each in copied.containers)
        done.blobs += sum(each.blobs for each in copied.containers)
        done.containers += len(copied.containers)
        done.deduplicated += copied.shared_bytes
        done.references += moved

    def _after(
        self,
        commit: Commit,
        pending: PendingCommit,
        targets: DataFrame,
        done: _Done,
        tell: Callable[[str], None],
        finish_upload: Callable[[str], object],
    ) -> None:
        """Do what follows a commit: finish the upload, and restore rows of other writers that the commit overwrote."""
        from hudi_vector.writing.rewriting.rewrite import listed_now, reapply_overwritten

        tell(f"committed {commit.instant}")

        def finish_it() -> None:
            if pending.kind == REPACKING:  # a commit of the other kind has finished its upload itself
                finish_upload(commit.instant)

        _, done.seen = self.storage.together(finish_it, lambda: listed_now(self.table))
        done.commits.append(commit.instant)
        seen, completed = frozenset(pending.seen), frozenset(done.seen.commits)
        folder = self._folder(pending.write_id)
        done.restored += reapply_overwritten(self._rewriting, targets, seen, commit.instant, folder, completed)
        tell("looked after other writers")

    def _settle(self, pending: PendingCommit) -> str:
        """Find out whether a noted commit was made, complete or abort it, and return the outcome in words.

        What was staged for it stays until the end of the run is noted, by `_end`.
        """
        from hudi_vector.writing.blobs.staged_files import noted_list
        from hudi_vector.writing.committing.commits import find_commit
        from hudi_vector.writing.files import Files
        from hudi_vector.writing.rewriting.by_size import BY_SIZE, BY_SIZE_SCHEMA
        from hudi_vector.writing.rewriting.repack import MOVES, MOVES_SCHEMA, targets_of

        commit = find_commit(Files(self.spark), self.path, self.table.config, frozenset(pending.seen), pending.token)
        if commit is None:
            if pending.kind == REPACKING:
                self._drop(pending.write_id)
            return "before its commit, and nothing refers to what it copied"
        done, folder, options = _Done(), self._folder(pending.write_id), self.storage_options
        if pending.kind == RESIZING:
            targets = noted_list(self.spark, f"{folder}/{BY_SIZE}", BY_SIZE_SCHEMA, options)
        else:
            moves = noted_list(self.spark, f"{folder}/{MOVES}", MOVES_SCHEMA, options)
            targets = targets_of(moves, self.path, columns=len(self.table.columns))
        finish_upload = partial(finish, self.path, pending.write_id, options=options)
        self._after(commit, pending, targets, done, self.tell, finish_upload)
        return f"after its commit {commit.instant}, which was looked after" + (
            f"; {number_of(done.restored, 'row of other writers was', 'rows of other writers were')} restored"
            if done.restored
            else ""
        )

    def _drop(self, write_id: str) -> None:
        """Abort an upload that no commit refers to."""
        try:
            state = read_upload(self.path, write_id, options=self.storage_options).state
        except InvalidArgumentError:  # its process was killed before there was a manifest, and nothing was copied
            return
        if state not in (ABORTED, COMMITTED):
            with suppress(HudiVectorError, OSError):
                abort(self.path, write_id, options=self.storage_options)

    def _folder(self, write_id: str) -> str:
        from hudi_vector.writing.blobs.staging import staging_folder

        return staging_folder(self.path, write_id)

    def _remove_staged(self, write_id: str) -> None:
        self.storage.remove_folder(normalise(self._folder(write_id)))

    def _removal(self, write_id: str) -> Callable[[], object]:
        return self.storage.removal(normalise(self._folder(write_id)))

    @property
    def _rewriting(self) -> Any:
        from hudi_vector.writing.rewriting.rewrite import Rewriting

        return Rewriting(self.spark, self.name, self.table, self.hudi_options, self.alone)

    def settle_writes(self) -> None:
        """Roll back pending writes that are dead; raise RefusedError if another write without a lock is pending.

        Our rows could hide its rows, and Hudi itself rolls back no write that was killed before a later commit.
        """
        from hudi_vector.writing.rewriting.rewrite import is_concurrent

        if is_concurrent(self.hudi_options):
            return
        pending = pending_ingests(self._native())
        dead = self._roll_back_dead(pending)
        for instant in pending:
            if instant not in dead:
                raise RefusedError(
                    f"{instant.action} '{instant.requested}' of '{self.name}' has not completed, and its writer and "
                    "this job do not take turns by a lock; run again when it has, or give assume_single_writer "
                    "if it was abandoned"
                )

    def _require_quiet(self) -> None:
        """Settle the writes before a commit of Hudi's writer, which does it itself if no other process writes."""
        if not self.alone:
            self.settle_writes()

    def _roll_back_dead(self, pending: Sequence[PendingInstant]) -> list[PendingInstant]:
        """Roll back the pending writes that are known to be dead, tell of each, and return them."""
        from hudi_vector.writing.rewriting.rewrite import is_concurrent

        alone = self.alone and not is_concurrent(self.hudi_options)
        dead = roll_back_dead(self.spark, self.path, self._rewriting.settings(), pending, alone=alone)
        for each in dead:
            self.tell(_rolled_back(each))
        return dead

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


def _rolled_back(dead: PendingInstant) -> str:
    return f"{dead.action} '{dead.requested}', whose writer had been killed, was rolled back"


def _home_of(plan: CompactionPlan) -> str:
    return join(plan.table, COMPACTIONS, plan.plan_id)
