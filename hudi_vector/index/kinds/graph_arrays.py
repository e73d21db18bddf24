"""A graph over vectors as plain arrays, checked before a faiss index is made of them.

faiss reads a stored graph without checks: a neighbour that is not a node leads to memory outside the graph. Anyone who
may write to an index's folder could store such a graph, and every reader would open it. Therefore faiss is given only
arrays in which every number was checked. Older segments hold faiss's own form, which is parsed here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DataFileError
from hudi_vector.index.kinds.faiss_library import library
from hudi_vector.index.kinds.kinds import GRAPHS
from hudi_vector.index.kinds.model import Floats32, IndexModel
from hudi_vector.kernels.topk import Ints

__all__ = ["NEIGHBOURS", "GraphArrays", "new_index", "unlinked"]

NEIGHBOURS = 16
"""The most neighbours of a node in each layer above the lowest, which has twice as many."""
_MOST_LAYERS = 8
_LARGEST = 1e32
"""More than any value in the range of a code: vectors with larger elements have no code."""
_LAYER_ENDS = np.array([0, *(NEIGHBOURS * (layer + 2) for layer in range(_MOST_LAYERS))], np.int64)


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """A graph of n nodes as arrays.

    Attributes:
        level: The number of layers of each node, 1 to 8.
        neighbour: For each node in turn, 32 neighbours in the lowest layer and 16 in each further layer, -1 for none.
        entry: One node of the highest layer, where walks begin; empty if n is 0.
        trained: The lowest value of each element, then the width of its range.
        code: The codes of the nodes.
    """

    level: npt.NDArray[np.uint8]
    neighbour: npt.NDArray[np.int32]
    entry: npt.NDArray[np.int32]
    trained: Floats32
    code: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls) -> GraphArrays:
        """Return a graph without nodes."""
        numbers = np.empty(0, np.int32)
        return cls(np.empty(0, np.uint8), numbers, numbers, np.empty(0, np.float32), np.empty(0, np.uint8))

    @classmethod
    def of_index(cls, index: Any) -> GraphArrays:
        """Return copies of the arrays of a faiss IndexHNSWSQ."""
        faiss = library(GRAPHS)
        held, store = index.hnsw, faiss.downcast_index(index.storage)
        return cls(
            faiss.vector_to_array(held.levels).astype(np.uint8),
            faiss.vector_to_array(held.neighbors),
            np.array([held.entry_point], np.int32),
            faiss.vector_to_array(store.sq.trained),
            faiss.vector_to_array(store.codes),
        )

    @classmethod
    def of_bytes(cls, model: IndexModel, graph: npt.NDArray[np.uint8]) -> GraphArrays:
        """Return the graph in an IndexHNSWSQ written by faiss 1.15; raise ValueError for any other bytes."""
        if not len(graph):
            return cls.empty()
        parts = _Parts(graph.tobytes())
        parts.header(b"IHNs", model)
        parts.vector("<f8")
        parts.vector("<i4")
        level, _, neighbour = parts.vector("<i4"), parts.vector("<u8"), parts.vector("<i4")
        entry, *_ = parts.take("<iiiii")
        parts.header(b"IxSQ", model)
        parts.take("<iifQQ")
        trained, code = parts.vector("<f4"), parts.vector("<u1")
        if parts.at != len(parts.data) or ((level < 1) | (level > _MOST_LAYERS)).any():
            raise ValueError("it does not have the form in which faiss 1.15 writes a graph")
        return cls(level.astype(np.uint8), neighbour, np.array([entry], np.int32), trained, code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphArrays) and all(
            np.array_equal(mine, theirs) and mine.dtype == theirs.dtype
            for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """Return the total bytes of the arrays."""
        return sum(array.nbytes for array in vars(self).values())

    @property
    def starts(self) -> Ints:
        """Return where the neighbours of each node begin, followed by the end of the last node's neighbours."""
        return np.concatenate(([0], np.cumsum(_LAYER_ENDS[self.level])))

    def require_sense(self, model: IndexModel, nodes: int) -> None:
        """Raise ValueError unless the arrays form a graph of so many nodes over vectors of the model.

        With any other numbers faiss could read memory outside the graph.
        """
        kinds = (np.uint8, np.int32, np.int32, np.float32, np.uint8)
        if any(array.dtype != kind for array, kind in zip(vars(self).values(), kinds, strict=True)):
            raise ValueError("its arrays have other types")
        if len(self.level) != nodes or len(self.entry) != min(nodes, 1):
            raise ValueError(f"it has {len(self.level)} nodes, not {nodes}")
        if not nodes:
            return
        if self.level.min() < 1 or self.level.max() > _MOST_LAYERS:
            raise ValueError("a node is in no layer, or in too many")
        if len(self.neighbour) != self.starts[-1] or self.neighbour.min() < -1 or self.neighbour.max() >= nodes:
            raise ValueError("a neighbour is no node")
        entry = int(self.entry[0])
        if not 0 <= entry < nodes or self.level[entry] != self.level.max():
            raise ValueError("walks would not begin at a node of the highest layer")
        self._require_layers()
        bits = model.dimension * model.num_bits
        # The limit keeps distances finite; NaN would misdirect walks.
        in_range = len(self.trained) == 2 * model.dimension and bool((np.abs(self.trained) <= _LARGEST).all())
        if not in_range or len(self.code) != nodes * -(-bits // 8):
            raise ValueError("its codes are not those of the model")

    def _require_layers(self) -> None:
        """Raise ValueError if a neighbour in a layer is not in that layer."""
        starts = self.starts
        for layer in range(1, int(self.level.max())):
            nodes = np.flatnonzero(self.level > layer)
            places = starts[nodes][:, None] + np.arange(_LAYER_ENDS[layer], _LAYER_ENDS[layer + 1])
            found = self.neighbour[places]
            if (self.level[found[found >= 0]] <= layer).any():
                raise ValueError("a neighbour is not in its layer")

    def opened(self, model: IndexModel) -> Any:
        """Return a faiss index with copies of these arrays, which `require_sense` must have checked.

        Raises DataFileError if the installed faiss has graphs of another form, and MissingDependencyError if faiss is
        not installed.
        """
        faiss = library(GRAPHS)
        index = new_index(model)
        held, store = index.hnsw, faiss.downcast_index(index.storage)
        ends, nodes = faiss.vector_to_array(held.cum_nneighbor_per_level), len(self.level)
        if not np.array_equal(ends, _LAYER_ENDS) or store.code_size * nodes != len(self.code):
            raise DataFileError(f"faiss {faiss.__version__} has graphs of another form; make the index again")
        copied = {
            "levels": self.level.astype(np.int32),
            "offsets": self.starts.astype(np.uint64),
            "neighbors": np.ascontiguousarray(self.neighbour),
        }
        for name, array in copied.items():
            faiss.copy_array_to_vector(array, getattr(held, name))
        faiss.copy_array_to_vector(np.ascontiguousarray(self.trained), store.sq.trained)
        faiss.copy_array_to_vector(np.ascontiguousarray(self.code), store.codes)
        held.entry_point, held.max_level = int(self.entry[0]), int(self.level.max()) - 1
        for each in (index, store):
            each.ntotal, each.is_trained = nodes, True
        return index


def new_index(model: IndexModel) -> Any:
    """Return an empty faiss IndexHNSWSQ for the vectors of a model."""
    faiss = library(GRAPHS)
    scalar = faiss.ScalarQuantizer
    code = scalar.QT_4bit if model.num_bits == 4 else scalar.QT_8bit
    metric = faiss.METRIC_INNER_PRODUCT if model.by_products else faiss.METRIC_L2
    return faiss.IndexHNSWSQ(model.dimension, code, NEIGHBOURS, metric)


@dataclass
class _Parts:
    """A reader of faiss's stored form, with its position."""

    data: bytes
    at: int = 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Return the numbers of a `struct` format and advance; raise ValueError at the end of the data."""
        try:
            found = struct.unpack_from(form, self.data, self.at)
        except struct.error as problem:
            raise ValueError(f"it ends too early: {problem}") from None
        self.at += struct.calcsize(form)
        return found

    def vector(self, kind: str) -> npt.NDArray[Any]:
        """Return an array stored after its length, as a view, and advance; raise ValueError if it does not fit."""
        (length,) = self.take("<Q")
        size = np.dtype(kind).itemsize
        if length > (len(self.data) - self.at) // size:
            raise ValueError(f"an array of {length} numbers does not fit into it")
        found = np.frombuffer(self.data, kind, length, self.at)
        self.at += length * size
        return found

    def header(self, name: bytes, model: IndexModel) -> None:
        """Read the header of an index or of its storage; raise ValueError if it is not of this name and model."""
        found, dimension, _, _, _, _, metric = self.take("<4siqqq?i")
        if found != name or dimension != model.dimension or metric != (0 if model.by_products else 1):
            raise ValueError(f"it is no {name.decode()} of the model")


def unlinked(graph: Any, gone: Ints) -> Any:
    """Return a copy of a faiss ``IndexHNSWSQ`` without the links to the nodes `gone`.

    None, which means a graph without nodes, is returned unchanged, as is the graph if `gone` is empty.
    """
    if graph is None or not len(gone):
        return graph
    faiss = library(GRAPHS)
    copied = faiss.clone_index(graph)
    links = faiss.vector_to_array(copied.hnsw.neighbors)
    first = faiss.vector_to_array(copied.hnsw.offsets).astype(np.int64)
    levels = faiss.vector_to_array(copied.hnsw.cum_nneighbor_per_level).astype(np.int64)
    at = np.flatnonzero(np.isin(links, gone))
    node = np.searchsorted(first, at, side="right") - 1
    level = np.searchsorted(levels, at - first[node], side="right") - 1
    ends = zip((first[node] + levels[level]).tolist(), (first[node] + levels[level + 1]).tolist(), strict=True)
    for start, stop in set(ends):
        # faiss reads a node's links up to the first -1, so the remaining links move to the front.
        held = links[start:stop]
        kept = held[~np.isin(held, gone)]
        held[: len(kept)], held[len(kept) :] = kept, -1
    faiss.copy_array_to_vector(links, copied.hnsw.neighbors)
    return copied
