"""The store that answers late: it answers as S3 does, counts every request, and fails when it has to."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import numpy as np
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loaded import module

from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.credentials.s3 import s3_arguments

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks/slow_store.py"
slow = module("benchmarks/slow_store.py", "benchmarks_slow_store")

DATA = np.random.default_rng(1).bytes(5000)
SIGNED = slow.SIGNED
LARGE = np.random.default_rng(2).bytes(12 << 20)


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        running.client.put_object(Bucket="lake", Key="data", Body=DATA, ContentType="text/x-data")
        yield running


@pytest.fixture(scope="module")
def client(store: Any) -> Iterator[Any]:
    with client_of(store.endpoint) as made:
        yield made


@contextlib.contextmanager
def client_of(endpoint: str) -> Iterator[Any]:
    """A client of boto3 that does not try again."""
    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "secret"}
    once = botocore.config.Config(retries={"total_max_attempts": 1})
    made = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=once, **keys)
    yield made
    made.close()


@pytest.fixture(scope="module")
def connection(store: Any) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(connected(store)) as made:
        yield made


@pytest.fixture(scope="module")
def files(store: Any) -> pafs.S3FileSystem:
    return pafs.S3FileSystem(**s3_arguments(StorageOptions.of(store.settings)))


def connected(store: Any, timeout: float = 60) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(store.endpoint.removeprefix("http://"), timeout=timeout)


def ask(connection: http.client.HTTPConnection, method: str, path: str, **headers: str) -> tuple[int, bytes, Any]:
    connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def sent(store: Any, *heads: str) -> list[socket.socket]:
    """Connections with a request each, sent and not answered yet; the proxy has seen them when this returns."""
    host, port = store.endpoint.removeprefix("http://").split(":")
    opened = [socket.create_connection((host, int(port)), 60) for _ in heads]
    for each, head in zip(opened, heads, strict=True):
        each.sendall(f"{head} HTTP/1.1\r\nHost: lake\r\nConnection: close\r\n\r\n".encode())
    with contextlib.closing(connected(store)) as last:
        ask(last, "HEAD", "/lake/data")
    return opened


def rest_of(opened: socket.socket) -> bytes:
    with opened, opened.makefile("rb") as stream:
        return stream.read()


def request(start: int, end: int) -> Any:
    return slow.Request(start, end, "GET", "lake", "data", "GET", None, 200, 1, 0)


def is_chain(requests: tuple[Any, ...]) -> bool:
    return all(one.end <= other.start for one, other in pairwise(requests))


SPANS = st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda pair: request(pair[0], sum(pair)))


@given(st.lists(SPANS, max_size=6))
def test_waves_are_the_longest_chain(requests: list[Any]) -> None:
    lengths = range(len(requests), 0, -1)
    longest = (size for size in lengths if any(map(is_chain, permutations(requests, size))))
    assert slow.waves(requests) == next(longest, 0)


@given(st.lists(SPANS.filter(lambda each: each.start < each.end), max_size=8))
def test_most_at_once_is_at_the_start_of_one(requests: list[Any]) -> None:
    at = [sum(other.start <= each.start < other.end for other in requests) for each in requests]
    assert slow.most_at_once(requests) == max(at, default=0)


def test_waves_of_requests_that_follow_and_that_overlap() -> None:
    assert slow.waves([]) == 0
    assert slow.waves([request(0, 5), request(5, 5), request(3, 5)]) == 2
    assert slow.waves([request(0, 30), request(1, 31), request(40, 70), request(41, 71), request(60, 90)]) == 2
    assert slow.waves([request(10 * n, 10 * n + 10) for n in range(100_000)]) == 100_000


def test_requests_one_after_another_are_as_many_waves(store: Any, connection: http.client.HTTPConnection) -> None:
    with store.watched() as seen:
        assert [ask(connection, "GET", "/lake/data")[1] for _ in range(7)] == [DATA] * 7
        assert seen.requests == ()
    assert (seen.waves, seen.gets, seen.most_at_once, seen.bytes) == (7, 7, 1, 7 * len(DATA))
    assert {(each.method, each.bucket, each.key, each.range, each.status) for each in seen.requests} == {
        ("GET", "lake", "data", None, 200)
    }


def test_a_thousand_requests_at_once_are_one_wave(store: Any) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        with store.watched() as seen:
            with store.inject(slow.Faults("silence", operation="GET")):
                opened = sent(store, *["GET /lake/data"] * 1000)
            assert all(rest_of(each).endswith(b"\r\n\r\n" + DATA) for each in opened)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (seen.gets, seen.heads, seen.waves) == (1000, 1, 1)
    assert seen.most_at_once == 1001
    assert seen.bytes == 1000 * len(DATA)


def test_threads_of_clients_are_all_counted(store: Any) -> None:
    def read(_: int) -> bool:
        with contextlib.closing(connected(store)) as own:
            return all(ask(own, "GET", "/lake/data")[1] == DATA for _ in range(25))

    with store.watched() as seen, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(40)))
    assert (seen.gets, seen.bytes) == (1000, 1000 * len(DATA))
    assert seen.waves >= 25


def test_every_request_waits(store: Any, connection: http.client.HTTPConnection) -> None:
    store.set_delay(0.03)
    try:
        with store.watched() as seen:
            for path in ("/lake/data", "/lake/missing", "/lake?list-type=2"):
                ask(connection, "GET", path)
            for each in sent(store, *["GET /lake/data"] * 5):
                rest_of(each)
    finally:
        store.set_delay(0)
    assert len(seen.requests) == 9
    assert all(each.end - each.start >= 30_000_000 for each in seen.requests)


def test_blocks_that_watch_lie_in_each_other(store: Any, connection: http.client.HTTPConnection) -> None:
    with store.watched() as outer:
        ask(connection, "GET", "/lake/data")
        with store.watched() as inner:
            ask(connection, "HEAD", "/lake/data")
        ask(connection, "GET", "/lake/data")
    assert [each.operation for each in inner.requests] == ["HEAD"]
    assert [each.operation for each in outer.requests] == ["GET", "HEAD", "GET"]


def test_a_block_watches_one_table_alone(client: Any, store: Any) -> None:
    """What is asked of folders above it counts as its own."""
    with store.watched("s3://lake/watched/one") as seen:
        for key in ("watched/one/a", "watched/one2/a", "watched/two"):
            client.put_object(Bucket="lake", Key=key, Body=b"x")
        for prefix in ("watched/one/", "watched/two/", "watched/", ""):
            client.list_objects_v2(Bucket="lake", Prefix=prefix)
    assert [each.key for each in seen.requests if each.operation == "PUT"] == ["watched/one/a"]
    assert [each.prefix for each in seen.requests if each.operation == "LIST"] == ["watched/one/", "watched/", ""]


@given(st.integers(0, 6000), st.integers(0, 6000))
def test_ranges_are_slices(store: Any, connection: http.client.HTTPConnection, first: int, last: int) -> None:
    status, body, headers = ask(connection, "GET", "/lake/data", Range=f"bytes={first}-{last}")
    if last < first:  # no range at all
        assert (status, body) == (200, DATA)
    elif first >= len(DATA):
        assert (status, headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")
        assert b"<Code>InvalidRange</Code>" in body
    else:
        assert (status, body) == (206, DATA[first : last + 1])
        assert headers["Content-Range"] == f"bytes {first}-{min(last, len(DATA) - 1)}/{len(DATA)}"
        assert headers["Content-Length"] == str(len(body))


@given(st.integers(0, 6000))
def test_open_and_suffix_ranges_are_slices(store: Any, connection: http.client.HTTPConnection, number: int) -> None:
    found = ask(connection, "GET", "/lake/data", Range=f"bytes={number}-")[:2]
    assert found == (206, DATA[number:]) if number < len(DATA) else found[0] == 416
    found = ask(connection, "GET", "/lake/data", Range=f"bytes=-{number}")[:2]
    assert found == (206, DATA[-number:]) if number else found[0] == 416


def test_an_empty_object_has_no_ranges(store: Any, connection: http.client.HTTPConnection) -> None:
    store.client.put_object(Bucket="lake", Key="empty", Body=b"")
    assert ask(connection, "GET", "/lake/empty")[:2] == (200, b"")
    assert [ask(connection, "GET", "/lake/empty", Range=f"bytes={each}")[0] for each in ("0-", "-5")] == [416, 416]


def test_ranges_are_logged_as_answered(store: Any, connection: http.client.HTTPConnection) -> None:
    with store.watched() as seen:
        for asked in ("0-9", "4990-9999", "-10", "4000-", "5000-"):
            ask(connection, "GET", "/lake/data", Range=f"bytes={asked}")
    assert [each.range for each in seen.requests] == [(0, 9), (4990, 4999), (4990, 4999), (4000, 4999), None]
    assert [each.answer_bytes for each in seen.requests[:-1]] == [10, 10, 10, 1000]


def test_who_asks_and_what_is_listed_or_removed_is_logged(store: Any, client: Any) -> None:
    with store.watched() as seen:
        client.list_objects_v2(Bucket="lake", Prefix="p=1&2/")
        client.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "p=1&2/a"}, {"Key": "p=1&2/b"}]})
    assert [(each.operation, each.prefix) for each in seen.requests] == [("LIST", "p=1&2/"), ("POST", "p=1&2/a")]
    assert all(each.agent.startswith("Boto3/") for each in seen.requests)


def test_answers_are_those_of_the_server(store: Any, client: Any) -> None:
    for name in ("head_object", "get_object"):
        found, true = (getattr(each, name)(Bucket="lake", Key="data") for each in (client, store.client))
        for kept in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata"):
            assert found[kept] == true[kept]
    assert client.get_object(Bucket="lake", Key="data", ChecksumMode="ENABLED")["Body"].read() == DATA


def test_a_head_has_the_length_and_no_body(store: Any, connection: http.client.HTTPConnection) -> None:
    with store.watched() as seen:
        status, body, headers = ask(connection, "HEAD", "/lake/data")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(len(DATA)))
        assert ask(connection, "HEAD", "/lake/missing")[:2] == (404, b"")
        assert ask(connection, "HEAD", "/lake")[:2] == (200, b"")
    assert (seen.heads, seen.bytes, seen.waves) == (3, 0, 3)


def test_conditions(store: Any, connection: http.client.HTTPConnection) -> None:
    etag = ask(connection, "HEAD", "/lake/data")[2]["ETag"]
    assert ask(connection, "GET", "/lake/data", If_Match=etag)[:2] == (200, DATA)
    assert ask(connection, "GET", "/lake/data", If_Match="*", Range="bytes=0-1")[:2] == (206, DATA[:2])
    assert ask(connection, "GET", "/lake/data", If_Match='"other"')[0] == 412
    assert ask(connection, "GET", "/lake/data", If_None_Match=etag)[:2] == (304, b"")
    assert ask(connection, "GET", "/lake/data", If_None_Match='"other"')[:2] == (200, DATA)
    later = "Fri, 01 Jan 2100 00:00:00 GMT"
    assert ask(connection, "GET", "/lake/data", If_Modified_Since=later, Authorization=SIGNED)[:2] == (304, b"")


def test_one_connection_serves_many_requests(store: Any) -> None:
    with contextlib.closing(connected(store)) as own:
        ask(own, "GET", "/lake/data")
        kept = own.sock
        for path in ("/lake/missing", "/lake?list-type=2", "/lake/data", "/"):
            ask(own, "GET", path)
            assert own.sock is kept
        ask(own, "GET", "/lake/data", Connection="close")
        assert own.sock is None


def test_lists_have_the_keys_of_a_prefix(store: Any, client: Any) -> None:
    for key in ("list/a=1/x", "list/a=1/y z", "list/b"):
        store.client.put_object(Bucket="lake", Key=key, Body=b"1")
    with store.watched() as seen:
        found = client.list_objects_v2(Bucket="lake", Prefix="list/a=1/")
        assert [each["Key"] for each in found["Contents"]] == ["list/a=1/x", "list/a=1/y z"]
        assert client.get_object(Bucket="lake", Key="list/a=1/y z")["Body"].read() == b"1"
        assert client.list_objects(Bucket="lake", Prefix="list/b")["Contents"][0]["Key"] == "list/b"
        client.get_bucket_location(Bucket="lake")
    assert [(each.operation, each.key) for each in seen.requests] == [
        ("LIST", ""),
        ("GET", "list/a=1/y z"),
        ("LIST", ""),
        ("GET", ""),
    ]


def test_pyarrow_asks_for_the_size_and_then_for_ranges(store: Any, files: pafs.S3FileSystem) -> None:
    with store.watched() as seen, files.open_input_file("lake/data") as opened:
        assert opened.read_at(100, 50) == DATA[50:150]
        assert opened.read_at(10, 4990) == DATA[4990:]
    assert [(each.operation, each.range) for each in seen.requests] == [
        ("HEAD", None),
        ("GET", (50, 149)),
        ("GET", (4990, 4999)),
    ]
    assert (seen.waves, seen.bytes) == (3, 110)


def test_hadoop_settings_open_the_store(store: Any) -> None:
    storage = open_storage("s3://lake/data", StorageOptions.of(store.settings))
    with store.watched() as seen:
        assert storage.read("s3://lake/data") == DATA
    assert seen.bytes == len(DATA)


def test_an_upload_in_parts_is_read_back(store: Any, files: pafs.S3FileSystem) -> None:
    with store.watched() as seen, files.open_output_stream("lake/parts/large") as out:
        out.write(LARGE)
    assert seen.count("PUT") >= 2
    assert seen.count("POST") == 2
    assert sum(each.request_bytes for each in seen.requests if each.operation == "PUT") >= len(LARGE)
    with store.watched() as seen, files.open_input_stream("lake/parts/large") as opened:
        assert opened.read() == LARGE
    assert seen.bytes == len(LARGE)


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_bodies_in_chunks(store: Any, connection: http.client.HTTPConnection, size: int) -> None:
    pieces = [LARGE[:size], b"the end"]
    with store.watched() as seen:
        headers = {"Transfer-Encoding": "chunked", "Authorization": SIGNED}
        connection.request("PUT", "/lake/chunked", iter(filter(None, pieces)), headers, encode_chunked=True)
        assert connection.getresponse().read() == b""
    assert ask(connection, "GET", "/lake/chunked")[1] == b"".join(pieces)
    assert [each.request_bytes for each in seen.requests] == [size + 7]


def test_a_body_that_waits_for_a_word(store: Any, connection: http.client.HTTPConnection) -> None:
    host, port = store.endpoint.removeprefix("http://").split(":")
    head = "PUT /lake/expected HTTP/1.1\r\nHost: lake\r\nExpect: 100-continue\r\nContent-Length: 4\r\n"
    with socket.create_connection((host, int(port)), 60) as own:
        own.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert own.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        own.sendall(b"body")
        assert rest_of(own).startswith(b"HTTP/1.1 200 OK\r\n")
    assert ask(connection, "GET", "/lake/expected")[:2] == (200, b"body")


def test_what_is_overwritten_is_not_answered_again(
    store: Any, client: Any, connection: http.client.HTTPConnection
) -> None:
    for number, writer in enumerate((client, store.client, client, store.client)):
        writer.put_object(Bucket="lake", Key="changed", Body=b"%d" % number)
        assert ask(connection, "GET", "/lake/changed")[1] == b"%d" % number
    client.copy_object(Bucket="lake", Key="changed", CopySource="lake/data")
    assert ask(connection, "GET", "/lake/changed")[1] == DATA
    with client_of(store.direct) as other:
        other.put_object(Bucket="lake", Key="changed", Body=b"from elsewhere")
    assert ask(connection, "GET", "/lake/changed")[1] == DATA
    store.forget()
    assert ask(connection, "GET", "/lake/changed")[1] == b"from elsewhere"


def test_what_is_deleted_is_gone_and_may_come_back(
    store: Any, client: Any, connection: http.client.HTTPConnection
) -> None:
    def remove_many(of: Any) -> None:
        of.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "deleted"}]})

    def remove_one(of: Any) -> None:
        of.delete_object(Bucket="lake", Key="deleted")

    for remove in (remove_one, remove_many):
        for own in (client, store.client):
            store.client.put_object(Bucket="lake", Key="deleted", Body=b"1")
            assert ask(connection, "GET", "/lake/deleted")[:2] == (200, b"1")
            remove(own)
            status, body, _ = ask(connection, "GET", "/lake/deleted")
            assert (status, b"<Code>NoSuchKey</Code>" in body) == (404, True)


def test_warm_objects_are_answered_without_the_server(store: Any, connection: http.client.HTTPConnection) -> None:
    store.client.put_object(Bucket="lake", Key="a b/c=d", Body=DATA)
    store.warm()
    with client_of(store.direct) as other:
        other.delete_object(Bucket="lake", Key="a b/c=d")
    assert ask(connection, "GET", "/lake/a%20b/c%3Dd")[:2] == (200, DATA)
    store.forget()
    assert ask(connection, "GET", "/lake/a%20b/c%3Dd")[0] == 404


def test_many_objects_are_written(store: Any, client: Any) -> None:
    content = {"many/a b%20#?.bin": DATA, "many/ä=1/2": b"", "many/c": LARGE}
    for each in (dict.fromkeys(content, b"before"), content):
        store.put_all(each.items())
        assert {key: client.get_object(Bucket="lake", Key=key)["Body"].read() for key in each} == each
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow, "BUCKET", "none")
        with pytest.raises(RuntimeError, match=r"The server answered 404 when 'many/d' was written\."):
            store.put_all([("many/d", b"")])
    late = replace(store, direct=store.endpoint)
    failed = pytest.raises(RuntimeError, match=r"The server answered 503 when 1 objects were written\.")
    with store.inject(slow.Faults(503)), failed:
        late.put_all([("many/d", b"")])


def test_a_change_of_an_object_leaves_others_warm(store: Any, connection: http.client.HTTPConnection) -> None:
    for key in ("kept/1", "kept/2", "other"):
        store.client.put_object(Bucket="lake", Key=key, Body=DATA)
    store.warm("kept/")
    store.client.put_object(Bucket="lake", Key="kept/2", Body=b"2")
    with client_of(store.direct) as other:
        other.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "kept/1"}, {"Key": "other"}]})
    assert [ask(connection, "GET", f"/lake/{key}")[0] for key in ("kept/1", "kept/2", "other")] == [200, 200, 404]
    assert ask(connection, "GET", "/lake/kept/2")[1] == b"2"
    store.client.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "kept/2"}]})
    assert ask(connection, "GET", "/lake/kept/1")[0] == 404, "a call that names no object may have changed any"


@pytest.mark.parametrize("status", slow.CODES)
def test_failures_are_errors_of_s3(
    store: Any, client: Any, connection: http.client.HTTPConnection, status: int
) -> None:
    with store.watched() as seen, store.inject(slow.Faults(status)):
        with pytest.raises(botocore.exceptions.ClientError, match=slow.CODES[status]):
            client.get_object(Bucket="lake", Key="data")
        with pytest.raises(botocore.exceptions.ClientError):
            client.put_object(Bucket="lake", Key="failed", Body=b"1")
        assert ask(connection, "HEAD", "/lake/data")[:2] == (status, b"")
    assert [each.status for each in seen.requests] == [status] * 3
    assert ask(connection, "GET", "/lake/failed")[0] == 404
    assert ask(connection, "GET", "/lake/data")[0] == 200


def test_pyarrow_tries_again_after_a_failure(store: Any, files: pafs.S3FileSystem) -> None:
    faults = slow.Faults(503, operation="GET", at_most=1)
    with store.watched() as seen, store.inject(faults), files.open_input_file("lake/data") as opened:
        assert opened.read_at(1000, 0) == DATA[:1000]  # of fewer bytes than the error has it does not try again
    assert [(each.operation, each.status) for each in seen.requests] == [
        ("HEAD", 200),
        ("GET", 503),
        ("GET", 206),
    ]


@pytest.mark.parametrize(
    ("options", "failed"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"every": 3}, [2, 5]),
        ({"at_most": 2}, [0, 1]),
        ({"every": 2, "at_most": 3}, [1, 3, 5]),
        ({"operation": "HEAD"}, [1, 3, 5, 7]),
        ({"key": "^mis+ing$"}, [2, 3, 6, 7]),
        ({"operation": "HEAD", "key": "data", "every": 2}, [5]),
        ({"operation": "LIST"}, []),
    ],
)
def test_faults_strike_those_that_match(
    store: Any, connection: http.client.HTTPConnection, options: dict[str, Any], failed: list[int]
) -> None:
    asked = [(method, f"/lake/{key}") for key in ("data", "missing") for method in ("GET", "HEAD")] * 2
    with store.inject(slow.Faults(429, **options)):
        found = [ask(connection, *each)[0] for each in asked]
    assert [number for number, status in enumerate(found) if status == 429] == failed


def test_of_two_faults_the_first_strikes(store: Any, connection: http.client.HTTPConnection) -> None:
    with store.inject(slow.Faults(500, every=2)), store.inject(slow.Faults(503, every=2)):
        assert [ask(connection, "GET", "/lake/data")[0] for _ in range(5)] == [200, 500, 503, 500, 200]
    assert ask(connection, "GET", "/lake/data")[0] == 200


def test_a_connection_is_reset(store: Any) -> None:
    with store.watched() as seen, contextlib.closing(connected(store)) as own:
        assert ask(own, "GET", "/lake/data")[0] == 200
        with store.inject(slow.Faults("reset", at_most=1)), pytest.raises(ConnectionError):
            ask(own, "GET", "/lake/data")
        own.close()
        assert ask(own, "GET", "/lake/data")[0] == 200
    assert [(each.status, each.answer_bytes) for each in seen.requests] == [(200, 5000), (None, 0), (200, 5000)]


def test_silence_lasts_until_the_client_gives_up(store: Any) -> None:
    with store.inject(slow.Faults("silence")):
        for _ in range(20):
            own = connected(store, timeout=0.01)
            with store.watched() as seen, contextlib.closing(own), pytest.raises(TimeoutError):
                ask(own, "GET", "/lake/data")
            assert [(each.status, each.answer_bytes) for each in seen.requests] == [(None, 0)]


def test_silence_ends_with_the_fault(store: Any, connection: http.client.HTTPConnection) -> None:
    found: list[Any] = []
    with store.watched() as seen:
        with store.inject(slow.Faults("silence", operation="GET")):
            thread = threading.Thread(target=lambda: found.append(ask(connection, "GET", "/lake/data")[:2]))
            thread.start()
            for each in sent(store):
                each.close()
            assert found == []
        thread.join()
    assert found == [(200, DATA)]
    assert (seen.gets, seen.heads) == (1, 1)


@pytest.mark.parametrize("key", ["data", "parts/truncated"])
def test_a_body_is_cut_off(store: Any, key: str) -> None:
    whole = DATA if key == "data" else LARGE
    store.client.put_object(Bucket="lake", Key=key, Body=whole)
    faults = slow.Faults("truncated", at_most=1)
    with store.watched() as seen, store.inject(faults), contextlib.closing(connected(store)) as own:
        with pytest.raises(http.client.IncompleteRead) as raised:
            ask(own, "GET", f"/lake/{key}")
        assert raised.value.partial == whole[: len(whole) // 2]
        own.close()
        assert ask(own, "GET", f"/lake/{key}")[1] == whole
    assert [each.answer_bytes for each in seen.requests] == [len(whole) // 2, len(whole)]


def test_a_client_that_leaves_early_is_not_sent_everything(store: Any) -> None:
    store.client.put_object(Bucket="lake", Key="left", Body=LARGE * 4)
    with store.watched() as seen:
        (opened,) = sent(store, "GET /lake/left")
        assert opened.recv(10) == b"HTTP/1.1 2"
        opened.close()
    (left,) = [each for each in seen.requests if each.key == "left"]
    assert left.status == 200
    assert left.answer_bytes < 4 * len(LARGE)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"what": 404}, "Faults are of 429, 500, 503, reset, silence, truncated, and 404 was given"),
        ({"what": "slow"}, "and 'slow' was given"),
        ({"what": 503, "every": 0}, "'every' is 1 or more, and 0 was given"),
        ({"what": 503, "key": "("}, "unterminated subpattern"),
    ],
)
def test_wrong_faults_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        slow.Faults(**wrong)


def test_a_command_runs_with_a_store() -> None:
    code = (
        "import os, sys, urllib.request as u; at = os.environ['HUDI_VECTOR_SLOW_STORE'] + '/lake/'\n"
        "u.urlopen(u.Request(at + 'k', b'value', {'Authorization': sys.argv[3], 'Content-Type': 'text/x'}, method='PUT')).read()\n"
        "assert [u.urlopen(at + 'k').read() for _ in range(3)] == [b'value'] * 3; sys.exit(int(sys.argv[2]))"
    )
    command = [sys.executable, str(PROGRAM), "--delay", "0", "--", sys.executable, "-c", code, "--delay", "3", SIGNED]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 3, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    for line in (["requests", "4"], ["GET", "3"], ["PUT", "1"], ["waves", "4"], ["3", "15", "GET", "lake/k"]):
        assert line in lines


def test_a_summary_counts_what_failed() -> None:
    requests = [request(0, 5), slow.Request(**{**vars(request(6, 7)), "status": None})]
    text = slow.summary(slow.Watched(tuple(requests)))
    assert json.dumps(text).count("answered by nothing") == 1
    assert [line.split() for line in text.splitlines()][-1] == ["2", "2", "GET", "lake/data"]
