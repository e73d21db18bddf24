"""What recall of an index was measured when, kept beside it: a side file for each measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_vector.index.catalog import Index
from hudi_vector.storage import StorageOptions, join, open_storage
from hudi_vector.storage.side_files import generation_of, names_of, publish, unseal

__all__ = ["note_recall", "recalls_of"]

_KIND, _VERSION = "index-recall", 1
_SHOWN = 100


def note_recall(index: Index, measured: Mapping[str, Any], options: StorageOptions) -> None:
    """Keep a measurement.

    Args:
        index: The index.
        measured: What was measured, in values that JSON can hold, `measured_ms` and `recall` among them.
        options: How the storage is opened.
    """
    storage, folder = open_storage(index.folder, options), _folder(index)
    names = names_of(storage, folder)
    publish(storage, folder, _KIND, _VERSION, generation_of(names[0]) + 1 if names else 1, dict(measured))


def recalls_of(index: Index, options: StorageOptions) -> tuple[tuple[int, float], ...]:
    """When recall was measured, in milliseconds since 1970, and what it was: the last hundred times, the oldest first.

    Args:
        index: The index.
        options: How the storage is opened.
    """
    storage, folder = open_storage(index.folder, options), _folder(index)
    uris = [join(folder, name) for name in names_of(storage, folder)[:_SHOWN]]
    found = [unseal(_KIND, _VERSION, storage.read(uri), uri) for uri in uris]
    return tuple(sorted((body["measured_ms"], body["recall"]) for body in found if body is not None))


def _folder(index: Index) -> str:
    return join(index.folder, "recall", index.key)
