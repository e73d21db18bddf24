"""The lazy relation of ``hudi_vector_search`` for one query vector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from hudi_vector.arguments import as_vector
from hudi_vector.query.asking.output import Found
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.columns import DISTANCE, HUDI_DISTANCE, RANK, Shown, require_no_clash
from hudi_vector.spark.search.search import TableSearch

__all__ = ["single_relation"]

FUNCTION = "hudi_vector_search"


@dataclass(frozen=True)
class _Single:
    """A checked search, a function that gives its query vector, and the names of the columns that it adds."""

    search: TableSearch
    query: Callable[[], Any]
    added: frozenset[str]

    def produce(self, names: Sequence[str]) -> pa.Table:
        """Return the rows with exactly these columns, ordered by rank."""
        vector = as_vector(self.query(), self.search.column.dimension or None)
        found = self.search.run(vector[None, :], [name for name in names if name not in self.added])
        return with_added(found, names, self.added)

    def describe(self) -> str:
        """Return the text for EXPLAIN."""
        search = self.search
        text = f"{FUNCTION} {search.target.label} {search.column.name} k={search.k} {search.metric}"
        if search.tuning.grouping is not None:
            text += f" groups=[{search.tuning.grouping.describe()}]"
        return text + (f" filter=[{search.filter.text}]" if search.filter else "")


def with_added(found: Found, names: Sequence[str], added: Collection[str]) -> pa.Table:
    """Return the found rows with columns in the order of `names`; those in `added` are distance, rank or group rank."""
    columns: list[Any] = []
    for name in names:
        if name not in added:
            columns.append(found.rows.column(name))
        elif name == RANK:
            columns.append(pa.array(found.rank.astype(np.int32)))
        elif name in found.added:
            columns.append(found.added[name])
        else:
            columns.append(pa.array(found.distance))
    return pa.table(columns, names=list(names)) if names else _empty_rows(len(found.query))


def _empty_rows(count: int) -> pa.Table:
    return pa.table({"": pa.nulls(count)})


def single_relation(search: TableSearch, query: Callable[[], Any], shown: Shown) -> JavaObject:
    """Return the logical plan of a search for one vector; `query` gives it when the search runs."""
    groups = search.group_columns
    require_no_clash(search.target, (*shown.distances[:1], *groups))
    # A column of the table takes precedence over a hidden column and over the second name of the distance.
    own = {name.lower() for name in search.target.schema.names}
    added = [
        StructField(DISTANCE, DoubleType(), DISTANCE not in shown.distances),
        StructField(HUDI_DISTANCE, DoubleType(), HUDI_DISTANCE not in shown.distances),
        StructField(RANK, IntegerType()),
        *(StructField(name, IntegerType(), False) for name in groups),
    ]
    added = [field for field in added if field.name not in own]
    single = _Single(search, query, frozenset(field.name for field in added))
    columns, named = shown.parted(search.columns)
    seen = (*shown.distances, *groups)
    visible = StructType([*columns, *(field for field in added if field.name in seen)])
    hidden = [*named, StructField(search.column.name, search.vector_field.dataType)]
    hidden += [field for field in added if field.name not in seen]
    return lazy_relation(search.spark, FUNCTION, visible, hidden, single.produce, single.describe)


def constant_query(value: Any, dimension: int | None) -> Callable[[], npt.NDArray[np.float64]]:
    """Return a function that gives a known query vector; the vector is checked now."""
    vector = as_vector(value, dimension)
    return lambda: vector
