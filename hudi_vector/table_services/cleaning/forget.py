"""Removal of old notes: the marks, sweep records, manifests and plans that are a month old and no longer needed.

Without it, every run would list more, since a table may be maintained every hour for years. The newest side file of a
folder is removed last, so that a process that is killed in between does not leave an older state as the newest one.
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
from hudi_vector.table_services.plans.compaction_files import COMPACTIONS, idle_compactions, unended_runs
from hudi_vector.table_services.trash.sweep_record import SWEEPS, ended_sweeps, read_sweep, unfinished_sweeps
from hudi_vector.table_services.trash.trash import list_trash

__all__ = ["NOTES_KEPT_MS", "forget_notes", "forget_plans"]

NOTES_KEPT_MS = 30 * 86_400_000
"""The minimum time that notes are kept, milliseconds."""

_LOCAL = StorageOptions()


def forget_notes(found: MarkReport, uploads: Iterable[Upload], options: StorageOptions = _LOCAL) -> list[str]:
    """Remove marks, sweep records and write manifests that are older than `NOTES_KEPT_MS` and not needed.

    `found` is the current mark; its time counts as the present. `uploads` are the table's writes as that mark read
    them; they need not have their containers. The caller must hold the CLEAN lease, so that no other sweep or restore
    runs.

    - A mark stays while one of its sweeps has files in the trash or has not ended.
    - A sweep record stays while the sweep has files in the trash or has not ended.
    - A manifest stays while its write may commit, while a file of the write is in the blob area or in the trash or is
      named by an ended sweep's record, and while an unfinished compaction waits for the write. If the mark has a doubt,
      all manifests stay.

    Return the removed folders, relative to the table's folder. Raise OSError if one cannot be removed; the next run
    continues where this one stopped.

    Example:
        >>> import tempfile
        >>> forget_notes(MarkReport("20260101000000000_0123456789ab", normalise(tempfile.mkdtemp()), 0, ""), [])
        []
    """
    notes = _Notes(found, options)
    # Sweeps last: only its sweep's record names a file that was restored since the mark, and `_Notes.uploads` reads it.
    return [*notes.marks(), *([] if found.doubts else notes.uploads(uploads)), *notes.sweeps()]


def forget_plans(table: str, *, now_ms: int, keep: str = "", options: StorageOptions = _LOCAL) -> list[str]:
    """Remove the plans older than `NOTES_KEPT_MS` of clusterings and compactions that ended or never ran.

    `now_ms` is in milliseconds since 1970, UTC. The plan with the id `keep` stays. No other clustering or compaction of
    the table may run meanwhile. Return the removed folders, relative to the table's folder. Raise OSError if one cannot
    be removed.
    """
    root, before_ms = normalise(table), now_ms - NOTES_KEPT_MS
    storage = open_storage(root, options)
    begun, clusterings, compactions = storage.together(
        lambda: begun_clusterings(root, options),
        lambda: idle_clusterings(root, before_ms, options),
        lambda: idle_compactions(root, before_ms, options),
    )
    needed = {keep, *(run.plan.compaction.plan_id for run in begun)}
    idle = [(CLUSTERINGS, name) for name in clusterings] + [(COMPACTIONS, name) for name in compactions]
    return _removed(storage, root, [join(*each) for each in idle if each[1] not in needed])


class _Notes:
    """The notes of a table, and what is in its trash."""

    def __init__(self, found: MarkReport, options: StorageOptions) -> None:
        self._found = found
        self._options = options
        self._root = found.table
        self._storage = open_storage(found.table, options)
        self._trash = list_trash(self._storage, self._root)

    def marks(self) -> list[str]:
        """Remove old marks whose sweeps have ended and have no files in the trash; return their folders."""
        old = self._old(list_marks(self._root, self._options))
        if not old:
            return []
        sweeps = {file.sweep_id for file in self._trash}
        records = [read_sweep(self._storage, self._root, sweep) for sweep in sorted(sweeps)]
        needed = {each.mark_id for each in [*records, *unfinished_sweeps(self._storage, self._root)] if each}
        return self._gone(MARKS, (mark for mark in old if mark not in needed))

    def uploads(self, uploads: Iterable[Upload]) -> list[str]:
        """Remove old manifests of writes that cannot commit and of which no file is left; return their folders."""
        paths = [each.path for each in self._found.kept] + [each.path for each in self._found.candidates]
        paths += [each.path for each in self._trash]
        standing = {part for path in paths for part in path.split("/") if is_write_id(part)}
        present = self._found.made_ms - NOTES_KEPT_MS
        running = {each.write_id for each in uploads if each.may_commit(present)}
        old = self._old(upload_ids(self._root, options=self._options))
        over = [name for name in old if name not in standing and name not in running]
        if not over:
            return []
        asked = {run.pending.write_id for run in unended_runs(self._root, self._options) if run.pending}
        for sweep in ended_sweeps(self._storage, self._root):
            record = read_sweep(self._storage, self._root, sweep)
            asked |= {part for file in record.files for part in file.path.split("/")} if record else set()
        return self._gone(UPLOADS, (name for name in over if name not in asked))

    def sweeps(self) -> list[str]:
        """Remove old records of ended sweeps that have no files in the trash; return their folders."""
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
    storage.each(lambda folder: remove(storage, join(root, folder)), folders)
    return folders
