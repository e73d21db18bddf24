"""Spark's daemon of Python workers, which begins with what nearly all of them import."""

from __future__ import annotations

import gc
import sys

# Before each task a worker reads the names in all archives that it imports from; pyspark is installed as files as well.
sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]

import distutils.version  # noqa: E402, F401

import pandas as pd  # noqa: E402, F401
import pyarrow.dataset  # noqa: E402
import pyarrow.pandas_compat  # noqa: E402
import pyarrow.parquet  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import hudi_vector.blobs.storing.writer  # noqa: E402
import hudi_vector.query.distributed  # noqa: E402
import hudi_vector.query.join.held  # noqa: E402
import hudi_vector.spark.blobs.counted  # noqa: E402
import hudi_vector.spark.blobs.functions  # noqa: E402
import hudi_vector.writing.blobs.staged_files  # noqa: E402
import hudi_vector.writing.rewriting.repack  # noqa: E402, F401
from hudi_vector.workers import forget_archives  # noqa: E402

if __name__ == "__main__":
    forget_archives()
    # Spark collects garbage after each task, which would look through all of this again.
    gc.freeze()
    daemon.manager()
