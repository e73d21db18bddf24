"""The reader of the rows that log files touch, for file slices whose base file is covered by an index.

Log files change rows by record key. A row of the base file whose key is in no log file is unchanged, so the index can
answer for it. The other rows are written to a separate base file in a temporary folder, and merged with the same log
files by hudi-rs. So late rows, late deletes and partial updates have the same result as a merge of the whole slice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError, number_of
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.base_rows import base_rows
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.logs.keys import log_keys
from hudi_vector.read.logs.merged import MergedSlice, SlicePlace
from hudi_vector.read.logs.record_keys import keys_of_file
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.spec import ScanSpec
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.table.config import PROPERTIES, TableConfig, read_properties
from hudi_vector.table.deleted_rows import DeletedRows
from hudi_vector.table.model import FileSlice

__all__ = ["Touched", "TouchedSlice", "touched_rows"]

_LOG = logging.getLogger("hudi_vector.search")
_MOST_SHARE = 0.75
"""If log files touch a larger share of the base file than this, the whole slice is merged."""


@dataclass(frozen=True)
class Touched:
    """The rows of a base file that log files touch.

    Attributes:
        positions: The rows, ascending.
        rows: The number of rows of the base file.
        why_all: The reason why all rows count as touched; empty if only `positions` do.
    """

    positions: Ints
    rows: int
    why_all: str = ""

    @property
    def left_to_merge(self) -> DeletedRows:
        """Return the touched rows in the form of deleted rows: the base file alone does not answer for them."""
        mask = np.zeros(self.rows, np.bool_)
        mask[slice(None) if self.why_all else self.positions] = True
        return DeletedRows.of_mask(mask)


def touched_rows(
    file_slice: FileSlice,
    options: StorageOptions,
    keep: bool,
    hashes: Callable[[], KeyHashes | None] | None = None,
) -> Touched:
    """Find the rows of a base file whose record keys are in the log files of its slice, through the cache if `keep`.

    The slice must have a base file and log files. `hashes` returns the hashes of the base file's keys, or None if there
    are none; without hashes, all keys of the base file are read, and with them a few other rows may be found as well.
    All rows count as touched if the keys of a log file cannot be read, if a row of the base file has no key, or if the
    share of touched rows is above `_MOST_SHARE`. Raises DataFileError if a file is missing or the base file is damaged.
    """
    key = (file_slice.files, "touched rows")
    found: Touched | None = process_cache().get(key) if keep else None
    if found is None:
        found = _touched(file_slice, options, hashes)
        if keep:
            process_cache().put(key, found, found.positions.nbytes + 256)
    return found


def _touched(file_slice: FileSlice, options: StorageOptions, hashes: Callable[[], KeyHashes | None] | None) -> Touched:
    base = file_slice.base_file
    assert base is not None
    with contextlib.closing(DataFile(base, options, mapped=True)) as data:
        rows, nothing = int(data.metadata.num_rows), np.empty(0, np.int64)
    try:
        keys = pa.chunked_array([_keys_of(log, options) for log in file_slice.log_files], pa.string()).unique()
    except DataFileError as problem:
        _require_there(file_slice, options)
        _LOG.info("file group '%s' is merged whole: %s", file_slice.file_id, problem)
        return Touched(nothing, rows, str(problem))
    found = _rows_with(keys, base, options, hashes() if hashes is not None else None)
    if found is None:
        return Touched(nothing, rows, "rows of the base file have no record key")
    if len(found) > _MOST_SHARE * rows:
        return Touched(nothing, rows, f"log files touch {len(found)} of {number_of(rows, 'row')}")
    return Touched(found, rows)


def _rows_with(keys: pa.Array, base: FileInfo, options: StorageOptions, hashes: KeyHashes | None) -> Ints | None:
    """Return the rows of a base file, ascending, that have one of the keys; None if a row of the file has no key."""
    if hashes is not None:
        # Another key may have the same hash. Its row is harmless here: the merge compares keys and does not change it.
        return hashes.rows_like(keys)
    own = keys_of_file(base, options)
    return None if own.null_count else np.flatnonzero(np.asarray(pc.is_in(own, value_set=keys)))


def _keys_of(log: FileInfo, options: StorageOptions) -> pa.Array:
    with reading(log.uri), open_storage(log.uri, options).open(log.uri, mapped=False) as source:
        return log_keys(source)


def _require_there(file_slice: FileSlice, options: StorageOptions) -> None:
    """Raise DataFileError if a log file is missing, as opposed to unreadable."""
    for log in file_slice.log_files:
        if open_storage(log.uri, options).info(log.uri) is None:
            raise DataFileError(f"the data file '{log.uri}' cannot be opened: it is gone")


class TouchedSlice(MergedSlice):
    """A reader of the merged rows of a file slice except those that its base file alone answers for.

    The slice must have a base file and log files. `touched` returns the rows that the log files touch; it is called on
    first use. With `keep`, the merged vectors are cached in the process.
    """

    kind = "touched"

    def __init__(self, file_slice: FileSlice, spec: ScanSpec, keep: bool, touched: Callable[[], Touched]) -> None:
        super().__init__(file_slice, spec, keep)
        self._tell = touched

    @cached_property
    def _touched(self) -> Touched:
        return self._tell()

    @property
    def size(self) -> int:
        """Return the bytes of the log files; the base file is left out, because only some of its rows are read."""
        return sum(log.size for log in self._slice.log_files)

    @contextlib.contextmanager
    def _opened(self, names: Sequence[str]) -> Iterator[SlicePlace]:
        if self._touched.why_all:
            with super()._opened(names) as place:
                yield place
            return
        folder = tempfile.mkdtemp(prefix="hudi-vector-")
        try:
            whole = self._place()
            self._fill(folder, whole, names)
            yield SlicePlace(f"file://{folder}", {}, whole.base, whole.logs)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _fill(self, folder: str, whole: SlicePlace, names: Sequence[str]) -> None:
        """Write a table with one slice to a folder: the table properties, the log files and the touched base rows."""
        storage = open_storage(self._spec.table_uri, self._spec.options)
        settings = read_properties(storage.read, self._spec.table_uri) or b""
        os.mkdir(f"{folder}/.hoodie")
        with open(f"{folder}/{PROPERTIES}", "wb") as file:
            file.write(settings)
        for path in (*whole.logs, whole.base):
            os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
        for log, path in zip(self._slice.log_files, whole.logs, strict=True):
            if storage.scheme == "file":
                os.symlink(storage.path(log.uri), f"{folder}/{path}")
            else:
                with storage.open(log.uri, size=log.size) as source, open(f"{folder}/{path}", "wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
        config = TableConfig.parse(settings.decode("utf-8", "replace"))
        self._write_base(f"{folder}/{whole.base}", {*names, *config.ordering_fields, *config.record_key_fields})

    def _write_base(self, path: str, names: set[str]) -> None:
        base = self._slice.base_file
        assert base is not None
        with reading(base.uri), contextlib.closing(DataFile(base, self._spec.options, mapped=True)) as data:
            schema = data.parquet().schema_arrow
        held = [field for field in schema if field.name in names or field.name.startswith("_hoodie_")]
        part = pa.schema(held, schema.metadata)
        # Keep the names of nested columns as Hudi wrote them.
        with pq.ParquetWriter(path, part, use_compliant_nested_type=False, compression="none") as writer:
            for rows in base_rows(base, self._spec.options, self._touched.positions, part):
                writer.write_table(rows)
