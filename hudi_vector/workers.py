"""Distribution of work to Spark's Python workers, their preparation, and recognition of unsuitable ones."""

from __future__ import annotations

import contextlib
import functools
import gc
import heapq
import os
import re
import socket
import stat
import sys
import zipimport

from hudi_vector.errors import SessionError

__all__ = ["balanced", "begin_task", "forget_archives", "unfit_workers"]

_OTHER_VERSION = re.compile(
    r"PYTHON_VERSION_MISMATCH.*?different version:? \(?([\d., ]+?)\)? than that in driver:? ([\d.]+\d)"
)
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '((?:hudi_vector|numpy|pandas|pyarrow|fsspec|hudi|lance)\b[\w.]*)'"
)
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_OPEN_FILES = "/proc/self/fd"
_REMEDY = (
    "give the workers a Python of the driver's version that has hudi-vector, by PYSPARK_PYTHON or spark.pyspark.python "
    "before the session starts (hudi_vector.configure names this one)"
)


def unfit_workers(problem: BaseException) -> SessionError | None:
    """Return a SessionError if Spark's error means that its Python workers are unsuitable, else None.

    Workers are unsuitable if they cannot be started, run another Python than the driver, or lack this package.
    """
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


def begin_task() -> None:
    """Prepare this Python worker for its next tasks, which then begin earlier; every task calls it.

    PySpark 3.5 has three delays before each task of a worker that is used again: it reads archives (see
    `forget_archives`), collects the garbage of all that the worker ever imported, and waits for an acknowledgement that
    Linux holds back (see `_acknowledge`).
    """
    forget_archives()
    _prepare_worker()


@functools.cache
def _prepare_worker() -> None:
    """Leave what is imported by now out of later collections, and have each of them followed by an acknowledgement."""
    gc.freeze()
    if hasattr(socket, "TCP_QUICKACK"):
        gc.callbacks.append(functools.partial(_acknowledge, _sockets()))


def _sockets() -> list[socket.socket]:
    """Return the sockets that are open in this process; none where there is no ``/proc`` to list them."""
    listed = os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else []
    found = []
    for number in map(int, listed):
        with contextlib.suppress(OSError):  # the folder itself was open when it was listed
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(socket.socket(fileno=os.dup(number)))
    return found


def _acknowledge(sockets: list[socket.socket], phase: str, _: dict[str, int]) -> None:
    """Have Linux acknowledge at once what next arrives at sockets, when a collection of garbage is over.

    Spark sends a task to its worker in two parts, and TCP holds the second back until the first is acknowledged, which
    Linux delays by 40 ms on connections where answers were sent; the choice holds until the next answer is sent. A
    collection is all that a worker does between its answer and the next task.
    """
    if phase == "stop":
        for each in sockets:
            with contextlib.suppress(OSError):  # not TCP, or closed by now
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def forget_archives() -> None:
    """Forget jars and archives that Python looked for modules in.

    PySpark 3.5 calls `importlib.invalidate_caches` before each task, which reads the names in every archive where
    Python ever looked for a module: jars of Spark and of its packages have thousands, which takes a tenth of a second.
    Jars and what is on ``PYTHONPATH`` stay as they are while a process runs. Python remembers them again when it next
    looks there.
    """
    stay = tuple(place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isfile(place))
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter) and (finder.archive.endswith(".jar") or finder.archive in stay):
            sys.path_importer_cache.pop(place, None)  # another thread may do the same


def balanced(sizes: list[int], groups: int) -> list[list[int]]:
    """Divide items into at most `groups` groups of nearly equal total size, the largest items first.

    Returns the items' indices, group by group; no group is empty.

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
