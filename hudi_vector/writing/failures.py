"""Conversion of the exceptions of Spark and Hudi to errors of one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from hudi_vector.errors import HudiVectorError, WriteError
from hudi_vector.spark.catalyst.gateway import first_sentence
from hudi_vector.spark.catalyst.worker_errors import from_worker

__all__ = ["in_one_sentence", "is_conflict"]

_LOG = logging.getLogger(__name__)
_CONFLICT = "HoodieWriteConflictException"


@contextmanager
def in_one_sentence(failed: str, error: type[HudiVectorError] = WriteError) -> Iterator[None]:
    """Raise exceptions of Spark and Hudi in the block as errors of this package.

    The log gets the exception with its frames where it is not an error of this package, whose sentence says all.

    Args:
        failed: The beginning of the sentence, which says what failed: ``"the write to 't' failed"``.
        error: The class of errors for exceptions of Spark and Hudi.

    Raises:
        HudiVectorError: An error that a task of this package raised, or `error` with the first sentence of the
            exception, or with what to do if another writer was first.
        PythonException: An exception of a user's function, with its frames.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        known = from_worker(problem)
        if known is not None:
            raise known from None
        if isinstance(problem, PythonException):
            raise
        if is_conflict(problem):
            raise error(f"{failed}: another writer changed the same files and committed first; run it again") from None
        _LOG.error("%s", failed, exc_info=problem)
        raise error(f"{failed}: {first_sentence(problem)}") from None


def is_conflict(problem: PySparkException | Py4JJavaError) -> bool:
    """Return True if Hudi refused a commit because of a conflicting one."""
    return _CONFLICT in str(problem)
