"""What Spark and Hudi raise while they read and write, as one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from hudi_vector.errors import HudiVectorError, WriteError
from hudi_vector.spark.catalyst.gateway import first_sentence
from hudi_vector.spark.catalyst.worker_errors import from_worker

__all__ = ["in_one_sentence"]

_LOG = logging.getLogger(__name__)


@contextmanager
def in_one_sentence(failed: str, error: type[HudiVectorError] = WriteError) -> Iterator[None]:
    """Raise what Spark or Hudi raise inside as an error of this package; the log has all that they say.

    Args:
        failed: What failed, as the beginning of the sentence: ``"the write to 't' failed"``.
        error: What stands for anything that Spark and Hudi raise.

    Raises:
        HudiVectorError: What a task of this package raised; anything of Spark and Hudi, by its first sentence.
        PythonException: What a function of the user's own raised, with its frames.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        known = from_worker(problem)
        if known is None and isinstance(problem, PythonException):
            raise
        _LOG.error("%s", failed, exc_info=problem)
        raise known or error(f"{failed}: {first_sentence(problem)}") from None
