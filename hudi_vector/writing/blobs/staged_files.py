"""The files in which rows wait for Hudi or for a later step: each task writes one, under its final name, and names it.

On an object store, short lists of rows come home with their tasks: the driver has them without a read, and sends their
files when the list is noted, together with the note.

Files that no successful task named are left-overs of failed attempts: they are not read, and go with their folder.
Spark's own writer would rename each file several times, which an object store does by a hundred requests in turn.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Accumulator, AccumulatorParam, TaskContext
from pyspark.sql.types import StructType

from hudi_vector.blobs.containers.pool import TaskAttempt
from hudi_vector.errors import DataFileError
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.local_rows import no_rows
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.storage import NewFile, StorageOptions, join, normalise, open_storage, scheme_of
from hudi_vector.storage.records import json_of
from hudi_vector.storage.side_files import seal, unseal
from hudi_vector.storage.stored_values import has_form, value_of
from hudi_vector.writing.failures import in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NOTHING", "Lists", "RowsFile", "StagedFile", "StagedList", "noted_list", "read_staged", "stage_list"]

_GLOBS = "__globPaths__"  # or [ and { in the path of a table are taken for patterns
_MADE_BY = "org.apache.spark.version"
_SMALL_BYTES = 1 << 20
"""Spark reads a file of an object store by seven requests. Files that are smaller on average are read by one each."""

_READ_TOGETHER = 32
_HOME_BYTES, _MOST_HOME_BYTES = 256 << 10, 4 << 20
"""The largest file of a list that a task sends to the driver, and how many bytes of one list the driver holds."""
_NOTE, _KIND, _VERSION = "_files", "staged-list", 1  # Spark reads no file whose name begins with _
_LEAST_TASKS = "spark.sql.files.minPartitionNum"
_LEAST_OF_LEAVES = "spark.sql.leafNodeDefaultParallelism"
_FILE = re.compile(r"part-\d{5,}-\d+(-[0-9a-f]{32})?\.parquet", re.ASCII)
NOTHING = "nothing boolean"
"""The schema of a stage that yields no rows."""


@dataclass(frozen=True)
class StagedFile:
    """A whole file of staged rows: its name, and its size in bytes."""

    # The process that ends a killed one reads files of these names.
    name: Annotated[str, has_form("staged file", _FILE)]
    bytes: int


class RowsFile:
    """The file of one task attempt, in its write's staging folder; it is made with the first rows."""

    def __init__(
        self,
        folder: str,
        task: TaskAttempt,
        options: StorageOptions,
        spark_version: str,
        token: str | None = None,
        most_home: int = 0,
    ) -> None:
        """Keep the names; no file is made.

        Args:
            folder: The staging folder, in any spelling.
            task: The task attempt.
            options: Hadoop's storage settings.
            spark_version: The version of Spark that reads the file.
            token: A text for the file's name, where other processes may have left files in the folder; such a file is
                still there after a crash of the machine, so that another process can go on.
            most_home: A file of no more bytes is not made, but is the `content` afterwards.
        """
        self._name = f"part-{task.partition:05d}-{task.attempt}{f'-{token}' if token else ''}.parquet"
        self._uri = join(normalise(folder), self._name)
        self._options, self._version, self._durable = options, spark_version, token is not None
        self._most_home = most_home
        self._file: Any = None
        self._writer: Any = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows as one row group."""
        schema = _all_nullable(rows.schema)
        if self._writer is None:
            # Where a file names no version, Spark refuses dates before 1582: the calendar may be another.
            schema = schema.with_metadata({**(schema.metadata or {}), _MADE_BY: self._version})
            self._file = _HomeFile(self._most_home, self._created) if self._most_home else self._created()
            self._writer = pq.ParquetWriter(
                self._file.stream, schema, compression="lz4", use_dictionary=False, write_statistics=False
            )
        self._writer.write_table(pa.Table.from_batches([rows]).cast(schema))

    def close(self) -> list[StagedFile]:
        """Finish the file, and return it; no file if there were no rows."""
        if self._writer is None:
            return []
        self._writer.close()
        size = int(self._file.stream.tell())
        self._file.close(self._durable)
        return [StagedFile(self._name, size)]

    @property
    def content(self) -> bytes | None:
        """Return the content of a finished file that was not made; None if it was, or if there were no rows."""
        return self._file.content if isinstance(self._file, _HomeFile) else None

    def _created(self) -> NewFile:
        return open_storage(self._uri, self._options).create(self._uri, unique=True)

    def discard(self) -> None:
        """Close the file after a failure; no one will read it."""
        if self._file is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()  # otherwise it would try later to write its footer into a closed file
            with contextlib.suppress(OSError):
                self._file.discard()


class _HomeFile:
    """A file that is held in memory until it has more than `most` bytes, and is then made by `created`."""

    closed = False

    def __init__(self, most: int, created: Callable[[], NewFile]) -> None:
        self._most, self._created = most, created
        self._held = io.BytesIO()
        self._size = 0
        self._file: NewFile | None = None

    @property
    def stream(self) -> _HomeFile:
        """Return what the writer of rows writes to."""
        return self

    @property
    def content(self) -> bytes | None:
        """Return the whole content, None if the file was made."""
        return self._held.getvalue() if self._file is None else None

    def write(self, content: bytes) -> int:
        """Append bytes."""
        self._size += len(content)
        if self._file is None and self._size > self._most:
            self._file = self._created()
            self._file.write(self._held.getbuffer())
        if self._file is None:
            self._held.write(content)
        else:
            self._file.write(content)
        return len(content)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Do nothing: the end of the file is what matters."""

    def close(self, durable: bool = True) -> None:
        """Close the file if it was made, as `NewFile.close` does."""
        if self._file is not None:
            self._file.close(durable)

    def discard(self) -> None:
        """Close the file after a failure."""
        if self._file is not None:
            self._file.discard()


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema without fields that cannot be NULL: within a NULL struct, Arrow has NULL in these too."""
    return pa.schema([_nullable_field(field) for field in schema], schema.metadata)


def _nullable_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable_field(each) for each in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_nullable_field(kind.key_field).with_nullable(False), _nullable_field(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable_field(kind.value_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_nullable_field(kind.value_field))
    return field.with_type(kind).with_nullable(True)


class Lists(AccumulatorParam[Any]):
    """An accumulator of lists that tasks append to; lists of failed attempts do not count."""

    def zero(self, value: Any) -> Any:  # noqa: ARG002 - Spark's signature
        """Return an empty list."""
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - Spark's name
        """Return the concatenation of both lists."""
        return value1 + value2


@dataclass(frozen=True)
class _Part:
    """A task's part of a list: its file, with the content if the file was not made."""

    file: StagedFile
    content: bytes | None


@dataclass(frozen=True)
class StagedList:
    """The rows of a job, so that they are computed only once: `frame` reads them.

    They lie in the files of a folder; those in `contents`, by their names, are made when the list is noted.
    """

    frame: DataFrame
    folder: str
    files: tuple[StagedFile, ...]
    options: StorageOptions
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @contextlib.contextmanager
    def held(self) -> Iterator[DataFrame]:
        """Keep the rows in Spark's memory, or on its disks, within the block, unless they lie on a local disk."""
        if scheme_of(self.folder) == "file":
            yield self.frame
            return
        self.frame.persist()
        try:
            yield self.frame
        finally:
            self.frame.unpersist()

    def note(self) -> None:
        """Make durable which files the list has, so that `noted_list` finds them after this process was killed.

        Files that have still to be made are sent at the same time: whoever reads the note does so after a step that
        follows this call.
        """
        note = seal(_KIND, _VERSION, {"files": json_of(self.files)})
        _send({**self.contents, _NOTE: note}, self.folder, self.options)


def _send(contents: Mapping[str, bytes], folder: str, options: StorageOptions) -> None:
    """Write small files with new names, durable on return, at once where the file system answers late."""
    home = normalise(folder)
    storage = open_storage(home, options)
    storage.each(lambda name: storage.publish(join(home, name), contents[name], unique=True), contents)


def stage_list(frame: DataFrame, folder: str, options: StorageOptions) -> StagedList:
    """Compute the rows of a frame and keep them; other files in the folder stay.

    They are durable once the list is noted, and on a local disk on return.

    Raises BlobWriteError if one of its tasks could not store bytes, WriteError if the rows could not be written.
    """
    spark = frame.sparkSession
    made: Accumulator[Any] = spark.sparkContext.accumulator([], Lists())
    kept = map_in_arrow(frame, _keeping(folder, options, spark.version, uuid.uuid4().hex, made), NOTHING)
    with in_one_sentence(f"rows could not be kept in '{folder}'"):
        kept.write.format("noop").mode("overwrite").save()
    files = tuple(part.file for part in made.value)
    contents = {part.file.name: part.content for part in made.value if part.content is not None}
    if contents and len(contents) == len(files) and sum(map(len, contents.values())) <= _MOST_HOME_BYTES:
        return StagedList(_read_home(spark, contents, frame.schema), folder, files, options, contents)
    _send(contents, folder, options)
    return StagedList(read_staged(spark, folder, files, frame.schema, options), folder, files, options)


def noted_list(spark: SparkSession, folder: str, schema: StructType, options: StorageOptions) -> DataFrame:
    """Return the rows of a list that a killed process had noted; raise DataFileError if it has no whole note."""
    uri = join(normalise(folder), _NOTE)
    try:
        body = unseal(_KIND, _VERSION, open_storage(uri, options).read(uri), uri)
    except OSError as problem:
        raise DataFileError(f"the list of rows '{uri}' cannot be read: {problem}") from problem
    if body is None:
        raise DataFileError(f"the list of rows '{uri}' is damaged")
    files = value_of(tuple[StagedFile, ...], body.get("files"), uri, "files")
    return read_staged(spark, folder, files, schema, options)


def _keeping(
    folder: str, options: StorageOptions, spark_version: str, token: str, made: Accumulator[Any]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        attempt = TaskAttempt(context.partitionId(), context.taskAttemptId())
        most_home = 0 if scheme_of(folder) == "file" else _HOME_BYTES
        rows = RowsFile(folder, attempt, options, spark_version, token, most_home)
        with in_few_words():
            try:
                for batch in batches:
                    rows.write(batch)
                files = rows.close()
            except BaseException:
                rows.discard()
                raise
        made.add([_Part(file, rows.content) for file in files])
        yield from ()

    return run


def read_staged(
    spark: SparkSession, folder: str, files: Sequence[StagedFile], schema: StructType, options: StorageOptions
) -> DataFrame:
    """Return the rows of staged files, and of no other file in the folder."""
    if not files:
        return no_rows(spark, _nullable(spark, schema))
    if scheme_of(folder) != "file" and sum(file.bytes for file in files) <= _SMALL_BYTES * len(files):
        return _read_small(spark, folder, files, _nullable(spark, schema), options)
    reader = spark.read.schema(schema).option(_GLOBS, "false")
    frame = reader.parquet(folder)
    names = {file.name for file in files}
    if {unquote(uri).rpartition("/")[2] for uri in frame.inputFiles()} != names:
        return reader.parquet(*(join(folder, name) for name in sorted(names)))
    return frame


def _nullable(spark: SparkSession, schema: StructType) -> StructType:
    """Return a schema as Spark reads it from Parquet files: nothing in it is known to have no NULL."""
    read = handles_of(spark).named("org.apache.spark.sql.types.DataType").fromJson(schema.json()).asNullable()
    return StructType.fromJson(json.loads(read.json()))


def _read_small(
    spark: SparkSession, folder: str, files: Sequence[StagedFile], schema: StructType, options: StorageOptions
) -> DataFrame:
    """Return the rows of small objects, in as many tasks as Spark would read them in; the folder is not listed."""
    by_size = sorted(files, key=lambda file: (-file.bytes, file.name))
    count = _tasks(spark, [file.bytes for file in by_size])
    groups = [([file.name for file in by_size[first::count]],) for first in range(count)]
    wanted = spark.createDataFrame(spark.sparkContext.parallelize(groups, count), "names array<string>")
    return map_in_arrow(wanted, _reading(normalise(folder), options), schema)


def _read_home(spark: SparkSession, contents: Mapping[str, bytes], schema: StructType) -> DataFrame:
    """Return the rows of files that the driver holds, in as many tasks as Spark would read them in."""
    by_size = sorted(contents.values(), key=len, reverse=True)
    count = _tasks(spark, [len(content) for content in by_size])
    held = spark.sparkContext.parallelize([(content,) for content in by_size], count)
    return map_in_arrow(spark.createDataFrame(held, "content binary"), _parsed, _nullable(spark, schema))


def _parsed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for content in batch.column(0):
            yield from pq.ParquetFile(pa.BufferReader(content.as_buffer())).iter_batches()


def _tasks(spark: SparkSession, sizes: Sequence[int]) -> int:
    """Return in how many tasks Spark would read files of these sizes, of which the largest come first."""
    conf = spark._jsparkSession.sessionState().conf()
    opening = int(conf.filesOpenCostInBytes())
    given = spark.conf.get(_LEAST_TASKS, None) or spark.conf.get(_LEAST_OF_LEAVES, None)
    least = int(given or spark.sparkContext.defaultParallelism)
    share = sum(size + opening for size in sizes) // max(1, least)
    most = min(int(conf.filesMaxPartitionBytes()), max(opening, share))
    tasks, held = 1, 0
    for size in sizes:
        if held and held + size > most:
            tasks, held = tasks + 1, 0
        held += size + opening
    return tasks


def _reading(folder: str, options: StorageOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = open_storage(folder, options)
        uris = [join(folder, name) for batch in batches for name in batch.column(0).flatten().to_pylist()]
        for first in range(0, len(uris), _READ_TOGETHER):
            for content in storage.each(storage.read, uris[first : first + _READ_TOGETHER]):
                yield from pq.ParquetFile(pa.BufferReader(content)).iter_batches()

    return read
