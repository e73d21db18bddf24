"""A process of a benchmark with several libraries: one contestant, which does what it is asked to.

    python benchmarks/searcher.py

It reads lines of JSON and answers each by one. The first says who searches and what; before its answer the modules that
it names are loaded, a SparkSession started where one is needed, and nothing is opened. Each further one is a step:
queries and a filter, or a place whose index is to be built. The first step with queries opens. When there are no more
lines, the process ends. It imports nothing of this folder but for Spark's sake, since LanceDB may be in an environment
without the package.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

K = 10
_LITERAL = 256
"""Vectors of more elements are given to Spark as text, since its parser takes milliseconds for so many numbers."""

Find = Callable[[Any, "str | None", "dict[str, Any]"], Any]


@dataclass(frozen=True)
class Task:
    """What a process searches.

    Attributes:
        library: ``hudi_vector``, ``lance``, ``lancedb`` or ``faiss``.
        by_sql: Whether a session of Spark searches, by statements.
        function: The function of these statements.
        place: URI of the table, or path of an index of faiss, whose numbers of rows are those of the table.
        settings: How the library reaches the store.
        options: Of `hv.open`.
        columns: Of the rows found, the number of the row first.
        effort: Arguments of a search, for steps that have none.
        modules: What is loaded before the first step.
    """

    library: str
    place: str
    columns: list[str]
    effort: dict[str, Any]
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    by_sql: bool = False
    function: str = "hudi_vector_search"

    def opened(self) -> Find:
        """Open the table; a search gives the rows found."""
        if self.by_sql:
            return self._statement
        ways = {"hudi_vector": self._hudi, "lance": self._lance, "lancedb": self._lancedb, "faiss": self._faiss}
        return ways[self.library]()

    def build(self, place: str, options: dict[str, Any]) -> None:
        """Build the index of a table that has none."""
        if self.library == "lance":
            import lance

            lance.dataset(place, storage_options=self.settings).create_index("emb", **options)
        elif self.library == "lancedb":
            self._table().create_index(vector_column_name="emb", **options)
        else:
            from pyspark.sql import SparkSession

            import hudi_vector as hv

            hv.index.create(SparkSession.active(), place, "emb", **options)

    def _hudi(self) -> Find:
        import hudi_vector as hv

        table = hv.open(self.place, column="emb", storage_options=self.settings, options=self.options)

        def find(query: Any, condition: str | None, effort: dict[str, Any]) -> Any:
            search = table.search if query.ndim == 1 else table.search_batch
            return search(query, K, metric="l2", columns=self.columns, filter=condition, **effort)

        return find

    def _statement(self, query: Any, condition: str | None, effort: dict[str, Any]) -> Any:
        from pyspark.sql import SparkSession

        numbers = ", ".join(f"{value!r}{'' if len(query) > _LITERAL else 'D'}" for value in query.tolist())
        vector = f"from_json('[{numbers}]', 'array<double>')" if len(query) > _LITERAL else f"ARRAY({numbers})"
        more = {"filter": condition, **effort}
        named = "".join(f", {name} => {value!r}" for name, value in more.items() if value is not None)
        is_native = self.function.endswith("_native")
        columns = ", ".join(self.columns if is_native else [*self.columns, "_distance"])
        metric = "'l2'" if is_native else "metric => 'l2'"
        called = f"{self.function}('{self.place}', 'emb', {vector}, {K}, {metric}{named})"
        rows = SparkSession.active().sql(f"SELECT {columns} FROM {called}").collect()
        return pa.Table.from_pylist([row.asDict() for row in rows])

    def _lance(self) -> Find:
        import lance

        data = lance.dataset(self.place, storage_options=self.settings)

        def find(query: Any, condition: str | None, effort: dict[str, Any]) -> Any:
            nearest = {"column": "emb", "q": query, "k": K, **effort}
            wanted = [*self.columns, "_distance"]
            return data.to_table(columns=wanted, nearest=nearest, filter=condition, prefilter=condition is not None)

        return find

    def _table(self) -> Any:
        import lancedb

        folder, _, name = self.place.rpartition("/")
        return lancedb.connect(folder, storage_options=self.settings).open_table(name.removesuffix(".lance"))

    def _lancedb(self) -> Find:
        table = self._table()

        def find(query: Any, condition: str | None, effort: dict[str, Any]) -> Any:
            asked = table.search(query, vector_column_name="emb").distance_type("l2").limit(K)
            if effort.get("use_index", True):
                asked = asked.nprobes(effort["nprobes"]).refine_factor(effort["refine_factor"])
            else:
                asked = asked.bypass_vector_index()
            asked = asked.where(condition, prefilter=True) if condition else asked
            return asked.select([*self.columns, "_distance"]).to_arrow()

        return find

    def _faiss(self) -> Find:
        import faiss

        index = faiss.read_index(self.place)

        def find(query: Any, condition: str | None, effort: dict[str, Any]) -> Any:
            assert condition is None
            if "nprobes" in effort:
                index.nprobe = effort["nprobes"]
            return pa.table({self.columns[0]: index.search(np.atleast_2d(query), K)[1].ravel()})

        return find


def load(task: Task) -> str:
    """Import the library and the modules of a search, start Spark for statements, and return the library's version."""
    library = importlib.import_module(task.library)
    if task.by_sql:
        from common import session

        session(Path(tempfile.mkdtemp()), "4g", {f"spark.hadoop.{key}": text for key, text in task.settings.items()})
    for name in task.modules:
        with contextlib.suppress(Exception):  # what an earlier process had may not be found by its name alone
            importlib.import_module(name)
    return str(library.__version__)


def timed(task: Task, find: Find, step: dict[str, Any]) -> dict[str, Any]:
    """Search for the queries of a step, one after another or all at once, and return what it took and what it found."""
    condition = step.get("filter")
    effort = step.get("effort") or task.effort
    queries = np.asarray(step["queries"] if "queries" in step else np.load(step["file"])[slice(*step["part"])], "<f4")
    if step.get("batch"):
        found, times = _all_at_once(task, find, queries, effort), []
    else:
        found, times = [], []
        for query in queries:
            begun = time.perf_counter()
            found.append(find(query, condition, effort))
            times.append(time.perf_counter() - begun)
    return {"ids": [each.column(task.columns[0]).to_pylist() for each in found], "times": times}


def _all_at_once(task: Task, find: Find, queries: Any, effort: dict[str, Any]) -> list[Any]:
    """Search by the library's own call for many queries, or by a thread for each processor if it has none."""
    if task.library in ("hudi_vector", "faiss"):
        every = find(queries, None, effort)
        return [every.slice(first, K) for first in range(0, len(queries) * K, K)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(lambda query: find(query, None, effort), queries))


def most_memory(process: str = "self") -> int:
    """Return the most bytes that a process and those it started have had in memory, each at its own time."""
    about = Path(f"/proc/{process}")
    try:
        peak = next(line for line in (about / "status").read_text().splitlines() if line.startswith("VmHWM"))
        started = {one for each in about.glob("task/*/children") for one in each.read_text().split()}
    except (OSError, StopIteration):  # it has ended meanwhile
        return 0
    return 1024 * int(peak.split()[1]) + sum(map(most_memory, started))


def main() -> None:
    """Answer each line by one."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries and the JVM print is no answer

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    task, find = Task(**json.loads(sys.stdin.readline())), None
    answer(version=load(task))
    for line in sys.stdin:
        step = json.loads(line)
        begun = time.perf_counter()
        if "build" in step:
            task.build(step["build"], step["options"])
            answer(seconds=time.perf_counter() - begun, memory=most_memory())
            continue
        find = find or task.opened()
        done = timed(task, find, step)
        seconds = time.perf_counter() - begun
        modules = sorted(sys.modules) if step.get("modules") else []
        answer(seconds=seconds, **done, modules=modules, memory=most_memory())


if __name__ == "__main__":
    main()
