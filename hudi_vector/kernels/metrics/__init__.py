"""The metrics, one module each, and exact distances by metric name.

To add a metric, write a module with a subclass of `Metric` and add an instance to `METRICS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.kernels.metrics.cosine import Cosine
from hudi_vector.kernels.metrics.dot_product import DotProduct
from hudi_vector.kernels.metrics.hamming import Hamming
from hudi_vector.kernels.metrics.l2 import L2
from hudi_vector.kernels.metrics.metric import Metric
from hudi_vector.kernels.metrics.screen import Floats, Screen

__all__ = ["INDEXED", "METRICS", "Floats", "Metric", "Screen", "exact_distances", "metric_named", "require_comparable"]

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in (Cosine(), L2(), DotProduct(), Hamming())}
_NAMED = {name: metric.name for metric in METRICS.values() for name in (metric.name, *metric.aliases)}
INDEXED = frozenset(metric.name for metric in METRICS.values() if metric.order is not None)
"""The names of the metrics that indexes support."""
_BLOCK_ELEMENTS = 1 << 18


def metric_named(name: Any) -> str:
    """Return the name in `METRICS` for a metric's name or alias; case and surrounding blanks do not matter.

    Raises InvalidArgumentError for an unknown name.

    Example:
        >>> metric_named("Euclidean")
        'l2'
    """
    found = _NAMED.get(name.strip().lower()) if isinstance(name, str) else None
    if found is None:
        known = [m.name + (f" ({', '.join(m.aliases)})" if m.aliases else "") for m in METRICS.values()]
        raise InvalidArgumentError(f"unknown metric {name!r}; give {', '.join(known[:-1])} or {known[-1]}")
    return found


def require_comparable(metric: str, column: str, element: str | None) -> None:
    """Raise InvalidArgumentError if a metric cannot compare the vectors of a column.

    `metric` is a name in `METRICS`; `element` is the element type float, double or int8, or None for sparse vectors.

    Example:
        >>> require_comparable("l2", "emb", "float")
    """
    chosen = METRICS[metric]
    if element is None and chosen.sparse is None:
        raise InvalidArgumentError(
            f"the metric {metric} does not compare sparse vectors, and column '{column}' has them; give another metric"
        )
    if element is not None and element not in chosen.elements:
        kinds = " or ".join(sorted(kind.upper() for kind in chosen.elements))
        raise InvalidArgumentError(
            f"the metric {metric} compares vectors of {kinds}, and column '{column}' holds {element.upper()}; give "
            "another metric"
        )


def exact_distances(rows: npt.NDArray[Any], query: Floats, metric: str) -> Floats:
    """Compute the float64 distances, shape (n,), of rows of any numeric dtype, shape (n, d), to a float64 query.

    `query` is one vector, shape (d,), or one for each row, shape (n, d); `metric` is a name in `METRICS`. The sum of
    every row runs over its elements in one fixed order, so a distance has the same bits whatever other rows are in the
    array and on any number of threads.

    Example:
        >>> exact_distances(np.array([[3.0, 4.0]]), np.array([0.0, 0.0]), "l2")
        array([5.])
    """
    out, distances = np.empty(len(rows), np.float64), METRICS[metric].distances
    step = max(1, _BLOCK_ELEMENTS // max(1, rows.shape[1]))
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for start in range(0, len(rows), step):
            block = np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
            out[start : start + step] = distances(block, query if query.ndim == 1 else query[start : start + step])
    return out
