"""Search, write and look after vectors and blobs in Apache Hudi tables, on Spark through PySpark."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hudi_vector.version import __version__

if TYPE_CHECKING:
    from hudi_vector import blobs, index, table_services
    from hudi_vector.schema import blob_field, vector_field
    from hudi_vector.search.report import last_reports
    from hudi_vector.search.vector_table import open  # noqa: A004 - hv.open
    from hudi_vector.session import configure, register
    from hudi_vector.spark.api import explain_search, search, search_batch
    from hudi_vector.spark.blob_api import (
        blob_length,
        blob_location,
        blob_ref,
        read_blob,
        read_blobs,
        to_blob,
        try_read_blob,
    )
    from hudi_vector.spark.blob_references import blob_references
    from hudi_vector.spark.changes import search_changes
    from hudi_vector.spark.hybrid_api import hybrid_search, hybrid_search_batch
    from hudi_vector.spark.join.api import explain_join, knn_join
    from hudi_vector.spark.join.nearest_by import nearest_by_join
    from hudi_vector.streaming.api import vector_search
    from hudi_vector.streaming.hybrid import hybrid_vector_search
    from hudi_vector.streaming.watch import watch_search
    from hudi_vector.write.writer import write

_HOMES = {
    "blob_field": "hudi_vector.schema",
    "blob_length": "hudi_vector.spark.blob_api",
    "blob_location": "hudi_vector.spark.blob_api",
    "blob_ref": "hudi_vector.spark.blob_api",
    "blob_references": "hudi_vector.spark.blob_references",
    "configure": "hudi_vector.session",
    "explain_join": "hudi_vector.spark.join.api",
    "explain_search": "hudi_vector.spark.api",
    "knn_join": "hudi_vector.spark.join.api",
    "nearest_by_join": "hudi_vector.spark.join.nearest_by",
    "hybrid_search": "hudi_vector.spark.hybrid_api",
    "hybrid_search_batch": "hudi_vector.spark.hybrid_api",
    "hybrid_vector_search": "hudi_vector.streaming.hybrid",
    "last_reports": "hudi_vector.search.report",
    "open": "hudi_vector.search.vector_table",
    "read_blob": "hudi_vector.spark.blob_api",
    "read_blobs": "hudi_vector.spark.blob_api",
    "register": "hudi_vector.session",
    "search": "hudi_vector.spark.api",
    "search_batch": "hudi_vector.spark.api",
    "search_changes": "hudi_vector.spark.changes",
    "to_blob": "hudi_vector.spark.blob_api",
    "try_read_blob": "hudi_vector.spark.blob_api",
    "vector_field": "hudi_vector.schema",
    "vector_search": "hudi_vector.streaming.api",
    "watch_search": "hudi_vector.streaming.watch",
    "write": "hudi_vector.write.writer",
}

__all__ = [
    "__version__",
    "blob_field",
    "blob_length",
    "blob_location",
    "blob_ref",
    "blob_references",
    "blobs",
    "configure",
    "explain_join",
    "explain_search",
    "hybrid_search",
    "hybrid_search_batch",
    "hybrid_vector_search",
    "index",
    "knn_join",
    "last_reports",
    "nearest_by_join",
    "open",
    "read_blob",
    "read_blobs",
    "register",
    "search",
    "search_batch",
    "search_changes",
    "table_services",
    "to_blob",
    "try_read_blob",
    "vector_field",
    "vector_search",
    "watch_search",
    "write",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the room it lives in, when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hudi_vector' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _CallableRoom(ModuleType):
    """A room that has the name of the function it is known for: ``hv.search(…)`` and ``hudi_vector.search.local``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function()(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function())

    def _function(self) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])


for _room in ("search", "write"):
    import_module(f"hudi_vector.{_room}").__class__ = _CallableRoom
for _room in ("blobs", "index", "table_services"):
    import_module(f"hudi_vector.{_room}")  # so that hv.blobs is there
