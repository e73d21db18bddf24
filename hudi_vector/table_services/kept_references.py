"""The references of immutable files, kept once they were read: the next mark opens only files that are new.

They lie in ``{table}/.hoodie/blob_refs/v1/``: a side file (`hudi_vector.blobs.side_files`) names *shards*, each a pair
of side tables: the files, by URI, size and modification time, with how many references each has; and these references,
in the same order. A file under another identity is another file. Whatever of this is damaged or gone is read anew from
the data files, so that it changes no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.side_files import generation_of, newest, publish
from hudi_vector.blobs.side_tables import SideTable, load_table, publish_table
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo, Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.table_services.file_references import FileReferences, Reader, read_here
from hudi_vector.table_services.references import REFERENCES
from hudi_vector.table_services.retained import RetainedFile

__all__ = ["KEPT_REFERENCES", "KeptReferences"]

KEPT_REFERENCES = ".hoodie/blob_refs/v1"

_KIND, _VERSION = "blob-references", 1
_FILES = pa.schema([("uri", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64()), ("references", pa.int64())])
_MOST_SHARDS = 16
# A file that changes within the tick of its storage's clock keeps its identity.
_SETTLED_NS = 60_000_000_000
_LOCAL = StorageOptions()


@dataclass(frozen=True)
class _Shard:
    files: SideTable
    references: SideTable
    count: int


@dataclass(frozen=True)
class _Place:
    shard: int
    start: int
    rows: int


class KeptReferences:
    """Reads retained files, those that an earlier run has read from what it kept.

    Use one for each run, as the `reader` of a mark, and call `save` at its end.

    Args:
        table: The base path of the table under whose ``.hoodie`` references are kept.
        options: How storage is opened.
        reader: Reads the files that are new.

    Raises:
        UnsupportedTableError: A newer version of this package keeps references there.

    Example:
        >>> kept = KeptReferences("/tables/photos")  # doctest: +SKIP
        >>> report = find_unneeded("/tables/photos", grace_ms=86_400_000, reader=kept)  # doctest: +SKIP
        >>> kept.save()  # doctest: +SKIP
    """

    def __init__(self, table: str, options: StorageOptions = _LOCAL, reader: Reader = read_here) -> None:
        """What was kept is listed now, and loaded where it is needed."""
        self._root = normalise(table)
        self._folder = join(self._root, KEPT_REFERENCES)
        self._storage: Storage = open_storage(self._root, options)
        self._reader = reader
        self._name, self._shards = self._load()
        self._places: dict[FileInfo, _Place] = {}
        self._rows: dict[int, int] = {}
        self._loaded: dict[int, pa.Table] = {}
        self._used: dict[FileInfo, None] = {}
        self._new: dict[FileInfo, pa.Table] = {}
        for number, shard in enumerate(self._shards):
            self._index(number, shard)

    def __call__(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """The references of some files."""
        unknown = []
        for file in files:
            known = self._of(file.info)
            if known is None:
                unknown.append(file)
            else:
                self._used[file.info] = None
                yield FileReferences(file, known, was_opened=False)
        for found in self._reader(unknown, options):
            if found.doubt is None and not found.is_gone and _is_settled(found.file.info):
                self._new[found.file.info] = found.references
            yield found

    def save(self) -> int:
        """Keep what was read, and forget files that were not asked for.

        Returns:
            How many files' references were added.
        """
        live = [shard for number, shard in enumerate(self._shards) if self._live(number)]
        if not self._new and len(live) == len(self._shards):
            return 0
        if len(live) + 1 > _MOST_SHARDS or self._is_mostly_dead():
            whole = {info: known for info in self._used if (known := self._of(info)) is not None}
            shards = [self._publish(whole | self._new)]
        else:
            shards = [*live, *([self._publish(self._new)] if self._new else [])]
        generation = generation_of(self._name) + 1 if self._name else 0
        body = {"shards": [asdict(shard) for shard in shards]}
        name = publish(self._storage, self._folder, _KIND, _VERSION, generation, body)
        self._forget({name, self._name, *_names(shards), *_names(self._shards)})
        return len(self._new)

    def _load(self) -> tuple[str | None, list[_Shard]]:
        found = newest(self._storage, self._folder, _KIND, _VERSION)
        if found is None:
            return None, []
        return found[0], [
            _Shard(SideTable(**shard["files"]), SideTable(**shard["references"]), shard["count"])
            for shard in found[1]["shards"]
        ]

    def _index(self, number: int, shard: _Shard) -> None:
        files = self._table(shard.files)
        if files is None:
            return
        starts = np.concatenate([[0], np.cumsum(files["references"].to_numpy())]).tolist()
        self._rows[number] = starts[-1]
        for row, start in zip(files.to_pylist(), starts, strict=False):
            info = FileInfo(row["uri"], row["size"], row["mtime_ns"])
            self._places[info] = _Place(number, start, row["references"])

    def _of(self, info: FileInfo) -> pa.Table | None:
        """The references of a file, None where they are not kept."""
        if info in self._new:
            return self._new[info]
        place = self._places.get(info)
        if place is None:
            return None
        if place.shard not in self._loaded:
            found = self._table(self._shards[place.shard].references)
            if found is None or not found.schema.equals(REFERENCES) or found.num_rows != self._rows[place.shard]:
                self._places = {info: known for info, known in self._places.items() if known.shard != place.shard}
                return None
            self._loaded[place.shard] = found
        return self._loaded[place.shard].slice(place.start, place.rows)

    def _table(self, file: SideTable) -> pa.Table | None:
        try:
            return load_table(self._storage, self._folder, file)
        except (OSError, HudiVectorError):
            return None  # it is only a memory of what the data files say

    def _live(self, number: int) -> bool:
        return any(self._places[info].shard == number for info in self._used if info in self._places)

    def _is_mostly_dead(self) -> bool:
        return 2 * len(self._used) < sum(shard.count for shard in self._shards)

    def _publish(self, kept: dict[FileInfo, pa.Table]) -> _Shard:
        rows = [(info.uri, info.size, info.mtime_ns, found.num_rows) for info, found in kept.items()]
        files = pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * len(_FILES), schema=_FILES)
        references = pa.concat_tables([REFERENCES.empty_table(), *kept.values()])
        return _Shard(
            publish_table(self._storage, self._folder, "files", files),
            publish_table(self._storage, self._folder, "references", references),
            len(rows),
        )

    def _forget(self, kept: set[Any]) -> None:
        """Remove what neither this run nor the one before it names: others may still read that."""
        for info in self._storage.list_files(self._folder):
            if info.name not in kept and not info.name.startswith("."):
                self._storage.delete(info.uri)


def _names(shards: Sequence[_Shard]) -> Iterator[str]:
    for shard in shards:
        yield shard.files.name
        yield shard.references.name


def _is_settled(info: FileInfo) -> bool:
    return 0 < info.mtime_ns < time.time_ns() - _SETTLED_NS
