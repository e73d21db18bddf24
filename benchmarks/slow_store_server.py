"""The server behind the proxy of ``slow_store.py``: that of moto, quicker.

    python benchmarks/slow_store_server.py PORT

It ends when it is told to.
"""

from __future__ import annotations

import functools
import logging
import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

if __name__ == "__main__":
    # For each request moto looks through its folders, nearly two hundred, for the names of the services that it has.
    DomainDispatcherApplication.get_backend_for_host = functools.cache(  # type: ignore[method-assign]
        DomainDispatcherApplication.get_backend_for_host
    )
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # nobody reads a line for each request
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
