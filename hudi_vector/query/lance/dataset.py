"""A Lance dataset as a snapshot to search, with one slice for each fragment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hudi_vector.errors import DataFileError, InvalidArgumentError, InvalidTypeError, TableNotFoundError
from hudi_vector.query.files.plain_files import NO_KEYS, searched_field
from hudi_vector.read.lance_fragment import open_dataset
from hudi_vector.schema import VectorType
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import FileSlice, FragmentInfo, LanceIndex, Snapshot, Source

__all__ = ["LanceDataset"]

_ELEMENTS = {pa.float32(): "float", pa.float64(): "double", pa.int8(): "int8"}


class LanceDataset:
    """A Lance dataset at its newest version or at a given one.

    Args:
        uri: The dataset's path or URI.
        options: The storage settings.
        version: A version's number or tag; None for the newest at the time of each snapshot.

    Raises:
        InvalidTypeError: The version is neither a number nor text.

    Example:
        >>> import lance
        >>> import pyarrow as pa
        >>> images = lance.write_dataset(pa.table({"id": [1, 2]}), "/tmp/images.lance")
        >>> LanceDataset("/tmp/images.lance", StorageOptions()).snapshot().file_slices  # doctest: +ELLIPSIS
        (...)
    """

    def __init__(self, uri: str, options: StorageOptions, version: int | str | None = None) -> None:
        if version is not None and (isinstance(version, bool) or not isinstance(version, (int, str))):
            raise InvalidTypeError(f"version must be a number or the name of a tag, not {version!r}")
        self._version = version
        self.source = Source(normalise(uri), uri, options)

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """Return the dataset as it is now, or at the given version.

        The slices are the fragments, ascending by number, so that rows of equal distance are ordered by fragment and
        offset. Raises InvalidArgumentError if `as_of` is given, because a dataset has no Hudi timeline, and
        TableNotFoundError if there is no such dataset or version.
        """
        if as_of is not None:
            raise InvalidArgumentError("a Lance dataset has versions in place of instants; leave as_of out")
        try:
            dataset = open_dataset(self.source.uri, self._version, self.source.options)
        except DataFileError as problem:
            raise TableNotFoundError(str(problem)) from problem
        fragments = [self._fragment(part, int(dataset.version)) for part in dataset.get_fragments()]
        fragments.sort(key=lambda info: info.fragment)
        identity = hashlib.sha256("\n".join(f"{info.fragment} {info.content}" for info in fragments).encode())
        return Snapshot(
            source=self.source,
            config=NO_KEYS,
            identity=identity.hexdigest(),
            instant=None,
            watermark=None,
            schema=pa.schema([_field(field) for field in dataset.schema]),
            file_slices=tuple(FileSlice("", str(info.fragment), "", info) for info in fragments),
            as_of=f"version {dataset.version}",
            lance_indexes=tuple(_indexes(dataset)),
        )

    def _fragment(self, part: Any, version: int) -> FragmentInfo:
        described = part.metadata.to_json()
        files = described["files"]
        own = [join(self.source.uri, "data", file["path"]) for file in files]
        return FragmentInfo(
            uri=own[0],
            size=sum(file["file_size_bytes"] or self._size(uri) for file, uri in zip(files, own, strict=True)),
            mtime_ns=0,
            dataset=self.source.uri,
            fragment=int(part.fragment_id),
            rows=int(part.count_rows()),
            content=hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest(),
            version=version,
        )

    def _size(self, uri: str) -> int:
        """Return the bytes of a data file whose size is not in the dataset's metadata; 0 if the file is missing."""
        found = open_storage(uri, self.source.options).info(uri)
        return found.size if found else 0


def _indexes(dataset: Any) -> Iterator[LanceIndex]:
    """Yield the vector indexes over a single column; only vector indexes have a metric."""
    for index in dataset.describe_indices():
        metric = (index.details or {}).get("metric_type") if isinstance(index.details, dict) else None
        if metric is not None and len(index.field_names) == 1:
            covered = frozenset(int(number) for part in index.segments for number in part.fragment_ids)
            yield LanceIndex(
                name=index.name,
                column=index.field_names[0],
                kind=str(index.index_type),
                metric=str(metric).lower(),
                fragments=covered,
                segments=tuple(str(part.uuid) for part in index.segments),
            )


def _field(field: pa.Field) -> pa.Field:
    """Return a column of the dataset; fixed-size lists of float, double or int8 are vectors."""
    element = _ELEMENTS.get(field.type.value_type) if pa.types.is_fixed_size_list(field.type) else None
    return searched_field(field, VectorType(field.type.list_size, element) if element else None)
