"""The room of vector indexes: a model, an immutable segment for each base file, a joined view of them.

What users call is resolved when it is first used, so that importing this room loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "build_if_missing": "hudi_vector.table_services.vector_index",
    "compact": "hudi_vector.table_services.index_compact",
    "create": "hudi_vector.table_services.vector_index",
    "describe": "hudi_vector.table_services.vector_index",
    "drop": "hudi_vector.table_services.vector_index",
    "recall": "hudi_vector.table_services.index_checks",
    "refresh": "hudi_vector.table_services.vector_index",
    "verify": "hudi_vector.table_services.index_checks",
}

__all__ = ["build_if_missing", "compact", "create", "describe", "drop", "recall", "refresh", "verify"]


def __getattr__(name: str) -> Any:
    """Load a public function from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hudi_vector.index' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
