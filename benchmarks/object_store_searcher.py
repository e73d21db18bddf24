"""A process of ``object_store.py``: one contestant, which searches when it is asked to.

    python benchmarks/object_store_searcher.py

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

K = 10

Find = Callable[[Any, "str | None"], Any]


@dataclass(frozen=True)
class Task:
    """What a process searches.

    Attributes:
        library: ``hudi_vector``, ``lance`` or ``lancedb``.
        by_sql: Whether a session of Spark searches, by statements.
        place: URI of the table.
        settings: How the library reaches the store.
        columns: Of the rows found, the number of the row first.
        effort: Arguments of a search.
        filtered_effort: Arguments of a search with a filter.
        modules: What is loaded before the first step.
    """

    library: str
    place: str
    settings: dict[str, str]
    columns: list[str]
    effort: dict[str, Any]
    filtered_effort: dict[str, Any]
    modules: list[str]
    by_sql: bool = False

    def opened(self) -> Find:
        """Open the table; a search gives the rows found."""
        if self.by_sql:
            return self._statement
        return {"hudi_vector": self._hudi, "lance": self._lance, "lancedb": self._lancedb}[self.library]()

    def effort_of(self, condition: str | None) -> dict[str, Any]:
        return self.filtered_effort if condition else self.effort

    def build(self, place: str, options: dict[str, Any]) -> None:
        """Build the index of a table that has none."""
        if self.library == "lance":
            import lance

            lance.dataset(place, storage_options=self.settings).create_index("emb", **options)
        else:
            from pyspark.sql import SparkSession

            import hudi_vector as hv

            hv.index.create(SparkSession.active(), place, "emb", **options)

    def _hudi(self) -> Find:
        import hudi_vector as hv

        table = hv.open(self.place, column="emb", storage_options=self.settings)

        def find(query: Any, condition: str | None) -> Any:
            asked = {"columns": self.columns, "filter": condition, **self.effort_of(condition)}
            return table.search(query, K, metric="l2", **asked)

        return find

    def _statement(self, query: Any, condition: str | None) -> Any:
        import pyarrow as pa
        from pyspark.sql import SparkSession

        vector = ", ".join(f"{value!r}D" for value in query.tolist())
        more = {"filter": condition, **self.effort_of(condition)}
        named = "".join(f", {name} => {value!r}" for name, value in more.items() if value is not None)
        columns = ", ".join([*self.columns, "_distance"])
        called = f"hudi_vector_search('{self.place}', 'emb', ARRAY({vector}), {K}, metric => 'l2'{named})"
        rows = SparkSession.active().sql(f"SELECT {columns} FROM {called}").collect()
        return pa.Table.from_pylist([row.asDict() for row in rows])

    def _lance(self) -> Find:
        import lance

        data = lance.dataset(self.place, storage_options=self.settings)

        def find(query: Any, condition: str | None) -> Any:
            nearest = {"column": "emb", "q": query, "k": K, **self.effort_of(condition)}
            wanted = [*self.columns, "_distance"]
            return data.to_table(columns=wanted, nearest=nearest, filter=condition, prefilter=condition is not None)

        return find

    def _lancedb(self) -> Find:
        import lancedb

        folder, _, name = self.place.rpartition("/")
        table = lancedb.connect(folder, storage_options=self.settings).open_table(name.removesuffix(".lance"))

        def find(query: Any, condition: str | None) -> Any:
            effort = self.effort_of(condition)
            asked = table.search(query, vector_column_name="emb").distance_type("l2").limit(K)
            asked = asked.nprobes(effort["nprobes"]).refine_factor(effort["refine_factor"])
            asked = asked.where(condition, prefilter=True) if condition else asked
            return asked.select([*self.columns, "_distance"]).to_arrow()

        return find


def load(task: Task) -> str:
    """Import the library and the modules of a search, start Spark for statements, and return the library's version."""
    library = importlib.import_module(task.library)
    if task.by_sql:
        from common import session

        session(Path(tempfile.mkdtemp()), "2g", {f"spark.hadoop.{key}": text for key, text in task.settings.items()})
    for name in task.modules:
        with contextlib.suppress(Exception):  # what an earlier process had may not be found by its name alone
            importlib.import_module(name)
    return str(library.__version__)


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
            answer(seconds=time.perf_counter() - begun)
            continue
        queries = np.asarray(step["queries"], np.float32)
        find = find or task.opened()
        found = [find(query, step["filter"]) for query in queries]
        seconds = time.perf_counter() - begun
        ids = [each.column(task.columns[0]).to_pylist() for each in found]
        answer(seconds=seconds, ids=ids, modules=sorted(sys.modules) if step["modules"] else [])


if __name__ == "__main__":
    main()
