"""The durable record of an erasure: which containers held the bytes of some keys, and when all of it was gone.

It is the newest whole side file of ``{table}/.hoodie/blob_service/v1/erasures/{erasure id}/``, in one of two states:

    open → complete

It names no key, only a salted hash of all of them together: whoever has the keys can prove that they were meant.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from hudi_vector.blobs.names import is_write_id, new_write_id
from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import generation_of, newest, publish
from hudi_vector.storage.stored_values import shaped

__all__ = ["COMPLETE", "ERASURES", "OPEN", "ErasureRecord", "find_open", "publish_record", "read_erasure"]

ERASURES = ".hoodie/blob_service/v1/erasures"
OPEN, COMPLETE = "open", "complete"

_KIND, _VERSION = "erasure", 1


@dataclass(frozen=True)
class ErasureRecord:
    """An erasure; times in milliseconds since 1970, UTC.

    Attributes:
        table: The table's base path, normalised.
        erasure_id: Its name: the time it was opened and random bits.
        state: OPEN or COMPLETE.
        salt: Random text.
        digest: SHA-256 of the salt and the keys.
        keys: How many keys there are.
        containers: The files of the blob area that rows of the keys have referred to, by their paths from the table's
            folder.
        suspects: Those of which nobody can say whose bytes they hold: at a look during which rows of the keys may have
            changed, nothing referred to them, or they were new and nothing referred to a part of them. What was staged
            or half published then is among them.
        opened_ms: When it was opened.
        rows_ms: When the last look began, if it saw rows of the keys or was in doubt; 0 if it did neither.
        completed_ms: When nothing held any byte, 0 until then.
        identity: The timeline's identity at that time.
        not_looked_at: What lies below the table's folder and was not looked at, from there, of the last look.
        generation: Of the side file that this was read from, −1 for none.
    """

    table: str
    erasure_id: str
    state: str
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
        """A record that was not published yet."""
        salt = secrets.token_hex(16)
        return cls(table, new_write_id(now_ms), OPEN, salt, _digest(salt, keys), len(set(keys)), (), (), now_ms, now_ms)

    def is_of(self, keys: Collection[str]) -> bool:
        """Whether it is about exactly these keys."""
        return self.digest == _digest(self.salt, keys)


def find_open(storage: Storage, table: str, keys: Collection[str]) -> ErasureRecord | None:
    """The newest open record about some keys.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        keys: The keys.

    Raises:
        DataFileError: A record says what no erasure says.
        UnsupportedTableError: Another version of this package wrote a record.
    """
    for erasure_id in sorted(storage.list_folders(join(table, ERASURES)), reverse=True):
        found = read_erasure(storage, table, erasure_id)
        if found is not None and found.state == OPEN and found.is_of(keys):
            return found
    return None


def read_erasure(storage: Storage, table: str, erasure_id: str) -> ErasureRecord | None:
    """A record, None where there is none that is whole.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        erasure_id: Its id.

    Raises:
        DataFileError: It says what no erasure says.
        UnsupportedTableError: Another version of this package wrote it.
    """
    folder = join(table, ERASURES, erasure_id)
    found = newest(storage, folder, _KIND, _VERSION) if is_write_id(erasure_id) else None
    if found is None:
        return None
    body: dict[str, Any] = found[1]
    body.setdefault("rows_ms", body.get("opened_ms"))  # records of before there was such a time
    record = shaped(ErasureRecord, body, folder, table=table, erasure_id=erasure_id, generation=generation_of(found[0]))
    if record.state not in (OPEN, COMPLETE):
        raise DataFileError(f"'{folder}' is damaged, or somebody changed it: {record.state!r} is not its state")
    return record


def publish_record(storage: Storage, record: ErasureRecord) -> ErasureRecord:
    """Make the present state of a record durable.

    Args:
        storage: The table's storage.
        record: The record.

    Returns:
        It, with its new generation.
    """
    body: dict[str, Any] = asdict(record)
    del body["table"], body["erasure_id"], body["generation"]
    folder = join(record.table, ERASURES, record.erasure_id)
    publish(storage, folder, _KIND, _VERSION, record.generation + 1, body)
    return replace(record, generation=record.generation + 1)


def _digest(salt: str, keys: Collection[str]) -> str:
    # Lengths keep ["a", "b"] and ["a b"] apart, whatever stands in a key.
    text = "".join(f"{len(key)}:{key}" for key in sorted(set(keys)))
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()
