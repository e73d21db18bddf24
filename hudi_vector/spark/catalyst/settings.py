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

from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import handles_of, state_of

__all__ = [
    "application_of",
    "hadoop_settings",
    "handed_over",
    "one_step",
    "pairs_of",
    "session_settings",
    "statement_of",
    "time_zone",
]

T = TypeVar("T")

_SETTINGS, _STATEMENT, _TIME_ZONE = "settings", "statement", "time zone"
_ZONE = "spark.sql.session.timeZone"
_EXECUTION = "spark.sql.execution.id"
_BETWEEN, _IS = "\x1e", " -> "  # Scala writes a pair of a map with this arrow; keys have no blanks

_ASKED: ContextVar[dict[tuple[str, SparkSession], Any] | None] = ContextVar("asked", default=None)
_APPLICATIONS: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


@contextmanager
def one_step(known: Mapping[tuple[str, SparkSession], Any] | None = None) -> Iterator[None]:
    """Keep what the functions of this module return for a session, in this thread, until the step ends.

    `known` is what the JVM handed over when it began the step, from `handed_over`.
    """
    before = _ASKED.set(dict(known or {}))
    try:
        yield
    finally:
        _ASKED.reset(before)


def handed_over(spark: SparkSession, statement: str, zone: str, settings: str) -> dict[tuple[str, SparkSession], Any]:
    """Return what the JVM says of a session: the id of its SQL execution, "" for none, its zone, and its settings."""
    return {
        (_STATEMENT, spark): statement or None,
        (_TIME_ZONE, spark): zone,
        (_SETTINGS, spark): _split(settings),
    }


def session_settings(spark: SparkSession) -> Mapping[str, str]:
    """Return all settings that a session has a value for, by key."""
    return _once(_SETTINGS, spark, lambda: pairs_of(state_of(spark).conf.getAllConfs()))


def hadoop_settings(spark: SparkSession, pattern: str) -> Mapping[str, str]:
    """Return the session's Hadoop settings whose keys match a Java regular expression."""
    found = spark._jsparkSession.sessionState().newHadoopConf().getValByRegex(pattern)
    return pairs_of(handles_of(spark).scala_map(found))


def time_zone(spark: SparkSession) -> str:
    """Return the time zone of a session, which is that of its JVM if the session sets none."""
    zone = session_settings(spark).get(_ZONE)
    if zone is not None:
        return zone
    return _once(_TIME_ZONE, spark, lambda: str(state_of(spark).conf.sessionLocalTimeZone()))


def statement_of(spark: SparkSession) -> str | None:
    """Return the id of the SQL execution that this thread runs, None outside of one."""
    return _once(_STATEMENT, spark, lambda: spark.sparkContext.getLocalProperty(_EXECUTION))


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


def pairs_of(scala_map: JavaObject) -> dict[str, str]:
    """Return a Scala map of texts as a dict; it comes from the JVM as one text."""
    return _split(str(scala_map.mkString(_BETWEEN)))


def _split(text: str) -> dict[str, str]:
    """Return settings from a text of pairs, as Scala writes a map with the separator of this module."""
    pairs = (entry.partition(_IS) for entry in text.split(_BETWEEN))
    return {key: value for key, _, value in pairs if key}
