"""The open containers of one task: one for each table partition and column, up to a limit."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.container import OpenContainer, WrittenContainer
from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.container_formats import FORMATS
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions

__all__ = ["ContainerPool", "TaskAttempt"]


@dataclass(frozen=True)
class TaskAttempt:
    """The writing task: the number of its partition, and the attempt's id, unique within the Spark application."""

    partition: int
    attempt: int


@dataclass
class _Filling:
    path: str
    partition: str
    column: str
    container: OpenContainer


class ContainerPool:
    """The containers into which one task stores bytes; a full container is closed and the next one opened.

    No two containers have one name: it has the write's id, which is random, and the number of the task attempt, which
    Spark gives once. So an object store is not asked whether a name is taken, which a local disk refuses by itself.
    """

    def __init__(
        self,
        table: str,
        write_id: str,
        task: TaskAttempt,
        most_open: int,
        options: StorageOptions,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """Prepare the pool without opening a file.

        Args:
            table: The table's normalised URI.
            write_id: The write's id.
            task: The task attempt.
            most_open: The largest number of open containers; beyond it, the least recently used one is closed.
            options: Hadoop's storage settings.
            numbers: The numbers of the containers, shared between the pools of one attempt; None to count from 0.
        """
        self._table = table
        self._write_id = write_id
        self._task = task
        self._most_open = most_open
        self._options = options
        self._numbers = count() if numbers is None else numbers
        self._open: OrderedDict[tuple[str, str, bool], _Filling] = OrderedDict()
        self._written: list[WrittenContainer] = []

    def store(
        self, partition: str, column: str, settings: BlobSettings, values: ByteValues, alone: bool
    ) -> tuple[list[tuple[str, int]], Ints]:
        """Append one or more values to the containers of a partition and column.

        With `alone`, each value gets a separate file. Return the containers' paths relative to the table, each with the
        number of consecutive values stored there, and the position of each value in its file (bytes, int64). Raises
        BlobWriteError if the bytes cannot be stored.
        """
        parts: list[tuple[str, int]] = []
        offsets, done = np.empty(len(values), np.int64), 0
        key = (partition, column, alone)
        while done < len(values):
            filling = self._filling(key, settings)
            room = 1 if alone else filling.container.room(values.lengths[done:])
            if room:
                with _naming(filling.path):
                    offsets[done : done + room] = filling.container.append(values.part(done, done + room))
                parts.append((filling.path, room))
                done += room
            if alone or not room:
                self._finish(self._open.pop(key))
        return parts, offsets

    def close(self) -> list[WrittenContainer]:
        """Make all containers durable; return every container of the pool, including those closed before.

        Raises BlobWriteError if a container cannot be made durable; the others are then discarded.
        """
        try:
            while self._open:
                self._finish(self._open.popitem(last=False)[1])
        except BaseException:
            self.discard()
            raise
        return self._written

    def discard(self) -> None:
        """Close all open containers after a failure, ignoring OSErrors."""
        while self._open:
            with contextlib.suppress(OSError):
                self._open.popitem()[1].container.discard()

    def _filling(self, key: tuple[str, str, bool], settings: BlobSettings) -> _Filling:
        """Return the open container of a key, opening one if needed."""
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        if len(self._open) >= self._most_open:
            self._finish(self._open.popitem(last=False)[1])
        partition, column, _ = key
        name = ContainerName(
            partition,
            column,
            self._write_id,
            self._task.partition,
            self._task.attempt,
            next(self._numbers),
            FORMATS[settings.format].extension,
        )
        uri = name.uri(self._table)
        path = uri[len(self._table) + 1 :]
        with _naming(path):
            self._open[key] = _Filling(path, partition, column, OpenContainer(uri, settings, self._options))
        return self._open[key]

    def _finish(self, filling: _Filling) -> None:
        try:
            with _naming(filling.path):
                self._written.append(filling.container.close(filling.path, filling.partition, filling.column))
        except BaseException:
            with contextlib.suppress(OSError):
                filling.container.discard()
            raise


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise an OSError of the block as BlobWriteError that names the container."""
    try:
        yield
    except BlobWriteError:
        raise
    except OSError as problem:
        raise BlobWriteError(f"the container '{path}' cannot be written: {problem}") from problem
