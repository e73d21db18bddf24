"""The only door to faiss, which comes with the extra ``faiss``: what it trains, encodes and builds."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from hudi_vector.errors import MissingDependencyError
from hudi_vector.kernels.product import Codes, Floats32, code_bytes

__all__ = ["encode", "is_installed", "library", "set_codebook", "train_codebook"]


def is_installed() -> bool:
    """Whether faiss is there, without loading it."""
    return find_spec("faiss") is not None


def library(kind: str) -> Any:
    """The module ``faiss``.

    Args:
        kind: The kind of index that needs it, for the message.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import faiss
    except ImportError as absent:
        raise MissingDependencyError.of("faiss-cpu", "faiss", f"an index of kind {kind}") from absent
    return faiss


def train_codebook(rows: Floats32, parts: int, bits: int, iterations: int) -> Floats32:
    """What the codes of each part of a vector stand for.

    Args:
        rows: Vectors, shape (n, d), n at least 1.
        parts: Parts of a vector; they divide d.
        bits: Bits of a part's code.
        iterations: Rounds of k-means.

    Returns:
        Shape (parts, 2^bits, d / parts).
    """
    quantiser = library("ivf_pq").ProductQuantizer(rows.shape[1], parts, bits)
    quantiser.cp.niter = iterations
    quantiser.cp.min_points_per_centroid = 1
    # There must be as many rows as a codebook has entries.
    rows = np.tile(rows, (-(-quantiser.ksub // len(rows)), 1)) if len(rows) < quantiser.ksub else rows
    quantiser.train(np.ascontiguousarray(rows))
    codebook: Floats32 = _flat_codebook(quantiser).reshape(parts, 1 << bits, -1).copy()
    return codebook


def encode(rows: Floats32, codebook: Floats32, bits: int) -> Codes:
    """The code of each vector: for each part the nearest in the codebook.

    Args:
        rows: Vectors, shape (n, d).
        codebook: From `train_codebook`.
        bits: Bits of a part's code.

    Returns:
        Shape (n, bytes).
    """
    if not len(rows):
        return np.empty((0, code_bytes(len(codebook), bits)), np.uint8)
    quantiser = library("ivf_pq").ProductQuantizer(rows.shape[1], len(codebook), bits)
    set_codebook(quantiser, codebook)
    codes: Codes = quantiser.compute_codes(np.ascontiguousarray(rows))
    return codes


def set_codebook(quantiser: Any, codebook: Floats32) -> None:
    """Give a product quantiser of faiss a codebook that was trained before.

    Args:
        quantiser: A ``ProductQuantizer`` of the codebook's shape.
        codebook: From `train_codebook`.
    """
    _flat_codebook(quantiser)[:] = codebook.reshape(-1)


def _flat_codebook(quantiser: Any) -> Floats32:
    """A quantiser's own codebook, not a copy."""
    faiss = library("ivf_pq")
    held: Floats32 = faiss.rev_swig_ptr(quantiser.centroids.data(), quantiser.centroids.size())
    return held
