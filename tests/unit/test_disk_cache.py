"""The cache on disk: what is kept, what leaves, damage, full disks, killed writers, and answers that do not depend on it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lake import forget, upload
from support.loaded import module
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.errors import InvalidOptionError
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.options import Settings
from hudi_vector.query.indexed import fitting
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import normalise
from hudi_vector.storage.disk_cache import DiskCache, disk_cache_at
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

slow = module("benchmarks/slow_store.py", "disk_cache_slow_store")

BUDGET = 1 << 20
ROWS, FILES, DIMENSION = 60, 6, 8
QUERY = [0.4, -1.0, 0.3, 2.0, 0.0, 1.0, -0.5, 0.25]
WRITER = """
import sys
from hudi_vector.storage.disk_cache import DiskCache
cache, number = DiskCache(sys.argv[1], int(sys.argv[2])), 0
print("begun", flush=True)
while True:
    number = number % 50 + 1
    for part in range(20):
        cache.put(f"source {part}", str(number), [bytes([part]) * 20_000])
"""


def kept(cache: DiskCache, source: str, part: str) -> list[bytes] | None:
    found = cache.get(source, part)
    return None if found is None else [piece.to_pybytes() for piece in found.pieces]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for other processes, however slow the machine is."""
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


@given(
    pieces=st.lists(st.binary(max_size=200), max_size=4),
    about=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    source=st.text(max_size=20),
    part=st.text(max_size=20),
)
def test_what_was_put_is_found(pieces: list[bytes], about: dict[str, Any], source: str, part: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        DiskCache(folder, BUDGET).put(source, part, pieces, about)
        cache = DiskCache(folder, BUDGET)
        for _ in range(2):
            found = cache.get(source, part)
            assert found is not None
            assert [piece.to_pybytes() for piece in found.pieces] == pieces
            assert found.about == about
        assert cache.get(source, part + " more") is None
        cache.forget(["another", source])
        assert cache.get(source, part) is None


@given(data=st.data())
def test_no_damage_is_taken_for_what_was_put(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        DiskCache(folder, BUDGET).put("a", "1", [b"some bytes" * 20, b"more"], {"rows": 2})
        [path] = files_of(Path(folder))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del content[at:]
        path.write_bytes(content)
        assert DiskCache(folder, BUDGET).get("a", "1") is None
        assert not path.exists(), "what is damaged goes"


def test_a_file_of_another_part_is_not_taken(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), BUDGET)
    cache.put("a", "1", [b"one"])
    [first] = files_of(tmp_path)
    cache.put("a", "2", [b"two"])
    [second] = [path for path in files_of(tmp_path) if path != first]
    os.replace(second, first)
    assert cache.get("a", "1") is None


def test_the_least_recently_used_leaves_first(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), BUDGET)
    for number in range(12):
        cache.put("a", str(number), [bytes(80_000)])
        os.utime(files_of(tmp_path)[0])
    for path, age in zip(files_of(tmp_path), range(12), strict=True):
        os.utime(path, (time.time() - 1000 + age, path.stat().st_mtime))
    used = [str(number) for number in (3, 7)]
    for part in used:
        assert cache.get("a", part) is not None
    before = set(files_of(tmp_path))
    for number in range(4):
        cache.put("b", str(number), [bytes(80_000)])
    assert all(cache.get("a", part) is not None for part in used)
    assert len(before - set(files_of(tmp_path))) >= 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= BUDGET


def test_what_is_too_large_drives_nothing_out(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), BUDGET)
    cache.put("a", "1", [b"one"])
    cache.put("a", "2", [bytes(BUDGET // 2)])
    assert kept(cache, "a", "1") == [b"one"]
    assert cache.get("a", "2") is None


def test_a_smaller_budget_holds_for_what_is_there(tmp_path: Path) -> None:
    for number in range(10):
        DiskCache(str(tmp_path), BUDGET).put("a", str(number), [bytes(90_000)])
    DiskCache(str(tmp_path), BUDGET // 4).put("b", "1", [bytes(1000)])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= BUDGET // 4


def test_a_mapped_entry_outlives_its_file(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), BUDGET)
    cache.put("a", "1", [b"one" * 5000])
    found = cache.get("a", "1")
    assert found is not None
    cache.forget(["a"])
    assert files_of(tmp_path) == []
    assert found.pieces[0].to_pybytes() == b"one" * 5000


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from hudi_vector.storage.disk_cache import DiskCache
cache = DiskCache(sys.argv[1], 1 << 24)
cache.put("a", "1", [b"one"])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
cache.put("a", "2", [bytes(100_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
cache.put("a", "3", [b"three"])
print([cache.get("a", part) is not None for part in "123"])
"""
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[True, False, False]", "nothing is written for a minute"
    assert len(list(tmp_path.iterdir())) == 1, "half a file does not stay"


def test_killed_writers_leave_whole_entries_and_hidden_files_that_go(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(64 << 20)]
    for number in range(6):
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for writer in writers:
            assert writer.stdout
            writer.stdout.readline()
        wait_until(lambda written=10 * (number + 1): len(files_of(tmp_path)) > written)
        time.sleep(random.Random(number).uniform(0, 0.1))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            writer.stdout.close()  # type: ignore[union-attr]
    cache, found = DiskCache(str(tmp_path), 64 << 20), 0
    for part in range(20):
        for number in range(1, 51):
            content = kept(cache, f"source {part}", str(number))
            found += content is not None
            assert content in (None, [bytes([part]) * 20_000])
    assert found == len(files_of(tmp_path)) > 60
    hidden = tmp_path / f".{'0' * 32}.tmp"
    hidden.write_bytes(b"half")
    for path in tmp_path.glob(".*"):
        os.utime(path, (time.time() - 700, time.time() - 700))
    DiskCache(str(tmp_path), 64 << 20).put("b", "1", [b"one"])
    assert not list(tmp_path.glob(".*"))


def test_many_processes_stay_within_the_budget(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(BUDGET)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    for writer in writers:
        assert writer.stdout
        writer.stdout.readline()
    wait_until(lambda: sum(each.st_size for each in map(_status, tmp_path.iterdir()) if each) > BUDGET // 2)
    most, cache = 0, DiskCache(str(tmp_path), BUDGET)
    for number in range(300):
        sizes = [status.st_size for path in tmp_path.iterdir() if (status := _status(path)) is not None]
        most = max(most, sum(sizes))
        part = number % 20
        assert kept(cache, f"source {part}", str(number // 20 + 1)) in (None, [bytes([part]) * 20_000])
    for writer in writers:
        writer.kill()
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]
    assert most <= BUDGET * 1.3


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def test_a_folder_that_is_not_of_this_user_alone_is_refused(tmp_path: Path) -> None:
    own = tmp_path / f"hudi-vector-{os.geteuid()}"
    own.mkdir(mode=0o755)
    with pytest.raises(InvalidOptionError, match="is not a folder of this user alone, so what lies there may be"):
        disk_cache_at(str(tmp_path), BUDGET)
    own.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidOptionError, match="is not a folder of this user alone"):
        disk_cache_at(str(tmp_path), BUDGET)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong, said in (
        (str(tmp_path / "file"), "', where no folder can be made: .*; give a local folder to which this process may"),
        ("s3a://lake/cache", "'; give the absolute path of a folder on a local disk"),
        ("cache", "'; give the absolute path of a folder on a local disk"),
    ):
        with pytest.raises(InvalidOptionError, match=f"^hoodie.vector.cache.dir is '{wrong}{said}"):
            hv.open(str(tmp_path), column="emb", options={"hoodie.vector.cache.dir": wrong})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of vectors, some of which are NULL or not finite."""
    folder, drawn = tmp_path_factory.mktemp("files"), np.random.default_rng(5)
    for number in range(FILES):
        rows: list[Any] = drawn.normal(size=(ROWS, DIMENSION)).astype("f4").tolist()
        rows[number], rows[number + 10], rows[number + 20][1] = None, [1e30] * DIMENSION, float("nan")
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS))
        held = pa.array(rows, pa.list_(pa.float32(), DIMENSION))
        pq.write_table(pa.table({"id": ids, "emb": held}), folder / f"{number}.parquet", row_group_size=ROWS // 2)
    return [str(folder / f"{number}.parquet") for number in range(FILES)]


def searched(files: list[str], directory: Path | None) -> tuple[list[Any], Any]:
    """The answers of a process that has just begun, with and without a filter, and the report of the first."""
    forget()
    options = {} if directory is None else {"hoodie.vector.cache.dir": str(directory)}
    with hv.open(files=files, column="emb", options=options) as table:
        first = table.search(QUERY, 20, columns=["id"]).to_pylist()
        report = hv.last_reports()[0]
        return [first, table.search(QUERY, 9, metric="l2", columns=["id"], filter="id < 100").to_pylist()], report


def test_answers_are_the_same_with_a_cold_a_warm_a_damaged_and_a_lost_cache(files: list[str], tmp_path: Path) -> None:
    expected, _ = searched(files, None)
    groups = 2 * FILES
    found, report = searched(files, tmp_path)
    assert (found, report.from_disk, report.from_storage["vectors"]) == (expected, {}, groups)
    found, report = searched(files, tmp_path)
    assert (found, report.from_disk, report.bytes_read) == (expected, {"vectors": groups}, 0)
    assert (report.nulls, report.invalid) == (FILES, FILES)
    assert "from disk: 12 vectors" in str(report)
    [own] = tmp_path.iterdir()
    for number, path in enumerate(files_of(own)):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content if number % 2 else content[:-9])
    found, report = searched(files, tmp_path)
    assert (found, report.from_disk, report.from_storage["vectors"]) == (expected, {}, groups)
    for path in files_of(own):
        path.unlink()
    own.rmdir()
    assert searched(files, tmp_path)[0] == expected
    found, report = searched(files, tmp_path)
    assert (found, report.from_disk) == (expected, {"vectors": groups}), "the folder is made again"
    own.rename(tmp_path / "elsewhere")
    own.mkdir()
    own.chmod(0o777)
    assert searched(files, tmp_path)[0] == expected
    assert not list(own.iterdir()), "nothing is written where others may read it"


def test_a_file_that_was_written_again_is_read_again(files: list[str], tmp_path: Path) -> None:
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(Path(files[0]).read_bytes())
    searched([str(copy)], tmp_path / "cache")
    table = pq.read_table(copy)
    swapped = table.set_column(0, "id", pa.array(reversed(table["id"].to_pylist()))).take(list(range(ROWS))[::-1])
    pq.write_table(swapped, copy, row_group_size=ROWS // 2)
    expected, _ = searched([str(copy)], None)
    found, report = searched([str(copy)], tmp_path / "cache")
    assert (found, report.from_disk) == (expected, {})


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        yield running


@pytest.fixture(scope="module")
def lake(store: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 40 files in the store, with an index in packs."""
    path = tmp_path_factory.mktemp("lake") / "t"
    made, table = np.random.default_rng(1), WrittenTable(path)
    vectors = made.normal(size=(40 * ROWS, 4)).round(3)
    rows = [Row(i, "g", float(i % 100), f"name {i}", vectors[i].tolist()) for i in range(len(vectors))]
    table.commit({("g", f"f{n:03d}"): rows[n * ROWS : (n + 1) * ROWS] for n in range(40)})
    snapshot = NativeTable(Source(normalise(str(path)), "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"))
    create_index(snapshot, spec, Parameters(metric="l2"))
    upload(store, path, "t")
    hv.index.compact(Settings(store.settings), "s3a://lake/t", "emb")
    store.warm()
    return "s3a://lake/t"


@pytest.mark.parametrize("asked", [{"mode": "exact"}, {"mode": "approximate", "nprobes": 4}])
def test_a_second_process_waits_for_the_snapshot_alone(
    store: Any, lake: str, tmp_path: Path, asked: dict[str, Any]
) -> None:
    def search(directory: Path | None) -> tuple[list[Any], Any]:
        forget()
        options = {} if directory is None else {"hoodie.vector.cache.dir": str(directory)}
        with (
            store.watched() as seen,
            hv.open(lake, column="emb", storage_options=store.settings, options=options) as table,
        ):
            hits = table.search(QUERY[:4], 7, metric="l2", columns=["id", "name"], **asked).to_pylist()
        return hits, seen

    store.set_delay(0.25)
    expected, without = search(None)
    cold, first = search(tmp_path)
    # What is sent together may leave a busy machine a quarter of a second apart, and then looks like one after the other.
    for delay in (0.25, 1.0):
        store.set_delay(delay)
        warm, second = search(tmp_path)
        assert cold == warm == expected
        if second.waves <= 3:
            break
    store.set_delay(0)
    assert len(first.requests) <= len(without.requests)
    assert (second.waves <= 3, len(second.requests) <= 10) == (True, True), slow.summary(second)
    assert not [each for each in second.requests if each.key.endswith((".parquet", ".pack"))]


def test_what_is_damaged_in_an_index_is_not_kept(
    store: Any, lake: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack that was damaged when it was read and is whole again, under its name and of its size, is used again."""
    asked = {"mode": "approximate", "nprobes": 4, "metric": "l2", "columns": ["id"]}
    options = {"hoodie.vector.cache.dir": str(tmp_path)}

    def search() -> None:
        forget()
        with hv.open(lake, column="emb", storage_options=store.settings, options=options) as table:
            table.search(QUERY[:4], 7, **asked)

    listed = store.client.list_objects_v2(Bucket="lake", Prefix="t/.hoodie/vector_index")["Contents"]
    [key] = [each["Key"] for each in listed if each["Key"].endswith(".pack")]
    whole = store.client.get_object(Bucket="lake", Key=key)["Body"].read()
    damaged = bytearray(whole)
    damaged[len(damaged) // 4 :: 100] = bytes(len(damaged[len(damaged) // 4 :: 100]))
    store.client.put_object(Bucket="lake", Key=key, Body=bytes(damaged))
    search()
    assert "a segment of an index cannot be read, its file is scanned" in caplog.text
    monkeypatch.setattr(fitting, "_DAMAGED", {})  # it is not tried again for a minute
    store.client.put_object(Bucket="lake", Key=key, Body=whole)
    caplog.clear()
    search()
    assert not caplog.records
