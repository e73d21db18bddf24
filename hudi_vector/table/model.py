"""What passes between the rooms: sources, snapshots, file slices. All frozen, all picklable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.table.config import TableConfig
from hudi_vector.table.deleted_rows import DeletedRows

__all__ = ["FileSlice", "FragmentInfo", "LanceIndex", "Snapshot", "Source"]


@dataclass(frozen=True)
class Source:
    """What is searched: a Hudi table by its base path, and how its storage is opened.

    `uri` is the path as this package spells it. `spelled` is the path as Spark gave it: Hadoop may know s3a and not s3.
    """

    uri: str
    name: str
    options: StorageOptions = field(default=StorageOptions(), repr=False)
    spelled: str = field(default="", compare=False)

    @property
    def hadoop_path(self) -> str:
        """The path for Spark's own readers."""
        return self.spelled or self.uri


@dataclass(frozen=True)
class FragmentInfo(FileInfo):
    """A fragment of a Lance dataset in the place of a base file: `uri` is its first data file, `size` all its bytes.

    `content` is a hash of what the fragment consists of, its deletions included, so that a fragment that a later
    version left as it was is the same one.
    """

    dataset: str
    fragment: int
    rows: int
    content: str
    version: int = field(compare=False)


@dataclass(frozen=True)
class LanceIndex:
    """A vector index of a Lance dataset: its kind and metric in Lance's words, what it covers, and its segments."""

    name: str
    column: str
    kind: str
    metric: str
    fragments: frozenset[int]
    segments: tuple[str, ...]


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: a base file, its log files, or both.

    Of files that are no Hudi table's, `deleted` are rows of the base file that are there no more, and `constants` the
    columns that its path or the table's log tells: one value for all its rows, whatever the file holds.
    """

    partition_path: str
    file_id: str
    base_instant: str
    base_file: FileInfo | None
    log_files: tuple[FileInfo, ...] = ()
    deleted: DeletedRows | None = None
    constants: tuple[tuple[str, pa.Scalar], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        base = self.base_file.size if self.base_file else 0
        return base + sum(log.size for log in self.log_files)

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Its files, the base file first."""
        return (*((self.base_file,) if self.base_file else ()), *self.log_files)


@dataclass(frozen=True)
class Snapshot:
    """A table at one set of completed instants. Chosen once per query.

    `ties` are the columns that order rows of equal distance in something without keys whose rows have no lasting place.
    """

    source: Source
    config: TableConfig
    identity: str
    instant: str | None
    watermark: str | None
    schema: pa.Schema
    file_slices: tuple[FileSlice, ...]
    as_of: str | None = None
    evolves_on_read: bool = False
    commits: frozenset[str] = field(default=frozenset(), repr=False)
    # The instants of base files, under log files, that have other columns than the schema.
    older_schemas: frozenset[str] = field(default=frozenset(), repr=False)
    ties: tuple[str, ...] = ()
    # None for what is no Lance dataset.
    lance_indexes: tuple[LanceIndex, ...] | None = None

    def with_fields(self, fields: Iterable[pa.Field]) -> Snapshot:
        """The same snapshot with columns in other types, and with columns that it lacks."""
        held = {field.name: field for field in self.schema} | {field.name: field for field in fields}
        return replace(self, schema=pa.schema(list(held.values())))

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file_slice.size for file_slice in self.file_slices)

    @property
    def needs_spark(self) -> str | None:
        """Why no slice of this table is read directly, as the end of a sentence, or None."""
        if self.config.bootstrapped:
            return "the table is bootstrapped"
        if self.config.drops_partition_columns:
            return "the table leaves its partition columns out of the files"
        if self.config.partition_fields and not self.config.plain_key_generator:
            return "its key generator makes partition paths that are not the columns' values"
        if self.evolves_on_read:
            return "its schema evolves on read"
        return None
