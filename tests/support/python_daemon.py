"""Spark's daemon of Python workers, which begins with what nearly all of them import."""

from __future__ import annotations

import gc
import sys

# Before each task a worker reads the names in all archives that it imports from, and in those where it ever looked for
# a module; pyspark is installed as files as well.
sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
for place in [place for place in sys.path_importer_cache if place not in sys.path]:
    del sys.path_importer_cache[place]

import pandas as pd  # noqa: E402, F401
import pyarrow.parquet  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import hudi_vector.blobs.storing.writer  # noqa: E402
import hudi_vector.query.distributed  # noqa: E402, F401

if __name__ == "__main__":
    # Spark collects garbage after each task, which would look through all of this again.
    gc.freeze()
    daemon.manager()
