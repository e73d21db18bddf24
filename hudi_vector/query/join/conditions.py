"""What a join's condition says of the right rows, of the left rows, and of both together.

In the text a bare name is a column of the right side, ``r.name`` too, ``l.name`` one of the left. It reaches this
module as a predicate over the right columns and two structs of these names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import InvalidFilterError
from hudi_vector.read.predicate.change import exchanged, literal_values
from hudi_vector.read.predicate.form import Predicate, columns, conjuncts
from hudi_vector.read.predicate.nodes import FALSE, Coalesce, Column, Compare, IsNull, Literal, Not, conjunction, walk
from hudi_vector.schema import quoted_if_needed

__all__ = [
    "ANY_PAIR",
    "LEFT",
    "LEFT_MARK",
    "RIGHT",
    "JoinCondition",
    "left_columns",
    "same_row",
    "split",
    "with_values",
]

LEFT, RIGHT = "l", "r"
LEFT_MARK = "\0l."
"""Begins the names of left columns where both sides' columns stand beside each other."""


@dataclass(frozen=True)
class JoinCondition:
    """A condition in three parts, all of which must hold; None where a part says nothing.

    `right` and `both` name right columns as the right side's output does; in `left` and `both` the names of left
    columns begin with `LEFT_MARK`. `pairs_only` says that `both` leaves out no more than one right row for a left row.
    """

    right: Predicate | None = None
    left: Predicate | None = None
    both: Predicate | None = None
    pairs_only: bool = False

    @property
    def left_names(self) -> tuple[str, ...]:
        """The left columns that its part over both sides needs, in alphabetical order."""
        return tuple(sorted(left_columns(self.both))) if self.both is not None else ()

    @property
    def asked_left(self) -> tuple[str, ...]:
        """All left columns it needs, in alphabetical order."""
        own = left_columns(self.left) if self.left is not None else set()
        return tuple(sorted(own | set(self.left_names)))

    @property
    def right_names(self) -> tuple[str, ...]:
        """The right columns that its part over both sides needs, in alphabetical order."""
        found = columns(self.both) if self.both is not None else frozenset()
        return tuple(sorted(name for name in found if not name.startswith(LEFT_MARK)))

    def and_not(self, pair: Predicate) -> JoinCondition:
        """The same, pairs left out for which a predicate over both sides is true."""
        # What is not known to be the same stays.
        other = Not(Coalesce((pair, FALSE)))
        if self.both is None:
            return replace(self, both=other, pairs_only=True)
        return replace(self, both=conjunction([self.both, other]), pairs_only=False)


ANY_PAIR = JoinCondition()
"""No condition."""


def left_columns(predicate: Predicate) -> set[str]:
    """The left columns of a predicate, without the mark."""
    return {name[len(LEFT_MARK) :] for name in columns(predicate) if name.startswith(LEFT_MARK)}


def split(predicate: Predicate, text: str, left: Collection[str]) -> JoinCondition:
    """Take a condition apart.

    Args:
        predicate: Over the right columns and the structs ``l`` and ``r``.
        text: As it was written, for messages.
        left: The left columns.

    Returns:
        Its parts.

    Raises:
        InvalidFilterError: A name stands without a side that both sides have.
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
    mark = LEFT_MARK if node.name == LEFT else ""
    return Column(mark + node.path[0], node.type, node.path[1:])


def same_row(pairs: Sequence[tuple[str, str, pa.DataType]]) -> Predicate:
    """That a left and a right row have the same key.

    Args:
        pairs: For each column of the key its names on the left and on the right, and its type.

    Returns:
        A predicate over both sides; NULL where a value is NULL.
    """
    return conjunction(
        [Compare("=", Column(LEFT_MARK + left, kind), Column(right, kind)) for left, right, kind in pairs]
    )


def with_values(predicate: Predicate, values: Mapping[str, pa.Array], row: int) -> Predicate:
    """A condition over both sides as one over the right side, for the values of one left row.

    Args:
        predicate: Over both sides.
        values: The left columns it names, without the mark.
        row: The row.

    Returns:
        The condition over right columns alone.
    """

    def change(node: Predicate) -> Predicate | None:
        if not isinstance(node, Column) or not node.name.startswith(LEFT_MARK):
            return None
        array: Any = values[node.name[len(LEFT_MARK) :]].slice(row, 1)
        for field in node.path:
            array = pc.struct_field(array, [field])
        return Literal(literal_values(array, node.type)[0], node.type)

    return exchanged(predicate, change)
