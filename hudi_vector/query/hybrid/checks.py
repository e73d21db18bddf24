"""The checks of the arguments of a hybrid search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.arguments import as_text, as_vector
from hudi_vector.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    InvalidVectorError,
    number_of,
)
from hudi_vector.kernels.metrics import Floats, metric_named
from hudi_vector.kernels.sparse import SparseVector
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import SparseColumn

__all__ = [
    "FUSIONS",
    "as_fusion",
    "as_metrics",
    "as_normalize",
    "as_probe",
    "as_search_columns",
    "as_sparse",
    "as_weights",
    "distance_names",
]

FUSIONS = ("weighted", "rrf")


def distance_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the distance columns: ``_distance_`` and the column, numbered if a column is searched again.

    Raises InvalidArgumentError if two of the names are equal, ignoring case.

    Example:
        >>> distance_names(["text", "image", "text"])
        ('_distance_text', '_distance_image', '_distance_text_2')
    """
    names: list[str] = []
    for number, name in enumerate(columns):
        again = sum(before.lower() == name.lower() for before in columns[:number])
        names.append(f"_distance_{name}" + (f"_{again + 1}" if again else ""))
    if len({name.lower() for name in names}) < len(names):
        raise InvalidArgumentError(
            f"the distances of the columns {', '.join(columns)} would have the same name; search a view that gives the "
            "columns other names"
        )
    return tuple(names)


def as_search_columns(value: Any, argument: str = "search_columns") -> tuple[str, ...]:
    """Return the names of the searched columns.

    Raises InvalidTypeError if `value` is not a list of names, and InvalidArgumentError if it is empty.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"{argument} must be a list of column names, not {value!r}")
    if not len(value):
        raise InvalidArgumentError(f"{argument} is an empty list; name at least one column")
    return tuple(as_text(name, argument) for name in value)


def as_weights(value: Any, columns: int, fusion: str) -> tuple[float, ...]:
    """Return a weight for each column; by default 1 each.

    Raises InvalidTypeError if `value` is not a list of numbers, and InvalidArgumentError if there are too few or too
    many weights, if one is not finite, if all are 0, or if one is negative with fusion ``rrf``.
    """
    if value is None:
        return (1.0,) * columns
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"weights must be a list of numbers, one for each search column, not {value!r}")
    numbers = [_number(weight) for weight in value]
    if len(numbers) != columns:
        raise InvalidArgumentError(
            f"{number_of(len(numbers), 'weight was', 'weights were')} given for "
            f"{number_of(columns, 'search column')}; give one for each, or none for 1 each"
        )
    if not any(numbers):
        raise InvalidArgumentError("all weights are 0; give at least one column another weight")
    if fusion == "rrf" and min(numbers) < 0:
        raise InvalidArgumentError(
            f"the weight {min(numbers):g} is negative, which has no meaning for ranks; give 0 or more, or fusion "
            "'weighted'"
        )
    return tuple(numbers)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidTypeError(f"a weight must be a number, not {value!r}")
    if not math.isfinite(value):
        raise InvalidArgumentError(f"a weight must be a finite number, not {value!r}")
    return float(value)


def as_metrics(value: Any, columns: int) -> tuple[str, ...]:
    """Return a metric for each column; by default cosine.

    Raises InvalidTypeError if `value` is neither a name nor a list, and InvalidArgumentError if a metric is unknown or
    there are too few or too many.
    """
    if value is None or isinstance(value, str):
        return (metric_named("cosine" if value is None else value),) * columns
    if isinstance(value, Mapping) or not isinstance(value, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"metrics must be a metric's name or a list of names, not {value!r}")
    if len(value) != columns:
        raise InvalidArgumentError(
            f"{number_of(len(value), 'metric was', 'metrics were')} given for {number_of(columns, 'search column')}; "
            "give one for each, or one for all"
        )
    return tuple(metric_named(name) for name in value)


def as_fusion(value: Any) -> str:
    """Return the fusion of scores, ``weighted`` (the default) or ``rrf``; raise InvalidArgumentError otherwise."""
    name = "weighted" if value is None else (as_text(value, "fusion")).strip().lower()
    if name not in FUSIONS:
        raise InvalidArgumentError(f"unknown fusion {value!r}; give {' or '.join(FUSIONS)}")
    return name


def as_normalize(value: Any, fusion: str) -> bool:
    """Return whether each column's scores are scaled to 0 … 1 before they are added; False by default.

    Raises InvalidTypeError if `value` is not a bool, and InvalidArgumentError if it is True with fusion ``rrf``.
    """
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidTypeError(f"normalize must be true or false, not {value!r}")
    if value and fusion == "rrf":
        raise InvalidArgumentError("normalize has no meaning for fusion 'rrf', which looks at ranks; leave it out")
    return value


def as_probe(value: Any, column: SearchColumn, table: str) -> Floats | SparseVector:
    """Return the checked query vector of one column; errors name the column.

    Raises InvalidVectorError if the vector is NULL or holds NULL, NaN or infinity, InvalidTypeError if it is not a
    vector of the column's kind, and DimensionMismatchError if it has another length than the column.
    """
    try:
        if isinstance(column, SparseColumn):
            return as_sparse(value, column.texts)
        if _parts_of_sparse(value) is not None:
            raise InvalidTypeError("the query is a sparse vector and the column holds dense ones; give numbers alone")
        return as_vector(value, column.dimension or None)
    except (InvalidVectorError, InvalidTypeError, DimensionMismatchError) as problem:
        raise type(problem)(f"column '{column.name}' of '{table}': {problem}") from None


def as_sparse(value: Any, texts: bool = False) -> SparseVector:
    """Return a sparse query vector with its entries by ascending index; it may have no entries.

    `value` is a mapping from index to value; a mapping or Row with the fields ``indices`` and ``values``; a pair of
    lists; or an object with attributes of these names, for example Spark ML's SparseVector. With `texts`, indices are
    texts; a whole number is then replaced by its decimal digits. Raises InvalidVectorError if the vector is NULL, names
    an index twice, or holds NULL, NaN or infinity, and InvalidTypeError if it is not a sparse vector.

    Example:
        >>> as_sparse({7: 0.5, 3: 1.0}).indices
        array([3, 7])
    """
    if value is None:
        raise InvalidVectorError("the query vector is NULL; give a sparse vector")
    parts = _parts_of_sparse(value)
    if parts is None:
        raise InvalidTypeError(
            "the column holds sparse vectors; give the query as a map from index to value, or as a struct of indices "
            "and values"
        )
    indices, numbers = parts
    if len(indices) != len(numbers):
        raise InvalidVectorError(
            f"the query vector has {number_of(len(indices), 'index', 'indices')} and {number_of(len(numbers), 'value')}"
        )
    index = _texts(indices) if texts else np.array([_index(entry) for entry in indices], np.int64)
    values = np.array([_value(entry) for entry in numbers], np.float64)
    if not np.isfinite(values).all():
        raise InvalidVectorError("the query vector holds NaN or infinity; every value must be a finite number")
    order = np.argsort(index, kind="stable")
    if (index[order][1:] == index[order][:-1]).any():
        raise InvalidVectorError("the query vector names an index twice; give each once")
    return SparseVector(index[order], values[order])


def _parts_of_sparse(value: Any) -> tuple[Sequence[Any], Sequence[Any]] | None:
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, Mapping):
        folded = {key.lower(): entry for key, entry in value.items() if isinstance(key, str)}
        if all(isinstance(folded.get(name), (list, tuple, np.ndarray)) for name in ("indices", "values")):
            return list(folded["indices"]), list(folded["values"])
        return list(value.keys()), list(value.values())
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(p, (list, tuple, np.ndarray)) for p in value):
        return list(value[0]), list(value[1])
    if hasattr(value, "indices") and hasattr(value, "values"):
        return list(value.indices), list(value.values)
    return None


def _texts(indices: Sequence[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(indices), object)
    found[:] = [(value if isinstance(value, str) else str(_index(value))).encode() for value in indices]
    return found


def _index(value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) or (
        isinstance(value, (float, np.floating)) and float(value).is_integer()
    )
    if isinstance(value, bool) or not whole or abs(int(value)) >= 1 << 63:
        raise InvalidTypeError(f"an index of this sparse vector must be a whole number, not {value!r}")
    return int(value)


def _value(value: Any) -> float:
    if value is None:
        raise InvalidVectorError("the query vector holds NULL; every value must be a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"a value of a sparse vector must be a number, not {value!r}") from None
