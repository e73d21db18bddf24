"""The alternatives of the index's benchmark: faiss over the same vectors in memory, and Lance on a copy of them."""

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
from index_data import BATCH, Case, Figures, K, percentiles

_CANDIDATES = 20
_PROBES = (4, 16, 64)
_WALKS = (4, 16, 64, 128, 256)
"""The same of graphs: a walk through one of all rows finds its way out of a cluster only with many in view."""
_LANCE = {"ivf_sq8": "IVF_SQ", "ivf_flat": "IVF_FLAT", "ivf_pq": "IVF_PQ", "hnsw": "IVF_HNSW_SQ"}


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


def _own(case: Case, kind: str, figures: Figures) -> None:
    """The probe of our index: candidates, not yet read and ranked."""
    from hudi_vector.index.catalog import indexes_at
    from hudi_vector.index.homes import beside_table
    from hudi_vector.index.load import load_view
    from hudi_vector.storage import StorageOptions

    options = StorageOptions()
    found = indexes_at(beside_table(f"file://{case.table}", "emb"), options)
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

    from hudi_vector.index.model import default_partitions
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
            index.nprobe = probes

        def run(asked: Any) -> Any:
            return index.search(np.atleast_2d(asked).astype(np.float32), _CANDIDATES)

        _timed(case, figures, f"faiss {kind}, {probes} probes", run, lambda found, _: list(found[1]))


def _lance(case: Case, kind: str, data: Any, figures: Figures) -> None:
    from hudi_vector.index.model import default_partitions
    from hudi_vector.kernels.product import usual_parts

    begun = time.perf_counter()
    more = {"num_sub_vectors": usual_parts(case.dimension, 8)} if kind == "ivf_pq" else {}
    lists = 1 if kind == "hnsw" else default_partitions(len(case.rows()))
    data = data.create_index("emb", _LANCE[kind], metric="L2", num_partitions=lists, replace=True, **more)
    figures.add(f"Lance {_LANCE[kind]}, built", seconds=time.perf_counter() - begun)
    truth = case.truth()
    for probes in _probes(kind):
        effort = {"ef": max(probes, _CANDIDATES)} if kind == "hnsw" else {"nprobes": probes}

        def find(query: Any, effort: dict[str, int] = effort) -> list[int]:
            nearest = {"column": "emb", "q": query.astype(np.float32), "k": K, "refine_factor": 2, **effort}
            found: list[int] = data.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
            return found

        find(case.asked()[0])
        times, shares, used = [], [], time.process_time()
        for query, true in zip(case.asked(), truth.tolist(), strict=True):
            begun = time.perf_counter()
            found = find(query)
            times.append(1000 * (time.perf_counter() - begun))
            shares.append(len(set(found) & set(true)) / K)
        cpu = 1000 * (time.process_time() - used) / len(times)
        subject = f"Lance {_LANCE[kind]}, {probes} probes"
        figures.add(subject, recall=float(np.mean(shares)), **percentiles(times), cpu=cpu)


def _probes(kind: str) -> tuple[int, ...]:
    return _WALKS if kind == "hnsw" else _PROBES


def _timed(
    case: Case, figures: Figures, subject: str, run: Callable[[Any], Any],
    rows: Callable[[Any, int], list[npt.NDArray[np.int64]]],
) -> None:  # fmt: skip
    """Latency of single queries, how many of a batch are answered in a second, and the share of the true rows found."""
    asked = case.asked()
    run(asked[0])
    times, used = [], time.process_time()
    for query in asked:
        begun = time.perf_counter()
        run(query)
        times.append(1000 * (time.perf_counter() - begun))
    cpu = 1000 * (time.process_time() - used) / len(times)
    many = case.batch()[:BATCH]
    begun = time.perf_counter()
    found = run(many)
    seconds = time.perf_counter() - begun
    pairs = zip(rows(found, len(many)), case.batch_truth(), strict=True)
    share = float(np.mean([len(np.intersect1d(mine, true)) / K for mine, true in pairs]))
    figures.add(subject, found=share, **percentiles(times), cpu=cpu, queries_per_second=len(many) / seconds)
