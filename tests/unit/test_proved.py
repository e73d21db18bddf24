"""How many rows of an answer a report says to be certain, and that these rows are in the exact answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.indexed import SHAPES, true_rows, vectors

import hudi_vector as hv
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.kernels.metrics import INDEXED
from hudi_vector.read.cache import process_cache

pytestmark = pytest.mark.usefixtures("briefly_calibrated")

OPTIONS = {"hoodie.vector.cache.max.bytes": "0"}
EVERYTHING = {"nprobes": 10_000}


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    """The budget of the cache that these tests set is not that of others."""
    before = process_cache().budget
    yield
    process_cache().resize(before)


def write(folder: Path, values: Any, files: int = 3) -> list[str]:
    paths = []
    for number, part in enumerate(np.array_split(np.arange(len(values)), files)):
        paths.append(str(folder / f"{number}.parquet"))
        emb = pa.FixedSizeListArray.from_arrays(pa.array(values[part].ravel()), values.shape[1])
        pq.write_table(pa.table({"id": part, "half": part % 2, "emb": emb}), paths[-1])
    return paths


def opened(folder: Path, values: Any, metric: str, options: dict[str, str] | None = None, **index: Any) -> Any:
    files, directory = write(folder, values), str(folder / "indexes")
    hv.index.build_if_missing(None, column="emb", files=files, directory=directory, metric=metric, **index)
    return hv.open(
        files=files, column="emb", index_directory=directory, options=OPTIONS if options is None else options
    )


def assert_certain(hits: Any, truths: list[set[int]]) -> int:
    """The certain rows of each query come first, so it must be the first ones that are in the exact answers."""
    assert hits.plan.index is not None
    queries = np.asarray(hits["_hudi_query_index"]) if "_hudi_query_index" in hits.column_names else np.zeros(len(hits))
    ids = np.asarray(hits["id"])
    most = sum(
        next((n for n, row in enumerate(own) if row not in truth), len(own))
        for own, truth in ((ids[queries == number].tolist(), truth) for number, truth in enumerate(truths))
    )
    assert 0 <= hits.report.proved <= most
    assert hits.report.returned == len(hits)
    assert f"proved: {hits.report.proved} of {len(hits)} rows" in str(hits.report)
    return int(hits.report.proved)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_proved_is_true(data: st.DataObject) -> None:
    shape, metric = data.draw(st.sampled_from(SHAPES), "shape"), data.draw(st.sampled_from(sorted(INDEXED)), "metric")
    element, seed = data.draw(st.sampled_from(["float", "double", "int8"])), data.draw(st.integers(0, 1000), "seed")
    values = vectors(shape, 400, 8, element, seed)
    kind = data.draw(st.sampled_from([name for name in KINDS if name != "ivf_pq"]), "kind")
    lists = {} if kind == "hnsw" else {"num_partitions": data.draw(st.sampled_from([3, 20]), "lists")}
    asked = values[[3, 77]].astype(np.float64) * data.draw(st.sampled_from([1.0, 1.01, -0.5]), "times")
    how: dict[str, Any] = {"metric": metric, "columns": ["id"], "mode": "approximate"}
    how |= data.draw(st.sampled_from([{"nprobes": 1}, {"nprobes": 4, "refine_factor": 3}, EVERYTHING]), "effort")
    allowed = None
    if data.draw(st.booleans(), "with a filter"):
        how["filter"], allowed = "half = 1", np.arange(400) % 2 == 1
    truths = [true_rows(values, query, metric, 7, allowed) for query in asked]
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder), values, metric, kind=kind, **lists) as t:
        assert_certain(t.search(asked[0], 7, **how), truths[:1])
        assert_certain(t.search_batch(asked, 7, **how), truths)
        exact = t.search_batch(asked, 7, **how | {"mode": "exact", "nprobes": None, "refine_factor": None})
        assert exact.report.proved == len(exact)


@pytest.mark.parametrize("metric", sorted(INDEXED))
@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_flat", "ivf_rabitq", "ivf_pq"])
def test_rows_that_lie_apart_are_proved(tmp_path: Path, kind: str, metric: str) -> None:
    """Ten rows around each of sixty places: an index knows them from all others by any code, if it looks everywhere."""
    chance = np.random.default_rng(3)
    places = np.concatenate([np.eye(20), -np.eye(20), (np.roll(np.eye(20), 1, axis=1) - np.eye(20)) / 2])
    values = (np.repeat(places, 10, axis=0) + chance.normal(size=(600, 20)) * 0.02).astype("f4")
    sizes = {"ivf_pq": {"num_sub_vectors": 20}, "ivf_rabitq": {"num_bits": 4}}.get(kind, {})
    with opened(tmp_path, values, metric, kind=kind, num_partitions=60, **sizes) as t:
        how = {"metric": metric, "columns": ["id"], "mode": "approximate"}
        truths = [true_rows(values, query, metric, 10) for query in places[:20]]
        hits = t.search_batch(places[:20], 10, **how, **EVERYTHING)
        assert assert_certain(hits, truths) == len(hits) == 200
        few = t.search_batch(places[:20], 10, **how, nprobes=8)
        assert assert_certain(few, truths) > 0
        assert t.search(places[0], 10, **how, **EVERYTHING).report.proved == 10
        odd = t.search(places[0], 5, **how, **EVERYTHING, filter="half = 1 AND id < 100")
        assert odd.report.proved == 5
        assert t.search(places[0], 10, metric=metric).report.proved == 10


def test_nothing_is_proved_by_a_graph(tmp_path: Path) -> None:
    values = vectors("clustered", 900, 8, "float", 1)
    with opened(tmp_path, values, "l2", kind="hnsw") as t:
        how = {"metric": "l2", "mode": "approximate", "columns": ["id"]}
        assert t.search(values[3], 7, **how).report.proved == 0
        assert t.search(values[3], 7, **how, filter="id < 5").report.proved == 5


def test_views_that_are_searched_one_after_the_other_prove_together(tmp_path: Path) -> None:
    values = vectors("clustered", 900, 8, "float", 1)
    asked = values[::90].astype(np.float64)
    truths = [true_rows(values, query, "l2", 5) for query in asked]
    how = {"metric": "l2", "mode": "approximate", "columns": ["id"], "nprobes": 12}
    with opened(tmp_path, values, "l2", num_partitions=30) as t:
        together = assert_certain(t.search_batch(asked, 5, **how), truths)
    with opened(tmp_path, values, "l2", {"hoodie.vector.cache.max.bytes": "12000"}, num_partitions=30) as t:
        apart = assert_certain(t.search_batch(asked, 5, **how), truths)
    assert 0 < apart <= 50
    assert 0 < together <= 50
