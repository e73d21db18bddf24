"""Plans of services on storage: one folder per plan, whose newest side file has the plan and the state of its run.

The folder is ``{table}/{place}/{plan id}/``. The states are *planned*, *running* and *ended*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hudi_vector.blobs.names import is_write_id, written_ms
from hudi_vector.errors import DataFileError, InvalidArgumentError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Entry, Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    P = TypeVar("P", bound=DataclassInstance)
else:
    P = TypeVar("P")

__all__ = ["ENDED", "PLANNED", "RUNNING", "PlanFiles"]

PLANNED, RUNNING, ENDED = "planned", "running", "ended"

_STATES = (PLANNED, RUNNING, ENDED)


@dataclass(frozen=True)
class PlanFiles(Generic[P]):
    """The plans of a service.

    `place` is their folder relative to the table's, and `record` has the plan in a side file, without what the body
    holds of the run. Messages use the record's kind as the name of the service.
    """

    place: str
    record: Record[P]

    def publish(self, plan: P, table: str, plan_id: str, generation: int, options: StorageOptions, **run: Any) -> None:
        """Publish a side file with the plan and its run, whose JSON entries are `run`, `state` among them."""
        folder = join(table, self.place, plan_id)
        self.record.publish(open_storage(table, options), folder, plan, generation, **run)

    def read(self, table: str, plan_id: str, options: StorageOptions) -> Entry[P]:
        """Return a plan's newest side file, which has the plan's id and a known state.

        Raises InvalidArgumentError if the table has no such plan or no whole one, DataFileError if the file has another
        id or an unknown state, and UnsupportedTableError if another version of this package wrote it.
        """
        found = self._newest(normalise(table), plan_id, options) if is_write_id(plan_id) else None
        if found is None:
            raise InvalidArgumentError(
                f"'{table}' has no {self.record.kind} plan '{plan_id}'; a dry run publishes one and names it in its "
                "result"
            )
        return found

    def begun(self, table: str, options: StorageOptions) -> Sequence[tuple[str, Entry[P]]]:
        """Return the plans whose runs were begun and have not ended, by id, with their newest side file."""
        return [(name, found) for name, found in self._found(table, options) if found.body["state"] == RUNNING]

    def idle(self, table: str, before_ms: int, options: StorageOptions) -> Sequence[str]:
        """Return the ids of plans made before `before_ms` that are not running, the oldest first.

        `before_ms` is in milliseconds since 1970, UTC.
        """
        found = self._found(table, options, before_ms)
        return [name for name, entry in found if entry.body["state"] != RUNNING]

    def _found(
        self, table: str, options: StorageOptions, before_ms: int | None = None
    ) -> Iterator[tuple[str, Entry[P]]]:
        root = normalise(table)
        folder = join(root, self.place)
        storage = open_storage(folder, options)
        names = sorted(filter(is_write_id, storage.list_folders(folder)))
        if before_ms is not None:
            names = [name for name in names if (made_ms := written_ms(name)) is not None and made_ms < before_ms]
        for name, found in zip(names, storage.each(lambda name: self._newest(root, name, options), names), strict=True):
            if found is not None:
                yield name, found

    def _newest(self, root: str, plan_id: str, options: StorageOptions) -> Entry[P] | None:
        """Return a plan's newest side file, or None if none is whole.

        Raises DataFileError if the id is not that of the folder, or the state is unknown: the process that ends a run
        removes the files that have the plan's id.
        """
        folder = join(root, self.place, plan_id)
        found = self.record.newest(open_storage(folder, options), folder)
        if found is not None and (found.body.get("plan_id") != plan_id or found.body.get("state") not in _STATES):
            raise DataFileError(
                f"'{folder}' is damaged, or somebody changed it: it is not the plan '{plan_id}' in one of the states "
                f"{', '.join(_STATES)}; nothing is done with it, so remove that folder if no one knows it"
            )
        return found
