"""The snapshots of micro-batches, stored in the checkpoint, so that a repeated batch is searched at the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import forget_before, generation_of, is_side_file
from hudi_vector.table.instants import Moment

__all__ = ["Pins"]

_FOLDER = "hudi_vector_snapshots"
_KEPT = 100  # micro-batches; Spark keeps the same number by default


@dataclass(frozen=True)
class _Noted:
    """The content of a side file."""

    moment: str


_NOTED = Record("stream-snapshot", 1, _Noted)


class Pins:
    """The stored moments of one query and one table.

    Args:
        checkpoint: The query's checkpoint, a normalised URI.
        table: The table's URI.
        options: The settings of the checkpoint's storage.
    """

    def __init__(self, checkpoint: str, table: str, options: StorageOptions) -> None:
        self._storage: Storage = open_storage(checkpoint, options)
        self._folder = join(checkpoint, _FOLDER, hashlib.sha256(table.encode()).hexdigest()[:16])

    def of_batch(self, number: int, choose: Callable[[], Moment]) -> Moment:
        """Return the moment stored for a micro-batch; if there is none, call `choose` and store its result."""
        noted = self._noted(number)
        if noted is not None:
            return noted
        _NOTED.publish(self._storage, self._folder, _Noted(choose().text), number)
        forget_before(self._storage, self._folder, number - _KEPT)
        # The oldest file counts: a driver that was taken for dead may have stored another moment in between.
        noted = self._noted(number)
        assert noted is not None
        return noted

    def _noted(self, number: int) -> Moment | None:
        files = (info for info in self._storage.list_files(self._folder) if is_side_file(info.name))
        for info in sorted(files, key=lambda info: (info.mtime_ns, info.name)):
            if generation_of(info.name) == number:
                found = _NOTED.read(self._storage, info.uri)
                if found is not None:
                    return Moment.parse(found.value().moment)
        return None
