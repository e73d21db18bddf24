"""The durable record of an erasure: the containers that held bytes of some keys, and when all bytes were gone.

The record is the newest whole side file of ``{table}/.hoodie/blob_service/v1/erasures/{erasure id}/``. It has one of
two states:

    open → complete

It contains no key, only a salted hash of all keys together, so that someone who has the keys can prove that the
record is about them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated

from hudi_vector.blobs.names import is_write_id, new_write_id
from hudi_vector.storage import Storage, join
from hudi_vector.storage.records import Record
from hudi_vector.storage.stored_values import one_of

__all__ = [
    "COMPLETE",
    "ERASURES",
    "OPEN",
    "ErasureRecord",
    "find_newest",
    "find_open",
    "publish_record",
    "read_erasure",
]

ERASURES = ".hoodie/blob_service/v1/erasures"
OPEN, COMPLETE = "open", "complete"


@dataclass(frozen=True)
class ErasureRecord:
    """An erasure; times are in milliseconds since 1970, UTC.

    Attributes:
        table: The table's base path, normalised.
        erasure_id: The record's id: the time it was opened, followed by random characters.
        state: OPEN or COMPLETE.
        salt: Random text.
        digest: SHA-256 of the salt and the keys.
        keys: The number of keys.
        containers: The files of the blob area that rows of the keys have referred to, relative to the table's folder.
        suspects: Files that may hold bytes of the keys, although no row shows whose bytes they hold: files to which
            nothing referred at a look during which rows of the keys may have changed, containers that were new and
            partly unreferenced at such a look, and files that were in the trash, staged or half published then.
        opened_ms: When the record was opened.
        rows_ms: When the last look began if it found rows of the keys or had a doubt; 0 if it did neither.
        completed_ms: When no file held any of the bytes; 0 until then.
        identity: The timeline's identity at that time.
        not_looked_at: What the last look did not search, relative to the table's folder.
        generation: The generation of the side file that the record was read from; -1 for a new record.
    """

    table: str
    erasure_id: str
    state: Annotated[str, one_of(OPEN, COMPLETE)]
    salt: str
    digest: str
    keys: int
    containers: tuple[str, ...]
    suspects: tuple[str, ...]
    opened_ms: int
    rows_ms: int = 0
    completed_ms: int = 0
    identity: str = ""
    not_looked_at: tuple[str, ...] = ()
    generation: int = -1

    @classmethod
    def new(cls, table: str, keys: Collection[str], now_ms: int) -> ErasureRecord:
        """Make an open record with a new id and salt; it is not published yet."""
        salt = secrets.token_hex(16)
        return cls(table, new_write_id(now_ms), OPEN, salt, _digest(salt, keys), len(set(keys)), (), (), now_ms, now_ms)

    def is_of(self, keys: Collection[str]) -> bool:
        """Return True if the record is about exactly these keys."""
        return self.digest == _digest(self.salt, keys)


_RECORD = Record("erasure", 1, ErasureRecord, elsewhere=("table", "erasure_id", "generation"))


def find_open(storage: Storage, table: str, keys: Collection[str]) -> ErasureRecord | None:
    """Return the open record about exactly these keys, or None; raise as `find_newest` does."""
    found = find_newest(storage, table, keys)
    return found if found is not None and found.state == OPEN else None


def find_newest(storage: Storage, table: str, keys: Collection[str]) -> ErasureRecord | None:
    """Return the newest record about exactly these keys, or None.

    Raise DataFileError if a record is damaged, and UnsupportedTableError if another version of this package wrote one.
    """
    for erasure_id in sorted(storage.list_folders(join(table, ERASURES)), reverse=True):
        found = read_erasure(storage, table, erasure_id)
        if found is not None and found.is_of(keys):
            return found
    return None


def read_erasure(storage: Storage, table: str, erasure_id: str) -> ErasureRecord | None:
    """Return a record, or None if the id is not valid or has no whole side file.

    Raise DataFileError if the record is damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    found = _RECORD.newest(storage, join(table, ERASURES, erasure_id)) if is_write_id(erasure_id) else None
    if found is None:
        return None
    found.body.setdefault("rows_ms", found.body.get("opened_ms"))  # older records lack rows_ms
    return found.value(table=table, erasure_id=erasure_id)


def publish_record(storage: Storage, record: ErasureRecord) -> ErasureRecord:
    """Make a record's present state durable, and return the record with its new generation."""
    published = replace(record, generation=record.generation + 1)
    _RECORD.publish(storage, join(record.table, ERASURES, record.erasure_id), record, published.generation)
    return published


def _digest(salt: str, keys: Collection[str]) -> str:
    # The length before each key makes the text unambiguous, whatever characters the keys contain.
    text = "".join(f"{len(key)}:{key}" for key in sorted(set(keys)))
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()
