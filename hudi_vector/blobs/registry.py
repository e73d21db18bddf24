"""The registry of tables that may refer to each other's blobs; cleaners keep what registered tables refer to.

A table lists the others in ``{table}/.hoodie/blob_service/v1/registry/{hash of the other's path}/``. The newest side
file there (`hudi_vector.storage.side_files`) holds the other table's path and its state:

    registered → leaving → left, or registered again

The cleaner of a table reads all tables that are *registered* or *leaving*. A write keeps a reference to another
table's blobs only if that table lists the written table as *registered*. *leaving* covers the time during which
references are searched for, so nothing is lost if that search is killed. Each entry has a separate folder, so that
concurrent registrations do not overwrite each other.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated

from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Entry, Record
from hudi_vector.storage.stored_values import one_of

__all__ = ["LEAVING", "LEFT", "REGISTERED", "REGISTRY", "enter", "lenders", "read_registry"]

REGISTRY = ".hoodie/blob_service/v1/registry"
REGISTERED, LEAVING, LEFT = "registered", "leaving", "left"

_LOCAL = StorageOptions()
_FOLDER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class _Listed:
    """Another table and its state in the registry."""

    table: str
    state: Annotated[str, one_of(REGISTERED, LEAVING, LEFT)]


_LISTED = Record("registered-table", 1, _Listed)


def read_registry(table: str, options: StorageOptions = _LOCAL) -> dict[str, str]:
    """Return the state (REGISTERED or LEAVING) of each table that a table lists, by normalised base path.

    Tables that left are not returned. Raises DataFileError if an entry is damaged, UnsupportedTableError if another
    version of this package wrote one.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> enter(table, "s3a://lake/albums", REGISTERED)
        >>> read_registry(table)
        {'s3://lake/albums': 'registered'}
    """
    root = normalise(table)
    storage = open_storage(root, options)
    folders = sorted(storage.list_folders(join(root, REGISTRY)))
    entries = storage.each(lambda folder: _entry(root, folder, options), folders)
    listed = [entry.value() for entry in entries if entry is not None]
    return {each.table: each.state for each in listed if each.state != LEFT}


def enter(table: str, other: str, state: str, options: StorageOptions = _LOCAL) -> None:
    """Set the state of `other` (REGISTERED, LEAVING or LEFT) in the registry of `table`; durable on return.

    Raises DataFileError if the entry is damaged, UnsupportedTableError if another version of this package wrote it.
    """
    root, listed = normalise(table), normalise(other)
    folder = _folder_of(listed)
    known = _entry(root, folder, options)
    generation = 0 if known is None else known.generation + 1
    _LISTED.publish(open_storage(root, options), join(root, REGISTRY, folder), _Listed(listed, state), generation)


def lenders(table: str, options: StorageOptions = _LOCAL) -> tuple[str, ...]:
    """Return the normalised base paths of the tables whose blobs the rows of a table may refer to, sorted.

    These are the tables that are registered with this one in both directions; a table whose registry cannot be read is
    left out. Raises DataFileError if an entry of the table itself is damaged, UnsupportedTableError if another version
    of this package wrote one.
    """
    root = normalise(table)
    listed = [other for other, state in sorted(read_registry(root, options).items()) if state == REGISTERED]
    lends = open_storage(root, options).each(lambda other: _lends(other, root, options), listed)
    return tuple(other for other, is_one in zip(listed, lends, strict=True) if is_one)


def _lends(other: str, root: str, options: StorageOptions) -> bool:
    try:
        return read_registry(other, options).get(root) == REGISTERED
    except (OSError, HudiVectorError):
        return False


def _folder_of(listed: str) -> str:
    return hashlib.sha256(listed.encode()).hexdigest()[:32]


def _entry(root: str, folder: str, options: StorageOptions) -> Entry[_Listed] | None:
    """Return the checked entry in a folder of the registry, or None if the folder has no side file.

    Raises DataFileError if its newest file is damaged: an older one could say "left" for a table that registered again.
    """
    storage, home = open_storage(root, options), join(root, REGISTRY, folder)
    names = [info.name for info in storage.list_files(home) if info.name[:1].isdigit()]
    if not names:
        return None
    found = _LISTED.newest(storage, home)
    if found is None or found.name != max(names):
        raise DataFileError(
            f"the entry '{join(home, max(names))}' of the registry is damaged; register the tables again after "
            "its folder was removed"
        )
    entry = found.value()
    if entry.table != normalise(entry.table) or folder != _folder_of(entry.table):
        raise DataFileError(
            f"'{home}' is damaged, or somebody changed it: it is not the entry of '{entry.table}'; remove its "
            "folder and register the tables again"
        )
    return found
