"""How much memory a distributed task takes for one slice: run as ``task_memory.py FOLDER ROWS``, prints JSON.

The slice is written by a process of its own, so that only the search is measured.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path[:0] = [str(Path(__file__).parents[2])]

DIMENSION = 64


def write(path: str, rows: int) -> None:
    """One Parquet file with keys and a VECTOR column, in one row group as Hudi writes it."""
    values = np.random.default_rng(1).standard_normal((rows, DIMENSION)).astype("<f4")
    vectors = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(DIMENSION * 4), rows, [None, pa.py_buffer(values.tobytes())]
    )
    keys = pa.array([str(number) for number in range(rows)])
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno", "emb"]
    table = pa.table([keys, keys, keys, vectors], names=names)
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False, compression="snappy")


def resident(field: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ValueError(field)


def worker_peaks(spark: Any) -> list[int]:
    """The largest resident size that Python workers ever had, in bytes."""

    def peak(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import resource

        list(batches)
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        yield pa.RecordBatch.from_arrays([pa.array([highest])], names=["id"])

    return [row["id"] for row in spark.range(0, 4, 1, 2).mapInArrow(peak, "id LONG").collect()]


def main(folder: Path, rows: int) -> None:
    """Write, warm up on a small slice, search the large one, print what it took."""
    from hudi_vector.query.execute import Question, SliceFound
    from hudi_vector.query.local import _search_group
    from hudi_vector.query.plan import SliceAccess
    from hudi_vector.read.spec import ScanSpec, VectorColumn
    from hudi_vector.storage import FileInfo
    from hudi_vector.table.model import FileSlice

    def written(name: str, count: int) -> tuple[SliceAccess, ScanSpec]:
        path = folder / name
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(str(path), count))
        writer.start()
        writer.join()
        file = FileInfo(f"file://{path}", path.stat().st_size, path.stat().st_mtime_ns)
        text = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")
        schema = pa.schema([*((column, pa.string()) for column in text), ("emb", pa.list_(pa.float32()))])
        spec = ScanSpec(f"file://{folder}", schema, VectorColumn("emb", DIMENSION, "float"))
        return SliceAccess(FileSlice("", "f", "1", file), "parquet"), spec

    def task(access: SliceAccess, spec: ScanSpec) -> SliceFound:
        question = Question(np.ones((1, DIMENSION)), "cosine", 10)
        return _search_group([(0, access)], None, spec, False, question, question.bounds())

    task(*written("small.parquet", 1000))
    large = written("large.parquet", rows)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    hits, _ = task(*large)
    print(
        json.dumps(
            {
                "hits": sum(len(part.hits) for part in hits),
                "grown": resident("VmHWM") - before,
                "bytes": (folder / "large.parquet").stat().st_size,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
