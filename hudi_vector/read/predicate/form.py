"""Predicates: the door to the pure form that filters of every front end become.

Spark's parser and analyser (`hudi_vector.spark.catalyst.predicates`) and the Spark-free text front end (`parse`) both
make it; ``evaluate`` says which rows it keeps, ``may_match`` which files can be left unread.
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
    """The top-level columns that must be read to evaluate a predicate.

    Args:
        predicate: Any node.

    Returns:
        Their names, as the table spells them.

    Example:
        >>> import pyarrow as pa
        >>> sorted(columns(parse("a > 1 OR s.x = 2", pa.schema({"a": "int32", "s": pa.struct({"x": "int32"})}))))
        ['a', 's']
    """
    return frozenset(node.name for node in walk(predicate) if isinstance(node, Column))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conditions that must all hold.

    Args:
        predicate: A condition.

    Returns:
        The terms of a top-level AND; the condition itself where it is none.

    Example:
        >>> import pyarrow as pa
        >>> [to_text(term) for term in conjuncts(parse("a > 1 AND a < 5", pa.schema({"a": "int32"})))]
        ['a > 1', 'a < 5']
    """
    return predicate.terms if isinstance(predicate, And) else (predicate,)


def restrict(predicate: Predicate, names: Collection[str]) -> Predicate | None:
    """What a predicate demands of some columns alone.

    Args:
        predicate: A condition.
        names: Columns, such as those a table is partitioned by.

    Returns:
        The conjunction of the conjuncts that refer to these columns only, which every row that satisfies the
        predicate satisfies too; None if there is none.

    Example:
        >>> import pyarrow as pa
        >>> to_text(restrict(parse("a > 1 AND b < 5", pa.schema({"a": "int32", "b": "int32"})), {"a"}))
        'a > 1'
    """
    kept = [term for term in conjuncts(predicate) if columns(term) <= frozenset(names)]
    return conjunction(kept) if kept else None
