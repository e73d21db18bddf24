"""The data passed between packages: sources, snapshots and file slices, all frozen and picklable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_vector.storage import FileInfo, StorageOptions, scheme_of
from hudi_vector.table.config import TableConfig
from hudi_vector.table.deleted_rows import DeletedRows

__all__ = ["FileSlice", "FragmentInfo", "LanceIndex", "Snapshot", "Source"]


@dataclass(frozen=True)
class Source:
    """A Hudi table to be searched, by its base path, and the settings that open its storage.

    `uri` is the normalised path. `spelled` is the path as Spark gave it, since Hadoop may be configured for s3a and not
    for s3.
    """

    uri: str
    name: str
    options: StorageOptions = field(default=StorageOptions(), repr=False)
    spelled: str = field(default="", compare=False)

    @property
    def hadoop_path(self) -> str:
        """Return the path for Spark's own readers."""
        return self.spelled or self.uri

    @property
    def is_counted(self) -> bool:
        """Return True if reports say where what was read came from: from a store, or past a cache on disk."""
        return scheme_of(self.uri) != "file" or self.options.cache is not None


@dataclass(frozen=True)
class FragmentInfo(FileInfo):
    """A fragment of a Lance dataset, used as a base file.

    `uri` is its first data file, `size` the bytes of all its files, and `content` a hash of its files and deletions.
    `version` is not compared, so that a fragment that a later version left unchanged is equal.
    """

    dataset: str
    fragment: int
    rows: int
    content: str
    version: int = field(compare=False)


@dataclass(frozen=True)
class LanceIndex:
    """A vector index of a Lance dataset: kind and metric by Lance's names, covered fragments and segments."""

    name: str
    column: str
    kind: str
    metric: str
    fragments: frozenset[int]
    segments: tuple[str, ...]


@dataclass(frozen=True)
class FileSlice:
    """A version of a file group: a base file, its log files, or both.

    `deleted` and `constants` are only set for files that do not belong to a Hudi table: `deleted` holds the deleted
    rows of the base file, and `constants` the columns that the path or the table's log defines, with one value for all
    rows, which overrides what the file holds.
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
        """Return the total bytes of the files."""
        base = self.base_file.size if self.base_file else 0
        return base + sum(log.size for log in self.log_files)

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Return the files, the base file first."""
        return (*((self.base_file,) if self.base_file else ()), *self.log_files)


@dataclass(frozen=True)
class Snapshot:
    """A table at one set of completed instants, chosen once per query.

    `ties` are the columns that order rows of equal distance if the source has neither keys nor lasting row positions.
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
    # The requested times of actions that had not completed.
    pending: frozenset[str] = field(default=frozenset(), repr=False)
    # Earlier commits than this instant that are not among `commits` are archived, and part of the snapshot.
    archived_before: str = ""
    # The instants of base files that have log files and whose columns differ from the schema.
    older_schemas: frozenset[str] = field(default=frozenset(), repr=False)
    ties: tuple[str, ...] = ()
    # None unless the source is a Lance dataset.
    lance_indexes: tuple[LanceIndex, ...] | None = None

    def with_fields(self, fields: Iterable[pa.Field]) -> Snapshot:
        """Return the snapshot with these fields in its schema, which replace fields of the same name."""
        held = {field.name: field for field in self.schema} | {field.name: field for field in fields}
        return replace(self, schema=pa.schema(list(held.values())))

    @property
    def size(self) -> int:
        """Return the total bytes of the files."""
        return sum(file_slice.size for file_slice in self.file_slices)

    @property
    def needs_spark(self) -> str | None:
        """Return why only Spark can read the table, as the end of a sentence, or None if it is read directly."""
        if self.config.bootstrapped:
            return "the table is bootstrapped"
        if self.config.drops_partition_columns:
            return "the table leaves its partition columns out of the files"
        if self.config.partition_fields and not self.config.plain_key_generator:
            return "its key generator makes partition paths that are not the columns' values"
        if self.evolves_on_read:
            return "its schema evolves on read"
        return None
