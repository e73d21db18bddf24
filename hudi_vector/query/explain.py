"""The function `explain`, which describes the plan of a search from the same call as the search."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hudi_vector.arguments import refuse_unknown
from hudi_vector.errors import InvalidTypeError, kind_of, number_of
from hudi_vector.index.load import kept_view
from hudi_vector.query.execute import open_base
from hudi_vector.query.plan import IndexUse, SearchPlan
from hudi_vector.shown import ShownText, as_tree
from hudi_vector.storage import scheme_of

__all__ = ["described", "explain", "explained_by"]

_PLAN = "__hudi_vector_plan__"
_PARQUET = frozenset({"index", "parquet"})

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


def described(plan: SearchPlan) -> str:
    """Return a plan as text; of a table on an object store also what its search finds in memory.

    Nothing is requested.
    """
    lines = [plan.describe()]
    if scheme_of(plan.snapshot.source.uri) != "file":
        if isinstance(plan.index, IndexUse):
            lines.append(f"  in memory   {_of_index(plan, plan.index)}")
        files = [access for access in plan.slices if not access.is_merged and access.file_slice.base_file is not None]
        readers = [open_base(access, plan.spec, keep=True) for access in files if access.access in _PARQUET]
        footers, vectors = sum(one.holds_footer() for one in readers), sum(one.holds_vectors() for one in readers)
        lines.append(f"  in memory   footers of {footers} and vectors of {vectors} of {len(readers)} Parquet files")
    return "\n".join(lines)


def _of_index(plan: SearchPlan, use: IndexUse) -> str:
    segments = sorted(
        (access.segment for access in plan.slices if access.access == "index" and access.segment is not None),
        key=lambda entry: entry.segment,
    )
    if kept_view(use.folder, use.model_id, segments) is not None:
        return "the index; lists that no search has read are read when they are probed"
    heads = {entry.pack.name: entry.pack.head for entry in segments if entry.pack is not None}
    alone = [entry.bytes for entry in segments if entry.pack is None]
    read = (
        [f"{number_of(len(heads), 'head of a pack', 'heads of packs')}, {sum(heads.values())} bytes, then lists"]
        if heads
        else []
    )
    read += [f"{number_of(len(alone), 'whole segment')}, {sum(alone)} bytes"] if alone else []
    return f"nothing of the index: the search reads {' and '.join(read)}"


def explain(search: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str:
    """Describe how a search would run now, without running it.

    Args:
        search: `hudi_vector.search`, `hudi_vector.search_batch` or `hudi_vector.knn_join`, or the `search` or
            `search_batch` method of a table that `hudi_vector.open` opened.
        args: The positional arguments of the search.
        kwargs: The keyword arguments of the search.

    Returns:
        The plan as a tree of lines: the instant, the index or why none is used, where the search runs and why, the file
        slices by how they are read, and the bytes to read; of a table on an object store what of the index and the
        files is in memory already; for a join also its route and why other routes were not taken.

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
    return ShownText(as_tree(plan(**bound.arguments) if owner is None else plan(owner, **bound.arguments)))
