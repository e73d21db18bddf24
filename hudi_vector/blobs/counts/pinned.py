"""The pins of a table's committed writes, looked up for rows by the path of their file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudi_vector.blobs.uploads.external_files import pins_of, uploads_with_pins
from hudi_vector.storage import StorageOptions, open_storage

__all__ = ["KnownPins"]

_PIN_TYPE = pa.struct([("size", pa.int64()), ("mtime_ns", pa.int64())])


@dataclass(frozen=True)
class KnownPins:
    """The instants of the writes that pinned a path, ascending, and the pin of each: size in bytes and mtime in ns."""

    by_path: Mapping[str, tuple[list[str], list[tuple[int, int]]]]

    @classmethod
    def of(cls, table: str, options: StorageOptions) -> KnownPins:
        """Read the pins of a table; raise DataFileError if a file of pins is gone or damaged."""
        uploads = uploads_with_pins(table, options)
        read = open_storage(table, options).each(lambda upload: pins_of(upload, options), uploads)
        pins: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for upload, parts in zip(uploads, read, strict=True):
            for pin in (pin for part in parts for pin in part.to_pylist()):
                pins[pin["path"]].append((upload.instant or "", pin["size"], pin["mtime_ns"]))
        return cls({path: _in_order(each) for path, each in pins.items()})

    def newest(self, paths: pa.StringArray, commit_times: pa.StringArray) -> pa.StructArray:
        """Return for each row the newest pin of its file by the row's write or an earlier one, NULL without one.

        `commit_times` are the instants that wrote the rows last; NULL allows pins of every write.
        """
        encoded = paths.dictionary_encode()
        known = [self.by_path.get(path) for path in encoded.dictionary.to_pylist()]
        if not any(known):
            return pa.nulls(len(paths), _PIN_TYPE)
        found: list[dict[str, int] | None] = []
        for code, time in zip(encoded.indices.to_pylist(), commit_times.to_pylist(), strict=True):
            instants, pins = ([], []) if code is None else known[code] or ([], [])
            place = len(instants) if time is None else bisect_right(instants, time)
            found.append(dict(zip(("size", "mtime_ns"), pins[place - 1], strict=True)) if place else None)
        return pa.array(found, _PIN_TYPE)


def _in_order(pins: list[tuple[str, int, int]]) -> tuple[list[str], list[tuple[int, int]]]:
    ordered = sorted(pins)
    return [instant for instant, _, _ in ordered], [(size, mtime) for _, size, mtime in ordered]
