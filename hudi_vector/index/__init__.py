"""The room of vector indexes: a model, an immutable segment for each base file, a joined view of them.

What users call is resolved when it is first used, so that importing this room loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["build_if_missing", "create", "describe", "drop", "refresh"]


def __getattr__(name: str) -> Any:
    """Load a public function from the module it lives in."""
    if name not in __all__:
        raise AttributeError(f"module 'hudi_vector.index' has no attribute '{name}'")
    return getattr(import_module("hudi_vector.table_services.vector_index"), name)
