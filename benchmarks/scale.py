"""How fast are searches of a table larger than the cache? Ours, Hudi's, Lance's, LanceDB's and faiss', in one run.

    python benchmarks/scale.py [--vectors 1000000] [--dimension 768] [--files 32] [--parts write build search]
        [--output bench-output] [--small]

The vectors are those of `index_data.py`, in clusters, queries like them. ``write`` makes the Hudi table and the copies
of Lance and LanceDB, ``build`` the indexes: ours and faiss' ``ivf_sq8`` of as many lists as we choose, Lance's and
LanceDB's IVF_PQ of as many. ``search`` uses what is there.

Every contestant searches in processes of its own. First each tries rising efforts, and takes the least whose recall is
at least 0.95 and which is as quick as any; ours is also asked for this recall. Then a new process begins with files
that the system has forgotten: its first search, 100 searches of new queries (``cold``), the same once more (``warm``),
a batch of 1,000 others, the same five times more (``warm``, their median), and 50 with filters that a half to a
thousandth of the rows pass. Exact searches are a first one and four more. Recall is the share of the ten nearest rows
by l2 that were found; memory is the most that the process had resident, with all processes it started. Files that are
mapped count as memory too.

LanceDB is measured where ``HUDI_VECTOR_LANCEDB`` names an interpreter that has it, or the one that runs this does.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import environment, from_disk, parser_of, publish, session
from index_data import Case, nearest, percentiles, price_of, write_table
from searching import Contestant, Process, has_lancedb, process_of

_FIRST, _SINGLE, _BATCH, _FILTERED = 1, 100, 1000, 50
_RISING = ((2, 1), (2, 2), (4, 1), (4, 2), (8, 2), (16, 2), (16, 5), (32, 5), (64, 5), (64, 10), (128, 20))
"""Lists looked at, and candidates for each row wanted."""
_TRIED = 50
_WARM_BATCHES = 5
_RECALL = 0.95
_SHARES = (0.5, 0.1, 0.01, 0.001)
_LIMITED = {"hoodie.vector.cache.max.bytes": str(10**9)}


@dataclass
class Run:
    """The table, where the copies are, and what was measured."""

    case: Case
    lancedb: str | None
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def copies(self) -> dict[str, Path]:
        """Where each library's data are."""
        folder = self.case.folder
        return {
            "hudi_vector": Path(self.case.table),
            "lance": folder / "lance" / "table.lance",
            "lancedb": folder / "lancedb" / "table.lance",
            "faiss": folder / "faiss.index",
        }

    def add(self, way: str, step: str, **values: Any) -> None:
        """Keep a row and print it."""
        self.rows.append({"way": way, "step": step, **values})
        shown = (
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
        )
        print(f"  {way:<30} {step:<22} " + "  ".join(shown), flush=True)


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--files", type=int, default=32)
    parts = ("write", "build", "search")
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=parts)
    given = parser.parse_args()
    if given.small:
        given.vectors, given.dimension, given.files = 4_000, 16, 2
    output = given.output.resolve()
    case = Case("clusters", given.vectors, given.dimension, given.files, "snappy", _FIRST + _SINGLE + _BATCH, output)
    lancedb = os.environ.get("HUDI_VECTOR_LANCEDB", sys.executable)
    run, about = Run(case, lancedb if has_lancedb(lancedb) else None), environment()
    kept = case.folder / "made.json"
    if "write" in given.parts:
        case.prepare(output, queries=case.queries)
        write(run)
    if "build" in given.parts:
        build(run)
    if "search" in given.parts:
        if not {"write", "build"} & set(given.parts) and kept.exists():
            run.rows += json.loads(kept.read_text())
        about["versions"] |= search(run)
        content = {"vectors": given.vectors, "dimension": given.dimension, "files": given.files, "rows": run.rows}
        publish(f"scale-{given.vectors}-{given.dimension}", given, about, content)
    else:
        known = json.loads(kept.read_text()) if kept.exists() else []
        kept.write_text(json.dumps(known + run.rows))


def write(run: Run) -> None:
    """Write the table by Spark, by us and by Hudi alone, and the copies."""
    case = run.case
    spark = session(case.output)
    try:
        rows, seconds = write_table(spark, case)
        run.add("ours", "write", seconds=seconds)
        begun = time.perf_counter()
        native = str(case.folder / "native")
        rows.write.format("hudi").options(**{
            "hoodie.table.name": "native", "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part", "hoodie.metadata.enable": "false",
            "hoodie.datasource.write.operation": "bulk_insert",
        }).mode("overwrite").save(native)  # fmt: skip
        run.add("Hudi's own", "write", seconds=time.perf_counter() - begun)
        shutil.rmtree(native)
    finally:
        spark.stop()
    import lance

    begun = time.perf_counter()
    lance.write_dataset(_batches(case), str(run.copies["lance"]))
    run.add("Lance", "write", seconds=time.perf_counter() - begun)
    if run.lancedb:
        shutil.copytree(run.copies["lance"], run.copies["lancedb"])


def _batches(case: Case) -> pa.RecordBatchReader:
    """The source, file by file, with vectors of a fixed size."""
    files = sorted((case.folder / "source").glob("*.parquet"), key=lambda file: int(file.stem))
    vectors = pa.list_(pa.float32(), case.dimension)

    def read() -> Any:
        for file in files:
            table = pq.read_table(file)
            at = table.schema.get_field_index("emb")
            yield from table.set_column(at, "emb", table["emb"].cast(vectors)).to_batches()

    first = pq.read_schema(files[0])
    return pa.RecordBatchReader.from_batches(
        pa.schema([pa.field(each.name, vectors if each.name == "emb" else each.type) for each in first]), read()
    )


def build(run: Run) -> None:
    """Build an index by each library, each in its own process."""
    from hudi_vector.index.kinds.model import default_partitions

    lists = default_partitions(run.case.vectors)
    of_lance = {"num_partitions": lists, "num_sub_vectors": max(1, run.case.dimension // 16)}  # as LanceDB chooses
    for who, options in (
        (_who(run, "ours, ivf_sq8", "hudi_vector", by_sql=True), {"metric": "l2", "kind": "ivf_sq8"}),
        (_who(run, "Lance, IVF_PQ", "lance"), {"index_type": "IVF_PQ", "metric": "L2", **of_lance}),
        (_who(run, "LanceDB, IVF_PQ", "lancedb"), {"metric": "l2", "index_type": "IVF_PQ", **of_lance}),
    ):
        if who is not None:
            with process_of(who) as (process, _):
                done = process.ask({"build": who.task["place"], "options": options})
            run.add(who.name, "build", seconds=done["seconds"], memory=done["memory"])
    _build_faiss(run, lists)


def _build_faiss(run: Run, lists: int) -> None:
    import faiss

    case = run.case
    begun, rows = time.perf_counter(), case.rows()
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(case.dimension), case.dimension, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2, False
    )
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[: 256 * lists])
    index.train(np.ascontiguousarray(rows[chosen]))
    for first in range(0, len(rows), 1 << 15):
        index.add(np.ascontiguousarray(rows[first : first + (1 << 15)]))
    run.add("faiss, IVF_SQ8 in memory", "build", seconds=time.perf_counter() - begun)
    faiss.write_index(index, str(run.copies["faiss"]))
    del index
    gc.collect()


def _who(run: Run, name: str, library: str, **more: Any) -> Contestant | None:
    """A contestant, or None if its library is not there."""
    if library == "lancedb" and run.lancedb is None:
        return None
    task = {
        "library": library,
        "place": str(run.copies[library]),
        "columns": ["id"],
        "effort": {},
    }
    interpreter = run.lancedb if library == "lancedb" and run.lancedb else sys.executable
    return Contestant(name, "index", {**task, **more}, interpreter)


def search(run: Run) -> dict[str, str]:
    """Search by all, exactly and by indexes; the versions of the libraries."""
    versions: dict[str, str] = {}
    exact, scan = {"mode": "exact"}, {"use_index": False}
    limited = {"options": _LIMITED}
    for who, effort in (
        (_who(run, "Hudi's own, Spark", "hudi_vector", by_sql=True, function="hudi_vector_search_native"), {}),
        (_who(run, "ours, Spark", "hudi_vector", by_sql=True), exact),
        (_who(run, "ours", "hudi_vector"), exact),
        (_who(run, "ours, cache of 1 GB", "hudi_vector", **limited), exact),
        (_who(run, "Lance", "lance"), scan),
        (_who(run, "LanceDB", "lancedb"), scan),
    ):
        if who is not None:
            versions[who.task["library"]] = exactly(run, who, effort)
    target = {"recall_target": _RECALL}
    indexed = [
        (_who(run, "ours, ivf_sq8, target", "hudi_vector"), target),
        (_who(run, "ours, ivf_sq8, 1 GB, target", "hudi_vector", **limited), target),
        (_who(run, "ours, ivf_sq8, Spark, target", "hudi_vector", by_sql=True), target),
        (_who(run, "ours, ivf_sq8", "hudi_vector"), None),
        (_who(run, "Lance, IVF_PQ", "lance"), None),
        (_who(run, "LanceDB, IVF_PQ", "lancedb"), None),
        (_who(run, "faiss, IVF_SQ8 in memory", "faiss"), None),
    ]
    for who, effort in indexed:
        if who is not None:
            versions[who.task["library"]] = by_index(run, who, effort or least_effort(run, who))
    return versions


def exactly(run: Run, who: Contestant, effort: dict[str, Any]) -> str:
    """A first exact search, of files the system has forgotten, and four more."""
    who = replace(who, task={**who.task, "effort": effort})
    from_disk(Path(run.copies[who.task["library"]]))
    with process_of(who) as (process, version):
        for step, part in (("exact, first", (0, 1)), ("exact, repeated", (1, 5))):
            _add_single(run, who, step, _asked(run, process, part), part)
    return version


def least_effort(run: Run, who: Contestant) -> dict[str, Any]:
    """The least effort whose recall is enough and whose searches are as quick as any, to a tenth; else the most."""
    reached: list[tuple[float, dict[str, Any]]] = []
    with process_of(who) as (process, _):
        for probes, refine in _RISING:
            effort = {"nprobes": probes, "refine_factor": refine}
            if who.task["library"] == "hudi_vector":
                effort |= {"mode": "approximate"}
            part = (_FIRST + _SINGLE, _FIRST + _SINGLE + _TRIED)
            _asked(run, process, part, effort=effort)
            done = _asked(run, process, part, effort=effort)
            recall = _recall(run, done["ids"], part)
            if recall >= _RECALL:
                reached.append((float(np.median(done["times"])), effort))
            if len(reached) == 3:
                break
    quickest = min((seconds for seconds, _ in reached), default=0.0)
    return next((least for seconds, least in reached if seconds <= 1.1 * quickest), effort)


def by_index(run: Run, who: Contestant, effort: dict[str, Any]) -> str:
    """Searches by an index in a new process: the first, new queries, the same again, many at once, with filters."""
    who = replace(who, task={**who.task, "effort": effort})
    place = Path(run.copies[who.task["library"]])
    if place.is_dir():
        from_disk(place)
    with process_of(who) as (process, version):
        first, singles = (0, _FIRST), (_FIRST, _FIRST + _SINGLE)
        _add_single(run, who, "index, first", _asked(run, process, first), first)
        for step in ("index, cold", "index, warm"):
            _add_single(run, who, step, _asked(run, process, singles), singles, **_plain(effort))
        if not who.task.get("by_sql"):
            many = (_FIRST + _SINGLE, _FIRST + _SINGLE + _BATCH)
            for step, times in ((f"batch of {_BATCH:,}", 1), ("batch, warm", _WARM_BATCHES)):
                *others, done = [_asked(run, process, many, batch=True) for _ in range(times)]
                rate = _BATCH / float(np.median([each["seconds"] for each in (*others, done)]))
                found = _recall(run, done["ids"], many)
                run.add(who.name, step, recall=found, queries_per_second=rate, memory=done["memory"])
        if who.task["library"] != "faiss":
            for share in _SHARES:
                part = (_FIRST, _FIRST + _FILTERED)
                done = _asked(run, process, part, filter=f"price < {share}")
                _add_single(run, who, f"index, filter {share}", done, part, share)
    return version


def _asked(run: Run, process: Process, part: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Let a process search for some of the queries."""
    return process.ask({"file": str(run.case.folder / "batch.npy"), "part": part, **more})


def _add_single(
    run: Run, who: Contestant, step: str, done: dict[str, Any], part: tuple[int, int], share: float = 1.0, **more: Any
) -> None:
    times = [1000 * seconds for seconds in done["times"]]
    run.add(
        who.name,
        step,
        recall=_recall(run, done["ids"], part, share),
        **percentiles(times),
        memory=done["memory"],
        **more,
    )


def _plain(effort: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in effort.items() if name != "mode"}


def _recall(run: Run, ids: list[list[int]], part: tuple[int, int], share: float = 1.0) -> float:
    """The share of the true rows among those with a price below `share` that were found."""
    truth = run.case.truth()[slice(*part)] if share == 1.0 else _true_below(run, part, share)
    return float(
        np.mean([len(set(mine) & set(true)) / len(true) for mine, true in zip(ids, truth.tolist(), strict=True)])
    )


def _true_below(run: Run, part: tuple[int, int], share: float) -> Any:
    """The nearest rows among those with a price below `share`, kept in the case's folder."""
    kept = run.case.folder / f"truth-{share}.npy"
    if not kept.exists():
        allowed = np.flatnonzero(price_of(run.case) < share)
        rows = run.case.rows()
        found = nearest(rows, run.case.asked()[slice(*part)], allowed)
        np.save(kept, found)
    return np.load(kept)


if __name__ == "__main__":
    main()
