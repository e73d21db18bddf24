"""The alternatives of the index's benchmark: faiss over the same vectors in memory, and Lance on a copy of them.

Whole searches, ours and Lance's, are asked the same queries with rising effort, and what the least effort takes whose
recall is at least 0.95 is told for both: only equals are compared.
"""

from __future__ import annotations

import posixpath
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from common import spread
from index_data import BATCH, BATCHES, WARM, Case, Figures, K, percentiles

_CANDIDATES = 20
_PROBES = (4, 16, 64)
_WALKS = (4, 16, 64, 128, 256)
"""The same of graphs: a walk through one of all rows finds its way out of a cluster only with many in view."""
_RECALL = 0.95
_RISING = ((1, 2), (2, 2), (4, 2), (8, 2), (16, 2), (16, 5), (32, 5), (64, 5), (64, 10), (128, 10))
"""Lists looked at, or rows in view, and candidates for each row wanted."""
_ROOM = 1.9
"""Our cache in parts of all vectors: codes have room; vectors, which get half of it at most, are read from files."""
_LANCE = {
    "ivf_sq8": "IVF_SQ", "ivf_flat": "IVF_FLAT", "ivf_rabitq": "IVF_RQ", "ivf_pq": "IVF_PQ", "hnsw": "IVF_HNSW_SQ",
}  # fmt: skip


def rivals(case: Case, kinds: Sequence[str], figures: Figures) -> None:
    """Each kind of index as ours alone, as faiss has it and as Lance has it."""
    import lance

    rows = np.ascontiguousarray(case.rows())
    for kind in kinds:
        _own(case, kind, figures)
        _faiss(case, kind, rows, figures)
    place = str(case.folder / "lance")
    shutil.rmtree(place, ignore_errors=True)
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    data = lance.write_dataset(pa.table({"id": np.arange(len(rows)), "emb": values}), place)
    for kind in kinds:
        _lance(case, kind, data, figures)
        _ours(case, kind, figures)


def _own(case: Case, kind: str, figures: Figures) -> None:
    """The probe of our index: candidates, not yet read and ranked."""
    from hudi_vector.index.catalog import indexes_at
    from hudi_vector.index.load import load_view
    from hudi_vector.index.locations import in_table
    from hudi_vector.storage import StorageOptions

    options = StorageOptions()
    found = indexes_at(in_table(f"file://{case.table}", "emb"), options)
    index = next(one for one in found if one.manifest.kind == kind)
    # Of a file that was written anew, the segment of the newest content.
    current = list({posixpath.basename(one.file.path).split("_")[0]: one for one in index.manifest.entries}.values())
    view = load_view(index.folder, index.manifest.model_id, current, options, keep=False)
    ids = [pq.read_table(f"{case.table}/{one.file.path}", columns=["id"])["id"].to_numpy() for one in current]
    every, bases = np.concatenate(ids), np.cumsum([0, *map(len, ids)])

    def rows(found: Any, count: int) -> list[npt.NDArray[np.int64]]:
        known = every[bases[found.segment] + found.position]
        return [known[found.query == query] for query in range(count)]

    for probes in _probes(kind):

        def run(asked: Any, probes: int = probes) -> Any:
            return view.candidates(asked, K, nprobes=probes, candidates=_CANDIDATES, certain=False)

        _timed(case, figures, f"probe alone, {kind}, {probes} probes", run, rows)


def _faiss(case: Case, kind: str, rows: npt.NDArray[np.float32], figures: Figures) -> None:
    import faiss

    from hudi_vector.index.kinds.model import default_partitions
    from hudi_vector.kernels.product import usual_parts

    dimension, lists = rows.shape[1], default_partitions(len(rows))
    flat = faiss.IndexFlatL2(dimension)
    eight = faiss.ScalarQuantizer.QT_8bit
    begun = time.perf_counter()
    if kind == "hnsw":
        index = faiss.IndexHNSWSQ(dimension, eight, 16)
        index.hnsw.efConstruction = 100
    elif kind == "ivf_pq":
        index = faiss.IndexIVFPQ(flat, dimension, lists, usual_parts(dimension, 8), 8)
    elif kind == "ivf_sq8":
        index = faiss.IndexIVFScalarQuantizer(flat, dimension, lists, eight, faiss.METRIC_L2, False)
    elif kind == "ivf_rabitq":
        searched = faiss.IndexIVFRaBitQ(flat, dimension, lists, faiss.METRIC_L2)
        searched.qb = 8
        index = faiss.IndexPreTransform(faiss.RandomRotationMatrix(dimension, dimension), searched)
    else:
        index = faiss.IndexIVFFlat(flat, dimension, lists)
    index.train(rows[np.random.default_rng(0).permutation(len(rows))[: 256 * lists]])
    index.add(rows)
    seconds = time.perf_counter() - begun
    figures.add(
        f"faiss {kind}, built", seconds=seconds, bytes_per_vector=faiss.serialize_index(index).nbytes / len(rows)
    )
    for probes in _probes(kind):
        if kind == "hnsw":
            index.hnsw.efSearch = probes
        else:
            faiss.extract_index_ivf(index).nprobe = probes

        def run(asked: Any) -> Any:
            return index.search(np.atleast_2d(asked).astype(np.float32), _CANDIDATES)

        _timed(case, figures, f"faiss {kind}, {probes} probes", run, lambda found, _: list(found[1]))


def _lance(case: Case, kind: str, data: Any, figures: Figures) -> None:
    from hudi_vector.index.kinds.model import default_partitions
    from hudi_vector.kernels.product import usual_parts

    begun = time.perf_counter()
    sizes = {"ivf_pq": {"num_sub_vectors": usual_parts(case.dimension, 8)}, "ivf_rabitq": {"num_bits": 1}}
    more = sizes.get(kind, {})
    lists = 1 if kind == "hnsw" else default_partitions(len(case.rows()))
    data = data.create_index("emb", _LANCE[kind], metric="L2", num_partitions=lists, replace=True, **more)
    figures.add(f"Lance {_LANCE[kind]}, built", seconds=time.perf_counter() - begun)

    def finding(probes: int, refine: int) -> Callable[[Any], list[int]]:
        effort = {"ef": max(probes, refine * K)} if kind == "hnsw" else {"nprobes": probes}

        def find(query: Any) -> list[int]:
            nearest = {"column": "emb", "q": query.astype(np.float32), "k": K, "refine_factor": refine, **effort}
            found: list[int] = data.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
            return found

        return find

    _at_equal_recall(case, f"Lance {_LANCE[kind]}", finding, figures)


def _ours(case: Case, kind: str, figures: Figures) -> None:
    """Whole searches of the Hudi table by our index."""
    import hudi_vector as hv

    room = int(_ROOM * case.rows().nbytes)
    with hv.open(case.table, column="emb", options={"hoodie.vector.cache.max.bytes": str(room)}) as t:

        def finding(probes: int, refine: int) -> Callable[[Any], list[int]]:
            effort = {"algorithm": kind, "mode": "approximate", "nprobes": probes, "refine_factor": refine}

            def find(query: Any) -> list[int]:
                found = t.search(query, K, metric="l2", columns=["id"], **effort)
                ids: list[int] = found.column("id").to_pylist()
                return ids

            return find

        _at_equal_recall(case, f"ours {kind}", finding, figures)


def _at_equal_recall(
    case: Case, name: str, finding: Callable[[int, int], Callable[[Any], list[int]]], figures: Figures
) -> None:
    """Time searches with rising effort, and tell which is the quickest of those that reach the recall."""
    reached: list[dict[str, Any]] = []
    for probes, refine in _RISING:
        find = finding(probes, refine)
        for query in case.asked()[:WARM]:
            find(query)
        times, shares, used = [], [], time.process_time()
        for query, true in zip(case.asked(), case.truth().tolist(), strict=True):
            begun = time.perf_counter()
            found = find(query)
            times.append(1000 * (time.perf_counter() - begun))
            shares.append(len(set(found) & set(true)) / K)
        cpu = 1000 * (time.process_time() - used) / len(times)
        row = {"recall": float(np.mean(shares)), **percentiles(times), "cpu": cpu}
        figures.add(f"{name}, {probes} probes, {refine} k candidates", **row)
        if row["recall"] >= _RECALL:
            reached.append(row | {"probes": probes, "refine_factor": refine})
    if reached:
        figures.add(f"{name}, recall {_RECALL}", **min(reached, key=lambda row: row["p50"]))


def _probes(kind: str) -> tuple[int, ...]:
    return _WALKS if kind == "hnsw" else _PROBES


def _timed(
    case: Case, figures: Figures, subject: str, run: Callable[[Any], Any],
    rows: Callable[[Any, int], list[npt.NDArray[np.int64]]],
) -> None:  # fmt: skip
    """Latency of single queries, how many of a batch are answered in a second, and the share of the true rows found."""
    asked = case.asked()
    for query in asked[:WARM]:
        run(query)
    times, used = [], time.process_time()
    for query in asked:
        begun = time.perf_counter()
        run(query)
        times.append(1000 * (time.perf_counter() - begun))
    cpu = 1000 * (time.process_time() - used) / len(times)
    rates, shares = [], []
    for number in range(1 + BATCHES):
        places = case.places(number, BATCH)
        many = case.batch()[places]
        begun = time.perf_counter()
        found = run(many)
        seconds = time.perf_counter() - begun
        if number:
            rates.append(len(many) / seconds)
            pairs = zip(rows(found, len(many)), case.batch_truth()[places], strict=True)
            shares += [len(np.intersect1d(mine, true)) / K for mine, true in pairs]
    share = float(np.mean(shares))
    figures.add(subject, found=share, **percentiles(times), cpu=cpu, queries_per_second=spread(rates))
