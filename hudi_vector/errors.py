"""The errors that this package raises, in one tree.

    HudiVectorError
    ├── InvalidArgumentError          (also ValueError)   a value that is not allowed
    │   ├── UnknownColumnError                            a column the table does not have
    │   ├── DimensionMismatchError                        a vector of another length
    │   ├── InvalidVectorError                            NULL, NaN or infinite elements
    │   ├── InvalidBlobError                              a struct that is not a blob or contradicts itself
    │   ├── InvalidFilterError                            a filter that does not parse or resolve
    │   └── InvalidOptionError                            a setting with a value that is not allowed
    ├── InvalidTypeError              (also TypeError)    a value of the wrong type
    ├── TableNotFoundError            (also LookupError)  no such table, or no Hudi table at the path
    ├── UnsupportedTableError                             a table layout that cannot be read as asked
    │   └── UnmergeableError                              files that only Spark can read
    ├── InstantNotAvailableError      (also LookupError)  a snapshot that does not exist or is gone
    ├── DataFileError                 (also OSError)      a data file that is missing or unreadable
    │   └── BlobReadError                                 a blob whose bytes cannot be read
    ├── SearchTimeoutError            (also TimeoutError) a search that exceeded its time limit
    ├── WriteError                    (also RuntimeError) a write that failed in Spark or Hudi
    ├── BlobWriteError                (also OSError)      a blob's bytes that cannot be stored
    ├── RefusedError                                      a service that stops to avoid harm
    ├── SessionError                  (also RuntimeError) a SparkSession that lacks something
    └── MissingDependencyError        (also ImportError)  an optional package that is not installed

Every message says in one or two sentences what was given, what is allowed and what to do.
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
    "number_of",
]


class HudiVectorError(Exception):
    """The base class of all errors raised by this package.

    Example:
        >>> try:
        ...     hv.open(column="embedding")
        ... except hv.HudiVectorError as problem:
        ...     print(problem)
        give exactly one of table, files, delta and lance
    """


class InvalidArgumentError(HudiVectorError, ValueError):
    """An argument has a value that is not allowed."""


class UnknownColumnError(InvalidArgumentError):
    """A given column does not exist in the table."""

    @classmethod
    def of(cls, column: str, available: Iterable[str], table: str) -> UnknownColumnError:
        """Return the error for a column that is not among the `available` ones; the message names the nearest ones.

        `table` is the table's name as the user gave it.
        """
        names = list(available)
        hint = did_you_mean(column, names)
        if not hint:
            hint = "its columns are " + ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return cls(f"column '{column}' does not exist in '{table}'; {hint}")


class DimensionMismatchError(InvalidArgumentError):
    """A vector has another length than the vectors of the column."""


class InvalidVectorError(InvalidArgumentError):
    """A vector is NULL or empty, or holds NULL, NaN or infinite elements."""


class InvalidBlobError(InvalidArgumentError):
    """A value is not a blob, or is a blob that contradicts itself."""


class InvalidFilterError(InvalidArgumentError):
    """A filter does not parse, or names something that the table does not have."""


class InvalidOptionError(InvalidArgumentError):
    """A setting has a value that is not allowed."""


class InvalidTypeError(HudiVectorError, TypeError):
    """An argument is of the wrong type."""


class TableNotFoundError(HudiVectorError, LookupError):
    """A given table, view or path does not exist, or is not a Hudi table."""


class UnsupportedTableError(HudiVectorError):
    """A table has a layout that cannot be read as asked."""


class UnmergeableError(UnsupportedTableError):
    """A file slice can only be read by Spark: its log files merged, or dates of an older calendar converted."""


class InstantNotAvailableError(HudiVectorError, LookupError):
    """The table does not have the requested instant, or no longer has it."""


class DataFileError(HudiVectorError, OSError):
    """A data file of the snapshot is missing or cannot be read."""


class BlobReadError(DataFileError):
    """A blob's bytes are missing, too short, changed or out of reach."""


class SearchTimeoutError(HudiVectorError, TimeoutError):
    """A search exceeded its time limit."""


class WriteError(HudiVectorError, RuntimeError):
    """A write failed in Spark or Hudi, or Hudi failed after its commit, whose instant the sentence names then."""


class BlobWriteError(HudiVectorError, OSError):
    """A blob's bytes could not be stored."""


class RefusedError(HudiVectorError):
    """A service refuses to run: it would delete too much, or another run is in progress."""


class SessionError(HudiVectorError, RuntimeError):
    """A SparkSession lacks something this package needs."""


def first_line(problem: object) -> str:
    """Return the first non-blank line of an error's message or of a text, or else the name of its class.

    Example:
        >>> first_line(ValueError("there is no such key")), first_line(ValueError(""))
        ('there is no such key', 'ValueError')
    """
    lines = (line.strip() for line in str(problem).splitlines())
    return next((line for line in lines if line), type(problem).__name__)


def number_of(number: int, one: str, several: str | None = None) -> str:
    """Return a number with what it counts, in the singular for 1, else in the plural.

    `one` is the singular. `several` is the plural where more than the last word of `one` changes.

    Example:
        >>> number_of(1, "key"), number_of(0, "query"), number_of(2, "index"), number_of(1, "row has", "rows have")
        ('1 key', '0 queries', '2 indexes', '1 row has')
    """
    return f"{number} {one if number == 1 else several or _plural(one)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def kind_of(value: object) -> str:
    """Return the qualified name of a value's class, with its module: several packages have a DataFrame.

    Example:
        >>> kind_of(3), kind_of(ValueError())
        ('int', 'ValueError')
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class MissingDependencyError(HudiVectorError, ImportError):
    """A required optional package is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingDependencyError:
        """Return the error that names a missing `package` and the `extra` of ``hudi-vector`` that installs it.

        `purpose` says what needs the package; it is the subject of "… needs 'package'".
        """
        return cls(f"{purpose} needs '{package}': install it with pip install 'hudi-vector[{extra}]'")


def did_you_mean(given: str, known: Iterable[str], most: int = 3, alike: float = 0.5) -> str:
    """Return a question with the known names nearest to the given one, ignoring case, or "" if none is near."""
    by_folded_name = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower(), by_folded_name, n=most, cutoff=alike)
    return "did you mean " + " or ".join(f"'{by_folded_name[name]}'" for name in near) + "?" if near else ""


def absent_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have; its message suggests the nearest known name."""
    # Python itself looks for many dunder names, for example __wrapped__; they get no suggestion.
    hint = "" if name.startswith("__") else did_you_mean(name, known, most=1, alike=0.6)
    return AttributeError(f"module '{module}' has no attribute '{name}'" + (f"; {hint}" if hint else ""))
