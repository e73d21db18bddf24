"""The registry: which tables may refer to each other's blobs, so that no cleaner takes what another table needs.

A table lists the others in ``{table}/.hoodie/blob_service/v1/registry/{hash of the other's path}/``, where the newest
side file (`hudi_vector.storage.side_files`) names the other table and says in which state it is:

    registered → leaving → left, or registered again

The cleaner of a table reads all tables that are *registered* or *leaving*. Writes keep references to blobs of tables in
whose registry their own is *registered*. *leaving* is for the time in which references are looked for: killed there,
nothing is lost. Each entry has a folder of its own, so that two registrations at once cannot undo each other.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import generation_of, newest, publish
from hudi_vector.storage.stored_values import shaped

__all__ = ["LEAVING", "LEFT", "REGISTERED", "REGISTRY", "enter", "lenders", "read_registry"]

REGISTRY = ".hoodie/blob_service/v1/registry"
REGISTERED, LEAVING, LEFT = "registered", "leaving", "left"

_KIND, _VERSION = "registered-table", 1
_LOCAL = StorageOptions()
_FOLDER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class _Listed:
    """Another table, and in which state it is."""

    table: str
    state: str
    generation: int


def read_registry(table: str, options: StorageOptions = _LOCAL) -> dict[str, str]:
    """The tables that a table lists.

    Args:
        table: The table's base path.
        options: How storage is opened.

    Returns:
        REGISTERED or LEAVING by base path, normalised; those that left are not in it.

    Raises:
        DataFileError: An entry is damaged.
        UnsupportedTableError: Another version of this package wrote one.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> enter(table, "s3a://lake/albums", REGISTERED)
        >>> read_registry(table)
        {'s3://lake/albums': 'registered'}
    """
    root = normalise(table)
    folders = open_storage(root, options).list_folders(join(root, REGISTRY))
    entries = (_entry(root, folder, options) for folder in sorted(folders))
    return {entry.table: entry.state for entry in entries if entry is not None and entry.state != LEFT}


def enter(table: str, other: str, state: str, options: StorageOptions = _LOCAL) -> None:
    """Change one entry, durable when this returns.

    Args:
        table: The base path of the table that lists.
        other: The base path of the table that is listed.
        state: REGISTERED, LEAVING or LEFT.
        options: How storage is opened.

    Raises:
        DataFileError: The entry is damaged.
        UnsupportedTableError: Another version of this package wrote it.
    """
    root, listed = normalise(table), normalise(other)
    folder = _folder_of(listed)
    known = _entry(root, folder, options)
    generation = 0 if known is None else known.generation + 1
    body = {"table": listed, "state": state}
    publish(open_storage(root, options), join(root, REGISTRY, folder), _KIND, _VERSION, generation, body)


def lenders(table: str, options: StorageOptions = _LOCAL) -> tuple[str, ...]:
    """The tables whose blobs the rows of a table may refer to.

    Args:
        table: The table's base path.
        options: How storage is opened.

    Returns:
        Their base paths, normalised: those that the table lists and that list it. One whose registry cannot be read
        now lends nothing.

    Raises:
        DataFileError: An entry of the table itself is damaged.
        UnsupportedTableError: Another version of this package wrote one.
    """
    root = normalise(table)
    return tuple(
        other
        for other, state in sorted(read_registry(root, options).items())
        if state == REGISTERED and _lends(other, root, options)
    )


def _lends(other: str, root: str, options: StorageOptions) -> bool:
    try:
        return read_registry(other, options).get(root) == REGISTERED
    except (OSError, HudiVectorError):
        return False


def _folder_of(listed: str) -> str:
    return hashlib.sha256(listed.encode()).hexdigest()[:32]


def _entry(root: str, folder: str, options: StorageOptions) -> _Listed | None:
    """The newest file of an entry: an older one could say that a table left which is registered again."""
    storage, home = open_storage(root, options), join(root, REGISTRY, folder)
    names = [info.name for info in storage.list_files(home) if info.name[:1].isdigit()]
    if not names:
        return None
    found = newest(storage, home, _KIND, _VERSION)
    if found is None or found[0] != max(names):
        raise DataFileError(
            f"the entry '{join(home, max(names))}' of the registry is damaged; register the tables again after "
            "its folder was removed"
        )
    entry = shaped(_Listed, found[1], home, generation=generation_of(found[0]))
    if (
        entry.state not in (REGISTERED, LEAVING, LEFT)
        or entry.table != normalise(entry.table)
        or folder != _folder_of(entry.table)
    ):
        raise DataFileError(
            f"'{home}' is damaged, or somebody changed it: it is not the entry of '{entry.table}'; register the tables "
            "again after its folder was removed"
        )
    return entry
