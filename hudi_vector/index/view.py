"""Many segments as one view, ordered by list: probing it costs the same for one segment and for five hundred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.asked import EXTRA, Asked, extra_columns
from hudi_vector.index.model import Floats32, IndexModel
from hudi_vector.index.probe import Entries, Found, Probe, everything
from hudi_vector.index.segment import Segment
from hudi_vector.kernels.topk import Ints

__all__ = ["Candidates", "IndexView"]

FEW = 0.05
"""The part of the rows up to which all that a filter lets through are scored, whatever list they are in."""


@dataclass(frozen=True)
class Candidates:
    """Rows that may be among the nearest, one entry per (query, row), sorted by query.

    `segment` is the place in the segments that were joined, `position` the row in that segment's base file.
    `given_up` are queries that had more candidates than were wanted at most: they have none here.
    """

    query: Ints
    segment: Ints
    position: Ints
    probed_lists: int
    scored_codes: int
    given_up: Ints

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class IndexView:
    """Segments of one model, joined in memory.

    List l holds the entries ``offsets[l]`` to ``offsets[l + 1]`` of `row`, `codes` and `extra`. A row is numbered
    across the segments: segment s has the rows from ``bases[s]`` on. `always` are rows that are always candidates.
    """

    model: IndexModel
    offsets: Ints
    row: npt.NDArray[Any]
    codes: npt.NDArray[Any]
    extra: Floats32
    radius: Floats32
    always: Ints
    bases: Ints

    @classmethod
    def join(cls, model: IndexModel, segments: Sequence[Segment]) -> IndexView:
        """Join segments.

        Args:
            model: The model of all of them.
            segments: Segments, in the order in which candidates name them.

        Returns:
            The view; it holds copies, nothing of the segments.

        Raises:
            InvalidArgumentError: A segment is of another model.
        """
        lists = model.lists
        sizes, radius = np.zeros(lists, np.int64), np.zeros(lists, np.float32)
        for segment in segments:
            if segment.model_id != model.model_id:
                raise InvalidArgumentError(
                    f"the segment of '{segment.file.path}' is of the model {segment.model_id}, not of "
                    f"{model.model_id}; build it anew"
                )
            sizes += np.diff(segment.offsets)
            np.maximum(radius, segment.radius, out=radius)
        bases = np.concatenate(([0], np.cumsum([segment.rows for segment in segments], dtype=np.int64)))
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        total = int(offsets[-1])
        row = np.empty(total, np.uint32 if bases[-1] < 1 << 32 else np.int64)
        codes = np.empty((total, model.dimension), model.code_dtype)
        extra = np.empty((total, EXTRA), np.float32)
        ahead = offsets[:-1].copy()
        for base, segment in zip(bases[:-1], segments, strict=True):
            counts = np.diff(segment.offsets)
            to = np.repeat(ahead - segment.offsets[:-1], counts) + np.arange(len(segment))
            row[to] = segment.position.astype(row.dtype) + row.dtype.type(base)
            codes[to] = segment.codes
            extra[to] = extra_columns(model, segment.square, segment.error)
            ahead += counts
        always = [segment.always + base for base, segment in zip(bases[:-1], segments, strict=True)]
        return cls(model, offsets, row, codes, extra, radius, np.concatenate([np.empty(0, np.int64), *always]), bases)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def rows(self) -> int:
        """Rows of the segments' base files."""
        return int(self.bases[-1])

    @property
    def vectors(self) -> int:
        """Rows that have a vector, with a code or without."""
        return len(self.row) + len(self.always)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        arrays = (self.offsets, self.row, self.codes, self.extra, self.radius, self.always, self.bases)
        return sum(array.nbytes for array in arrays)

    def candidates(
        self,
        queries: npt.NDArray[Any],
        k: int,
        *,
        nprobes: int | None = None,
        candidates: int | None = None,
        certain: bool = True,
        allowed: Sequence[npt.NDArray[np.bool_] | None] | None = None,
        most: int | None = None,
    ) -> Candidates:
        """Rows that may be among the k nearest of each query.

        Args:
            queries: Shape (m, d), finite.
            k: How many rows are wanted.
            nprobes: Not certain: how many lists are looked at, the nearest that hold an allowed row; more under a
                filter, for about as many rows as without one, and more where these are fewer than k. By default a
                32nd of the lists.
            candidates: Not certain: how many rows each query gets; by default twice k, at least k + 10.
            certain: Whether every row of the true k nearest must be among the candidates, ties at the k-th distance
                included.
            allowed: For each segment which rows of its base file may be found, bool of shape (rows,), or None for all.
            most: Certain: queries with more candidates than this are given up.

        Returns:
            The candidates. Rows without a code that are allowed are among those of every query.

        Raises:
            InvalidArgumentError: The queries have another dimension, or the bitmaps do not fit the segments.
        """
        queries = np.atleast_2d(np.asarray(queries, np.float64))
        if queries.shape[1] != self.model.dimension:
            raise InvalidArgumentError(
                f"queries have {queries.shape[1]} elements and the index is of {self.model.dimension}"
            )
        bitmap = self._bitmap(allowed)
        entries = self._entries(bitmap)
        always = self.always if bitmap is None else self.always[bitmap[self.always]]
        asked = Asked.of(queries, self.model)
        if len(entries) <= k:
            found = everything(np.arange(len(asked)), entries, most)
        else:
            probe = Probe(self.codes, self.extra, self.radius, entries, asked)
            if certain:
                found = probe.certain(k, most)
            else:
                count = max(candidates or max(2 * k, k + 10), k)
                # Under a filter the nearest rows lie further out; so many lists more cost no more codes.
                lists = -(-(nprobes or max(1, self.model.lists // 32)) * len(self) // len(entries))
                found = probe.approximate(k, lists, count)
        return self._named(found, len(asked), always)

    def _bitmap(self, allowed: Sequence[npt.NDArray[np.bool_] | None] | None) -> npt.NDArray[np.bool_] | None:
        """Which rows across the segments are allowed, or None where all are."""
        if allowed is None or all(part is None for part in allowed):
            return None
        sizes = np.diff(self.bases)
        fits = len(allowed) == len(sizes) and all(
            part is None or part.shape == (size,) for part, size in zip(allowed, sizes, strict=True)
        )
        if not fits:
            raise InvalidArgumentError(
                "`allowed` must have one entry for each segment, of as many rows as its file has"
            )
        return np.concatenate(
            [np.ones(size, np.bool_) if part is None else part for part, size in zip(allowed, sizes, strict=True)]
        )

    def _entries(self, bitmap: npt.NDArray[np.bool_] | None) -> Entries:
        if bitmap is None:
            return Entries(None, self.offsets, in_lists=True)
        chosen = np.flatnonzero(bitmap[self.row])
        return Entries(chosen, np.searchsorted(chosen, self.offsets), in_lists=len(chosen) > FEW * len(self))

    def _named(self, found: Found, queries: int, always: Ints) -> Candidates:
        query, row = found.query, self.row[found.entry].astype(np.int64)
        if len(always):
            kept = np.setdiff1d(np.arange(queries), found.given_up)
            query = np.concatenate([query, np.repeat(kept, len(always))])
            row = np.concatenate([row, np.tile(always, len(kept))])
        order = np.argsort(query, kind="stable")
        query, row = query[order], row[order]
        segment = np.searchsorted(self.bases, row, side="right") - 1
        return Candidates(
            query, segment, row - self.bases[segment], found.probed_lists, found.scored_codes, found.given_up
        )
