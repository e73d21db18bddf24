"""Work on the executors of an application, in Python workers that keep what they read."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer

from hudi_vector.errors import HudiVectorError
from hudi_vector.executors.memory import WorkerMemory, memory_of_machine
from hudi_vector.executors.placement import Group, Item, Placement
from hudi_vector.read.cache import process_cache
from hudi_vector.storage import parallel
from hudi_vector.table.recent import Recent
from hudi_vector.workers import begin_task, unfit_workers

__all__ = ["Keeping", "on_executors", "placed", "rows_of_workers"]

_MOST_TASKS_PER_CORE = 16
_MOST_SETS = 16

# What the text of a BlockManagerId says: the name of the executor, its host, its port, the topology.
_EXECUTOR = re.compile(r"BlockManagerId\(([^,()]+), ([^,()]+), \d+, [^,()]*(?:\([^()]*\))?\)")

JavaObject = Any
Run = Callable[[Any], Any]


@dataclass(frozen=True)
class Keeping:
    """The memory that Python workers keep: so many bytes as were asked for, within the memory of an executor."""

    asked: int
    memory: WorkerMemory

    def begin(self) -> None:
        """Give the cache of this process, a Python worker, its budget."""
        process_cache().resize(self.memory.budget(self.asked, memory_of_machine()))


class _Application:
    """The executors of an application, and which of them has read what."""

    def __init__(self, context: SparkContext) -> None:
        spark = context._jsc.sc()
        blocks = spark.env().blockManager()
        self._blocks, self._driver = blocks.master(), blocks.blockManagerId()
        conf = spark.conf()
        self._memory = {
            "is_limited": str(context.master).startswith(("yarn", "k8s")),
            "heap": conf.getSizeAsBytes("spark.executor.memory", "1g"),
            "overhead": conf.getSizeAsMb("spark.executor.memoryOverhead", "0") << 20,
            "python": conf.getSizeAsMb("spark.executor.pyspark.memory", "0") << 20,
        }
        self.placement = Placement()
        self._numbers: Recent[tuple[str | None, ...], JavaObject] = Recent(_MOST_SETS)

    def executors(self) -> list[str]:
        """Return the executors as Spark names places: ``executor_<host>_<name>``; none where the driver is the only."""
        found = _EXECUTOR.findall(self._blocks.getPeers(self._driver).toString())
        return sorted(f"executor_{host}_{name}" for name, host in found)

    def memory(self, executors: int, cores: int) -> WorkerMemory:
        """Return the memory of an executor, of so many with so many cores in all."""
        return WorkerMemory(**self._memory, cores=max(1, cores // max(1, executors)))

    def numbers(self, context: SparkContext, places: Sequence[str | None]) -> RDD[Any]:
        """Return the numbers from 0 on, each in a partition that prefers its place; None prefers none."""
        key = tuple(places)
        java = self._numbers.get(key)
        if java is None:
            java = _numbered(context, places)
            self._numbers.put(key, java)
        return RDD(java, context, CPickleSerializer())


_KNOWN: WeakKeyDictionary[SparkContext, _Application] = WeakKeyDictionary()


def _application(context: SparkContext) -> _Application:
    if context not in _KNOWN:
        _KNOWN[context] = _Application(context)
    return _KNOWN[context]


def _numbered(context: SparkContext, places: Sequence[str | None]) -> JavaObject:
    """Return a JavaRDD of pickled numbers, one in each partition."""
    jvm = context._jvm
    assert jvm is not None
    pairs, utils = getattr(jvm, "scala.Tuple2"), getattr(jvm, "org.apache.spark.api.python.PythonUtils")
    seq, of_bytes = utils.toSeq, getattr(jvm, "java.lang.Class").forName("[B")
    numbered = seq([pairs(pickle.dumps(n), seq([place] if place else [])) for n, place in enumerate(places)])
    tag = getattr(getattr(jvm, "scala.reflect.ClassTag$"), "MODULE$").apply(of_bytes)
    return context._jsc.sc().makeRDD(numbered, tag).toJavaRDD()


def placed(context: SparkContext, items: Sequence[Item], asked: int) -> tuple[list[Group], Keeping]:
    """Divide items into tasks for the executors that have read them, and note which of them reads which.

    Also return what Python workers keep, where `asked` is ``hoodie.vector.cache.max.bytes``.
    """
    known, cores = _application(context), context.defaultParallelism
    executors = known.executors()
    return known.placement.groups(items, executors, cores), Keeping(asked, known.memory(len(executors), cores))


def on_executors(
    context: SparkContext,
    at_once: int = 1,
    *,
    places: Sequence[str | None] | None = None,
    keeping: Keeping | None = None,
) -> Callable[[Run, Sequence[Any]], list[Any]]:
    """Return a function that applies another one to items, in a task for each or for several, and keeps their order.

    A task works on `at_once` of its items at a time. With `places`, each item has a task that prefers its place. With
    `keeping`, workers keep in memory what they read. An error of this package in a task is raised on the driver.
    """

    def each(run: Run, items: Sequence[Any]) -> list[Any]:
        def guarded(item: Any) -> Any:
            try:
                return run(item)
            except HudiVectorError as problem:
                # As a value it reaches the driver in its own words, and is not tried four times.
                return type(problem)(str(problem))

        def task(items: Iterable[Any]) -> Iterable[Any]:
            begin_task()
            if keeping is not None:
                keeping.begin()
            return map(guarded, items) if together == 1 else parallel.each(guarded, items, most=together)

        if not items:
            return []
        together = min(at_once, parallel.parallelism())
        if places is not None:
            given = list(items)
            rows = _application(context).numbers(context, places).mapPartitions(lambda own: task(given[n] for n in own))
        else:
            # To begin a task takes longer than to read a small file.
            tasks = min(len(items), _MOST_TASKS_PER_CORE * max(1, context.defaultParallelism))
            rows = context.parallelize(items, tasks).mapPartitions(task)
        outcomes = rows_of_workers(rows)
        for outcome in outcomes:
            if isinstance(outcome, HudiVectorError):
                raise outcome
        return outcomes

    return each


def rows_of_workers(rows: RDD[Any]) -> list[Any]:
    """Return the rows that Python workers compute; raise SessionError if no worker can run this package."""
    try:
        return rows.collect()
    except Py4JJavaError as problem:
        raise unfit_workers(problem) or problem from None
