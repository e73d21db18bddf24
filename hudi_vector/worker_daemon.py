"""Spark's daemon of Python workers, which begins with what tasks of this package import.

A worker is a fork of the daemon, so that it has all of it at once. Spark ends a worker whose results a LIMIT leaves
unread, and the next one would take more than half a second to import what this one had.
"""

from __future__ import annotations

import contextlib
import gc

import pandas as pd  # noqa: F401
import pyarrow.dataset
import pyarrow.pandas_compat
import pyarrow.parquet  # noqa: F401

import hudi_vector.blobs.storing.writer
import hudi_vector.query.distributed
import hudi_vector.query.join.held
import hudi_vector.spark.blobs.counted
import hudi_vector.spark.blobs.functions
import hudi_vector.writing.blobs.staged_files
import hudi_vector.writing.rewriting.repack  # noqa: F401
from hudi_vector.workers import forget_archives

with contextlib.suppress(ImportError):  # PySpark 3.5 wants it for Arrow; from Python 3.12 on setuptools has it
    import distutils.version  # noqa: F401

__all__ = ["run"]


def run() -> None:
    """Serve workers until Spark ends this process."""
    from pyspark import daemon

    forget_archives()
    # Spark collects garbage after each task, which would look through all of this again.
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run()
