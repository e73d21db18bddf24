"""One slice searched: the step every execution mode shares."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.load import load_key_hashes
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.merge import SliceHits, break_ties
from hudi_vector.query.plan import SliceAccess
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.logs.touched import Touched, TouchedSlice, touched_rows
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec, SliceReader

__all__ = ["Question", "joined", "open_base", "open_slice", "search_slice", "settled", "tie_keys"]

_LOG = logging.getLogger("hudi_vector.search")


@dataclass(frozen=True)
class Question:
    """The query vectors, shape (m, d), float64, how many neighbours each wants by which metric, and by when."""

    vectors: Floats
    metric: str
    k: int
    max_distance: float | None = None
    block_queries: int = 1024
    deadline: Deadline = field(default=NEVER, repr=False, compare=False)

    def by(self, deadline: Deadline) -> Question:
        """Return the question with a deadline, unless it has one already."""
        return replace(self, deadline=deadline) if self.deadline is NEVER else self


def open_slice(access: SliceAccess, spec: ScanSpec, keep: bool) -> SliceReader:
    """The reader of a slice.

    Args:
        access: The slice, and how the planner wants it read.
        spec: What is read.
        keep: Whether what is decoded is kept in the process's cache.

    Returns:
        The reader.
    """
    if access.access == "merged":
        return MergedSlice(access.file_slice, spec, keep)
    if access.access == "touched":
        return TouchedSlice(access.file_slice, spec, keep, partial(_touched, access, spec, keep))
    assert access.file_slice.base_file is not None
    if access.access in ("lance", "lance_index"):
        return LanceSlice(access.file_slice.base_file, spec, keep)
    return open_base(access, spec, keep)


def open_base(access: SliceAccess, spec: ScanSpec, keep: bool) -> ParquetSlice:
    """The reader of a slice's Parquet base file, without the rows that its log files touch.

    Args:
        access: The slice.
        spec: What is read.
        keep: Whether what is decoded is kept in the process's cache.

    Returns:
        The reader.
    """
    entry = access.file_slice
    assert entry.base_file is not None
    if not entry.log_files:
        return ParquetSlice(entry.base_file, spec, keep, entry.deleted, entry.constants)
    return ParquetSlice(entry.base_file, spec, keep, lambda: _touched(access, spec, keep).left_to_merge)


def _touched(access: SliceAccess, spec: ScanSpec, keep: bool) -> Touched:
    return touched_rows(access.file_slice, spec.options, keep, partial(_hashes, access, spec, keep))


def _hashes(access: SliceAccess, spec: ScanSpec, keep: bool) -> KeyHashes | None:
    """The hashes of the base file's keys out of its segment; None where all keys have to be read."""
    if access.segment is None or not access.index_folder:
        return None
    try:
        return load_key_hashes(access.index_folder, access.segment, spec.options, keep)
    except (DataFileError, UnsupportedTableError) as problem:
        _LOG.warning("record keys of a base file are read: %s; see hudi_vector.index.verify", problem)
        return None


def search_slice(
    index: int, access: SliceAccess, spec: ScanSpec, question: Question, bounds: Bounds, keep: bool
) -> tuple[SliceHits, ScanCounts]:
    """The nearest rows of one slice.

    Args:
        index: The slice's place in the plan.
        access: The slice, and how it is read.
        spec: What is read.
        question: The queries.
        bounds: What is known already of the k-th distances; tightened on the way.
        keep: Whether what is decoded is kept in the process's cache.

    Returns:
        At most k hits a query, and what became of the slice's rows.
    """
    reader = open_slice(access, spec, keep)
    counts = ScanCounts()
    searches = _in_blocks(question, bounds)
    for block in reader.blocks(counts):
        if len(block):
            for _, top in searches:
                top.offer(block)
            if isinstance(reader, MergedSlice):
                reader.retain(lambda: [top.candidates() for _, top in searches])
        question.deadline.check(rows=len(block))
    question.deadline.check(slices=1)

    hits = joined([(first, settled(top, reader, spec)) for first, top in searches])
    keys = tie_keys(reader, spec, hits.position) if isinstance(reader, MergedSlice) else None
    return SliceHits(index, hits, keys), counts


def settled(top: TopK, reader: SliceReader, spec: ScanSpec) -> Hits:
    """What was found in one slice, ties at the k-th distance decided.

    Args:
        top: The search.
        reader: The slice.
        spec: What is read.

    Returns:
        At most k hits a query.
    """
    return break_ties(top.hits(), top.k, partial(tie_keys, reader, spec))


def tie_keys(reader: SliceReader, spec: ScanSpec, positions: Ints) -> pa.Table | None:
    """What orders rows of a slice whose distances are equal; None where only their place does."""
    return reader.rows(positions, spec.tie_columns) if spec.tie_columns else None


def _in_blocks(question: Question, bounds: Bounds) -> list[tuple[int, TopK]]:
    """A search for each block of queries, with the number of its first query."""
    searches = []
    for first in range(0, len(question.vectors), question.block_queries):
        last = first + question.block_queries
        part = Bounds(bounds.distance[first:last], bounds.is_full[first:last])
        searches.append((first, TopK(question.vectors[first:last], question.metric, question.k, part)))
    return searches


def joined(parts: list[tuple[int, Hits]]) -> Hits:
    """The hits of blocks of queries as one.

    Args:
        parts: Hits, each with the number of its block's first query.

    Returns:
        All of them.
    """
    if not parts:
        return Hits.none()
    if len(parts) == 1:
        return parts[0][1]
    return Hits(
        np.concatenate([hits.query + first for first, hits in parts]),
        np.concatenate([hits.distance for _, hits in parts]),
        np.concatenate([hits.position for _, hits in parts]),
    )
