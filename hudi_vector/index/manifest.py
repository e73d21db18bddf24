"""The manifest of an index: its parameters, its model, and a segment for each base file; a new one for each change.

A manifest is a side file ``{generation}-{uuid}`` below ``manifests/`` of the index's folder: readers take the newest
that is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import unquote

from hudi_vector.index.files import column_folder, indexes_folder
from hudi_vector.index.segment import FileFingerprint, Segment
from hudi_vector.storage import FileInfo, StorageOptions, join, open_storage
from hudi_vector.storage.side_files import forget, generation_of, newest, publish

__all__ = [
    "Effort",
    "Entry",
    "Manifest",
    "Parameters",
    "drop_index",
    "indexed_columns",
    "list_indexes",
    "newest_manifest",
    "publish_manifest",
    "relative",
]

MANIFEST_VERSION = 1
_KIND = "vector-index"
_BOUNDED = frozenset({"ivf_flat", "ivf_sq8"})


@dataclass(frozen=True)
class Parameters:
    """How an index is made; None stands for what suits the table's size.

    Attributes:
        kind: ``ivf_sq8`` or ``ivf_flat``.
        metric: The metric it answers.
        num_partitions: Lists of the coarse quantiser.
        max_iters: Rounds of k-means.
        sample: Vectors the model is trained on.
        recall_target: The recall that searches without one of their own aim at.
    """

    kind: str = "ivf_sq8"
    metric: str = "cosine"
    num_partitions: int | None = None
    max_iters: int | None = None
    sample: int | None = None
    recall_target: float | None = None


@dataclass(frozen=True)
class Entry:
    """The segment of a base file: the file as it was indexed, and the segment's name, bytes and rows."""

    file: FileFingerprint
    segment: str
    bytes: int
    rows: int
    clipped: int

    @classmethod
    def of(cls, segment: Segment, name: str, size: int) -> Entry:
        """The entry of a segment that was written.

        Args:
            segment: The segment.
            name: Its name.
            size: Its bytes.
        """
        return cls(segment.file, name, size, segment.rows, segment.clipped)

    def fits(self, file: FileInfo) -> bool:
        """Whether the file is the one that was indexed, as far as its listing shows."""
        return (self.file.size, self.file.mtime_ns) == (file.size, file.mtime_ns)


@dataclass(frozen=True)
class Effort:
    """How far an approximate search looks: how many lists, and how many candidates for each of the k rows."""

    recall: float
    nprobes: int
    refine_factor: int


@dataclass(frozen=True)
class Manifest:
    """An index at one of its generations.

    `entries` are by the base file's path, relative to the table. `efforts` are what a calibration found, the least
    first. `root` is the index's folder, `name` that of the side file.
    """

    root: str
    name: str
    column: str
    dimension: int
    element: str
    model_id: str
    lists: int
    parameters: Parameters
    entries: Mapping[str, Entry]
    efforts: tuple[Effort, ...] = ()
    created_ms: int = 0

    @property
    def kind(self) -> str:
        """The kind of index."""
        return self.parameters.kind

    @property
    def metric(self) -> str:
        """Its metric."""
        return self.parameters.metric

    @property
    def recall_target(self) -> float | None:
        """The recall that searches without one of their own aim at."""
        return self.parameters.recall_target

    @property
    def has_bounds(self) -> bool:
        """Whether it can tell when an answer is exact."""
        return self.kind in _BOUNDED

    def entry_of(self, table_uri: str, file: FileInfo) -> Entry | None:
        """The entry of a base file, None where it has none or was written anew."""
        entry = self.entries.get(relative(table_uri, file.uri))
        return entry if entry is not None and entry.fits(file) else None

    def effort(self, target: float) -> Effort:
        """The least effort that reached a recall on held-out vectors; the greatest there is where none did.

        Args:
            target: The recall wanted.

        Returns:
            The effort.
        """
        usual = Effort(1.0, max(1, self.lists // 8), 4)
        return next((effort for effort in self.efforts if effort.recall >= target), (*self.efforts, usual)[-1])


def relative(table_uri: str, uri: str) -> str:
    """A file's path from its table's folder."""
    return uri.removeprefix(table_uri.rstrip("/") + "/")


def publish_manifest(manifest: Manifest, options: StorageOptions) -> Manifest:
    """Publish a manifest as the newest of its index; when this returns it is durable.

    Args:
        manifest: What it says; its name is given here.
        options: How the storage is opened.

    Returns:
        The same with its name.
    """
    storage = open_storage(manifest.root, options)
    folder = join(manifest.root, "manifests")
    found = newest(storage, folder, _KIND, MANIFEST_VERSION)
    generation = 1 + generation_of(found[0]) if found else 0
    body = {
        "manifest_version": MANIFEST_VERSION,
        "column": manifest.column,
        "dimension": manifest.dimension,
        "element": manifest.element,
        "model_id": manifest.model_id,
        "lists": manifest.lists,
        "parameters": asdict(manifest.parameters),
        "efforts": [asdict(effort) for effort in manifest.efforts],
        "created_ms": manifest.created_ms,
        "entries": [asdict(entry) for entry in manifest.entries.values()],
    }
    return replace(manifest, name=publish(storage, folder, _KIND, MANIFEST_VERSION, generation, body))


def newest_manifest(root: str, options: StorageOptions) -> Manifest | None:
    """The newest whole manifest of an index, or None.

    Args:
        root: The index's folder.
        options: How the storage is opened.

    Returns:
        The manifest.

    Raises:
        UnsupportedTableError: A manifest has a version this package does not know.
    """
    found = newest(open_storage(root, options), join(root, "manifests"), _KIND, MANIFEST_VERSION)
    return None if found is None else _parsed(root, *found)


def list_indexes(table_uri: str, column: str, options: StorageOptions) -> list[Manifest]:
    """The newest manifest of each index of a column, by metric and kind.

    Args:
        table_uri: The table, a normalised URI.
        column: The column, as the table spells it.
        options: How the storage is opened.

    Returns:
        Manifests; none where the column has no index.
    """
    folder = column_folder(table_uri, column)
    folders = open_storage(table_uri, options).list_folders(folder)
    found = (newest_manifest(join(folder, name), options) for name in sorted(folders))
    return [manifest for manifest in found if manifest is not None]


def indexed_columns(table_uri: str, options: StorageOptions) -> list[str]:
    """The columns of a table that have a folder for indexes.

    Args:
        table_uri: The table, a normalised URI.
        options: How the storage is opened.
    """
    return sorted(unquote(name) for name in open_storage(table_uri, options).list_folders(indexes_folder(table_uri)))


def drop_index(root: str, options: StorageOptions) -> None:
    """Remove an index; its manifests first, so that nobody begins to use what is going.

    Args:
        root: The index's folder.
        options: How the storage is opened.
    """
    storage = open_storage(root, options)
    for part in ("manifests", "segments", "models"):
        forget(storage, join(root, part), ())


def _parsed(root: str, name: str, body: Mapping[str, Any]) -> Manifest:
    entries = [Entry(**{**entry, "file": FileFingerprint(**entry["file"])}) for entry in body["entries"]]
    return Manifest(
        root=root,
        name=name,
        column=body["column"],
        dimension=body["dimension"],
        element=body["element"],
        model_id=body["model_id"],
        lists=body["lists"],
        parameters=Parameters(**body["parameters"]),
        entries={entry.file.path: entry for entry in entries},
        efforts=tuple(Effort(**effort) for effort in body["efforts"]),
        created_ms=body["created_ms"],
    )
