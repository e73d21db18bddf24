"""Search without Spark: a table by its path, the answer as an Arrow table.

Everything but the table's resolution is shared with the SQL functions: the snapshot, the plan, the kernels, the
order of rows. Slices that only Spark can read are refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import as_text, as_vector, checked_names
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.kernels.metrics import Floats
from hudi_vector.query.opened.kept_snapshots import KeptSnapshots
from hudi_vector.query.opened.request import Asked, spelled
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import SearchReport
from hudi_vector.storage import StorageOptions, normalise, path_text
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

__all__ = ["SearchResult", "explain_table", "search_table"]

_DISTANCE, _RANK = "_distance", "_rank"


@dataclass(frozen=True)
class SearchResult:
    """The rows found, with ``_distance`` and ``_rank``; what the search did; what it was to do."""

    rows: pa.Table
    report: SearchReport
    plan: SearchPlan


def search_table(
    table: str,
    column: str,
    query: Any,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
    as_of: Any = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> SearchResult:
    """The exact k nearest rows of a table to one vector, without Spark.

    Args:
        table: The table's base path, of any scheme that pyarrow or an installed fsspec package opens.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT.
        query: The query vector: a list or one-dimensional array of numbers, as long as the column's vectors.
        k: How many rows, 1 to 100,000.
        metric: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an alias of one.
        filter: A condition over the table's columns in the dialect of `hudi_vector.read.predicate.parse`, applied
            before distances.
        max_distance: The largest distance wanted, inclusive, in the metric's unit.
        as_of: An instant of the timeline (14 or 17 digits), or a timestamp: what was visible then.
        columns: The columns to return; all without the vector by default. The vector comes as a list.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …).
        options: Settings of this package, by key.
        zone: The zone of timestamps that name none, in ``filter`` and ``as_of``; UTC by default.

    Returns:
        The rows, ascending by ``_distance``, with the report and the plan.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.
        UnsupportedTableError: A slice of the table can only be read by Spark.
        InstantNotAvailableError: The table does not, or no longer, have what ``as_of`` asks for.
        DataFileError: A data file cannot be read.

    Example:
        >>> found = search_table("/tables/products", "embedding", [1.0, 2.0, 3.0], 5)
        >>> len(found.rows.column("_distance"))
        5
    """
    name = as_text(path_text(table), "table") or ""
    asked = Asked.of(name, column, _one(query), k, metric, filter, max_distance, as_of, options, zone)
    wanted = checked_names(columns)

    def answer(snapshot: Snapshot) -> SearchResult:
        names = _names(asked, wanted, snapshot)
        found = asked.find(snapshot)
        values = found.columns([name for name in names if name not in (_DISTANCE, _RANK)])
        values[_DISTANCE] = pa.array(found.winners.distance)
        values[_RANK] = pa.array(found.winners.rank.astype(np.int32))
        rows = pa.table({name: values[name] for name in names})
        return SearchResult(rows, found.report(queries=1), found.plan)

    return KeptSnapshots(NativeTable(_source(name, storage_options))).answer(asked.as_of, answer)


def explain_table(
    table: str,
    column: str,
    query: Any,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
    as_of: Any = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> str:
    """What `search_table` with the same arguments would do now, without doing it.

    Args:
        table: As for `search_table`.
        column: As for `search_table`.
        query: As for `search_table`.
        k: As for `search_table`.
        metric: As for `search_table`.
        filter: As for `search_table`.
        max_distance: As for `search_table`.
        as_of: As for `search_table`.
        columns: As for `search_table`; they do not change how the search runs.
        storage_options: As for `search_table`.
        options: As for `search_table`.
        zone: As for `search_table`.

    Returns:
        The plan as text; slices that would be refused are in it, with the reason.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.

    Example:
        >>> print(explain_table("/tables/products", "embedding", [1.0, 2.0, 3.0]))
    """
    name = as_text(path_text(table), "table") or ""
    asked = Asked.of(name, column, _one(query), k, metric, filter, max_distance, as_of, options, zone)
    wanted = checked_names(columns)
    snapshot = NativeTable(_source(name, storage_options)).snapshot(asked.as_of)
    _names(asked, wanted, snapshot)
    return asked.plan(snapshot).describe()


def _one(query: Any) -> Floats:
    return as_vector(query, None)[None, :]


def _names(asked: Asked, wanted: tuple[str, ...] | None, snapshot: Snapshot) -> list[str]:
    """The columns of the answer, as the table spells them."""
    schema, table = snapshot.schema, asked.table
    for name in (_DISTANCE, _RANK):
        if name in {present.lower() for present in schema.names}:
            raise InvalidArgumentError(
                f"'{table}' has a column '{name}', the name of a column that the search adds; "
                "search it through Spark, over a view that gives it another name"
            )
    searched = spelled(asked.column, schema, table)
    if wanted is None:
        return [*(name for name in schema.names if name != searched), _DISTANCE, _RANK]
    added = (_DISTANCE, _RANK)
    return list(dict.fromkeys([*(name if name in added else spelled(name, schema, table) for name in wanted), *added]))


def _source(table: str, storage_options: Mapping[str, str] | None) -> Source:
    return Source(normalise(table), table, StorageOptions.of(storage_options or {}))
