"""Which data files savepoints hold."""

from __future__ import annotations

from hudi_vector.storage import join
from hudi_vector.table import actions
from hudi_vector.table.native import NativeTable

__all__ = ["saved_files"]


def saved_files(table: NativeTable) -> dict[str, str]:
    """The data files that completed savepoints hold.

    Args:
        table: The table.

    Returns:
        The savepoint's instant, by the file's path from the table's folder; the newest where there are several.

    Raises:
        OSError: The timeline or a savepoint cannot be read.
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
