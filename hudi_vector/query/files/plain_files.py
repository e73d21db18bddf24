"""Parquet files that are not a Hudi table as snapshots to search: a list of files, or the files of a Delta table."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingDependencyError,
    TableNotFoundError,
    UnsupportedTableError,
    first_line,
    number_of,
)
from hudi_vector.read.conform import conform
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.storage import (
    FileInfo,
    StorageOptions,
    join,
    lance_options,
    normalise,
    open_storage,
    path_text,
    scheme_of,
)
from hudi_vector.table.config import TableConfig
from hudi_vector.table.deleted_rows import DeletedRows
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import FileSlice, Snapshot, Source

__all__ = ["NO_KEYS", "Constants", "DeltaFiles", "PlainFiles", "searched_field"]

Constants = Mapping[str, tuple[tuple[str, pa.Scalar], ...]]
"""The columns that have a single value in all rows of a file, by the file's normalised URI."""

NO_KEYS = TableConfig.parse("hoodie.populate.meta.fields=false")
"""The configuration of data without Hudi's keys: rows of equal distance are ordered by file and position."""
_VECTOR_COLUMNS = b"hoodie.vector.columns"


class PlainFiles:
    """A list of Parquet files; the schema is that of the first file in the order of their URIs.

    Args:
        files: Paths or URIs.
        options: The storage settings.
        column: The searched column: fixed-size binary in it is read as float32 values unless the file says otherwise.
        constants: Columns with one value for each file, for example from the folders of its path.

    Raises:
        InvalidArgumentError: The list is empty, or a name does not end in ``.parquet``.
        InvalidTypeError: `files` is not a list of paths.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        options: StorageOptions,
        column: str | None = None,
        constants: Constants = MappingProxyType({}),
    ) -> None:
        if isinstance(files, str) or not isinstance(files, Iterable):
            raise InvalidTypeError(f"files must be a list of paths or URIs, not {files!r}")
        listed = [path_text(file) for file in files]
        wrong = [file for file in listed if not isinstance(file, str)]
        if wrong:
            raise InvalidTypeError(f"files must be a list of paths or URIs; {wrong[0]!r} is neither")
        if not listed:
            raise InvalidArgumentError("files is an empty list; name at least one Parquet file")
        other = next((file for file in listed if not file.endswith(".parquet")), None)
        if other is not None:
            raise InvalidArgumentError(f"files must be Parquet files named *.parquet, and '{other}' is not")
        self._files = sorted({normalise(file) for file in listed})
        self._column = column
        self._constants = constants
        name = (
            self._files[0]
            if len(self._files) == 1
            else f"{number_of(len(self._files), 'file')}, {self._files[0]} the first"
        )
        self.source = Source(self._files[0], name, options)

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """Return the files as they are now, with a slice for each.

        Raises InvalidArgumentError if `as_of` is given, because files have no history, and DataFileError if a file is
        missing.
        """
        if as_of is not None:
            raise InvalidArgumentError("files have no history; leave as_of out")
        return _snapshot_of(self.source, self._files, self._column, constants=self._constants)


class DeltaFiles:
    """The data files of a Delta table, at its newest version or a given one, found by the package deltalake.

    Args:
        uri: The table's path or URI.
        options: The storage settings for its files.
        delta_options: Further storage options for deltalake, in its own terms; Hadoop's are left out.
        column: As for `PlainFiles`.
        version: A version's number; None for the newest at the time of each snapshot.

    Raises:
        InvalidTypeError: The version is not a whole number.
        MissingDependencyError: deltalake is not installed.
    """

    def __init__(
        self,
        uri: str,
        options: StorageOptions,
        delta_options: dict[str, str] | None = None,
        column: str | None = None,
        version: int | str | None = None,
    ) -> None:
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise InvalidTypeError(f"the version of a Delta table must be a whole number, not {version!r}")
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError as Absent
        except ImportError as absent:
            raise MissingDependencyError.of("deltalake", "delta", "a search of a Delta table") from absent
        self._open, self._absent = DeltaTable, Absent
        self._column = column
        self._version = version
        self.source = Source(normalise(uri), uri, options)
        own = {key: value for key, value in (delta_options or {}).items() if not key.startswith(("fs.", "dfs."))}
        self._delta_options = {
            **(lance_options(scheme_of(self.source.uri), options.at(self.source.uri)) or {}),
            **own,
        } or None

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """Return the newest or the given version, a slice for each data file, without the rows of deletion vectors.

        Raises InvalidArgumentError if `as_of` is given, because a Delta table has no Hudi timeline;
        TableNotFoundError if there is no Delta table; UnsupportedTableError if it cannot be opened or uses column
        mapping; and DataFileError if a file is missing.
        """
        if as_of is not None:
            raise InvalidArgumentError("a Delta table is searched at its newest version; leave as_of out")
        table = self._opened()
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise UnsupportedTableError(
                f"the Delta table '{self.source.name}' uses columnMapping, so that its files alone do not show its "
                "columns; rewrite it without that, or search it through Spark"
            )
        files = sorted(normalise(file) for file in table.file_uris())
        deleted = self._deletion_vectors(table, frozenset(files))
        logged = [searched_field(field) for field in pa.schema(table.schema().to_arrow())]
        constants = self._partitions(table, frozenset(files), pa.schema(logged))
        found = _snapshot_of(self.source, files, self._column, constants, deleted)
        # Only the files describe vectors stored as bytes. For other columns the log counts: it covers all files.
        vectors = {field.name for field in found.schema if field.metadata}
        return found.with_fields(field for field in logged if field.name not in vectors)

    def _partitions(self, table: Any, files: frozenset[str], schema: pa.Schema) -> Constants:
        """Return the values of partition columns by file; they are in the log only."""
        names = table.metadata().partition_columns
        if not names:
            return {}
        added = pa.table(table.get_add_actions(flatten=True))
        values = [conform(added.select([f"partition.{n}"]).rename_columns([n]), [schema.field(n)]) for n in names]
        rows = zip(*(held.column(0) for held in values), strict=True)
        return {
            self._file_of(join(self.source.uri, path.as_py()), files): tuple(zip(names, row, strict=True))
            for path, row in zip(added.column("path"), rows, strict=True)
        }

    def _deletion_vectors(self, table: Any, files: frozenset[str]) -> dict[str, DeletedRows]:
        """Return the deleted rows by file."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        try:
            listed = pa.table(table.deletion_vectors())
        except Exception as problem:
            raise DataFileError(
                f"a deletion vector of the Delta table '{self.source.name}' cannot be read: {first_line(problem)}"
            ) from problem
        kept = (np.asarray(kept.values, np.bool_) for kept in listed.column("selection_vector"))
        # Rows beyond the end of a vector are not deleted.
        return {
            self._file_of(path.as_py(), files): DeletedRows.of_mask(~rows, whole=False)
            for path, rows in zip(listed.column("filepath"), kept, strict=True)
        }

    def _file_of(self, path: str, files: frozenset[str]) -> str:
        """Return the file that a log entry names; raise DataFileError if it is not in `files`.

        deltalake escapes paths in some of its results and not in others, so both readings are tried.
        """
        for uri in (normalise(unquote(path)), normalise(path)):
            if uri in files:
                return uri
        raise DataFileError(
            f"the log of the Delta table '{self.source.name}' names '{path}', which is none of its files"
        )

    def _opened(self) -> Any:
        uri = self.source.uri
        place = uri[len("file://") :] if uri.startswith("file://") else uri
        try:
            return self._open(place, version=self._version, storage_options=self._delta_options)
        except self._absent as problem:
            raise TableNotFoundError(
                f"there is no Delta table at '{self.source.name}': {first_line(problem)}"
            ) from problem
        except Exception as problem:
            raise UnsupportedTableError(
                f"'{self.source.name}' cannot be opened as a Delta table: {first_line(problem)}"
            ) from problem


def _snapshot_of(
    source: Source,
    files: Sequence[str],
    column: str | None,
    constants: Constants,
    deleted: Mapping[str, DeletedRows] = MappingProxyType({}),
) -> Snapshot:
    infos = (
        open_storage(files[0], source.options).each(lambda file: _info(file, source.options), files) if files else []
    )
    slices = [
        FileSlice("", info.uri, "", info, deleted=deleted.get(info.uri), constants=constants.get(info.uri, ()))
        for info in infos
    ]
    schema = _schema_of(infos[0], source.options, column) if infos else pa.schema([])
    constant = {name: pa.field(name, value.type) for entry in slices for name, value in entry.constants}
    own = [field for field in schema if field.name not in constant]
    return Snapshot(
        source=source,
        config=NO_KEYS,
        identity=hashlib.sha256("\n".join(map(_identity_of, slices)).encode()).hexdigest(),
        instant=None,
        watermark=None,
        schema=pa.schema([*own, *constant.values()]),
        file_slices=tuple(slices),
    )


def _identity_of(entry: FileSlice) -> str:
    """Return the text that identifies a file's state: URI, size, mtime, constants and deleted rows."""
    file = entry.base_file
    assert file is not None
    parts = [file.uri, str(file.size), str(file.mtime_ns), *(f"{name}={value}" for name, value in entry.constants)]
    return " ".join(parts + ([] if entry.deleted is None else [entry.deleted.bits.hex()]))


def _info(uri: str, options: StorageOptions) -> FileInfo:
    found = open_storage(uri, options).info(uri)
    if found is None:
        raise DataFileError(f"there is no file '{uri}'")
    return found


def _schema_of(file: FileInfo, options: StorageOptions, column: str | None) -> pa.Schema:
    """Return the columns of a file in the types of a search, with VECTOR columns marked as in a Hudi table."""
    with reading(file.uri), open_storage(file.uri, options).open(file.uri) as opened:
        # Parquet has no timestamps in seconds, so this marks INT96 ones, which are instants in Spark.
        schema = pq.ParquetFile(opened, coerce_int96_timestamp_unit="s").schema_arrow
    vectors = _declared((schema.metadata or {}).get(_VECTOR_COLUMNS, b"").decode(errors="replace"))
    searched = (column or "").lower()
    fields = [field.with_type(_by_leaf(field.type, _as_instant)) for field in schema]
    return pa.schema(
        [searched_field(field, vectors.get(field.name), field.name.lower() == searched) for field in fields]
    )


def _declared(text: str) -> dict[str, VectorType]:
    """Return the VECTOR columns in the file metadata that Hudi writes: ``emb:VECTOR(128),doc:VECTOR(64, INT8)``."""
    found: dict[str, VectorType] = {}
    for part in text.replace("),", ")\n").splitlines():
        name, _, descriptor = part.rpartition(":")
        found[name.strip()] = VectorType.parse(descriptor)
    return found


def searched_field(field: pa.Field, vector: VectorType | None = None, is_searched: bool = False) -> pa.Field:
    """Return a file's column as a search needs it: in a type of Hudi's tables, with VECTOR columns marked as such.

    `vector` is the vector type given elsewhere, by default the type in the field's metadata. With `is_searched`,
    fixed-size binary without a description is read as a vector. Raises InvalidTypeError if its width does not fit
    float32 values.
    """
    declared = (field.metadata or {}).get(HUDI_TYPE.encode(), b"").decode(errors="replace")
    if vector is None and declared.upper().startswith("VECTOR"):
        vector = VectorType.parse(declared)
    if vector is None and is_searched and pa.types.is_fixed_size_binary(field.type):
        vector = _undeclared(field)
    if vector is not None:
        kind = pa.list_(pa.field("element", vector.arrow_element, nullable=False))
        return pa.field(field.name, kind, field.nullable, {HUDI_TYPE: vector.descriptor})
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _undeclared(field: pa.Field) -> VectorType:
    """Return the vector type of fixed-size binary that nothing in the file describes: float32 values."""
    width = field.type.byte_width
    if width % 4 or not width:
        raise InvalidTypeError(
            f"column '{field.name}' holds {width} bytes a row and no descriptor, and is no row of float32 values; "
            "write it with one (field metadata 'hudi_type', such as 'VECTOR(128, INT8)'), or as a list"
        )
    return VectorType.parse(f"VECTOR({width // 4})")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        return _plain_type(pa.list_(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return _by_leaf(kind, _in_micros)


def _in_micros(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def _as_instant(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.unit == "s" else kind


def _by_leaf(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with what `change` makes of each type in its structs, lists and maps, or of itself."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_by_leaf(field.type, change)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_by_leaf(kind.value_type, change)))
    if pa.types.is_map(kind):
        return pa.map_(_by_leaf(kind.key_type, change), kind.item_field.with_type(_by_leaf(kind.item_type, change)))
    return change(kind)
