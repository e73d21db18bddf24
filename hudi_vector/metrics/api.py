"""``hv.metrics``: the functions that turn metrics on, and show them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_seconds, as_text, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.events import listen
from hudi_vector.metrics.library import library
from hudi_vector.options import Settings
from hudi_vector.storage import path_text
from hudi_vector.table.model import Source
from hudi_vector.table.other_files import require_outside
from hudi_vector.table_services.located import locate_here

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from hudi_vector.metrics.recorder import Recorder

__all__ = ["MetricsServer", "registry", "require_writable", "serve", "write_text"]

_LOCK = threading.Lock()
_recorder: Recorder | None = None


class MetricsServer:
    """A server of metrics, as `serve` returns it; its thread ends with the process, or by `close`.

    Attributes:
        url: Where Prometheus finds the metrics.
        port: The port of the server.

    Example:
        >>> with hv.metrics.serve(0) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, server: Any, thread: threading.Thread, address: str) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self.port}/metrics"

    def __repr__(self) -> str:
        return f"MetricsServer at {self.url}"

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and free the port; counting goes on.

        Example:
            >>> hv.metrics.serve(0).close()
        """
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@known_arguments()
def registry(
    *,
    tables: Sequence[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, str] | None = None,
    every: float | None = None,
) -> CollectorRegistry:
    """Turn metrics on, and return the registry that has them, for a server of metrics that a process has already.

    From then on this process counts its searches and services. Each call adds its tables to those that are read; tables
    that are searched, or looked after by a service, are added too. No metric has data of rows: labels are the URI of
    the table, and names of columns, of kinds of indexes, of distances, of services and of their steps.

    Args:
        tables: Paths of Hudi tables whose commits, indexes and maintenance are to be read, without Spark.
        storage_options: Hadoop's storage settings for these tables, such as ``fs.s3a.endpoint``.
        every: The least time between two reads of a table, in seconds, however often metrics are collected; 60 until
            another is given.

    Returns:
        The registry of prometheus-client; the process has one.

    Raises:
        MissingDependencyError: prometheus-client is not installed.
        InvalidArgumentError: A table is not named by a path, or `every` is below 0, or not finite.
        InvalidTypeError: An argument has the wrong type.
        TableNotFoundError: There is no Hudi table at a path.

    Example:
        >>> metrics = hv.metrics.registry(tables=["/tables/products"])
        >>> metrics.get_sample_value("hudi_vector_table_readable", {"table": "file:///tables/products"})
        1.0
    """
    return _turned_on(tables, storage_options, every).registry


@known_arguments()
def serve(
    port: int,
    *,
    address: str = "127.0.0.1",
    tables: Sequence[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, str] | None = None,
    every: float | None = None,
) -> MetricsServer:
    """Turn metrics on, and serve them to Prometheus from a thread of this process.

    The server answers in the format that is asked for, OpenMetrics or Prometheus' text. It has no passwords and no TLS.

    Args:
        port: The port, 1 to 65535; 0 takes one that is free, which the result names.
        address: The address to listen at: by default only this machine can ask; ``"0.0.0.0"`` lets others.
        tables: As for `registry`.
        storage_options: As for `registry`.
        every: As for `registry`.

    Returns:
        The server, which runs until it is closed or the process ends.

    Raises:
        MissingDependencyError: prometheus-client is not installed.
        InvalidArgumentError: The port is in use, or the process may not listen there; or as for `registry`.
        InvalidTypeError: An argument has the wrong type.
        TableNotFoundError: There is no Hudi table at a path.

    Example:
        >>> with hv.metrics.serve(0, tables=["/tables/products"]) as server:
        ...     server.port > 0
        True
    """
    if isinstance(port, bool) or not isinstance(port, int):
        raise InvalidTypeError(f"port must be a whole number from 0 to 65535, not {port!r}")
    if not 0 <= port <= 65535:
        raise InvalidArgumentError(f"port must be a whole number from 0 to 65535, not {port}")
    host = as_text(address, "address")
    known = _turned_on(tables, storage_options, every).registry
    try:
        server, thread = library().start_http_server(port, host, known)
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise InvalidArgumentError(
            f"metrics cannot be served at port {port} of '{host}': {why}; give another port, or 0 for one that is free"
        ) from None
    return MetricsServer(server, thread, host)


@known_arguments()
def write_text(path: str | os.PathLike[str]) -> None:
    """Write the metrics of this process to a file, in one atomic step, and turn metrics on if they are not.

    The file is in Prometheus' text format. The textfile collector of a node exporter reads it if its name ends with
    ``.prom``.

    Args:
        path: The file; it is replaced if it is there.

    Raises:
        MissingDependencyError: prometheus-client is not installed.
        InvalidArgumentError: The file cannot be written, or would lie among the data files of a table.
        InvalidTypeError: `path` is not a path.

    Example:
        >>> hv.metrics.write_text("/tmp/hudi_vector.prom")
    """
    place = require_writable(path)
    known = _turned_on((), None, None).registry
    try:
        library().write_to_textfile(place, known)
    except OSError as problem:
        raise _unwritable(place, str(problem.strerror)) from None


def require_writable(path: Any) -> str:
    """Return the path of a file of metrics; raise InvalidArgumentError if no file can be put there."""
    place = path_text(path)
    if not isinstance(place, str) or not place:
        raise InvalidTypeError(f"the file of metrics must be a path, not {path!r}")
    folder = os.path.dirname(place) or "."
    if os.path.isdir(place):
        raise _unwritable(place, "it is a directory")
    if not os.path.isdir(folder):
        raise _unwritable(place, f"there is no directory '{folder}'")
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _unwritable(place, f"this process may not write to the directory '{folder}'")
    require_outside(place, "the file of metrics")
    return place


def _unwritable(place: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"metrics cannot be written to '{place}': {why}; name a file in a directory that this process may write to"
    )


def _turned_on(tables: Any, storage_options: Any, every: Any) -> Recorder:
    """Return the recorder of the process, which listens, after checking what it is to read besides."""
    global _recorder  # noqa: PLW0603 - one for the process, as the listener is
    library()
    sources, seconds = _sources(tables, storage_options), as_seconds(every, "every")
    from hudi_vector.metrics.recorder import Recorder
    from hudi_vector.metrics.tables import MOST_TABLES

    with _LOCK:
        if _recorder is None:
            _recorder = Recorder()
            listen(_recorder)
        recorder = _recorder
    if seconds is not None:
        recorder.tables.every = seconds
    for source in sources:
        if not recorder.tables.watch(source):
            raise InvalidArgumentError(f"metrics are of {MOST_TABLES} tables at most, and '{source.name}' is one more")
    return recorder


def _sources(tables: Any, storage_options: Any) -> list[Source]:
    if isinstance(tables, (str, bytes, os.PathLike)) or not isinstance(tables, Sequence):
        raise InvalidTypeError(f"tables must be a list of paths, not {tables!r}")
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidTypeError(f"storage_options must be a dictionary of texts, not {type(storage_options).__name__}")
    settings = Settings({str(key): str(value) for key, value in (storage_options or {}).items()})
    found = []
    for table in tables:
        path = as_text(path_text(table), "tables")
        if "/" not in path:
            raise InvalidArgumentError(f"metrics read tables by their path, without Spark, and '{path}' is not one")
        root, _, options = locate_here(path, settings)
        found.append(Source(root, path, options))
    return found
