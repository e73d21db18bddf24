"""The data files that savepoints hold."""

from __future__ import annotations

from hudi_vector.table import actions
from hudi_vector.table.native import NativeTable

__all__ = ["saved_files"]


def saved_files(table: NativeTable) -> dict[str, str]:
    """Return the savepoint's instant by data file, for all files that completed savepoints hold.

    Files are given by their path from the table's folder; if several savepoints hold a file, the newest counts. Raise
    OSError if the timeline or a savepoint cannot be read.
    """
    held: dict[str, str] = {}
    for instant in table.timeline().completed:
        if instant.action == "savepoint":
            uri = table.config.layout.file(table.source.uri, instant)
            saved = actions.saved_paths(actions.read_action(table.storage, uri))
            held |= dict.fromkeys(saved, instant.requested)
    return held
