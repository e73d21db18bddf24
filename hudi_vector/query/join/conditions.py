"""The parts of a join's condition: over right rows, over left rows, and over both sides.

In the text, ``name`` and ``r.name`` are columns of the right side, ``l.name`` is a column of the left side. This module
gets it as a predicate over the right columns and two structs named ``l`` and ``r``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_vector.errors import InvalidFilterError
from hudi_vector.query.asking.values import LEFT_MARK, left_columns, of_left
from hudi_vector.read.predicate.change import exchanged
from hudi_vector.read.predicate.form import Predicate, columns, conjuncts
from hudi_vector.read.predicate.nodes import FALSE, Coalesce, Column, Compare, IsNull, Not, conjunction, walk
from hudi_vector.schema import quoted_if_needed

__all__ = [
    "ANY_PAIR",
    "LEFT",
    "RIGHT",
    "JoinCondition",
    "same_row",
    "split",
]

LEFT, RIGHT = "l", "r"


@dataclass(frozen=True)
class JoinCondition:
    """A condition in three parts, all of which must hold; None for a part without a condition.

    `right` and `both` name right columns as the right side's output does; in `left` and `both` the names of left
    columns begin with `LEFT_MARK`. `pairs_only` means that `both` excludes at most one right row for each left row.
    """

    right: Predicate | None = None
    left: Predicate | None = None
    both: Predicate | None = None
    pairs_only: bool = False

    @property
    def left_names(self) -> tuple[str, ...]:
        """Return the left columns that `both` needs, in alphabetical order."""
        return tuple(sorted(left_columns(self.both)))

    @property
    def asked_left(self) -> tuple[str, ...]:
        """Return the left columns that `left` and `both` need, in alphabetical order."""
        return tuple(sorted(left_columns(self.left) | left_columns(self.both)))

    @property
    def right_names(self) -> tuple[str, ...]:
        """Return the right columns that `both` needs, in alphabetical order."""
        found = columns(self.both) if self.both is not None else frozenset()
        return tuple(sorted(name for name in found if not name.startswith(LEFT_MARK)))

    def and_not(self, pair: Predicate) -> JoinCondition:
        """Return the condition without the pairs for which `pair`, a predicate over both sides, is true."""
        # A pair for which the predicate is NULL stays.
        other = Not(Coalesce((pair, FALSE)))
        if self.both is None:
            return replace(self, both=other, pairs_only=True)
        return replace(self, both=conjunction([self.both, other]), pairs_only=False)


ANY_PAIR = JoinCondition()
"""The condition that every pair of rows meets."""


def split(predicate: Predicate, text: str, left: Collection[str]) -> JoinCondition:
    """Split a condition into its parts.

    `predicate` is over the right columns and the structs ``l`` and ``r``; `text` is the condition as written, for
    messages; `left` are the left columns. Raises InvalidFilterError if a column of both sides is named without a side.
    """
    folded = {name.lower() for name in left}
    bare = {n.name for n in walk(predicate) if isinstance(n, Column) and n.name not in (LEFT, RIGHT)}
    ambiguous = sorted(name for name in bare if name.lower() in folded)
    if ambiguous:
        wanted = quoted_if_needed(ambiguous[0])
        raise InvalidFilterError(
            f"the condition {text!r} names '{ambiguous[0]}', a column of both sides; write r.{wanted} for that "
            f"of the right side or l.{wanted} for that of the left"
        )
    parts: dict[str, list[Predicate]] = {"right": [], "left": [], "both": []}
    for term in conjuncts(exchanged(predicate, _flat)):
        names = columns(term)
        marked = [name for name in names if name.startswith(LEFT_MARK)]
        parts["right" if not marked else "left" if len(marked) == len(names) else "both"].append(term)
    right, of_left, both = (conjunction(terms) if terms else None for terms in parts.values())
    return JoinCondition(right, of_left, both)


def _flat(node: Predicate) -> Predicate | None:
    if isinstance(node, IsNull) and isinstance(node.term, Column) and not node.term.path:
        return FALSE if node.term.name in (LEFT, RIGHT) else None  # the structs are there for every row
    if not isinstance(node, Column) or node.name not in (LEFT, RIGHT) or not node.path:
        return None
    return of_left(node) if node.name == LEFT else Column(node.path[0], node.type, node.path[1:])


def same_row(pairs: Sequence[tuple[str, str, pa.DataType]]) -> Predicate:
    """Return the predicate over both sides that a left and a right row have the same key; NULL if a value is NULL.

    Each pair holds a key column's name on the left, its name on the right, and its type.
    """
    return conjunction(
        [Compare("=", Column(LEFT_MARK + left, kind), Column(right, kind)) for left, right, kind in pairs]
    )
