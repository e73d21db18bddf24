"""Kept reference sets in shards: data files with their references, both as in the rows and folded by path.

A side file (`hudi_vector.storage.side_files`) of ``{table}/.hoodie/blob_refs/v1/`` names the shards. A shard is three
side tables: the files, by URI, size and modification time, with their number of rows in the other two tables; their
references; and these references folded by path. A shard never changes: new references go to a new shard, small shards
are merged, and a shard whose files are mostly gone is rewritten. Anything damaged or gone counts as not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, publish_table
from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.storage import FileInfo, Storage
from hudi_vector.storage.records import Entry, Record
from hudi_vector.storage.side_files import forget, generation_of
from hudi_vector.table_services.references.references import FOLDED, REFERENCES, folded

__all__ = ["ReferenceShards"]

_FILES = pa.schema(
    [
        ("uri", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("references", pa.int64()),
        ("folded", pa.int64()),
    ]
)
_MOST_SMALL = 16
_LARGE_ROWS = 1 << 20
_AHEAD_BYTES = 8 << 20


@dataclass(frozen=True)
class _Shard:
    files: SideTable
    references: SideTable
    folded: SideTable
    count: int
    rows: int

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def tables(self) -> tuple[SideTable, SideTable, SideTable]:
        return self.files, self.references, self.folded


@dataclass(frozen=True)
class _Shards:
    """The content of a side file."""

    shards: tuple[_Shard, ...]


_SHARDS = Record("blob-references", 1, _Shards)


@dataclass(frozen=True)
class _Place:
    """The rows of a file in its shard."""

    shard: str
    start: int
    rows: int
    folded_start: int
    folded_rows: int


class ReferenceShards:
    """The shards of a folder; references that are added stay in memory until they fill a shard or are saved.

    Args:
        storage: The file system.
        folder: The folder, a normalised URI.
        large: The number of references that fills a shard; memory holds about twice as many.

    Raises:
        UnsupportedTableError: A newer version of this package keeps references there.
    """

    def __init__(self, storage: Storage, folder: str, large: int = _LARGE_ROWS) -> None:
        """List the files of the shards; references are loaded when they are needed."""
        self._storage = storage
        self._folder = folder
        self._large = large
        self._name: str | None = None
        self._shards: dict[str, _Shard] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._places: dict[FileInfo, _Place] = {}
        self._held: dict[FileInfo, pa.Table] = {}
        self._held_rows = 0
        self._loaded: tuple[str, pa.Table] | None = None
        found = _SHARDS.newest(storage, folder)
        if found is not None:
            self._name = found.name
            shards = _stated(found)
            # One shard is held in memory anyhow, so that a small one comes with the list of its files.
            alone = [shards[0].folded] if len(shards) == 1 and shards[0].folded.bytes <= _AHEAD_BYTES else []
            wanted = [(shard.files, _FILES) for shard in shards] + [(each, FOLDED) for each in alone]
            tables = storage.each(lambda each: self._table(*each), wanted)
            for shard, files in zip(shards, tables, strict=False):
                self._index(shard, files)
            if alone and tables[-1] is not None:
                self._loaded = alone[0].name, tables[-1]
        self._published = dict(self._shards)

    def add(self, info: FileInfo, references: pa.Table) -> None:
        """Hold the references of a file, a table of `REFERENCES`, in memory until they fill a shard or are saved."""
        before = self._held.get(info)
        self._held[info] = references
        self._held_rows += references.num_rows - (before.num_rows if before is not None else 0)
        if self._held_rows >= self._large:
            self._flush()

    def of(self, infos: Iterable[FileInfo], *, fold: bool = False) -> Iterator[tuple[FileInfo, pa.Table | None]]:
        """Yield each file with its table of `REFERENCES`, or of `FOLDED` with `fold`; None if it is not kept.

        Files come shard by shard, so that one shard is in memory at a time.
        """
        by_shard: dict[str, list[FileInfo]] = {}
        for info in infos:
            if info in self._held:
                yield info, folded(self._held[info]) if fold else self._held[info]
            elif info in self._places:
                by_shard.setdefault(self._places[info].shard, []).append(info)
            else:
                yield info, None
        for shard, group in by_shard.items():
            table = self._load(shard, fold)
            for info in group:
                place = self._places.get(info)
                if table is None or place is None:
                    yield info, None
                elif fold:
                    yield info, table.slice(place.folded_start, place.folded_rows)
                else:
                    yield info, table.slice(place.start, place.rows)
            del table  # free it before the next one is loaded

    def save(self, used: Callable[[FileInfo], bool]) -> None:
        """Make the held references durable, and drop the files for which `used` returns False."""
        before = dict(self._shards)
        live = dict.fromkeys(before, 0)
        for info, place in self._places.items():
            live[place.shard] += used(info)
        small = {name for name, shard in before.items() if live[name] and shard.rows < self._large // 2}
        again = {name for name, shard in before.items() if 2 * live[name] < shard.count}
        again |= small if len(small) >= _MOST_SMALL else set()
        moved = [info for info, place in self._places.items() if place.shard in again and used(info)]
        for info, table in self.of(moved):
            if table is not None:
                self.add(info, table)
        self._flush()
        for name in again & self._shards.keys():
            self._drop(name)
        if self._shards != self._published:
            self._publish()

    def _publish(self) -> None:
        generation = generation_of(self._name) + 1 if self._name else 0
        name = _SHARDS.publish(self._storage, self._folder, _Shards(tuple(self._shards.values())), generation)
        shards = [*self._shards.values(), *self._published.values()]
        # Keep the previous side file and its tables: other processes may still read them.
        forget(
            self._storage, self._folder, {name, self._name, *(table.name for shard in shards for table in shard.tables)}
        )
        self._name, self._published = name, dict(self._shards)

    def _index(self, shard: _Shard, files: pa.Table | None) -> None:
        if files is None:
            return
        starts, folded_starts = (_starts(files[name]) for name in ("references", "folded"))
        self._shards[shard.name], self._totals[shard.name] = shard, (starts[-1], folded_starts[-1])
        for row, start, folded_start in zip(files.to_pylist(), starts, folded_starts, strict=False):
            info = FileInfo(row["uri"], row["size"], row["mtime_ns"])
            self._places[info] = _Place(shard.name, start, row["references"], folded_start, row["folded"])

    def _load(self, name: str, fold: bool) -> pa.Table | None:
        """Return the references of a shard, or None if they are unreadable or do not match its files."""
        shard = self._shards.get(name)
        if shard is None:
            return None
        file = shard.folded if fold else shard.references
        rows = self._totals[name][fold]
        if self._loaded is not None and self._loaded[0] == file.name:
            table: pa.Table | None = self._loaded[1]
        else:
            self._loaded = None  # free it first, so that memory holds one table at a time
            table = self._table(file, FOLDED if fold else REFERENCES)
        if table is None or table.num_rows != rows:
            self._drop(name)
            return None
        self._loaded = file.name, table
        return table

    def _drop(self, name: str) -> None:
        del self._shards[name]
        self._places = {info: place for info, place in self._places.items() if place.shard != name}

    def _table(self, file: SideTable, schema: pa.Schema) -> pa.Table | None:
        try:
            return load_table(self._storage, self._folder, file, schema, ("offset", "length", "managed"))
        except (OSError, HudiVectorError):
            return None  # this is only a cache of what the data files hold

    def _flush(self) -> None:
        """Write the held references as a new shard, which no side file names yet."""
        if not self._held:
            return
        folds = [folded(table) for table in self._held.values()]
        counts = [(table.num_rows, fold.num_rows) for table, fold in zip(self._held.values(), folds, strict=True)]
        rows = [(info.uri, info.size, info.mtime_ns, *sizes) for info, sizes in zip(self._held, counts, strict=True)]
        files = pa.table([list(column) for column in zip(*rows, strict=True)], schema=_FILES)
        references = pa.concat_tables(self._held.values())
        tables = {"files": files, "references": references, "folded": pa.concat_tables(folds)}
        written = self._storage.each(
            lambda kind: publish_table(self._storage, self._folder, kind, tables[kind]), tables
        )
        shard = _Shard(written[0], written[1], written[2], len(rows), self._held_rows)
        self._held, self._held_rows = {}, 0
        self._index(shard, files)


def _stated(found: Entry[_Shards]) -> tuple[_Shard, ...]:
    """Return the shards that a side file names; none if its content is invalid."""
    try:
        return found.value().shards
    except DataFileError:
        return ()


def _starts(counts: pa.ChunkedArray) -> list[int]:
    """Return where each file's rows begin, followed by where the last one's end."""
    starts: list[int] = np.concatenate([[0], np.cumsum(counts.to_numpy())]).tolist()
    return starts
