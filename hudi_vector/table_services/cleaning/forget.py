"""What writes and services noted about themselves, removed when it is a month old and nobody needs it any more.

So what a run has to list stays as much as happens in a month, however long the table is kept up every hour. Of each
folder the newest side file goes last: a process that is killed meanwhile leaves no older state to be taken for the
present one.
"""

from __future__ import annotations

from collections.abc import Iterable

from hudi_vector.blobs.names import is_write_id, written_ms
from hudi_vector.blobs.uploads.manifest import UPLOADS, Upload, upload_ids
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import remove
from hudi_vector.table_services.mark_report import MARKS, MarkReport
from hudi_vector.table_services.marking.files import list_marks
from hudi_vector.table_services.plans.clustering_files import CLUSTERINGS, begun_clusterings, idle_clusterings
from hudi_vector.table_services.plans.compaction_files import COMPACTIONS, begun_runs, idle_compactions
from hudi_vector.table_services.trash.sweep_record import SWEEPS, ended_sweeps, read_sweep, unfinished_sweeps
from hudi_vector.table_services.trash.trash import list_trash

__all__ = ["NOTES_KEPT_MS", "forget_notes", "forget_plans"]

NOTES_KEPT_MS = 30 * 86_400_000
"""How long what was noted stays at least, milliseconds."""

_LOCAL = StorageOptions()


def forget_notes(found: MarkReport, uploads: Iterable[Upload], options: StorageOptions = _LOCAL) -> list[str]:
    """Remove what is older than a month of marks, sweeps and writes; no other sweep and no restore may run meanwhile.

    A mark stays while a file that it named is in the trash, a sweep too. The manifest of a write stays while it may
    commit, while a file of it is in the blob area or in the trash, or is named by the record of a sweep, and while a
    compaction that was killed may ask for it; and all manifests where there is a doubt.

    Args:
        found: What a mark found, whose time is the present.
        uploads: The writes of the table, as that mark read them, without their containers.
        options: How storage is opened.

    Returns:
        The folders that are gone, from the table's.

    Raises:
        OSError: One of them cannot be removed; killed half way, the next run goes on.

    Example:
        >>> import tempfile
        >>> forget_notes(MarkReport("20260101000000000_0123456789ab", normalise(tempfile.mkdtemp()), 0, ""), [])
        []
    """
    notes = _Notes(found, options)
    # Sweeps last: a restore since the mark is known by the record of the sweep alone.
    return [*notes.marks(), *([] if found.doubts else notes.uploads(uploads)), *notes.sweeps()]


def forget_plans(table: str, *, now_ms: int, keep: str = "", options: StorageOptions = _LOCAL) -> list[str]:
    """Remove the plans of clusterings and compactions that are older than a month and ended, or were never run.

    Args:
        table: The table's base path.
        now_ms: The time, milliseconds since 1970, UTC; nobody else may cluster or compact meanwhile.
        keep: A plan that stays.
        options: How storage is opened.

    Returns:
        The folders that are gone, from the table's.

    Raises:
        OSError: One of them cannot be removed.
    """
    root, before_ms = normalise(table), now_ms - NOTES_KEPT_MS
    needed = {keep, *(run.plan.compaction.plan_id for run in begun_clusterings(root, options))}
    idle = [(CLUSTERINGS, name) for name in idle_clusterings(root, before_ms, options)]
    idle += [(COMPACTIONS, name) for name in idle_compactions(root, before_ms, options)]
    return _removed(open_storage(root, options), root, [join(*each) for each in idle if each[1] not in needed])


class _Notes:
    """The notes of a table beside what is in its trash."""

    def __init__(self, found: MarkReport, options: StorageOptions) -> None:
        self._found = found
        self._options = options
        self._root = found.table
        self._storage = open_storage(found.table, options)
        self._trash = list_trash(self._storage, self._root)

    def marks(self) -> list[str]:
        """Marks that say nothing about the trash any more."""
        old = self._old(list_marks(self._root, self._options))
        if not old:
            return []
        sweeps = {file.sweep_id for file in self._trash}
        records = [read_sweep(self._storage, self._root, sweep) for sweep in sorted(sweeps)]
        needed = {each.mark_id for each in [*records, *unfinished_sweeps(self._storage, self._root)] if each}
        return self._gone(MARKS, (mark for mark in old if mark not in needed))

    def uploads(self, uploads: Iterable[Upload]) -> list[str]:
        """Manifests of writes nothing of which is left."""
        paths = [each.path for each in self._found.kept] + [each.path for each in self._found.candidates]
        paths += [each.path for each in self._trash]
        standing = {part for path in paths for part in path.split("/") if is_write_id(part)}
        present = self._found.made_ms - NOTES_KEPT_MS
        running = {each.write_id for each in uploads if each.may_commit(present)}
        old = self._old(upload_ids(self._root, options=self._options))
        over = [name for name in old if name not in standing and name not in running]
        if not over:
            return []
        asked = {run.pending.write_id for run in begun_runs(self._root, self._options) if run.pending}
        for sweep in ended_sweeps(self._storage, self._root):
            record = read_sweep(self._storage, self._root, sweep)
            asked |= {part for file in record.files for part in file.path.split("/")} if record else set()
        return self._gone(UPLOADS, (name for name in over if name not in asked))

    def sweeps(self) -> list[str]:
        """Records of sweeps that ended, and nothing of which is in the trash."""
        needed = {file.sweep_id for file in self._trash}
        old = self._old(ended_sweeps(self._storage, self._root))
        return self._gone(SWEEPS, (sweep for sweep in old if sweep not in needed))

    def _old(self, names: Iterable[str]) -> list[str]:
        now = self._found.made_ms
        made = {name: written_ms(name) for name in names}
        return [name for name, at_ms in made.items() if at_ms is not None and at_ms + NOTES_KEPT_MS < now]

    def _gone(self, place: str, names: Iterable[str]) -> list[str]:
        return _removed(self._storage, self._root, [join(place, name) for name in names])


def _removed(storage: Storage, root: str, folders: list[str]) -> list[str]:
    for folder in folders:
        remove(storage, join(root, folder))
    return folders
