"""The rows to train with: a table at one instant, its chosen columns and a filter, planned without Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hudi_vector.arguments import as_count, as_text, checked_names
from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.blobs.reading.by_key import blob_paths
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.samples.index import SampleIndex
from hudi_vector.blobs.samples.scan import SampleScan
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError, UnsupportedTableError
from hudi_vector.read.predicate.form import Predicate, parse
from hudi_vector.read.predicate.form import columns as columns_of
from hudi_vector.storage import StorageOptions, normalise, path_text, scheme_of
from hudi_vector.table.instants import parse_as_of, zone_info
from hudi_vector.table.model import FileSlice, Snapshot, Source
from hudi_vector.table.native import NativeTable

__all__ = ["DEFAULT_BUDGET", "SamplePlan", "make_plan"]

DEFAULT_BUDGET = 64 << 20
"""The number of bytes of blobs that are read at a time, unless the caller gives another."""


@dataclass(frozen=True)
class SamplePlan:
    """The rows of a table at one instant, not looked for yet; picklable.

    Attributes:
        snapshot: The table, with its file slices in an order that does not depend on how they were listed.
        scan: Finds the rows of a file slice.
        fetcher: Reads the bytes of blobs.
        budget: The number of bytes of blobs that are read at a time.
    """

    snapshot: Snapshot
    scan: SampleScan
    fetcher: BlobFetcher
    budget: int

    @property
    def instant(self) -> str | None:
        """Return the instant of the newest commit that the rows are of; None if there is none."""
        return self.snapshot.instant

    def index(self, slices: Sequence[FileSlice] | None = None) -> SampleIndex:
        """Find the rows of file slices, by default of all.

        Raises DataFileError if a file is gone or damaged, UnmergeableError if only Spark can merge the log files of a
        slice.
        """
        chosen = self.snapshot.file_slices if slices is None else slices
        threads = default_threads(local=scheme_of(self.snapshot.source.uri) == "file")
        parts = in_threads(self.scan.rows, chosen, threads)
        return SampleIndex.of(parts, self.scan, self.snapshot, self.fetcher, self.budget)


def make_plan(
    table: str | os.PathLike[str],
    *,
    columns: Any = None,
    blobs: Any = None,
    filter: Any = None,  # noqa: A002 - as searches call it
    as_of: Any = None,
    memory_budget: Any = DEFAULT_BUDGET,
    on_error: str = "raise",
    storage_options: Mapping[str, str] | None = None,
    zone: Any = None,
) -> SamplePlan:
    """Return the plan of the rows to train with; the arguments are those of the public datasets.

    Raises InvalidArgumentError, InvalidTypeError, InvalidFilterError or UnknownColumnError for an argument that is not
    allowed, TableNotFoundError if there is no table, InstantNotAvailableError if there is none at that point, and
    UnsupportedTableError if only Spark can read it.
    """
    name = as_text(path_text(table), "table") or ""
    named = as_text(zone, "zone", allow_null=True) or "UTC"
    zone_info(named)
    wanted, wanted_blobs = checked_names(columns), _blob_names(blobs)
    text = as_text(filter, "filter", allow_null=True)
    point = None if as_of is None else parse_as_of(as_of, named)
    budget = as_count(memory_budget, "memory_budget") or DEFAULT_BUDGET
    options = StorageOptions.of(storage_options or {})
    source = Source(normalise(name), name, options)
    fetcher = BlobFetcher(options, source.uri, on_error=on_error)
    snapshot = NativeTable(source).snapshot(point)
    _require_direct(snapshot)
    chosen = _Chosen.of(snapshot, wanted, wanted_blobs)
    predicate = None if text is None else _predicate(text, snapshot)
    slices = sorted(snapshot.file_slices, key=lambda each: (each.partition_path, each.file_id))
    snapshot = replace(snapshot, file_slices=tuple(slices))
    return SamplePlan(snapshot, SampleScan(snapshot, chosen.plain, chosen.blobs, predicate, named), fetcher, budget)


@dataclass(frozen=True)
class _Chosen:
    """The chosen columns of a table, as it spells them."""

    plain: tuple[str, ...]
    blobs: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Sequence[str] | None, blobs: Sequence[str] | None) -> _Chosen:
        """Check the names that a caller gave; None chooses all columns but Hudi's own, or all BLOB columns."""
        name, paths = snapshot.source.name, blob_paths(snapshot.schema)
        known_blobs = [path[0] for path in paths if len(path) == 1]
        nested = {path[0] for path in paths if len(path) > 1}
        plain = [each for each in snapshot.schema.names if each not in known_blobs]
        if columns is None:
            taken = [each for each in plain if each not in nested and not each.startswith("_hoodie_")]
        else:
            taken = [_spelled(each, snapshot.schema.names, name) for each in columns]
        for each in taken:
            if each in known_blobs:
                raise InvalidArgumentError(f"column '{each}' of '{name}' is a BLOB; name it in blobs, not in columns")
            if each in nested:
                raise UnsupportedTableError(
                    f"column '{each}' of '{name}' holds a BLOB in a struct, which datasets do not read; leave it out"
                )
        found = known_blobs if blobs is None else [_spelled(each, snapshot.schema.names, name) for each in blobs]
        other = next((each for each in found if each not in known_blobs), None)
        if other is not None:
            raise InvalidTypeError(
                f"column '{other}' of '{name}' is no BLOB; its BLOB columns are {', '.join(known_blobs) or 'none'}"
            )
        if not taken and not found:
            raise InvalidArgumentError(f"columns and blobs leave no column of '{name}'; name at least one")
        return cls(tuple(dict.fromkeys(taken)), tuple(dict.fromkeys(found)))


def _blob_names(blobs: Any) -> tuple[str, ...] | None:
    if isinstance(blobs, str):
        raise InvalidTypeError(f"blobs must be a list of names, not {blobs!r}")
    return checked_names(blobs)


def _spelled(name: str, names: Sequence[str], table: str) -> str:
    """Return a column as the table spells it; raise UnknownColumnError if there is none of this name in any case."""
    found = next((each for each in names if each.lower() == name.lower()), None)
    if found is None:
        raise UnknownColumnError.of(name, names, table)
    return found


def _predicate(text: str, snapshot: Snapshot) -> Predicate:
    """Parse a filter; raise InvalidArgumentError if it needs a column that holds blobs."""
    predicate = parse(text, snapshot.schema)
    held = {path[0] for path in blob_paths(snapshot.schema)} & columns_of(predicate)
    if held:
        raise InvalidArgumentError(
            f"the filter {text!r} names the BLOB column '{min(held)}'; a dataset is filtered by its other columns"
        )
    return predicate


def _require_direct(snapshot: Snapshot) -> None:
    """Raise UnsupportedTableError if only Spark can read the rows of a table."""
    reason = snapshot.needs_spark
    other = [each.base_file.name for each in snapshot.file_slices if each.base_file is not None]
    if reason is None and any(not each.endswith(".parquet") for each in other):
        reason = "its base files are not Parquet"
    if reason is None and not snapshot.config.populates_meta_fields:
        logged = any(each.log_files for each in snapshot.file_slices)
        reason = "its rows have no record keys, by which log files are merged" if logged else None
    if reason is not None:
        raise UnsupportedTableError(
            f"'{snapshot.source.name}' cannot be read without Spark, since {reason}; read it with Spark, or write the "
            "rows to train with to another table"
        )
