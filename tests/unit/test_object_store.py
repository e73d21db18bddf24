"""A table on an object store that answers late: what is asked for, in how many waves, and what faults do to answers.

Requests and waves are counted, never seconds. Each request takes a quarter of a second, so that requests that are sent
together are seen together on a busy machine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.caches import empty_cache
from support.lake import forget, upload
from support.loaded import module
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.errors import DataFileError, SearchTimeoutError, TableNotFoundError, number_of
from hudi_vector.index import verified
from hudi_vector.index.build import Parameters, _kept_of, create_index, indexable_files
from hudi_vector.index.files import pack_uri, path_from, save_model, segment_name
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.kinds.segment import FileFingerprint, build_segment
from hudi_vector.index.locations import in_table
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, PackPlace, publish_manifest
from hudi_vector.index.packs.layout import pack_content
from hudi_vector.options import IO_PARALLELISM, Settings
from hudi_vector.query.opened.rows import count_rows, plan_of_rows, read_rows
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.data_file import DataFile, held_in_memory, held_stream
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, Storage, StorageOptions, normalise, open_storage, parallel
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

slow = module("benchmarks/slow_store.py", "object_store_slow_store")

DELAY = 0.25
ROWS = 40
DATA = np.random.default_rng(3).bytes(1_500_000)
QUERY = [0.4, -1.0, 0.3, 2.0]
# name: files, partitions
TABLES = {"f8": (8, 1), "f200": (200, 1), "p50": (50, 50)}
MANY, FEW = 1000, 4


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        running.client.put_object(Bucket="lake", Key="data", Body=DATA)
        yield running


@pytest.fixture(scope="module")
def lake(store: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with an index, on a local disk and, copied file by file and then packed, in the store."""
    folder = tmp_path_factory.mktemp("lake")
    for name, (files, partitions) in TABLES.items():
        written(folder / name, files, partitions)
        upload(store, folder / name, name)
        hv.index.compact(Settings(store.settings), f"s3a://lake/{name}", "emb")
    store.warm()
    return folder


def written(path: Path, files: int, partitions: int) -> None:
    """A table of so many base files with an index of its vectors."""
    made, table = np.random.default_rng(files), WrittenTable(path)
    vectors = made.normal(size=(files * ROWS, 4)).round(3)
    rows = [Row(i, f"name {i}", float(i % 100), "g", vectors[i].tolist()) for i in range(len(vectors))]
    parts = {(f"g{n % partitions:02d}", f"f{n:03d}"): rows[n * ROWS : (n + 1) * ROWS] for n in range(files)}
    table.commit(parts)
    snapshot = NativeTable(Source(normalise(str(path)), "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"))
    create_index(snapshot, spec, Parameters(metric="l2"))


def written_in_one_pack(path: Path) -> None:
    """A table of 1,000 base files whose segments are in one pack, made without a file for each."""
    made, table = np.random.default_rng(MANY), WrittenTable(path)
    vectors = made.normal(size=(MANY * FEW, 4)).round(3)
    rows = [Row(i, f"name {i}", float(i % 100), "g", vectors[i].tolist()) for i in range(len(vectors))]
    table.commit({("g", f"f{n:04d}"): rows[n * FEW : (n + 1) * FEW] for n in range(MANY)})
    snapshot = NativeTable(Source(normalise(str(path)), "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"))
    folder = in_table(spec.table_uri, "emb").place("l2", "ivf_sq8", {}).folder
    model = train_model(vectors.astype("f4"), metric="l2", element="float")
    segments = []
    for file in indexable_files(snapshot):
        reader = ParquetSlice(file, spec, keep=False)
        print_ = FileFingerprint(path_from(spec.table_uri, file.uri), file.size, file.mtime_ns, "")
        pages, footer = _kept_of(file, spec, is_full=True)
        segment = build_segment(model, print_, reader.blocks(ScanCounts()), FEW)
        segments.append(replace(segment, pages=pages, footer=footer))
    content, head = pack_content(model, segments, [None] * MANY)
    place = PackPlace(f"{0:016x}-{model.model_id}.pack", len(content), head, 0)
    storage = open_storage(folder, StorageOptions())
    save_model(storage, folder, model)
    storage.publish(pack_uri(folder, place.name), content)
    entries = tuple(
        ManifestEntry(segment.file, FEW, segment_name(segment.file, model.model_id), 1, pack=replace(place, number=n))
        for n, segment in enumerate(segments)
    )
    publish_manifest(storage, folder, IndexManifest.of("emb", model, {}, entries))


@pytest.fixture(autouse=True)
def _cold() -> None:
    """Each test begins as a new process does."""
    forget()


def opened(store: Any, name: str) -> Any:
    return hv.open(f"s3a://lake/{name}", column="emb", storage_options=store.settings)


def answer(table: Any, **asked: Any) -> list[tuple[int, str, float]]:
    hits = table.search(QUERY, 7, metric="l2", columns=["id", "name"], **asked)
    return [tuple(row.values()) for row in hits.to_pylist()]


@pytest.mark.parametrize(
    ("name", "asked", "requests", "waves"),
    [
        ("f8", {"recall_target": 0.95}, 25, 4),
        ("f200", {"recall_target": 0.95}, 60, 4),
        ("p50", {"recall_target": 0.95}, 90, 4),
        ("f8", {"recall_target": 1.0}, 25, 6),
        ("f8", {"mode": "exact"}, 24, 7),
        ("f200", {"mode": "exact"}, 220, 10),
        ("f200", {"mode": "exact", "filter": "price < 90"}, 220, 10),
    ],
)
def test_a_first_search(store: Any, lake: Path, name: str, asked: dict[str, Any], requests: int, waves: int) -> None:
    with hv.open(str(lake / name), column="emb") as local:
        expected = answer(local, **asked)
    forget()
    store.set_delay(DELAY if requests < 100 else 2 * DELAY)  # sending 200 requests takes a while
    with store.watched() as seen, opened(store, name) as table:
        found = answer(table, **asked)
    store.set_delay(0)
    assert found == expected
    assert seen.heads == 0, "sizes are listed, or come with the answer"
    assert len(seen.requests) <= requests, slow.summary(seen)
    assert seen.waves <= waves, slow.summary(seen)


@pytest.mark.parametrize("has_filters", [True, False])
def test_bloom_filters_of_small_files_are_not_read(store: Any, tmp_path: Path, has_filters: bool) -> None:
    """But for those of the first files, which tell how long the others' are; a file of another schema is read whole."""
    files, filter_bytes = 30, 300_000
    made, table = np.random.default_rng(5), WrittenTable(tmp_path / "t", filter_bytes=filter_bytes * has_filters)
    vectors = made.normal(size=(files * ROWS, 4)).round(3)
    rows = [Row(i, f"name {i}" * (i % 9), float(i % 100), "g", tuple(vectors[i])) for i in range(len(vectors))]
    table.commit({("g", "other"): rows[(files - 1) * ROWS :]}, with_vector=False)
    table.commit({("g", f"f{n:03d}"): rows[n * ROWS : (n + 1) * ROWS] for n in range(files - 1)})
    name = f"filters-{has_filters}"
    upload(store, tmp_path / "t", name)
    with hv.open(str(tmp_path / "t"), column="emb") as local:
        expected = [answer(local), answer(local, filter="price < 30")]
    forget()
    store.set_delay(DELAY)
    with store.watched() as seen, opened(store, name) as away:
        found = [answer(away)]
    store.set_delay(0)
    with opened(store, name) as away:
        found.append(answer(away, filter="price < 30"))
    assert found == expected
    of_files = [request for request in seen.requests if request.key.endswith(".parquet")]
    assert len(of_files) <= files + 8, slow.summary(seen)
    whole = sum(request.answer_bytes > filter_bytes for request in of_files)
    # The first eight, the one of another schema, and those of the rows found, whose columns are read later.
    assert whole <= (8 + 1 + 7) * has_filters, slow.summary(seen)


def test_a_footer_that_the_cache_has_lost_is_read_again(store: Any, tmp_path: Path) -> None:
    """Also of a file that is held without the end of its footer."""
    table = WrittenTable(tmp_path / "t", filter_bytes=300_000)
    rows = [Row(i, f"name {i}", float(i), "g", (float(i), 0, 0, 1)) for i in range(2 * ROWS)]
    table.commit({("g", f"f{n}"): rows[n * ROWS : (n + 1) * ROWS] for n in range(2)})
    upload(store, tmp_path / "t", "lost")
    options = StorageOptions.of(store.settings)
    found = open_storage("s3://lake/lost", options).list_files("s3://lake/lost/g")
    for number, file in enumerate(sorted(found, key=lambda file: file.name)):
        with empty_cache(1 << 20), held_in_memory(file, options, columns_alone=True):
            assert (held_stream(file) is None) == (number > 0), "the first one tells how long the second's footer is"
            process_cache().clear()
            data = DataFile(file, options, mapped=False)
            assert data.metadata.num_rows == ROWS
            assert data.columns(0, ["id"]).column("id").to_pylist() == list(range(number * ROWS, (number + 1) * ROWS))
            data.close()


def test_a_thousand_files_take_no_more_waves(store: Any, tmp_path: Path) -> None:
    written_in_one_pack(tmp_path / "many")
    upload(store, tmp_path / "many", "many")
    store.warm("many/")
    asked = {"mode": "approximate", "nprobes": 3}
    with hv.open(str(tmp_path / "many"), column="emb") as local:
        expected = [answer(local, **asked), answer(local, filter="price < 4", **asked)]
    forget()
    store.set_delay(DELAY)
    with store.watched() as seen:
        table = opened(store, "many")
        found = [answer(table, **asked)]
    with table, store.watched() as filtered:
        found.append(answer(table, filter="price < 4", **asked))
    store.set_delay(0)
    assert found == expected
    assert seen.heads == 0
    assert (len(seen.requests) <= 60, seen.waves <= 6) == (True, True), slow.summary(seen)
    of_lists = [request.start for request in filtered.requests if request.key.endswith(".pack")]
    of_columns = [request.end for request in filtered.requests if request.key.endswith(".parquet")]
    assert min(of_lists) < min(of_columns), "the rows of lists are read while filter columns are"


def test_a_second_search_and_one_with_a_filter(store: Any, lake: Path) -> None:
    with hv.open(str(lake / "f8"), column="emb") as local:
        expected = [answer(local, filter=f"price < {most}", recall_target=0.95) for most in (30, 20)]
    forget()
    with opened(store, "f8") as table:
        answer(table, recall_target=0.95)
        store.set_delay(DELAY)
        with store.watched() as again:
            answer(table, recall_target=0.95)
        with store.watched() as filtered:
            found = [answer(table, filter="price < 30", recall_target=0.95)]
        store.set_delay(0)
        found.append(answer(table, filter="price < 20", recall_target=0.95))
    assert found == expected
    assert (len(again.requests) <= 10, again.waves <= 1) == (True, True), slow.summary(again)
    assert filtered.waves <= 2, slow.summary(filtered)


def test_filter_columns_of_many_files_are_read_at_once(store: Any, lake: Path) -> None:
    asked = {"filter": "price < 5", "recall_target": 0.95}
    with hv.open(str(lake / "f200"), column="emb") as local:
        expected = answer(local, **asked)
    forget()
    with opened(store, "f200") as table:
        answer(table, recall_target=0.95)
        store.set_delay(DELAY)
        with store.watched() as seen:
            found = answer(table, **asked)
        store.set_delay(0)
    assert found == expected
    assert (len(seen.requests) <= 95, seen.waves <= 3) == (True, True), slow.summary(seen)
    assert seen.most_at_once <= IO_PARALLELISM.default


@cache
def columns_of_rows(has_index: bool) -> tuple[pa.Table, bytes]:
    """Large and small columns, flat and nested, and a file of them with a page index or without one."""
    count = 100_000
    table = pa.table(
        {
            "id": range(count),
            "text": [f"{number:0120d}" for number in range(count)],
            "tags": [[number] * 12 for number in range(count)],
            "few": [number % 3 for number in range(count)],
        }
    )
    file = pa.BufferOutputStream()
    pq.write_table(table, file, compression="none", use_dictionary=["few"], write_page_index=has_index,
                   row_group_size=90_000)  # fmt: skip
    return table, file.getvalue().to_pybytes()


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_columns_of_rows_are_read_once(store: Any, keep: bool, has_index: bool) -> None:
    table, content = columns_of_rows(has_index)
    store.client.put_object(Bucket="lake", Key="columns.parquet", Body=content)
    store.warm("columns")
    options = StorageOptions.of(store.settings)
    spec = ScanSpec("s3://lake", table.schema, VectorColumn("emb", 4, "float"), None, options=options)
    process_cache().resize(1 << 30)
    reader = ParquetSlice(FileInfo("s3://lake/columns.parquet", len(content), 1), spec, keep)
    rows = np.array([95_000, 5, 99_999, 6, 31])
    with store.watched() as seen:
        found = reader.rows(rows, table.column_names)
    assert found == table.take(pa.array(rows))
    # A nested column is read whole; of a flat one the pages of the rows, where an index tells them.
    assert seen.bytes < (0.6 if has_index else 1.05) * len(content), slow.summary(seen)
    assert len(seen.requests) <= 6, slow.summary(seen)


def test_many_queries_read_vectors_and_columns_of_many_files_at_once(store: Any, lake: Path) -> None:
    queries = np.random.default_rng(0).normal(size=(500, 4))
    asked: dict[str, Any] = {"metric": "l2", "columns": ["id", "name"], "recall_target": 0.95}
    with hv.open(str(lake / "f200"), column="emb") as local:
        expected = local.search_batch(queries, 7, **asked).to_pylist()
    forget()
    with opened(store, "f200") as table:
        store.set_delay(DELAY)
        with store.watched() as seen:
            found = table.search_batch(queries, 7, **asked).to_pylist()
        store.set_delay(0)
    assert found == expected
    assert (len(seen.requests) <= 410, seen.waves <= 20) == (True, True), slow.summary(seen)


def test_rows_by_place_and_by_filter_come_from_all_files_at_once(store: Any, lake: Path) -> None:
    with opened(store, "f200") as table:
        places = table.search(QUERY, 8000, metric="l2", columns=[], mode="exact").refs[::40]
        wanted = table.fetch_rows(places, columns=["id"])
        forget()
        store.set_delay(DELAY)
        with store.watched() as fetched:
            assert table.fetch_rows(places, columns=["id"]) == wanted
        snapshot = table._snapshot(None)
        forget()
        plan = plan_of_rows(snapshot, "emb", None, "UTC", {})
        with store.watched() as counted:
            assert count_rows(plan) == 8000
        with store.watched() as read:
            assert read_rows(plan, ["id"]).num_rows == 8000
        store.set_delay(0)
    assert len({file for file, _ in places}) > 50
    # Each file is asked for its end and then for rows; 64 requests are sent at a time.
    assert (fetched.waves <= 9, counted.waves <= 6, read.waves <= 9) == (True, True, True), (
        fetched.waves,
        counted.waves,
        read.waves,
    )


def test_keys_that_decide_ties_come_from_all_files_at_once(store: Any, tmp_path: Path) -> None:
    table = WrittenTable(tmp_path / "tied")
    rows = [Row(i, "g", float(i), "g", (1.0, 2.0, 3.0, 4.0)) for i in range(48)]
    table.commit({("g", f"f{n:02d}"): rows[n::24] for n in range(24)})
    upload(store, tmp_path / "tied", "tied")
    with opened(store, "tied") as other:
        store.set_delay(DELAY)
        with store.watched() as seen:
            found = other.search(QUERY, k=5, metric="l2", columns=["id"], mode="exact").to_pylist()
        store.set_delay(0)
    assert [row["id"] for row in found] == [int(key) for key in sorted(map(str, range(48)))[:5]]
    assert seen.waves <= 6, slow.summary(seen)


def test_a_search_that_took_too_long_sends_nothing_more(store: Any, lake: Path) -> None:
    slowly = {"hoodie.vector.io.parallelism": "4"}
    with hv.open("s3a://lake/f200", column="emb", storage_options=store.settings, options=slowly) as table:
        store.set_delay(DELAY)
        with store.watched() as seen:
            with pytest.raises(SearchTimeoutError, match=r"within 1 seconds; \d+ of 200 file slices"):
                answer(table, mode="exact", timeout="1s")
            # Those under way have ended.
            time.sleep(4 * DELAY)
        with store.watched() as later:
            time.sleep(4 * DELAY)
        store.set_delay(0)
    assert 4 < len(seen.requests) <= 4 * 6, slow.summary(seen)
    assert not later.requests


def test_a_search_does_not_wait_longer_than_it_may_for_a_silent_store(store: Any, lake: Path) -> None:
    with hv.open(str(lake / "f8"), column="emb") as local:
        expected = answer(local, mode="exact")
    forget()
    with opened(store, "f8") as table:
        too_long = pytest.raises(SearchTimeoutError, match=r"within 1 seconds; 0 of 8 file slices and 0 rows")
        with store.inject(slow.Faults("silence", operation="GET")), store.watched() as seen, too_long:
            answer(table, mode="exact", timeout="1s")
        assert not seen.requests, "none was answered by then"
        assert answer(table, mode="exact") == expected


def test_a_search_that_failed_sends_nothing_more(store: Any, lake: Path) -> None:
    upload(store, lake / "f200", "torn")
    slowly = {"hoodie.vector.io.parallelism": "4"}
    with hv.open("s3a://lake/torn", column="emb", storage_options=store.settings, options=slowly) as table:
        found = store.client.list_objects_v2(Bucket="lake", Prefix="torn/g00/")["Contents"]
        small = [{"Key": each["Key"]} for each in sorted(found, key=lambda each: -each["Size"])[20:]]
        store.client.delete_objects(Bucket="lake", Delete={"Objects": small})
        with store.watched() as seen:
            with pytest.raises(DataFileError, match=r"cannot be (read|opened): it is gone$"):
                answer(table, mode="exact")
            time.sleep(4 * DELAY)
    assert 20 < len(seen.requests) < 40, slow.summary(seen)


def assert_counted(report: Any, seen: Any) -> None:
    received = sum(request.answer_bytes for request in seen.requests if request.operation == "GET")
    mine = (report.requests, report.waves, report.bytes_received)
    assert mine == (len(seen.requests), seen.waves, received), slow.summary(seen)
    if mine[0]:
        assert (
            f"store: {number_of(mine[0], 'request')} in {number_of(mine[1], 'wave')}, {mine[2]} bytes received"
            in str(report)
        )


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("f8", {"recall_target": 0.95}),
        ("f8", {"mode": "exact"}),
        ("f8", {"recall_target": 0.95, "filter": "price < 30"}),
        ("f200", {"mode": "approximate", "nprobes": 3}),
        ("p50", {}),
    ],
)
def test_a_report_counts_what_the_store_saw(store: Any, lake: Path, name: str, asked: dict[str, Any]) -> None:
    store.set_delay(DELAY)
    with store.watched() as opening:
        table = opened(store, name)
    with table:
        reports = []
        for number in range(2):
            with store.watched() as seen:
                found = table.search(np.roll(QUERY, number), 7, metric="l2", columns=["id", "name"], **asked)
            reports.append(found.report)
            assert_counted(found.report, seen)
        store.set_delay(0)
        first, second = reports
        # An index is looked for, and the heads of its packs are read, while the table is opened.
        assert len(opening.requests) + first.requests >= second.requests
        assert opening.bytes + first.bytes_received > second.bytes_received
        again = table.search(np.roll(QUERY, 1), 7, metric="l2", columns=["id", "name"], **asked).report
    assert "vectors" in first.from_storage
    assert "columns" in first.from_storage
    if "index" in first.slices:
        assert first.from_storage["segments"] == second.from_memory["segments"] == TABLES[name][0]
        assert first.from_storage["lists"] >= again.from_storage.get("lists", 0) == 0
        lists = [second.from_memory.get("lists", 0), second.from_storage.get("lists", 0)]
        assert again.from_memory["lists"] == sum(lists) > 0
    else:
        assert first.from_storage["footers"] == TABLES[name][0]
        assert again.from_memory["vectors"] == TABLES[name][0]
    assert f"{again.from_memory['footers']} footers" in str(again)


def test_a_report_of_files_counts_how_they_are_compared(store: Any, lake: Path) -> None:
    files = [f"s3a://lake/p50/{file.relative_to(lake / 'p50')}" for file in (lake / "p50").rglob("*.parquet")][:12]
    given: dict[str, Any] = {"files": files, "storage_options": store.settings}
    hv.index.build_if_missing(None, column="emb", directory="s3a://lake/compared", metric="l2", **given)
    forget()
    verified._SAME.clear()
    with hv.open(column="emb", index_directory="s3a://lake/compared", **given) as table, store.watched() as seen:
        store.set_delay(DELAY)
        report = table.search(QUERY, 7, metric="l2").report
        store.set_delay(0)
    assert report.slices == {"index": 12}
    assert_counted(report, seen)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=30))
def test_waves_are_those_of_the_proxy(times: list[tuple[int, int]]) -> None:
    requests = [slow.Request(at, at + took, "GET", "lake", "k", "GET", None, 200, 1, 0) for at, took in times]
    assert parallel.Traffic([(at, at + took, 1) for at, took in times]).waves == slow.waves(requests)


def test_each_page_of_a_listing_is_a_request(store: Any) -> None:
    store.put_all((f"many names/{number}", b"x") for number in range(1001))
    storage = open_storage("s3://lake/many names", StorageOptions.of(store.settings))
    for recursive in (False, True):
        with store.watched() as seen, parallel.counted(True):
            assert len(storage.list_files("s3://lake/many names", recursive)) == 1001
            counted = parallel.traffic()
        assert counted is not None
        assert len(counted.requests) == counted.waves == len(seen.requests) == 2
    assert parallel.traffic() is None


@pytest.mark.parametrize(
    ("folders", "requests"),
    [
        ({"": 3, ".hoodie": 5, "a": 2, "b/c": 2, "z": 1}, 2),
        ({"": 1, ".hoodie": 5, "!": 1, ".hoodie-a": 2, ".hoodie_x": 2, ".hoodie/x": 3, "g": 1}, 4),
        ({"": 2, "a": 1, "b": 990, "c/d": 30, "e": 1}, 4),
        ({".hoodie": 1}, 2),
        ({}, 2),
    ],
)
def test_all_folders_but_one_are_listed_by_few_requests(store: Any, folders: dict[str, int], requests: int) -> None:
    root = f"many folders/{sorted(folders.items())}"
    for folder, files in folders.items():
        store.put_all(("/".join(filter(None, [root, folder, f"{number:04d}"])), b"x") for number in range(files))
    uri = f"s3://lake/{root}"
    storage = open_storage(uri, StorageOptions.of(store.settings))
    expected = [info for info in storage.list_files(uri, recursive=True) if not info.uri.startswith(f"{uri}/.hoodie/")]
    with store.watched() as seen:
        found = storage.list_except(uri, ".hoodie")
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert len(seen.requests) == requests, slow.summary(seen)


def test_searches_at_once_are_counted_apart(store: Any, lake: Path) -> None:
    asked = [("f8", {"mode": "exact"}), ("f200", {"recall_target": 0.95}), ("p50", {"mode": "exact"})]
    alone = []
    for name, how in asked:
        with opened(store, name) as table:
            alone.append(table.search(QUERY, 7, metric="l2", **how).report)
    forget()
    tables = [opened(store, name) for name, _ in asked]
    store.set_delay(DELAY)
    with store.watched() as seen, ThreadPoolExecutor(3) as threads:
        searches = [
            threads.submit(t.search, QUERY, 7, metric="l2", **how) for t, (_, how) in zip(tables, asked, strict=True)
        ]
        reports = [search.result().report for search in searches]
    store.set_delay(0)
    assert [report.requests for report in reports] == [report.requests for report in alone]
    assert [report.bytes_received for report in reports] == [report.bytes_received for report in alone]
    assert sum(report.requests for report in reports) == len(seen.requests), slow.summary(seen)


def test_a_plan_says_what_is_in_memory_and_asks_for_nothing(store: Any, lake: Path) -> None:
    with opened(store, "f8") as table:
        how = {"metric": "l2", "recall_target": 0.95}
        hv.explain(table.search, QUERY, **how)
        with store.watched() as seen:
            before = hv.explain(table.search, QUERY, **how)
        table.search(QUERY, 7, **how)
        with store.watched() as later:
            after = hv.explain(table.search, QUERY, **how)
            table.search(QUERY, 7, mode="exact", metric="l2")
            scan = hv.explain(table.search, QUERY, mode="exact", metric="l2")
    assert not seen.requests
    assert re.search(
        r"in memory   nothing of the index: the search reads 1 head of a pack, \d+ bytes, then lists", before
    )
    assert "in memory   footers of 0 and vectors of 0 of 8 Parquet files" in before
    assert "in memory   the index; lists that no search has read are read when they are probed" in after
    assert "in memory   footers of 8 and vectors of 8 of 8 Parquet files" in scan
    assert later.requests
    with hv.open(str(lake / "f8"), column="emb") as local:
        assert "in memory" not in hv.explain(local.search, QUERY, metric="l2")
        report = local.search(QUERY, 7, metric="l2").report
    assert (report.requests, report.from_memory, report.from_storage) == (0, {}, {})
    assert "store:" not in str(report)


def test_an_index_of_more_objects_than_an_answer_names_is_found(store: Any, lake: Path) -> None:
    with hv.open(str(lake / "f8"), column="emb") as local:
        expected = answer(local, recall_target=0.95)
    upload(store, lake / "f8", "crowded")
    hv.index.compact(Settings(store.settings), "s3a://lake/crowded", "emb")
    forget()
    folder = "crowded/.hoodie/vector_index/v1/emb/l2-ivf_sq8/packs"
    store.put_all((f"{folder}/{number:016x}-none.pack", b"?") for number in range(1001))
    with opened(store, "crowded") as table:
        hits = table.search(QUERY, 7, metric="l2", columns=["id", "name"], recall_target=0.95)
    assert "index" in hits.report.slices
    assert [tuple(row.values()) for row in hits.to_pylist()] == expected


@pytest.mark.parametrize("name", TABLES)
def test_a_snapshot_takes_three_waves(store: Any, lake: Path, name: str) -> None:
    local = NativeTable(Source(normalise(str(lake / name)), name)).snapshot()
    forget()
    store.set_delay(DELAY)
    with store.watched() as seen:
        source = Source(f"s3://lake/{name}", name, StorageOptions.of(store.settings))
        snapshot = NativeTable(source).snapshot()
    store.set_delay(0)
    assert [(s.partition_path, s.file_id, s.size) for s in snapshot.file_slices] == [
        (s.partition_path, s.file_id, s.size) for s in local.file_slices
    ]
    assert snapshot.identity == local.identity
    assert len(seen.requests) == 6, slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)


@pytest.mark.parametrize(
    "fault",
    [
        {"what": 503, "every": 3, "at_most": 20},
        {"what": 429, "every": 4, "operation": "GET", "at_most": 10},
        {"what": 500, "every": 5, "at_most": 10},
        {"what": "reset", "every": 4, "operation": "GET", "at_most": 10},
        {"what": "truncated", "every": 4, "operation": "GET", "at_most": 10},
    ],
    ids=str,
)
def test_what_a_store_refuses_is_asked_again(store: Any, lake: Path, fault: dict[str, Any]) -> None:
    with hv.open(str(lake / "f8"), column="emb") as local:
        expected = answer(local)
    forget()
    with store.inject(slow.Faults(**fault)), store.watched() as seen, opened(store, "f8") as table:
        assert answer(table) == expected
    assert [request for request in seen.requests if request.status not in (200, 206)] or fault["what"] == "truncated"


def test_a_request_that_is_not_answered_is_sent_again(store: Any, lake: Path) -> None:
    """After the time that Hadoop's setting allows it; a store that never answers is one sentence."""
    with hv.open(str(lake / "f8"), column="emb") as local:
        expected = answer(local)
    forget()
    impatient = {**store.settings, "fs.s3a.connection.request.timeout": "2s"}
    silence = slow.Faults("silence", every=3, operation="GET", at_most=3)
    away = {"column": "emb", "storage_options": impatient}
    with store.inject(silence), store.watched() as seen, hv.open("s3a://lake/f8", **away) as table:
        assert answer(table) == expected
    assert sum(request.status is None for request in seen.requests) == 3, slow.summary(seen)


def test_an_object_that_is_gone_is_one_sentence(store: Any, lake: Path) -> None:
    upload(store, lake / "f8", "gone")
    with opened(store, "gone") as table:
        gone = [key["Key"] for key in store.client.list_objects_v2(Bucket="lake", Prefix="gone/g00/")["Contents"]]
        for key in gone:
            store.client.delete_object(Bucket="lake", Key=key)
        with pytest.raises(
            DataFileError, match=r"^the data file 's3://lake/gone/g00/\S+' cannot be (read|opened): it is gone$"
        ):
            answer(table, mode="exact")
    with pytest.raises(TableNotFoundError, match="there is no Hudi table at 's3a://lake/none'"):
        opened(store, "none")


def test_an_address_where_no_store_is_is_one_sentence(store: Any) -> None:
    with socket.socket() as taken:  # nothing listens at this port
        taken.bind(("127.0.0.1", 0))
        nowhere = {**store.settings, "fs.s3a.endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}"}
        gave_none = r"'http://127\.0\.0\.1:\d+' gave no answer to 9 requests \(error sending request\)"
        told = rf"^'s3://lake/t/\S+' cannot be read: {gave_none}; is fs\.s3a\.endpoint the address of the store\?$"
        with pytest.raises(DataFileError, match=told):
            hv.open("s3a://lake/t", column="emb", storage_options=nowhere)


def test_an_object_that_was_written_again_is_one_sentence(store: Any) -> None:
    store.client.put_object(Bucket="lake", Key="again", Body=DATA)
    storage = open_storage("s3://lake/again", StorageOptions.of(store.settings))
    file = storage.open("s3://lake/again", size=len(DATA))
    assert file.read_at(10, 5) == DATA[5:15]
    store.client.put_object(Bucket="lake", Key="again", Body=DATA[::-1])
    with pytest.raises(OSError, match="it was rewritten after it was listed"):
        file.read_at(10, 500)
    with pytest.raises(OSError, match="it was rewritten after it was listed"):
        storage.open("s3://lake/again", size=len(DATA) - 1).read_at(10, 500)


@given(st.lists(st.tuples(st.integers(0, len(DATA) + 9), st.integers(0, 700_000)), min_size=1, max_size=6))
def test_ranges_are_those_of_the_object(store: Any, ranges: list[tuple[int, int]]) -> None:
    storage = open_storage("s3://lake/data", StorageOptions.of(store.settings))
    known, asked = storage.open("s3://lake/data", size=len(DATA)), storage.open("s3://lake/data")
    assert known.size() == asked.size() == len(DATA)
    for offset, count in ranges:
        assert known.read_at(count, offset) == asked.read_at(count, offset) == DATA[offset : offset + count]
        known.seek(offset)
        assert known.read(count) == DATA[offset : offset + count]
        assert known.tell() == max(offset, min(offset + count, len(DATA)))


def test_a_large_object_is_read_in_parts_at_once(store: Any) -> None:
    content = np.random.default_rng(5).bytes(20 << 20)
    store.client.put_object(Bucket="lake", Key="large", Body=content)
    store.warm("large")
    storage = open_storage("s3://lake/large", StorageOptions.of(store.settings))
    store.set_delay(DELAY)
    with store.watched() as seen:
        assert storage.whole("s3://lake/large", len(content)).to_pybytes() == content
    store.set_delay(0)
    assert (seen.gets, seen.most_at_once) == (3, 3)
    with store.watched() as whole:
        assert storage.whole("s3://lake/large").to_pybytes() == content
        assert storage.read("s3://lake/data") == DATA
    assert (whole.gets, len(whole.requests)) == (2, 2)


def test_threads_share_a_file(store: Any) -> None:
    storage = open_storage("s3://lake/data", StorageOptions.of(store.settings))
    file, wrong = storage.open("s3://lake/data", size=len(DATA)), []

    def read(seed: int) -> None:
        offsets = np.random.default_rng(seed).integers(0, len(DATA), 20).tolist()
        wrong.extend(at for at in offsets if file.read_at(1000, at) != DATA[at : at + 1000])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_process_that_was_forked_reads_and_searches(store: Any, lake: Path) -> None:
    """Loaders of training data fork: the child has neither the threads nor the connections of its parent."""
    with opened(store, "f8") as table:
        expected = answer(table)
        forget()
        child = os.fork()
        if child == 0:  # pytest must not go on here, whatever happens
            signal.alarm(120)
            try:
                os._exit(0 if answer(table) == expected else 1)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert answer(table) == expected


def test_files_are_indexed_several_at_once(store: Any, lake: Path) -> None:
    files = [f"s3a://lake/f200/{file.relative_to(lake / 'f200')}" for file in (lake / "f200").rglob("*.parquet")]
    given = {"files": sorted(files)[:40], "storage_options": store.settings}
    store.set_delay(DELAY)
    with store.watched() as seen:
        made = hv.index.build_if_missing(None, column="emb", directory="s3a://lake/indexes", metric="l2", **given)
    store.set_delay(0)
    assert made.segments_made == 40
    assert seen.waves <= 70 < len(seen.requests) / 3, slow.summary(seen)
    with hv.open(column="emb", index_directory="s3a://lake/indexes", **given) as table:
        found = answer(table)
        assert table.search(QUERY, 7, metric="l2").report.slices == {"index": 40}
        assert found == answer(table, mode="exact")


def test_files_that_hold_vectors_are_found_by_their_footers_at_once(store: Any, lake: Path) -> None:
    settings = Settings(store.settings)
    store.set_delay(DELAY)
    with store.watched() as seen:
        found = hv.vectors.find_vectors(settings, "s3a://lake/f200", "emb")
    store.set_delay(0)
    files = {str(file.relative_to(lake / "f200")) for file in (lake / "f200").rglob("*.parquet")}
    assert len(found) == 200
    assert {each.path for each in found} == files
    assert seen.waves <= 15, slow.summary(seen)
    assert len(seen.requests) <= 215, "a footer each"
    assert hv.vectors.find_vectors(settings, "s3a://lake/f200", "nothing") == []


def test_an_index_with_separate_segments_is_verified_at_once(store: Any, lake: Path) -> None:
    upload(store, lake / "f200", "separate")  # only the copy in the store was packed
    store.warm("separate/")
    forget()
    store.set_delay(2 * DELAY)
    with store.watched() as seen:
        found = hv.index.verify(Settings(store.settings), "s3a://lake/separate", "emb")
    store.set_delay(0)
    assert found == []
    assert len(seen.requests) >= 400, "each segment, and the footer of each base file"
    assert seen.heads == 2, "whether there is a table"
    assert seen.waves <= 30, slow.summary(seen)


def test_listings_are_those_of_pyarrow(store: Any) -> None:
    """With the marks of folders that Hadoop makes, and names that only pyarrow lists."""
    storage = open_storage("s3://lake/listed", StorageOptions.of(store.settings))
    plain = Storage(storage.filesystem, "s3://")
    keys = ["a", "dir/", "dir/b", "dir/c/d", "e/", "p=1%2F2/z", "ä b/c"]
    for more in ([], ["empty"], ["dir/a\tb"]):
        for key in [*keys, *more]:
            store.client.put_object(
                Bucket="lake", Key=f"listed/{key}", Body=b"" if key[-1:] in ("", "/") or key == "empty" else b"content"
            )
        for recursive in (False, True):
            found = [sorted(one.list_files("s3://lake/listed", recursive), key=str) for one in (storage, plain)]
            assert found[0] == found[1]
            assert found[0]
        both = [[sorted(part, key=str) for part in one.list_both("s3://lake/listed")] for one in (storage, plain)]
        assert both[0] == both[1]
        assert storage.list_folders("s3://lake/none") == plain.list_folders("s3://lake/none") == []


@pytest.mark.parametrize(
    "key", ["a b", "a%20b", "%2F", "a=b", "a+b", "ä", "a#b?c", "a\\b", "a{b}^`|", "a\tb", "a:b@c&d"]
)
def test_names_of_objects(store: Any, key: str) -> None:
    store.client.put_object(Bucket="lake", Key=f"x/{key}", Body=key.encode())
    storage = open_storage("s3://lake/x", StorageOptions.of(store.settings))
    assert storage.read(f"s3://lake/x/{key}") == key.encode()
    assert storage.open(f"s3://lake/x/{key}").read_at(99, 0) == key.encode()
