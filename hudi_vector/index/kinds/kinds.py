"""The kinds of indexes, and the parameters that each accepts."""

from __future__ import annotations

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.kinds.faiss_library import library
from hudi_vector.kernels import product
from hudi_vector.kernels.metrics import INDEXED, metric_named

__all__ = ["FAISS_KINDS", "GRAPHS", "KINDS", "check_choices", "indexed_metric", "require_kind"]

GRAPHS = "hnsw"
"""The kind that has a graph for each base file instead of lists of codes."""
FAISS_KINDS = ("ivf_pq", GRAPHS)
"""The kinds that need faiss."""
_LISTS = ("num_partitions", "max_iters", "sample")
_TAKEN = {
    "ivf_flat": _LISTS,
    "ivf_sq8": _LISTS,
    "ivf_pq": (*_LISTS, "num_sub_vectors", "num_bits"),
    GRAPHS: ("num_bits",),
}
KINDS = tuple(_TAKEN)


def check_choices(kind: str, dimension: int, **given: int | None) -> None:
    """Raise InvalidArgumentError if no model can be trained with these parameters, before any vector is read.

    `given` has the parameters by their names in `train_model`, and ``sample``, the number of vectors to train on; None
    means the default. Raises MissingDependencyError if the kind needs faiss and it is not installed.
    """
    require_kind(kind)
    for name, value in given.items():
        if value is not None and name not in _TAKEN[kind]:
            takers = " or ".join(other for other in KINDS if name in _TAKEN[other])
            raise InvalidArgumentError(f"{name} is for the kind {takers}, and the kind is {kind}; leave it out")
    partitions, iterations = given.get("num_partitions"), given.get("max_iters")
    if partitions is not None and not 1 <= partitions <= 1 << 20:
        raise InvalidArgumentError(f"num_partitions is {partitions}; give 1 to {1 << 20}, or None for the default")
    if iterations is not None and iterations < 1:
        raise InvalidArgumentError(f"max_iters is {iterations}; give 1 or more")
    bits, parts = given.get("num_bits"), given.get("num_sub_vectors")
    if bits is not None and bits not in product.BITS:
        raise InvalidArgumentError(f"num_bits is {bits}; give 4 or 8")
    if parts is not None and (parts < 1 or dimension % parts):
        raise InvalidArgumentError(
            f"num_sub_vectors is {parts}, and vectors of {dimension} elements are cut into equal parts; give a number "
            f"that divides {dimension}, such as {product.usual_parts(dimension, bits or 8)}"
        )
    if kind in FAISS_KINDS:
        library(kind)


def require_kind(kind: object) -> None:
    """Raise InvalidArgumentError unless `kind` is a kind of index.

    Example:
        >>> require_kind("ivf_flat")
    """
    if kind not in KINDS:
        raise InvalidArgumentError(f"unknown kind of index {kind!r}; give {', '.join(KINDS[:-1])} or {KINDS[-1]}")


def indexed_metric(metric: object) -> str:
    """Return the name of a metric, given by name or alias; raise InvalidArgumentError unless indexes serve it.

    Example:
        >>> indexed_metric("euclidean")
        'l2'
    """
    name = metric_named(metric)
    if name not in INDEXED:
        raise InvalidArgumentError(
            f"no kind of index serves the metric {name}: its searches compare all vectors; give "
            f"{' or '.join(sorted(INDEXED))}, or search without an index"
        )
    return name
