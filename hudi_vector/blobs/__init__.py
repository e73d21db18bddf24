"""BLOB columns: references, containers and readers.

    inventory     count a table's blobs, their bytes, and the bytes that nothing refers to
    verify        find the wrong references of a table
    get           read the blobs of some rows, by record key
    open          open a blob as a file
    iter_bytes    stream the bytes of many blobs
    prepare       store the blobs of a DataFrame that the caller writes to Hudi
    finish        note that prepared rows were committed
    relocate      point the references of a copied table to its own containers

Each function is loaded at its first use, so importing this package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import absent_name

if TYPE_CHECKING:
    from hudi_vector.blobs.reading.handle import iter_bytes
    from hudi_vector.blobs.reading.handle import open_blob as open  # noqa: A004 - hv.blobs.open
    from hudi_vector.spark.blobs.inventory import inventory
    from hudi_vector.spark.blobs.single_values import get
    from hudi_vector.spark.blobs.verify import verify
    from hudi_vector.writing.blobs.prepare import finish_blobs as finish
    from hudi_vector.writing.blobs.prepare import prepare_blobs as prepare
    from hudi_vector.writing.rewriting.relocate import relocate_blobs as relocate

_HOMES = {
    "finish": ("hudi_vector.writing.blobs.prepare", "finish_blobs"),
    "get": ("hudi_vector.spark.blobs.single_values", "get"),
    "inventory": ("hudi_vector.spark.blobs.inventory", "inventory"),
    "iter_bytes": ("hudi_vector.blobs.reading.handle", "iter_bytes"),
    "open": ("hudi_vector.blobs.reading.handle", "open_blob"),
    "prepare": ("hudi_vector.writing.blobs.prepare", "prepare_blobs"),
    "relocate": ("hudi_vector.writing.rewriting.relocate", "relocate_blobs"),
    "verify": ("hudi_vector.spark.blobs.verify", "verify"),
}

__all__ = ["finish", "get", "inventory", "iter_bytes", "open", "prepare", "relocate", "verify"]


if not TYPE_CHECKING:  # else every misspelt name would have the type Any

    def __getattr__(name: str) -> Any:
        """Load a public function from the module it lives in."""
        if name not in _HOMES:
            raise absent_name("hudi_vector.blobs", name, __all__)
        module, function = _HOMES[name]
        return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return sorted(__all__)
