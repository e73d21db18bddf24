"""The search for candidates among codes: lists by their centroids, rows by one matrix product per list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.faiss_lists import FaissLists
from hudi_vector.index.kinds.largest import Largest
from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel
from hudi_vector.index.kinds.pool import Part, Pool
from hudi_vector.index.kinds.prepared import EXTRA, Asked, ListReach
from hudi_vector.index.kinds.row_block import BitBlock, RowBlock
from hudi_vector.kernels.topk import Ints, rank_within

__all__ = ["Codes", "Entries", "Found", "Probe", "everything"]

_BLOCK_ELEMENTS = 1 << 18
_SCORES_AT_ONCE = 1 << 25
_PAIRS_AT_ONCE = 1 << 23
_FIRST_LISTS = 4
_CHUNK_ROWS = 1 << 14
_READ_BYTES = 4 << 20
_FEW_QUERIES = 3
"""The most queries for which looking up products of bits takes less time than decoding them once."""
_LISTS_A_PROBE = 12
"""From so many lists for each one probed, to look for the least some times takes less time than a partition."""

_Score = Callable[[Ints, Ints, int], tuple[Ints, Ints, Floats32]]
"""Returns the best codes of lists for queries: their queries, entries, and numbers with the order of ranks."""

Runs = Sequence[tuple[int, int]]
"""Ranges of places among the entries, each as (start, end)."""


@dataclass(frozen=True)
class Entries:
    """The entries of a view that may be found: all (`chosen` is None) or some, in order.

    List l holds the places ``offsets[l]`` to ``offsets[l + 1]`` of them. `in_lists` is True if the lists are probed one
    by one.
    """

    chosen: npt.NDArray[Any] | None
    offsets: npt.NDArray[Any]
    in_lists: bool

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def part(self, start: int, stop: int) -> slice | Ints:
        """Return the index that selects the entries at these places from the view's arrays."""
        return slice(start, stop) if self.chosen is None else self.chosen[start:stop]

    def of(self, places: Ints, runs: Runs) -> Ints:
        """Return the entries at places that count through the concatenated runs."""
        starts, stops = np.array(runs, np.int64).reshape(-1, 2).T
        ends = np.cumsum(stops - starts)
        run = np.searchsorted(ends, places, side="right")
        at: Ints = places - ends[run] + stops[run]
        return at if self.chosen is None else self.chosen[at]


@dataclass(frozen=True)
class Codes:
    """The codes of a view's entries, shape (n, code_width); list l holds ``offsets[l]`` to ``offsets[l + 1]``.

    `read` reads lists that are not in memory yet; None means that all are.
    """

    model: IndexModel
    array: npt.NDArray[Any]
    offsets: npt.NDArray[Any]
    read: Callable[[Ints], None] | None = None

    @property
    def rows_at_first(self) -> int:
        """Return how many entries a certain search scores first; of lists that are read meanwhile, some megabytes."""
        least = _CHUNK_ROWS // 4
        return least if self.read is None else max(least, _READ_BYTES // (self.array.itemsize * self.model.code_width))

    def need(self, lists: Ints) -> None:
        """Have lists in memory before their codes are used."""
        if self.read is not None:
            self.read(lists)

    def factors(self, wanted: slice | Ints) -> npt.NDArray[Any]:
        """Return what is multiplied with queries for these entries, shape (n, d)."""
        codes = _rows_of(self.array, wanted)
        return self.model.factors(codes, self.lists_of(wanted)) if self.model.is_relative else codes

    def lists_of(self, wanted: slice | Ints) -> npt.NDArray[Any]:
        """Return the list of each of these entries, shape (n,)."""
        entries = np.arange(wanted.start, wanted.stop) if isinstance(wanted, slice) else wanted
        return np.searchsorted(self.offsets, entries, side="right") - 1


@dataclass(frozen=True)
class Found:
    """Candidate entries, each with its query, and the numbers of probed lists and scored codes.

    `unseen` has a distance for each query that no other entry is below; None if no other entry may be among the k
    nearest.
    """

    query: Ints
    entry: Ints
    probed_lists: int
    scored_codes: int
    given_up: Ints
    unseen: Floats64 | None = None


def everything(queries: Ints, entries: Entries, most: int | None = None) -> Found:
    """Return all entries as candidates of all queries; if they are more than `most`, give up these queries."""
    if not len(queries) or (most is not None and len(entries) > most):
        return Found(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0, queries)
    every = np.arange(len(entries)) if entries.chosen is None else entries.chosen
    none_given_up = np.empty(0, np.int64)
    return Found(np.repeat(queries, len(every)), np.tile(every, len(queries)), 0, 0, none_given_up)


class Probe:
    """A search of a view's codes for a batch of queries."""

    def __init__(
        self,
        codes: Codes,
        extra: Floats32,
        reach: ListReach,
        entries: Entries,
        asked: Asked,
        largest: Largest,
        by_faiss: FaissLists | None = None,
    ) -> None:
        self.codes = codes
        self.extra = extra
        self.reach = reach
        self.entries = entries
        self.asked = asked
        self.largest = largest
        self.by_faiss = by_faiss if entries.in_lists else None
        self.sizes = np.diff(entries.offsets)
        self.ranks = asked.centroid_ranks()
        self.filled = np.flatnonzero(self.sizes)
        if len(self.filled) < len(self.sizes):
            self.ranks[:, self.sizes == 0] = np.inf
        self.probed_lists = 0
        self.scored_codes = 0
        self._probed: list[tuple[Ints, Ints, Ints]] = []

    @cached_property
    def _block(self) -> RowBlock:
        dimension = self.codes.model.dimension
        return RowBlock(min(max(256, _BLOCK_ELEMENTS // dimension), len(self.entries)), dimension, len(self.asked))

    def approximate(self, k: int, nprobes: int, count: int) -> Found:
        """Return the best `count` codes of the nearest lists, the best first in each query.

        More lists are probed while these hold fewer than k rows.
        """
        odd = everything(np.flatnonzero(self.asked.beyond), self.entries)
        score = partial(self._best_of, is_rough=True) if self.by_faiss is None else self._best_by_faiss
        query, entry, products = self._best(np.flatnonzero(~self.asked.beyond), k, nprobes, count, score)
        return self._result(query, entry, odd, odd.given_up, self._unseen(query, products))

    def certain(self, k: int, most: int | None) -> Found:
        """Return every entry that may be among the k nearest."""
        odd = everything(np.flatnonzero(self.asked.beyond), self.entries, most)
        ask = np.flatnonzero(~self.asked.beyond)
        none, no_bounds = np.empty(0, np.int64), np.empty(0, np.float64)
        pool = Pool(k, self._first_limits(ask, k), none, none, no_bounds, no_bounds)
        given_up = [odd.given_up]
        fresh: list[Part] = []
        waiting = 0
        for runs, chosen in self._groups(ask, pool):
            fresh.append(self._near(runs, chosen, pool))
            waiting += len(fresh[-1][0])
            if len(ask) == 1 or waiting > 2 * k * len(ask):
                pool.add(fresh)
                fresh, waiting = [], 0
                given_up.append(pool.give_up(most))
        pool.add(fresh)
        given_up.append(pool.give_up(most))
        return self._result(pool.query, pool.entry, odd, np.unique(np.concatenate(given_up)))

    def _unseen(self, query: Ints, products: Floats32) -> Floats64:
        """Return for each query a distance that no entry is below which is none of the best.

        `products` are those of the best entries, and `query` the query of each.
        """
        asked, least = self.asked, self._least_elsewhere()
        count = np.bincount(query, minlength=len(asked))
        last = np.full(len(asked), -np.inf, np.float32)
        np.maximum.at(last, query, products)
        for ask, lists, covered in self._probed:
            # Where a row of another list may have any distance, the probed lists need no look.
            more = (covered > count[ask]) & (least[ask] > asked.lowest)
            if not more.any():
                continue
            left, own = ask[more], lists[more]
            # If all lists are probed, they are the same for all queries.
            largest = self.largest.of(own[:1] if own.shape[1] == len(self.filled) else own)
            ranks = asked.code_ranks(left, last[left]) if self.by_faiss is None else last[left].astype(np.float64)
            least[left] = np.minimum(least[left], asked.least(left, ranks, largest))
        return asked.distances(least)

    def _least_elsewhere(self) -> Floats64:
        """Return for each query the least rank that an entry can have in a list that was not probed for it."""
        if all(lists.shape[1] == len(self.filled) for _, lists, _ in self._probed):
            return np.full(len(self.asked), np.inf)
        bounds = self.asked.list_bounds(self.ranks, self.reach)
        for ask, lists, _ in self._probed:
            bounds[ask[:, None], lists] = np.inf
        bounds[self.asked.beyond] = np.inf
        least: Floats64 = bounds.min(axis=1)
        return least

    def _result(self, query: Ints, entry: Ints, odd: Found, given_up: Ints, unseen: Floats64 | None = None) -> Found:
        return Found(
            np.concatenate([query, odd.query]),
            np.concatenate([entry, odd.entry]),
            self.probed_lists,
            self.scored_codes,
            given_up,
            unseen,
        )

    def _first_limits(self, ask: Ints, k: int) -> Floats64:
        """Return for each query a rank that at least k rows certainly do not exceed, from a few nearest lists."""
        within = np.full(len(self.asked), -np.inf)
        query, entry, products = self._best(ask, k, _FIRST_LISTS, 2 * k + 8, self._best_of)
        weights = self.asked.estimating()[-EXTRA:, query]
        _, upper = self.asked.interval(query, products, weights, self.extra[entry])
        order, rank = rank_within(query, upper)
        kth = order[rank == k - 1]
        within[query[kth]] = upper[kth]
        return within

    def _groups(self, ask: Ints, pool: Pool) -> Iterator[tuple[Runs, Ints]]:
        """Yield the runs to score, nearest first, each with the queries that need it by the pool's present limits."""
        if not self.entries.in_lists:
            self.codes.need(self.filled)
            for run in _pieces(0, len(self.entries)):
                chosen = ask[np.isfinite(pool.within[ask])]
                if len(chosen):
                    yield [run], chosen
            return
        bounds = self.asked.list_bounds(self.ranks, self.reach)[np.ix_(ask, self.filled)]
        order = np.argsort(bounds.min(axis=0, initial=np.inf), kind="stable")
        bounds, lists = bounds[:, order], self.filled[order]
        ends = np.cumsum(self.sizes[lists])
        at, rows, most = 0, self.codes.rows_at_first, max(_CHUNK_ROWS, _PAIRS_AT_ONCE // max(len(ask), 1))
        while at < len(lists):
            stop = int(np.searchsorted(ends, (ends[at - 1] if at else 0) + rows)) + 1
            needs = bounds[:, at:stop] <= pool.within[ask, None]
            needs = needs[:, : _scored_together(needs, self.sizes[lists[at:stop]])]
            chosen, near = ask[needs.any(axis=1)], lists[at : at + needs.shape[1]][needs.any(axis=0)]
            self.probed_lists += int(needs.sum())
            at, rows = at + needs.shape[1], min(2 * rows, most)
            self.codes.need(near)
            if len(near) == 1:
                yield from (([run], chosen) for run in _pieces(*self._runs(near)[0]))
            elif len(near):
                yield self._runs(np.sort(near)), chosen

    def _near(self, runs: Runs, chosen: Ints, pool: Pool) -> Part:
        """Return the rows of runs that may be within the limits, with their bounds."""
        weights, limits = self.asked.limiting(chosen, pool.within[chosen])
        places, products, before = [], [], 0
        for rows in self._blocks(runs):
            made = rows.products(weights)
            # Ordered by query within a block, and by row within a query.
            flat = np.flatnonzero(made <= limits[:, None])
            local, row = np.divmod(flat, len(rows))
            places.append((local, row + before))
            products.append(made.ravel()[flat])
            before += len(rows)
        self.scored_codes += before * len(chosen)
        local, row = (np.concatenate([one[side] for one in places]) for side in range(2))
        query, entry = chosen[local], self.entries.of(row, runs)
        bounds = self.asked.interval(query, np.concatenate(products), weights[-EXTRA:, local], self.extra[entry])
        return query, entry, *bounds

    def _best(self, ask: Ints, k: int, nprobes: int, count: int, score: _Score) -> tuple[Ints, Ints, Floats32]:
        """Return the best codes of the nearest lists: their queries, entries and products with the weights."""
        done: list[tuple[Ints, Ints, Floats32]] = [(ask[:0], ask[:0], np.empty(0, np.float32))]
        while len(ask):
            probes = min(nprobes, len(self.filled)) if self.entries.in_lists else len(self.filled)
            lists = self._nearest_lists(ask, probes)
            self.codes.need(lists.ravel())
            covered = self.sizes[lists].sum(axis=1)
            enough = (covered >= k) | (probes == len(self.filled))
            self._probed.append((ask[enough], lists[enough], covered[enough]))
            # The number of queries at once is limited, so that their scores fit in memory.
            parts = np.cumsum(covered[enough]) // _SCORES_AT_ONCE
            done.extend(
                score(ask[enough][parts == part], lists[enough][parts == part], count) for part in np.unique(parts)
            )
            ask = ask[~enough]
            nprobes *= 4
        query, entry, products = (np.concatenate([one[place] for one in done]) for place in range(3))
        return query, entry, products

    def _nearest_lists(self, ask: Ints, probes: int) -> Ints:
        if probes == len(self.filled):
            return np.broadcast_to(self.filled, (len(ask), probes))
        ranks = self.ranks if len(ask) == len(self.ranks) else self.ranks[ask]
        if probes * _LISTS_A_PROBE > ranks.shape[1]:
            return np.argpartition(ranks, probes - 1, axis=1)[:, :probes]
        # To look for the least some times takes a fifteenth of the time of a partition of 1,000 lists.
        left, every, lists = ranks.copy(), np.arange(len(ranks)), np.empty((len(ranks), probes), np.int64)
        for place in range(probes):
            lists[:, place] = left.argmin(axis=1)
            left[every, lists[:, place]] = np.inf
        return lists

    def _best_by_faiss(self, ask: Ints, lists: Ints, count: int) -> tuple[Ints, Ints, Floats32]:
        assert self.by_faiss is not None
        self.probed_lists += lists.size
        self.scored_codes += int(self.sizes[lists].sum())
        count = min(count, len(self.entries))  # faiss orders as many places as it is asked for, filled or not
        rank, entry = self.by_faiss.best(self.asked.points[ask], lists, count, self.entries.chosen)
        hit = entry >= 0
        return np.repeat(ask, hit.sum(axis=1)), entry[hit], -rank[hit] if self.asked.is_dot else rank[hit]

    def _best_of(self, ask: Ints, lists: Ints, count: int, is_rough: bool = False) -> tuple[Ints, Ints, Floats32]:
        """Return the best codes of lists; their products may be looked up, which no bounds are for, if it is rough."""
        by_bits = is_rough and self.codes.model.codes == "bits" and self.codes.model.num_bits == 1
        weights = self.asked.estimating()
        scores: list[list[Floats32]] = [[] for _ in ask]
        looked_at: list[list[tuple[int, int]]] = [[] for _ in ask]
        for runs, local in self._inverted(lists):
            own = weights[:, ask[local]]
            for place in local:
                looked_at[place].extend(runs)
            looks_up = by_bits and len(local) <= _FEW_QUERIES
            for rows in self._bit_blocks(runs) if looks_up else self._blocks(runs):
                self.scored_codes += len(rows) * len(local)
                for place, products in zip(local, rows.products(own), strict=True):
                    scores[place].append(products)
        found = []
        for query, own_scores, runs in zip(ask, scores, looked_at, strict=True):
            products = np.concatenate(own_scores)
            best = np.argpartition(products, count - 1)[:count] if len(products) > count else np.arange(len(products))
            best = best[np.argsort(products[best], kind="stable")]
            found.append((np.full(len(best), query), self.entries.of(best, runs), products[best]))
        query, entry, products = (np.concatenate([one[side] for one in found]) for side in range(3))
        return query, entry, products

    def _inverted(self, lists: Ints) -> Iterator[tuple[Runs, Ints]]:
        """Yield each list's runs with the numbers of the queries that probe it, in the order of the lists."""
        if not self.entries.in_lists:
            yield [(0, len(self.entries))], np.arange(len(lists))
            return
        self.probed_lists += lists.size
        if len(lists) == 1:
            yield self._runs(np.sort(lists[0])), np.zeros(1, np.int64)
            return
        flat = lists.ravel()
        order = np.argsort(flat, kind="stable")
        begins = np.flatnonzero(np.diff(flat[order], prepend=-1))
        for start, stop in zip(begins, np.append(begins[1:], len(flat)), strict=True):
            yield self._runs(flat[order[start : start + 1]]), order[start:stop] // lists.shape[1]

    def _runs(self, lists: Ints) -> Runs:
        return list(zip(self.entries.offsets[lists].tolist(), self.entries.offsets[lists + 1].tolist(), strict=True))

    def _blocks(self, runs: Runs) -> Iterator[RowBlock]:
        """Yield the rows of runs in blocks; a block is valid until the next is requested."""
        block = self._block
        block.filled = 0
        for begin, stop in runs:
            start = begin
            while start < stop:
                end = min(stop, start + block.free)
                wanted = self.entries.part(start, end)
                block.add(self.codes.factors(wanted), _rows_of(self.extra, wanted))
                start = end
                if not block.free:
                    yield block
                    block.filled = 0
        if block.filled:
            yield block

    def _bit_blocks(self, runs: Runs) -> Iterator[BitBlock]:
        """Yield the rows of runs, as codes that are not decoded, in blocks of about as many rows."""
        sizes = np.array([stop - start for start, stop in runs])
        block = np.cumsum(sizes) // _CHUNK_ROWS
        for number in np.unique(block[sizes > 0]).tolist():
            own = [runs[place] for place in np.flatnonzero((block == number) & (sizes > 0)).tolist()]
            parts = [self.entries.part(*run) for run in own]
            if self.entries.in_lists:
                starts, stops = np.array(own).T
                lists = np.repeat(np.searchsorted(self.entries.offsets, starts, side="right") - 1, stops - starts)
            else:
                lists = np.concatenate([self.codes.lists_of(part) for part in parts])
            codes, extra = (np.concatenate([held[part] for part in parts]) for held in (self.codes.array, self.extra))
            yield BitBlock(self.codes.model, codes, lists, extra)


def _scored_together(needs: npt.NDArray[np.bool_], sizes: Ints) -> int:
    """Return how many of the first lists to score at once, at least one.

    Their rows are multiplied with every query that needs one of the lists, in at most twice as many products as
    needed. `needs` tells which query needs which list, shape (queries, lists); `sizes` are the lists' rows.
    """
    asking = np.logical_or.accumulate(needs, axis=1).sum(axis=0)
    products = asking * np.cumsum(sizes * needs.any(axis=0))
    return int(np.flatnonzero(products <= 2 * np.cumsum(sizes * needs.sum(axis=0)))[-1]) + 1


def _rows_of(array: npt.NDArray[Any], wanted: slice | Ints) -> npt.NDArray[Any]:
    """Return a view of a range of rows, or a copy of single ones, which `take` makes in half the time of an index."""
    return array[wanted] if isinstance(wanted, slice) else array.take(wanted, axis=0)


def _pieces(start: int, stop: int) -> list[tuple[int, int]]:
    return [(at, min(at + _CHUNK_ROWS, stop)) for at in range(start, stop, _CHUNK_ROWS)]
