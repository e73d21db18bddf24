"""A clustering: its plan, and its three steps: rows in order, blobs by their size, containers repacked.

    plan → Hudi's clustering, or our own commit if vectors order the rows → an upsert of the blobs that change sides of
    the inline threshold → a blob compaction

Each step is noted before it begins, so that the next clustering or compaction can end what a killed run had begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.names import new_write_id
from hudi_vector.errors import RefusedError, WriteError
from hudi_vector.schema import quoted
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table.model import FileSlice
from hudi_vector.table_services.clustering.hudi_clustering import (
    Place,
    end_with_hudi,
    inputs_of,
    plan_of_hudi,
    run_with_hudi,
)
from hudi_vector.table_services.clustering.vector_order import has_buckets
from hudi_vector.table_services.compaction.api import Wanted
from hudi_vector.table_services.compaction.run import Compaction
from hudi_vector.table_services.plans.clustering import CLUSTER, ClusteringPlan, PlannedGroup, why_changed
from hudi_vector.table_services.plans.clustering_files import ClusteringRun, begun_clusterings, publish_clustering
from hudi_vector.table_services.plans.compaction import KEEP, CompactionPlan
from hudi_vector.table_services.plans.compaction_files import (
    RESIZING,
    CompactionRun,
    PendingCommit,
    publish_plan,
    publish_run,
)
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.retention.pending import pending_ingests
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from hudi_vector.blobs.settings import BlobSettings
    from hudi_vector.read.spec import VectorColumn
    from hudi_vector.table.timeline import Instant
    from hudi_vector.writing.rewriting.by_size import BySize
    from hudi_vector.writing.rewriting.row_order import Order

__all__ = ["Clustering"]


@dataclass(frozen=True)
class Clustering(Compaction):
    """A table whose rows are put in order, and whose blobs are then repacked in the order of the rows."""

    def planned(self, order: Sequence[str], vectors: Sequence[VectorColumn]) -> ClusteringPlan:
        """Plan a clustering of the table as it is now, without publishing it.

        `vectors` are the vector columns among the columns of `order`.
        """
        self.tell("planning")
        plan_id, settings = new_write_id(clock_ms()), self._settings()
        slices = {_place(each): each for each in self._slices()}
        services = self._services()
        hudi = ""
        # Hudi would merge small file groups of a bucket index into one without a bucket's number.
        if not vectors and not has_buckets(list(slices.values())):
            hudi = plan_of_hudi(self, order, self.hudi_options, sorted({each[0] for each in slices}))
        inputs = [sorted(slices)] if vectors else inputs_of(hudi)
        out, into = self._count_by_size(settings)
        try:
            work, laid = self._laid(order, vectors, inputs, settings, plan_id)
            wanted = Wanted(self.spark, None, None, None, None)
            compaction = wanted.plan(work, self.table.columns, deduplicate=False, look=self.look, order=laid)
        finally:
            self._remove_staged(plan_id)
        return ClusteringPlan(
            plan_id=plan_id,
            table=self.table.source.uri,
            made_ms=clock_ms(),
            order_by=tuple(order),
            vectors=tuple(each.name for each in vectors),
            groups=_groups(slices, {place for group in inputs for place in group}),
            pending=tuple(sorted(services)),
            settings=settings,
            moved_out=out,
            moved_in=into,
            compaction=compaction,
            hudi=hudi,
        )

    def why_changed(self, run: ClusteringRun) -> str | None:
        """Return why rows can no longer be put in order as planned, or None; None if that was already done."""
        if self.is_in_order(run):
            return None
        return why_changed(run.plan, {_path(each): _files(each) for each in self._slices()}, self._services())

    def is_in_order(self, run: ClusteringRun) -> bool:
        """Return True if an earlier run of the plan has put its rows in order: the run's last instant has completed."""
        done = {each.requested for each in self._native().timeline().completed}
        return bool(run.instants) and run.instants[-1] in done

    def put_in_order(self, run: ClusteringRun, vectors: Sequence[VectorColumn], lease: ServiceLease) -> ClusteringRun:
        """Note that the run is under way, put rows in order as planned unless that is done, and return the run.

        The caller holds `lease`. Raise RefusedError if what the plan names has changed, or if the clustering did not
        complete.
        """
        run = publish_clustering(replace(run, state=RUNNING), self.storage_options)
        if not run.plan.clustered or self.is_in_order(run):
            return run
        self.tell("clustering")
        begun: list[ClusteringRun] = [run]

        def begin(instant: str) -> None:
            noted = replace(begun[-1], instants=(*begun[-1].instants, instant))
            begun.append(publish_clustering(noted, self.storage_options))

        def check() -> None:
            lease.check()
            self.settle_writes()
            changed = self.why_changed(begun[-1])
            if changed is not None:
                raise RefusedError(changed)

        try:
            if run.plan.hudi:
                run_with_hudi(self, run.plan.hudi, self.hudi_options, begin, check)
            else:
                check()
                self._replaced(run.plan, vectors, begin, lease)
            if not self.is_in_order(begun[-1]):
                raise RefusedError(f"the clustering of '{self.name}' did not complete; run it again")
        except Exception:
            if not self._is_pending(begun[-1]):
                self.end(begun[-1])
            raise
        return begun[-1]

    def end(self, run: ClusteringRun) -> None:
        """Remove the plan's staged rows, and note that the run has ended."""
        self._remove_staged(run.plan.plan_id)
        publish_clustering(replace(run, state=ENDED), self.storage_options)

    def end_begun_clusterings(self, lease: ServiceLease) -> tuple[str, ...]:
        """End the clusterings that killed processes had begun, and return a sentence for each.

        An instant that Hudi has scheduled is executed. The caller holds `lease`. Raise RefusedError if a write without
        a lock is pending.
        """
        notes = []
        for run in begun_clusterings(self.table.source.uri, self.storage_options):
            lease.check()
            notes.append(f"clustering {run.plan.plan_id} had been killed {self._ended_order(run)}")
            if not self._is_pending(run):
                self.end(run)
            self.tell(notes[-1])
        return tuple(notes)

    def store_by_size(self, settings: BlobSettings, lease: ServiceLease) -> BySize:
        """Move blobs into or out of their rows by the inline threshold, with one commit; the caller holds `lease`."""
        from hudi_vector.writing.committing.commits import new_token
        from hudi_vector.writing.rewriting.by_size import store_by_size

        noted: list[CompactionRun] = []
        name, token = new_write_id(clock_ms()), new_token()

        def before_commit(seen: frozenset[Instant]) -> None:
            lease.check()
            self._require_quiet()
            noted.append(self._begun(PendingCommit(name, token, tuple(sorted(seen)), RESIZING)))
            self.tell("committing thresholds")

        def committed(instant: str) -> None:
            self.tell(f"committed {instant}")

        self.tell("applying thresholds")
        try:
            done = store_by_size(self._rewriting, settings, self._folder(name), token, before_commit, committed)
        except Exception:
            for run in noted:
                assert run.pending is not None
                self._settle(run.pending)
            self._close(noted, name)
            raise
        self._close(noted, name)
        return done

    def _is_pending(self, run: ClusteringRun) -> bool:
        """Return True if the run's last instant is still pending, so that the next run has to end it."""
        return bool(run.instants) and run.instants[-1] in self._native().timeline().pending

    def _replaced(
        self, plan: ClusteringPlan, vectors: Sequence[VectorColumn], begin: Callable[[str], None], lease: ServiceLease
    ) -> None:
        """Replace all file groups: within each partition rows are sorted by the clusters of their vectors."""
        from hudi_vector.writing.rewriting.replace import replace_in_order

        def before_commit() -> None:
            lease.check()
            self.tell("committing the order")

        folder = self._folder(plan.plan_id)
        replace_in_order(self._rewriting, self.path, plan.order_by, vectors, folder, begin, before_commit)
        self._remove_staged(plan.plan_id)

    def _ended_order(self, run: ClusteringRun) -> str:
        if self.is_in_order(run):
            return f"after its clustering {run.instants[-1]}"
        if not self._is_pending(run):
            return "before its clustering"
        instant = run.instants[-1]
        if not run.plan.hudi:
            ours = [each for each in pending_ingests(self._native()) if each.requested == instant]
            how = "was rolled back" if self._roll_back_dead(ours) else "stays until a writer of the table rolls it back"
            return f"in its clustering {instant}, which {how}"
        self.settle_writes()
        try:
            end_with_hudi(self, instant, self.hudi_options)
        except WriteError as problem:
            return f"in its clustering {instant}, which was given up: {problem}"
        return f"in its clustering {instant}, which was completed"

    def _count_by_size(self, settings: BlobSettings) -> tuple[int, int]:
        """Return how many blobs the inline threshold would move out of their rows, and how many into them."""
        from hudi_vector.writing.rewriting.by_size import count_by_size

        return count_by_size(self.table, settings) if self.table.columns else (0, 0)

    def _laid(
        self,
        order: Sequence[str],
        vectors: Sequence[VectorColumn],
        inputs: Sequence[Sequence[Place]],
        settings: BlobSettings,
        plan_id: str,
    ) -> tuple[Clustering, Order]:
        """Return the table with the columns to sort by, and the order in which its rows will be."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        from hudi_vector.writing.rewriting.coarse_order import numbered, with_numbers
        from hudi_vector.writing.rewriting.row_order import Order

        together = {
            file_id: (number, at) for number, group in enumerate(inputs) for at, (_, file_id) in enumerate(group)
        }
        smaller = settings.inline_threshold
        if not vectors or not self.table.columns:
            return self, Order(together, [F.col(quoted(name)) for name in order], smaller)
        numbers = numbered(self.table, vectors, self._folder(plan_id))
        frame, by = with_numbers(self.table, order, numbers, [each.name for each in vectors])
        return replace(self, table=replace(self.table, frame=frame)), Order(together, by, smaller)

    def _slices(self) -> Sequence[FileSlice]:
        return self._native().snapshot().file_slices

    def _services(self) -> frozenset[str]:
        """Return the requested times of the pending table services."""
        native = self._native()
        return native.timeline().pending - {each.requested for each in pending_ingests(native)}

    def _settings(self) -> BlobSettings:
        from hudi_vector.writing.blobs.plan import session_settings

        settings = session_settings(self.spark)
        # Hudi 1.2 loses inline bytes when it rewrites Lance files, so all blobs are kept in containers.
        lance = self.table.config.base_file_format.lower() == "lance"
        return replace(settings, inline_threshold=0) if lance else settings

    def _begun(self, pending: PendingCommit) -> CompactionRun:
        """Publish a compaction run that repacks nothing and has its commit noted."""
        plan = CompactionPlan(pending.write_id, self.table.source.uri, clock_ms(), self.table.columns, (), 0, 0)
        made = publish_plan(plan, self.storage_options)
        return publish_run(replace(made, state=RUNNING, pending=pending), self.storage_options)

    def _close(self, runs: Sequence[CompactionRun], name: str) -> None:
        for run in runs:
            self._end(run)
        if not runs:
            self._remove_staged(name)


def _groups(slices: Mapping[Place, FileSlice], chosen: Collection[Place]) -> tuple[PlannedGroup, ...]:
    """Return every file group with the decision about it, ordered by partition and id."""
    return tuple(
        PlannedGroup(_path(each), each.size, CLUSTER, "its rows are put in order", _files(each))
        if place in chosen
        else PlannedGroup(_path(each), each.size, KEEP, "Hudi's plan of the clustering leaves it out", _files(each))
        for place, each in sorted(slices.items())
    )


def _place(each: FileSlice) -> Place:
    return each.partition_path, each.file_id


def _path(each: FileSlice) -> str:
    return "/".join(part for part in _place(each) if part)


def _files(each: FileSlice) -> tuple[str, ...]:
    return tuple(file.name for file in each.files)
