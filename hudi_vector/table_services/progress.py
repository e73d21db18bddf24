"""How far a service is: one line that is rewritten on a terminal, a log entry now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

__all__ = ["followed"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_TERMINAL_S, _LOG_S = 0.2, 30.0


def followed(
    items: Iterable[T],
    total: int,
    what: str,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Pass items on and show how many are done.

    Args:
        items: What is worked at, one after the other.
        total: How many there are.
        what: What is done with them, such as ``files swept``.
        stream: Where a terminal may be; the standard error by default.
        clock: Seconds, for tests.

    Yields:
        The items.

    Example:
        >>> list(followed("ab", 2, "letters read"))
        ['a', 'b']
    """
    shown = sys.stderr if stream is None else stream
    on_terminal = shown.isatty()
    last = clock()
    for done, item in enumerate(items):
        if clock() - last >= (_TERMINAL_S if on_terminal else _LOG_S):
            last = clock()
            _show(shown if on_terminal else None, f"{done} of {total} {what}")
        yield item
    if on_terminal:
        shown.write("\r\x1b[K")  # leaves no trace between the lines of the result
        shown.flush()


def _show(terminal: TextIO | None, text: str) -> None:
    if terminal is None:
        _LOG.info("%s", text)
        return
    terminal.write(f"\r\x1b[K{text}")
    terminal.flush()
