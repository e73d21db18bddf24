"""The data files that savepoints hold."""

from __future__ import annotations

from hudi_vector.storage import join
from hudi_vector.table import actions
from hudi_vector.table.native import NativeTable

__all__ = ["saved_files"]


def saved_files(table: NativeTable) -> dict[str, str]:
    """Return the savepoint's instant by data file, for all files that completed savepoints hold.

    Files are given by their path from the table's folder; if several savepoints hold a file, the newest counts. Raise
    OSError if the timeline or a savepoint cannot be read.
    """
    folder = join(table.source.uri, ".hoodie", table.config.timeline_path)
    held: dict[str, str] = {}
    for instant in table.timeline().completed:
        if instant.action == "savepoint":
            name = instant.name if table.config.version >= 8 else f"{instant.requested}.savepoint"
            saved = actions.read_action(table.storage, join(folder, name)).get("partitionMetadata") or {}
            for partition, metadata in saved.items():
                held |= {
                    join(*filter(None, [partition, file])): instant.requested for file in metadata["savepointDataFile"]
                }
    return held
