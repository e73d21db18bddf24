"""Fragments of Lance datasets: their live rows, addressed by offset in the fragment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DataFileError, UnsupportedTableError, first_line
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.storage import StorageOptions, lance_options, scheme_of
from hudi_vector.table.model import FragmentInfo

__all__ = ["FragmentRows", "StoredRows", "dataset_of", "lance_path", "open_dataset"]

_BATCH_ROWS = 8192
_OFFSET_BITS = np.uint64(0xFFFFFFFF)
_ADDRESS = "_rowaddr"
_INDEX_CACHE_BYTES = 1 << 30
_METADATA_CACHE_BYTES = 128 << 20
_RUST_FILE = re.compile(r",? \S+\.rs:\d+:\d+")  # Lance's errors end with the places in its source
_SCHEMES = frozenset({"file", "s3", "gs", "az", "abfss", "oss"})


class StoredRows(Protocol):
    """Rows stored by Lance: `names` are the stored columns, `rows` counts all rows, `live` those not deleted."""

    names: Sequence[str]
    rows: int
    live: int

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Yield the positions of the live rows together with their columns."""
        ...

    def take(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at distinct ascending positions."""
        ...


class FragmentRows:
    """The rows of one fragment at one version of its dataset.

    The constructor raises DataFileError if the dataset does not have that version or the version not the fragment.
    """

    def __init__(self, info: FragmentInfo, options: StorageOptions) -> None:
        self._uri = info.uri
        dataset = dataset_of(info, options)
        found = dataset.get_fragment(info.fragment)
        if found is None:
            raise DataFileError(f"version {info.version} of '{info.dataset}' has no fragment {info.fragment}")
        self._fragment: Any = found
        self.names: Sequence[str] = dataset.schema.names
        self.rows = int(found.physical_rows)
        self.live = self.rows - int(found.num_deletions)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Yield the offsets in the fragment of the rows that are not deleted, together with their columns."""
        with reading(self._uri):
            for batch in self._fragment.to_batches(columns=list(names), batch_size=_BATCH_ROWS, with_row_address=True):
                yield _offsets(batch), batch

    def take(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at distinct ascending offsets; raise DataFileError if one of them was deleted."""
        if self.live == self.rows:
            return self._fragment.take(positions.tolist(), columns=list(names))
        # pylance's `take` counts only the rows that are not deleted.
        counted = np.searchsorted(self._left, positions)
        gone = positions[(counted == len(self._left)) | (self._left[counted % len(self._left)] != positions)]
        if len(gone):
            raise DataFileError(f"row {gone[0]} of '{self._uri}' was deleted")
        return self._fragment.take(counted.tolist(), columns=list(names))

    @cached_property
    def _left(self) -> Ints:
        """Return the offsets of the rows that are not deleted, ascending."""
        batches = self._fragment.to_batches(columns=[], with_row_address=True)
        return np.concatenate([np.empty(0, np.int64), *(_offsets(batch) for batch in batches)])


def open_dataset(uri: str, version: int | str | None, options: StorageOptions) -> Any:
    """Open a Lance dataset, a ``lance.LanceDataset``, at a version: a number, a tag, or None for the newest.

    `uri` has the form of `hudi_vector.storage.normalise`. A version number is cached in the process; a tag and the
    newest version are looked up each time. Raises DataFileError if the dataset or version does not exist, and
    UnsupportedTableError if Lance cannot open this kind of storage.
    """
    _require_lance_storage(uri)
    if isinstance(version, int):
        return _opened(uri, version, options)
    return _open(uri, version, options)


def dataset_of(info: FragmentInfo, options: StorageOptions) -> Any:
    """Open the dataset of a fragment at its version; raise DataFileError if there is none.

    A dataset that was removed and written again begins with version 1 again, which this process may know from before.
    """
    dataset = open_dataset(info.dataset, info.version, options)
    fragment = dataset.get_fragment(info.fragment)
    if fragment is None or not info.uri.endswith(f"/{fragment.data_files()[0].path}"):
        _opened.cache_clear()
        _session.cache_clear()
        dataset = open_dataset(info.dataset, info.version, options)
    return dataset


def _require_lance_storage(uri: str) -> None:
    """Raise UnsupportedTableError if Lance cannot open the storage of a normalised URI."""
    if scheme_of(uri) not in _SCHEMES:
        raise UnsupportedTableError(
            f"Lance does not open '{scheme_of(uri)}://', and '{uri}' was named; it opens {', '.join(sorted(_SCHEMES))}"
        )


def lance_path(uri: str) -> str:
    """Return a URI in pylance's form: a plain path for local files.

    Example:
        >>> lance_path("file:///data/a.lance"), lance_path("s3://bucket/a.lance")
        ('/data/a.lance', 's3://bucket/a.lance')
    """
    return uri[len("file://") :] if scheme_of(uri) == "file" else uri


@lru_cache(maxsize=32)
def _opened(uri: str, version: int, options: StorageOptions) -> Any:
    return _open(uri, version, options)


def _open(uri: str, version: int | str | None, options: StorageOptions) -> Any:
    import lance

    storage = lance_options(scheme_of(uri), options.at(uri))
    try:
        return lance.dataset(lance_path(uri), version=version, storage_options=storage, session=_session())
    except (OSError, ValueError, OverflowError) as problem:
        at = "" if version is None else f" at version {version}"
        said = _RUST_FILE.sub("", first_line(problem))
        raise DataFileError(f"there is no Lance dataset '{uri}'{at}: {said}") from problem


@lru_cache(maxsize=1)
def _session() -> Any:
    """Return the session that all datasets of this process share: pylance's default caches several GiB for each."""
    import lance

    return lance.Session(index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES)


def _offsets(batch: pa.RecordBatch) -> Ints:
    addresses = batch.column(batch.schema.get_field_index(_ADDRESS)).to_numpy(zero_copy_only=False)
    offsets: Ints = (addresses & _OFFSET_BITS).astype(np.int64)
    return offsets
