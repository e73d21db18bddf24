"""Conversion of the blob columns of record batches during a write: bytes go to containers, references replace them.

`BlobWriter.convert` writes bytes to containers and returns references to them at once; the bytes are durable only
after `BlobWriter.close` has returned. Waiting for each batch would make containers as small as batches. This is safe
because a task's output is used only if the task succeeds: the caller closes the writer before its task ends, and if
`close` fails, the task fails and its references are dropped. Hudi's commit comes after all tasks.

Files of a failed task stay in the write's folder, where a cleaner finds them through the write's open manifest
(`hudi_vector.blobs.uploads.manifest`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.containers.byte_values import ByteValues, Ints
from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.containers.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.names import is_write_id, reference_base
from hudi_vector.blobs.nested import replace_column
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.incoming import BatchPlace, Incoming, take_apart
from hudi_vector.blobs.storing.placement import IN_CONTAINER, IN_OWN_FILE, IN_ROW, place
from hudi_vector.blobs.storing.references import ReferenceRules, checked
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE, BlobColumns
from hudi_vector.blobs.uploads.external_files import Pins
from hudi_vector.blobs.uploads.side_tables import SideTable
from hudi_vector.errors import BlobWriteError, InvalidArgumentError, UnknownColumnError
from hudi_vector.storage import StorageOptions, join, normalise

__all__ = ["BlobColumn", "BlobWritePlan", "BlobWriter", "TaskAttempt"]


@dataclass(frozen=True)
class BlobColumn:
    """A column that holds blobs: its dotted path and settings.

    `check_files` says whether referenced files must exist and be long enough.
    """

    path: str
    settings: BlobSettings = field(default_factory=BlobSettings)
    check_files: bool = True


@dataclass(frozen=True)
class BlobWritePlan:
    """The serialisable instructions for one write of blobs in its tasks.

    `table` is the base path as references are to spell it. `partition_column` names a text column with the partition
    path of each row; None if the table has no partitions. `most_open` is the largest number of containers that one task
    keeps open; rows sorted by partition make larger containers. `lenders` are the normalised base paths of the tables
    to whose blobs references may point.
    """

    table: str
    write_id: str
    columns: tuple[BlobColumn, ...]
    partition_column: str | None = None
    most_open: int = 32
    lenders: tuple[str, ...] = ()
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    def __post_init__(self) -> None:
        if not is_write_id(self.write_id):
            raise InvalidArgumentError(f"'{self.write_id}' is no write id; take that of open_upload")
        if self.most_open < 1:
            raise InvalidArgumentError(f"most_open = {self.most_open} is not allowed: give 1 or more containers")
        paths = [column.path for column in self.columns]
        for path in paths:
            if "/" in path or not all(path.split(".")):
                raise InvalidArgumentError(f"'{path}' is no path of a column, such as 'img' or 'doc.img'")
            if paths.count(path) > 1:
                raise InvalidArgumentError(f"blob column '{path}' is named more than once; name it once")


class BlobWriter:
    """The converter of one task attempt's batches; as a context manager it closes its files after a failure."""

    def __init__(self, plan: BlobWritePlan, task: TaskAttempt) -> None:
        """Prepare the writer without opening a file; no other attempt may share the names of `task`."""
        self._plan = plan
        self._table = normalise(plan.table)
        self._shown = reference_base(plan.table)
        self._pins = Pins()
        self._pool = ContainerPool(self._table, plan.write_id, task, plan.most_open, plan.options)
        self._rows = 0
        self._ended = False

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Store the blobs of a batch; return the rows with blob structs, marked as BLOB in their field's metadata.

        Blob columns are bytes (binary of any kind), paths of files (text) or blob structs, which can mix both. NULL
        stays NULL. References to containers are valid only after `close` has returned. Raises InvalidBlobError if the
        fields of a blob contradict each other or its reference is not allowed or points to nothing, UnknownColumnError
        if a column of the plan is not in the batch, BlobWriteError if bytes could not be stored.

        Example:
            >>> import tempfile
            >>> from hudi_vector.blobs.names import new_write_id
            >>> column = BlobColumn("img", BlobSettings(inline_threshold=3))
            >>> writer = BlobWriter(BlobWritePlan(tempfile.mkdtemp(), new_write_id(0), (column,)), TaskAttempt(0, 0))
            >>> converted = writer.convert(pa.record_batch({"img": [b"ab", b"abc", None]}))
            >>> [made.blobs for made in writer.close()]
            [1]
            >>> [blob and blob["type"] for blob in converted["img"].to_pylist()]
            ['INLINE', 'OUT_OF_LINE', None]
        """
        self._require_open()
        try:
            partitions = self._partitions(batch)
            for column in self._plan.columns:
                convert = partial(self._converted, column=column, partitions=partitions)
                batch = replace_column(batch, column.path, convert, self._plan.table)
        except BaseException:
            self.discard()
            raise
        self._rows += batch.num_rows
        return batch

    def close(self) -> list[WrittenContainer]:
        """Make all bytes durable; return the containers that the converted rows refer to.

        Raises BlobWriteError if bytes could not be made durable or are not where their references say; then no
        converted row may be kept.
        """
        self._require_open()
        self._ended = True
        return self._pool.close()

    def pinned(self) -> SideTable | None:
        """Publish the pins of referenced files next to the write's manifest, durable on return.

        Return the file, or None if nothing was pinned.
        """
        return self._pins.publish(self._table, self._plan.write_id, self._plan.options)

    def discard(self) -> None:
        """Close all files after a failure; no converted row may be kept."""
        self._ended = True
        self._pool.discard()

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self.discard()

    def _require_open(self) -> None:
        if self._ended:
            raise BlobWriteError("this blob writer has ended, by close or by a failure; make another for a new attempt")

    def _partitions(self, batch: pa.RecordBatch) -> pa.DictionaryArray:
        """Return the partition path of each row, "" without a partition column.

        Raises UnknownColumnError if the partition column is absent, InvalidArgumentError if it holds NULL or invalid
        paths.
        """
        name = self._plan.partition_column
        if name is None:
            return pa.array([""]).dictionary_encode().take(pa.array(np.zeros(batch.num_rows, np.int32)))
        if name not in batch.schema.names:
            raise UnknownColumnError.of(name, batch.schema.names, self._plan.table)
        encoded = batch.column(name).cast(pa.string()).dictionary_encode()
        if encoded.null_count:
            raise InvalidArgumentError(f"column '{name}' holds the partition paths and is NULL in a row")
        for path in encoded.dictionary.to_pylist():
            if path and {"", ".", ".."} & set(path.split("/")):
                raise InvalidArgumentError(f"'{path}' in column '{name}' is no partition path, such as 'year=2026/m=1'")
        return encoded

    def _converted(self, array: pa.Array, column: BlobColumn, partitions: pa.DictionaryArray) -> pa.StructArray:
        spot = BatchPlace(column.path, self._rows)
        relative = column.settings.paths == "relative"
        area, pin_all = BlobArea(self._table, self._plan.lenders), column.settings.pin == "true"
        rules = ReferenceRules(area, relative, column.check_files, self._plan.options, self._pins, pin_all)
        incoming = checked(take_apart(array, spot), rules, spot)
        sizes = np.asarray(pc.fill_null(pc.binary_length(incoming.values).cast(pa.int64()), -1))
        places = place(sizes, column.settings)
        moved = _Moved(len(array))
        for where in (IN_CONTAINER, IN_OWN_FILE):
            for partition, rows in _by_partition(np.flatnonzero(places == where), partitions):
                values = ByteValues.of(incoming.values, rows)
                parts, offsets = self._pool.store(
                    partition, column.path, column.settings, values, alone=where == IN_OWN_FILE
                )
                moved.note(rows, parts, offsets)
        return _structs(incoming, places == IN_ROW, sizes, moved, "" if relative else self._shown).array()


class _Moved:
    """The rows that went to containers.

    `code` is the index of each row's container in `paths`, -1 for other rows; `offset` is the position in that
    container.
    """

    def __init__(self, rows: int) -> None:
        self.paths: list[str] = []
        self.code = np.full(rows, -1, np.int32)
        self.offset = np.zeros(rows, np.int64)

    def note(self, rows: Ints, parts: list[tuple[str, int]], offsets: Ints) -> None:
        first = len(self.paths)
        self.paths += [path for path, _ in parts]
        self.code[rows] = np.repeat(np.arange(first, len(self.paths)), [number for _, number in parts])
        self.offset[rows] = offsets


def _by_partition(rows: Ints, partitions: pa.DictionaryArray) -> list[tuple[str, Ints]]:
    """Return the rows of each partition, in their order."""
    if not len(rows):
        return []
    code = np.asarray(partitions.indices)[rows]
    order = np.argsort(code, kind="stable")
    groups = np.split(rows[order], np.flatnonzero(np.diff(code[order])) + 1)
    return [(partitions[int(group[0])].as_py(), group) for group in groups]


def _structs(incoming: Incoming, inline: npt.NDArray[np.bool_], sizes: Ints, moved: _Moved, table: str) -> BlobColumns:
    """Return the blobs, with references to containers for the moved rows; other rows stay as given."""
    outside = moved.code >= 0
    gone = pa.array(outside)
    paths = pa.array([join(table, path) if table else path for path in moved.paths], pa.string())
    refers = np.asarray(pc.is_valid(incoming.path)) | outside
    kind = np.where(inline, 0, np.where(refers, 1, 2))
    return BlobColumns(
        kind=pa.array([INLINE, OUT_OF_LINE, None], pa.string()).take(pa.array(kind)),
        data=_inline_data(incoming.values, inline),
        path=pc.if_else(gone, paths.take(pa.array(moved.code, mask=~outside)), incoming.path),
        offset=pc.if_else(gone, pa.array(moved.offset), incoming.offset),
        length=pc.if_else(gone, pa.array(sizes), incoming.length),
        managed=pc.if_else(gone, True, incoming.managed),
    )


def _inline_data(values: pa.Array, inline: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    # If no bytes went out of line, the batch's array is used without a copy.
    kept = values if inline.sum() == len(values) - values.null_count else pc.if_else(inline, values, None)
    try:
        return kept.cast(pa.binary())
    except pa.ArrowInvalid as problem:
        raise BlobWriteError(
            f"the inline blobs of one batch have {kept.nbytes} bytes, more than the 2 GB of an Arrow array; "
            "lower spark.sql.execution.arrow.maxRecordsPerBatch"
        ) from problem
