"""The settings of a session and the statement that runs, asked for once in each step of a statement.

A step is the analysis of one function, or the making of its rows. Each call into the JVM costs as much as much of
Python's work in a step, so all settings come as one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.handles import state_of

__all__ = ["application_of", "one_step", "session_settings", "statement_of", "time_zone"]

T = TypeVar("T")

_ZONE = "spark.sql.session.timeZone"
_EXECUTION = "spark.sql.execution.id"
_BETWEEN, _IS = "\x1e", " -> "  # Scala writes a pair of a map with this arrow; keys have no blanks

_ASKED: ContextVar[dict[tuple[str, SparkSession], Any] | None] = ContextVar("asked", default=None)
_APPLICATIONS: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


@contextmanager
def one_step() -> Iterator[None]:
    """Keep what the functions of this module return for a session, in this thread, until the step ends."""
    before = _ASKED.set({})
    try:
        yield
    finally:
        _ASKED.reset(before)


def session_settings(spark: SparkSession) -> Mapping[str, str]:
    """Return all settings that a session has a value for, by key."""
    return _once("settings", spark, lambda: _settings(spark))


def time_zone(spark: SparkSession) -> str:
    """Return the time zone of a session, which is that of its JVM if the session sets none."""
    zone = session_settings(spark).get(_ZONE)
    return zone if zone is not None else _once("zone", spark, lambda: str(state_of(spark).conf.sessionLocalTimeZone()))


def statement_of(spark: SparkSession) -> str | None:
    """Return the id of the SQL execution that this thread runs, None outside of one."""
    return _once("statement", spark, lambda: spark.sparkContext.getLocalProperty(_EXECUTION))


def application_of(context: SparkContext) -> str:
    """Return the id of a Spark application."""
    known = _APPLICATIONS.get(context)
    if known is None:
        known = _APPLICATIONS[context] = str(context.applicationId)
    return known


def _once(name: str, spark: SparkSession, ask: Callable[[], T]) -> T:
    asked = _ASKED.get()
    if asked is None:
        return ask()
    if (name, spark) not in asked:
        asked[name, spark] = ask()
    found: T = asked[name, spark]
    return found


def _settings(spark: SparkSession) -> dict[str, str]:
    text = str(state_of(spark).conf.getAllConfs().mkString(_BETWEEN))
    pairs = (entry.partition(_IS) for entry in text.split(_BETWEEN))
    return {key: value for key, _, value in pairs}
