"""Side files: small immutable files under ``.hoodie``, each with a unique name, magic, version and checksum.

A side file is one line of text, ``HUDI-VECTOR {kind} {version} {sha256 of the body}``, and a body of JSON. Its name is
``{generation}-{uuid}``: a change is a new file of a higher generation, and readers take the newest whole file. A file
that was cut off or damaged is skipped; one of a version that this package does not know is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Container, Sequence
from typing import Any

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.storage import FileInfo, Storage, join

__all__ = [
    "forget",
    "forget_before",
    "generation_of",
    "is_side_file",
    "names_of",
    "newest",
    "publish",
    "seal",
    "unseal",
]

_MAGIC = "HUDI-VECTOR"
_NAME = re.compile(r"(\d{8})-[0-9a-f]{32}", re.ASCII)
_HEAD = re.compile(rf"{_MAGIC} ([a-z-]+) (\d{{1,9}}) ([0-9a-f]{{64}})".encode())
_LAST_GENERATION = 99_999_999
_LONGEST_HEAD = 256


def seal(kind: str, version: int, body: dict[str, Any]) -> bytes:
    """Return the content of a side file: the head line and the body as JSON. `kind` is in lower case.

    Example:
        >>> seal("upload", 1, {"a": 1})[:20]
        b'HUDI-VECTOR upload 1'
    """
    text = json.dumps(body, sort_keys=True, ensure_ascii=False).encode()
    head = f"{_MAGIC} {kind} {version} {hashlib.sha256(text).hexdigest()}\n"
    return head.encode() + text


def unseal(kind: str, version: int, content: bytes, uri: str) -> dict[str, Any] | None:
    """Return the body of a side file, or None if the file is not whole or of another kind.

    Raises UnsupportedTableError, naming `uri`, if the file has another version.
    """
    end = content.find(b"\n", 0, _LONGEST_HEAD)
    head, text = content[: max(end, 0)], content[end + 1 :]
    found = _HEAD.fullmatch(head)
    if found is None or found[1].decode() != kind:
        return None
    if int(found[2]) != version:
        raise UnsupportedTableError(
            f"'{uri}' has version {int(found[2])} and this hudi-vector knows version {version}; "
            "use the hudi-vector that wrote it, or a newer one"
        )
    if hashlib.sha256(text).hexdigest().encode() != found[3]:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):  # a right checksum does not prove valid JSON
        return None
    return body if isinstance(body, dict) else None


def publish(storage: Storage, folder: str, kind: str, version: int, generation: int, body: dict[str, Any]) -> str:
    """Write a side file durably under a new name, and return the name.

    The generation is its place in the order of the folder's files, 0 to 99,999,999. Raises DataFileError for a
    generation outside that range: a file of the last generation is there already.
    """
    if not 0 <= generation <= _LAST_GENERATION:
        raise DataFileError(
            f"'{folder}' holds a side file of the last generation, {_LAST_GENERATION}, which nothing can follow; "
            "remove that file, which this package did not write"
        )
    name = f"{generation:08d}-{uuid.uuid4().hex}"
    storage.publish(join(folder, name), seal(kind, version, body), unique=True)
    return name


def newest(
    storage: Storage, folder: str, kind: str, version: int, names: Sequence[str] | None = None
) -> tuple[str, dict[str, Any]] | None:
    """Return name and body of the newest whole side file of a folder, or None if no file is whole.

    `names` is what `names_of` returned, if the folder has been listed. Raises UnsupportedTableError if a file newer
    than the newest whole one has another version.
    """
    for name in names_of(storage, folder) if names is None else names:
        uri = join(folder, name)
        body = unseal(kind, version, storage.read(uri), uri)
        if body is not None:
            return name, body
    return None


def names_of(storage: Storage, folder: str, below: Sequence[FileInfo] | None = None) -> list[str]:
    """Return the names of the side files of a folder, newest first; some files may not be whole.

    `below` are all files of the folder, among others, if they have been listed.
    """
    if below is None:
        listed = storage.list_files(folder)
    else:
        listed = [info for info in below if info.uri.rpartition("/")[0] == folder]
    return sorted((info.name for info in listed if is_side_file(info.name)), reverse=True)


def forget(storage: Storage, folder: str, kept: Container[str | None]) -> None:
    """Remove the files of a folder except names in `kept` and names with a leading dot, which may be half written."""
    listed = storage.list_files(folder)
    gone = [info.uri for info in listed if info.name not in kept and not info.name.startswith(".")]
    storage.remove_all(gone)


def forget_before(storage: Storage, folder: str, generation: int) -> None:
    """Remove the side files of generations below `generation`; other files may be in the middle of being written."""
    listed = storage.list_files(folder)
    storage.remove_all(info.uri for info in listed if is_side_file(info.name) and generation_of(info.name) < generation)


def remove(storage: Storage, folder: str) -> None:
    """Remove a folder of side files permanently, the newest file last."""
    storage.remove_all(join(folder, name) for name in reversed(names_of(storage, folder)[1:]))
    storage.remove_folder(folder)


def is_side_file(name: str) -> bool:
    """Return True if a name has the form that `publish` gives."""
    return _NAME.fullmatch(name) is not None


def generation_of(name: str) -> int:
    """Return the generation in a side file's name."""
    return int(name.partition("-")[0])
