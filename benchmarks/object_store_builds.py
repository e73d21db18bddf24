"""Part of the object store's benchmark: what an index costs to build there, ours and Lance's, of tables without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from object_store_data import Case, files_of, lance_index, our_index, upload
from slow_store import BUCKET, SlowStore

if TYPE_CHECKING:
    from searching import Contestant, Process

_FOLDER = "without-index"


def built(
    store: SlowStore,
    case: Case,
    delay: float,
    builders: Sequence[Contestant],
    process_of: Callable[[Contestant], AbstractContextManager[tuple[Process, str]]],
) -> list[dict[str, Any]]:
    """Let each build the index of a copy without one, once, in a new process that has loaded its modules."""
    rows = []
    for who in builders:
        is_ours = who.task["library"] == "hudi_vector"
        place = _table_without_index(store, case) if is_ours else _lance_without_index(case, who.task["settings"])
        asked = {"build": place, "options": our_index() if is_ours else lance_index(case)}
        with process_of(who) as (process, _):
            store.set_delay(delay)
            with store.watched() as seen:
                seconds = process.ask(asked)["seconds"]
            store.set_delay(0)
        counts = {"requests": len(seen.requests), "megabytes": seen.bytes / 1e6, "waves": seen.waves}
        print(f"  {who.name:<16} built in {seconds:.2f} s: {counts}", flush=True)
        rows.append({"table": case.said, "way": who.name, "seconds": seconds, **counts})
    return rows


def _table_without_index(store: SlowStore, case: Case) -> str:
    index = case.table / ".hoodie" / "vector_index"
    upload(store, case, (file for file in files_of(case.table) if not file.is_relative_to(index)), f"{_FOLDER}/")
    return f"s3a://{BUCKET}/{_FOLDER}/{case.name}"


def _lance_without_index(case: Case, settings: dict[str, str]) -> str:
    import lance

    place = f"s3://{BUCKET}/{_FOLDER}/lance/{case.name}.lance"
    lance.write_dataset(pq.read_table(case.source), place, storage_options=settings)
    return place
