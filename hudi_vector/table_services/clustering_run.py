"""What a clustering does besides Hudi: rows put in the order of vectors, blobs where thresholds want them.

Each makes one commit, noted before it as that of a compaction, so that the next run of either can end what a killed one
had begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.names import new_write_id
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.compaction_files import (
    ORDERING,
    RESIZING,
    RUNNING,
    CompactionRun,
    PendingCommit,
    publish_plan,
    publish_run,
)
from hudi_vector.table_services.compaction_plan import CompactionPlan
from hudi_vector.table_services.compaction_run import Compaction
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from hudi_vector.blobs.settings import BlobSettings
    from hudi_vector.read.spec import VectorColumn
    from hudi_vector.table.timeline import Instant
    from hudi_vector.write.by_size import BySize

__all__ = ["Clustering"]


@dataclass(frozen=True)
class Clustering(Compaction):
    """A table whose rows are put in order, and whose blobs follow them."""

    def put_in_order(self, order: Sequence[str], vectors: Sequence[VectorColumn], lease: ServiceLease) -> str | None:
        """Rewrite all rows in the order of columns and of the clusters of vectors; gives the instant."""
        from hudi_vector.write.commits import new_token
        from hudi_vector.write.replace import replace_in_order
        from hudi_vector.write.rewrite import committed_now

        def before_commit() -> None:
            lease.check()
            self.tell("committing the order")

        name, token = new_write_id(clock_ms()), new_token()
        run = self._begun(PendingCommit(name, token, tuple(sorted(committed_now(self.table))), ORDERING))
        try:
            instant = replace_in_order(
                self._rewriting, self.path, order, vectors, self._folder(name), token, before_commit
            )
        except Exception:
            self._close([run], name)
            raise
        self._close([run], name)
        return instant

    def store_by_size(self, lease: ServiceLease) -> BySize:
        """Put blobs into their rows or out of them, as the present thresholds say."""
        from hudi_vector.write.by_size import store_by_size
        from hudi_vector.write.commits import new_token

        noted: list[CompactionRun] = []
        name, token = new_write_id(clock_ms()), new_token()

        def before_commit(seen: frozenset[Instant]) -> None:
            lease.check()
            self._require_quiet()
            noted.append(self._begun(PendingCommit(name, token, tuple(sorted(seen)), RESIZING)))
            self.tell("committing thresholds")

        def committed(instant: str) -> None:
            self.tell(f"committed {instant}")

        try:
            done = store_by_size(self._rewriting, self._sizes(), self._folder(name), token, before_commit, committed)
        except Exception:
            for run in noted:
                assert run.pending is not None
                self._settle(run.pending)
            self._close(noted, name)
            raise
        self._close(noted, name)
        return done

    def count_by_size(self) -> tuple[int, int]:
        """How many blobs the present thresholds would put out of their rows, and into them."""
        from hudi_vector.write.by_size import count_by_size

        return count_by_size(self.table, self._sizes())

    def _sizes(self) -> dict[str, BlobSettings]:
        from hudi_vector.write.blob_plan import session_settings

        return dict.fromkeys(self.table.columns, session_settings(self.spark))

    def _begun(self, pending: PendingCommit) -> CompactionRun:
        """A run that repacks nothing, with its commit noted."""
        plan = CompactionPlan(pending.write_id, self.table.source.uri, clock_ms(), self.table.columns, (), 0, 0)
        made = publish_plan(plan, self.storage_options)
        return publish_run(replace(made, state=RUNNING, pending=pending), self.storage_options)

    def _close(self, runs: Sequence[CompactionRun], name: str) -> None:
        for run in runs:
            self._end(run)
        self._remove_staged(name)
