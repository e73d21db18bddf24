"""Fragments of Lance datasets: their live rows, by their offsets in the fragment."""

from __future__ import annotations

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

__all__ = ["FragmentRows", "StoredRows", "lance_path", "open_dataset", "require_lance_storage"]

_BATCH_ROWS = 8192
_OFFSET_BITS = np.uint64(0xFFFFFFFF)
_ADDRESS = "_rowaddr"
_INDEX_CACHE_BYTES = 1 << 30
_METADATA_CACHE_BYTES = 128 << 20
_SCHEMES = frozenset({"file", "s3", "gs", "az", "abfss", "oss"})


class StoredRows(Protocol):
    """Rows as Lance keeps them: `names` are the columns there are, `live` of the `rows` are not deleted."""

    names: Sequence[str]
    rows: int
    live: int

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Columns of the live rows, and their positions."""
        ...

    def take(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        """Columns of the rows at these positions, which are ascending and each there once."""
        ...


class FragmentRows:
    """The rows of one fragment at one version of its dataset.

    Args:
        info: The fragment.
        options: How storage is opened.

    Raises:
        DataFileError: The dataset no longer has that version.
    """

    def __init__(self, info: FragmentInfo, options: StorageOptions) -> None:
        self._uri = info.uri
        dataset = open_dataset(info.dataset, info.version, options)
        found = dataset.get_fragment(info.fragment)
        if found is None:
            raise DataFileError(f"version {info.version} of '{info.dataset}' has no fragment {info.fragment}")
        self._fragment: Any = found
        self.names: Sequence[str] = dataset.schema.names
        self.rows = int(found.physical_rows)
        self.live = self.rows - int(found.num_deletions)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Columns of the rows that are not deleted, and their offsets in the fragment."""
        with reading(self._uri):
            for batch in self._fragment.to_batches(columns=list(names), batch_size=_BATCH_ROWS, with_row_address=True):
                yield _offsets(batch), batch

    def take(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        """Columns of the rows at these offsets, which are ascending and each there once.

        Raises:
            DataFileError: One of them was deleted.
        """
        if self.live == self.rows:
            return self._fragment.take(positions.tolist(), columns=list(names))
        # pylance counts the rows that are left.
        counted = np.searchsorted(self._left, positions)
        gone = positions[(counted == len(self._left)) | (self._left[counted % len(self._left)] != positions)]
        if len(gone):
            raise DataFileError(f"row {gone[0]} of '{self._uri}' was deleted")
        return self._fragment.take(counted.tolist(), columns=list(names))

    @cached_property
    def _left(self) -> Ints:
        """The offsets of the rows that are not deleted."""
        batches = self._fragment.to_batches(columns=[], with_row_address=True)
        return np.concatenate([np.empty(0, np.int64), *(_offsets(batch) for batch in batches)])


def open_dataset(uri: str, version: int | str | None, options: StorageOptions) -> Any:
    """A Lance dataset at one version, opened once for each process.

    Args:
        uri: The dataset, as `hudi_vector.storage.normalise` spells it.
        version: Its number; a tag or None for the newest are looked up each time.
        options: How storage is opened.

    Returns:
        A ``lance.LanceDataset``.

    Raises:
        DataFileError: It is not there.
        UnsupportedTableError: Lance does not open such storage.
    """
    require_lance_storage(uri)
    if isinstance(version, int):
        return _opened(uri, version, options)
    return _open(uri, version, options)


def require_lance_storage(uri: str) -> None:
    """Refuse storage that Lance does not open.

    Args:
        uri: A normalised URI.

    Raises:
        UnsupportedTableError: It does not.
    """
    if scheme_of(uri) not in _SCHEMES:
        raise UnsupportedTableError(
            f"Lance does not open '{scheme_of(uri)}://', and '{uri}' was named; it opens {', '.join(sorted(_SCHEMES))}"
        )


def lance_path(uri: str) -> str:
    """A place as pylance wants it.

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
    except (OSError, ValueError) as problem:
        at = "" if version is None else f" at version {version}"
        raise DataFileError(f"there is no Lance dataset '{uri}'{at}: {first_line(problem)}") from problem


@lru_cache(maxsize=1)
def _session() -> Any:
    """The caches of all datasets of this process: pylance's own default is several GiB for each."""
    import lance

    return lance.Session(index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES)


def _offsets(batch: pa.RecordBatch) -> Ints:
    addresses = batch.column(batch.schema.get_field_index(_ADDRESS)).to_numpy(zero_copy_only=False)
    offsets: Ints = (addresses & _OFFSET_BITS).astype(np.int64)
    return offsets
