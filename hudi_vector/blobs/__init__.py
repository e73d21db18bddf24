"""The room of BLOB columns: their references, containers and readers.

What users call is resolved when it is first used, so that importing this room loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "finish": ("hudi_vector.write.prepare", "finish_blobs"),
    "get": ("hudi_vector.spark.blob_get", "get"),
    "inventory": ("hudi_vector.spark.blob_inventory", "inventory"),
    "iter_bytes": ("hudi_vector.blobs.handle", "iter_bytes"),
    "open": ("hudi_vector.blobs.handle", "open_blob"),
    "prepare": ("hudi_vector.write.prepare", "prepare_blobs"),
    "relocate": ("hudi_vector.write.relocate", "relocate_blobs"),
    "verify": ("hudi_vector.spark.blob_verify", "verify"),
}

__all__ = ["finish", "get", "inventory", "iter_bytes", "open", "prepare", "relocate", "verify"]


def __getattr__(name: str) -> Any:
    """Load a public function from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hudi_vector.blobs' has no attribute '{name}'")
    module, function = _HOMES[name]
    return getattr(import_module(module), function)
