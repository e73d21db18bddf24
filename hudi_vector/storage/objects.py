"""Objects of S3 read by ranges, without requests that only ask for their size.

pyarrow asks for the size of an object before it reads the first byte. Here a read is one request, whose answer also
tells the size, and any number of threads read at once. The requests are those of obstore, which is Rust's object_store:
it repeats what was throttled, refused or cut off.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from hudi_vector.errors import first_line
from hudi_vector.storage.credentials.s3 import has_profile, s3_arguments
from hudi_vector.storage.disk_cache import DiskCache
from hudi_vector.storage.parallel import Traffic, each, one_request, traffic
from hudi_vector.storage.settings import StorageOptions

__all__ = ["END_BYTES", "SECOND_NS", "ObjectFile", "Objects", "PositionedFile", "is_addressed", "objects_at"]

_PART_BYTES = 8 << 20
_STREAMED_BYTES = 1 << 20
_PAGE = 1000
"""The most names that an answer to a listing has."""
# The footer of a Hudi base file holds a Bloom filter of some 430 KB; the page index lies before it.
END_BYTES = 512 << 10
SECOND_NS = 1_000_000_000
_state = {"is_used": False, "was_forked": False}
_UNADDRESSED = re.compile(r"[\x00-\x1f\x7f]")
_RETRY: Mapping[str, Any] = {"max_retries": 8, "retry_timeout": timedelta(seconds=120)}
_FAILED = re.compile(r"Error performing \w+ (https?://[^/\s]+)\S* in [\d.]+\S*?(?:, after (\d+) retries.*?)? - (.+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_STATIC = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class Objects:
    """The objects of all buckets that one set of settings opens; threads may share it."""

    def __init__(
        self,
        config: Mapping[str, Any],
        keys: Mapping[str, str] | None,
        client: Mapping[str, Any],
        cache: DiskCache | None = None,
    ) -> None:
        """Keep the settings, in obstore's words, without accessing a bucket.

        Args:
            config: Settings of each bucket's store.
            keys: The keys to sign with; None if obstore finds them by itself, or none are needed.
            client: Settings of the HTTP client.
            cache: Where ranges of objects that never change are kept.
        """
        self._config, self._keys, self._client = config, keys, client
        self.cache = cache
        self._stores: dict[str, Any] = {}
        self._lock = threading.Lock()

    def source(self, path: str, size: int | None, mtime_ns: int) -> str:
        """Return what an object is called in the cache on disk, where buckets elsewhere may have the same names.

        Some readers know its size before they read it, and others do not: a name that lasts (0) needs none.
        """
        place = self._config.get("endpoint") or self._config["region"]
        return f"{place} {path} {f'{size} {mtime_ns}' if mtime_ns else ''}"

    def forget(self, paths: Iterable[str]) -> None:
        """Remove from the cache on disk what it has of objects whose names last: it is not what it should be."""
        if self.cache is not None:
            self.cache.forget(self.source(path, None, 0) for path in paths)

    def read(self, path: str, most: int | None = None) -> tuple[pa.Buffer | None, int]:
        """Return the content and the size of an object, by one request; no content if it has more than `most` bytes.

        Raises OSError, FileNotFoundError among them, if the object cannot be read.
        """
        with one_request() as answer:
            found = self._get(path, None)
            size = int(found.meta["size"])
            if most is not None and size > most:
                return None, size
            content = self._bytes(found, path)
            answer.nbytes = content.size
        return content, size

    def read_range(
        self, path: str, begin: int, end: int, opened_by: Traffic | None = None
    ) -> tuple[pa.Buffer, int, str | None]:
        """Return the bytes from `begin` to `end`, which must not be empty, with the object's size and its tag.

        `opened_by` counts the request if nothing does where it is sent.
        """
        with one_request(opened_by) as answer:
            found = self._get(path, (begin, end))
            content = self._bytes(found, path)
            answer.nbytes = content.size
        return content, int(found.meta["size"]), found.meta.get("e_tag")

    def stream(self, path: str, begin: int, end: int) -> Iterator[pa.Buffer]:
        """Yield the bytes from `begin` to `end`, which must not be empty, as they come by one request.

        Raises OSError, FileNotFoundError among them, if they cannot be read.
        """
        with one_request() as answer:
            pieces = iter(self._get(path, (begin, end)).stream(min_chunk_size=_STREAMED_BYTES))
            while (piece := self._asked(lambda: next(pieces, None), path)) is not None:
                content = pa.py_buffer(piece)
                answer.nbytes += content.size
                yield content

    def info(self, path: str) -> tuple[int, int]:
        """Return an object's size in bytes and its modification time in ns; raise OSError if it cannot be asked for."""
        import obstore

        bucket, _, key = path.partition("/")
        with one_request():
            found = self._asked(lambda: obstore.head(self._store(bucket), key), path)
        return int(found["size"]), _nanoseconds(found["last_modified"])

    def delete(self, path: str) -> None:
        """Remove an object; it is no error if there is none."""
        import obstore

        bucket, _, key = path.partition("/")
        self._asked(lambda: obstore.delete(self._store(bucket), key), path)

    def list(self, path: str, recursive: bool) -> tuple[list[tuple[str, int, int]], list[str]]:
        """Return the objects in a folder, each with path, size and modification time in ns, and the folders' paths.

        With `recursive`, all objects below it are returned, and no folders. A folder that is not there has none.
        Raises OSError if it cannot be listed, and ValueError if a name has characters that `is_addressed` refuses, or
        if an empty object may be the mark of a folder.
        """
        import obstore

        bucket, _, key = path.partition("/")
        store = self._store(bucket)
        try:
            with one_request() as answer:
                if recursive:
                    found = self._asked(lambda: obstore.list(store, key or None, chunk_size=_PAGE).collect(), path)
                    folders = []
                else:
                    listed = self._asked(lambda: obstore.list_with_delimiter(store, key or None), path)
                    found, folders = listed["objects"], listed["common_prefixes"]
                answer.requests = max(1, -(-(len(found) + len(folders)) // _PAGE))
        except FileNotFoundError:
            return [], []
        objects = [(f"{bucket}/{one['path']}", int(one["size"]), _nanoseconds(one["last_modified"])) for one in found]
        # Hadoop marks an empty folder by an empty object of its name and a slash; obstore leaves out the slash.
        if recursive and any(not size for _, size, _ in objects):
            raise ValueError(f"an empty object below '{path}'")
        return [one for one in objects if one[0] != path], [f"{bucket}/{folder}" for folder in folders]

    def first_below(self, path: str, after: str) -> tuple[Sequence[tuple[str, int, int]], bool]:
        """Return the first objects below a folder whose names follow `after`, by one request, and whether they are all.

        Objects are in the order of their keys, at most 1,000, each with path, size and modification time in ns. Raises
        OSError and ValueError as `list` does.
        """
        import obstore

        bucket, _, key = path.partition("/")
        store, offset = self._store(bucket), f"{key}/{after}" if key else after
        try:
            with one_request():
                pages = iter(obstore.list(store, key or None, offset=offset, chunk_size=_PAGE))
                found = self._asked(lambda: next(pages, []), path)
        except FileNotFoundError:
            return [], True
        objects = [(f"{bucket}/{one['path']}", int(one["size"]), _nanoseconds(one["last_modified"])) for one in found]
        if any(not size for _, size, _ in objects):
            raise ValueError(f"an empty object below '{path}'")
        return objects, len(objects) < _PAGE

    def named_below(self, path: str) -> Sequence[str] | None:
        """Return the paths of all objects below a folder, or None if only pyarrow can name them, as `list` says."""
        try:
            return [name for name, _, _ in self.list(path, recursive=True)[0]]
        except ValueError:
            return None

    def _get(self, path: str, part: tuple[int, int] | None) -> Any:
        import obstore

        bucket, _, key = path.partition("/")
        options: Any = None if part is None else {"range": part}
        return self._asked(lambda: obstore.get(self._store(bucket), key, options=options), path)

    def _bytes(self, found: Any, path: str) -> pa.Buffer:
        return pa.py_buffer(self._asked(found.bytes, path))

    def _asked(self, request: Any, path: str) -> Any:
        from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

        _state["is_used"] = True
        try:
            return request()
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no object '{path}'") from None
        except InvalidPathError as problem:
            raise ValueError(str(problem)) from None
        except (PermissionDeniedError, UnauthenticatedError) as problem:
            raise PermissionError(f"'{path}' may not be read with these credentials: {first_line(problem)}") from None
        except BaseError as problem:
            raise OSError(_reason(first_line(problem))) from problem

    def _store(self, bucket: str) -> Any:
        with self._lock:
            if bucket not in self._stores:
                from obstore.store import S3Store

                provider = None if self._keys is None else _Keys(self._keys)
                self._stores[bucket] = S3Store(
                    bucket,
                    config=dict(self._config),  # type: ignore[arg-type]
                    client_options=dict(self._client),  # type: ignore[arg-type]
                    retry_config=dict(_RETRY),  # type: ignore[arg-type]
                    credential_provider=provider,
                )
            return self._stores[bucket]


class _Keys:
    """Keys as obstore asks for them: with its own settings, it would add a session token of the environment."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys

    def __call__(self) -> Any:
        return {
            "access_key_id": self._keys["access_key"],
            "secret_access_key": self._keys["secret_key"],
            "token": self._keys.get("session_token"),
            "expires_at": None,
        }


class PositionedFile(io.RawIOBase):
    """A file of which only reads at a place have to be written; those from the present place follow from them."""

    def __init__(self) -> None:
        """Begin at the first byte."""
        super().__init__()
        self._at = 0

    def size(self) -> int:
        """Return the size in bytes."""
        raise NotImplementedError

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return `nbytes` bytes from `offset`, fewer at the end; raise OSError if they cannot be read."""
        raise NotImplementedError

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the present place; return the number of bytes, 0 at the end."""
        view = memoryview(buffer).cast("B")
        got = self.read_at(len(view), self._at)
        view[: len(got)] = got
        self._at += len(got)
        return len(got)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place, and return it."""
        if whence == os.SEEK_END:
            offset += self.size()
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = offset
        return self._at

    def tell(self) -> int:
        """Return the present place."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True


class ObjectFile(PositionedFile):
    """One object, open for reads at any place by any number of threads, as pyarrow and this package read files.

    The end of an object whose size is known is read in one piece and kept where its last byte is asked for: it holds
    what describes the rest.
    """

    def __init__(self, objects: Objects, path: str, size: int | None, mtime_ns: int | None = None) -> None:
        """Keep the object's path; nothing is requested. `size` is its size in bytes as it was listed, if it was.

        With `mtime_ns`, as it was listed, ranges are kept on disk if the settings say where; it is 0 for an object
        whose name no other content ever has.
        """
        super().__init__()
        self._objects, self._path = objects, path
        self._size = size
        self._cache = None if mtime_ns is None else objects.cache
        self._source = "" if mtime_ns is None or self._cache is None else objects.source(path, size, mtime_ns)
        # The threads in which pyarrow reads do not know for which search they do so.
        self._opened_by = traffic()
        self._tag: str | None = None
        self._tail: pa.Buffer | None = None
        self._lock = threading.Lock()

    def size(self) -> int:
        """Return the size in bytes."""
        if self._size is None:
            self._size = self._objects.info(self._path)[0]
        return self._size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return `nbytes` bytes from `offset`, fewer at the end; raise OSError if they cannot be read."""
        content: bytes = self.buffer_at(nbytes, offset).to_pybytes()
        return content

    def buffer_at(self, nbytes: int, offset: int) -> pa.Buffer:
        """Return what `read_at` does, without a copy."""
        size = self.size()
        begin, end = offset, min(offset + nbytes, size)
        if begin >= end:
            return pa.py_buffer(b"")
        tail = size - min(size, END_BYTES)
        if begin >= tail and (end == size or not tail or self._tail is not None):
            return self._of_tail(tail).slice(begin - tail, end - begin)
        return self._range(begin, end)

    def read_part(self, nbytes: int, offset: int) -> bytes:
        """Return `nbytes` bytes from `offset`, fewer at the end, by one request for these bytes alone.

        The size need not be known. Raises OSError if the object cannot be read or has no byte at `offset`.
        """
        content: bytes = self._part(offset, offset + nbytes).to_pybytes()
        return content

    def streamed(self, begin: int, end: int) -> Iterator[pa.Buffer]:
        """Yield the bytes from `begin` to `end` as they come by one request, of which few are held at a time.

        Fewer come where the object ends before. Raises OSError if it cannot be read.
        """
        return self._objects.stream(self._path, begin, end)

    def read_ahead(self) -> None:
        """Read the end of the object, by one request; raise OSError if it cannot be read."""
        size = self.size()
        if size:
            self._of_tail(size - min(size, END_BYTES))

    def read_buffer(self, nbytes: int | None = None) -> pa.Buffer:
        """Return the next `nbytes` bytes, or all that are left; a large object is read in several parts at once."""
        if self._size is None and not self._at and nbytes is None:
            content = self._kept("all", lambda: self._objects.read(self._path)[0])
            self._at = self._size = content.size
            return content
        end = self.size() if nbytes is None else min(self._at + nbytes, self.size())
        begins = range(self._at, end, _PART_BYTES)
        parts = each(lambda begin: self.buffer_at(min(_PART_BYTES, end - begin), begin), begins)
        self._at = max(self._at, end)
        return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))

    def _of_tail(self, begin: int) -> pa.Buffer:
        with self._lock:
            if self._tail is None:
                self._tail = self._range(begin, self.size())
            return self._tail

    def _range(self, begin: int, end: int) -> pa.Buffer:
        content = self._part(begin, end)
        if content.size != end - begin:
            raise OSError(f"{content.size} bytes came instead of {end - begin}")
        return content

    def _part(self, begin: int, end: int) -> pa.Buffer:
        def asked() -> pa.Buffer:
            content, size, tag = self._objects.read_range(self._path, begin, end, self._opened_by)
            self._require_same(size, tag)
            return content

        return self._kept(f"{begin} {end}", asked)

    def _kept(self, part: str, read: Callable[[], Any]) -> pa.Buffer:
        """Return a part of the object from the cache on disk, or read it and keep it there."""
        if self._cache is None:
            return read()
        found = self._cache.get(self._source, part)
        if found is None:
            content = read()
            self._cache.put(self._source, part, [content])
            return content
        if (seen := traffic() or self._opened_by) is not None:
            seen.note_on_disk("ranges", (self._source, part))
        return found.pieces[0]

    def _require_same(self, size: int, tag: str | None) -> None:
        """Raise OSError unless an answer is about the object that was listed, or answered first."""
        known, self._size = self._size, size if self._size is None else self._size
        same, self._tag = self._tag, tag if self._tag is None else self._tag
        if known not in (None, size) or same not in (None, tag):
            raise OSError("it was rewritten after it was listed")


def is_addressed(uri: str) -> bool:
    """Return True if obstore can be asked for the object.

    It refuses control characters in names, and a process that was forked lacks the threads that obstore had made.
    """
    return not _state["was_forked"] and _UNADDRESSED.search(uri) is None


def _note_fork() -> None:
    _state["was_forked"] = _state["is_used"]


os.register_at_fork(after_in_child=_note_fork)


def objects_at(options: StorageOptions) -> Objects | None:
    """Return the objects that these settings of one bucket open, or None if only pyarrow opens them.

    These are roles to assume, profiles of a credentials file, and buckets without a region. Raises
    UnsupportedTableError if a setting has no counterpart.
    """
    arguments = s3_arguments(options)
    region = arguments.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    keys: dict[str, str] = {
        name: arguments[name] for name in ("access_key", "secret_key", "session_token") if name in arguments
    }
    if not keys and all(name in os.environ for name in _STATIC):
        keys = dict(zip(("access_key", "secret_key"), (os.environ[name] for name in _STATIC), strict=True))
        if token := os.environ.get("AWS_SESSION_TOKEN"):
            keys["session_token"] = token
    anonymous = bool(arguments.get("anonymous"))
    if "role_arn" in arguments or not region or (not keys and not anonymous and has_profile()):
        return None
    # One request an object: not every store that speaks S3 removes many at once.
    config: dict[str, Any] = {"region": region, "disable_bulk_delete": True}
    endpoint = arguments.get("endpoint_override")
    if endpoint:
        config["endpoint"] = f"{arguments['scheme']}://{endpoint}"
    config["virtual_hosted_style_request"] = not endpoint or bool(arguments.get("force_virtual_addressing"))
    if anonymous:
        config["skip_signature"] = True
    client: dict[str, Any] = {"allow_http": arguments["scheme"] == "http"}
    for ours, theirs in (("connect_timeout", "connect_timeout"), ("request_timeout", "timeout")):
        if ours in arguments:
            client[theirs] = timedelta(seconds=arguments[ours])
    if "proxy_options" in arguments:
        client["proxy_url"] = _proxy_url(arguments["proxy_options"])
    return Objects(config, keys or None, client, options.cache)


def _reason(text: str) -> str:
    """Return obstore's words for a request that failed, without its address, times and settings.

    Example:
        >>> _reason("Error performing GET http://a:9/b/c in 1.6s, after 8 retries, x - Server returned 503")
        "'http://a:9' refused it 9 times: Server returned 503"
    """
    found = _FAILED.search(text)
    if found is None:
        return text
    store, requests, why = found[1], int(found[2] or 0) + 1, found[3].removeprefix("HTTP error: ")
    if "error sending request" in why:
        asked = f"{requests} request" + "s" * (requests > 1)
        return f"'{store}' gave no answer to {asked} ({why}); is fs.s3a.endpoint the address of the store?"
    return f"'{store}' refused it {requests} times: {why}" if requests > 1 else f"'{store}' refused it: {why}"


def _nanoseconds(moment: datetime) -> int:
    """Return a time in ns since 1970, of whole seconds: MinIO lists milliseconds, and answers a HEAD in seconds."""
    return (moment - _EPOCH) // timedelta(seconds=1) * SECOND_NS


def _proxy_url(proxy: Mapping[str, Any]) -> str:
    from urllib.parse import quote

    user = quote(proxy.get("username") or "", safe="")
    signed = f"{user}:{quote(proxy.get('password') or '', safe='')}@" if user else ""
    return f"{proxy['scheme']}://{signed}{proxy['host']}:{proxy['port']}"
