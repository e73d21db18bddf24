"""How many tasks share the left rows."""

from __future__ import annotations

__all__ = ["few_rows", "partitions_wanted"]

_ROWS_PER_CORE = 32
_CHEAP_TO_MOVE = 1 << 30


def few_rows(cores: int) -> int:
    """Up to how many left rows the driver asks for all of them at once, and the right side is divided instead.

    Fewer rows than this for a core make products of matrices too thin to be worth reading the right side once for
    each core.

    Args:
        cores: The cores of the application.

    Returns:
        A number of rows.

    Example:
        >>> few_rows(2)
        64
    """
    return _ROWS_PER_CORE * cores


def partitions_wanted(partitions: int | None, cores: int, size: int) -> int | None:
    """Into how many partitions left rows are brought.

    Args:
        partitions: How many they have, None where that is only known once they are computed.
        cores: The cores of the application.
        size: What Spark believes the rows to have in bytes.

    Returns:
        The number, or None where they stay where they are.

    Example:
        >>> partitions_wanted(1, 4, 1000), partitions_wanted(8, 4, 1000)
        (4, None)
    """
    if partitions is None:
        return cores if size < _CHEAP_TO_MOVE else None
    return cores if partitions < cores else None
