"""Files outside of a table with bytes of its rows: the cache on disk of this host, and receipts of searches."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.disk_cache import DiskCache

__all__ = ["cached_of", "receipts_with"]

_FILE = re.compile(r"(.*?)(?: \d+ \d+)? ?", re.DOTALL)
"""The rest of a source behind the table's folder: the file, and its size and modification time if they are known."""


def cached_of(cache: DiskCache, storage: Storage, table: str, held: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """Yield path, source and bytes of the entries of a cache on disk that may hold bytes of some rows of a table.

    They are the entries of files that hold such rows, given in `held` by their paths from the table's folder, and of
    files of the table that are gone, which may have held them. `table` is a normalised base path.
    """
    entries = [
        (path, source, size, rest)
        for path, source, size in cache.entries()
        if (rest := _file_of(source, table)) is not None
    ]
    files = sorted({rest for *_, rest in entries})
    found = storage.each(lambda rest: storage.info(join(table, rest)) is not None, files)
    there = {rest for rest, is_there in zip(files, found, strict=True) if is_there}
    yield from ((path, source, size) for path, source, size, rest in entries if rest in held or rest not in there)


def _file_of(source: str, table: str) -> str | None:
    """Return the path from the table's folder of the file that a source of the cache is, or None for another's file."""
    for folder in (table, table.partition("://")[2]):  # objects are named by bucket and key
        _, found, rest = source.partition(f" {folder}/")
        match = _FILE.fullmatch(rest) if found else None
        if match is not None:
            return match[1]
    return None


def receipts_with(folder: str, keys: Collection[str]) -> list[tuple[str, int]]:
    """Return path and bytes of the JSON files in a local folder, and below it, that hold one of the keys as a value.

    Raise InvalidArgumentError if it is no folder, or a file in it cannot be read as JSON.
    """
    home = Path(folder)
    if not home.is_dir():
        raise InvalidArgumentError(f"receipts = {folder!r} is no folder on this machine; give one with JSON files")
    wanted, found = frozenset(keys), []
    for file in sorted(home.rglob("*.json")):
        try:
            held = json.loads(file.read_bytes())
        except (OSError, ValueError) as problem:
            raise InvalidArgumentError(f"the receipt '{file}' cannot be read: {problem}; move it elsewhere") from None
        if any(str(value) in wanted for value in _values(held)):
            found.append((str(file), file.stat().st_size))
    return found


def _values(held: Any) -> Iterator[Any]:
    """Yield the texts and numbers of a JSON value, and the names in its objects."""
    if isinstance(held, dict):
        yield from held
        held = list(held.values())
    if isinstance(held, list):
        for each in held:
            yield from _values(each)
    elif isinstance(held, str | int | float) and not isinstance(held, bool):
        yield held
