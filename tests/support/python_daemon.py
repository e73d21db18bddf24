"""The package's daemon of Python workers, without archives, whose names a worker would read before each task."""

from __future__ import annotations

import sys

# pyspark is installed as files as well.
sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]

from hudi_vector import worker_daemon  # noqa: E402

if __name__ == "__main__":
    worker_daemon.run()
