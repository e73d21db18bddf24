"""The model of an index: where its lists are and how its codes are made, trained once for a table and column."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.kernels import kmeans, quantise
from hudi_vector.kernels.metrics import metric_named

__all__ = [
    "ELEMENTS",
    "KINDS",
    "Floats32",
    "IndexModel",
    "check_choices",
    "default_partitions",
    "sample_size",
    "train_model",
    "working",
]

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

KINDS = ("ivf_flat", "ivf_sq8")
ELEMENTS = ("float", "double", "int8")
MOST_PARTITIONS = 4096
SAMPLE_PER_PARTITION = 256

_SAFE_LOW, _SAFE_HIGH = float(np.finfo(np.float32).tiny) ** 0.8, float(np.finfo(np.float32).max) ** 0.8


@dataclass(frozen=True)
class IndexModel:
    """Where the lists of an index are and how its codes are made.

    `centroids` has shape (lists, d); `low` and `scale` (d,) for ``ivf_sq8`` and are empty for ``ivf_flat``; all
    float32, in the space of `working`. `model_id` is made of all the rest.
    """

    model_id: str
    kind: str
    metric: str
    dimension: int
    element: str
    centroids: Floats32
    low: Floats32
    scale: Floats32

    @property
    def lists(self) -> int:
        """How many lists there are."""
        return len(self.centroids)

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """The type of one element of a code."""
        return np.dtype(np.uint8) if self.kind == "ivf_sq8" else np.dtype("<f4")

    @cached_property
    def origin(self) -> Floats64:
        """The mean of the centroids, shape (d,): near it, numbers are small and float32 is exact."""
        mean: Floats64 = self.centroids.mean(axis=0, dtype=np.float64)
        return mean

    @cached_property
    def origin_length(self) -> float:
        """The length of the origin."""
        return float(np.linalg.norm(self.origin))

    @cached_property
    def centred(self) -> Floats32:
        """The centroids as seen from the origin."""
        return (self.centroids - self.origin).astype(np.float32)

    @cached_property
    def centred_squares(self) -> Floats32:
        """Their squared lengths."""
        return np.asarray(np.einsum("ij,ij->i", self.centred, self.centred), np.float32)

    @cached_property
    def base(self) -> Floats64:
        """The vector that a code of zeros stands for, shape (d,)."""
        return self.low.astype(np.float64) if self.kind == "ivf_sq8" else np.zeros(self.dimension)

    @cached_property
    def base_length(self) -> float:
        """The length of that vector."""
        return float(np.linalg.norm(self.base))


def default_partitions(rows: int) -> int:
    """How many lists an index over so many rows has: about the square root, 1 to 4,096.

    Then looking at all centroids costs about as much as looking at one list.

    Example:
        >>> default_partitions(0), default_partitions(400_000), default_partitions(10**9)
        (1, 632, 4096)
    """
    return min(max(round(math.sqrt(rows)), 1), MOST_PARTITIONS)


def sample_size(partitions: int) -> int:
    """How many rows training wants: 256 for each list."""
    return partitions * SAMPLE_PER_PARTITION


def working(values: npt.NDArray[Any], metric: str) -> tuple[Floats64, Mask]:
    """Rows in the space that lists and codes divide: of length 1 for cosine, as they are otherwise.

    Args:
        values: Vectors, shape (n, d).
        metric: The metric.

    Returns:
        Rows, float64, shape (n, d), and which of them can have codes, shape (n,): those that are finite, within
        float32's safe range and, for cosine, not zero. The others' values mean nothing.
    """
    rows = np.array(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        if metric != "cosine":
            return rows, (squares <= _SAFE_HIGH) & ((squares >= _SAFE_LOW) | ~rows.any(axis=1))
        fit = (squares >= 1e-280) & (squares <= 1e280)
        rows /= np.sqrt(squares)[:, None]
    return rows, fit


def train_model(
    sample: npt.NDArray[Any],
    *,
    kind: str = "ivf_sq8",
    metric: str,
    element: str,
    num_partitions: int | None = None,
    rows: int | None = None,
    max_iters: int = 8,
    seed: int = 0,
) -> IndexModel:
    """Train the model of an index on some of a column's vectors.

    The same sample and arguments give the same model, with the same id, on one machine. An empty sample gives one list.

    Args:
        sample: Vectors, shape (n, d); more than 256 for each list are not looked at.
        kind: ``"ivf_sq8"``, one byte for each element, or ``"ivf_flat"``, four.
        metric: A metric's name.
        element: ``"float"``, ``"double"`` or ``"int8"``: how the column stores its elements.
        num_partitions: How many lists; by default about the square root of `rows`, 1 to 4,096. Never more than
            vectors in the sample.
        rows: How many rows the table has; by default as many as the sample.
        max_iters: Iterations of k-means, at most.
        seed: Chooses rows where chance does.

    Returns:
        The model.

    Raises:
        InvalidArgumentError: An argument is not what is described here.

    Example:
        >>> model = train_model(np.random.default_rng(0).normal(size=(100, 4)), metric="l2", element="float")
        >>> model.lists, model.kind
        (10, 'ivf_sq8')
    """
    metric = metric_named(metric)
    check_choices(kind, num_partitions, max_iters)
    _check(sample, element)
    chance = np.random.default_rng(seed)
    wanted = num_partitions or default_partitions(len(sample) if rows is None else rows)
    if len(sample) > sample_size(wanted):
        sample = sample[np.sort(chance.choice(len(sample), sample_size(wanted), replace=False))]
    vectors, fit = working(sample, metric)
    vectors = vectors[fit]
    dimension = sample.shape[1]
    if not len(vectors):
        vectors = np.zeros((1, dimension))
    origin = vectors.mean(axis=0)
    centred = kmeans.train(vectors - origin, min(wanted, len(vectors)), iterations=max_iters, seed=seed)
    low = scale = np.empty(0, np.float32)
    if kind == "ivf_sq8":
        low, scale = quantise.ranges(vectors)
    centroids = np.ascontiguousarray(centred + origin, np.float32)
    return _named(IndexModel("", kind, metric, dimension, element, centroids, low, scale))


def check_choices(kind: str, num_partitions: int | None, max_iters: int | None) -> None:
    """Refuse what no model can be trained with, before vectors are read for it.

    Args:
        kind: The kind of index.
        num_partitions: How many lists, None for the default.
        max_iters: Iterations of k-means, None for the default.

    Raises:
        InvalidArgumentError: One of them is not allowed.
    """
    if kind not in KINDS:
        raise InvalidArgumentError(f"unknown kind of index {kind!r}; give {' or '.join(KINDS)}")
    if num_partitions is not None and not 1 <= num_partitions <= 1 << 20:
        raise InvalidArgumentError(f"num_partitions is {num_partitions}; give 1 to {1 << 20}, or None for the default")
    if max_iters is not None and max_iters < 1:
        raise InvalidArgumentError(f"max_iters is {max_iters}; give 1 or more")


def _check(sample: npt.NDArray[Any], element: str) -> None:
    if element not in ELEMENTS:
        raise InvalidArgumentError(f"unknown element type {element!r}; give {', '.join(ELEMENTS)}")
    if sample.ndim != 2 or not sample.shape[1]:
        raise InvalidArgumentError(f"a sample of shape {sample.shape} was given; it must be (n, d) with d at least 1")


def _named(model: IndexModel) -> IndexModel:
    digest = hashlib.sha256(f"{model.kind} {model.metric} {model.dimension} {model.element}".encode())
    for array in (model.centroids, model.low, model.scale):
        digest.update(array.tobytes())
    return replace(model, model_id=digest.hexdigest()[:16])
