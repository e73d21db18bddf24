"""What the plain package must do under any Python: ``make test-pythons`` runs this file in a fresh environment.

It needs the installed package and nothing else: the README's snippet as it stands there, searches on the driver and on
workers beside brute force, blobs written and read, a vector index, and a run of the cleaner.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import hudi_vector as hv

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY = [0.3, -0.2, 0.9, 0.1]


def main(readme: Path) -> None:
    """Run all of it; the first thing that is wrong ends it with a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        spark = _snippet(readme, folder)
        try:
            for check in (_searches, _index, _blobs):
                check(spark, folder)
                print(f"python {sys.version.split()[0]}: {check.__name__[1:]} well", flush=True)
        finally:
            spark.stop()


def _snippet(readme: Path, folder: str) -> SparkSession:
    """The session of the README's first Python block, which must find the nearest rows."""
    (code,) = re.findall(r"```python\n(import hudi_vector.*?)```", readme.read_text("utf-8"), re.DOTALL)
    assert "/tmp/pets" in code
    names: dict[str, object] = {}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code.replace("/tmp/pets", f"{folder}/pets"), str(readme), "exec"), names)
    assert shown.getvalue().count("another cat") == 2, shown.getvalue()
    spark: SparkSession = names["spark"]  # type: ignore[assignment]
    assert spark.sparkContext.pythonVer == f"{sys.version_info.major}.{sys.version_info.minor}"
    return spark


def _searches(spark: SparkSession, folder: str) -> None:
    vectors = np.random.default_rng(7).standard_normal((200, 4)).astype(np.float32)
    rows = [(number, number % 3, vector.tolist()) for number, vector in enumerate(vectors)]
    df = spark.createDataFrame(rows, "id INT, kind INT, embedding ARRAY<FLOAT>")
    hv.write(df, f"{folder}/points", record_key="id", vectors={"embedding": 4})
    distances = np.linalg.norm(vectors.astype(np.float64) - np.array(_QUERY, np.float32).astype(np.float64), axis=1)
    kinds = np.arange(len(rows)) % 3
    for condition, allowed in ((None, kinds >= 0), ("kind = 1", kinds == 1)):
        wanted = sorted(np.flatnonzero(allowed), key=lambda number: distances[number])[:5]
        for execution in ("local", "distributed"):
            spark.conf.set("hoodie.vector.search.execution", execution)
            found = hv.search(
                spark, f"{folder}/points", "embedding", _QUERY, 5, metric="l2", filter=condition
            ).collect()
            assert [row["id"] for row in found] == wanted, (condition, execution, found)
            np.testing.assert_allclose([row["_distance"] for row in found], distances[wanted], rtol=1e-6)
    spark.conf.unset("hoodie.vector.search.execution")
    hits = hv.open(f"{folder}/points", column="embedding").search(_QUERY, 3, metric="l2", columns=["id"])
    assert hits.to_pandas()["id"].tolist() == list(np.argsort(distances)[:3])


def _index(spark: SparkSession, folder: str) -> None:
    hv.index.create(spark, f"{folder}/points", "embedding")
    hits = hv.search(spark, f"{folder}/points", "embedding", _QUERY, 5, metric="l2", recall_target=0.9)
    assert len(hits.toPandas()) == 5


def _blobs(spark: SparkSession, folder: str) -> None:
    path, sizes = f"{folder}/photos", {1: 10, 2: 5_000, 3: 70_000}
    options = {"hoodie.storage.blob.inline.threshold": "1KB"}
    for version in (b"old", b"new"):
        rows = [(key, bytearray((version * size)[:size])) for key, size in sizes.items()]
        df = spark.createDataFrame(rows, "id INT, image BINARY")
        hv.write(df, path, record_key="id", blobs=["image"], options=options)
    spark.read.format("hudi").load(path).createOrReplaceTempView("photos")
    wanted = {key: (b"new" * size)[:size] for key, size in sizes.items()}
    in_sql = spark.sql("SELECT id, read_blob(image) AS bytes FROM photos").collect()
    assert {row["id"]: bytes(row["bytes"]) for row in in_sql} == wanted
    late = hv.read_blobs(spark.table("photos").select("id", "image"), "image").collect()
    assert {row["id"]: bytes(row["image"]) for row in late} == wanted
    result = hv.table_services.clean_blobs(spark, path)
    # Both versions are retained: every container is referred to.
    assert result.is_well, result
    assert not result.candidates, result
    assert len(hv.table_services.list_containers(spark, path).containers) >= 2


if __name__ == "__main__":
    main(Path(sys.argv[1]))
