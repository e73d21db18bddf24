"""The references of one retained file of any format, read by a function that can also run in a Spark task."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.errors import HudiVectorError
from hudi_vector.progress import followed
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.objects import END_BYTES, ObjectFile
from hudi_vector.storage.parallel import within_memory
from hudi_vector.table_services.references.base_files import parquet_references
from hudi_vector.table_services.references.lance_files import lance_references
from hudi_vector.table_services.references.log_files import TornTail, log_references
from hudi_vector.table_services.references.references import REFERENCES
from hudi_vector.table_services.retention.retained import LOG, RetainedFile

__all__ = ["FILES_READ", "UNREADABLE", "FileReferences", "Reader", "read_here", "references_of"]

_FILES_AT_ONCE = 64
# Many more than other requests: a mark sends nothing else meanwhile, and all of them are small.
_ENDS_AT_ONCE = within_memory(END_BYTES) // 2
FILES_READ = "data files read"
"""The progress label while references are read."""

UNREADABLE = (
    HudiVectorError,
    pa.ArrowException,
    OSError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
)
"""The exceptions that decoders raise for damaged bytes."""


@dataclass(frozen=True)
class FileReferences:
    """The references of one retained file.

    Attributes:
        file: The file.
        references: A table of `references.REFERENCES`, or of `references.FOLDED` if references kept by an earlier run
            are used in folded form; empty if there is a doubt.
        doubt: Why the file cannot be read, or None.
        is_gone: True if the file no longer exists.
        was_opened: True if the file itself was read, False if its references were kept by an earlier run.
        torn: The incomplete end of a log file, or None. Only the timeline decides whether it is a doubt: the tail of a
            write that never completed does not count.
    """

    file: RetainedFile
    references: pa.Table = field(default_factory=REFERENCES.empty_table, compare=False, repr=False)
    doubt: str | None = None
    is_gone: bool = False
    was_opened: bool = True
    torn: TornTail | None = None


Reader = Callable[[Sequence[RetainedFile], StorageOptions], Iterable[FileReferences]]
"""A function that reads retained files, in any order and in any process."""


def references_of(file: RetainedFile, options: StorageOptions, ahead: ObjectFile | None = None) -> FileReferences:
    """Read the references of one retained file; a damaged file gives a doubt and raises nothing.

    `ahead` is the open file, if it was opened before.

    Example:
        >>> from hudi_vector.storage import FileInfo
        >>> name = "f_0-1-2_20260101000000000.parquet"
        >>> file = RetainedFile("file:///t", FileInfo(f"file:///t/{name}", 9, 0), "base", "f", "20260101000000000")
        >>> references_of(file, StorageOptions()).is_gone
        True
    """
    uri = file.info.uri
    try:
        if uri.endswith(".lance"):
            return FileReferences(file, lance_references(uri, options))
        storage = open_storage(uri, options)
        # With mapped memory, a file that is truncated meanwhile would kill the process.
        with ahead or storage.open(uri, mapped=False, size=file.info.size) as source:
            if file.kind == LOG:
                references, torn = log_references(source)
                return FileReferences(file, references, torn=torn)
            return FileReferences(file, parquet_references(source, remote=storage.scheme != "file"))
    except UNREADABLE as problem:
        if isinstance(problem, FileNotFoundError) or isinstance(problem.__cause__, FileNotFoundError):
            return FileReferences(file, is_gone=True)
        text = " ".join(str(problem).split()) or type(problem).__name__
        return FileReferences(file, doubt=f"the references of '{uri}' cannot be read: {text}")


def read_here(files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
    """Read retained files with the threads of this process, and show how many are done.

    Yield the references of each file, in order, with a few files in memory at a time.
    """
    yield from followed(_read(files, options), len(files), FILES_READ)


def _read(files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
    local = bool(files) and files[0].table.startswith("file:")
    threads, step = default_threads(local=local), _FILES_AT_ONCE if local else _ENDS_AT_ONCE
    for first in range(0, len(files), step):
        some = files[first : first + step]
        # Requests are sent before anything is decoded, which would make the later ones wait.
        ahead = [None] * len(some) if local else in_threads(lambda file: _ahead(file, options), some, step)
        read = partial(_references_of, options)
        for begin in range(0, len(some), _FILES_AT_ONCE):
            part = slice(begin, begin + _FILES_AT_ONCE)
            yield from in_threads(read, list(zip(some[part], ahead[part], strict=True)), threads)
            ahead[part] = [None] * len(ahead[part])


def _references_of(options: StorageOptions, one: tuple[RetainedFile, ObjectFile | None]) -> FileReferences:
    return references_of(one[0], options, one[1])


def _ahead(file: RetainedFile, options: StorageOptions) -> ObjectFile | None:
    """Return an object whose end has been read, None for a file of another kind, or one that cannot be read."""
    uri = file.info.uri
    if uri.endswith(".lance") or (file.kind == LOG and file.info.size > END_BYTES):
        return None
    try:
        source = open_storage(uri, options).addressed(uri, file.info.size)
        if source is not None:
            source.read_ahead()
    except UNREADABLE:  # the file is read again, for the reason
        return None
    return source
