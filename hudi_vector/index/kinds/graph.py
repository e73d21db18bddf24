"""The kind ``hnsw``: a graph over the vectors of each base file, built and searched by faiss file by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.candidates import (
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
from hudi_vector.index.kinds.faiss_library import library
from hudi_vector.index.kinds.graph_arrays import NEIGHBOURS, GraphArrays, new_index, unlinked
from hudi_vector.index.kinds.kinds import GRAPHS
from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel, working
from hudi_vector.index.kinds.probe import Entries, Found, everything
from hudi_vector.index.kinds.segment import FileFingerprint, require_dimension, require_positions
from hudi_vector.index.side_arrays import Arrays
from hudi_vector.kernels.topk import Ints, VectorBlock
from hudi_vector.read.parquet.page_table import PageTable

__all__ = ["GraphSegment", "GraphView", "build_graph"]

_STORED = tuple(each.name for each in fields(GraphArrays))
_BUILD_EFFORT = 100
_USUAL_EFFORT = 64
_SPARE = 2
"""Safety factor of a filtered walk: it keeps this many times the rows expected to contain enough allowed ones."""
_EFFORTS = (16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class GraphSegment:
    """The graph of one base file.

    `position` has the row of each node in the base file, and `graph` the graph over them, without nodes if no row has a
    code. `always` are positions of rows without a code, which are candidates of every query. `pages` is the page table
    of the base file, or None if unknown.
    """

    file: FileFingerprint
    model_id: str
    rows: int
    position: npt.NDArray[np.uint32]
    graph: GraphArrays
    always: Ints
    clipped: int = 0
    pages: PageTable | None = None

    ARRAYS: ClassVar = ("position", *_STORED, "always")

    @classmethod
    def of(cls, model: IndexModel, file: FileFingerprint, header: Mapping[str, Any], arrays: Arrays) -> GraphSegment:
        """Return a segment from the header and arrays of its file.

        Raises ValueError if the arrays do not form a graph or do not fit the model, and KeyError if one is missing.
        """
        if "graph" in arrays:  # an old segment in faiss's form
            graph = GraphArrays.of_bytes(model, arrays["graph"])
        else:
            graph = GraphArrays(*(arrays[name] for name in _STORED))
        rows, position, always = header["rows"], arrays["position"], arrays["always"]
        require_positions(rows, position, always)
        graph.require_sense(model, len(position))
        return cls(file, model.model_id, rows, position, graph, always)

    def __getattr__(self, name: str) -> Any:
        """Return an array of the graph by its name in the file; raise AttributeError for any other name."""
        if name in _STORED:
            return getattr(self.graph, name)
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.position)


def build_graph(model: IndexModel, file: FileFingerprint, vectors: Iterator[VectorBlock], rows: int) -> GraphSegment:
    """Make the graph of a base file, with all its vectors in memory.

    `vectors` yields the valid vectors and their row positions; `rows` counts all rows of the file. Raises
    DimensionMismatchError if the vectors have another dimension than the model, and MissingDependencyError if faiss is
    not installed.
    """
    library(GRAPHS)
    parts = [np.empty((0, model.dimension), np.float32)]
    position, always = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for block in vectors:
        require_dimension(model, file, block)
        values, fit = working(block.values, model.metric)
        parts.append(values[fit].astype(np.float32))
        position.append(block.positions[fit])
        always.append(block.positions[~fit])
    nodes = np.concatenate(parts)
    graph = GraphArrays.empty()
    if len(nodes):
        index = new_index(model)
        index.hnsw.efConstruction = _BUILD_EFFORT
        index.train(nodes)
        index.add(nodes)
        graph = GraphArrays.of_index(index)
    places = np.concatenate(position).astype(np.uint32)
    return GraphSegment(file, model.model_id, rows, places, graph, np.sort(np.concatenate(always)))


@dataclass(frozen=True)
class GraphView:
    """Graphs of one model, each of which is searched and the results merged.

    Graph s has the entries ``starts[s]`` to ``starts[s + 1]`` of `row`; it is None if it has no nodes. `gone` marks
    entries that no node links to and that are not found when all codes are scored either.
    """

    model: IndexModel
    graphs: tuple[Any, ...]
    starts: Ints
    row: npt.NDArray[Any]
    always: Ints
    bases: Ints
    nbytes: int
    pages: tuple[PageTable | None, ...]
    gone: npt.NDArray[np.bool_] | None = None

    @classmethod
    def join(cls, model: IndexModel, segments: Sequence[GraphSegment]) -> GraphView:
        """Open the graphs of segments, to which candidates refer by their position in `segments`.

        Raises InvalidArgumentError if a segment is of another model, DataFileError if the installed faiss has graphs of
        another form, and MissingDependencyError if faiss is not installed.
        """
        for segment in segments:
            require_model(segment.file, segment.model_id, model)
        bases = bases_of(segment.rows for segment in segments)
        pages = tuple(segment.pages for segment in segments)
        none = np.empty(0, np.int64)
        row = [segment.position + base for base, segment in zip(bases[:-1], segments, strict=True)]
        always = [segment.always + base for base, segment in zip(bases[:-1], segments, strict=True)]
        return cls(
            model,
            tuple(segment.graph.opened(model) if len(segment) else None for segment in segments),
            bases_of(len(segment) for segment in segments),
            np.concatenate([none, *row]),
            np.concatenate([none, *always]),
            bases,
            sum(segment.graph.nbytes + 8 * len(segment) for segment in segments) + bytes_of(pages),
            pages,
        )

    def __len__(self) -> int:
        return len(self.row)

    @property
    def footers(self) -> tuple[None, ...]:
        """Return nothing for each segment: graphs keep no footers."""
        return (None,) * len(self.pages)

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
        """Return values of faiss's efSearch (rows that a walk keeps) worth trying, ascending to all rows."""
        largest = max(1, int(np.diff(self.starts).max(initial=0)))
        return [*(effort for effort in _EFFORTS if effort < largest), largest]

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
            nprobes: The number of rows that a walk through a graph keeps (faiss's efSearch), 64 by default. With a
                filter a walk keeps more, and all codes are scored if few rows are allowed or a walk found fewer than k.
            candidates: The number of candidates of each query; by default twice k, at least k + 10.
            certain: Whether every row of the true k nearest must be among the candidates. No walk ensures that, so all
                rows are returned.
            allowed: For each segment, the rows of its base file that may be found: bool of shape (rows,), or None
                for all.
            most: The most candidates of a query in a certain search; a query with more is given up.
        """
        points, fit = working(fitting(queries, self.model), self.model.metric)
        bitmap = bitmap_of(allowed, self.bases)
        masks = None if bitmap is None else bitmap[self.row]
        entries = Entries(None if masks is None else np.flatnonzero(masks), self._ends(masks), in_lists=False)
        if certain or len(entries) <= k:
            found = everything(np.arange(len(points)), entries, most if certain else None)
        else:
            odd = everything(np.flatnonzero(~fit), entries)
            count = usual_count(k, candidates)
            found = self._walked(points, np.flatnonzero(fit), nprobes or _USUAL_EFFORT, count, masks, odd)
        return candidates_of(found, self.row, self.bases, len(points), self.always, bitmap)

    @property
    def best_first(self) -> bool:
        """Return False: a walk that keeps more rows also goes elsewhere."""
        return False

    def need_rows(self) -> None:
        """Do nothing: the rows of a graph are in memory."""

    def cost_of(self, allowed: Allowed) -> int:
        """Return 0: all codes are in memory."""
        del allowed
        return 0

    def spend(self, cost: int) -> None:
        """Do nothing: codes cost nothing."""

    def without(self, segment: Ints, position: Ints) -> GraphView:
        """Return a view in which no node links to the given rows; segment -1 means a row outside the view.

        A query that is itself a node would be led to its neighbours by its own links, and find more than other queries
        do. Rows of a graph stay if it is so small that all its codes are scored instead of a walk.
        """
        known = segment >= 0
        gone = np.isin(self.row, self.bases[segment[known]] + position[known])
        sizes = np.diff(self.starts)
        gone &= np.repeat(2 * NEIGHBOURS * _EFFORTS[0] < sizes, sizes)
        parts = np.split(gone, self.starts[1:-1])
        graphs = [unlinked(graph, np.flatnonzero(part)) for graph, part in zip(self.graphs, parts, strict=True)]
        return replace(self, graphs=tuple(graphs), gone=gone)

    @property
    def hidden(self) -> tuple[Ints, Ints]:
        """Return the segments and positions of the rows that no walk reaches."""
        rows = np.empty(0, np.int64) if self.gone is None else self.row[self.gone].astype(np.int64)
        segment = np.searchsorted(self.bases, rows, side="right") - 1
        return segment, rows - self.bases[segment]

    def _ends(self, masks: npt.NDArray[np.bool_] | None) -> Ints:
        return np.array([0, len(self) if masks is None else int(masks.sum())])

    def _walked(
        self,
        points: Floats64,
        ask: Ints,
        effort: int,
        count: int,
        masks: npt.NDArray[np.bool_] | None,
        odd: Found,
    ) -> Found:
        """Return the best rows of all graphs for the queries `ask`, followed by those of `odd`.

        The queries `ask` must be ones for which `working` returns True; `odd` has the result for the other queries.
        """
        asked = np.ascontiguousarray(points[ask], np.float32)
        ranks, entries = [np.empty((len(ask), 0), np.float32)], [np.empty((len(ask), 0), np.int64)]
        scored = 0
        for graph, start, stop in zip(self.graphs, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            mask = None if masks is None else masks[start:stop]
            selected = stop - start if mask is None else int(mask.sum())
            if graph is None or not selected or not len(ask):
                continue
            mask = None if selected == stop - start else mask
            gone = None if self.gone is None else self.gone[start:stop]
            rank, entry, looked_at = _Walk(graph, stop - start, mask, selected, gone).nearest(asked, effort, count)
            ranks.append(rank)
            entries.append(entry + start)
            scored += looked_at
        rank, entry = np.concatenate(ranks, axis=1), np.concatenate(entries, axis=1)
        if entry.shape[1] > count:
            order = np.argpartition(-rank if self.model.by_products else rank, count - 1, axis=1)
            entry = np.take_along_axis(entry, order[:, :count], axis=1)
        query = np.repeat(ask, entry.shape[1])
        unseen = np.full(len(points), np.inf)
        unseen[ask] = -np.inf
        every = np.concatenate([query, odd.query]), np.concatenate([entry.ravel(), odd.entry])
        return Found(*every, 0, scored, odd.given_up, unseen)


@dataclass(frozen=True)
class _Walk:
    """One graph of `total` entries, and the `selected` number of entries that may be found; without a mask, all may."""

    graph: Any
    total: int
    mask: npt.NDArray[np.bool_] | None
    selected: int
    gone: npt.NDArray[np.bool_] | None = None

    def nearest(self, asked: Floats32, effort: int, count: int) -> tuple[Floats32, Ints, int]:
        """Return ranks and entries for each query, and the approximate number of scored codes.

        A walk ignores the mask. It keeps as many rows as should contain the wanted number of selected ones. If they do
        not, because few selected rows are near the query, all selected rows are scored. So each query gets `count`
        entries, or all selected ones, as near as without a mask.
        """
        count = min(count, self.selected)
        effort = in_view = max(effort, count)
        if self.mask is not None:
            effort = int(_SPARE * effort * self.total / self.selected)
        if 2 * NEIGHBOURS * effort >= self.total:
            return (*self._scored(asked, count), len(asked) * self.total)
        kept = count if self.mask is None else effort
        rank, entry = self.graph.search(asked, kept, params=_walking(effort))
        few = np.flatnonzero(entry[:, -1] < 0)
        if self.mask is not None:
            entry[~self.mask[entry]] = -1
            few = np.flatnonzero((entry >= 0).sum(axis=1) < in_view)
            first = np.argsort(entry < 0, axis=1, kind="stable")[:, :count]
            rank, entry = np.take_along_axis(rank, first, axis=1), np.take_along_axis(entry, first, axis=1)
        if len(few):
            rank[few], entry[few] = self._scored(asked[few], count)
        return rank, entry, 2 * NEIGHBOURS * effort * len(asked) + self.total * len(few)

    def _scored(self, asked: Floats32, count: int) -> tuple[Floats32, Ints]:
        """Return ranks and entries for each query by scoring all selected codes."""
        faiss = library(GRAPHS)
        selector, mask = None, self.mask
        if self.gone is not None:
            mask = ~self.gone if mask is None else mask & ~self.gone
        if mask is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        codes = faiss.downcast_index(self.graph.storage)
        rank, entry = codes.search(asked, count, params=faiss.SearchParameters(sel=selector))
        return rank, entry


@lru_cache(maxsize=64)
def _walking(effort: int) -> Any:
    return library(GRAPHS).SearchParametersHNSW(efSearch=effort)
