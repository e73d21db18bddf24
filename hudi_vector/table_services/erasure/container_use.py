"""Which containers nothing refers to, wholly or in part."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.blobs.uploads.manifest import list_uploads
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.marking.container_index import Fold

__all__ = ["ContainerUse"]


@dataclass(frozen=True)
class ContainerUse:
    """Files of the blob area, by their paths from the table's folder.

    Attributes:
        loose: Nothing refers to them.
        partly_dead: Nothing refers to some of their blobs, or to any of them.
    """

    loose: frozenset[str]
    partly_dead: frozenset[str]

    @classmethod
    def of(cls, root: str, references: Fold, options: StorageOptions) -> ContainerUse:
        """What all references make of the files."""
        uploads = list_uploads(root, options=options)
        # A container with an inner format has bytes that belong to no blob.
        payload = {each.path: each.blob_bytes for upload in uploads for each in upload.containers}
        rows = references.containers().select(["uri", "bytes", "live_bytes", "files"]).to_pylist()
        by_path = {row["uri"].removeprefix(f"{root}/"): row for row in rows}
        return cls(
            frozenset(path for path, row in by_path.items() if not row["files"]),
            frozenset(
                path
                for path, row in by_path.items()
                if not row["files"] or row["live_bytes"] < payload.get(path, row["bytes"])
            ),
        )
