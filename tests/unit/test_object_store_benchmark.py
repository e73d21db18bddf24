"""The object store's benchmark, of a table that is written without Spark: what it counts and finds, never its times."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.written_table import Row, WrittenTable

from hudi_vector.index.build import Parameters, create_index
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import normalise
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FILES, ROWS, DIMENSION, QUERIES = 8, 480, 8, 24
DELAY = 0.25  # requests that are sent together are seen together on a busy machine


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        main, data = (importlib.import_module(name) for name in ("object_store", "object_store_data"))
        for module in (main, data):
            patch.setattr(module, "QUERIES", QUERIES)  # asked of seven contestants, with two filters and without
        yield SimpleNamespace(main=main, data=data)


def write(case: Any) -> None:
    """The rows of the benchmark in base files, twice, with an index of each kind."""
    rows = [
        Row(each["id"], "g", float(each["price"]), each["name"], tuple(each["emb"]))
        for each in pq.read_table(case.source).to_pylist()
    ]
    table = WrittenTable(case.table, dimension=DIMENSION)
    table.commit({("g", f"f{number}"): rows[number::FILES] for number in range(FILES)})
    shutil.copytree(case.table, case.bits)
    for folder, kind in ((case.table, "ivf_sq8"), (case.bits, "ivf_rabitq")):
        snapshot = NativeTable(Source(normalise(str(folder)), "t")).snapshot()
        spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", DIMENSION, "float"))
        create_index(snapshot, spec, Parameters(metric="l2", kind=kind))


def test_steps_are_counted_apart_and_answers_are_those_of_lance(bench: Any, tmp_path: Path) -> None:
    case = bench.data.Case("f8", ROWS, FILES, 1, tmp_path, dimension=DIMENSION, text="name")
    bench.data.draw(case)
    write(case)
    bench.data.copy(case)
    with bench.main.slow_store(DELAY) as store:
        measured = bench.main.measure(store, case, DELAY, rounds=1, lancedb="/bin/false", by_sql=False)
    rows = {(row["way"], row["step"]): row for row in measured["rows"]}
    steps = [step for step, _ in bench.main.STEPS]
    by_index = ("ours, ivf_sq8", "ours, ivf_rabitq", "ours, disk cache")
    ways = (by_index[0], "Lance, IVF_PQ", *by_index[1:], "ours, exact", "Lance, exact")
    assert list(rows) == [(way, step) for way in ways for step in steps]
    for step, requests, waves in zip(steps, (30, 12, 12, 4), (5, 2, 2, 2), strict=True):
        assert rows["ours, exact", step]["found"] == rows["Lance, exact", step]["found"]
        assert rows["ours, exact", step]["recall"] == rows["Lance, exact", step]["recall"] == 1
        for way in (*by_index, "ours, exact"):
            # Bits of eight elements are measured with 64 queries of 480 rows, within a margin.
            assert rows[way, step]["recall"] >= bench.data.RECALL - (0.05 if way == "ours, ivf_rabitq" else 0)
            counted = {name: value["median"] for name, value in rows[way, step].items() if isinstance(value, dict)}
            assert counted["heads"] == 0
            assert counted["requests"] == counted["gets"] + counted["lists"] <= requests, (way, step, counted)
            fewest = 0 if way == "ours, disk cache" else 1
            assert fewest <= counted["waves"] <= waves, (way, step, counted)
    assert rows["ours, disk cache", steps[0]]["waves"]["median"] <= 3
    assert measured["versions"].keys() == {"hudi_vector", "lance"}


def test_a_process_that_ends_is_one_sentence(bench: Any) -> None:
    wrong = bench.main.Contestant("nothing", "exact", {"library": "none"})
    with (
        pytest.raises(RuntimeError, match="A process that searches has ended"),
        bench.main.process_of(wrong),
    ):
        pass
