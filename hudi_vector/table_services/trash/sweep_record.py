"""The durable record of a sweep: which files it was to take, and the outcome.

It is the newest complete side file of ``{table}/.hoodie/blob_service/v1/sweeps/{sweep id}/``, in one of two states:

    begun → ended

*begun* is published before the first file moves, and lists all files that may. *ended* adds the files that stayed, with
the reason. Only storage says whether a file is in its place or in the trash. The generation in the side file's name is
the state's rank, so one listing finds the sweeps that were killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hudi_vector.blobs.names import BLOB_AREA, is_write_id, new_write_id
from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import generation_of, is_side_file
from hudi_vector.storage.stored_values import is_path_below
from hudi_vector.table_services.mark_report import UnneededFile
from hudi_vector.table_services.result import CleanFile

__all__ = [
    "BEGUN",
    "ENDED",
    "SWEEPS",
    "SweepRecord",
    "begin_sweep",
    "end_sweep",
    "ended_sweeps",
    "read_sweep",
    "unfinished_sweeps",
]

SWEEPS = ".hoodie/blob_service/v1/sweeps"
BEGUN, ENDED = "begun", "ended"

_RANKS = {BEGUN: 0, ENDED: 1}


@dataclass(frozen=True)
class SweepRecord:
    """A sweep; times in milliseconds since 1970, UTC.

    Attributes:
        table: The table's base path, normalised.
        sweep_id: The sweep's id, made of the time it began and random bits.
        mark_id: The mark that it swept.
        state: BEGUN or ENDED.
        begun_ms: When it began.
        trash: True if its files went to the trash, False if they were deleted.
        files: The files that it was to take.
        ended_ms: When it ended; 0 until then.
        stayed: The files that it did not take, with the reason.
        roots: The managed roots, below which lie the files that are outside the blob area.
    """

    table: str
    sweep_id: str
    mark_id: str
    state: str
    begun_ms: int
    trash: bool
    files: tuple[UnneededFile, ...]
    ended_ms: int = 0
    stayed: tuple[CleanFile, ...] = ()
    roots: tuple[str, ...] = ()


_RECORD = Record("sweep", 1, SweepRecord, elsewhere=("table", "sweep_id"))


def begin_sweep(
    storage: Storage,
    table: str,
    mark_id: str,
    files: Iterable[UnneededFile],
    *,
    trash: bool,
    now_ms: int,
    roots: tuple[str, ...] = (),
) -> SweepRecord:
    """Publish the record of a sweep, before any of its files moves, and return it.

    `files` are those that it may take, `roots` the managed roots; `now_ms` is in milliseconds since 1970, UTC.
    """
    record = SweepRecord(table, new_write_id(now_ms), mark_id, BEGUN, now_ms, trash, tuple(files), roots=roots)
    _publish(storage, record)
    return record


def end_sweep(storage: Storage, record: SweepRecord, stayed: Iterable[CleanFile], *, now_ms: int) -> SweepRecord:
    """Publish that a sweep has ended, with the files that it did not take, and return the new record.

    `now_ms` is in milliseconds since 1970, UTC.
    """
    ended = replace(record, state=ENDED, ended_ms=now_ms, stayed=tuple(stayed))
    _publish(storage, ended)
    return ended


def read_sweep(storage: Storage, table: str, sweep_id: str) -> SweepRecord | None:
    """Return the record of a sweep, or None if there is no complete one.

    Raise DataFileError if its content is invalid, and UnsupportedTableError if another version of this package wrote
    it.
    """
    found = _RECORD.newest(storage, join(table, SWEEPS, sweep_id)) if is_write_id(sweep_id) else None
    if found is None:
        return None
    record = found.value(table=table, sweep_id=sweep_id)
    wrong = [file.path for file in record.files if not _may_be_swept(file.path, record.roots)]
    if wrong or _RANKS.get(record.state) != found.generation:
        what = f"{wrong[0]!r} is nothing that it could take" if wrong else f"{record.state!r} is not its state"
        raise DataFileError(f"'{found.uri}' is damaged, or somebody changed it: {what}")
    return record


def unfinished_sweeps(storage: Storage, table: str) -> list[SweepRecord]:
    """Return the records of the sweeps that began and did not end, oldest first.

    A sweep without a complete record has moved nothing and is left out. Raise DataFileError if a record's content is
    invalid, and UnsupportedTableError if another version of this package wrote it.
    """
    found = (read_sweep(storage, table, sweep_id) for sweep_id in _in_state(storage, table, BEGUN))
    return [record for record in found if record is not None]


def ended_sweeps(storage: Storage, table: str) -> list[str]:
    """Return the ids of the sweeps that ended, oldest first."""
    return _in_state(storage, table, ENDED)


def _in_state(storage: Storage, table: str, state: str) -> list[str]:
    """Return the ids of the sweeps in a state, oldest first, judged by the names of their side files."""
    ranks: dict[str, int] = {}
    for info in storage.list_files(join(table, SWEEPS), recursive=True):
        sweep_id, name = info.uri.split("/")[-2:]
        if is_write_id(sweep_id) and is_side_file(name):
            ranks[sweep_id] = max(generation_of(name), ranks.get(sweep_id, 0))
    return sorted(sweep_id for sweep_id, rank in ranks.items() if rank == _RANKS[state])


def _publish(storage: Storage, record: SweepRecord) -> None:
    _RECORD.publish(storage, join(record.table, SWEEPS, record.sweep_id), record, _RANKS[record.state])


def _may_be_swept(path: str, roots: tuple[str, ...]) -> bool:
    """Return True if a path lies in the blob area or below a managed root."""
    if path.startswith(f"{BLOB_AREA}/"):
        return is_path_below(path)
    below = (path.removeprefix(f"{root.rstrip('/')}/") for root in roots if path.startswith(f"{root.rstrip('/')}/"))
    return any(map(is_path_below, below))
