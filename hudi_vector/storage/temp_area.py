"""Folders for what an application keeps only as long as it runs, and the removal of what dead applications left.

    {directory}/hudi-vector-temp-{application}-{32 hex}/lease/{generation}-{uuid}    who it belongs to; written anew as
                                                                                     long as the application lives
    {directory}/hudi-vector-temp-{application}-{32 hex}/{uuid}.lance/…               a dataset

On a local file system, where others may use the same directory, the folder is new when it is made, nobody can tell its
name before, and only its owner may open it (mode 0700). An object store has the folders of all applications in
`hudi-vector-temp/`, and its own rules of who may read.

Nothing is removed but folders that `TempArea` made: their lease names them, and on a local file system they belong to
the same user. Another application's folder is left over when its lease is older than `LEFT_OVER_MS`, by the clock of
the storage itself.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import stat
import threading
import uuid
from typing import Any

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import forget_before, newest, publish

__all__ = ["LEFT_OVER_MS", "LIVE_MS", "TempArea", "lease_is_there"]

_LOG = logging.getLogger(__name__)

_FOLDER, _LEASE = "hudi-vector-temp", "lease"
_KIND, _VERSION = "temp", 1
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
LIVE_MS = 180_000
"""A live application writes its lease anew before so many milliseconds have passed."""
LEFT_OVER_MS = 6 * 3_600_000
"""What belongs to a lease that was not written anew for so many milliseconds is removed by others."""


class TempArea:
    """The folder of one application in a directory for temporary data, with its lease.

    Args:
        directory: The directory; it may hold other things, and need not be there.
        options: How storage is opened.
        application: What the application is called in its lease.

    Example:
        >>> area = TempArea("/tmp/join", StorageOptions(), "app-1")
        >>> place = area.new_place(".lance")
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
        self._body = {
            "application": application,
            "folder": self._name,
            "host": socket.gethostname(),
            "pid": self._owner,
        }
        self._generation = 0
        self._places: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.renew()

    @property
    def folder(self) -> str:
        """The application's folder, a normalised URI."""
        return join(self._root, self._name)

    @property
    def places(self) -> frozenset[str]:
        """The places that were given and not removed."""
        return frozenset(self._places)

    def renew(self) -> None:
        """Write the lease anew."""
        with self._lock:
            if self._closed:
                return
            self._generation += 1
            publish(self._storage, self._lease, _KIND, _VERSION, self._generation, self._body)
        forget_before(self._storage, self._lease, self._generation)

    def new_place(self, suffix: str = "") -> str:
        """A place in the folder that nobody else has: nothing is there yet.

        Args:
            suffix: How its name ends.

        Returns:
            A normalised URI.
        """
        place = join(self.folder, uuid.uuid4().hex + suffix)
        self._places.add(place)
        return place

    def remove(self, place: str) -> bool:
        """Remove what is at a place that `new_place` gave.

        Args:
            place: The place.

        Returns:
            False where it was removed before.
        """
        if place not in self._places:
            return False
        self._places.discard(place)
        return self._storage.remove_folder(place)

    def empty(self, place: str) -> bool:
        """Remove what is at a place that `new_place` gave, to which somebody may still write.

        Args:
            place: The place, which stays this area's.

        Returns:
            Whether there was anything.
        """
        return place in self._places and self._storage.remove_folder(place)

    def close(self) -> None:
        """Remove all places, and the folder with its lease last; in a process forked from the owner's, do nothing."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self._closed = True
        self._places.clear()
        _remove(self._storage, self.folder)

    def sweep(self) -> list[str]:
        """Remove what dead applications left in the same directory.

        Returns:
            The folders that were removed.
        """
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
        """Whether an application of this user may have made a folder."""
        if not self._is_local:
            return True
        return name.startswith(f"{_FOLDER}-") and _is_private(self._storage.path(join(self._root, name)))

    @property
    def _lease(self) -> str:
        return join(self.folder, _LEASE)


def lease_is_there(folder: str, options: StorageOptions) -> bool:
    """Whether this process sees the lease of an application's folder, as it does on a shared file system.

    Args:
        folder: The folder.
        options: How storage is opened.
    """
    return _names_itself(open_storage(folder, options), folder)


def _make_private(path: str) -> None:
    """Make a folder that is new and that only this user may open; a link or a folder of others is never taken."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mkdir(path, 0o700)


def _is_private(path: str) -> bool:
    """Whether a path is a folder, and no link to one, that belongs to this user and that nobody else may open."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _names_itself(storage: Storage, folder: str) -> bool:
    """Whether a folder has a lease that is of this folder: then a `TempArea` made it."""
    try:
        found: tuple[str, dict[str, Any]] | None = newest(storage, join(folder, _LEASE), _KIND, _VERSION)
    except (UnsupportedTableError, OSError):
        return False
    return found is not None and found[1].get("folder") == folder.rpartition("/")[2]


def _age_mark(storage: Storage, lease: str) -> int | None:
    """When the newest file of a lease was written, in nanoseconds by the storage's clock."""
    return max((info.mtime_ns for info in storage.list_files(lease)), default=None)


def _remove(storage: Storage, folder: str) -> None:
    """Remove a folder, its lease last, so that what a crash leaves of it is still known to be left over."""
    try:
        for name in storage.list_folders(folder):
            if name != _LEASE:
                storage.remove_folder(join(folder, name))
        storage.remove_folder(folder)
    except OSError as problem:
        _LOG.warning("temporary data in '%s' were not removed: %s", folder, problem)
