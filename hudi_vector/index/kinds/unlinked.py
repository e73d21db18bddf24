"""Graphs of faiss in which no node leads to some of the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hudi_vector.index.kinds.faiss_library import library
from hudi_vector.index.kinds.kinds import GRAPHS
from hudi_vector.kernels.topk import Ints

__all__ = ["unlinked"]


def unlinked(graph: Any, gone: Ints) -> Any:
    """A copy of a graph without the links that lead to some nodes.

    Args:
        graph: An ``IndexHNSWSQ``, or None for that of no nodes.
        gone: The nodes.
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
        # A walk takes the links of a node up to the first that is none.
        held = links[start:stop]
        kept = held[~np.isin(held, gone)]
        held[: len(kept)], held[len(kept) :] = kept, -1
    faiss.copy_array_to_vector(links, copied.hnsw.neighbors)
    return copied
