"""The vector column that searches of a table use when they name none, now and at each point in its history.

The table's property `PROPERTY` lists the choices with their instants. An instant is that of a commit without rows, so
that a state of the table before that commit, in time travel or after a restore, has the choice from before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hudi_vector.errors import DataFileError, InvalidArgumentError, UnsupportedTableError
from hudi_vector.options import SEARCHED_COLUMNS
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.storage import open_storage
from hudi_vector.table.config import stored_properties
from hudi_vector.table.model import Snapshot

__all__ = ["FROM_THE_START", "PROPERTY", "Choice", "choices_of", "searched_column", "stored"]

PROPERTY = SEARCHED_COLUMNS
FROM_THE_START = ""
"""The instant of a choice that holds since the table was made."""


@dataclass(frozen=True)
class Choice:
    """A column, and the requested time of the commit since which searches use it."""

    instant: str
    column: str


def choices_of(properties: Mapping[str, str], table: str) -> list[Choice]:
    """Return the choices in a table's properties, the earliest first; raise DataFileError if they are damaged.

    Example:
        >>> choices_of({PROPERTY: '[["", "old"], ["20260101000000000", "new"]]'}, "t")[1].column
        'new'
    """
    try:
        pairs = json.loads(properties.get(PROPERTY) or "[]")
        found = [Choice(instant, column) for instant, column in pairs]
    except (ValueError, TypeError):
        found = [Choice("", "")]
    if not all(isinstance(each.column, str) and each.column and isinstance(each.instant, str) for each in found):
        raise DataFileError(
            f"the property {PROPERTY} of '{table}' is damaged: it is a list of pairs of instant and column; "
            "set it again with hv.vectors.use"
        )
    return sorted(found, key=lambda choice: choice.instant)


def stored(choices: list[Choice]) -> str:
    """Return choices as the text of the property."""
    return json.dumps([[choice.instant, choice.column] for choice in choices])


def searched_column(snapshot: Snapshot) -> str:
    """Return the column for searches of a snapshot that name none: the one chosen, else the only VECTOR column.

    The choice is read from storage now, as it may be newer than the snapshot's configuration. Raises
    InvalidArgumentError if nothing was chosen and the table has no VECTOR column, or several.
    """
    name = snapshot.source.name
    if not snapshot.config.version:
        raise InvalidArgumentError(f"name the column of '{name}': only a Hudi table keeps which column is searched")
    table = snapshot.source.uri
    properties = stored_properties(open_storage(table, snapshot.source.options).read, table)
    for choice in reversed(choices_of(properties, name)):
        if choice.instant in snapshot.commits or choice.instant < snapshot.archived_before:
            if choice.column in snapshot.schema.names:
                return choice.column
            raise UnsupportedTableError(
                f"searches of '{name}' use column '{choice.column}', which it does not have any more; name another, "
                "or choose one with hv.vectors.use"
            )
    described = {each.name: (each.metadata or {}).get(HUDI_TYPE.encode(), b"") for each in snapshot.schema}
    vectors = [str(column) for column, text in described.items() if text.upper().startswith(b"VECTOR")]
    if len(vectors) != 1:
        held = f"the VECTOR columns {', '.join(vectors)}" if vectors else "no VECTOR column"
        raise InvalidArgumentError(
            f"'{name}' has {held}, and none was chosen for searches that name no column; name the column"
            + (", or choose one with hv.vectors.use" if vectors else "")
        )
    return vectors[0]
