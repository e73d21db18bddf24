"""The room of scheduled jobs over a table: each plans, runs and commits.

What users call is resolved when it is first used, so that importing this room loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "clean_blobs": "hudi_vector.table_services.clean",
    "cluster": "hudi_vector.table_services.clustering",
    "compact_blobs": "hudi_vector.table_services.compact",
    "mark_blobs": "hudi_vector.table_services.clean",
    "restore_blobs": "hudi_vector.table_services.clean",
    "sweep_blobs": "hudi_vector.table_services.clean",
}

__all__ = ["clean_blobs", "cluster", "compact_blobs", "mark_blobs", "restore_blobs", "sweep_blobs"]


def __getattr__(name: str) -> Any:
    """Load a public function from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hudi_vector.table_services' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
