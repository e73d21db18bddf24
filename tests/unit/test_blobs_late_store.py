"""Blobs on an object store that answers late: what reads and table services ask for, and in how many waves.

Requests and waves are counted, never seconds. Each request takes a quarter of a second, so that requests that are sent
together are seen together on a busy machine.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.blob_states import DAY, BlobTable, blob, write_id
from support.lake import upload
from support.loaded import module
from support.samples import photos

from hudi_vector.blobs.copies.copying import RANGES, Copier
from hudi_vector.blobs.counts.here import inventory_here, verify_here
from hudi_vector.blobs.names import STAGING, new_write_id
from hudi_vector.blobs.reading.by_key import find_blobs
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.samples.plan import make_plan
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.blobs.uploads.manifest import COMMITTED, abort, open_upload, read_upload
from hudi_vector.blobs.uploads.running import RunningUpload
from hudi_vector.errors import BlobReadError, BlobWriteError, RefusedError, TableNotFoundError
from hudi_vector.options import IO_PARALLELISM, Settings
from hudi_vector.read.cache import process_cache
from hudi_vector.storage import StorageOptions, open_storage, parallel
from hudi_vector.storage.objects import Objects
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.cleaning.api import clean_blobs
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.writing.blobs.staged_files import RowsFile

slow = module("benchmarks/slow_store.py", "late_blobs_slow_store")

DELAY = 0.25
CONTAINERS, EACH, SIZE = 60, 33, 20_000
OLD = time.time_ns() // 1_000_000 - 60 * DAY
CONTENT = [np.random.default_rng(number).bytes(EACH * SIZE) for number in range(CONTAINERS)]


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        for number, content in enumerate(CONTENT):
            running.client.put_object(Bucket="lake", Key=f"containers/{number}", Body=content)
        running.warm()
        yield running


Place = tuple[int, int]
"""A container, and which of its blobs."""


def fetched(store: Any, places: list[tuple[str, int | None, int | None]], **settings: Any) -> list[bytes | None]:
    columns = BlobColumns.of(blob_rows(places))
    found: list[bytes | None] = BlobFetcher(StorageOptions.of(store.settings), **settings).fetch(columns).to_pylist()
    return found


def watched(store: Any, places: list[Place]) -> Any:
    """Read blobs, check their bytes, and return what was asked for."""
    wanted = [(f"s3a://lake/containers/{number}", at * SIZE, SIZE) for number, at in places]
    store.set_delay(2 * DELAY)  # up to a hundred requests are sent
    with store.watched() as seen:
        found = fetched(store, wanted)
    store.set_delay(0)
    assert found == [CONTENT[number][at * SIZE : (at + 1) * SIZE] for number, at in places]
    return seen


def test_blobs_side_by_side_are_one_request_a_container(store: Any) -> None:
    """200 blobs in 60 containers, 3 or 4 in each."""
    places = [(number % CONTAINERS, 10 + number // CONTAINERS) for number in range(200)]
    seen = watched(store, random.Random(1).sample(places, len(places)))
    assert (len(seen.requests), seen.heads, seen.bytes) == (60, 0, 200 * SIZE), slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)


def test_no_more_requests_at_once_than_the_settings_say(store: Any) -> None:
    options = StorageOptions.of({**store.settings, IO_PARALLELISM.key: "3"})
    blobs = BlobColumns.of(blob_rows([(f"s3a://lake/containers/{number}", 0, SIZE) for number in range(12)]))
    store.set_delay(DELAY)
    try:
        with store.watched() as seen:
            found = BlobFetcher(options).fetch(blobs).to_pylist()
    finally:
        parallel.set_parallelism(IO_PARALLELISM.default)
        store.set_delay(0)
    assert found == [CONTENT[number][:SIZE] for number in range(12)]
    assert (len(seen.requests), seen.most_at_once) == (12, 3), slow.summary(seen)


def test_whole_containers_are_one_request_each(store: Any) -> None:
    seen = watched(store, [(number, at) for number in range(CONTAINERS) for at in range(EACH)])
    assert (len(seen.requests), seen.heads, seen.bytes) == (60, 0, CONTAINERS * EACH * SIZE), slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)


def test_scattered_blobs_are_at_most_twice_their_bytes(store: Any) -> None:
    places = random.Random(2).sample([(number, at) for number in range(CONTAINERS) for at in range(EACH)], 200)
    seen = watched(store, places)
    assert (seen.gets, seen.heads) == (len(seen.requests), 0)
    assert seen.bytes <= 2 * 200 * SIZE
    assert len(seen.requests) <= 140, slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)


def test_few_megabytes_of_many_containers_are_no_more_requests_than_threads(store: Any) -> None:
    """Sixty of a blob or two, and one of twenty megabytes, which one request after another would bring in parts."""
    large = np.random.default_rng(7).bytes(20 << 20)
    store.client.put_object(Bucket="lake", Key="large", Body=large)
    store.warm()
    wanted = [(f"s3a://lake/containers/{number}", 0, SIZE) for number in range(CONTAINERS)]
    wanted += [("s3a://lake/large", at, 1 << 20) for at in range(0, len(large), 1 << 20)]
    store.set_delay(2 * DELAY)
    with store.watched() as seen:
        found = fetched(store, wanted)
    store.set_delay(0)
    assert b"".join(found[CONTAINERS:]) == large
    assert len(seen.requests) <= 64, slow.summary(seen)
    assert seen.waves <= 2, slow.summary(seen)


def copied(store: Any, table: str, ranges: list[tuple[str, int, int]], **more: Any) -> tuple[Any, list[Any], Any]:
    """Copy ranges of containers to a new one, and return what was asked for, what was written, and the places."""
    options, written = StorageOptions.of(store.settings), []
    rows = [
        {"column": "img", "partition": "", "chunk": 0, "file": file, "begin": begin, "count": count}
        for file, begin, count in ranges
    ]
    copier = Copier(table, new_write_id(0), (("img", BlobSettings(inline_threshold=0)),), options, **more)
    store.set_delay(2 * DELAY)
    with store.watched() as seen:
        batches = list(copier.copy([pa.RecordBatch.from_pylist(rows, RANGES)], TaskAttempt(0, 7), written))
    store.set_delay(0)
    return seen, written, pa.Table.from_batches(batches)


def test_a_copy_of_sixty_containers(store: Any) -> None:
    """Every second blob is copied: the sources, the new object in parts, and its check by one stream."""
    table = "s3://lake/copied"
    ranges = [
        (f"s3://lake/containers/{number}", at * SIZE, SIZE) for number in range(CONTAINERS) for at in range(0, EACH, 2)
    ]
    seen, (made,), moves = copied(store, table, ranges)
    content = store.client.get_object(Bucket="lake", Key=f"copied/{made.path}")["Body"].read()
    assert content == b"".join(
        CONTENT[number][at * SIZE : (at + 1) * SIZE] for number in range(CONTAINERS) for at in range(0, EACH, 2)
    )
    assert moves["new_begin"].to_pylist() == list(range(0, len(content), SIZE))
    checks = [each for each in seen.requests if each.method == "GET" and each.key.endswith(made.path)]
    assert [each.range for each in checks] == [(0, len(content) - 1)], "read back once, as a stream"
    assert (seen.heads, seen.lists) == (0, 0), slow.summary(seen)
    assert seen.waves <= 5, slow.summary(seen)  # read, begin, parts, end, check


def test_a_copy_finds_out_what_the_store_changed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Objects.stream

    def flipped(objects: Objects, path: str, begin: int, end: int) -> Iterator[pa.Buffer]:
        for piece in real(objects, path, begin, end):
            changed = bytearray(piece)
            changed[len(changed) // 2] ^= 1
            yield pa.py_buffer(bytes(changed))

    monkeypatch.setattr(Objects, "stream", flipped)
    with pytest.raises(BlobWriteError, match="does not hold the bytes that were copied to it"):
        copied(store, "s3://lake/flipped", [("s3://lake/containers/1", 0, SIZE)])
    store.set_delay(0)


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
def test_a_copy_in_each_format_with_blobs_of_their_own(store: Any, form: str) -> None:
    """Blobs that are too large for a container lie between others, and an empty one; each file is checked."""
    table, options = f"s3://lake/copied-{form}", StorageOptions.of(store.settings)
    settings = BlobSettings(inline_threshold=0, format=form, max_element_size=2 * SIZE)
    ranges = [("s3://lake/containers/1", at * SIZE, size) for at, size in ((0, 9), (1, 3 * SIZE), (5, 0), (6, SIZE))]
    rows = [
        {"column": "img", "partition": "", "chunk": 0, "file": file, "begin": begin, "count": count}
        for file, begin, count in ranges
    ]
    batches = [pa.RecordBatch.from_pylist(rows, RANGES)]
    moves = pa.Table.from_batches(
        list(Copier(table, new_write_id(0), (("img", settings),), options).copy(batches, TaskAttempt(0, 7), []))
    )
    places = zip(moves["new_path"].to_pylist(), moves["new_begin"].to_pylist(), moves["count"].to_pylist(), strict=True)
    found = fetched(store, [(f"{table}/{path}", begin, count) for path, begin, count in places])
    assert found == [CONTENT[1][begin : begin + count] for _, begin, count in ranges]


def test_what_is_gone_or_too_short_is_said_as_of_any_file(store: Any) -> None:
    there, short, gone, folder = (f"s3a://lake/containers{each}" for each in ("/0", "/1", "/none", ""))
    size = EACH * SIZE
    wanted = [
        (there, 5, 9),
        (short, 5, size),
        (short, 7, 3),
        (short, size + 1, 2),
        (gone, 0, 4),
        (there, size - 3, None),
    ]
    expected = [CONTENT[0][5:14], None, CONTENT[1][7:10], None, None, CONTENT[0][-3:]]
    assert fetched(store, wanted, on_error="null") == expected
    reasons = {
        (short, 5, size): f"the file is too short, it has {size} bytes",
        (short, size + 1, 2): f"the file is too short, it has {size} bytes",
        (gone, 0, 4): "the file is gone, or was never there",
        (folder, 0, 4): "it is a directory",
    }
    for place, reason in reasons.items():
        with pytest.raises(BlobReadError, match=f"cannot be read: {reason}$"):
            fetched(store, [(there, 5, 9), place])


def test_an_empty_container_has_no_bytes(store: Any) -> None:
    store.client.put_object(Bucket="lake", Key="empty", Body=b"")
    assert fetched(store, [("s3a://lake/empty", 0, 3), ("s3a://lake/empty", None, None)], on_error="null") == [
        None,
        b"",
    ]


def test_blobs_by_key(store: Any, tmp_path: Path) -> None:
    """Ten rows of two base files, whose blobs lie in ten containers."""
    table = BlobTable(tmp_path, OLD, properties={"hoodie.table.recordkey.fields": "id"})
    rows = {key: blob(f"s3a://lake/containers/{key % 10}", key * SIZE, SIZE) for key in range(20)}
    instant = table.instant()
    for number in range(2):
        file = table.base(f"f{number}", instant, {key: rows[key] for key in range(10 * number, 10 * number + 10)})
        pq.write_table(pq.read_table(file), file, write_page_index=True)  # as Hudi does
    table.complete(instant)
    upload(store, tmp_path, "keys")
    store.warm("keys/")
    options = StorageOptions.of(store.settings)
    process_cache().clear()
    store.set_delay(DELAY)
    with store.watched() as seen:
        taken = NativeTable(Source("s3://lake/keys", "keys", options)).snapshot()
        found = find_blobs(taken, ("img",), {(str(key),) for key in range(5, 15)}, 64 << 20)
        values = BlobFetcher(options, "s3://lake/keys").fetch(BlobColumns.of(found.blobs)).to_pylist()
    store.set_delay(0)
    assert {int(key): value for (key,), value in zip(found.keys, values, strict=True)} == {
        key: CONTENT[key % 10][key * SIZE : (key + 1) * SIZE] for key in range(5, 15)
    }
    assert seen.heads == 0, slow.summary(seen)
    assert (len(seen.requests), seen.gets) == (17, 14), "properties, commit, 2 base files, 10 containers; 3 listings"
    assert seen.waves <= 6, slow.summary(seen)


def test_a_task_of_a_write_sends_each_file_by_one_request(store: Any) -> None:
    """Two containers, since one blob is large enough to have one of its own, and the staged rows."""
    table, options = "s3a://lake/written", StorageOptions.of(store.settings)
    settings = BlobSettings(inline_threshold=50, max_element_size=100_000)
    plan = BlobWritePlan(table, new_write_id(0), (BlobColumn("img", settings),), options=options)
    blobs = [CONTENT[0][:SIZE]] * 20 + [CONTENT[1][: 5 * SIZE + 1], b"inline", None]
    folder = f"{table}/{STAGING}/{plan.write_id}"
    with store.watched(table) as seen, BlobWriter(plan, TaskAttempt(3, 4)) as writer:
        rows = RowsFile(folder, TaskAttempt(3, 4), options, "3.5.0")
        for _ in range(2):
            rows.write(writer.convert(pa.record_batch({"img": blobs[:21]})))
        rows.write(writer.convert(pa.record_batch({"img": blobs[21:]})))
        made, files = writer.close(), rows.close()
    assert seen.count("PUT") == len(made) + len(files) == 4
    assert (len(seen.requests), seen.heads) == (4, 0), "names with random bits are not looked up"
    assert {each.key.rpartition("/")[2] for each in seen.requests if STAGING in each.key} == {files[0].name}
    storage = open_storage(folder, options)
    read = pq.read_table(pa.BufferReader(storage.read(f"s3://lake/written/{STAGING}/{plan.write_id}/{files[0].name}")))
    assert (read.num_rows, files[0].bytes) == (
        44,
        storage.list_files(f"s3://lake/written/{STAGING}/{plan.write_id}")[0].size,
    )


def test_no_table_is_one_sentence(store: Any) -> None:
    with pytest.raises(TableNotFoundError, match="there is no Hudi table at 's3://lake/none'"):
        clean_blobs(Settings(store.settings), "s3a://lake/none", dry_run=True)


def test_what_a_process_has_published_itself_it_does_not_read(store: Any) -> None:
    table, options = "s3://lake/leased", StorageOptions.of(store.settings)
    with store.watched(table) as seen:
        upload = RunningUpload(open_upload(table, {"img": BlobSettings()}, lease_ms=60_000, options=options), options)
        upload.stage([])
        upload.require_held()
        upload.renew()
        upload.finish("1")
        with ServiceLease(table, "compact", options=options) as lease:
            lease.renew()
    assert (seen.gets, seen.heads) == (0, 0), slow.summary(seen)
    assert (seen.count("PUT"), seen.lists, seen.count("DELETE")) == (6, 7, 2), slow.summary(seen)
    with ServiceLease(table, "compact", options=options), pytest.raises(RefusedError, match="another compact"):
        ServiceLease(table, "compact", options=options).__enter__()


def test_a_lease_is_given_back_in_one_wave(store: Any) -> None:
    """Its states are removed together, with what its run leaves to the end, and nothing is looked for."""
    table, options = "s3://lake/given-back", StorageOptions.of(store.settings)
    storage = open_storage(table, options)
    storage.publish(f"{table}/staged", b"x", unique=True)
    with ServiceLease(table, "compact", options=options) as lease:
        lease.renew()
        lease.at_release(lambda: storage.remove_all([f"{table}/staged"]))
        store.set_delay(DELAY)
        watched = store.watched(table)
        seen = watched.__enter__()
    watched.__exit__(None, None, None)
    store.set_delay(0)
    assert (len(seen.requests), seen.count("DELETE"), seen.waves) == (3, 3, 1), slow.summary(seen)
    assert storage.list_files(table, recursive=True) == []


def test_a_lease_is_taken_in_three_waves_with_what_is_read_under_it(store: Any) -> None:
    table, options = "s3://lake/taken", StorageOptions.of(store.settings)
    storage = open_storage(table, options)
    storage.publish(f"{table}/there", b"x", unique=True)
    store.set_delay(DELAY)
    with store.watched(table) as seen:
        lease = ServiceLease(table, "compact", options=options, meanwhile=lambda: storage.read(f"{table}/there"))
        lease.__enter__()
        assert lease.seen() == b"x"
    store.set_delay(0)
    lease.__exit__(None, None, None)
    assert (seen.lists, seen.count("PUT"), seen.gets, seen.waves) == (2, 1, 1, 3), slow.summary(seen)


def test_the_end_of_an_upload_is_one_wave(store: Any) -> None:
    """Whether another process has ended it is seen while its last states are sent."""
    table, options = "s3://lake/uploaded", StorageOptions.of(store.settings)
    upload = RunningUpload(open_upload(table, {"img": BlobSettings()}, lease_ms=60_000, options=options), options)
    store.set_delay(DELAY)
    with store.watched(table) as staged:
        upload.stage([])
    with store.watched(table) as finished:
        upload.finish("1")
    store.set_delay(0)
    for seen in (staged, finished):
        assert (seen.lists, seen.count("PUT"), seen.gets, seen.waves) == (1, 1, 0, 1), slow.summary(seen)
    assert read_upload(table, upload.upload.write_id, options=options).state == COMMITTED


def test_an_upload_that_another_process_has_ended_does_not_go_on(store: Any) -> None:
    table, options = "s3://lake/ended", StorageOptions.of(store.settings)
    upload = RunningUpload(open_upload(table, {"img": BlobSettings()}, lease_ms=60_000, options=options), options)
    abort(table, upload.upload.write_id, options=options)
    for act in (lambda: upload.stage([]), upload.require_held, upload.renew, lambda: upload.finish("1")):
        with pytest.raises(BlobWriteError, match="is aborted and cannot"):
            act()


def test_a_folder_is_removed_in_two_waves(store: Any) -> None:
    storage = open_storage("s3://lake/folder", StorageOptions.of(store.settings))
    for number in range(20):
        storage.publish(f"s3://lake/folder/{number % 3}/{number}", b"x", unique=True)
    store.set_delay(DELAY)
    with store.watched("s3://lake/folder") as seen:
        assert storage.remove_folder("s3://lake/folder")
    store.set_delay(0)
    assert (seen.lists, seen.count("DELETE"), len(seen.requests)) == (1, 20, 21), slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)
    assert storage.list_files("s3://lake/folder", recursive=True) == []
    assert not storage.remove_folder("s3://lake/folder")


def marked_table(store: Any, path: Path, name: str, files: int, partitions: int = 1) -> str:
    """A table with so many base files that refer to ten containers, in the store."""
    table = BlobTable(path, OLD)
    containers = [table.container(write_id(OLD, number)) for number in range(10)]
    instant = table.instant()
    for number in range(files):
        partition = f"p{number % partitions:02d}" if partitions > 1 else ""
        table.base(f"f{number:04d}", instant, {row: blob(path) for row, path in enumerate(containers)}, partition)
    table.complete(instant)
    upload(store, path, name)
    store.warm(f"{name}/")
    return f"s3a://lake/{name}"


@pytest.mark.parametrize(("files", "partitions"), [(2, 1), (60, 30), (1000, 1)])
def test_a_mark(store: Any, tmp_path: Path, files: int, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_vector.table_services.references.kept._SETTLED_NS", -DAY * 1_000_000)
    table = marked_table(store, tmp_path, f"marked{files}", files, partitions)
    settings = Settings(store.settings)
    store.set_delay(DELAY if files < 100 else 4 * DELAY)  # sending a thousand requests takes a while
    with store.watched(table) as first:
        found = clean_blobs(settings, table, dry_run=True, grace="0s")
    with store.watched(table) as again:
        same = clean_blobs(settings, table, dry_run=True, grace="0s")
    store.set_delay(0)
    assert (found.opened_files, same.opened_files) == (files, 0)
    assert [each.path for each in found.kept] == [each.path for each in same.kept]
    assert (first.heads, again.heads) == (0, 0), "sizes are listed, and new names are not looked up"
    assert first.waves <= 15, slow.summary(first)
    assert again.waves <= 8, slow.summary(again)
    assert first.most_at_once >= min(files, 32)


@pytest.mark.parametrize(
    "fault",
    [
        {"what": 503, "every": 3, "at_most": 20},
        {"what": "reset", "every": 4, "operation": "GET", "at_most": 10},
        {"what": "truncated", "every": 4, "operation": "GET", "at_most": 10},
    ],
    ids=str,
)
def test_what_a_store_refuses_is_asked_again(store: Any, tmp_path: Path, fault: dict[str, Any]) -> None:
    table = marked_table(store, tmp_path, "refused", 4, 2)
    expected = clean_blobs(Settings(store.settings), table, dry_run=True)
    places = [(number, 3) for number in range(20)]
    with store.inject(slow.Faults(**fault)):
        found = clean_blobs(Settings(store.settings), table, dry_run=True)
        read = fetched(store, [(f"s3a://lake/containers/{number}", at * SIZE, SIZE) for number, at in places])
    assert (found.kept, found.doubts) == (expected.kept, ())
    assert read == [CONTENT[number][at * SIZE : (at + 1) * SIZE] for number, at in places]


def test_an_inventory_and_a_check_of_sixty_files(store: Any, tmp_path: Path) -> None:
    table = marked_table(store, tmp_path, "counted", 60, 30)
    settings = Settings(store.settings)
    store.set_delay(2 * DELAY)
    with store.watched(table) as counted:
        files = inventory_here(settings, table)
    with store.watched(table) as checked:
        wrong = verify_here(settings, table, None, deep=False)
    store.set_delay(0)
    used = files.filter(pc.field("blobs") > 0)
    assert (used.num_rows, used["blobs"].to_pylist(), wrong.num_rows) == (30 * 10, [2] * 300, 0)
    assert counted.waves <= 8, slow.summary(counted)
    assert checked.waves <= 7, slow.summary(checked)
    assert len(checked.requests) <= 60 + 10 + 8, slow.summary(checked)  # a base file, a container, and the table


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_samples_with_clients_of_their_own(store: Any, tmp_path: Path, method: str) -> None:
    """Their parent has read from the store before: its connections and threads are not those of its children."""
    made = photos(tmp_path)
    upload(store, made.table.path, f"photos-{method}")
    plan = make_plan(f"s3a://lake/photos-{method}", columns=["id"], storage_options=store.settings)
    index = plan.index()
    everything = list(range(len(index)))
    expected = index.read(everything)
    assert dict(zip(expected["id"], expected["img"], strict=True)) == made.rows
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(index.read, [everything] * 4, chunksize=1).get(120) == [expected] * 4
    assert index.read(everything) == expected
