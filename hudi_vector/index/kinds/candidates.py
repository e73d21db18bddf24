"""What a view of an index is asked, and what it answers, whatever the kind of index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.kinds.model import Floats64, IndexModel
from hudi_vector.index.kinds.probe import Found
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.page_table import PageTable

__all__ = [
    "FEW",
    "Allowed",
    "Candidates",
    "View",
    "bases_of",
    "bitmap_of",
    "bytes_of",
    "candidates_of",
    "fitting",
    "require_model",
    "usual_count",
]

Allowed = Sequence[npt.NDArray[np.bool_] | None] | None
"""For each segment which rows of its base file may be found, bool of shape (rows,), or None for all."""

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


class View(Protocol):
    """Segments of one model, joined in memory: what every kind of index can be asked."""

    @property
    def model(self) -> IndexModel:
        """The model of all segments."""

    @property
    def row(self) -> npt.NDArray[Any]:
        """The rows that can be found, numbered across the segments: segment s has the rows from ``bases[s]`` on."""

    @property
    def bases(self) -> Ints:
        """The first row of each segment, and behind the last the number of all."""

    @property
    def pages(self) -> tuple[PageTable | None, ...]:
        """Where the vectors lie in the base file of each segment; None where it does not say."""

    @property
    def rows(self) -> int:
        """Rows of the segments' base files."""

    @property
    def vectors(self) -> int:
        """Rows that have a vector, with a code or without."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""

    @property
    def efforts(self) -> list[int]:
        """Values of ``nprobes`` that are worth trying, ascending to one that misses nothing."""

    def __len__(self) -> int:
        """How many rows have a code."""

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
        """Rows that may be among the k nearest of each query."""

    def without(self, segment: Ints, position: Ints) -> View:
        """A view in which rows that ask are no help to themselves; those of segment -1 are in none."""

    @property
    def hidden(self) -> tuple[Ints, Ints]:
        """Rows that are not found for that reason: their segments, and their positions in the base files."""


def fitting(queries: npt.NDArray[Any], model: IndexModel) -> Floats64:
    """Queries as rows of float64.

    Args:
        queries: Shape (m, d), or (d,) for one.
        model: The index's model.

    Raises:
        InvalidArgumentError: They have another dimension.
    """
    rows: Floats64 = np.atleast_2d(np.asarray(queries, np.float64))
    if rows.shape[1] != model.dimension:
        raise InvalidArgumentError(f"queries have {rows.shape[1]} elements and the index is of {model.dimension}")
    return rows


def require_model(file: FileFingerprint, model_id: str, model: IndexModel) -> None:
    """Refuse a segment of another model.

    Args:
        file: The segment's base file.
        model_id: The segment's model.
        model: The model of the view.

    Raises:
        InvalidArgumentError: They are not the same.
    """
    if model_id != model.model_id:
        raise InvalidArgumentError(
            f"the segment of '{file.path}' is of the model {model_id}, not of {model.model_id}; build it anew"
        )


def bases_of(rows: Iterable[int]) -> Ints:
    """The first row of each segment, numbered across the segments, and behind the last the number of all.

    Args:
        rows: Rows of each segment's base file.

    Example:
        >>> bases_of([3, 4]).tolist()
        [0, 3, 7]
    """
    bases: Ints = np.concatenate(([0], np.cumsum(list(rows), dtype=np.int64)))
    return bases


def bytes_of(pages: Iterable[PageTable | None]) -> int:
    """The bytes that page tables take in memory."""
    return sum(table.nbytes for table in pages if table is not None)


def bitmap_of(allowed: Allowed, bases: Ints) -> npt.NDArray[np.bool_] | None:
    """Which rows across the segments are allowed, or None where all are.

    Args:
        allowed: The same for each segment.
        bases: The first row of each segment.

    Raises:
        InvalidArgumentError: The bitmaps do not fit the segments.
    """
    if allowed is None or all(part is None for part in allowed):
        return None
    sizes = np.diff(bases)
    fits = len(allowed) == len(sizes) and all(
        part is None or part.shape == (size,) for part, size in zip(allowed, sizes, strict=True)
    )
    if not fits:
        raise InvalidArgumentError("`allowed` must have one entry for each segment, of as many rows as its file has")
    return np.concatenate(
        [np.ones(size, np.bool_) if part is None else part for part, size in zip(allowed, sizes, strict=True)]
    )


def usual_count(k: int, candidates: int | None) -> int:
    """How many candidates a query gets that need not be certain.

    Args:
        k: How many rows are wanted.
        candidates: How many candidates were asked for; by default twice k, at least k + 10.

    Example:
        >>> usual_count(3, None), usual_count(30, None), usual_count(3, 1)
        (13, 60, 3)
    """
    return max(candidates or max(2 * k, k + 10), k)


def candidates_of(
    found: Found,
    row: npt.NDArray[Any],
    bases: Ints,
    queries: int,
    always: Ints,
    bitmap: npt.NDArray[np.bool_] | None,
) -> Candidates:
    """Candidates as rows of segments.

    Args:
        found: Entries of a view.
        row: The row of each entry, numbered across the segments.
        bases: The first row of each segment.
        queries: How many queries there are.
        always: Rows that are candidates of every query that was not given up, where they are allowed.
        bitmap: Which rows are allowed, or None where all are.
    """
    if bitmap is not None:
        always = always[bitmap[always]]
    query, rows = found.query, row[found.entry].astype(np.int64)
    if len(always):
        kept = np.setdiff1d(np.arange(queries), found.given_up)
        query = np.concatenate([query, np.repeat(kept, len(always))])
        rows = np.concatenate([rows, np.tile(always, len(kept))])
    order = np.argsort(query, kind="stable")
    query, rows = query[order], rows[order]
    segment = np.searchsorted(bases, rows, side="right") - 1
    return Candidates(query, segment, rows - bases[segment], found.probed_lists, found.scored_codes, found.given_up)
