"""`hudi_vector.explain`: the plan of a search as text, from the same call as the search."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hudi_vector.arguments import refuse_unknown
from hudi_vector.errors import InvalidTypeError, kind_of

__all__ = ["explain", "explained_by"]

_PLAN = "__hudi_vector_plan__"

P = ParamSpec("P")
R = TypeVar("R")


def explained_by(plan: Callable[..., str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make `explain` describe a search by a function, which gets all arguments by name, left-out ones too."""

    def decorated(search: Callable[P, R]) -> Callable[P, R]:
        setattr(search, _PLAN, plan)
        return search

    return decorated


def explain(search: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str:
    """Describe how a search would run now, without running it.

    Args:
        search: `hudi_vector.search`, `hudi_vector.search_batch` or `hudi_vector.knn_join`, or the `search` or
            `search_batch` of a table that `hudi_vector.open` opened.
        args: The arguments of the search, as the search takes them.
        kwargs: Those that are given by name.

    Returns:
        The plan as text: the instant, the index or why there is none, where the search runs and why, the file slices
        by how they are read, the bytes to read; for a join also its route and the routes that were passed over.

    Raises:
        InvalidArgumentError: An argument of the search is not allowed.
        InvalidTypeError: `search` is not one of these functions, or an argument of it is missing, unknown or of the
            wrong type.
        TableNotFoundError: There is no such table.

    Example:
        >>> print(hv.explain(hv.search, spark, "products", "embedding", [1.0, 2.0, 3.0], k=5))
    """
    plan = getattr(search, _PLAN, None)
    if plan is None:
        given = getattr(search, "__qualname__", None) or kind_of(search)
        raise InvalidTypeError(
            f"explain takes search, search_batch or knn_join and then their arguments, not {given}: "
            "hv.explain(hv.search, spark, …)"
        )
    refuse_unknown(search, kwargs)
    try:
        bound = inspect.signature(search).bind(*args, **kwargs)
    except TypeError as problem:
        raise InvalidTypeError(f"{search.__name__}: {problem}") from None
    bound.apply_defaults()
    owner = getattr(search, "__self__", None)
    return str(plan(**bound.arguments) if owner is None else plan(owner, **bound.arguments))
