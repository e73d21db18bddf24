"""What `hv.index.compact` takes, and what it leaves to searches that began before."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_vector as hv
from hudi_vector.index.build import _completed, indexable_files
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import save_model
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.manifest import IndexManifest
from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.opened.external import external_indexes, external_scan
from hudi_vector.read.cache import process_cache
from hudi_vector.storage import StorageOptions, open_storage

DIMENSION, ROWS = 6, 120
QUERY = np.random.default_rng(5).standard_normal(DIMENSION) * 2
GONE = "cannot be read, its file is scanned"


def vectors(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((ROWS, DIMENSION)).astype("f4")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "data").mkdir()
    paths = [str(tmp_path / "data" / f"{number}.parquet") for number in range(4)]
    for number, path in enumerate(paths):
        held = pa.FixedSizeListArray.from_arrays(pa.array(vectors(number).ravel()), DIMENSION)
        pq.write_table(pa.table({"id": range(number * ROWS, (number + 1) * ROWS), "emb": held}), path)
    return paths


@pytest.fixture
def directory(tmp_path: Path, files: list[str]) -> str:
    made = str(tmp_path / "indexes")
    hv.index.create(None, files=files, column="emb", metric="l2", directory=made)
    return made


def opened(files: list[str], directory: str) -> Any:
    # Vectors in memory would answer in place of the index.
    conf = {"hoodie.vector.cache.max.bytes": "0"}
    return hv.open(files=files, column="emb", index_directory=directory, options=conf)


def retrained(files: list[str], directory: str) -> Index:
    """The next generation, of another model: nothing of the one before is in it."""
    snapshot = PlainFiles(files, StorageOptions(), "emb").snapshot()
    (known,) = external_indexes(snapshot, "emb", directory)
    model = train_model(vectors(99), metric="l2", element="float")
    save_model(open_storage(known.folder, StorageOptions()), known.folder, model)
    anew = IndexManifest.of("emb", model, known.manifest.parameters, ())
    index = Index(known.table_uri, known.folder, anew, known.key)
    spec, every = external_scan(snapshot, "emb"), indexable_files(snapshot)
    made = _completed(index, every, spec, map, hashes_keys=False, missing=every, replaces=True)
    assert made.manifest.model_id != known.manifest.model_id
    return made


def compacted(files: list[str], directory: str, grace: str = "0s") -> list[str]:
    gone = hv.index.compact(None, files=files, column="emb", directory=directory, grace=grace)
    return sorted(name.partition("/")[0] for name in gone)


def test_a_table_that_stays_open_scans_what_was_taken(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(files, directory) as t:
        before = t.search(QUERY, 9, metric="l2", columns=["id"])
        retrained(files, directory)
        assert compacted(files, directory) == ["manifests", "models", *["segments"] * 4]
        process_cache().clear()
        assert GONE not in caplog.text
        after = t.search(QUERY, 9, metric="l2", columns=["id"])
        assert GONE in caplog.text
        assert after.table.equals(before.table)
        assert after.table.equals(t.search(QUERY, 9, metric="l2", columns=["id"], mode="exact").table)
        t.refresh()
        caplog.clear()
        assert t.search(QUERY, 9, metric="l2", columns=["id"]).table.equals(before.table)
        assert GONE not in caplog.text


def test_the_grace_of_a_generation_begins_when_another_follows(files: list[str], directory: str) -> None:
    """However old its files are: a search that began a minute ago may read them."""
    for path in Path(directory).rglob("*"):
        os.utime(path, (0, 0))
    retrained(files, directory)
    assert compacted(files, directory, "24h") == []
    newest = max(Path(directory).rglob("manifests/*/0*"), key=lambda path: path.name)
    long_ago = time.time() - 2 * 86_400
    os.utime(newest, (long_ago, long_ago))
    assert compacted(files, directory, "24h") == ["manifests", "models", *["segments"] * 4]
