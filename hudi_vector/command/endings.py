"""The end of a command: what is shown of a result, the one sentence of an error, and the exit code."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from hudi_vector.command.rows import write_rows
from hudi_vector.errors import (
    DimensionMismatchError,
    HudiVectorError,
    InvalidArgumentError,
    InvalidBlobError,
    InvalidTypeError,
    InvalidVectorError,
    RefusedError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from hudi_vector.table_services.cleaning.explain import BlobExplanation
    from hudi_vector.table_services.cleaning.listing import BlobContainers
    from hudi_vector.table_services.clustering.api import ClusterResult
    from hudi_vector.table_services.erasure.api import ErasureResult
    from hudi_vector.table_services.erasure.erase import EraseResult
    from hudi_vector.table_services.maintenance.api import MaintainResult
    from hudi_vector.table_services.plans.compaction_result import CompactResult
    from hudi_vector.table_services.result import CleanResult, RestoreResult

    Result = CleanResult | RestoreResult | CompactResult | ClusterResult | ErasureResult | EraseResult | MaintainResult
    Found = BlobExplanation | BlobContainers

__all__ = [
    "DONE",
    "PROBLEMS",
    "REFUSED",
    "WRONG_USE",
    "Ended",
    "ended",
    "expected",
    "is_interrupted",
    "note_interrupts",
    "say",
    "show_found",
    "show_result",
]

DONE, PROBLEMS, WRONG_USE, REFUSED = 0, 1, 2, 3

_WRONG_USE = (InvalidArgumentError, InvalidTypeError, TableNotFoundError)
_WRONG_DATA = (DimensionMismatchError, InvalidVectorError, InvalidBlobError)


_INTERRUPTED = threading.Event()


class Ended(Exception):  # noqa: N818 - the end of a command, which its exit code calls an error or not
    """The end of a command: its exit code, and the sentence that says why."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def say(sentence: str) -> None:
    """Write a sentence to standard error."""
    sys.stderr.write(f"hudi-vector: {sentence}\n")


def note_interrupts() -> None:
    """Remember from now on that SIGINT came, before the handler of PySpark, which a session sets, is called.

    That handler calls the JVM, so that the call which it interrupts fails by any error of py4j, with frames in the log.
    """
    _INTERRUPTED.clear()
    handler = signal.getsignal(signal.SIGINT)
    is_noted = isinstance(handler, partial) and handler.func is _note
    if callable(handler) and not is_noted and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, partial(_note, handler))


def _note(handler: Callable[[int, Any], Any], number: int, frame: Any) -> None:
    _INTERRUPTED.set()
    if not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())
    handler(number, frame)


def is_interrupted() -> bool:
    """Return True if SIGINT came since `note_interrupts`."""
    return _INTERRUPTED.is_set()


def expected() -> tuple[type[Exception], ...]:
    """Return the exceptions of storage, Spark and this package, which are reported as one sentence."""
    if "pyspark" not in sys.modules:
        return HudiVectorError, OSError
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return HudiVectorError, OSError, Py4JError, PySparkException


def ended(command: str, problem: Exception) -> Ended:
    """Return the end of a command that failed with one of the `expected` exceptions."""
    if isinstance(problem, RefusedError):
        return Ended(REFUSED, str(problem))
    is_wrong_use = isinstance(problem, _WRONG_USE) and not isinstance(problem, _WRONG_DATA)
    return Ended(WRONG_USE if is_wrong_use else PROBLEMS, _sentence(command, problem))


def _sentence(command: str, problem: Exception) -> str:
    if isinstance(problem, HudiVectorError):
        return str(problem)
    if isinstance(problem, OSError):
        place = f": '{problem.filename}'" if problem.filename else ""
        return f"{command} failed: {problem.strerror or problem}{place}"
    from hudi_vector.spark.catalyst.gateway import first_sentence
    from hudi_vector.spark.catalyst.worker_errors import from_worker

    return str(from_worker(problem) or f"{command} failed: {first_sentence(problem)}")


def show_result(result: Result, form: str, quiet: bool = False) -> int:
    """Show a service's result, and return the exit code: 0, 1 for problems, or 3 if it was, or would be, refused."""
    from hudi_vector.table_services.result import CleanResult, RestoreResult, report_lines

    write_rows(result.rows(), form)
    _sentences(
        report_lines(result) if isinstance(result, (CleanResult, RestoreResult)) else result.lines(), quiet=quiet
    )
    if result.is_well:
        return DONE
    return REFUSED if _is_refused(result) else PROBLEMS


def show_found(found: Found, form: str, quiet: bool = False) -> int:
    """Show files that were found, and return the exit code: 1 if something is in doubt."""
    write_rows(found.rows(), form)
    _sentences(found.lines(), quiet=quiet)
    return PROBLEMS if found.doubts else DONE


def _sentences(lines: Iterable[str], *, quiet: bool) -> None:
    if not quiet:
        for line in lines:
            say(line)


def _is_refused(result: Result) -> bool:
    """Return True if nothing was done, and all that is wrong is that a run, or each step of it, was refused."""
    from hudi_vector.table_services.maintenance.api import MaintainResult
    from hudi_vector.table_services.maintenance.history import DONE as STEP_DONE
    from hudi_vector.table_services.maintenance.history import FAILED

    if isinstance(result, MaintainResult):
        return not any(step.state in (FAILED, STEP_DONE) for step in result.steps)
    problems = [*getattr(result, "doubts", ()), *getattr(result, "failed", ())]
    return getattr(result, "refusal", None) is not None and not problems
