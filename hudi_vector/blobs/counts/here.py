"""The counts and the check of a table's blobs without Spark: the file slices are read by threads of this process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_vector.arguments import checked_names
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.check import WRONG, Check, pin_column
from hudi_vector.blobs.counts.pinned import KnownPins
from hudi_vector.blobs.counts.tally import SUMMARY, TALLY, count_rows, summarise, tally_of_files
from hudi_vector.blobs.files import BlobFiles, default_threads, in_threads
from hudi_vector.blobs.reading.by_key import blob_paths
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.source import blob_path, source_here
from hudi_vector.blobs.registry import lenders
from hudi_vector.blobs.scans.placements import Placements, why_not_here
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.options import Settings
from hudi_vector.storage import open_storage, scheme_of
from hudi_vector.storage.listed import with_names
from hudi_vector.table.model import FileSlice, Snapshot
from hudi_vector.table.native import NativeTable

__all__ = ["inventory_here", "verify_here"]

_GROUP_BYTES = 512 << 20


def inventory_here(settings: Settings, table: str | os.PathLike[str]) -> pa.Table:
    """Return the inventory of the table at a path, in the columns of `SUMMARY`, sorted by the first three.

    Raises TableNotFoundError, UnsupportedTableError, DataFileError or InvalidBlobError, as ``hv.blobs.inventory`` says.
    """
    snapshot = _snapshot(settings, table)
    options, area = snapshot.source.options, BlobArea.of(snapshot.source.uri)
    listed = with_names(open_storage(area.uri, options).list_files(area.uri, recursive=True))[0]
    columns = blob_paths(snapshot.schema)
    count = _Count(Placements(snapshot, tuple(columns)), tuple(".".join(path) for path in columns), area)
    parts = in_threads(count.of_slice, snapshot.file_slices, _threads(snapshot))
    tally = pa.concat_tables([*parts, tally_of_files(listed)])
    made = summarise(tally, area, BlobFiles(options, area.table))
    return made.sort_by([(name, "ascending") for name in SUMMARY.names[:3]])


def verify_here(
    settings: Settings, table: str | os.PathLike[str], columns: str | Iterable[str] | None, deep: bool
) -> pa.Table:
    """Return the wrong references of the table at a path in the columns of `WRONG`, by column, partition and key.

    Raises TableNotFoundError, UnsupportedTableError, UnknownColumnError, InvalidTypeError or DataFileError, as
    ``hv.blobs.verify`` says.
    """
    snapshot = _snapshot(settings, table)
    options, uri = snapshot.source.options, snapshot.source.uri
    named = checked_names([columns] if isinstance(columns, str) else columns)
    paths = blob_paths(snapshot.schema) if named is None else [blob_path(snapshot, name) for name in named]
    chosen = dict.fromkeys(paths)
    area = replace(BlobArea.of(uri), lenders=lenders(uri, options))
    fetcher = BlobFetcher(options, uri, on_error="null")
    check = Check(tuple(".".join(path) for path in chosen), area, fetcher, deep)
    rows = _Rows(Placements(snapshot, tuple(chosen)), KnownPins.of(uri, options), _threads(snapshot))
    parts = [pa.Table.from_batches([batch]) for batch in check.wrong(rows.in_groups())]
    found = pa.concat_tables([WRONG.empty_table(), *parts])
    return found.sort_by([(name, "ascending") for name in ("column", "partition", "key")])


def _snapshot(settings: Settings, table: str | os.PathLike[str]) -> Snapshot:
    snapshot = NativeTable(source_here(settings, table)).snapshot()
    reason = why_not_here(snapshot)
    if reason is not None:
        raise UnsupportedTableError(
            f"only Spark reads the blobs' places in '{snapshot.source.name}', since {reason}; give a session"
        )
    return snapshot


def _threads(snapshot: Snapshot) -> int:
    return default_threads(local=scheme_of(snapshot.source.uri) == "file")


@dataclass(frozen=True)
class _Count:
    placements: Placements
    columns: tuple[str, ...]
    area: BlobArea

    def of_slice(self, file_slice: FileSlice) -> pa.Table:
        """Return the tally of a slice."""
        parts = count_rows(self.placements.of_slice(file_slice), self.columns, self.area)
        return pa.concat_tables([TALLY.empty_table(), *parts])


@dataclass(frozen=True)
class _Rows:
    """The rows of a table as a check wants them, read by `threads`."""

    placements: Placements
    pins: KnownPins
    threads: int

    def in_groups(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of several slices at a time, so that the files they refer to are looked up at once."""
        for group in _groups(self.placements.snapshot.file_slices, self.threads):
            parts = in_threads(lambda each: list(self.placements.of_slice(each)), group, self.threads)
            read = [batch for part in parts for batch in part]
            for rows in pa.Table.from_batches(read).combine_chunks().to_batches() if read else ():
                yield self._pinned(rows)

    def _pinned(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the pins of their files."""
        pins = {
            pin_column(number): self.pins.newest(rows[str(number)].field("path"), rows["commit_time"])
            for number in range(len(self.placements.columns))
        }
        return pa.record_batch({**dict(zip(rows.schema.names, rows.columns, strict=True)), **pins})


def _groups(slices: Sequence[FileSlice], most: int) -> Iterator[list[FileSlice]]:
    """Yield the slices in groups of at most `most`, whose base files have about 512 MiB at the most."""
    group: list[FileSlice] = []
    size = 0
    for each in slices:
        own = each.base_file.size if each.base_file else 0
        if group and (len(group) == most or size + own > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(each)
        size += own
    if group:
        yield group
