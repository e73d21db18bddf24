"""The entry point to predicates, the form of all filters in this package.

Predicates are made by Spark's parser and analyser (`hudi_vector.spark.catalyst.predicates`) or without Spark from text
(`parse`). ``evaluate`` selects rows; ``may_match`` excludes files by their statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_vector.read.predicate.evaluate import evaluate
from hudi_vector.read.predicate.nodes import And, Column, Predicate, conjunction, walk
from hudi_vector.read.predicate.parse import parse
from hudi_vector.read.predicate.prune import ColumnStats, may_match, row_group_stats
from hudi_vector.read.predicate.show import to_text

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "ColumnStats",
    "Predicate",
    "columns",
    "conjuncts",
    "evaluate",
    "may_match",
    "parse",
    "restrict",
    "row_group_stats",
    "to_text",
]


def columns(predicate: Predicate) -> frozenset[str]:
    """Return the names, as in the table, of the top-level columns that a predicate needs.

    Example:
        >>> import pyarrow as pa
        >>> sorted(columns(parse("a > 1 OR s.x = 2", pa.schema({"a": "int32", "s": pa.struct({"x": "int32"})}))))
        ['a', 's']
    """
    return frozenset(node.name for node in walk(predicate) if isinstance(node, Column))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the terms of a top-level AND; another condition is returned as the only term.

    Example:
        >>> import pyarrow as pa
        >>> [to_text(term) for term in conjuncts(parse("a > 1 AND a < 5", pa.schema({"a": "int32"})))]
        ['a > 1', 'a < 5']
    """
    return predicate.terms if isinstance(predicate, And) else (predicate,)


def restrict(predicate: Predicate, names: Collection[str]) -> Predicate | None:
    """Return the conjunction of those conjuncts that refer only to the given columns, for example partition columns.

    Every row that satisfies the predicate satisfies the result too. None means that there is no such conjunct.

    Example:
        >>> import pyarrow as pa
        >>> to_text(restrict(parse("a > 1 AND b < 5", pa.schema({"a": "int32", "b": "int32"})), {"a"}))
        'a > 1'
    """
    kept = [term for term in conjuncts(predicate) if columns(term) <= frozenset(names)]
    return conjunction(kept) if kept else None
