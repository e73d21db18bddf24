"""Errors of Python workers in their own words: Spark prints every frame of what a worker raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hudi_vector import errors
from hudi_vector.errors import HudiVectorError
from hudi_vector.workers import unfit_workers

__all__ = ["from_worker", "in_few_words"]

_RAISED = re.compile(r"^hudi_vector\.errors\.(\w+): (.+)$", re.MULTILINE)


@contextmanager
def in_few_words() -> Iterator[None]:
    """Raise this package's errors anew, without the frames between the worker's function and their cause.

    Raises:
        HudiVectorError: The error that was raised inside, of the same class and text.

    Example:
        >>> with in_few_words():
        ...     pass
    """
    try:
        yield
    except HudiVectorError as problem:
        raise type(problem)(str(problem)) from None


def from_worker(problem: BaseException) -> HudiVectorError | None:
    """The error of this package that a Python worker raised or could not load, out of what Spark makes of it.

    Args:
        problem: What Spark raised.

    Returns:
        The error, or None if something else went wrong.
    """
    found = _RAISED.findall(str(problem))
    if not found:
        return unfit_workers(problem)
    name, text = found[-1]
    known = getattr(errors, name, None)
    return known(text) if isinstance(known, type) and issubclass(known, HudiVectorError) else None
