"""The history of an index's measured recall, stored with the index as one side file per measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from hudi_vector.errors import DataFileError
from hudi_vector.index.catalog import Index
from hudi_vector.storage import StorageOptions, join, open_storage
from hudi_vector.storage.records import Entry, Record
from hudi_vector.storage.side_files import generation_of, names_of

__all__ = ["measurements_of", "note_recall"]

_SHOWN = 100


@dataclass(frozen=True)
class _Measured:
    """The fields that are read of a side file, which holds more."""

    measured_ms: int
    recall: float
    milliseconds: float


_MEASURED = Record("index-recall", 1, _Measured)
_READ = ("measured_ms", "recall", "milliseconds")


def note_recall(index: Index, measured: Mapping[str, Any], options: StorageOptions) -> None:
    """Store a measurement: JSON values under `measured_ms`, `recall`, `milliseconds` and other names."""
    storage, folder = open_storage(index.folder, options), _folder(index)
    names = names_of(storage, folder)
    read = _Measured(*(measured[name] for name in _READ))
    _MEASURED.publish(storage, folder, read, generation_of(names[0]) + 1 if names else 1, **measured)


def measurements_of(index: Index, options: StorageOptions) -> tuple[tuple[int, float, float], ...]:
    """Return the last hundred measurements of an index, oldest first, as (time, recall, latency).

    Times are in milliseconds since 1970; a latency is the median of a search, in milliseconds.
    """
    storage, folder = open_storage(index.folder, options), _folder(index)
    found = (_MEASURED.read(storage, join(folder, name)) for name in names_of(storage, folder)[:_SHOWN])
    kept = (_measured(entry) for entry in found if entry is not None)
    return tuple(sorted(astuple(each) for each in kept if each is not None))


def _measured(found: Entry[_Measured]) -> _Measured | None:
    """Return a measurement, or None if a value is missing or of another type."""
    read = {name: found.body.get(name) for name in _READ}
    try:
        return replace(found, body=read).value()
    except DataFileError:
        return None


def _folder(index: Index) -> str:
    return join(index.folder, "recall", index.key)
