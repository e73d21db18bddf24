"""The index of a table's containers: which data files refer to each, and how many of its bytes are live.

The index is the reference sets of all retained files (`hudi_vector.table_services.references.kept`) folded by
container. It is stored as a side file and a side table in ``{table}/.hoodie/blob_refs/v1/index/``. It carries a
fingerprint of the data files and containers from which it was made, and is valid only for these. If the table has
changed, it is folded again from the kept reference sets and the new data files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, replace_table
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo, StorageOptions, join
from hudi_vector.storage.listed import list_below
from hudi_vector.storage.records import Record
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.references.files import FileReferences
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.kept import KEPT_REFERENCES, KeptReferences, is_settled
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.references import add_references, distinct
from hudi_vector.table_services.references.referrers import Referrers
from hudi_vector.table_services.retention.retained import list_retained

__all__ = [
    "CONTAINERS",
    "RANGES",
    "ContainerIndex",
    "Fold",
    "container_index",
    "covered",
    "live_bytes",
    "verify_containers",
]

CONTAINERS = pa.schema(
    [
        ("uri", pa.string()),
        ("bytes", pa.int64()),
        ("live_bytes", pa.int64()),
        ("references", pa.int64()),
        ("files", pa.int64()),
        ("newest", pa.string()),
        ("instant", pa.string()),
    ]
)
"""A container: its URI and size, its live bytes, the number of distinct references to it, the number of data files that
hold these, and the newest of these data files with its instant."""

RANGES = pa.schema([(name, pa.int64()) for name in ("container", "offset", "length")])

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Kept:
    """The body of the side file."""

    fingerprint: str
    containers: SideTable


_KEPT = Record("blob-index", 1, _Kept)


@dataclass(frozen=True)
class ContainerIndex:
    """The containers of a table.

    Attributes:
        fingerprint: The fingerprint of the data files and containers from which the index was made.
        containers: A table of `CONTAINERS`, ordered by URI, with every file in the blob area, unreferenced ones
            included.
        doubts: The reasons why containers may have more references than are counted, like a data file that cannot be
            read.
    """

    fingerprint: str
    containers: pa.Table = field(compare=False, repr=False)
    doubts: tuple[str, ...] = ()


def container_index(table: str, kept: KeptReferences, options: StorageOptions) -> ContainerIndex:
    """Return the index of a table's containers: the kept one if it is still valid, else a new one.

    A new index is kept if it has no doubts and all data files are settled. `table` is a normalised base path.
    References from other tables are not counted.

    Example:
        >>> index = container_index("file:///tables/photos", KeptReferences("/tables/photos"), StorageOptions())
    """
    native = NativeTable(Source(table, table, options))
    stored = _load(native)
    if stored is not None:
        data = list_retained(table, native.storage)
        infos = [file.info for file in data.files]
        area, odd = _listed(native)
        if not (data.doubts or odd) and stored.fingerprint == _fingerprint(area, infos):
            kept.use(infos)
            return stored
    return _folded(native, kept)


def verify_containers(table: str, kept: KeptReferences, options: StorageOptions) -> list[str]:
    """Fold the index again, keep it, and return the URIs of containers for which the old index was wrong.

    Return an empty list if there was no readable index or it was made from other files. `table` is a normalised base
    path.
    """
    native = NativeTable(Source(table, table, options))
    stored, made = _load(native), _folded(native, kept)
    if stored is None or stored.fingerprint != made.fingerprint:
        return []
    before, now = ({row["uri"]: row for row in index.containers.to_pylist()} for index in (stored, made))
    return sorted(uri for uri in before.keys() | now.keys() if before.get(uri) != now.get(uri))


class Fold:
    """An accumulator of references by container, fed file by file.

    Memory holds each distinct range of the blob area once. `area` lists the files of the blob area.
    """

    def __init__(self, area: list[FileInfo]) -> None:
        places = Places()
        names = {places.identity(info.uri): info for info in area}
        self._numbers = {name: number for number, name in enumerate(names)}
        self._area = list(names.values())
        self._referrers = Referrers({name: info.uri for name, info in names.items()}, places)
        self._parts: list[pa.Table] = []
        self._tables: dict[int, set[str]] = {}
        self.files: list[FileInfo] = []

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return sentences about the references whose file is uncertain."""
        return self._referrers.doubts

    def add(self, found: FileReferences) -> None:
        """Add one file's references; they must be `REFERENCES`, not folded by path."""
        self._referrers.add(found)
        self.files.append(found.file.info)
        paths = found.references["path"].combine_chunks().dictionary_encode()
        named = [self._referrers.named(path, found.file) for path in paths.dictionary.to_pylist()]
        # A path with both `..` and links may mean two files.
        for meaning in range(max(map(len, named), default=0)):
            numbers = [self._numbers.get(uris[meaning], -1) if meaning < len(uris) else -1 for uris in named]
            container = np.array(numbers, np.int64)[paths.indices.to_numpy()]
            ranges = [container, found.references["offset"], found.references["length"]]
            add_references(self._parts, pa.table(ranges, schema=RANGES).filter(pa.array(container >= 0)))
            for number in np.unique(container[container >= 0]).tolist():
                self._tables.setdefault(number, set()).add(found.file.table)

    def tables(self) -> dict[str, list[str]]:
        """Return the base paths of the tables whose data files refer to a container, ordered, by its URI."""
        return {self._area[number].uri: sorted(tables) for number, tables in self._tables.items()}

    def containers(self) -> pa.Table:
        """Return the containers as a table of `CONTAINERS`."""
        ranges = distinct(self._parts, RANGES)
        sizes = np.array([info.size for info in self._area], np.int64)
        live = live_bytes(ranges, sizes)
        counts = np.bincount(ranges["container"].to_numpy(), minlength=len(sizes))
        rows = []
        for info, covers, count in zip(self._area, live.tolist(), counts.tolist(), strict=True):
            by = self._referrers.of(info.uri)
            newest = (by.files, by.newest.info.uri, by.newest.instant) if by else (0, None, None)
            rows.append((info.uri, info.size, covers, count, *newest))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in CONTAINERS]
        return pa.table(columns, schema=CONTAINERS)


def live_bytes(ranges: pa.Table, sizes: Ints) -> Ints:
    """Return how many bytes of each container the ranges cover, shape (number of containers,).

    A range without an offset or a length covers the whole container. `ranges` is a table of `RANGES` whose `container`
    is a position in `sizes`, the containers' sizes in bytes.
    """
    container = ranges["container"].to_numpy()
    offset, length = (ranges[name].fill_null(-1).to_numpy() for name in ("offset", "length"))
    is_whole = (offset < 0) | (length < 0)
    begin = np.minimum(np.where(is_whole, 0, offset), sizes[container])
    end = begin + np.minimum(np.where(is_whole, sizes[container], length), sizes[container] - begin)
    return covered(container, begin, end, sizes)


def covered(container: Ints, begin: Ints, end: Ints, sizes: Ints) -> Ints:
    """Return how many bytes of each container the ranges cover, each byte counted once.

    `container`, `begin` and `end` have one entry for each of n ranges. `container` is a position in `sizes`, the
    containers' sizes in bytes; `begin` (inclusive) and `end` (exclusive) are offsets within the container.

    Example:
        >>> covered(np.array([0, 0, 1]), np.array([0, 2, 5]), np.array([4, 6, 9]), np.array([10, 10])).tolist()
        [6, 4]
    """
    # The containers are laid end to end on one axis, so that one running maximum serves all of them.
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])[container] if len(container) else container
    order = np.argsort(first + begin, kind="stable")
    container, begin, end = container[order], (first + begin)[order], (first + end)[order]
    reached = np.concatenate([[0], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    new = np.maximum(end - np.maximum(begin, reached), 0)
    total = np.zeros(len(sizes), np.int64)
    np.add.at(total, container, new)
    return total


def _folded(native: NativeTable, kept: KeptReferences) -> ContainerIndex:
    area, odd = _listed(native)
    fold = Fold(area)
    gathered = gather(native, kept.whole, fold)
    doubts = tuple(dict.fromkeys([*odd, *gathered.doubts, *fold.doubts]))
    index = ContainerIndex(_fingerprint(area, fold.files), fold.containers(), doubts)
    if not doubts and all(is_settled(info) for info in fold.files):
        _publish(native, index)
    return index


def _listed(native: NativeTable) -> tuple[list[FileInfo], list[str]]:
    files, doubts = list_below(native.storage, BlobArea(native.source.uri).uri)
    return sorted(files, key=lambda info: info.uri), doubts


def _fingerprint(area: Iterable[FileInfo], data: Iterable[FileInfo]) -> str:
    names = [f"{info.uri} {info.size}" for info in area]
    names += sorted(f"{info.uri} {info.size} {info.mtime_ns}" for info in data)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _load(native: NativeTable) -> ContainerIndex | None:
    folder = _folder(native)
    found = _KEPT.newest(native.storage, folder)
    if found is None:
        return None
    try:
        kept = found.value()
        file = kept.containers
        containers = load_table(native.storage, folder, file, CONTAINERS, ("newest", "instant"))
    except HudiVectorError:
        return None
    return ContainerIndex(kept.fingerprint, containers)


def _publish(native: NativeTable, index: ContainerIndex) -> None:
    storage, folder = native.storage, _folder(native)
    before, made_of = _KEPT.newest(storage, folder), partial(_Kept, index.fingerprint)
    replace_table(storage, folder, _KEPT, before, "containers", index.containers, made_of)


def _folder(native: NativeTable) -> str:
    return join(native.source.uri, KEPT_REFERENCES, "index")
