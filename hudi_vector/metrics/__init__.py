"""Metrics of searches, services, indexes and caches, in the formats of OpenMetrics and Prometheus.

    registry            turn metrics on, and return the registry that has them
    serve               serve metrics to Prometheus from a thread of this process
    write_text          write metrics to a file, for the textfile collector of a node exporter

Nothing is counted before one of these is called. They need the extra ``metrics``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import absent_name

if TYPE_CHECKING:
    from hudi_vector.metrics.api import registry, serve, write_text

_HOMES = {
    "registry": "hudi_vector.metrics.api",
    "serve": "hudi_vector.metrics.api",
    "write_text": "hudi_vector.metrics.api",
}

__all__ = ["registry", "serve", "write_text"]


if not TYPE_CHECKING:  # otherwise every misspelt name would have the type Any

    def __getattr__(name: str) -> Any:
        """Load a public function from the module that defines it."""
        if name not in _HOMES:
            raise absent_name("hudi_vector.metrics", name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
