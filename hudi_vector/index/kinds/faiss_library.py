"""Access to faiss, which the extra ``faiss`` installs: training and encoding of product codes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from hudi_vector.errors import MissingDependencyError
from hudi_vector.kernels.product import Codes, Floats32, code_bytes

__all__ = ["encode", "is_installed", "library", "set_codebook", "train_codebook"]


def is_installed() -> bool:
    """Return True if faiss is installed, without loading it."""
    return find_spec("faiss") is not None


def library(kind: str) -> Any:
    """Return the module ``faiss``; raise MissingDependencyError, naming the kind of index, if it is not installed."""
    try:
        import faiss
    except ImportError as absent:
        raise MissingDependencyError.of("faiss-cpu", "faiss", f"an index of kind {kind}") from absent
    return faiss


def train_codebook(rows: Floats32, parts: int, bits: int, iterations: int) -> Floats32:
    """Train the codebook of a product quantiser, shape (parts, 2^bits, d / parts).

    The rows have shape (n, d), with n at least 1, and `parts` divides d. `iterations` is the number of k-means
    iterations.
    """
    quantiser = library("ivf_pq").ProductQuantizer(rows.shape[1], parts, bits)
    quantiser.cp.niter = iterations
    quantiser.cp.min_points_per_centroid = 1
    # faiss needs at least as many rows as a codebook has entries.
    rows = np.tile(rows, (-(-quantiser.ksub // len(rows)), 1)) if len(rows) < quantiser.ksub else rows
    quantiser.train(np.ascontiguousarray(rows))
    codebook: Floats32 = _flat_codebook(quantiser).reshape(parts, 1 << bits, -1).copy()
    return codebook


def encode(rows: Floats32, codebook: Floats32, bits: int) -> Codes:
    """Return the code of each vector, the nearest codebook entry for each part, shape (n, bytes)."""
    if not len(rows):
        return np.empty((0, code_bytes(len(codebook), bits)), np.uint8)
    quantiser = library("ivf_pq").ProductQuantizer(rows.shape[1], len(codebook), bits)
    set_codebook(quantiser, codebook)
    codes: Codes = quantiser.compute_codes(np.ascontiguousarray(rows))
    return codes


def set_codebook(quantiser: Any, codebook: Floats32) -> None:
    """Copy a trained codebook into a faiss ``ProductQuantizer`` of the same shape."""
    _flat_codebook(quantiser)[:] = codebook.reshape(-1)


def _flat_codebook(quantiser: Any) -> Floats32:
    """Return a quantiser's codebook as a flat view, not a copy."""
    faiss = library("ivf_pq")
    held: Floats32 = faiss.rev_swig_ptr(quantiser.centroids.data(), quantiser.centroids.size())
    return held
