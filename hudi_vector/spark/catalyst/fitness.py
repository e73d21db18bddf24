"""Checks of a SparkSession: a running JVM, Hudi on its class path, and workers that have this package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_vector.errors import HudiVectorError, InvalidTypeError, SessionError, kind_of
from hudi_vector.version import __version__
from hudi_vector.workers import unfit_workers

__all__ = [
    "has_hudi",
    "not_a_session",
    "prepare_workers",
    "require_fit",
    "require_running",
    "require_workers",
    "workers_are_local_strangers",
]

_HUDI = "org.apache.hudi.DefaultSource"
# The applications that passed a check; the result cannot change while they run.
_WITH_HUDI: WeakSet[SparkContext] = WeakSet()
_WITH_WORKERS: WeakSet[SparkContext] = WeakSet()
_PREPARED: WeakSet[SparkContext] = WeakSet()

_PACKAGE = "hudi_vector"
_DAEMON_KEY, _DAEMON = "spark.python.daemon.module", f"{_PACKAGE}.worker_daemon"


_STOPPED = "this SparkSession has no running JVM: it was stopped; make a new one and register that"


def not_a_session(spark: object) -> HudiVectorError:
    """Return the error for an argument that is not a SparkSession, or is a session of Spark Connect."""
    if ".connect." in type(spark).__module__:
        return SessionError(
            "this is a Spark Connect session, which has no JVM to register functions in; "
            "use a classic SparkSession (without a remote URL)"
        )
    return InvalidTypeError(f"the argument 'spark' must be a SparkSession, not {kind_of(spark)}")


def require_running(spark: Any) -> None:
    """Raise SessionError if the session was stopped from this process; the JVM is not called."""
    context = getattr(spark, "_sc", None)
    if context is None or getattr(context, "_jsc", None) is None:
        raise SessionError(_STOPPED)


def require_fit(spark: SparkSession) -> None:
    """Raise SessionError unless the session runs, PYSPARK_PIN_THREAD is on, and Hudi is on the class path."""
    if ".connect." in type(spark).__module__:
        raise not_a_session(spark)
    require_running(spark)
    context: Any = spark.sparkContext
    if context._jsc.sc().isStopped():
        raise SessionError(_STOPPED)
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise SessionError(
            "PYSPARK_PIN_THREAD is off, so that calls may reach another session than their own; "
            "unset it before the first SparkSession is made"
        )
    if not has_hudi(context):
        raise SessionError(
            "Hudi is not on the class path of this SparkSession, and cannot be added while it runs; stop it and build "
            "it with hudi_vector.configure(builder), or name the bundle that 'hudi-vector bundles' has for "
            "this Spark in spark.jars.packages"
        )


def has_hudi(context: SparkContext) -> bool:
    """Return True if a running application has Hudi on its class path."""
    if context in _WITH_HUDI:
        return True
    jvm: Any = context._jvm
    try:
        loader = getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
        getattr(jvm, "java.lang.Class").forName(_HUDI, False, loader)
    except Py4JJavaError as absent:
        if "ClassNotFoundException" not in str(absent):
            raise
        return False
    _WITH_HUDI.add(context)
    return True


def require_workers(spark: SparkSession) -> None:
    """Raise SessionError unless a Python worker can load this version of the package.

    This runs one small job, once per application.
    """
    context = spark.sparkContext
    if context in _WITH_WORKERS:
        return
    try:
        (found,) = context.parallelize([0], 1).map(_probe()).collect()
    except (Py4JJavaError, PySparkException) as problem:
        known = unfit_workers(problem)
        if known is None:
            raise
        raise known from None
    if found != __version__:
        raise SessionError(
            f"the Python workers of this session have hudi-vector {found} and the driver has {__version__}; "
            "install the same version for both"
        )
    _WITH_WORKERS.add(context)


def prepare_workers(spark: SparkSession) -> None:
    """Have the workers of a local session, of this Python, forked from a process that has imported what tasks need.

    Nothing is done on a cluster, whose workers may lack this package, or where ``spark.python.daemon.module`` is set.
    """
    context = spark.sparkContext
    if context in _PREPARED or not str(context.master).startswith("local"):
        return
    _PREPARED.add(context)
    settings = getattr(context._jvm, "org.apache.spark.SparkEnv").get().conf()
    if not settings.contains(_DAEMON_KEY) and _is_importable(context.pythonExec):
        settings.set(_DAEMON_KEY, _DAEMON)


def _is_importable(python: str) -> bool:
    """Return True if another process of this Python, as workers are, finds this package."""
    asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{_PACKAGE}') is None)"
    return subprocess.run([python, "-c", asked], check=False, stderr=subprocess.DEVNULL).returncode == 0  # noqa: S603


def _probe() -> Callable[[int], str]:
    def version(_: int) -> str:
        # A nested function is pickled by value; a worker without this package could not load it by name.
        import numpy as np  # noqa: F401
        import pandas as pd  # noqa: F401
        import pyarrow as pa  # noqa: F401

        import hudi_vector.version

        return hudi_vector.version.__version__

    return version


def workers_are_local_strangers(spark: SparkSession) -> bool:
    """Return True if workers run on this machine with another Python interpreter than this process."""
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        return False
    theirs, ours = (
        os.path.abspath(shutil.which(context.pythonExec) or context.pythonExec),
        os.path.abspath(sys.executable),
    )
    # A virtual environment has several names for its interpreter, all in the same folder.
    same_folder = os.path.dirname(theirs) == os.path.dirname(ours)
    return not (same_folder and os.path.realpath(theirs) == os.path.realpath(ours))
