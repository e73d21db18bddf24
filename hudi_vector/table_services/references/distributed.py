"""Reading of retained files by Spark executors, for tables with more files than one process should read.

Files are read in waves, each of which is a Spark job. A task reads its files one after the other and returns their
references as one compressed Arrow stream. The driver therefore holds one wave in compressed form, and the references of
one file at a time decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import SparkContext

from hudi_vector.progress import jobs_followed
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.references.files import FILES_READ, FileReferences, Reader, read_here, references_of
from hudi_vector.table_services.references.references import REFERENCES
from hudi_vector.table_services.retention.retained import RetainedFile
from hudi_vector.workers import balanced, begin_task

__all__ = ["SpreadLimits", "spread_reader", "waves"]

_TASKS_PER_CORE = 2
_FILES_PER_TASK = 64
_WAVE_BYTES = 16 << 30
_CODED = pa.schema(
    [
        ("file", pa.int32()),
        *(
            (field.name, pa.dictionary(pa.int32(), pa.string()) if pa.types.is_string(field.type) else field.type)
            for field in REFERENCES
        ),
    ]
)


@dataclass(frozen=True)
class SpreadLimits:
    """The most bytes and files that the driver reads itself."""

    max_bytes: int
    max_files: int

    def allow(self, files: Sequence[RetainedFile]) -> bool:
        """Return True if the files are within both limits."""
        return len(files) <= self.max_files and sum(file.info.size for file in files) <= self.max_bytes


@dataclass(frozen=True)
class _Outcome:
    """The result of a task: its files without references, and the references as a stream.

    The stream's column `file` is the position in `files`.
    """

    files: tuple[FileReferences, ...]
    stream: bytes


def spread_reader(context: SparkContext, limits: SpreadLimits, here: Reader = read_here) -> Reader:
    """Return a reader that reads few files with `here` and more than `limits` on the executors.

    It yields what `here` would, in another order.

    Example:
        >>> reader = spread_reader(spark.sparkContext, SpreadLimits(16 << 30, 2000))
    """

    def read(files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        if limits.allow(files):
            yield from here(files, options)
            return
        done = 0
        for tasks in waves(files, context.defaultParallelism * _TASKS_PER_CORE):
            count = sum(map(len, tasks))
            with jobs_followed(context, count, FILES_READ, before=done, whole=len(files)):
                outcomes = context.parallelize(tasks, len(tasks)).mapPartitions(_task(options)).collect()
            done += count
            for outcome in outcomes:
                yield from _files_of(outcome)

    return read


def waves(files: Sequence[RetainedFile], tasks: int) -> Iterator[list[list[RetainedFile]]]:
    """Yield waves of files, each divided among tasks of nearly equal bytes.

    A wave is a list with the files of each task; it has at most `tasks` tasks.
    """
    wave: list[RetainedFile] = []
    size = 0
    for file in files:
        if wave and (len(wave) == tasks * _FILES_PER_TASK or size + file.info.size > _WAVE_BYTES):
            yield _balanced(wave, tasks)
            wave, size = [], 0
        wave.append(file)
        size += file.info.size
    if wave:
        yield _balanced(wave, tasks)


def _balanced(wave: list[RetainedFile], tasks: int) -> list[list[RetainedFile]]:
    return [[wave[place] for place in group] for group in balanced([file.info.size for file in wave], tasks)]


def _task(options: StorageOptions):  # type: ignore[no-untyped-def]
    def run(tasks: Iterable[list[RetainedFile]]) -> Iterator[_Outcome]:
        begin_task()
        for files in tasks:
            yield _outcome(files, options)

    return run


def _outcome(files: Sequence[RetainedFile], options: StorageOptions) -> _Outcome:
    sink = pa.BufferOutputStream()
    bare = []
    settings = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _CODED, options=settings) as writer:
        for place, file in enumerate(files):
            found = references_of(file, options)
            bare.append(FileReferences(file, doubt=found.doubt, is_gone=found.is_gone, torn=found.torn))
            numbers = pa.repeat(pa.scalar(place, pa.int32()), found.references.num_rows)
            writer.write_table(found.references.add_column(0, "file", numbers).cast(_CODED).unify_dictionaries())
    return _Outcome(tuple(bare), sink.getvalue().to_pybytes())


def _files_of(outcome: _Outcome) -> Iterator[FileReferences]:
    parts: dict[int, list[pa.RecordBatch]] = {}
    with pa.ipc.open_stream(outcome.stream) as reader:
        for batch in reader:
            if batch.num_rows:
                parts.setdefault(batch["file"][0].as_py(), []).append(batch)
    for place, bare in enumerate(outcome.files):
        coded = pa.Table.from_batches(parts.pop(place, []), _CODED)
        references = pa.table([coded[field.name].cast(field.type) for field in REFERENCES], schema=REFERENCES)
        yield replace(bare, references=references)
