"""The deny-list: salted hashes of the record keys that were erased from a table.

It is the newest whole side file of ``{table}/.hoodie/blob_service/v1/erased_keys/``. Each addition publishes the whole
list again, with the salt that the table got with its first one. The salt lies next to the hashes: it makes lists of two
tables incomparable, and does not stop someone who can read the table from trying all keys of a small set.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import forget_before, names_of
from hudi_vector.storage.stored_values import has_form

__all__ = ["ERASED_KEYS", "ErasedKeys", "add_erased", "read_erased"]

ERASED_KEYS = ".hoodie/blob_service/v1/erased_keys"

_LOCAL = StorageOptions()
_SALT_BYTES = 32
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_Hex = Annotated[str, has_form("hash", _HEX)]
_FILES_KEPT = 2  # a writer may have listed the previous file and not read it yet


@dataclass(frozen=True)
class ErasedKeys:
    """A table's deny-list.

    Attributes:
        salt: 32 random bytes in hexadecimal, drawn once for each table.
        digests: SHA-256 of the salt's text and a key, in hexadecimal, each once, sorted.
        generation: The generation of the side file that the list was read from; -1 for a new list.
    """

    salt: _Hex
    digests: tuple[_Hex, ...] = ()
    generation: int = -1

    def digest(self, key: str) -> str:
        """Return the salted hash of a key.

        Example:
            >>> ErasedKeys("0" * 64).digest("cat")[:8]
            'fea005a6'
        """
        return hashlib.sha256(f"{self.salt}{key}".encode()).hexdigest()

    def lacks(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that are not in the list."""
        held = frozenset(self.digests)
        return [key for key in keys if self.digest(key) not in held]


_RECORD = Record("erased-keys", 1, ErasedKeys, elsewhere=("generation",))


def read_erased(table: str, options: StorageOptions = _LOCAL) -> ErasedKeys | None:
    """Return the deny-list of a table, given by its base path, or None if no key of it was erased.

    Raise DataFileError if the newest list is damaged: an older one would let a person in again. Raise
    UnsupportedTableError if another version of this package wrote it.
    """
    root = normalise(table)
    return _read(open_storage(root, options), root)


def add_erased(table: str, keys: Iterable[str], options: StorageOptions = _LOCAL) -> int:
    """Add keys to the deny-list of a table, given by its base path, and return how many were not in it.

    The list is durable on return. The caller holds the lease of the table's erasures. Raise as `read_erased` does.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> add_erased(table, ["cat", "dog"]), add_erased(table, ["dog"])
        (2, 0)
        >>> read_erased(table).lacks(["cat", "cow"])
        ['cow']
    """
    root = normalise(table)
    storage, folder = open_storage(root, options), join(root, ERASED_KEYS)
    known = _read(storage, root) or ErasedKeys(secrets.token_hex(_SALT_BYTES))
    new = {known.digest(key) for key in known.lacks(set(keys))}
    if new:
        digests = tuple(sorted({*known.digests, *new}))
        generation = known.generation + 1
        _RECORD.publish(storage, folder, ErasedKeys(known.salt, digests, generation), generation)
        forget_before(storage, folder, generation - _FILES_KEPT + 1)
    return len(new)


def _read(storage: Storage, root: str) -> ErasedKeys | None:
    folder = join(root, ERASED_KEYS)
    names = names_of(storage, folder)
    found = _RECORD.newest(storage, folder, names) if names else None
    if names and (found is None or found.name != max(names)):
        raise DataFileError(
            f"the list of erased keys '{join(folder, max(names))}' is damaged; remove the folder and erase the keys "
            "again, or the persons may come back"
        )
    return None if found is None else found.value()
