"""Calls into the JVM and back: function builders, exceptions, small conversions."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j import java_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.catalyst.worker_errors import raised_in_worker
from hudi_vector.workers import unfit_workers

__all__ = [
    "JavaObject",
    "analysis_error",
    "answer_promptly",
    "enable_callbacks",
    "execution_error",
    "first_sentence",
    "function_builder",
    "node_name",
    "option_value",
    "session_of",
    "simple_name",
    "texts_of",
]

JavaObject = Any
"""A py4j handle; its members are resolved at run time, so there is no better type."""

_LOG = logging.getLogger(__name__)

_ANALYSIS_CLASS = "_LEGACY_ERROR_TEMP_1332"
"""The error class of Spark 3.5 and 4.1 whose whole text is its argument ``errorMessage``."""


_BETWEEN = "\x1e"
_ERROR_CLASS = re.compile(r"^(?:[\w.]+(?:Exception|Error): )?\[[A-Z_.0-9]+\] ")
_SENTENCE_END = re.compile(r"\n|;? line \d+|\(line \d+|\. (?=[A-Z])")


class _ProxyNoise(logging.Filter):
    """A filter for py4j's 90-line log record of an exception that reaches its caller anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if record.exc_info else None
        return not (isinstance(raised, Py4JJavaError) and "Python Proxy" in record.getMessage())


def enable_callbacks(gateway: JavaObject) -> None:
    """Start the callback server, so that the JVM can call Python and Java exceptions raised there reach it unchanged.

    Also drop py4j's log records of these exceptions.
    """
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    for name in ("python_parameters", "callback_server_parameters"):
        parameters = getattr(gateway, name, None)
        if parameters is not None:
            parameters.propagate_java_exceptions = True
    logger = logging.getLogger("py4j.clientserver")
    if not any(isinstance(present, _ProxyNoise) for present in logger.filters):
        logger.addFilter(_ProxyNoise())


class _OfThread(threading.local):
    """Hold what is known of the connection that a thread of Python has with the JVM."""

    is_prompt = False


_CONNECTION = _OfThread()


def answer_promptly(gateway: JavaObject) -> None:
    """Let the JVM send long texts to this thread, which it has called, without a pause; done once for each thread.

    The JVM hands 8 KB at a time to its socket, which by Nagle's algorithm holds a last short packet back until the one
    before is acknowledged, and that may take 40 ms. The text of a vector of 768 elements is 15 KB.
    """
    if _CONNECTION.is_prompt:
        return
    _CONNECTION.is_prompt = True
    with suppress(Py4JError):  # nothing but time is lost where a JVM is connected in another way
        server = java_gateway.JavaObject("GATEWAY_SERVER", gateway._gateway_client)
        connection = server.getCallbackClient().getPerThreadConnection()
        if connection is not None:
            connection.getSocket().setTcpNoDelay(True)


class _Builder:
    """The builder of a SQL function, which Spark calls with the Catalyst expressions of the arguments."""

    def __init__(self, gateway: JavaObject, name: str, plan: Callable[[SparkSession, JavaObject], JavaObject]):
        self._gateway = gateway
        self._active_session = getattr(gateway.jvm, "org.apache.spark.sql.SparkSession").active
        self._name = name
        self._plan = plan

    def call(self, expressions: JavaObject) -> JavaObject:
        answer_promptly(self._gateway)
        try:
            return self._plan(session_of(self._active_session()), expressions)
        except HudiVectorError as problem:
            raise analysis_error(self._gateway, f"{self._name}: {problem}") from None
        except PySparkException as problem:
            raise analysis_error(self._gateway, f"{self._name}: {first_sentence(problem)}") from None
        except Exception as problem:  # noqa: BLE001 - see the next line
            # A defect of this package or an unexpected state of the JVM: one line for the caller, the rest for the log.
            _LOG.exception("%s failed at analysis", self._name)
            text = f"{self._name}: failed unexpectedly: {type(problem).__name__}: {first_sentence(problem)}"
            raise analysis_error(self._gateway, text) from None

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self._name

    class Java:
        """The interface that py4j presents to the JVM; its ``call`` may throw checked exceptions."""

        implements = ["org.apache.spark.api.java.function.Function"]  # noqa: RUF012 - py4j reads a list


def function_builder(
    gateway: JavaObject, name: str, plan: Callable[[SparkSession, JavaObject], JavaObject]
) -> JavaObject:
    """Return a ``scala.Function1`` that Spark can call to build a SQL function.

    Spark itself makes it of a Java function, so that exceptions keep their class. `name` begins each error message.
    `plan` takes the calling session and the expressions of the arguments, a sequence of Scala.
    """
    pairs = getattr(gateway.jvm, "org.apache.spark.api.java.JavaPairRDD$")
    return getattr(pairs, "MODULE$").toScalaFunction(_Builder(gateway, name, plan))


def analysis_error(gateway: JavaObject, message: str) -> Py4JJavaError:
    """Return an AnalysisException with exactly this text, to be raised inside a builder."""
    parameters = getattr(gateway.jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap({"errorMessage": message})
    kind = getattr(gateway.jvm, "org.apache.spark.sql.AnalysisException")
    return Py4JJavaError(message, kind(_ANALYSIS_CLASS, parameters))


def execution_error(gateway: JavaObject, message: str) -> Py4JJavaError:
    """Return an unchecked Java exception; only these reach the user in one line from inside a scan."""
    return Py4JJavaError(message, getattr(gateway.jvm, "java.lang.IllegalArgumentException")(message))


def session_of(java_session: JavaObject) -> SparkSession:
    """Return the Python object for a Java SparkSession."""
    active = SparkSession._instantiatedSession
    if active is not None and active._jsparkSession.equals(java_session):
        return active
    context = SparkContext._active_spark_context
    assert context is not None
    return SparkSession(context, java_session)


def simple_name(handle: JavaObject) -> str:
    """Return the class name of a Java object, without its package."""
    return str(handle.getClass().getSimpleName())


def node_name(node: JavaObject) -> str:
    """Return the class name of an expression or plan, by one call into the JVM; `simple_name` takes two."""
    return str(node.nodeName())


def option_value(option: JavaObject) -> Any:
    """Return the value of a Scala Option, or None."""
    return option.get() if option.isDefined() else None


def texts_of(elements: JavaObject) -> list[str]:
    """Return the texts of a Scala collection's elements, by one call into the JVM; none for one empty text."""
    text = str(elements.mkString(_BETWEEN))
    return text.split(_BETWEEN) if text else []


def first_sentence(problem: BaseException) -> str:
    """Return the first sentence of an error's text, without error class, position and stack trace.

    For an exception of a Python function, return its class and text.
    """
    unfit = unfit_workers(problem)
    if unfit is not None:
        return str(unfit)
    # The first line of py4j, and often that of the outer Java exceptions, only says which call failed.
    if isinstance(problem, Py4JJavaError):
        said = _innermost(problem.java_exception)
    else:
        said = getattr(problem, "desc", None) or problem
    if raised := raised_in_worker(str(said)):
        return raised
    text = _ERROR_CLASS.sub("", str(said).strip())
    return _SENTENCE_END.split(text, maxsplit=1)[0].rstrip(" ;.") or type(problem).__name__


def _innermost(problem: JavaObject) -> JavaObject:
    """Return the innermost cause that has a message, or the exception itself if no cause has one."""
    found = problem
    while (problem := problem.getCause()) is not None:
        found = problem if problem.getMessage() else found
    return found
