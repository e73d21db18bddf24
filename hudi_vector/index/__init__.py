"""Vector indexes: one model, an immutable segment per base file, and a joined view for searches.

    create              make an index of a vector column, or make it again
    build_if_missing    make an index if there is none, else bring it up to date
    refresh             bring an index up to date with its table
    describe            list the indexes of a table, and how much of it they cover
    recall              measure an index's recall and latency against exact search
    verify              compare every file of an index with what it was made from
    compact             remove files that an index no longer needs
    drop                remove indexes of a column

Each function is loaded on first use, so importing this package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import absent_name

if TYPE_CHECKING:
    from hudi_vector.table_services.vector_index.api import build_if_missing, create, describe, drop, refresh
    from hudi_vector.table_services.vector_index.checks import recall, verify
    from hudi_vector.table_services.vector_index.compacting import compact

_HOMES = {
    "build_if_missing": "hudi_vector.table_services.vector_index.api",
    "compact": "hudi_vector.table_services.vector_index.compacting",
    "create": "hudi_vector.table_services.vector_index.api",
    "describe": "hudi_vector.table_services.vector_index.api",
    "drop": "hudi_vector.table_services.vector_index.api",
    "recall": "hudi_vector.table_services.vector_index.checks",
    "refresh": "hudi_vector.table_services.vector_index.api",
    "verify": "hudi_vector.table_services.vector_index.checks",
}

__all__ = ["build_if_missing", "compact", "create", "describe", "drop", "recall", "refresh", "verify"]


if not TYPE_CHECKING:  # otherwise every misspelt name would have the type Any

    def __getattr__(name: str) -> Any:
        """Load a public function from the module that defines it."""
        if name not in _HOMES:
            raise absent_name("hudi_vector.index", name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
