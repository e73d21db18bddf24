"""The room of scheduled jobs over a table: each plans, runs and commits.

What users call is resolved when it is first used, so that importing this room loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "check_erasure": "hudi_vector.table_services.erasure",
    "clean_blobs": "hudi_vector.table_services.clean",
    "maintain": "hudi_vector.table_services.maintenance",
    "explain_blob": "hudi_vector.table_services.explain",
    "list_containers": "hudi_vector.table_services.containers",
    "cluster": "hudi_vector.table_services.clustering",
    "compact_blobs": "hudi_vector.table_services.compact",
    "mark_blobs": "hudi_vector.table_services.clean",
    "register_tables": "hudi_vector.table_services.sharing",
    "registered_tables": "hudi_vector.table_services.sharing",
    "restore_blobs": "hudi_vector.table_services.clean",
    "sweep_blobs": "hudi_vector.table_services.clean",
    "unregister_tables": "hudi_vector.table_services.sharing",
}

__all__ = [
    "check_erasure",
    "clean_blobs",
    "cluster",
    "compact_blobs",
    "explain_blob",
    "list_containers",
    "maintain",
    "mark_blobs",
    "register_tables",
    "registered_tables",
    "restore_blobs",
    "sweep_blobs",
    "unregister_tables",
]


def __getattr__(name: str) -> Any:
    """Load a public function from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hudi_vector.table_services' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
