"""Plans of services on storage: one folder per plan, whose newest side file has the plan and the state of its run.

The folder is ``{table}/{place}/{plan id}/``. The states are *planned*, *running* and *ended*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hudi_vector.blobs.names import is_write_id, written_ms
from hudi_vector.errors import DataFileError, InvalidArgumentError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import generation_of, newest

__all__ = ["ENDED", "PLANNED", "RUNNING", "begun_plans", "idle_plans", "read_plan"]

PLANNED, RUNNING, ENDED = "planned", "running", "ended"

_STATES = (PLANNED, RUNNING, ENDED)


def read_plan(
    table: str, place: str, plan_id: str, kind: str, version: int, options: StorageOptions
) -> tuple[dict[str, Any], int]:
    """Return the body of a plan's newest side file, without the plan's id, and the file's generation.

    Args:
        table: The table's base path.
        place: The folder of the service's plans, relative to the table's folder.
        plan_id: The plan's id.
        kind: The kind of the side files, which messages use as the name of the service.
        version: The version of the side files.
        options: Options to open storage.

    Raises:
        InvalidArgumentError: The table has no such plan, or no whole one.
        DataFileError: The file has the id of another plan, or an unknown state.
        UnsupportedTableError: Another version of this package wrote it.
    """
    found = None
    if is_write_id(plan_id):
        folder = join(normalise(table), place, plan_id)
        found = newest(open_storage(folder, options), folder, kind, version)
    if found is None:
        raise InvalidArgumentError(
            f"'{table}' has no {kind} plan '{plan_id}'; a dry run publishes one and names it in its result"
        )
    return _stated(found[1], plan_id, folder), generation_of(found[0])


def begun_plans(table: str, place: str, kind: str, version: int, options: StorageOptions) -> Sequence[str]:
    """Return the ids of the plans whose runs were begun and have not ended, the oldest first."""
    return [name for name, state in _states(table, place, kind, version, options) if state == RUNNING]


def idle_plans(
    table: str, place: str, kind: str, version: int, before_ms: int, options: StorageOptions
) -> Sequence[str]:
    """Return the ids of plans made before `before_ms` that are not running, the oldest first.

    `before_ms` is in milliseconds since 1970, UTC.
    """
    found = _states(table, place, kind, version, options, before_ms)
    return [name for name, state in found if state != RUNNING]


def _states(
    table: str, place: str, kind: str, version: int, options: StorageOptions, before_ms: int | None = None
) -> Iterator[tuple[str, str]]:
    folder = join(normalise(table), place)
    storage = open_storage(folder, options)
    for name in sorted(filter(is_write_id, storage.list_folders(folder))):
        made_ms = written_ms(name)
        if before_ms is not None and (made_ms is None or made_ms >= before_ms):
            continue
        newest_file = newest(storage, join(folder, name), kind, version)
        if newest_file is not None:
            yield name, _stated(newest_file[1], name, join(folder, name))["state"]


def _stated(body: dict[str, Any], plan_id: str, folder: str) -> dict[str, Any]:
    """Return the body of a plan without its id.

    Raise DataFileError if the id is not that of the folder, or the state is unknown: the process that ends a run
    removes the files that have the plan's id.
    """
    if body.get("plan_id") != plan_id or body.get("state") not in _STATES:
        raise DataFileError(
            f"'{folder}' is damaged, or somebody changed it: it is not the plan '{plan_id}' in one of the states "
            f"{', '.join(_STATES)}; nothing is done with it, so remove that folder if nobody knows it"
        )
    return {key: value for key, value in body.items() if key != "plan_id"}
