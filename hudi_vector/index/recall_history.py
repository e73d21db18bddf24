"""The history of an index's measured recall, stored with the index as one side file per measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_vector.errors import DataFileError
from hudi_vector.index.catalog import Index
from hudi_vector.storage import StorageOptions, join, open_storage
from hudi_vector.storage.side_files import generation_of, names_of, publish, unseal
from hudi_vector.storage.stored_values import value_of

__all__ = ["measurements_of", "note_recall"]

_KIND, _VERSION = "index-recall", 1
_SHOWN = 100


def note_recall(index: Index, measured: Mapping[str, Any], options: StorageOptions) -> None:
    """Store a measurement: JSON values under `measured_ms`, `recall`, `milliseconds` and other names."""
    storage, folder = open_storage(index.folder, options), _folder(index)
    names = names_of(storage, folder)
    publish(storage, folder, _KIND, _VERSION, generation_of(names[0]) + 1 if names else 1, dict(measured))


def measurements_of(index: Index, options: StorageOptions) -> tuple[tuple[int, float, float], ...]:
    """Return the last hundred measurements of an index, oldest first, as (time, recall, latency).

    Times are in milliseconds since 1970; a latency is the median of a search, in milliseconds.
    """
    storage, folder = open_storage(index.folder, options), _folder(index)
    uris = [join(folder, name) for name in names_of(storage, folder)[:_SHOWN]]
    found = [(uri, unseal(_KIND, _VERSION, storage.read(uri), uri)) for uri in uris]
    kept = (_measured(body, uri) for uri, body in found if body is not None)
    return tuple(sorted(each for each in kept if each is not None))


def _measured(body: Mapping[str, Any], uri: str) -> tuple[int, float, float] | None:
    """Return a measurement, or None if a value is missing or of another type."""
    kinds = {"measured_ms": int, "recall": float, "milliseconds": float}
    try:
        time_ms, recall, milliseconds = (value_of(kind, body.get(name), uri, name) for name, kind in kinds.items())
    except DataFileError:
        return None
    return time_ms, recall, milliseconds


def _folder(index: Index) -> str:
    return join(index.folder, "recall", index.key)
