"""Errors of Python workers in their own words: Spark prints every frame of what a worker raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hudi_vector.errors import HudiVectorError

__all__ = ["in_few_words"]


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
