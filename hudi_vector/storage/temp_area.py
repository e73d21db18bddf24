"""Folders for an application's temporary data, and the removal of folders that dead applications left.

    {directory}/hudi-vector-temp-{application}-{32 hex}/lease/{generation}-{uuid}    the owner; renewed while the
                                                                                     application lives
    {directory}/hudi-vector-temp-{application}-{32 hex}/{uuid}/…                     a dataset

On a local file system, where other users may share the directory, the folder is created new, with an unpredictable
name, and only its owner may open it (mode 0700). On other storage the folders of all applications are in
`hudi-vector-temp/`, and the storage's own rules govern access.

Only folders that `TempArea` made are removed: their lease names them, and on a local file system they belong to the
same user. Another application's folder is left over when its lease is older than `LEFT_OVER_MS`, by the clock of the
storage itself.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import threading
import uuid
from dataclasses import dataclass

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.local_files import is_private
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import forget_before

__all__ = ["LEFT_OVER_MS", "LIVE_MS", "TempArea", "lease_is_there"]

_LOG = logging.getLogger(__name__)

_FOLDER, _LEASE = "hudi-vector-temp", "lease"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
LIVE_MS = 180_000
"""A live application renews its lease within this many milliseconds."""
LEFT_OVER_MS = 6 * 3_600_000
"""Other applications remove a folder whose lease was not renewed for this many milliseconds."""


@dataclass(frozen=True)
class _Owner:
    """The content of a lease: the folder's name, and who made it."""

    folder: str
    application: str = ""
    host: str = ""
    pid: int = 0


_OWNER = Record("temp", 1, _Owner)


class TempArea:
    """The temporary folder of one application, with its lease.

    The folder is made in `directory`, which may hold other files and is created if missing. `application` is the name
    that the lease states.

    Example:
        >>> area = TempArea("/tmp/join", StorageOptions(), "app-1")
        >>> place = area.new_place()
        >>> area.close()
    """

    def __init__(self, directory: str, options: StorageOptions, application: str) -> None:
        parent = normalise(directory)
        self._storage = open_storage(parent, options)
        self._is_local = self._storage.scheme == "file"
        self._root = parent if self._is_local else join(parent, _FOLDER)
        name = f"{_UNFIT.sub('_', application)[:80]}-{secrets.token_hex(16)}"
        self._name = f"{_FOLDER}-{name}" if self._is_local else name
        if self._is_local:
            _make_private(self._storage.path(self.folder))
        self._owner = os.getpid()
        self._named = _Owner(self._name, application, socket.gethostname(), self._owner)
        self._generation = 0
        self._places: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.renew()

    @property
    def folder(self) -> str:
        """Return the application's folder, a normalised URI."""
        return join(self._root, self._name)

    @property
    def places(self) -> frozenset[str]:
        """Return the places that were given out and not removed."""
        return frozenset(self._places)

    def renew(self) -> None:
        """Write the lease again and remove its older files; do nothing once the area is closed."""
        with self._lock:
            if self._closed:
                return
            self._generation += 1
            _OWNER.publish(self._storage, self._lease, self._named, self._generation)
        forget_before(self._storage, self._lease, self._generation)

    def new_place(self) -> str:
        """Return a new, unused normalised URI in the folder."""
        place = join(self.folder, uuid.uuid4().hex)
        self._places.add(place)
        return place

    def remove(self, place: str) -> bool:
        """Remove what is at a place from `new_place`, and forget the place; return False if nothing was removed."""
        if place not in self._places:
            return False
        self._places.discard(place)
        return self._storage.remove_folder(place)

    def empty(self, place: str) -> bool:
        """Remove what is at a place that `new_place` gave, and keep the place, since a task may still write there.

        Returns True if there was anything.
        """
        return place in self._places and self._storage.remove_folder(place)

    def close(self) -> None:
        """Remove all places, then the folder with its lease; do nothing in a process forked from the owner's."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self._closed = True
        self._places.clear()
        _remove(self._storage, self.folder)

    def sweep(self) -> list[str]:
        """Remove the folders that dead applications left in the same directory, and return the removed folders."""
        self.renew()
        now = _age_mark(self._storage, self._lease)
        removed = []
        for name in self._storage.list_folders(self._root):
            folder = join(self._root, name)
            if name == self._name or now is None or not self._may_be_ours(name):
                continue
            written = _age_mark(self._storage, join(folder, _LEASE))
            if written is None or now - written < LEFT_OVER_MS * 1_000_000 or not _names_itself(self._storage, folder):
                continue
            _remove(self._storage, folder)
            removed.append(folder)
        return removed

    def _may_be_ours(self, name: str) -> bool:
        """Return True if an application of this user may have made the folder."""
        if not self._is_local:
            return True
        return name.startswith(f"{_FOLDER}-") and is_private(self._storage.path(join(self._root, name)))

    @property
    def _lease(self) -> str:
        return join(self.folder, _LEASE)


def lease_is_there(folder: str, options: StorageOptions) -> bool:
    """Return True if this process can read the lease of an application's folder, as it can on a shared file system."""
    return _names_itself(open_storage(folder, options), folder)


def _make_private(path: str) -> None:
    """Make a new folder with mode 0700; raise FileExistsError if a link or folder has that name."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mkdir(path, 0o700)


def _names_itself(storage: Storage, folder: str) -> bool:
    """Return True if a folder holds a lease that names this folder: then a `TempArea` made it."""
    try:
        found = _OWNER.newest(storage, join(folder, _LEASE))
        return found is not None and found.value().folder == folder.rpartition("/")[2]
    except (UnsupportedTableError, DataFileError, OSError):
        return False


def _age_mark(storage: Storage, lease: str) -> int | None:
    """Return when the newest lease file was written, in nanoseconds by the storage's clock, or None."""
    return max((info.mtime_ns for info in storage.list_files(lease)), default=None)


def _remove(storage: Storage, folder: str) -> None:
    """Remove a folder, its lease last: what a crash leaves can then still be recognised as left over."""
    try:
        for name in storage.list_folders(folder):
            if name != _LEASE:
                storage.remove_folder(join(folder, name))
        storage.remove_folder(folder)
    except OSError as problem:
        _LOG.warning("temporary data in '%s' were not removed: %s", folder, problem)
