"""The server behind the proxy of ``slow_store.py``: that of moto, quicker.

    python benchmarks/slow_store_server.py PORT

It ends when it is told to. A request to `slow_store.MANY` has many in its body, which are answered as if each had come
alone; connections and threads for them would take two thirds of the time.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from moto.core import serialize
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.s3.models import FakeKey
from moto.server import main
from slow_store import MANY, joined, parted
from werkzeug.test import run_wsgi_app

Start = Callable[..., Any]
_ALONE = DomainDispatcherApplication.__call__


def answer(application: Any, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Answer a request, or the many that one has."""
    if environ["PATH_INFO"] != MANY:
        found: Iterable[bytes] = _ALONE(application, environ, start)
        return found
    asked = parted(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    content = joined(_answers(application, environ, asked))
    start("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(len(content)))])
    return [content]


def _answers(
    application: Any, environ: dict[str, Any], asked: Iterable[tuple[Any, bytes]]
) -> Iterator[tuple[Any, bytes]]:
    """Status and headers of each answer, and its body."""
    for (method, target, headers), body in asked:
        path, _, query = target.partition("?")
        one = {name: value for name, value in environ.items() if not name.startswith(("HTTP_", "werkzeug."))}
        one |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers}
        one |= {"REQUEST_METHOD": method, "PATH_INFO": unquote_to_bytes(path).decode("latin-1"), "QUERY_STRING": query}
        one |= {"REQUEST_URI": target, "RAW_URI": target, "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": ""}
        parts, status, found = run_wsgi_app(application, {**one, "wsgi.input": io.BytesIO(body)}, buffered=True)
        yield [int(status.split(" ")[0]), list(found.items())], b"".join(parts)


def _in_milliseconds(moment: datetime) -> str:
    """A time as MinIO and Google's XML interface list it; their answers to a HEAD have whole seconds."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


if __name__ == "__main__":
    FakeKey.last_modified_ISO8601 = property(  # type: ignore[assignment,method-assign]
        lambda key: _in_milliseconds(key.last_modified)
    )
    serialize.TimestampSerializer._timestamp_iso8601_zeroed = (  # type: ignore[method-assign]
        lambda _, moment: _in_milliseconds(moment)
    )
    # For each request moto looks through its folders, nearly two hundred, for the names of the services that it has.
    DomainDispatcherApplication.get_backend_for_host = functools.cache(  # type: ignore[method-assign]
        DomainDispatcherApplication.get_backend_for_host
    )
    # A listing takes a third of its time to read the times of the objects, most of which are the same.
    serialize.parse_to_aware_datetime = functools.lru_cache(1 << 12)(serialize.parse_to_aware_datetime)
    DomainDispatcherApplication.__call__ = answer  # type: ignore[method-assign,assignment]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # nobody reads a line for each request
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
