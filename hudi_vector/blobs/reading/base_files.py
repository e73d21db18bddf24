"""Access to INLINE values in base files by row number.

A place in a base file is the path of the file, followed by ``#column`` if the file has several BLOB columns. So a
reference identifies its value by itself, even if the column that holds the reference is renamed or copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.files import BlobFiles, Trouble, default_threads, in_threads, reason_of
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reach import Reach
from hudi_vector.errors import BlobReadError, DataFileError, InvalidBlobError
from hudi_vector.read.cache import ByteCache
from hudi_vector.read.parquet.byte_column import ByteColumn
from hudi_vector.storage import StorageOptions, open_storage, scheme_of
from hudi_vector.storage.ranges import usual_gap
from hudi_vector.table.recent import Recent

__all__ = ["BaseFiles", "blob_column", "blob_columns", "place_in"]

Ints = npt.NDArray[np.int64]

_OPEN_FILES = 64
_DATA, _PATH = ".data", ".reference.external_path"


def blob_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return the dotted paths of a Parquet file's BLOB columns, in the order of the file.

    Columns within lists or maps are left out.
    """
    schema = metadata.schema
    leaves = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
    return [
        leaf.removesuffix(_DATA)
        for leaf, column in leaves.items()
        if leaf.endswith(_DATA) and leaf.removesuffix(_DATA) + _PATH in leaves and not column.max_repetition_level
    ]


def blob_column(source: Any, metadata: pq.FileMetaData, column: str, uri: str) -> ByteColumn:
    """Return the INLINE bytes of one of the file's `blob_columns`; `source` is the open file at `uri`."""
    return ByteColumn(source, metadata, column + _DATA, uri, usual_gap(is_local=scheme_of(uri) == "file"))


def place_in(uri: str, column: str, columns: Sequence[str]) -> str:
    """Return the path of a reference to the values of a column in a base file; `columns` are all its BLOB columns.

    Example:
        >>> place_in("file:///t/f.parquet", "img", ["img"]), place_in("file:///t/f.parquet", "img", ["img", "doc.scan"])
        ('file:///t/f.parquet', 'file:///t/f.parquet#img')
    """
    return uri if len(columns) == 1 else f"{uri}#{column}"


class BaseFiles:
    """A cache of open base files for a task that reads references.

    Args:
        options: Hadoop's storage settings.
        kept: The number of bytes of pages that are cached, as the next rows may be in the same pages.
    """

    def __init__(self, options: StorageOptions, kept: int = 0) -> None:
        self._options = options
        self._pages = ByteCache(kept)
        self._opened: Recent[str, ByteColumn] = Recent(_OPEN_FILES)

    def read(self, asked: Sequence[tuple[str, Ints]], threads: int | None) -> list[list[bytes | None] | DataFileError]:
        """Return the values of rows of base files, each page read once.

        Args:
            asked: Places in base files, as from `place_in`, each with row numbers in any order.
            threads: How many files, or pages of a single file, are read at once; None to choose by storage.

        Returns:
            For each place the values, None for NULL and for rows the file does not have; or the error that prevented
                reading.

        Raises:
            InvalidBlobError: A place names no BLOB column of its file.
        """
        most = threads or default_threads(local=all(scheme_of(place) == "file" for place, _ in asked))
        alone = len(asked) == 1

        def values(one: tuple[str, Ints]) -> list[bytes | None] | DataFileError:
            try:
                return self._values(*one, most if alone else 1)
            except DataFileError as problem:
                return problem

        return in_threads(values, asked, most)

    def require(self, places: Iterable[str]) -> None:
        """Raise BlobReadError with the reason if one of the base files cannot be found."""
        paths = [_parts(place)[0] for place in places]
        for path, found in zip(paths, BlobFiles(self._options, None).look(paths), strict=True):
            if isinstance(found, Trouble):
                raise _void(path, found.reason)

    def _values(self, place: str, rows: Ints, threads: int) -> list[bytes | None]:
        column = self._opened.get(place) or self._opened.first(place, self._open(place))
        numbers, back = np.unique(rows, return_inverse=True)
        there = numbers[(numbers >= 0) & (numbers < column.rows)]
        pages = in_threads(partial(column.read, cache=self._pages), column.pages(there), threads)
        found = dict(zip(there.tolist(), (value for page in pages for value in page), strict=True))
        return [found.get(number) for number in numbers[back].tolist()]

    def _open(self, place: str) -> ByteColumn:
        path, named = _parts(place)
        uri = file_uri(path, None)
        refused = Reach(self._options).refusal(uri)
        if refused is not None:
            raise _void(path, refused)
        try:
            source = open_storage(uri, self._options).open(uri, mapped=False)
        except DataFileError as problem:
            cause = problem.__cause__
            raise _void(path, reason_of(cause) if isinstance(cause, OSError) else str(problem)) from problem
        try:
            return _blob_column(source, place, path, named, uri)
        except BaseException:
            source.close()
            raise


def _blob_column(source: pa.NativeFile, place: str, path: str, named: str, uri: str) -> ByteColumn:
    try:
        metadata = pq.read_metadata(source)
    except (OSError, ValueError) as problem:
        raise _void(path, str(problem)) from problem
    columns = blob_columns(metadata)
    column = named or (columns[0] if len(columns) == 1 else "")
    if column not in columns:
        raise InvalidBlobError(
            f"the reference to '{place}' names none of the file's BLOB columns ({', '.join(columns) or 'none'}); "
            "use references as blob_references returns them"
        )
    return blob_column(source, metadata, column, uri)


def _parts(place: str) -> tuple[str, str]:
    """Return the path of a base file and the column after ``#``, "" if none; folder names may contain ``#``."""
    folder, slash, name = place.rpartition("/")
    file, _, column = name.partition("#")
    return f"{folder}{slash}{file}", column


def _void(path: str, reason: str) -> BlobReadError:
    if reason == reason_of(FileNotFoundError()):
        return BlobReadError(
            f"the base file '{path}' is gone: Hudi's clean removed it, and references to its INLINE blobs are void; "
            "take new references with blob_references"
        )
    return BlobReadError(f"the base file '{path}' that references to INLINE blobs lead to cannot be read: {reason}")
