"""The memory of Python workers: how many bytes one keeps between tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["WorkerMemory", "memory_of_machine"]

_LEAST_OVERHEAD = 384 << 20
_OVERHEAD = 0.1
_SHARE = 4


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of an executor by Spark's settings, in bytes; 0 where a setting is missing.

    Attributes:
        is_limited: Whether the cluster ends executors that take more memory than they were given, as YARN and
            Kubernetes do.
        heap: ``spark.executor.memory``.
        overhead: ``spark.executor.memoryOverhead``.
        python: ``spark.executor.pyspark.memory``.
        cores: The cores of an executor, each of which may have a Python worker.
    """

    is_limited: bool = False
    heap: int = 0
    overhead: int = 0
    python: int = 0
    cores: int = 1

    def budget(self, asked: int, machine: int) -> int:
        """Return the bytes that one worker keeps: what was asked, within what its executor may use.

        With memory for Python that is half of it, where executors are limited half of the overhead, and elsewhere a
        quarter of the machine's memory. The workers of an executor share it.

        Args:
            asked: ``hoodie.vector.cache.max.bytes``.
            machine: The machine's memory in bytes.

        Example:
            >>> WorkerMemory(is_limited=True, heap=8 << 30, cores=2).budget(2 << 30, 64 << 30) >> 20
            204
        """
        if self.python:
            most = self.python // 2
        elif self.is_limited:
            most = (self.overhead or max(_LEAST_OVERHEAD, int(self.heap * _OVERHEAD))) // 2
        else:
            most = machine // _SHARE
        return min(asked, most // self.cores)


def memory_of_machine() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
