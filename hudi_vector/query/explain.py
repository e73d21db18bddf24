"""The function `explain`, which describes the plan of a search from the same call as the search."""

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
    """Return a decorator that makes `explain` describe a search with `plan`.

    `plan` gets all arguments of the search by name, including those that the caller left out.
    """

    def decorated(search: Callable[P, R]) -> Callable[P, R]:
        setattr(search, _PLAN, plan)
        return search

    return decorated


def explain(search: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str:
    """Describe how a search would run now, without running it.

    Args:
        search: `hudi_vector.search`, `hudi_vector.search_batch` or `hudi_vector.knn_join`, or the `search` or
            `search_batch` method of a table that `hudi_vector.open` opened.
        args: The positional arguments of the search.
        kwargs: The keyword arguments of the search.

    Returns:
        The plan as text: the instant, the index or why none is used, where the search runs and why, the file slices by
        how they are read, and the bytes to read; for a join also its route and why other routes were not taken.

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
