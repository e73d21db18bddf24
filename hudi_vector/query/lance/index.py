"""The search of fragments through a Lance dataset's own vector index.

The index returns candidates, in one probe for a block of queries. Their vectors are read from the fragments and scored
with the arithmetic of a scan, so distances and their order are exact. Fragments without the index are scanned. A query
that gets fewer than k candidates is answered by a scan of all fragments: an index may miss rows, but an answer is never
short.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK
from hudi_vector.query.execute import Question, joined, search_slice, settled
from hudi_vector.query.lance.choice import LanceIndexUse
from hudi_vector.query.merge import SliceHits
from hudi_vector.query.plan import SliceAccess
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.lance_fragment import dataset_of
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.table.model import FragmentInfo

__all__ = ["search_covered"]

_LOG = logging.getLogger("hudi_vector.search")

_FEW_ROWS = 20_000
_OFFSET_BITS = np.uint64(0xFFFFFFFF)


def search_covered(
    entries: Sequence[tuple[int, SliceAccess]],
    use: LanceIndexUse,
    spec: ScanSpec,
    question: Question,
    bounds: Bounds,
    keep: bool,
    each: Each = map,
) -> tuple[list[SliceHits], ScanCounts]:
    """Return the nearest rows of fragments that an index covers: at most k hits a query and fragment, and row counts.

    If a filter leaves few rows, the fragments are scanned instead. Entries are fragments with their places in the plan.
    `bounds` holds the k-th distances known so far and is tightened. With `keep`, decoded data is kept in the process's
    cache. `each` applies a function to the fragments.
    """
    counts = ScanCounts()
    readers = [LanceSlice(_fragment(access), spec, keep) for _, access in entries]
    allowed = _allowed(readers, spec, counts, each)
    found: list[list[tuple[int, Hits]]] = [[] for _ in entries]
    if allowed is not None and sum(map(np.count_nonzero, allowed)) <= _FEW_ROWS:
        scanned = _scanned(entries, spec, question, np.arange(len(question.vectors)), bounds, keep, each)
        return [SliceHits(index, hits) for (index, _), hits in zip(entries, scanned, strict=True)], counts
    # The index of another library proves nothing of the rows that it leaves out.
    counts.unseen = np.full(len(question.vectors), -np.inf)
    probe = _Probe(entries, use, spec, allowed)
    for first in range(0, len(question.vectors), question.block_queries):
        question.deadline.check()
        part = slice(first, first + question.block_queries)
        vectors, known = question.vectors[part], Bounds(bounds.distance[part], bounds.is_full[part])
        candidates = probe.candidates(vectors, question)
        if not len(candidates.query):
            _LOG.warning("the index '%s' of '%s' gave no candidates; its fragments are scanned", use.name, use.folder)
        short = np.flatnonzero(np.bincount(candidates.query, minlength=len(vectors)) < question.k)
        candidates = candidates.without(short)
        parts = [
            _Scoring(number, reader, candidates, vectors, question, known) for number, reader in enumerate(readers)
        ]
        for number, (hits, nbytes) in enumerate(each(partial(_scored, spec=spec), parts)):
            found[number].append((first, hits))
            counts.bytes_read += nbytes
        counts.unseen[first + short] = np.inf
        if len(short):
            asked = replace(question, vectors=vectors)
            for number, hits in enumerate(_scanned(entries, spec, asked, short, known, keep, each)):
                found[number].append((first, hits))
    return [SliceHits(index, joined(hits)) for (index, _), hits in zip(entries, found, strict=True)], counts


@dataclass(frozen=True)
class _Candidates:
    """Rows that may be among the nearest: query, number of the fragment among the entries, and offset in it."""

    query: Ints
    fragment: Ints
    position: Ints

    def without(self, queries: Ints) -> _Candidates:
        """Return the candidates of all other queries."""
        kept = ~np.isin(self.query, queries)
        return _Candidates(self.query[kept], self.fragment[kept], self.position[kept])


class _Probe:
    """An index that is probed for blocks of queries."""

    def __init__(
        self,
        entries: Sequence[tuple[int, SliceAccess]],
        use: LanceIndexUse,
        spec: ScanSpec,
        allowed: Sequence[npt.NDArray[np.bool_]] | None,
    ) -> None:
        fragments = [_fragment(access) for _, access in entries]
        self._spec, self._use = spec, use
        self._dataset = dataset_of(fragments[0], spec.options)
        self._numbers = {info.fragment: number for number, info in enumerate(fragments)}
        self._arguments: dict[str, Any] = {}
        if allowed is not None:
            from lance.dataset import serialize_row_addrs

            addresses = [
                np.flatnonzero(mask).astype(np.uint64) + (np.uint64(info.fragment) << np.uint64(32))
                for info, mask in zip(fragments, allowed, strict=True)
            ]
            self._arguments["row_addr_allowlist"] = serialize_row_addrs(np.concatenate(addresses))
        elif self._numbers.keys() != use.fragments:
            self._arguments["fragments"] = [self._dataset.get_fragment(info.fragment) for info in fragments]
            self._arguments["prefilter"] = True
        # Stable row ids are not addresses, so addresses are requested, which costs a little more.
        self._address = "_rowaddr" if self._dataset.has_stable_row_ids else "_rowid"

    def candidates(self, vectors: Floats, question: Question) -> _Candidates:
        """Return up to k times the refine factor candidates for each query of a block."""
        nearest = {
            "column": self._spec.column.name,
            "q": vectors.astype(self._spec.column.dtype),
            "k": self._use.candidates(question.k),
            "metric": METRICS[question.metric].lance,
            "nprobes": self._use.nprobes,
        }
        with reading(self._use.folder):
            found = self._dataset.scanner(
                columns=["_distance"],
                nearest=nearest,
                fast_search=True,
                # With several indexes of a column, pylance may choose one of another metric and then finds nothing.
                index_segments=list(self._use.segments),
                with_row_id=self._address == "_rowid",
                with_row_address=self._address == "_rowaddr",
                **self._arguments,
            ).to_table()
        addresses = found.column(self._address).to_numpy()
        fragments = (addresses >> np.uint64(32)).astype(np.int64)
        numbers = np.array([self._numbers.get(int(fragment), -1) for fragment in np.unique(fragments)], np.int64)
        number = numbers[np.searchsorted(np.unique(fragments), fragments)]
        query = found.column("query_index").to_numpy().astype(np.int64)
        position = (addresses & _OFFSET_BITS).astype(np.int64)
        return _Candidates(query[number >= 0], number[number >= 0], position[number >= 0])


@dataclass(frozen=True)
class _Scoring:
    """The candidates of one fragment, and what is needed to score them."""

    number: int
    reader: LanceSlice
    found: _Candidates
    vectors: Floats
    question: Question
    known: Bounds


def _scored(scoring: _Scoring, spec: ScanSpec) -> tuple[Hits, int]:
    """Return the hits of one fragment, and the bytes of the vectors read."""
    here = np.flatnonzero(scoring.found.fragment == scoring.number)
    top = TopK(scoring.vectors, scoring.question.metric, scoring.question.k, scoring.known)
    nbytes = 0
    if len(here):
        distinct, rows = np.unique(scoring.found.position[here], return_inverse=True)
        block = scoring.reader.vectors_at(distinct, ScanCounts())
        nbytes = block.nbytes
        at = np.searchsorted(block.positions, distinct)
        there = at < len(block)
        there[there] = block.positions[at[there]] == distinct[there]
        usable = there[rows]
        top.offer_pairs(block, at[rows[usable]], scoring.found.query[here[usable]])
    return settled(top, scoring.reader, spec), nbytes


def _scanned(
    entries: Sequence[tuple[int, SliceAccess]],
    spec: ScanSpec,
    question: Question,
    asking: Ints,
    bounds: Bounds,
    keep: bool,
    each: Each,
) -> list[Hits]:
    """Return the hits of the queries numbered `asking` in each fragment, from a scan."""
    asked = replace(question, vectors=question.vectors[asking])
    known = Bounds(bounds.distance[asking], bounds.is_full[asking])

    def scan(entry: tuple[int, SliceAccess]) -> Hits:
        hits = search_slice(*entry, spec, asked, known, keep)[0].hits
        return Hits(asking[hits.query], hits.distance, hits.position)

    return list(each(scan, entries))


def _allowed(
    readers: Sequence[LanceSlice], spec: ScanSpec, counts: ScanCounts, each: Each
) -> list[npt.NDArray[np.bool_]] | None:
    """Return a mask over the offsets of each fragment for the filter, None without a filter, and count the rows."""
    if spec.predicate is None:
        counts.rows += sum(reader.live for reader in readers)
        return None

    def mask(reader: LanceSlice) -> tuple[npt.NDArray[np.bool_], ScanCounts]:
        own = ScanCounts()
        return reader.allowed(own), own

    masks = []
    for found, own in each(mask, readers):
        masks.append(found)
        counts.add(own)
    return masks


def _fragment(access: SliceAccess) -> FragmentInfo:
    base = access.file_slice.base_file
    assert isinstance(base, FragmentInfo)
    return base
