"""The kinds of indexes: what each stores, takes, needs and can prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.index.kinds.faiss_library import library
from hudi_vector.kernels import product, rabitq
from hudi_vector.kernels.metrics import INDEXED, metric_named

__all__ = ["GRAPHS", "KINDS", "IndexKind", "check_choices", "indexed_metric", "kind_named", "usual_kind"]

_USUAL, _OF_BITS = "ivf_sq8", "ivf_rabitq"
_LEAST_DIMENSION_OF_BITS = 256
_MOST_HELD, _MOST_READ = 1 << 30, 16 << 20
"""The bytes of codes of a byte an element up to which they are usual, on a local disk and on an object store."""

_LISTS = ("num_partitions", "max_iters", "sample")


@dataclass(frozen=True)
class IndexKind:
    """A kind of index.

    Attributes:
        name: The name in arguments, manifests and files.
        codes: The stored form of a vector: its values, a byte for each element within the column's ranges, codes of its
            parts, bits of its elements once it is rotated, or a node of a graph.
        takes: The parameters that `create` takes for this kind only.
        bits: The values of `num_bits`, the default first; empty where it is not taken.
        trained_by_faiss: Whether an index is made with faiss.
        searched_by_faiss: Whether searches need faiss too.
        proves: Whether codes bound distances, so that a search can prove its answer exact.
        effort: The unit of `nprobes`, for the text of plans.
    """

    name: str
    codes: Literal["values", "ranges", "parts", "bits", "graph"]
    takes: tuple[str, ...]
    bits: tuple[int, ...] = ()
    trained_by_faiss: bool = False
    searched_by_faiss: bool = False
    proves: bool = True
    effort: str = "{} lists"


# The kind that is used first where a column has several.
_ALL = (
    IndexKind("ivf_sq8", "ranges", _LISTS),
    IndexKind("ivf_flat", "values", _LISTS),
    IndexKind("ivf_rabitq", "bits", (*_LISTS, "num_bits"), rabitq.BITS),
    IndexKind("ivf_pq", "parts", (*_LISTS, "num_sub_vectors", "num_bits"), product.BITS, trained_by_faiss=True),
    IndexKind(
        "hnsw", "graph", ("num_bits",), (8, 4), trained_by_faiss=True, searched_by_faiss=True, proves=False,
        effort="walks of {} rows",
    ),
)  # fmt: skip
KINDS: Mapping[str, IndexKind] = {kind.name: kind for kind in _ALL}
GRAPHS = next(kind.name for kind in _ALL if kind.codes == "graph")


def check_choices(kind: str, dimension: int, **given: int | None) -> None:
    """Raise InvalidArgumentError if no model can be trained with these parameters, before any vector is read.

    `given` has the parameters by their names in `train_model`, and ``sample``, the number of vectors to train on; None
    means the default. Raises MissingDependencyError if the kind needs faiss and it is not installed.
    """
    chosen = kind_named(kind)
    for name, value in given.items():
        if value is not None and name not in chosen.takes:
            takers = " or ".join(other.name for other in KINDS.values() if name in other.takes)
            raise InvalidArgumentError(f"{name} is for the kind {takers}, and the kind is {kind}; leave it out")
    partitions, iterations = given.get("num_partitions"), given.get("max_iters")
    if partitions is not None and not 1 <= partitions <= 1 << 20:
        raise InvalidArgumentError(f"num_partitions is {partitions}; give 1 to {1 << 20}, or None for the default")
    if iterations is not None and iterations < 1:
        raise InvalidArgumentError(f"max_iters is {iterations}; give 1 or more")
    bits, parts = given.get("num_bits"), given.get("num_sub_vectors")
    if bits is not None and bits not in chosen.bits:
        *others, last = sorted(chosen.bits)
        raise InvalidArgumentError(
            f"num_bits is {bits}; give {', '.join(map(str, others))} or {last} for an index of kind {kind}"
        )
    if parts is not None and (parts < 1 or dimension % parts):
        raise InvalidArgumentError(
            f"num_sub_vectors is {parts}, and vectors of {number_of(dimension, 'element')} are cut into equal parts; "
            "give a number "
            f"that divides {dimension}, such as {product.usual_parts(dimension, bits or 8)}"
        )
    if chosen.trained_by_faiss:
        library(kind)


def kind_named(name: object) -> IndexKind:
    """Return the kind of index of a name; raise InvalidArgumentError if there is none.

    Example:
        >>> kind_named("ivf_flat").codes
        'values'
    """
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        *others, last = KINDS
        raise InvalidArgumentError(f"unknown kind of index {name!r}; give {', '.join(others)} or {last}")
    return kind


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


def usual_kind(dimension: int, rows: int, is_remote: bool, recall_target: float | None) -> str:
    """Return the kind for vectors of a dimension, so many rows, and a table on a local disk or on an object store.

    Without a recall target below 1 searches are exact, which bits do not make faster. Below 256 elements bits need many
    candidates, each a vector that is read: for a recall of 0.95 they took 200 of 117,491 × 64, 50 of 400,000 × 128,
    and 20 of 19,700 × 384, where a byte an element took 10 each time. Locally faiss searches codes of a byte in less
    time than bits take, 0.5 and 2 ms of a search of 19,700 × 384, as long as memory holds them: up to 1 GiB, half of
    the usual cache. Beyond, bits have 103 bytes a row in place of 780, of 768 elements. On an object store every code
    that is looked at is first read: of 1,000,000 × 768 about 1 MB by bits in place of 7.5. That is worth more
    candidates once the codes of a byte have more than 16 MiB.

    Example:
        >>> usual_kind(768, 1_000_000, True, 0.95), usual_kind(768, 1_000_000, True, None)
        ('ivf_rabitq', 'ivf_sq8')
    """
    is_exact = recall_target is None or recall_target >= 1
    if is_exact or dimension < _LEAST_DIMENSION_OF_BITS:
        return _USUAL
    return _OF_BITS if rows * dimension > (_MOST_READ if is_remote else _MOST_HELD) else _USUAL
