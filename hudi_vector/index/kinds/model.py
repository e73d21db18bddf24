"""The model of an index: its list centroids and the parameters of its codes, trained once for a table and column."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.index.kinds.faiss_library import train_codebook
from hudi_vector.index.kinds.kinds import KINDS, check_choices, indexed_metric, kind_named
from hudi_vector.kernels import kmeans, product, quantise, rabitq
from hudi_vector.kernels.metrics import INDEXED, METRICS
from hudi_vector.kernels.rotation import rotated

__all__ = [
    "ELEMENTS",
    "MODEL_ID",
    "MOST_DIMENSIONS",
    "Floats32",
    "IndexModel",
    "default_partitions",
    "read_model",
    "sample_size",
    "train_model",
    "working",
]

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

ELEMENTS = ("float", "double", "int8")
MODEL_ID = re.compile(r"[0-9A-Za-z]+")
"""The form of model ids, which are parts of file names."""
MOST_DIMENSIONS = 1 << 20
"""The largest dimension of a model that is read; this package stores none that is larger."""
MOST_PARTITIONS = 4096
_USUAL_ITERATIONS = 8
SAMPLE_PER_PARTITION = 256

_NONE = np.empty(0, np.float32)
_SAFE_LOW, _SAFE_HIGH = float(np.finfo(np.float32).tiny) ** 0.8, float(np.finfo(np.float32).max) ** 0.8


@dataclass(frozen=True)
class IndexModel:
    """The list centroids of an index and the parameters of its codes.

    All arrays are float32, in the space of `placed`; ``hnsw`` has none of them.

    Attributes:
        model_id: A hash of all other fields.
        kind: The kind of index.
        metric: The metric's name.
        dimension: The number of elements of a vector.
        element: How the column stores its elements: ``float``, ``double`` or ``int8``.
        centroids: Shape (lists, d).
        low: The lowest value of each element, shape (d,) for ``ivf_sq8``, else empty.
        scale: The width of a code's level for each element, shape (d,) for ``ivf_sq8``, else empty.
        codebook: Shape (parts, 2^num_bits, d / parts) for ``ivf_pq``, else empty.
        num_bits: The bits of a part's code (``ivf_pq``) or of an element's code (``ivf_rabitq``, ``hnsw``), else 0.
    """

    model_id: str
    kind: str
    metric: str
    dimension: int
    element: str
    centroids: Floats32
    low: Floats32
    scale: Floats32
    codebook: Floats32 = field(default_factory=lambda: np.empty((0, 0, 0), np.float32))
    num_bits: int = 0

    @property
    def lists(self) -> int:
        """Return the number of lists."""
        return len(self.centroids)

    @property
    def codes(self) -> str:
        """Return what is stored of a vector, as `IndexKind.codes` says."""
        return KINDS[self.kind].codes

    @property
    def by_products(self) -> bool:
        """Return True if rows are ordered by their products with a query, False if by their distances from it."""
        return METRICS[self.metric].order == "products"

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """Return the type of one element of a code."""
        return np.dtype("<f4") if self.codes == "values" else np.dtype(np.uint8)

    @property
    def code_width(self) -> int:
        """Return the number of elements of a code."""
        if self.codes == "bits":
            return rabitq.code_bytes(self.dimension, self.num_bits)
        return product.code_bytes(len(self.codebook), self.num_bits) if self.codes == "parts" else self.dimension

    @property
    def is_relative(self) -> bool:
        """Return True if a code says where a vector lies as seen from its list's centroid."""
        return self.codes in ("parts", "bits")

    def placed(self, values: npt.NDArray[Any]) -> tuple[Floats64, Mask]:
        """Return what `working` does, rotated if the model's codes are bits."""
        rows, fit = working(values, self.metric)
        return turned(rows, fit, self.kind), fit

    def factors(self, codes: npt.NDArray[Any], lists: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what is multiplied with queries instead of vectors: decoded vectors if codes are relative, else codes.

        The codes have shape (n, code_width), their lists shape (n,), and the result shape (n, d), decoded vectors as
        deterministic float32.
        """
        if not self.is_relative:
            return codes
        if self.codes == "bits":
            rows = rabitq.decode(codes, self.dimension, self.num_bits).rows
        else:
            rows = product.decode(codes, self.codebook)
        rows += self.centroids[lists]
        return rows

    @cached_property
    def origin(self) -> Floats64:
        """Return the mean of the centroids, shape (d,), relative to which numbers are small and float32 is precise."""
        mean: Floats64 = self.centroids.mean(axis=0, dtype=np.float64)
        return mean

    @cached_property
    def origin_length(self) -> float:
        """Return the length of the origin."""
        return float(np.linalg.norm(self.origin))

    @cached_property
    def centred(self) -> Floats32:
        """Return the centroids relative to the origin."""
        return (self.centroids - self.origin).astype(np.float32)

    @cached_property
    def centred_squares(self) -> Floats32:
        """Return the squared lengths of the centroids relative to the origin."""
        return np.asarray(np.einsum("ij,ij->i", self.centred, self.centred), np.float32)

    @cached_property
    def base(self) -> Floats64:
        """Return the vector that a code of zeros represents, shape (d,); zeros if codes are relative."""
        return self.low.astype(np.float64) if self.codes == "ranges" else np.zeros(self.dimension)

    @cached_property
    def base_length(self) -> float:
        """Return the length of `base`."""
        return float(np.linalg.norm(self.base))

    @cached_property
    def apart_length(self) -> float:
        """Return by how much the parts that a decoded code is the sum of exceed the root of its `square` together."""
        if not self.is_relative:
            return self.base_length
        return 2 * float(np.linalg.norm(self.centroids.astype(np.float64), axis=1).max())


def default_partitions(rows: int) -> int:
    """Return the default number of lists for a number of rows: about the square root, 1 to 4,096.

    Comparing a query with all centroids then costs about as much as scoring one list.

    Example:
        >>> default_partitions(0), default_partitions(400_000), default_partitions(10**9)
        (1, 632, 4096)
    """
    return min(max(round(math.sqrt(rows)), 1), MOST_PARTITIONS)


def sample_size(partitions: int) -> int:
    """Return the number of rows that training wants: 256 for each list."""
    return partitions * SAMPLE_PER_PARTITION


def working(values: npt.NDArray[Any], metric: str) -> tuple[Floats64, Mask]:
    """Return rows in the model's space, and a mask of the rows that can have codes.

    The vectors have shape (n, d). The rows are float64, shape (n, d), scaled to length 1 for cosine and else unchanged.
    The mask has shape (n,): True for zero vectors and for rows whose squared length is well within float32's range; for
    cosine, for rows whose squared length is from 1e-280 to 1e280. The values of other rows are meaningless.
    """
    rows = np.array(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        if not METRICS[metric].on_sphere:
            return rows, (squares <= _SAFE_HIGH) & ((squares >= _SAFE_LOW) | ~rows.any(axis=1))
        fit = (squares >= 1e-280) & (squares <= 1e280)
        rows /= np.sqrt(squares)[:, None]
    return rows, fit


def turned(rows: Floats64, fit: Mask, kind: str) -> Floats64:
    """Return rows of `working` in the space of an index's kind; those that are not `fit` become zeros if it rotates."""
    return rotated(np.where(fit[:, None], rows, 0.0)) if KINDS[kind].codes == "bits" else rows


def read_model(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> IndexModel:
    """Return a model from the header and flat arrays of its file, checked.

    Anyone who may write to the index's folder may have written the file.

    Raises ValueError if the numbers and the arrays contradict each other, and KeyError if one is missing.
    """
    kind, dimension = header["kind"], header["dimension"]
    bits, parts = header.get("num_bits", 0), header.get("num_sub_vectors", 0)
    numbers = (dimension, bits, parts)
    if any(type(number) is not int for number in numbers) or not 1 <= dimension <= MOST_DIMENSIONS:
        raise ValueError(f"its numbers are {numbers}")
    if header["metric"] not in INDEXED or header["element"] not in ELEMENTS:
        raise ValueError(f"it is of {header['element']!r} and {header['metric']!r}")
    named = {name: arrays[name] for name in ("centroids", "low", "scale")}
    named["codebook"] = arrays.get("codebook", _NONE)
    known = kind_named(kind)
    ranges = dimension if known.codes == "ranges" else 0
    has_parts = known.codes == "parts"
    fits = (
        all(array.dtype == np.float32 for array in named.values())
        and len(named["low"]) == len(named["scale"]) == ranges
        and (len(named["centroids"]) > 0) == (known.codes != "graph")
        and (bits in known.bits if known.bits else bits == 0)
        and (parts > 0 and dimension % parts == 0 if has_parts else parts == 0)
    )
    if not fits or len(named["codebook"]) != (dimension << bits if has_parts else 0):
        raise ValueError(f"its arrays are not those of the kind {kind!r} with {number_of(dimension, 'element')}")
    centroids, codebook = named["centroids"].reshape(-1, dimension), named["codebook"]
    codebook = codebook.reshape(parts, 1 << bits, -1) if has_parts else codebook.reshape(0, 0, 0)
    identity = str(header["model_id"]), kind, header["metric"], dimension, header["element"]
    return IndexModel(*identity, centroids, named["low"], named["scale"], codebook, bits)


def train_model(
    sample: npt.NDArray[Any],
    *,
    kind: str = "ivf_sq8",
    metric: str,
    element: str,
    num_partitions: int | None = None,
    num_sub_vectors: int | None = None,
    num_bits: int | None = None,
    rows: int | None = None,
    max_iters: int | None = None,
    seed: int = 0,
) -> IndexModel:
    """Train the model of an index on some of a column's vectors.

    The same sample and arguments give the same model, with the same id, on one machine. An empty sample gives one list.
    Raises InvalidArgumentError if an argument is not allowed, and MissingDependencyError if the kind needs faiss and it
    is not installed.

    Args:
        sample: Vectors, shape (n, d); at most 256 per list are used.
        kind: ``"ivf_sq8"``, one byte per element; ``"ivf_flat"``, four bytes per element; ``"ivf_rabitq"``, one to four
            bits per element; ``"ivf_pq"``, one byte or half a byte for several elements together; ``"hnsw"``, which
            has nothing to train.
        metric: A metric's name.
        element: How the column stores its elements: ``"float"``, ``"double"`` or ``"int8"``.
        num_partitions: The number of lists; by default about the square root of `rows`, 1 to 4,096. Never more than the
            vectors in the sample.
        num_sub_vectors: The number of parts of a vector (``ivf_pq``); the default gives about two bits per element.
        num_bits: The bits of the code of a part (``ivf_pq``) or of an element (``hnsw``), 4 or 8, 8 by default; of an
            element (``ivf_rabitq``), 1, 2 or 4, 1 by default.
        rows: The number of rows of the table; by default that of the sample.
        max_iters: The most iterations of k-means; 8 by default.
        seed: The seed of all random choices.

    Example:
        >>> model = train_model(np.random.default_rng(0).normal(size=(100, 4)), metric="l2", element="float")
        >>> model.lists, model.kind
        (10, 'ivf_sq8')
    """
    metric = indexed_metric(metric)
    _check(sample, element)
    dimension = sample.shape[1]
    check_choices(
        kind,
        dimension,
        num_partitions=num_partitions,
        max_iters=max_iters,
        num_sub_vectors=num_sub_vectors,
        num_bits=num_bits,
    )
    codes = KINDS[kind].codes
    bits = num_bits or next(iter(KINDS[kind].bits), 0)
    if codes == "graph":
        return _named(
            IndexModel("", kind, metric, dimension, element, _NONE.reshape(0, dimension), _NONE, _NONE, num_bits=bits)
        )
    iterations = max_iters or _USUAL_ITERATIONS
    chance = np.random.default_rng(seed)
    wanted = num_partitions or default_partitions(len(sample) if rows is None else rows)
    if len(sample) > sample_size(wanted):
        sample = sample[np.sort(chance.choice(len(sample), sample_size(wanted), replace=False))]
    vectors, fit = working(sample, metric)
    vectors = turned(vectors, fit, kind)
    vectors = vectors if fit.all() else vectors[fit]
    if not len(vectors):
        vectors = np.zeros((1, dimension))
    origin = vectors.mean(axis=0)
    rows32 = np.subtract(vectors, origin, out=np.empty(vectors.shape, np.float32), casting="same_kind")
    centred = kmeans.train(rows32, min(wanted, len(vectors)), iterations=iterations, seed=seed)
    low = scale = _NONE
    if codes == "ranges":
        low, scale = quantise.ranges(vectors)
    centroids = np.ascontiguousarray(centred + origin, np.float32)
    model = IndexModel("", kind, metric, dimension, element, centroids, low, scale, num_bits=bits)
    if codes == "parts":
        vectors -= centroids[kmeans.nearest(vectors - model.origin, model.centred)]
        parts = num_sub_vectors or product.usual_parts(dimension, bits)
        codebook = train_codebook(vectors.astype(np.float32), parts, bits, iterations)
        model = replace(model, codebook=codebook)
    return _named(model)


def _check(sample: npt.NDArray[Any], element: str) -> None:
    if element not in ELEMENTS:
        raise InvalidArgumentError(f"unknown element type {element!r}; give {', '.join(ELEMENTS)}")
    if sample.ndim != 2 or not sample.shape[1]:
        raise InvalidArgumentError(f"a sample of shape {sample.shape} was given; it must be (n, d) with d at least 1")


def _named(model: IndexModel) -> IndexModel:
    bits = f" {model.num_bits}" if model.num_bits else ""
    digest = hashlib.sha256(f"{model.kind} {model.metric} {model.dimension} {model.element}{bits}".encode())
    for array in (model.centroids, model.low, model.scale, model.codebook):
        digest.update(array.tobytes())
    return replace(model, model_id=digest.hexdigest()[:16])
