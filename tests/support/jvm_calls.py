"""The calls between Python and the JVM while a statement runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

__all__ = ["Calls", "calls_of"]


@dataclass
class Calls:
    """Requests of Python to the JVM, as py4j writes them, and the number of calls of the JVM into Python.

    Words to the collector of garbage are in neither: py4j sends them from a thread of its own whenever Python drops an
    object, often those of a statement before.
    """

    asked: list[str] = field(default_factory=list)
    called_back: int = 0


@contextmanager
def calls_of(spark: SparkSession) -> Iterator[Calls]:
    """The calls that are made meanwhile, in any thread, through the session's own gateway."""
    calls, client = Calls(), spark.sparkContext._gateway._gateway_client
    send: Callable[..., str] = client.send_command
    call_back: Callable[..., str] = ClientServerConnection._call_proxy

    def sent(command: str, *others: Any, **named: Any) -> str:
        if not command.startswith(MEMORY_COMMAND_NAME):
            calls.asked.append(command)
        return send(command, *others, **named)

    def called(connection: ClientServerConnection, *given: Any) -> str:
        calls.called_back += 1
        return call_back(connection, *given)

    client.send_command, ClientServerConnection._call_proxy = sent, called
    try:
        yield calls
    finally:
        del client.send_command
        ClientServerConnection._call_proxy = call_back
