"""Streams of batches: rows in order, bytes within a budget."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from support.blob_states import inline

from hudi_vector.blobs.files import LocalFile, OpenLocalFile
from hudi_vector.blobs.reading.batches import read_batches
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.errors import BlobReadError, InvalidArgumentError, InvalidBlobError, UnknownColumnError

SAME = {"img": "img"}
# Arrow frees through the pool that allocated: a counting pool has to outlive everything it counted.
POOLS: list[pa.MemoryPool] = []


def batch(*blobs: Any, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"id": np.arange(first, first + len(blobs)), "img": blob_rows(blobs)})


@pytest.fixture
def container(tmp_path: Path) -> str:
    path = tmp_path / "container"
    path.write_bytes(np.random.default_rng(0).bytes(100_000))
    return str(path)


def test_the_column_is_replaced_in_its_place(container: str) -> None:
    rows = batch((container, 0, 4), None, inline(b"x")).append_column("last", pa.array([1, 2, 3]))
    (found,) = read_batches([rows], SAME, BlobFetcher(), 1 << 20)
    content = Path(container).read_bytes()
    assert found.schema == pa.schema([("id", pa.int64()), ("img", pa.binary()), ("last", pa.int64())])
    assert found.to_pydict() == {"id": [0, 1, 2], "img": [content[:4], None, b"x"], "last": [1, 2, 3]}


def test_a_column_is_added() -> None:
    rows = batch(inline(b"x"), None)
    (found,) = read_batches([rows], {"img": "bytes"}, BlobFetcher(), 1 << 20)
    assert found.schema.names == ["id", "img", "bytes"]
    assert found.drop_columns(["bytes"]) == rows
    assert found["bytes"].to_pylist() == [b"x", None]


def test_several_columns_and_none(container: str) -> None:
    rows = batch((container, 0, 2), inline(b"a")).append_column("png", blob_rows([inline(b"b"), (container, 2, 3)]))
    (found,) = read_batches([rows], {"img": "img", "png": "raw"}, BlobFetcher(), 1 << 20)
    content = Path(container).read_bytes()
    assert found["img"].to_pylist() == [content[:2], b"a"]
    assert found["raw"].to_pylist() == [b"b", content[2:5]]
    assert list(read_batches([rows], {}, BlobFetcher(), 1 << 20)) == [rows]


def test_no_rows_give_no_batch() -> None:
    assert list(read_batches([], SAME, BlobFetcher(), 100)) == []
    assert list(read_batches([batch(), batch()], SAME, BlobFetcher(), 100)) == []


@pytest.mark.parametrize(
    ("columns", "budget", "error", "message"),
    [
        ({"imge": "x"}, 9, UnknownColumnError, "'imge' does not exist in 'the batches'; did you mean 'img'"),
        ({"img": "id"}, 9, InvalidArgumentError, "the bytes of 'img' cannot be called 'id': the name is taken"),
        ({"img": "x", "id": "x"}, 9, InvalidArgumentError, "cannot be called 'x': the name is taken"),
        ({"id": "id"}, 9, InvalidBlobError, "column 'id' is int64, which is no blob"),
        (SAME, 0, InvalidArgumentError, "a memory budget of 0 bytes"),
    ],
)
def test_wrong_arguments(columns: dict, budget: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(read_batches([batch(inline(b"x"))], columns, BlobFetcher(), budget))


def test_errors_and_nulls(container: str) -> None:
    rows = batch((container, 0, 1), (container + "!", 0, 1))
    with pytest.raises(BlobReadError, match=r"container!' .*the file is gone"):
        list(read_batches([rows], SAME, BlobFetcher(), 100))
    (found,) = read_batches([rows], SAME, BlobFetcher(on_error="null"), 1000)
    assert found["img"].null_count == 1


def sizes_of(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [[len(value.as_py() or b"") for value in found["img"]] for found in batches]


def test_a_large_value_is_alone(container: str) -> None:
    lengths = [3000, 3000, 90_000, 100, 100, 50_000, 50_000, 0]
    rows = batch(*((container, 7, length) for length in lengths), None)
    found = list(read_batches([rows], SAME, BlobFetcher(), 20_000))
    assert sizes_of(found) == [[3000, 3000], [90_000], [100, 100], [50_000], [50_000], [0, 0]]
    assert [i for part in found for i in part["id"].to_pylist()] == list(range(9))


def test_small_batches_become_one(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    original = OpenLocalFile.read_into
    monkeypatch.setattr(OpenLocalFile, "read_into", lambda *given: reads.append(given[2]) or original(*given))
    rows = [batch((container, 100 * i, 100), first=i) for i in range(50)]
    (found,) = read_batches(rows, SAME, BlobFetcher(), 1 << 20)
    assert b"".join(found["img"].to_pylist()) == Path(container).read_bytes()[:5000]
    assert found["id"].to_pylist() == list(range(50))
    assert reads == [0], "ranges of one file are read together, whatever batches their rows came in"


def test_one_batch_is_not_copied(container: str) -> None:
    rows = batch(*((container, i, 1) for i in range(10)))
    (found,) = read_batches([rows], SAME, BlobFetcher(), 1 << 20)
    assert found["id"].buffers()[1].address == rows["id"].buffers()[1].address


def test_a_consumer_that_stops_has_read_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, opened = [], []
    stat, opening = os.stat, LocalFile.open
    monkeypatch.setattr("os.stat", lambda path, **named: looked.append(path) or stat(path, **named))
    monkeypatch.setattr(LocalFile, "open", lambda file: opened.append(file) or opening(file))
    for number in range(3000):
        (tmp_path / str(number)).write_bytes(bytes(1000))
    rows = batch(*((str(tmp_path / str(number)), None, None) for number in range(3000)))
    taken = 0

    def endless() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield rows

    found = next(read_batches(endless(), SAME, BlobFetcher(), 20_000))
    assert 10 <= found.num_rows <= 20
    assert taken == 1
    assert len(opened) == found.num_rows
    assert len([path for path in looked if str(tmp_path) in str(path)]) <= 1024


def stream(kind: str, folder: Path) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The bytes of a stream of blobs, and the stream: some fifty megabytes in batches of a thousand rows."""
    content = bytes(4 << 20)
    (folder / "c").write_bytes(content)
    fsspec.filesystem("memory").pipe_file("/budget/c", content)
    offsets = np.random.default_rng(0).integers(0, 4_170_000, 2500)
    paths = {"local": str(folder / "c"), "overlapping": str(folder / "c"), "remote": "memory://budget/c"}

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 2500, 25 if kind == "inline" else 1000):
            if kind == "inline":
                yield batch(*(inline(bytes(20_000)) for _ in range(25)), first=start)
            elif kind == "whole files":
                yield batch(*((paths["local"], None, None) for _ in range(25)), first=start)
            else:
                step = [
                    20_000 * (i % 200) if kind == "local" else int(offsets[i])
                    for i in range(start, min(start + 1000, 2500))
                ]
                yield batch(*((paths[kind], offset, 20_000) for offset in step), first=start)

    return (75 * (4 << 20) if kind == "whole files" else 50_000_000), batches()


@pytest.mark.parametrize("kind", ["local", "overlapping", "remote", "inline", "whole files"])
@pytest.mark.parametrize("budget", [2 << 20, 8 << 20])
def test_memory_stays_within_twice_the_budget(kind: str, budget: int, tmp_path: Path) -> None:
    # A consumer holds its batch while the next one is made: two batches, and what is under way between them.
    before = pa.default_memory_pool()
    total, batches = stream(kind, tmp_path)
    pool = pa.proxy_memory_pool(before)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    gc.collect()
    tracemalloc.start()
    try:
        seen = most = 0
        for found in read_batches(batches, SAME, BlobFetcher(), budget):
            size = found["img"].nbytes
            seen += sum(len(value.as_py()) for value in found["img"])
            most = max(most, size)
        _, python = tracemalloc.get_traced_memory()
        arrow = pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
        fsspec.filesystem("memory").rm("/budget", recursive=True)
    assert seen == total
    largest = max(budget, 4 << 20 if kind == "whole files" else 0)
    assert most <= largest + 10_000
    assert python + arrow <= 2 * largest + (4 << 20) + budget // 4, (python, arrow)
