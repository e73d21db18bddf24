"""Vector search, vector writes and blob maintenance for Apache Hudi tables, on Spark through PySpark.

Start with ``session``, or with ``configure`` and ``register`` for a session of your own; then use ``write`` and
``search``. ``hv.blobs``, ``hv.index``,
``hv.metrics``, ``hv.table_services`` and ``hv.vectors`` hold further functions, and ``hv.errors`` all errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.version import __version__

if TYPE_CHECKING:
    from hudi_vector import blobs, errors, index, metrics, table_services, vectors
    from hudi_vector.errors import HudiVectorError
    from hudi_vector.query.explain import explain
    from hudi_vector.query.opened.vector_table import open  # noqa: A004 - hv.open
    from hudi_vector.query.report import last_reports
    from hudi_vector.replays import replay
    from hudi_vector.schema import blob_field, vector_field
    from hudi_vector.sessions import configure, register, session
    from hudi_vector.spark.blobs.api import (
        blob_length,
        blob_location,
        blob_ref,
        read_blob,
        read_blobs,
        to_blob,
        try_read_blob,
    )
    from hudi_vector.spark.blobs.references import blob_references
    from hudi_vector.spark.hybrid.api import hybrid_search, hybrid_search_batch
    from hudi_vector.spark.join.api import knn_join
    from hudi_vector.spark.join.nearest_by import nearest_by_join
    from hudi_vector.spark.search.api import search, search_batch
    from hudi_vector.spark.search.changes import search_changes
    from hudi_vector.streaming.api import vector_search
    from hudi_vector.streaming.watch import watch_search
    from hudi_vector.writing.writer import write

_HOMES = {
    "HudiVectorError": "hudi_vector.errors",
    "blob_field": "hudi_vector.schema",
    "blob_length": "hudi_vector.spark.blobs.api",
    "blob_location": "hudi_vector.spark.blobs.api",
    "blob_ref": "hudi_vector.spark.blobs.api",
    "blob_references": "hudi_vector.spark.blobs.references",
    "configure": "hudi_vector.sessions",
    "explain": "hudi_vector.query.explain",
    "knn_join": "hudi_vector.spark.join.api",
    "nearest_by_join": "hudi_vector.spark.join.nearest_by",
    "hybrid_search": "hudi_vector.spark.hybrid.api",
    "hybrid_search_batch": "hudi_vector.spark.hybrid.api",
    "last_reports": "hudi_vector.query.report",
    "open": "hudi_vector.query.opened.vector_table",
    "read_blob": "hudi_vector.spark.blobs.api",
    "read_blobs": "hudi_vector.spark.blobs.api",
    "register": "hudi_vector.sessions",
    "replay": "hudi_vector.replays",
    "search": "hudi_vector.spark.search.api",
    "search_batch": "hudi_vector.spark.search.api",
    "search_changes": "hudi_vector.spark.search.changes",
    "session": "hudi_vector.sessions",
    "to_blob": "hudi_vector.spark.blobs.api",
    "try_read_blob": "hudi_vector.spark.blobs.api",
    "vector_field": "hudi_vector.schema",
    "vector_search": "hudi_vector.streaming.api",
    "watch_search": "hudi_vector.streaming.watch",
    "write": "hudi_vector.writing.writer",
}

__all__ = [
    "HudiVectorError",
    "__version__",
    "blob_field",
    "blob_length",
    "blob_location",
    "blob_ref",
    "blob_references",
    "blobs",
    "configure",
    "errors",
    "explain",
    "hybrid_search",
    "hybrid_search_batch",
    "index",
    "knn_join",
    "last_reports",
    "metrics",
    "nearest_by_join",
    "open",
    "read_blob",
    "read_blobs",
    "register",
    "replay",
    "search",
    "search_batch",
    "search_changes",
    "session",
    "table_services",
    "to_blob",
    "try_read_blob",
    "vector_field",
    "vector_search",
    "vectors",
    "watch_search",
    "write",
]


if not TYPE_CHECKING:  # otherwise type checkers would give every misspelt name the type Any

    def __getattr__(name: str) -> Any:
        """Import a public name from its module at first use."""
        if name not in _HOMES:
            raise errors.absent_name("hudi_vector", name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


for _room in ("blobs", "errors", "index", "metrics", "table_services", "vectors"):
    import_module(f"hudi_vector.{_room}")  # makes hv.blobs and the other subpackages attributes
