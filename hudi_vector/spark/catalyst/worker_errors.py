"""Errors of Python workers as one sentence, without the stack frames that Spark prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hudi_vector import errors
from hudi_vector.errors import HudiVectorError
from hudi_vector.workers import unfit_workers

__all__ = ["from_worker", "in_few_words", "raised_in_worker"]

_TRACE = "Traceback (most recent call last):\n"
_JAVA_FRAMES = re.compile(r"\n\nJVM stacktrace|\n\tat ")
_RAISED = re.compile(r"(?:^|: )hudi_vector\.errors\.(\w+): (.+)$", re.MULTILINE)


@contextmanager
def in_few_words() -> Iterator[None]:
    """Raise this package's errors again with the same class and text, without the frames of the code inside.

    Example:
        >>> with in_few_words():
        ...     pass
    """
    try:
        yield
    except HudiVectorError as problem:
        raise type(problem)(str(problem)) from None


def from_worker(problem: BaseException) -> HudiVectorError | None:
    """Return the error of this package that a Python worker, or a column, raised, extracted from Spark's error.

    Return a SessionError if the workers are unsuitable, None if something else went wrong.
    """
    found = _RAISED.findall(str(problem))
    if not found:
        return unfit_workers(problem)
    name, text = found[-1]
    known = getattr(errors, name, None)
    return known(text) if isinstance(known, type) and issubclass(known, HudiVectorError) else None


def raised_in_worker(text: str) -> str:
    """Return the class and text of the exception whose frames are in the text of Spark's error, "" without frames."""
    _, trace, frames = text.partition(_TRACE)
    lines = [line for line in _JAVA_FRAMES.split(frames, maxsplit=1)[0].splitlines() if line[:1].strip()]
    return lines[-1] if trace and lines else ""
