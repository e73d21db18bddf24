"""The search of one slice, which all searches share: over one or several vector columns, in every execution mode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.load import load_key_hashes
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.merge import SliceHits, Winners, break_ties
from hudi_vector.query.plan import SliceAccess
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.logs.touched import Touched, TouchedSlice, touched_rows
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.nodes import Predicate
from hudi_vector.read.rows_ahead import RowsAhead
from hudi_vector.read.several import Together
from hudi_vector.read.spec import ScanCounts, ScanSpec, SliceReader

__all__ = [
    "Asked",
    "Collector",
    "Measure",
    "OpenedSlice",
    "Question",
    "SearchedRows",
    "SliceFound",
    "Slices",
    "Step",
    "joined",
    "offer_slice",
    "open_base",
    "open_slice",
    "reading_ahead",
    "search_slice",
    "search_together",
    "settled",
    "tie_keys",
]

_LOG = logging.getLogger("hudi_vector.search")

_APART = 1 << 40
"""The distance between the positions of slices that are searched together; no file has as many rows."""

SliceFound = tuple[list[SliceHits], ScanCounts]
"""The hits of some slices, and the counts of their rows."""

Q = TypeVar("Q", bound="Asked")


@dataclass(frozen=True)
class OpenedSlice:
    """A slice that is being searched: how it is read, and the reader, which knows the keys of merged rows."""

    access: SliceAccess
    spec: ScanSpec
    keep: bool
    reader: SliceReader

    def keys(self, positions: Ints) -> pa.Table | None:
        """Return the columns that order rows of equal distance, None if their positions alone do."""
        return tie_keys(self.reader, self.spec, positions)


class Step(Protocol):
    """The work that a pass does with all rows of slices, which it gets block by block."""

    def offer(self, blocks: Together) -> None:
        """Consider the rows of one block for each searched column."""
        ...

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be found, unordered and with duplicates."""
        ...


class Collector(Step, Protocol):
    """A step that collects the best rows; `invalid` counts rows without a distance although their vectors are valid."""

    invalid: int

    def hits(self) -> Hits:
        """Return the rows found so far, with all rows that tie with the k-th of a query."""
        ...


class Measure(Step, Protocol):
    """A step that measures all rows and finds none."""

    @property
    def result(self) -> Any:
        """Return the measurement of the rows so far, which can be pickled."""
        ...


class SearchedRows(Protocol):
    """The rows of a search, wherever they are: in memory, or in slices."""

    def search(self, asked: Asked, bounds: Bounds) -> Iterable[SliceFound]:
        """Yield the hits of all slices, and tighten `bounds`, which threads of this process share."""
        ...

    def merged(self, asked: Asked, parts: list[SliceHits]) -> Winners:
        """Return the rows that the hits of all slices leave to each query, after keys have decided ties."""
        ...

    def columns(self, winners: Winners, names: Sequence[str]) -> pa.Table:
        """Return columns of winners, in their order."""
        ...

    def wider(self, times: int) -> SearchedRows | None:
        """Return the rows with so many times the lists of their index probed; None if no index is used."""
        ...

    def limited(self, condition: Predicate | None) -> SearchedRows:
        """Return the rows, perhaps without those that do not meet a condition."""
        ...


class Slices(SearchedRows, Protocol):
    """The rows of a search, in slices that are searched here, on executors, or by Spark."""

    def measured(self, asked: Asked, make: Callable[[], Measure]) -> Iterable[Any]:
        """Yield the results of measurements that together get every row once."""
        ...


class Asked(Protocol):
    """The queries of a search over one or several columns, which decide what each pass reads and collects."""

    @property
    def k(self) -> int:
        """Return the number of rows that each query wants."""
        ...

    @property
    def per_group(self) -> int | None:
        """Return the number of rows that each of k groups gives at most; None if k rows are wanted, not groups."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the columns that the collector needs of rows in addition to the searched ones."""
        ...

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        ...

    @property
    def deadline(self) -> Deadline:
        """Return the time by which the search has to end."""
        ...

    @property
    def is_final(self) -> bool:
        """Return True if hits of a slice have their final distance, so that k of them for each query are enough."""
        ...

    def by(self: Q, deadline: Deadline) -> Q:
        """Return the queries with a deadline, unless they have one already."""
        ...

    def named(self: Q, names: Mapping[str, str]) -> Q:
        """Return the queries with other names for the searched columns."""
        ...

    def bounds(self) -> Bounds:
        """Return bounds of distances that no row has tightened yet."""
        ...

    def blocks(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        """Yield the rows of a slice that pass the filter and have their vectors, and add to `counts`."""
        ...

    def with_rows(self, blocks: Together, rows: Callable[[Ints, Sequence[str]], pa.Table]) -> Together:
        """Return blocks with a way to look up the columns in `needs`: `rows` reads columns of rows at positions."""
        ...

    def collector(self, bounds: Bounds) -> Collector:
        """Return a collector of the best rows."""
        ...

    def found(self, slices: Slices, bounds: Bounds) -> Iterable[SliceFound]:
        """Yield the hits of all slices with their final distances, in as many passes as they need."""
        ...


@dataclass(frozen=True)
class Question:
    """The query vectors, shape (m, d), float64, with the metric, the number of neighbours of each, and the deadline.

    `ahead` reads columns of likely winners, of one query, while their vectors are read.
    """

    vectors: Floats
    metric: str
    k: int
    max_distance: float | None = None
    block_queries: int = 1024
    deadline: Deadline = field(default=NEVER, repr=False, compare=False)
    ahead: RowsAhead | None = field(default=None, repr=False, compare=False)

    @property
    def grouping(self) -> None:
        """Return None: k rows are wanted, whatever groups they belong to."""
        return None

    @property
    def per_group(self) -> None:
        """Return None: rows are not wanted by group."""
        return None

    @property
    def needs(self) -> tuple[str, ...]:
        """Return no columns: the vectors are enough."""
        return ()

    def by(self, deadline: Deadline) -> Question:
        """Return the question with a deadline, unless it has one already."""
        return replace(self, deadline=deadline) if self.deadline is NEVER else self

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return len(self.vectors)

    @property
    def is_final(self) -> bool:
        """Return True: a distance depends on one row alone."""
        return True

    def named(self, names: Mapping[str, str]) -> Question:  # noqa: ARG002 - the column is the plan's
        """Return the same question: the plan names its column."""
        return self

    def bounds(self) -> Bounds:
        """Return initial bounds, which are `max_distance` for each query, or infinite if it is None."""
        return Bounds.of(len(self.vectors), self.max_distance)

    def blocks(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        """Yield the rows of a slice that pass the filter and have a vector, and add to `counts`."""
        return ((block,) for block in opened.reader.blocks(counts))

    def with_rows(self, blocks: Together, rows: Callable[..., pa.Table]) -> Together:  # noqa: ARG002 - needs vectors
        """Return the same blocks: nothing but the vectors is needed."""
        return blocks

    def collector(self, bounds: Bounds) -> Collector:
        """Return a collector of the nearest rows."""
        return _Nearest(self, bounds)

    def found(self, slices: Slices, bounds: Bounds) -> Iterable[SliceFound]:
        """Yield the hits of all slices, in one pass."""
        return slices.search(self, bounds)


def reading_ahead(asked: Q, names: Sequence[str]) -> tuple[Q, RowsAhead | None]:
    """Return a question that reads these columns of likely winners ahead, and what reads them; of one query alone."""
    if not isinstance(asked, Question) or len(asked.vectors) != 1 or not names:
        return asked, None
    ahead = RowsAhead(names)
    return replace(asked, ahead=ahead), ahead


class _Nearest:
    """A collector of the nearest rows of a question, which compares a block of its queries at a time."""

    invalid = 0

    def __init__(self, question: Question, bounds: Bounds) -> None:
        self._searches: list[tuple[int, TopK]] = []
        for first in range(0, len(question.vectors), question.block_queries):
            part = slice(first, first + question.block_queries)
            known = Bounds(bounds.distance[part], bounds.is_full[part])
            self._searches.append((first, TopK(question.vectors[part], question.metric, question.k, known)))

    def offer(self, blocks: Together) -> None:
        """Compare the rows of a block with all queries."""
        for _, top in self._searches:
            top.offer(blocks[0])  # type: ignore[arg-type]

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the nearest."""
        return np.concatenate([np.empty(0, np.int64), *(top.candidates() for _, top in self._searches)])

    def hits(self) -> Hits:
        """Return the rows found so far."""
        return joined([(first, top.hits()) for first, top in self._searches])


def open_slice(access: SliceAccess, spec: ScanSpec, keep: bool) -> SliceReader:
    """Return the reader for the planned access of a slice; with `keep`, decoded data stays in this process's cache."""
    if access.access == "merged":
        return MergedSlice(access.file_slice, spec, keep)
    if access.access == "touched":
        return TouchedSlice(access.file_slice, spec, keep, partial(_touched, access, spec, keep))
    assert access.file_slice.base_file is not None
    if access.access in ("lance", "lance_index"):
        return LanceSlice(access.file_slice.base_file, spec, keep)
    return open_base(access, spec, keep)


def open_base(access: SliceAccess, spec: ScanSpec, keep: bool) -> ParquetSlice:
    """Return the reader of a slice's Parquet base file, which leaves out the rows that log files touch."""
    entry = access.file_slice
    assert entry.base_file is not None
    if not entry.log_files:
        return ParquetSlice(entry.base_file, spec, keep, entry.deleted, entry.constants)
    return ParquetSlice(entry.base_file, spec, keep, lambda: _touched(access, spec, keep).left_to_merge)


def _touched(access: SliceAccess, spec: ScanSpec, keep: bool) -> Touched:
    return touched_rows(access.file_slice, spec.options, keep, partial(_hashes, access, spec, keep))


def _hashes(access: SliceAccess, spec: ScanSpec, keep: bool) -> KeyHashes | None:
    """Return the hashes of the base file's keys from its index segment, None if the keys themselves must be read."""
    if access.segment is None or not access.index_folder:
        return None
    try:
        return load_key_hashes(access.index_folder, access.segment, spec.options, keep)
    except (DataFileError, UnsupportedTableError) as problem:
        _LOG.warning("record keys of a base file are read: %s; see hudi_vector.index.verify", problem)
        return None


def search_slice(
    index: int, access: SliceAccess, spec: ScanSpec, asked: Asked, bounds: Bounds, keep: bool
) -> tuple[SliceHits, ScanCounts]:
    """Search one slice and return its hits, at most k a query if distances are final, with the counts of its rows.

    `index` is the slice's place in the plan. `bounds` holds what is known of the k-th distances, and is tightened.
    """
    counts, collector = ScanCounts(), asked.collector(bounds)
    opened = offer_slice(access, spec, asked, collector, keep, counts)
    counts.invalid += collector.invalid
    hits = collector.hits()
    if asked.is_final:
        hits = break_ties(hits, asked.k, opened.keys, asked.per_group)
    keys = opened.keys(hits.position) if isinstance(opened.reader, MergedSlice) else None
    return SliceHits(index, hits, keys), counts


def search_together(
    entries: Sequence[tuple[int, SliceAccess]], spec: ScanSpec, asked: Asked, bounds: Bounds, keep: bool
) -> SliceFound:
    """Search base files with one collector and return their hits, at most k a query for each, with all counts.

    The distances must be final. For small files, a collector for each takes longer than the comparison of the rows.
    """
    counts, collector = ScanCounts(), asked.collector(bounds)
    opened = [
        offer_slice(access, spec, asked, _Shifted(collector, number * _APART), keep, counts)
        for number, (_, access) in enumerate(entries)
    ]
    counts.invalid += collector.invalid
    hits, found = collector.hits(), []
    numbers, inside = np.divmod(hits.position, _APART)
    for number in np.unique(numbers).tolist():
        here = np.flatnonzero(numbers == number)
        own = replace(hits.take(here), position=inside[here])
        found.append(SliceHits(entries[number][0], break_ties(own, asked.k, opened[number].keys, asked.per_group)))
    return found, counts


@dataclass(frozen=True)
class _Shifted:
    """A collector that gets the rows of one slice of several, at positions counted from `first`."""

    collector: Collector
    first: int

    def offer(self, blocks: Together) -> None:
        """Consider the rows of one block for each searched column."""
        moved = tuple(replace(block, positions=block.positions + self.first) for block in blocks)
        self.collector.offer(moved)

    def candidates(self) -> Ints:
        """Return the positions in this slice of the rows that may still be found."""
        positions = self.collector.candidates() - self.first
        return positions[(positions >= 0) & (positions < _APART)]


def offer_slice(
    access: SliceAccess, spec: ScanSpec, asked: Asked, step: Step, keep: bool, counts: ScanCounts
) -> OpenedSlice:
    """Offer all rows of a slice to a step, add to `counts`, and return the slice, which knows the candidates' keys."""
    reader = open_slice(access, spec, keep)
    opened = OpenedSlice(access, spec, keep, reader)
    for blocks in asked.blocks(opened, counts):
        if len(blocks[0]):
            step.offer(blocks)
            if isinstance(reader, MergedSlice):
                reader.retain(lambda: [step.candidates()])
        asked.deadline.check(rows=len(blocks[0]))
    asked.deadline.check(slices=1)
    return opened


def settled(top: TopK, reader: SliceReader, spec: ScanSpec) -> Hits:
    """Return at most k hits a query of one searched slice, after its keys have decided ties at the k-th distance."""
    return break_ties(top.hits(), top.k, partial(tie_keys, reader, spec))


def tie_keys(reader: SliceReader, spec: ScanSpec, positions: Ints) -> pa.Table | None:
    """Return the columns that order rows of equal distance, one row for each position; None if positions alone do."""
    return reader.rows(positions, spec.tie_columns) if spec.tie_columns else None


def joined(parts: list[tuple[int, Hits]]) -> Hits:
    """Join the hits of blocks of queries, each given with the number of its block's first query."""
    if len(parts) == 1:
        return parts[0][1]
    return Hits.joined([replace(hits, query=hits.query + first) for first, hits in parts])
