"""The number of tasks among which the left rows are divided."""

from __future__ import annotations

__all__ = ["few_rows", "partitions_wanted"]

_ROWS_PER_CORE = 32
_CHEAP_TO_MOVE = 1 << 30


def few_rows(cores: int) -> int:
    """Return the number of left rows up to which the driver searches all at once, dividing the right side among tasks.

    With fewer rows than this for each core, matrix products are too thin to justify reading the right side once for
    each core. `cores` are the cores of the application.

    Example:
        >>> few_rows(2)
        64
    """
    return _ROWS_PER_CORE * cores


def partitions_wanted(partitions: int | None, cores: int, size: int) -> int | None:
    """Return the number of partitions into which left rows are repartitioned, or None to leave them as they are.

    `partitions` is their present number, None if it is known only after they are computed. `cores` are the cores of the
    application; `size` is Spark's estimate of the rows' bytes.

    Example:
        >>> partitions_wanted(1, 4, 1000), partitions_wanted(8, 4, 1000)
        (4, None)
    """
    if partitions is None:
        return cores if size < _CHEAP_TO_MOVE else None
    return cores if partitions < cores else None
