"""Every error this package raises, in one tree.

    HudiVectorError
    ├── InvalidArgumentError          (also ValueError)   a value that is not allowed
    │   ├── UnknownColumnError                            a column the table does not have
    │   ├── DimensionMismatchError                        a vector of another length
    │   ├── InvalidVectorError                            NULL, NaN or infinite elements
    │   ├── InvalidBlobError                              a struct that is no blob, or one that contradicts itself
    │   ├── InvalidFilterError                            a filter that does not parse or resolve
    │   └── InvalidOptionError                            a setting with a value it cannot have
    ├── InvalidTypeError              (also TypeError)    a value of the wrong type
    ├── TableNotFoundError            (also LookupError)  no such table, or no Hudi table at the path
    ├── UnsupportedTableError                             a table layout that cannot be read this way
    │   └── UnmergeableError                              log files that only Spark can merge
    ├── InstantNotAvailableError      (also LookupError)  a snapshot that is not, or no longer, there
    ├── DataFileError                 (also OSError)      a data file that is gone or cannot be read
    │   └── BlobReadError                                 a blob's bytes that cannot be had
    ├── SearchTimeoutError            (also TimeoutError) a search that took longer than it may
    ├── WriteError                    (also RuntimeError) a write that Spark or Hudi gave up
    ├── BlobWriteError                (also OSError)      a blob's bytes that cannot be stored
    ├── RefusedError                                      a service that stops rather than doing harm
    ├── SessionError                  (also RuntimeError) a SparkSession that lacks something
    └── MissingDependencyError        (also ImportError)  an optional package that is not installed

Every message is one sentence or two: what was given, what is allowed, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BlobReadError",
    "BlobWriteError",
    "DataFileError",
    "DimensionMismatchError",
    "HudiVectorError",
    "InstantNotAvailableError",
    "InvalidArgumentError",
    "InvalidBlobError",
    "InvalidFilterError",
    "InvalidOptionError",
    "InvalidTypeError",
    "InvalidVectorError",
    "MissingDependencyError",
    "RefusedError",
    "SearchTimeoutError",
    "SessionError",
    "TableNotFoundError",
    "UnknownColumnError",
    "UnmergeableError",
    "UnsupportedTableError",
    "WriteError",
    "absent_name",
    "did_you_mean",
    "first_line",
    "kind_of",
]


class HudiVectorError(Exception):
    """The root of every error raised by this package."""


class InvalidArgumentError(HudiVectorError, ValueError):
    """An argument has a value that is not allowed."""


class UnknownColumnError(InvalidArgumentError):
    """A column was named that the table does not have."""

    @classmethod
    def of(cls, column: str, available: Iterable[str], table: str) -> UnknownColumnError:
        """Name the column, and the nearest columns that exist.

        Args:
            column: The name that was given.
            available: The names the table has.
            table: How the user named the table.

        Returns:
            The error, ready to raise.
        """
        names = list(available)
        hint = did_you_mean(column, names)
        if not hint:
            hint = "its columns are " + ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return cls(f"column '{column}' does not exist in '{table}'; {hint}")


class DimensionMismatchError(InvalidArgumentError):
    """A vector has another length than the column holds."""


class InvalidVectorError(InvalidArgumentError):
    """A vector is NULL or empty, or holds NULL, NaN or infinite elements."""


class InvalidBlobError(InvalidArgumentError):
    """A value is no blob, or a blob that contradicts itself."""


class InvalidFilterError(InvalidArgumentError):
    """A filter does not parse, or names what the table does not have."""


class InvalidOptionError(InvalidArgumentError):
    """A setting has a value it cannot have."""


class InvalidTypeError(HudiVectorError, TypeError):
    """An argument is of the wrong type."""


class TableNotFoundError(HudiVectorError, LookupError):
    """A table, view or path was named that is not there or is no Hudi table."""


class UnsupportedTableError(HudiVectorError):
    """A table is laid out in a way that cannot be read as asked."""


class UnmergeableError(UnsupportedTableError):
    """A slice's log files cannot be merged without Spark."""


class InstantNotAvailableError(HudiVectorError, LookupError):
    """An instant was asked for that the table does not have, or has no longer."""


class DataFileError(HudiVectorError, OSError):
    """A data file of the snapshot is gone or cannot be read."""


class BlobReadError(DataFileError):
    """A blob's bytes are gone, too short, changed or out of reach."""


class SearchTimeoutError(HudiVectorError, TimeoutError):
    """A search took longer than its time limit."""


class WriteError(HudiVectorError, RuntimeError):
    """Spark or Hudi gave a write up."""


class BlobWriteError(HudiVectorError, OSError):
    """A blob's bytes could not be stored."""


class RefusedError(HudiVectorError):
    """A service will not run: too much would go, or another run is under way."""


class SessionError(HudiVectorError, RuntimeError):
    """A SparkSession lacks something this package needs."""


def first_line(problem: object) -> str:
    """Return the first line of a message that holds something; what kind of error it is, where none does.

    Args:
        problem: An error, or its text.

    Returns:
        The line.

    Example:
        >>> first_line(ValueError("there is no such key")), first_line(ValueError(""))
        ('there is no such key', 'ValueError')
    """
    lines = (line.strip() for line in str(problem).splitlines())
    return next((line for line in lines if line), type(problem).__name__)


def kind_of(value: object) -> str:
    """Return the full name of a value's class: several packages have a DataFrame.

    Example:
        >>> kind_of(3), kind_of(ValueError())
        ('int', 'ValueError')
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class MissingDependencyError(HudiVectorError, ImportError):
    """An optional package is needed and not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingDependencyError:
        """Name the package, the extra that installs it and what it is for.

        Args:
            package: The distribution that could not be imported.
            extra: The extra of ``hudi-vector`` that installs it.
            purpose: What needs it, as the end of "… needs it".

        Returns:
            The error, ready to raise.
        """
        return cls(f"{purpose} needs '{package}': install it with pip install 'hudi-vector[{extra}]'")


def did_you_mean(given: str, known: Iterable[str], most: int = 3, alike: float = 0.5) -> str:
    """The question that names the known names nearest to the given one, whatever their case; "" if none is near."""
    by_folded_name = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower(), by_folded_name, n=most, cutoff=alike)
    return "did you mean " + " or ".join(f"'{by_folded_name[name]}'" for name in near) + "?" if near else ""


def absent_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error of a name that a module does not have, with the nearest one that it has."""
    # Python asks for many names of its own, such as __wrapped__; they get no advice.
    hint = "" if name.startswith("__") else did_you_mean(name, known, most=1, alike=0.6)
    return AttributeError(f"module '{module}' has no attribute '{name}'" + (f"; {hint}" if hint else ""))
