"""Containers to which nothing refers, or only in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_vector.blobs.uploads.manifest import list_uploads
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.marking.container_index import Fold

__all__ = ["ContainerUse"]


@dataclass(frozen=True)
class ContainerUse:
    """Files of the blob area that are not fully referred to, by their paths relative to the table's folder.

    Attributes:
        loose: Files to which nothing refers.
        partly_dead: Files with blobs to which nothing refers; includes the loose files.
        lent: Files to which other tables alone refer, each with one of these.
    """

    loose: frozenset[str]
    partly_dead: frozenset[str]
    lent: Mapping[str, str]

    @classmethod
    def of(cls, root: str, references: Fold, options: StorageOptions) -> ContainerUse:
        """Classify the files of the blob area of the table at `root` by the references to them."""
        uploads = list_uploads(root, options=options)
        # A container's own format adds bytes that belong to no blob, so live bytes are compared with the blobs' bytes.
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
            {
                uri.removeprefix(f"{root}/"): tables[0]
                for uri, tables in references.tables().items()
                if root not in tables
            },
        )
