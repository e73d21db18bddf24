"""A view that joins segments and is ordered by list: probing costs the same for one segment and for five hundred."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DataFileError
from hudi_vector.index.kinds.candidates import (
    FEW,
    Allowed,
    Candidates,
    bases_of,
    bitmap_of,
    bytes_of,
    candidates_of,
    fitting,
    require_model,
    usual_count,
)
from hudi_vector.index.kinds.faiss_library import is_installed
from hudi_vector.index.kinds.faiss_lists import FaissLists
from hudi_vector.index.kinds.largest import Largest
from hudi_vector.index.kinds.model import Floats32, IndexModel
from hudi_vector.index.kinds.prepared import EXTRA, Asked, ListReach, extra_columns
from hudi_vector.index.kinds.probe import Codes, Entries, Probe, everything
from hudi_vector.index.kinds.segment import Segment, SegmentShape
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.cache import is_counting, note
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable

__all__ = ["IndexView", "ListSource"]

_BY_CHANCE = 2.0
"""Up to this spread over the lists, rows that a filter leaves count as chosen by chance, whose spread is about 1."""

_FEW_MISSING = 0.1
"""Up to this share of the rows, those that are left out may lie together: few queries are near to them."""

_FURTHER = 4
"""The factor by which an uncertain search looks further if a filter leaves rows that lie together."""


class ListSource(Protocol):
    """The source of a view's lists, which are read when they are needed."""

    is_whole: bool
    """True once all lists were read."""

    spent: int  # on vectors that were read in place of lists, which cost as much less

    def need(self, lists: Ints | None) -> None:
        """Read lists that were not read yet, or all of them."""

    def need_rows(self) -> None:
        """Read the rows of all entries."""

    def cost_of(self, lists: Ints) -> int:
        """Return what it costs to have lists, as a number of bytes that are read in sequence."""


@dataclass(frozen=True)
class IndexView:
    """Segments of one model, joined in memory.

    List l holds the entries ``offsets[l]`` to ``offsets[l + 1]`` of `row`, `codes` and `extra`. Rows are numbered
    across segments: segment s begins with row ``bases[s]``. `always` are rows that are candidates of every query.
    `pages` has the page table of each segment's base file, or None, and `footers` what is kept of its footer. `lists`
    is where lists come from that are not in memory yet, or None if all are.
    """

    model: IndexModel
    offsets: Ints
    row: npt.NDArray[Any]
    codes: npt.NDArray[Any]
    extra: Floats32
    radius: Floats32
    always: Ints
    bases: Ints
    pages: tuple[PageTable | None, ...]
    footers: tuple[KeptFooter | None, ...]
    lists: ListSource | None = None

    @classmethod
    def join(
        cls, model: IndexModel, segments: Iterable[Segment], shapes: Sequence[SegmentShape] | None = None
    ) -> IndexView:
        """Join segments of a model into copies, to which candidates refer by their position in `segments`.

        With `shapes`, those of all segments, each segment is copied before the next one is taken. Raises
        InvalidArgumentError if a segment without a known shape is of another model, and DataFileError if one has
        another shape than is known.
        """
        if shapes is None:
            segments = list(segments)
            for segment in segments:
                require_model(segment.file, segment.model_id, model)
            shapes = [segment.shape for segment in segments]
        bases = bases_of(shape.rows for shape in shapes)
        sizes = sum((shape.sizes for shape in shapes), np.zeros(model.lists, np.int64))
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        total = int(offsets[-1])
        row = np.empty(total, np.uint32 if bases[-1] < 1 << 32 else np.int64)
        codes = np.empty((total, model.code_width), model.code_dtype)
        extra = np.empty((total, EXTRA), np.float32)
        radius, ahead = np.zeros(model.lists, np.float32), offsets[:-1].copy()
        always, pages, footers = [np.empty(0, np.int64)], [], []
        for base, shape, segment in zip(bases[:-1], shapes, segments, strict=True):
            counts = np.diff(segment.offsets)
            if segment.rows != shape.rows or not np.array_equal(counts, shape.sizes):
                raise DataFileError(f"the segment of '{segment.file.path}' changed while it was read")
            to = np.repeat(ahead - segment.offsets[:-1], counts) + np.arange(len(segment))
            row[to] = segment.position.astype(row.dtype) + row.dtype.type(base)
            codes[to] = segment.codes
            extra[to] = extra_columns(model, segment.square, segment.error)
            ahead += counts
            np.maximum(radius, segment.radius, out=radius)
            always.append(segment.always + base)
            pages.append(segment.pages)
            footers.append(segment.footer)
        ways = tuple(pages), tuple(footers)
        return cls(model, offsets, row, codes, extra, radius, np.concatenate(always), bases, *ways)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def rows(self) -> int:
        """Return the number of rows of the segments' base files."""
        return int(self.bases[-1])

    @property
    def vectors(self) -> int:
        """Return the number of rows that have a vector, with or without a code."""
        return len(self.row) + len(self.always)

    @property
    def efforts(self) -> list[int]:
        """Return numbers of lists that are worth trying, ascending to all."""
        lists = self.model.lists
        return [*(1 << power for power in range(lists.bit_length()) if 1 << power < lists), lists]

    @property
    def best_first(self) -> bool:
        """Return True: candidates of an approximate search are ordered by the ranks of their codes."""
        return True

    @property
    def nbytes(self) -> int:
        """Return the bytes held in memory."""
        return self._own_bytes + (FaissLists.nbytes(self.model, len(self)) if self._has_faiss else 0)

    @property
    def _own_bytes(self) -> int:
        arrays = (self.offsets, self.row, self.codes, self.extra, self.radius, self.always, self.bases)
        kept = sum(footer.nbytes for footer in self.footers if footer is not None)
        entries = self.rows * self.row.itemsize  # of `_entry_of`, which the first filter makes
        return sum(array.nbytes for array in arrays) + entries + bytes_of(self.pages) + kept

    @cached_property
    def _has_faiss(self) -> bool:
        """Return True if faiss searches the lists: of ``ivf_pq`` and ``ivf_sq8``, if it is installed."""
        return self.model.codes in ("parts", "ranges") and is_installed()

    @cached_property
    def _by_faiss(self) -> FaissLists | None:
        """Return the lists in faiss, made on first use, or None if numpy searches them."""
        return FaissLists(self.model, self.offsets, self.codes) if self._has_faiss else None

    @cached_property
    def _reach(self) -> ListReach:
        return ListReach.of(self.model, self.radius)

    @cached_property
    def _largest(self) -> Largest:
        return Largest(self.offsets, self.extra)

    def candidates(
        self,
        queries: npt.NDArray[Any],
        k: int,
        *,
        nprobes: int | None = None,
        candidates: int | None = None,
        certain: bool = True,
        allowed: Allowed = None,
        most: int | None = None,
    ) -> Candidates:
        """Return rows that may be among the k nearest of each query.

        Allowed rows without a code are candidates of every query. Raises InvalidArgumentError if the queries have
        another dimension, or if `allowed` does not fit the segments.

        Args:
            queries: Shape (m, d), finite.
            k: The number of rows that are wanted.
            nprobes: The number of lists that an uncertain search probes, the nearest that hold an allowed row; by
                default a 32nd of the lists. With a filter more lists are probed, for about as many rows as without
                one, for four times as many if its rows lie together, and more if they hold fewer than k rows.
            candidates: The candidates of each query in an uncertain search; by default twice k, at least k + 10. By
                codes of bits there are four times as many under a filter whose rows lie together.
            certain: Whether every row of the true k nearest must be among the candidates, including ties at the k-th
                distance.
            allowed: For each segment, the rows of its base file that may be found: bool of shape (rows,), or None
                for all.
            most: The most candidates of a query in a certain search; a query with more is given up.
        """
        asked = Asked.of(fitting(queries, self.model), self.model)
        bitmap = bitmap_of(allowed, self.bases)
        entries = self._entries(bitmap)
        if len(entries) <= k or asked.beyond.any():
            self.need_rows()
        if len(entries) <= k:
            found = everything(np.arange(len(asked)), entries, most)
        else:
            probe = Probe(
                Codes(self.model, self.codes, self.offsets, None if self.lists is None else self._need),
                self.extra,
                self._reach,
                entries,
                asked,
                self._largest,
                None if certain else self._by_faiss,
            )
            if certain:
                found = probe.certain(k, most)
            else:
                count = usual_count(k, candidates)
                # With a filter the nearest rows are further away; more lists then cost no more codes.
                lists = -(-(nprobes or max(1, self.model.lists // 32)) * len(self) // len(entries))
                if not self._are_by_chance(entries):
                    # The nearest list need not hold the nearest of such rows, and few bits rank far rows roughly.
                    lists *= _FURTHER
                    count *= _FURTHER if self.model.codes == "bits" else 1
                found = probe.approximate(k, lists, count)
        return candidates_of(found, self.row, self.bases, len(asked), self.always, bitmap)

    def need_rows(self) -> None:
        """Read the rows of all entries, if they are not in memory yet."""
        if self.lists is not None:
            self.lists.need_rows()

    def cost_of(self, allowed: Allowed) -> int:
        """Return what it costs to have the codes of allowed rows, as a number of bytes that are read in sequence."""
        if self.lists is None or self.lists.is_whole:
            return 0
        chosen = self._entries(bitmap_of(allowed, self.bases)).chosen
        lists = np.arange(self.model.lists) if chosen is None else np.searchsorted(self.offsets, chosen, "right") - 1
        return self.lists.cost_of(np.unique(lists))

    def spend(self, cost: int) -> None:
        """Add to what it cost so far to read vectors in place of codes; codes cost as much less."""
        if self.lists is not None:
            self.lists.spent += cost

    def _need(self, lists: Ints) -> None:
        """Have lists in memory, and count which of them were."""
        assert self.lists is not None
        if is_counting():
            known = np.full(len(lists), True) if self.lists.is_whole else self._needed[lists]
            for is_kept in (True, False):
                note("lists", *((id(self), each) for each in lists[known == is_kept].tolist()), is_kept=is_kept)
        if not self.lists.is_whole:
            self.lists.need(lists)
            self._needed[lists] = True

    @cached_property
    def _needed(self) -> npt.NDArray[np.bool_]:
        """Return which lists a search needed, all false at first."""
        return np.zeros(self.model.lists, np.bool_)

    def without(self, segment: Ints, position: Ints) -> IndexView:
        """Return this view: rows in a list do not lead to each other."""
        del segment, position
        return self

    @property
    def hidden(self) -> tuple[Ints, Ints]:
        """Return no rows, since all rows can be found."""
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def _entries(self, bitmap: npt.NDArray[np.bool_] | None) -> Entries:
        if bitmap is None:
            return Entries(None, self.offsets, in_lists=True)
        self.need_rows()
        chosen = self._entries_of(np.flatnonzero(bitmap))
        return Entries(chosen, np.searchsorted(chosen, self.offsets), in_lists=len(chosen) > FEW * len(self))

    def _are_by_chance(self, entries: Entries) -> bool:
        """Return True if each list has about as many of the entries as chance would give it, or nearly all are left.

        The spread is the mean of (found - expected)² / variance over the lists, with a binomial variance.
        """
        share = len(entries) / len(self)
        if share >= 1 - _FEW_MISSING:
            return True
        sizes, found = np.diff(self.offsets), np.diff(entries.offsets)
        filled = sizes > 0
        expected = share * sizes[filled]
        spread = (found[filled] - expected) ** 2 / ((1 - share) * expected)
        return float(spread.mean()) <= _BY_CHANCE

    def _entries_of(self, rows: Ints) -> Ints:
        """Return the entries of rows, ascending; a row without an entry is left out."""
        there = np.zeros(len(self) + 1, np.bool_)
        there[self._entry_of[rows]] = True
        return np.flatnonzero(there[:-1])

    @cached_property
    def _entry_of(self) -> npt.NDArray[Any]:
        """Return the entry of each row, the number of all entries for a row without one."""
        entry = np.full(self.rows, len(self), self.row.dtype)
        entry[self.row] = np.arange(len(self), dtype=self.row.dtype)
        return entry
