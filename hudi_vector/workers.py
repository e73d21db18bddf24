"""Work dealt out to Spark's Python workers, and what Spark raises where they cannot do it."""

from __future__ import annotations

import heapq
import re

from hudi_vector.errors import SessionError

__all__ = ["balanced", "unfit_workers"]

_OTHER_VERSION = re.compile(
    r"PYTHON_VERSION_MISMATCH.*?different version:? \(?([\d., ]+?)\)? than that in driver:? ([\d.]+\d)"
)
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '((?:hudi_vector|numpy|pandas|pyarrow|fsspec|hudi|lance)\b[\w.]*)'"
)
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_REMEDY = (
    "give the workers a Python of the driver's version that has hudi-vector, by PYSPARK_PYTHON or spark.pyspark.python "
    "before the session starts (hudi_vector.configure names this one)"
)


def unfit_workers(problem: BaseException) -> SessionError | None:
    """What Spark raised, if it is that Python workers lack this package or run another Python; else None."""
    text = str(problem)
    if other := _OTHER_VERSION.search(text):
        said = f"run Python {other[1].replace(', ', '.')} and the driver runs {other[2]}"
    elif absent := _NO_MODULE.search(text):
        said = f"have no '{absent[1]}'"
    elif program := _NO_PROGRAM.search(text):
        said = f"cannot be started: there is no program '{program[1]}'"
    else:
        return None
    return SessionError(f"the Python workers of this session {said}; {_REMEDY}")


def balanced(sizes: list[int], groups: int) -> list[list[int]]:
    """Divide items into groups of nearly equal size, the largest items first.

    Args:
        sizes: The size of each item.
        groups: How many groups at the most.

    Returns:
        The items' indices, group by group; no group is empty.

    Example:
        >>> balanced([5, 1, 4], 2)
        [[0], [2, 1]]
    """
    heap = [(0, number) for number in range(groups)]
    chosen: list[list[int]] = [[] for _ in range(groups)]
    for index in sorted(range(len(sizes)), key=lambda at: (-sizes[at], at)):
        size, number = heapq.heappop(heap)
        chosen[number].append(index)
        heapq.heappush(heap, (size + sizes[index], number))
    return [group for group in chosen if group]
