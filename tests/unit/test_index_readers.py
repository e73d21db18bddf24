"""Leases of readers: what an opened table reads of an index stays, until it is closed or its lease has run out."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.rights import without_root
from support.written_table import WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector.errors import InvalidOptionError, UnsupportedTableError
from hudi_vector.index.build import Parameters, _completed, create_index, indexable_files
from hudi_vector.index.catalog import Index, drop_index
from hudi_vector.index.files import save_model
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.locations import beside_table
from hudi_vector.index.manifest import IndexManifest, manifest_named
from hudi_vector.index.readers import ReaderLease, needed_by, publish_lease, readers_of
from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.indexed.reader_leases import ReaderLeases
from hudi_vector.query.opened.external import external_indexes, external_scan
from hudi_vector.read.cache import process_cache
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.side_files import seal
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.vector_index import compacting as index_compact

DIMENSION, ROWS = 6, 120
QUERY = np.random.default_rng(5).standard_normal(DIMENSION) * 2
LEASE = "hoodie.vector.index.reader.lease.ms"
HOUR, MINUTE = 3_600_000, 60_000
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


def opened(files: list[str], directory: str, **options: str) -> Any:
    # Vectors in memory would answer in place of the index.
    conf = {"hoodie.vector.cache.max.bytes": "0", **{key.replace("_", "."): value for key, value in options.items()}}
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


def leases(directory: str) -> list[Path]:
    return list(Path(directory).rglob("readers/*/0*"))


def until(true: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def assert_exact(t: Any, caplog: pytest.LogCaptureFixture, generation: int | None) -> None:
    """The exact answer, by the index at a generation, or by a scan with its warning."""
    process_cache().clear()
    caplog.clear()
    with caplog.at_level(logging.INFO, "hudi_vector.search"):
        found = t.search(QUERY, 9, metric="l2", columns=["id"])
    assert found.report.slices == {"index": 4}
    assert found.table.equals(t.search(QUERY, 9, metric="l2", columns=["id"], mode="exact").table)
    probes = [line for line in caplog.messages if line.startswith("probe of")]
    if generation is None:
        assert not probes
        assert GONE in caplog.text
    else:
        assert GONE not in caplog.text
        assert probes[0].startswith(f"probe of l2-ivf_sq8, generation {generation}:")


def test_what_a_reader_reads_stays_until_it_is_closed(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(files, directory) as t:
        assert_exact(t, caplog, 1)
        until(lambda: leases(directory))
        (lease,) = leases(directory)
        (manifest,) = Path(directory).rglob("manifests/*/*")
        body = json.loads(lease.read_text().partition("\n")[2])
        assert lease.parent.name == manifest.parent.name
        assert body["manifest"] == manifest.name
        assert f"process {os.getpid()} of " in body["holder"]
        assert abs(body["until_ms"] - clock_ms() - HOUR) < MINUTE
        assert retrained(files, directory).manifest.generation == 2
        with caplog.at_level(logging.INFO, "hudi_vector.index"):
            assert compacted(files, directory) == []
        assert "6 files of 'file://" in caplog.text  # a manifest, a model and four segments
        assert f"since they are read: by process {os.getpid()} of " in caplog.text
        assert_exact(t, caplog, 1)
    assert leases(directory) == []
    assert compacted(files, directory) == ["manifests", "models", *["segments"] * 4]
    with opened(files, directory) as t:
        assert_exact(t, caplog, 2)


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


def test_a_reader_that_goes_on_gives_the_generation_before_back(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(files, directory) as t:
        assert_exact(t, caplog, 1)
        until(lambda: leases(directory))
        first = leases(directory)
        retrained(files, directory)
        t.refresh()
        assert_exact(t, caplog, 2)
        until(lambda: leases(directory) and not set(leases(directory)) & set(first))
        assert len(compacted(files, directory)) == 6
        assert_exact(t, caplog, 2)
        kept = leases(directory)
        t.refresh()
        assert_exact(t, caplog, 2)
        assert leases(directory) == kept, "the same generation needs no other lease"


def test_a_table_that_is_searched_anew_by_itself_holds_what_it_searches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, rows = WrittenTable(tmp_path / "t"), rows_of(300, "a", 1)
    table.commit({("a", "f1"): rows[:100], ("a", "f2"): rows[100:]})

    def indexed(partitions: int) -> Index:
        snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
        spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))
        return create_index(snapshot, spec, Parameters(metric="l2", num_partitions=partitions))

    index = indexed(8)
    storage, now = open_storage(index.folder, StorageOptions()), clock_ms()

    def held() -> list[str]:
        return sorted({lease.manifest for lease in readers_of(storage, index.folder, 0, now).leases})

    conf = {"hoodie.vector.cache.max.bytes": "0"}
    with hv.open(str(table.path), column="emb", refresh_every=0, options=conf) as t:
        query = QUERY[:4]
        assert t.search(query, 9, metric="l2").report.slices == {"index": 2}
        until(lambda: held() == [index.manifest.name])
        before = str(table.clock - 1000)
        table.commit({("a", "f2"): rows[100:150]})
        again = indexed(5)
        assert again.manifest.generation == 2
        assert t.search(query, 9, metric="l2").report.slices == {"index": 2}
        until(lambda: held() == [again.manifest.name])
        # The past is searched with the newest generation, which knows the files of then as well.
        past = t.search(query, 9, metric="l2", columns=["id"], as_of=before)
        assert past.table.equals(t.search(query, 9, metric="l2", columns=["id"], as_of=before, mode="exact").table)
        assert held() == [again.manifest.name]
        needed, unclear = needed_by(storage, index.folder, readers_of(storage, index.folder, 0, now).leases)
        assert unclear == []
        assert needed == {
            again.manifest.name, f"{again.manifest.model_id}.arrow", *(e.segment for e in again.manifest.entries)
        }  # fmt: skip
        drop_index(again, StorageOptions())
        assert held() == []
    assert beside_table(f"file://{table.path}", "emb").places(StorageOptions())[0].folder == index.folder


def test_two_readers_hold_each_for_itself(files: list[str], directory: str, caplog: pytest.LogCaptureFixture) -> None:
    one, other = opened(files, directory), opened(files, directory)
    for t in (one, other):
        assert_exact(t, caplog, 1)
    until(lambda: len(leases(directory)) == 2)
    retrained(files, directory)
    one.close()
    one.close()
    assert len(leases(directory)) == 1
    assert compacted(files, directory) == []
    assert_exact(other, caplog, 1)
    other.close()
    assert len(compacted(files, directory)) == 6


def test_a_table_that_nobody_holds_any_more_holds_nothing(files: list[str], directory: str) -> None:
    t = opened(files, directory)
    t.search(QUERY, metric="l2")
    until(lambda: leases(directory))
    del t
    gc.collect()
    until(lambda: not leases(directory))


def test_a_lease_is_renewed_by_another_name(files: list[str], directory: str) -> None:
    with opened(files, directory, hoodie_vector_index_reader_lease_ms="1") as t:  # a second is the shortest
        t.search(QUERY, metric="l2")
        until(lambda: leases(directory))
        first = leases(directory)
        until(lambda: leases(directory) and not set(leases(directory)) & set(first))
        for _ in range(50):
            assert 1 <= len(leases(directory)) <= 3
            time.sleep(0.005)
    assert leases(directory) == []


_READER = """
import sys, time
import hudi_vector as hv
directory, way, *files = sys.argv[1:]
t = hv.open(files=files, column="emb", index_directory=directory)
t.search([0.5] * 6, metric="l2")
while way == "stay" or not list(__import__("pathlib").Path(directory).rglob("readers/*/0*")):
    time.sleep(0.01)
"""


def test_a_reader_that_was_killed_holds_until_its_lease_runs_out(
    files: list[str], directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = subprocess.Popen([sys.executable, "-c", _READER, directory, "stay", *files])
    try:
        until(lambda: leases(directory), 60)
    finally:
        reader.send_signal(signal.SIGKILL)
        reader.wait()
    assert len(leases(directory)) == 1
    retrained(files, directory)
    assert compacted(files, directory) == []
    for later, expected in ((HOUR + MINUTE, 0), (HOUR + 6 * MINUTE, 7)):
        monkeypatch.setattr(index_compact, "clock_ms", lambda later=later: clock_ms() + later)
        gone = compacted(files, directory)
        assert len(gone) == expected, gone
    assert gone[-5:] == ["readers", *["segments"] * 4]


def test_a_process_that_ends_gives_back_what_it_did_not_close(files: list[str], directory: str) -> None:
    subprocess.run([sys.executable, "-c", _READER, directory, "go", *files], check=True, timeout=60)
    assert leases(directory) == []
    assert list(Path(directory).rglob("readers"))


def test_a_lease_that_ran_out_keeps_nothing(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(files, directory) as t:
        assert_exact(t, caplog, 1)
        until(lambda: leases(directory))
        retrained(files, directory)
        monkeypatch.setattr(index_compact, "clock_ms", lambda: clock_ms() + 2 * HOUR)
        assert len(compacted(files, directory)) == 7
        assert_exact(t, caplog, None)
        t.refresh()
        assert_exact(t, caplog, 2)


def test_no_lease_is_taken_where_none_is_wanted_or_needed(
    files: list[str], directory: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(threading.enumerate())  # other tests may have left tables open

    def threads() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "hudi-vector-lease" and each not in before]

    with opened(files, str(tmp_path / "none")) as t:
        assert t.search(QUERY, metric="l2").report.slices == {"parquet": 4}
        assert not threads()
    with opened(files, directory, hoodie_vector_index_reader_lease_ms="0") as t:
        assert_exact(t, caplog, 1)
        assert not threads()
        retrained(files, directory)
        assert len(compacted(files, directory)) == 6
        assert_exact(t, caplog, None)
    with pytest.raises(InvalidOptionError, match=rf"{LEASE} = 'long' is not allowed"):
        opened(files, directory, hoodie_vector_index_reader_lease_ms="long")


class Renewed:
    """How often leases were renewed, or could not be."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ended = 0
        real = ReaderLeases._renew

        def counted(leases: ReaderLeases) -> None:
            real(leases)
            self.ended += 1

        patch.setattr(ReaderLeases, "_renew", counted)


def test_a_folder_that_cannot_be_written_costs_a_line_of_the_log(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = {path.parent.parent.parent for path in Path(directory).rglob("manifests/*/*")}
    (folder / "readers").write_text("")  # root may write to any folder, and not below a file
    caplog.set_level(logging.INFO, "hudi_vector.index")
    tried = Renewed(monkeypatch)
    with opened(files, directory, hoodie_vector_index_reader_lease_ms="1") as t:
        found = t.search(QUERY, 9, metric="l2", columns=["id"])
        assert found.report.slices == {"index": 4}
        until(lambda: tried.ended >= 3)
        assert found.table.equals(t.search(QUERY, 9, metric="l2", columns=["id"]).table)
    told = [record for record in caplog.records if "without a lease" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.INFO]
    (folder / "readers").unlink()
    with opened(files, directory) as t:
        t.search(QUERY, metric="l2")
        until(lambda: leases(directory))


def test_a_reader_without_the_right_to_write(
    files: list[str], directory: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = {path.parent.parent.parent for path in Path(directory).rglob("manifests/*/*")}
    folder.chmod(0o555)
    tried = Renewed(monkeypatch)
    with without_root(tmp_path), opened(files, directory) as t:
        assert_exact(t, caplog, 1)
        until(lambda: tried.ended)
    assert leases(directory) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is damaged"),
        (seal("index-reader", 1, {"manifest": "m", "holder": "h", "until_ms": 0})[:-1], "it is damaged"),
        (seal("index-reader", 2, {"whom": "later"}), "has version 2 and this hudi-vector knows version 1"),
        (
            seal("index-reader", 1, {"manifest": f"00000007-{'0' * 32}", "holder": "h", "until_ms": 10**14}),
            f"h reads '00000007-{'0' * 32}', which is gone or damaged",
        ),
    ],
)
def test_a_lease_in_doubt_keeps_everything(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture, content: bytes, told: str
) -> None:
    (key,) = Path(directory).rglob("manifests/*")
    place = key.parent.parent / "readers" / key.name
    place.mkdir(parents=True)
    lease = place / f"00000001-{'a' * 32}"
    lease.write_bytes(content)
    (place / ".half.tmp").write_bytes(b"")
    retrained(files, directory)
    assert compacted(files, directory) == []
    assert told in caplog.text
    assert "6 files of 'file://" in caplog.text
    old = time.time() - 2 * 3600
    for path in place.iterdir():
        os.utime(path, (old, old))
    assert compacted(files, directory, "3h") == []
    gone = compacted(files, directory)
    if content.endswith(b"}") and b" 1 " in content:  # whole, and it says until when
        assert gone == ["readers"]  # the half written one
    else:
        assert gone == ["manifests", "models", "readers", "readers", *["segments"] * 4]


def test_of_lists_that_share_a_folder_each_reader_holds_its_own(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    hv.index.build_if_missing(None, files=files[:3], column="emb", metric="l2", directory=directory)
    with opened(files, directory) as t, opened(files[:3], directory) as fewer:
        assert_exact(t, caplog, 1)
        fewer.search(QUERY, metric="l2")
        until(lambda: len(leases(directory)) == 2)
        assert len({path.parent.name for path in leases(directory)}) == 2
        retrained(files[:3], directory)
        assert compacted(files[:3], directory) == []
        fewer.close()
        assert compacted(files[:3], directory) == ["manifests"]  # the other list needs model and segments
        hv.index.drop(None, files=files, column="emb", directory=directory)
        assert leases(directory) == []
        assert compacted(files[:3], directory) == ["models", *["segments"] * 4]
        assert_exact(t, caplog, None)
        t.refresh()
        assert t.search(QUERY, 9, metric="l2").report.slices == {"parquet": 4}


def test_a_reader_does_not_bring_a_dropped_index_back(
    files: list[str], directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = Renewed(monkeypatch)
    with opened(files, directory, hoodie_vector_index_reader_lease_ms="1") as t:
        t.search(QUERY, metric="l2")
        until(lambda: leases(directory))
        hv.index.drop(None, files=files, column="emb", directory=directory)
        before = renewed.ended
        until(lambda: renewed.ended >= before + 3)  # the first of them may have begun before
        assert [path for path in Path(directory).rglob("*") if path.is_file()] == []


@pytest.fixture(params=["file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}" if request.param == "file" else f"memory:///{tmp_path.name}"


def test_how_long_leases_hold_and_stay(folder: str) -> None:
    storage, now = open_storage(folder, StorageOptions()), clock_ms()
    manifest = f"00000003-{'b' * 32}"
    for key, end in (("", HOUR), ("k", -4 * MINUTE), ("", -6 * MINUTE), ("", -61 * MINUTE)):
        uri = publish_lease(storage, folder, manifest, key, now + end)
        assert uri.rpartition("/")[0] == "/".join([folder, "readers", *([key] if key else [])])
    for grace, left in ((0, 2), (10 * MINUTE, 1), (24 * HOUR, 1)):
        found = readers_of(storage, folder, grace, now)
        assert sorted((lease.key, lease.until_ms - now) for lease in found.leases) == [("", HOUR), ("k", -4 * MINUTE)]
        assert {(type(lease), lease.manifest) for lease in found.leases} == {(ReaderLease, manifest)}
        assert len(found.over) == left
        assert found.unclear == ()
    assert manifest_named(storage, folder, manifest) is None
    assert needed_by(storage, folder, found.leases)[0] == set()
    storage.publish(f"{folder}/manifests/{manifest}", seal("index-manifest", 1, {"manifest_version": 2}))
    with pytest.raises(UnsupportedTableError, match="manifest_version 2"):
        manifest_named(storage, folder, manifest)
    assert "manifest_version 2" in needed_by(storage, folder, found.leases)[1][0]
    for info in storage.list_files(folder, recursive=True):
        storage.delete(info.uri)
