"""Plans of services on storage: a folder for each, whose newest side file says what it is and how far a run of it is.

The folder is ``{table}/{place}/{plan id}/``. States are *planned*, *running* and *ended*.
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
    """What the newest side file of a plan says besides its id, and its generation.

    Args:
        table: The table's base path.
        place: Where the plans of the service lie, from the table's folder.
        plan_id: The plan.
        kind: Of the side files, which is how messages name the service.
        version: Of the side files.
        options: How storage is opened.

    Raises:
        InvalidArgumentError: The table has no such plan, or no whole one.
        DataFileError: It bears the id of another, or a state that no plan has.
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
    """The ids of the plans whose runs were begun and not ended, the oldest first.

    Args:
        table: The table's base path.
        place: Where the plans of the service lie, from the table's folder.
        kind: Of their side files.
        version: Of their side files.
        options: How storage is opened.
    """
    return [name for name, state in _states(table, place, kind, version, options) if state == RUNNING]


def idle_plans(
    table: str, place: str, kind: str, version: int, before_ms: int, options: StorageOptions
) -> Sequence[str]:
    """The ids of older plans that no run is at, the oldest first.

    Args:
        table: The table's base path.
        place: Where the plans of the service lie, from the table's folder.
        kind: Of their side files.
        version: Of their side files.
        before_ms: They were made before that time, milliseconds since 1970, UTC.
        options: How storage is opened.
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
    """The body of a plan without its id, which is that of its folder: whoever ends a run removes what bears it."""
    if body.get("plan_id") != plan_id or body.get("state") not in _STATES:
        raise DataFileError(
            f"'{folder}' is damaged, or somebody changed it: it is not the plan '{plan_id}' in one of the states "
            f"{', '.join(_STATES)}; nothing is done with it, so remove that folder if nobody knows it"
        )
    return {key: value for key, value in body.items() if key != "plan_id"}
