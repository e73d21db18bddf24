"""Access to prometheus-client, which the extra ``metrics`` installs."""

from __future__ import annotations

from typing import Any

from hudi_vector.errors import MissingDependencyError

__all__ = ["library"]


def library() -> Any:
    """Return the module ``prometheus_client``; raise MissingDependencyError if it is not installed."""
    try:
        import prometheus_client
    except ImportError as absent:
        raise MissingDependencyError.of("prometheus-client", "metrics", "hv.metrics") from absent
    return prometheus_client
