"""A cache on disk: immutable bytes as files that every process of a host maps, in one folder with a byte budget.

An entry is a file ``{hash of the source}-{hash of the part}``: the magic, the CRC-32 of all that follows, the length of
a header, and the header as JSON with source and part, a description and the length of each piece of bytes; the pieces
follow, each from a multiple of 64 bytes on. A file appears whole, by a rename, and is never written again. So a process
that is killed leaves at most a hidden file, which others remove, and whoever maps a file that leaves the cache keeps
its bytes. What a crash of the machine or a bad disk damages does not fit its checksum, and is read from its source
again.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_vector.errors import InvalidOptionError
from hudi_vector.storage.local_files import is_private

__all__ = ["DiskCache", "Kept", "disk_cache_at"]

_MAGIC = b"HVCACHE1"
_HEAD = struct.Struct("<8sII")
_ALIGNED = 64
_LOOKS = 32
"""Of so many parts of the budget, one is written by a process before it looks how much there is."""
_ROOM = 0.9
"""The share of the budget that is left when entries have to go, so that this is not at each write."""
_PAUSE_SECONDS = 60
_ABANDONED_SECONDS = 600
_MOST_SOUND = 1 << 16
_MOST_SHARE = 4
"""An entry of more than a fourth of the budget would drive out too many others."""


@dataclass(frozen=True)
class Kept:
    """An entry as it was put: its description, and its pieces of bytes, mapped into memory and read-only."""

    about: Mapping[str, Any]
    pieces: tuple[pa.Buffer, ...]


class DiskCache:
    """Immutable bytes of parts of sources, in files that all processes of a host share; threads may share it.

    The least recently used entries leave first. Several processes together may exceed the budget by what each writes
    between two looks at the folder, a 32nd of it.

    Example:
        >>> import tempfile
        >>> cache = DiskCache(tempfile.mkdtemp(), budget=1 << 20)
        >>> cache.put("a file", "rows", [b"one", b"two"], {"rows": 2})
        >>> kept = cache.get("a file", "rows")
        >>> kept.about, [piece.to_pybytes() for piece in kept.pieces]
        ({'rows': 2}, [b'one', b'two'])
    """

    def __init__(self, folder: str, budget: int) -> None:
        """Keep entries in a folder that is made if it is missing; `budget` is in bytes.

        A folder that does not belong to this user alone is neither read nor written.
        """
        self._folder, self._budget = folder, budget
        self._lock = threading.Lock()
        self._unseen: int | None = None
        self._paused_until = 0.0
        self._sound: dict[str, tuple[int, int]] = {}

    def get(self, source: str, part: str) -> Kept | None:
        """Return the entry of a part, or None if there is none or it is damaged; a damaged one is removed."""
        name = _name(source, part)
        path = f"{self._folder}/{name}"
        if not is_private(self._folder):
            return None
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                content = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError:
            return None
        except ValueError:  # an empty file
            content = pa.py_buffer(b"")
        found = _parsed(content, [source, part], is_sound=self._sound.get(name) == _identity(status))
        if found is None:
            _remove(path)
            return None
        if len(self._sound) >= _MOST_SOUND:
            self._sound.clear()
        self._sound[name] = _identity(status)
        with suppress(OSError):  # whoever removed it meanwhile does not need the time of its last use
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        return found

    def put(self, source: str, part: str, pieces: Sequence[Any], about: Mapping[str, Any] | None = None) -> None:
        """Keep bytes, unless they are many; where they cannot be written, the cache takes none for a minute.

        Args:
            source: What has one content for ever, such as a file with its size and modification time.
            part: The part of it that the bytes are.
            pieces: Objects with contiguous bytes.
            about: What JSON can hold.
        """
        content = _content([source, part], [memoryview(piece).cast("B") for piece in pieces], about or {})
        size = sum(map(len, content))
        if size > self._budget // _MOST_SHARE or time.monotonic() < self._paused_until:
            return
        hidden = f"{self._folder}/.{uuid.uuid4().hex}.tmp"
        try:
            if not self.is_usable():
                return
            self._make_room(size)
            with open(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
                for piece in content:
                    _write_all(file, piece)
            os.replace(hidden, f"{self._folder}/{_name(source, part)}")
        except OSError:  # the disk is full, for example: searches go on without it
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            _remove(hidden)

    def is_usable(self) -> bool:
        """Make the folder if it is missing, and return True if it belongs to this user alone.

        Raises OSError if it cannot be made.
        """
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        return is_private(self._folder)

    def forget(self, sources: Iterable[str]) -> None:
        """Remove all that is kept of some sources: their bytes do not fit what they should be."""
        gone = set(map(_hash, sources))
        with suppress(OSError), os.scandir(self._folder) as listed:
            for entry in listed:
                if entry.name.partition("-")[0] in gone:
                    _remove(entry.path)

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Yield path, source and size in bytes of each entry; files without a readable head are left out.

        Nothing is yielded if the folder is missing or does not belong to this user alone.
        """
        if not is_private(self._folder):
            return
        with suppress(OSError), os.scandir(self._folder) as listed:
            for entry in sorted(listed, key=lambda entry: entry.name):
                source = None if entry.name.startswith(".") else _source_of(entry.path)
                if source is not None:
                    with suppress(OSError):  # another process removed it
                        yield entry.path, source, entry.stat(follow_symlinks=False).st_size

    def _make_room(self, size: int) -> None:
        """Count what is written, and now and then look at the folder and remove what exceeds the budget."""
        with self._lock:
            unseen = self._unseen
            self._unseen = size if unseen is None else unseen + size
            if unseen is not None and self._unseen <= self._budget // _LOOKS:
                return
            self._unseen = size
        self._shrink(self._budget - size)

    def _shrink(self, most: int) -> None:
        entries, held, now = list[tuple[int, int, str]](), 0, time.time()
        with os.scandir(self._folder) as listed:
            for entry in listed:
                with suppress(OSError):  # another process removed it
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.startswith(".") and now - status.st_mtime > _ABANDONED_SECONDS:
                        _remove(entry.path)
                        continue
                    held += status.st_size
                    entries.append((status.st_atime_ns, status.st_size, entry.path))
        if held <= most:
            return
        for _, size, path in sorted(entries):
            _remove(path)
            held -= size
            if held <= most * _ROOM:
                return


def _remove(path: str) -> None:
    with suppress(OSError):  # another process was first
        os.unlink(path)


def _write_all(file: Any, piece: bytes | memoryview) -> None:
    """Write all bytes, which one call of the system need not do."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Return what another file of the same name does not have; the checksum of one file is computed once."""
    return status.st_ino, status.st_mtime_ns


def _name(source: str, part: str) -> str:
    return f"{_hash(source)}-{_hash(part)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(key: list[str], views: Sequence[memoryview], about: Mapping[str, Any]) -> list[bytes | memoryview]:
    """Return the content of a file, the pieces without a copy."""
    header = json.dumps({"key": key, "about": dict(about), "sizes": list(map(len, views))}).encode()
    body: list[bytes | memoryview] = [header]
    at = _HEAD.size + len(header)
    for view in views:
        padding = -at % _ALIGNED
        body += [bytes(padding), view]
        at += padding + len(view)
    check = 0
    for piece in body:
        check = zlib.crc32(piece, check)
    return [_HEAD.pack(_MAGIC, check, len(header)), *body]


def _parsed(content: pa.Buffer, key: list[str], is_sound: bool) -> Kept | None:
    """Return a file's entry, or None if it is damaged or of another key; a sound file's checksum is not computed."""
    if content.size < _HEAD.size:
        return None
    magic, check, length = _HEAD.unpack(content.slice(0, _HEAD.size).to_pybytes())
    if magic != _MAGIC or (not is_sound and zlib.crc32(memoryview(content)[_HEAD.size :]) != check):
        return None
    header = json.loads(content.slice(_HEAD.size, length).to_pybytes())
    if header["key"] != key:
        return None
    pieces, at = list[pa.Buffer](), _HEAD.size + length
    for size in header["sizes"]:
        at += -at % _ALIGNED
        pieces.append(content.slice(at, size))
        at += size
    return Kept(header["about"], tuple(pieces))


def _source_of(path: str) -> str | None:
    """Return the source that the head of an entry's file names, or None if it has none."""
    try:
        with open(path, "rb") as file:
            magic, _, length = _HEAD.unpack(file.read(_HEAD.size))
            source = json.loads(file.read(length))["key"][0] if magic == _MAGIC else None
    except (OSError, ValueError, LookupError, TypeError, struct.error):
        return None
    return source if isinstance(source, str) else None


@lru_cache(maxsize=16)
def disk_cache_at(folder: str, budget: int) -> DiskCache:
    """Return the cache in a local folder: a folder in it that belongs to this user alone, which is made.

    Raises InvalidOptionError if it cannot be made, or if others may write to it or read it.
    """
    path = Path(folder.removeprefix("file://"))
    if not path.is_absolute():
        raise InvalidOptionError(
            f"hoodie.vector.cache.dir is '{folder}'; give the absolute path of a folder on a local disk"
        )
    own = path / f"hudi-vector-{os.geteuid()}"
    made = DiskCache(str(own), budget)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_usable = made.is_usable()
    except OSError as problem:
        raise InvalidOptionError(
            f"hoodie.vector.cache.dir is '{folder}', where no folder can be made: {problem.strerror}; "
            "give a local folder to which this process may write"
        ) from problem
    if not is_usable:
        raise InvalidOptionError(
            f"'{own}' is not a folder of this user alone, so what lies there may be anybody's; "
            "remove it, or give another folder as hoodie.vector.cache.dir"
        )
    return made
