"""The proxy of ``slow_store.py``: a process that answers late, counts, and takes commands as lines of JSON.

    python benchmarks/slow_store_proxy.py PORT DELAY

The port is that of the server behind it. The first line that it prints is its own port; then it prints a line for each
that it reads, and ends when there are no more.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape, unescape

from slow_store import CODES, HEADERS, MANY, Faults, Request, joined, parted

Result = TypeVar("Result")
Headers = tuple[tuple[str, str], ...]

_SERVER_AT_ONCE = 32  # the server has a thread for each connection, and refuses them when too many wait
_PIECE = 1 << 20
_LINE = 1 << 30  # keys of a whole bucket may be on one
_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "te", "trailer", "upgrade"}
)
_WHOLE = (*HEADERS, ("x-amz-checksum-mode", "ENABLED"))
_LISTING = frozenset({"list-type", "prefix", "delimiter", "marker", "max-keys", "start-after", "encoding-type"})
_LISTING |= {"continuation-token", "fetch-owner", "x-id"}
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_CONDITIONS_OF_TIME = ("if-modified-since", "if-unmodified-since", "if-range")


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @cached_property
    def place(self) -> tuple[str, str]:
        """The bucket and the key, either of which may be empty."""
        bucket, _, key = self.target.partition("?")[0].removeprefix("/").partition("/")
        return unquote(bucket), unquote(key)

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """The parameters behind the question mark."""
        return parse_qs(self.target.partition("?")[2], keep_blank_values=True)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self.values)

    @cached_property
    def operation(self) -> str:
        """The method, or LIST where the keys of a bucket are asked for."""
        bucket, key = self.place
        listing = self.method == "GET" and bucket and not key and self.parameters <= _LISTING
        return "LIST" if listing else self.method

    @property
    def prefix(self) -> str:
        """What the keys that are listed begin with, or the first of those that are removed together."""
        if self.operation == "LIST":
            return self.values.get("prefix", [""])[0]
        first = re.search(rb"<Key>([^<]*)</Key>", self.body) if "delete" in self.parameters else None
        return unescape(first[1].decode()) if first else ""

    @property
    def is_of_an_object(self) -> bool:
        """Whether an object in memory answers it."""
        plain = bool(self.place[1]) and self.parameters <= {"x-id"}
        return self.method in ("GET", "HEAD") and plain and not any(map(self.header, _CONDITIONS_OF_TIME))

    def header(self, name: str) -> str:
        """One header, or "" if there is none."""
        return header_of(self.headers, name)


@dataclass(frozen=True)
class Answer:
    """What is sent; the answer to a HEAD says the length of a body that it does not have."""

    status: int
    headers: Headers
    body: bytes | memoryview
    length: int

    @classmethod
    def of(cls, status: int, headers: Headers, body: bytes | memoryview) -> Answer:
        """An answer with the length of its body."""
        return cls(status, headers, body, len(body))

    @property
    def range(self) -> tuple[int, int] | None:
        """The bytes of the object that it has, where these are a part."""
        found = re.match(r"bytes (\d+)-(\d+)/", header_of(self.headers, "content-range"))
        return (int(found[1]), int(found[2])) if found else None

    def without_body(self) -> Answer:
        """The same, as HEAD has it."""
        return Answer(self.status, self.headers, b"", self.length)

    def head(self, last: bool) -> bytes:
        """Everything before the body."""
        lines = [
            f"HTTP/1.1 {self.status} {_PHRASES.get(self.status, '')}",
            *(f"{key}: {value}" for key, value in self.headers),
        ]
        if self.status not in (204, 304):
            lines.append(f"Content-Length: {self.length}")
        lines += ["Connection: close"] if last else []
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


@dataclass(eq=False)
class Injected:
    """Faults, how often they matched and struck, and whether they were taken back."""

    faults: Faults
    matched: int = 0
    struck: int = 0
    cleared: asyncio.Event = field(default_factory=asyncio.Event)

    def strikes(self, asked: Asked) -> bool:
        """Whether a request goes wrong; it is counted."""
        faults = self.faults
        if faults.operation not in (None, asked.operation) or not re.search(faults.key, asked.place[1]):
            return False
        self.matched += 1
        if self.matched % faults.every or self.struck == faults.at_most:
            return False
        self.struck += 1
        return True


@dataclass
class Proxy:
    """What all connections share."""

    server: int
    delay: float
    log: list[Request] = field(default_factory=list)
    injected: dict[int, Injected] = field(default_factory=dict)
    objects: dict[tuple[str, str], asyncio.Future[Answer]] = field(default_factory=dict)
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SERVER_AT_ONCE))
    running: set[asyncio.Task[Any]] = field(default_factory=set)
    numbers: int = 0

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin what goes on when the client who asked for it is gone."""
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    def strike(self, asked: Asked) -> Injected | None:
        """The faults that a request meets."""
        return next((each for each in self.injected.values() if each.strikes(asked)), None)

    async def answer(self, asked: Asked) -> Answer:
        """Answer a request: from memory, or by asking the server."""
        if asked.is_of_an_object:
            return answer_from(await self.whole(asked), asked)
        if asked.method in ("GET", "HEAD"):
            return await self.forward(asked)
        return await asyncio.shield(self.begin(self.change(asked)))

    async def whole(self, asked: Asked) -> Answer:
        """The server's answer for a whole object, which is kept if the object is there."""
        place = asked.place
        task = self.objects.get(place)
        if task is None:
            task = self.begin(self.forward(Asked("GET", asked.target, _WHOLE)))
            self.objects[place] = task
            task.add_done_callback(partial(self.drop_failed, place))
        return await asyncio.shield(task)

    async def warm(self, places: list[tuple[str, str]]) -> None:
        """Keep the server's answers for whole objects, for which it is asked at once."""
        heads = [("GET", "/" + quote("/".join(place)), _WHOLE) for place in places]
        answer = await self.forward(Asked("POST", MANY, (), joined((head, b"") for head in heads)))
        for place, ((status, headers), body) in zip(places, parted(bytes(answer.body)), strict=True):
            if status == 200:
                self.objects[place] = asyncio.get_running_loop().create_future()
                self.objects[place].set_result(Answer.of(status, _kept(headers), body))

    def drop_failed(self, place: tuple[str, str], task: asyncio.Future[Answer]) -> None:
        """Forget an answer that is no object."""
        if self.objects.get(place) is task and (task.exception() or task.result().status != 200):
            del self.objects[place]

    async def change(self, asked: Asked) -> Answer:
        """Let the server do something, and forget what it may have changed."""
        bucket, key = asked.place
        try:
            return await self.forward(asked)
        finally:
            for place in [(bucket, key)] if key else [place for place in self.objects if place[0] == bucket]:
                self.objects.pop(place, None)

    async def forward(self, asked: Asked) -> Answer:
        """Ask the server."""
        async with self.free:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server, limit=_PIECE)
            try:
                kept = [(key, value) for key, value in asked.headers if key.lower() not in _HOP]
                kept += [("Content-Length", str(len(asked.body))), ("Connection", "close")]
                lines = [f"{asked.method} {asked.target} HTTP/1.1", *(f"{key}: {value}" for key, value in kept), "\r\n"]
                writer.write("\r\n".join(lines).encode("latin-1"))
                writer.write(asked.body)
                await writer.drain()
                return await _answer_of(reader, asked.method)
            finally:
                writer.close()

    async def obey(self, command: str, value: Any) -> Any:
        """Do what a line says."""
        if command == "now":
            return time.monotonic_ns()
        if command == "log":
            for _ in range(20):  # connections that clients have closed by now take some turns of the loop to end
                await asyncio.sleep(0)
            return [vars(request) for request in self.log if request.start >= value]
        if command == "delay":
            self.delay = value
        elif command == "warm":
            places = [tuple(place) for place in value if tuple(place) not in self.objects]
            for begin in range(0, len(places), _SERVER_AT_ONCE):
                await self.warm(places[begin : begin + _SERVER_AT_ONCE])
        elif command == "forget" and value:
            for place in value:
                self.objects.pop(tuple(place), None)
        elif command == "forget":
            self.objects.clear()
        elif command == "inject":
            self.numbers += 1
            self.injected[self.numbers] = Injected(Faults(**value))
            return self.numbers
        elif command == "clear":
            self.injected.pop(value).cleared.set()
        return None


class Connection(asyncio.StreamReaderProtocol):
    """A client's connection; what is done for it is given up when it is lost."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.reader = asyncio.StreamReader(limit=_PIECE)
        super().__init__(self.reader, self.connected)

    def connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        writer.transport.set_write_buffer_limits(0)  # to drain is to hand everything to the system
        self.task = asyncio.create_task(self.serve())

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.task.cancel()

    async def serve(self) -> None:
        """Answer one request after another."""
        try:
            while await self.serve_one():
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client is gone, or the server
        finally:
            self.writer.close()

    async def serve_one(self) -> bool:
        """Answer a request and log it; false if it was the last of the connection."""
        method, target, headers = await _head_of(self.reader)
        exchange = Exchange(self, time.monotonic_ns(), Asked(method, target, headers))
        try:
            return await exchange.run()
        finally:
            self.proxy.log.append(exchange.request())


@dataclass
class Exchange:
    """A request and its answer, as far as it was sent."""

    connection: Connection
    start: int
    asked: Asked
    answer: Answer | None = None
    sent: int = 0

    def request(self) -> Request:
        """What is logged."""
        asked, answer = self.asked, self.answer
        return Request(
            start=self.start,
            end=time.monotonic_ns(),
            method=asked.method,
            bucket=asked.place[0],
            key=asked.place[1],
            operation=asked.operation,
            range=answer.range if answer else None,
            status=answer.status if answer else None,
            answer_bytes=self.sent,
            request_bytes=len(asked.body),
            prefix=asked.prefix,
            agent=asked.header("user-agent").partition(" ")[0].rstrip(","),
        )

    async def run(self) -> bool:
        """Read the rest of the request and answer it; false if the connection is closed then."""
        proxy, writer, asked = self.connection.proxy, self.connection.writer, self.asked
        if asked.header("expect").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body_of(self.connection.reader, asked.headers)
        due = time.monotonic() + proxy.delay
        self.asked = asked = Asked(asked.method, asked.target, asked.headers, body)
        injected = proxy.strike(asked)
        what = injected.faults.what if injected else None
        if injected and what == "silence":
            await injected.cleared.wait()
        answer = None
        if isinstance(what, int):
            answer = error(what, CODES[what], asked.place[1])
        elif what != "reset":
            answer = await proxy.answer(asked)
        if (left := due - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if answer is None:
            self.reset()
            return False
        self.answer = answer.without_body() if asked.method == "HEAD" else answer
        last = what == "truncated" or asked.header("connection").lower() == "close"
        await self.send(last, len(self.answer.body) // 2 if what == "truncated" else len(self.answer.body))
        return not last

    async def send(self, last: bool, length: int) -> None:
        """Send the answer, of its body only so many bytes."""
        assert self.answer
        writer, head, body = self.connection.writer, self.answer.head(last), memoryview(self.answer.body)[:length]
        if length <= 1 << 16:
            head += body
            self.sent = length
        writer.write(head)
        await writer.drain()
        while self.sent < length:
            piece = body[self.sent : self.sent + _PIECE]
            writer.write(piece)
            await writer.drain()
            self.sent += len(piece)

    def reset(self) -> None:
        """Close the connection as if the peer had died."""
        transport = self.connection.writer.transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def header_of(headers: Headers, name: str) -> str:
    """Look one header up; "" if there is none."""
    return next((value for key, value in headers if key.lower() == name), "")


def error(status: int, code: str, key: str, headers: Headers = ()) -> Answer:
    """S3's answer to what fails."""
    text = f"<Code>{code}</Code><Message>{HTTPStatus(status).phrase}</Message><Resource>{escape(key)}</Resource>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{text}<RequestId>0</RequestId></Error>'
    kind = (("Content-Type", "application/xml"), ("Date", formatdate(usegmt=True)))
    return Answer.of(status, (*headers, *kind), body.encode())


def answer_from(whole: Answer, asked: Asked) -> Answer:
    """Answer a GET or HEAD with the server's answer for the whole object: its conditions, and its range."""
    if whole.status != 200:
        return whole
    size, etag = len(whole.body), header_of(whole.headers, "etag")
    wanted, refused = asked.header("if-match"), asked.header("if-none-match")
    if wanted and not _names(wanted, etag):
        return error(412, "PreconditionFailed", asked.place[1])
    if refused and _names(refused, etag):
        return Answer.of(304, (("ETag", etag),), b"")
    part = part_of(asked.header("range"), size)
    if part is not None and not part:
        return error(416, "InvalidRange", asked.place[1], (("Content-Range", f"bytes */{size}"),))
    checked = part is None and asked.header("x-amz-checksum-mode").upper() == "ENABLED"
    left_out = "date" if checked else ("date", "x-amz-checksum-")
    headers = [pair for pair in whole.headers if not pair[0].lower().startswith(left_out)]
    headers.append(("Date", formatdate(usegmt=True)))
    if part is None:
        return Answer.of(200, tuple(headers), whole.body)
    headers.append(("Content-Range", f"bytes {part.start}-{part.stop - 1}/{size}"))
    return Answer.of(206, tuple(headers), memoryview(whole.body)[part.start : part.stop])


def part_of(text: str, size: int) -> range | None:
    """The bytes that a Range header asks for: None for all of them, none if they are not there."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text.strip())
    if not found or not (found[1] or found[2]):
        return None
    if not found[1]:
        return range(max(0, size - int(found[2])), size)
    first, last = int(found[1]), int(found[2] or max(size - 1, int(found[1])))
    return None if last < first else range(first, max(first, min(last + 1, size)))


def _names(condition: str, etag: str) -> bool:
    return condition.strip() == "*" or etag.strip('"') in (each.strip().strip('"') for each in condition.split(","))


async def _head_of(reader: asyncio.StreamReader) -> tuple[str, str, Headers]:
    """Read the first line and the headers of a request."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    return method, target, _headers_of(lines)


def _headers_of(lines: Iterable[str]) -> Headers:
    pairs = (line.partition(":") for line in lines)
    return tuple((key, value.strip()) for key, _, value in pairs)


def _kept(headers: Iterable[Sequence[str]]) -> Headers:
    """The headers that are not of one connection."""
    return tuple((key, value) for key, value in headers if key.lower() not in _HOP)


async def _body_of(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    """Read a body that has a length, or comes in chunks."""
    if header_of(headers, "transfer-encoding").lower() != "chunked":
        return await reader.readexactly(int(header_of(headers, "content-length") or 0))
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return b"".join(parts)


async def _answer_of(reader: asyncio.StreamReader, method: str) -> Answer:
    """Read an answer of the server."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    status, headers = int(first.split(" ", 2)[1]), _headers_of(lines)
    kept = _kept(headers)
    if method == "HEAD" or status in (204, 304):
        return Answer(status, kept, b"", int(header_of(headers, "content-length") or 0))
    framed = header_of(headers, "content-length") or header_of(headers, "transfer-encoding")
    return Answer.of(status, kept, await (_body_of(reader, headers) if framed else reader.read()))


async def _run(server: int, delay: float) -> None:
    """Serve until the input has ended."""
    loop, proxy, commands = asyncio.get_running_loop(), Proxy(server, delay), asyncio.StreamReader(limit=_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    listening = await loop.create_server(lambda: Connection(proxy), "127.0.0.1", 0, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    async for line in commands:
        print(json.dumps(await proxy.obey(*json.loads(line))), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_run(int(sys.argv[1]), float(sys.argv[2])))
