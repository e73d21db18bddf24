"""Every setting of this package, declared once.

A setting is read from the SparkSession (``SET key = value`` or ``spark.conf``), or from the mapping a
Spark-free caller passes. ``docs/options.md`` is generated from this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hudi_vector.errors import InvalidOptionError

__all__ = [
    "ALL",
    "BATCH_BLOCK_QUERIES",
    "BATCH_COLLECT_MAX_BYTES",
    "CACHE_MAX_BYTES",
    "EXECUTION",
    "INVALID_VECTORS",
    "LOCAL_MAX_BYTES",
    "LOCAL_THREADS",
    "Option",
    "markdown",
]

T = TypeVar("T", int, str)


@dataclass(frozen=True)
class Option(Generic[T]):
    """One setting: its key, type, default, unit, allowed values and meaning."""

    key: str
    default: T
    unit: str
    description: str
    allowed: tuple[str, ...] = ()
    minimum: int | None = None

    def read(self, conf: Mapping[str, str]) -> T:
        """The value in ``conf``, or the default.

        Args:
            conf: Keys and values as text, as a SparkSession holds them.

        Returns:
            The value, in the type of the default.

        Raises:
            InvalidOptionError: The text is not a value of this setting.

        Example:
            >>> LOCAL_THREADS.read({"hoodie.vector.search.local.threads": "2"})
            2
        """
        text = conf.get(self.key)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T:
        """The value a text stands for.

        Args:
            text: What the user wrote.

        Returns:
            The value, in the type of the default.

        Raises:
            InvalidOptionError: The text is not a value of this setting.
        """
        if isinstance(self.default, int):
            try:
                number = int(text.strip())
            except ValueError:
                number = None
            if number is None or (self.minimum is not None and number < self.minimum):
                raise InvalidOptionError(
                    f"{self.key} = {text!r} is not allowed: give a whole number of {self.unit}"
                    + (f", {self.minimum} or more" if self.minimum is not None else "")
                )
            return number
        value = text.strip().lower()
        if self.allowed and value not in self.allowed:
            raise InvalidOptionError(f"{self.key} = {text!r} is not allowed: give one of {', '.join(self.allowed)}")
        return value


EXECUTION: Option[str] = Option(
    "hoodie.vector.search.execution",
    "auto",
    "",
    "Where a search runs: on the driver with threads (`local`), on the executors as one stage "
    "(`distributed`), or by the bytes it reads (`auto`).",
    allowed=("auto", "local", "distributed"),
)
LOCAL_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.search.local.max.bytes",
    2 << 30,
    "bytes",
    "With `auto`, a search that reads no more than this runs on the driver.",
    minimum=0,
)
LOCAL_THREADS: Option[int] = Option(
    "hoodie.vector.search.local.threads",
    0,
    "threads",
    "Threads of a search on the driver; 0 stands for the processors this process may use.",
    minimum=0,
)
CACHE_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.cache.max.bytes",
    2 << 30,
    "bytes",
    "Decoded vectors and columns kept in memory by each process, the driver and every Python worker; 0 turns it off.",
    minimum=0,
)
BATCH_BLOCK_QUERIES: Option[int] = Option(
    "hoodie.vector.search.batch.block.queries",
    1024,
    "queries",
    "Query vectors scored together against a block of rows.",
    minimum=1,
)
BATCH_COLLECT_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.search.batch.collect.max.bytes",
    32 << 20,
    "bytes",
    "A query set estimated to be larger than this is searched where its partitions are, instead of being "
    "brought to the driver and sent to every task.",
    minimum=0,
)
INVALID_VECTORS: Option[str] = Option(
    "hoodie.vector.invalid",
    "fail",
    "",
    "What a write does with a vector of the wrong length or with NULL, NaN or infinite elements: refuse the write "
    "(`fail`), leave the row out (`skip`), or store NULL in its place (`null`).",
    allowed=("fail", "skip", "null"),
)

ALL: tuple[Option[int] | Option[str], ...] = (
    EXECUTION,
    LOCAL_MAX_BYTES,
    LOCAL_THREADS,
    CACHE_MAX_BYTES,
    BATCH_BLOCK_QUERIES,
    BATCH_COLLECT_MAX_BYTES,
    INVALID_VECTORS,
)


def markdown() -> str:
    """The table of all settings, as ``docs/options.md`` shows it.

    Returns:
        A Markdown table, one row per setting.

    Example:
        >>> markdown().startswith("| Key |")
        True
    """
    rows = ["| Key | Default | Allowed | Unit | Meaning |", "| --- | --- | --- | --- | --- |"]
    for option in ALL:
        if option.allowed:
            allowed = ", ".join(f"`{value}`" for value in option.allowed)
        else:
            allowed = f"a whole number, {option.minimum} or more"
        rows.append(f"| `{option.key}` | `{option.default}` | {allowed} | {option.unit} | {option.description} |")
    return "\n".join(rows) + "\n"
