"""The vector columns of a table: added, filled, compared, chosen and dropped, as a change of the model needs.

    add_column    add a VECTOR column to a table, empty, in one commit
    backfill      fill the empty vectors of a column with those that a function computes
    compare       search two columns with the same questions, and show how the answers differ
    use           choose the column for searches that name none, in one commit
    drop_column   clear a column, drop it with its indexes, and list the files that still hold its vectors
    find_vectors  list the data files of all versions that hold vectors of a column

Each function is loaded on first use, so importing this package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import absent_name

if TYPE_CHECKING:
    from hudi_vector.vectors.adding import add_column
    from hudi_vector.vectors.choosing import use
    from hudi_vector.vectors.comparing import compare
    from hudi_vector.vectors.dropping import drop_column, find_vectors
    from hudi_vector.vectors.filling import backfill

_HOMES = {
    "add_column": "hudi_vector.vectors.adding",
    "backfill": "hudi_vector.vectors.filling",
    "compare": "hudi_vector.vectors.comparing",
    "drop_column": "hudi_vector.vectors.dropping",
    "find_vectors": "hudi_vector.vectors.dropping",
    "use": "hudi_vector.vectors.choosing",
}

__all__ = ["add_column", "backfill", "compare", "drop_column", "find_vectors", "use"]


if not TYPE_CHECKING:  # otherwise every misspelt name would have the type Any

    def __getattr__(name: str) -> Any:
        """Load a public function from the module that defines it."""
        if name not in _HOMES:
            raise absent_name("hudi_vector.vectors", name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
