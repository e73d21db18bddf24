"""Where the pages of a column of vectors lie in a Parquet file."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.read.cache import process_cache
from hudi_vector.read.data_file import DataFile, reading
from hudi_vector.read.parquet_chunks import Chunk, Places, column_chunks, page_places

__all__ = ["PagedChunk", "paged_chunks"]

_HEADER_AHEAD = 16 << 10


@dataclass(frozen=True)
class PagedChunk:
    """A column of vectors in one row group whose pages are read here. `width` is the bytes of a vector."""

    chunk: Chunk
    places: Places
    depth: int
    width: int

    @property
    def is_full(self) -> bool:
        """Whether every row has a vector, so that the values of a page are its last bytes."""
        return self.depth == 0 or self.chunk.nulls == 0


def paged_chunks(file: DataFile, column: str, width: int) -> tuple[PagedChunk | None, ...]:
    """The page table of a column of vectors, kept in the process's cache.

    Args:
        file: The file.
        column: The column.
        width: The bytes of a vector.

    Returns:
        An entry for each row group: None where there is no such column, where vectors are lists, or stored in another
        width, by a dictionary, or by a codec or an encoding that is left to pyarrow.

    Raises:
        DataFileError: The file is damaged.
    """
    key = (file.file, "pages", column, width)
    found: tuple[PagedChunk | None, ...] | None = process_cache().get(key)
    if found is None:
        with reading(file.file.uri):
            found = _paged_chunks(file, column, width)
        pages = sum(len(entry.places.begin) for entry in found if entry is not None)
        process_cache().put(key, found, 24 * pages + 512 * len(found))
    return found


def _paged_chunks(file: DataFile, column: str, width: int) -> tuple[PagedChunk | None, ...]:
    metadata = file.metadata
    schema = metadata.schema
    by_pyarrow: tuple[None, ...] = (None,) * int(metadata.num_row_groups)
    number = next((i for i in range(len(schema)) if schema.column(i).path == column), None)
    if number is None:
        return by_pyarrow
    leaf = schema.column(number)
    if leaf.physical_type != "FIXED_LEN_BYTE_ARRAY" or leaf.length != width or leaf.max_repetition_level:
        return by_pyarrow
    chunks = column_chunks(metadata, number)
    return tuple(
        PagedChunk(
            chunk,
            page_places(file.source(), file.groups, group, number, chunk, _HEADER_AHEAD),
            leaf.max_definition_level,
            width,
        )
        if chunk.plain and chunk.understood and chunk.rows
        else None
        for group, chunk in enumerate(chunks)
    )
