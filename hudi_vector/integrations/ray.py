"""A datasource of Ray Data over the rows of a Hudi table with their blobs; needs the extra ``ray``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import as_count, known_arguments
from hudi_vector.blobs.samples.plan import DEFAULT_BUDGET, SamplePlan, make_plan
from hudi_vector.errors import MissingDependencyError
from hudi_vector.table.model import FileSlice
from hudi_vector.workers import balanced

try:
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata
except ImportError as absent:
    raise MissingDependencyError(
        "hudi_vector.integrations.ray needs 'ray': install it with pip install 'hudi-vector[ray]'"
    ) from absent

__all__ = ["HudiDatasource"]

_BLOCK_ROWS = 4096


class HudiDatasource(Datasource):  # type: ignore[misc]
    """Rows of a Hudi table with their blobs, for ``ray.data.read_datasource``.

    The driver lists the files at one instant. Each task finds the rows of some file slices, merges log files as Hudi
    does, and reads the blobs of its rows within the memory budget; its blocks are Arrow tables. No Spark is needed.

    Args:
        table: A Hudi table's base path, which every node of the cluster can open.
        columns: The plain columns; by default all but Hudi's own.
        blobs: The BLOB columns, which become bytes; by default all at the top level.
        filter: A condition on plain columns, in the language of `hudi_vector.search`; other rows are left out.
        as_of: An instant of the timeline, or a timestamp; by default now.
        block_rows: The largest number of rows of a block.
        memory_budget: The number of bytes of blobs in a block; a larger blob is a separate block.
        on_error: ``"raise"``, or ``"null"`` for NULL in place of bytes that cannot be read.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …), which travel to the tasks.
        zone: The zone of timestamps without one, in `filter` and `as_of`; by default UTC.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.
        UnknownColumnError: The table has no such column.
        UnsupportedTableError: Only Spark can read the table.

    Example:
        >>> photos = HudiDatasource("/tables/photos", columns=["id"], blobs=["image"])
        >>> photos.get_name(), len(photos.get_read_tasks(8))
        ('Hudi', 1)
    """

    @known_arguments()
    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        blobs: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - as searches call it
        as_of: Any = None,
        block_rows: int = _BLOCK_ROWS,
        memory_budget: int = DEFAULT_BUDGET,
        on_error: str = "raise",
        storage_options: Mapping[str, str] | None = None,
        zone: str | None = None,
    ) -> None:
        super().__init__()
        self._block_rows = as_count(block_rows, "block_rows") or _BLOCK_ROWS
        self._plan = make_plan(
            table,
            columns=columns,
            blobs=blobs,
            filter=filter,
            as_of=as_of,
            memory_budget=memory_budget,
            on_error=on_error,
            storage_options=storage_options,
            zone=zone,
        )

    @property
    def instant(self) -> str | None:
        """Return the newest instant of the rows; None if the table has no commit yet."""
        return self._plan.instant

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes of the files of the table, without the containers of blobs, which are not listed."""
        return self._plan.snapshot.size

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[Any]:
        """Return at most `parallelism` tasks, each for some file slices of about the same size together.

        Args:
            parallelism: How many tasks Ray wants; a file slice is not divided.
            per_task_row_limit: The number of rows after which Ray stops a task.
            data_context: Ray's settings, which are not needed.

        Returns:
            The tasks, none for a table without files.
        """
        del data_context
        slices = self._plan.snapshot.file_slices
        groups = balanced([each.size for each in slices], min(len(slices), max(1, parallelism))) if slices else []
        return [self._task(tuple(slices[number] for number in sorted(group)), per_task_row_limit) for group in groups]

    def _task(self, slices: tuple[FileSlice, ...], row_limit: int | None) -> Any:
        files = tuple(file.uri for each in slices for file in each.files)
        metadata = BlockMetadata(
            num_rows=None, size_bytes=sum(each.size for each in slices), input_files=files, exec_stats=None
        )
        return ReadTask(_Read(self._plan, slices, self._block_rows), metadata, per_task_row_limit=row_limit)


@dataclass(frozen=True)
class _Read:
    """The work of one task."""

    plan: SamplePlan
    slices: tuple[FileSlice, ...]
    block_rows: int

    def __call__(self) -> Iterator[pa.Table]:
        for each in self.slices:
            index = self.plan.index([each])
            for start in range(0, len(index), self.block_rows):
                yield from index.pieces(np.arange(start, min(start + self.block_rows, len(index))))
