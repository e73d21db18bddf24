"""An S3-compatible store that answers late and counts what it is asked, for benchmarks and tests.

    python benchmarks/slow_store.py [--delay 0.03] -- command…

A moto server lies behind a proxy, ``slow_store_proxy.py``, and each has a process, so that neither waits for the
interpreter of what is measured. Each request waits for the delay, however many others do, and is logged. Moto reads
a whole object for each range, so that the proxy keeps the objects that were asked for in memory and answers for them
itself; a change that passes through the proxy, or is made by `SlowStore.client`, lets it forget what that may change.
The command finds the endpoint in ``HUDI_VECTOR_SLOW_STORE``; what it asked for is printed when it has ended.

Times are noisy where a machine has few cores. What was asked for is not, nor is the number of waves: how many requests
one after another the answer took, at the least, if all others ran at the same time as these.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

BUCKET = "lake"
CODES = {429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}
"""The statuses that faults may have, and S3's names of these errors."""
ENDPOINT = "HUDI_VECTOR_SLOW_STORE"
_WAYS = ("reset", "silence", "truncated")
_KEYS = {"access.key": "tester", "secret.key": "secret"}
# The server looks at whether there is one, and at nothing in it.
SIGNED = "AWS4-HMAC-SHA256 Credential=tester/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
HEADERS = (("Host", "127.0.0.1"), ("Authorization", SIGNED))
MANY = "/many-requests"
"""Where the server takes requests, by `joined`, and answers them in the same way, with no connection for each."""
_REGION = "us-east-1"
_PLACE = "bucket and key"


@dataclass(frozen=True)
class Request:
    """One request; times are nanoseconds of the proxy's clock.

    Attributes:
        start: When its head had come.
        end: When the last byte of the answer was handed to the system, or the connection was lost.
        method: Of HTTP.
        bucket: Its name, or "" for a request of the whole store.
        key: Of the object, or "" for a request of the bucket.
        operation: The method, or LIST where a bucket's keys are asked for.
        range: The first and the last byte of the object that the answer has, or None where it is whole, or none.
        status: Of the answer, or None if there was none.
        answer_bytes: Of the answer's body, as far as it was sent.
        request_bytes: Of the request's body, or 0 if it did not come whole.
        prefix: Of the keys that a LIST asks for, or the first key of those that a POST removes.
        agent: The first word by which the client names itself: ``Hadoop`` for s3a, ``aws-sdk-cpp/…`` for pyarrow.
    """

    start: int
    end: int
    method: str
    bucket: str
    key: str
    operation: str
    range: tuple[int, int] | None
    status: int | None
    answer_bytes: int
    request_bytes: int
    prefix: str = ""
    agent: str = ""


@dataclass(frozen=True)
class Faults:
    """What goes wrong with some of the requests.

    Attributes:
        what: A status of `CODES` is answered instead, and nothing is done; "reset" closes the connection without an
            answer; "silence" holds the request until the client gives up or the fault is taken back, and then answers
            it; "truncated" sends half of the answer's body and closes the connection.
        every: Every n-th request that matches.
        operation: Only such requests, named as in `Request`; None for all.
        key: A regular expression that is found in the keys of such requests.
        at_most: How often; None for always.
    """

    what: int | str
    every: int = 1
    operation: str | None = None
    key: str = ""
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.what not in CODES and self.what not in _WAYS:
            allowed = ", ".join(str(each) for each in (*CODES, *_WAYS))
            raise ValueError(f"Faults are of {allowed}, and {self.what!r} was given.")
        if self.every < 1:
            raise ValueError(f"'every' is 1 or more, and {self.every} was given.")
        re.compile(self.key)


@dataclass
class Watched:
    """The requests that began and ended within a block, in the order in which they ended; filled at its end."""

    requests: tuple[Request, ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes the bodies of the answers had."""
        return sum(request.answer_bytes for request in self.requests)

    @property
    def waves(self) -> int:
        """The longest chain of requests that waited for one another."""
        return waves(self.requests)

    @property
    def most_at_once(self) -> int:
        """How many requests ran at the same time at most."""
        return most_at_once(self.requests)

    @property
    def heads(self) -> int:
        return self.count("HEAD")

    @property
    def lists(self) -> int:
        return self.count("LIST")

    @property
    def gets(self) -> int:
        return self.count("GET")

    def count(self, operation: str) -> int:
        """How many requests were of an operation."""
        return sum(request.operation == operation for request in self.requests)


@dataclass(frozen=True)
class SlowStore:
    """The store, as long as its block runs.

    Attributes:
        endpoint: URL of the proxy.
        direct: URL of the server behind it, where nothing waits and nothing is counted. Who changes objects there by
            other means than `client` calls `forget`.
        client: A boto3 client of `direct`. The bucket `lake` is there.
    """

    endpoint: str
    direct: str
    client: Any
    _proxy: _Proxy

    @property
    def settings(self) -> dict[str, str]:
        """Hadoop's settings for the proxy."""
        values = {
            "endpoint": self.endpoint,
            "endpoint.region": _REGION,
            **_KEYS,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {f"fs.s3a.{name}": value for name, value in values.items()}

    @contextlib.contextmanager
    def watched(self, table: str = "") -> Iterator[Watched]:
        """Keep what is asked for within the block; blocks may lie in each other.

        With the URI of a table, only what is asked of its folder, or of one above it: a call for another table that has
        failed may still have requests under way, which it no longer waits for.
        """
        seen, folder = Watched(), table.partition("://")[2].partition("/")[2]
        since = self._proxy.ask("now")
        try:
            yield seen
        finally:
            asked = map(_request_of, self._proxy.ask("log", since))
            seen.requests = tuple(each for each in asked if _is_along(folder, each.key or each.prefix))

    @contextlib.contextmanager
    def inject(self, faults: Faults) -> Iterator[None]:
        """Let some requests within the block go wrong; of faults that all match, the first strikes."""
        number = self._proxy.ask("inject", asdict(faults))
        try:
            yield
        finally:
            self._proxy.ask("clear", number)

    def set_delay(self, seconds: float) -> None:
        """Let each request that comes from now on wait so long."""
        self._proxy.ask("delay", seconds)

    def warm(self, prefix: str = "") -> None:
        """Let the proxy read all objects of the bucket, or those of a prefix, so that no request waits until it has."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        self._proxy.ask("warm", [[BUCKET, each["Key"]] for page in pages for each in page.get("Contents", [])])

    def put_all(self, objects: Iterable[tuple[str, bytes]]) -> None:
        """Write many objects by key, in a tenth of the time that `client` takes, whose requests are signed one by one.

        All of them are in memory at once.
        """
        host, given = self.direct.removeprefix("http://"), list(objects)
        asked = joined((("PUT", quote(f"/{BUCKET}/{key}"), HEADERS), content) for key, content in given)
        with contextlib.closing(http.client.HTTPConnection(host, timeout=120)) as connection:
            connection.request("POST", MANY, asked)
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"The server answered {answer.status} when {len(given)} objects were written.")
            answers = list(parted(answer.read()))
        for (key, _), ((status, _), _) in zip(given, answers, strict=True):
            if status != 200:
                raise RuntimeError(f"The server answered {status} when {key!r} was written.")
        self._proxy.ask("forget", [[BUCKET, key] for key, _ in given])

    def forget(self) -> None:
        """Let the proxy read all objects from the server again."""
        self._proxy.ask("forget")


@contextlib.contextmanager
def slow_store(delay: float = 0.03) -> Iterator[SlowStore]:
    """Run a store, as long as the block runs.

    Args:
        delay: Seconds from the arrival of a whole request to the first byte of its answer.

    Yields:
        The store, with an empty bucket ``lake``.
    """
    import boto3

    with contextlib.ExitStack() as stack:
        port = stack.enter_context(moto())
        direct = f"http://127.0.0.1:{port}"
        proxy = stack.enter_context(_proxy_of(port, delay))
        names = {"aws_access_key_id": _KEYS["access.key"], "aws_secret_access_key": _KEYS["secret.key"]}
        client = boto3.client("s3", endpoint_url=direct, region_name=_REGION, **names)
        stack.callback(client.close)
        client.create_bucket(Bucket=BUCKET)
        client.meta.events.register("before-parameter-build.s3", _remember_place)
        client.meta.events.register(
            "after-call.s3", lambda model, context, **_: _forget_after(model.name, context[_PLACE], proxy)
        )
        yield SlowStore(f"http://127.0.0.1:{proxy.port}", direct, client, proxy)


@contextlib.contextmanager
def moto() -> Iterator[int]:
    """Run an S3-compatible server as long as the block runs; its port is yielded when it answers."""
    port = free_port()
    with running([sys.executable, str(Path(__file__).with_name("slow_store_server.py")), str(port)]):
        wait_for(port)
        yield port


def joined(parts: Iterable[tuple[Any, bytes]]) -> bytes:
    """Write heads, which JSON can say, and bodies into one body."""
    given = list(parts)
    heads = json.dumps([[head, len(body)] for head, body in given]).encode()
    return b"".join([heads, b"\n", *(body for _, body in given)])


def parted(content: bytes) -> Iterator[tuple[Any, bytes]]:
    """Read what `joined` wrote."""
    heads, _, bodies = content.partition(b"\n")
    begin = 0
    for head, length in json.loads(heads):
        yield head, bodies[begin : begin + length]
        begin += length


def waves(requests: Iterable[Request]) -> int:
    """Count the longest chain of requests of which each began when the answer of the one before it had ended.

    The request that ends first begins a longest chain, and of those that start after it the first to end is the next.
    """
    chain, ended = 0, None
    for request in sorted(requests, key=lambda request: (request.end, request.start)):
        if ended is None or request.start >= ended:
            chain, ended = chain + 1, request.end
    return chain


def most_at_once(requests: Iterable[Request]) -> int:
    """Count the requests that ran at the same time, when they were the most."""
    times = sorted(time for each in requests for time in ((each.start, 1), (each.end, -1)))
    running = most = 0
    for _, change in times:  # at the same time ends come before starts
        running += change
        most = max(most, running)
    return most


def summary(seen: Watched) -> str:
    """Tell what was asked for: by operation, by status and by key."""
    counted = Counter(request.operation for request in seen.requests)
    failed = Counter(request.status for request in seen.requests if request.status is None or request.status >= 400)
    keys = Counter(f"{request.operation} {request.bucket}/{request.key}" for request in seen.requests)
    sizes: Counter[str] = Counter()
    for request in seen.requests:
        sizes[f"{request.operation} {request.bucket}/{request.key}"] += request.answer_bytes
    rows = [
        ("requests", len(seen.requests)),
        *((f"  {operation}", number) for operation, number in counted.most_common()),
        *((f"  answered {status or 'by nothing'}", number) for status, number in failed.most_common()),
        ("waves", seen.waves),
        ("at once, at most", seen.most_at_once),
        ("bytes of answers", seen.bytes),
        ("bytes of requests", sum(request.request_bytes for request in seen.requests)),
    ]
    lines = [f"{name:<22} {number:>15,}" for name, number in rows]
    lines += ["", f"{'requests':>10} {'bytes of answers':>18}  key"]
    lines += [f"{number:>10,} {sizes[key]:>18,}  {key}" for key, number in keys.most_common(20)]
    return "\n".join(lines)


def main() -> None:
    """Run a command with a store, and print what it asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.03, help="seconds that each request waits")
    parser.add_argument("command", nargs="+", help="after two dashes, the command and its arguments")
    given = parser.parse_args()
    with slow_store(given.delay) as store:
        with store.watched() as seen:
            ran = subprocess.run(given.command, env={**os.environ, ENDPOINT: store.endpoint}, check=False)
        print(f"\n{summary(seen)}", flush=True)
    sys.exit(ran.returncode)


@dataclass(frozen=True)
class _Proxy:
    """The proxy's process, which takes commands as lines of JSON, and its port."""

    process: subprocess.Popen[str]
    port: int
    alone: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, command: str, value: Any = None) -> Any:
        """Let the proxy do one thing, and wait until it is done."""
        assert self.process.stdin
        assert self.process.stdout
        with self.alone:
            self.process.stdin.write(json.dumps([command, value]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("The proxy of the store has ended; what it said is on the error output.")
        return json.loads(line)


@contextlib.contextmanager
def _proxy_of(port: int, delay: float) -> Iterator[_Proxy]:
    program = str(Path(__file__).with_name("slow_store_proxy.py"))
    with running([sys.executable, program, str(port), str(delay)], talks=True) as ran:
        assert ran.stdout
        with contextlib.closing(ran.stdout):
            yield _Proxy(ran, int(ran.stdout.readline()))


@contextlib.contextmanager
def running(
    command: Sequence[str], *, talks: bool = False, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a process as long as the block runs: one that talks is asked by lines, another one is not heard."""
    heard = subprocess.PIPE if talks else subprocess.DEVNULL
    quiet = None if talks else subprocess.DEVNULL
    started = subprocess.Popen(command, stdin=heard, stdout=heard, stderr=quiet, text=True, env=env)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdin:
            started.stdin.close()


def _is_along(folder: str, key: str) -> bool:
    """Whether a key lies in a folder, or is that of a folder above it; all keys do where the folder is ""."""
    return key.startswith(f"{folder}/" if folder else "") or folder.startswith(key.rstrip("/"))


def _request_of(row: dict[str, Any]) -> Request:
    return Request(**{**row, "range": tuple(row["range"]) if row["range"] else None})


def _remember_place(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
    context[_PLACE] = (params.get("Bucket"), params.get("Key"))


def _forget_after(call: str, place: tuple[str | None, str | None], proxy: _Proxy) -> None:
    """Let the proxy forget one object after a call that names one, and all objects after another one."""
    if not call.startswith(("Get", "Head", "List")):
        proxy.ask("forget", [place] if all(place) else None)


def free_port() -> int:
    """Return a port nobody listens on.

    It is below those that Linux gives to sockets that ask for any, one of which may be taken before a server begins.
    """
    while True:
        # Hypothesis gives all processes of a test run the same seed of Python's own numbers.
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(port: int) -> None:
    """Wait until somebody listens on a port, for two minutes."""
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main()
