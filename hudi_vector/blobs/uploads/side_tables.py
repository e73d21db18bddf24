"""Side tables: Parquet files next to a write's manifest, which holds the name and the SHA-256 of each."""

from __future__ import annotations

import hashlib
import io
import re
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.records import Entry, Record, json_of
from hudi_vector.storage.side_files import forget
from hudi_vector.storage.stored_values import named, shaped

__all__ = [
    "CHECKSUMS_OF_BLOBS",
    "PINS",
    "SIDE_TABLE",
    "SideTable",
    "checksums_of",
    "load_table",
    "new_table",
    "publish_table",
    "replace_table",
    "rows_of",
    "table_of",
]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)

SIDE_TABLE = re.compile(r"[a-z]+-[0-9a-f]{32}\.parquet")
"""The form of the names of side tables."""
_MOST_BYTES, _MOST_ROWS = 4 << 30, 1 << 30
_MOST_TIMES = 1000
"""The largest ratio of a table's uncompressed size to the size of its file."""
_TYPES: dict[Any, pa.DataType] = {str: pa.string(), int: pa.int64()}

CHECKSUMS_OF_BLOBS, PINS = "checksums", "pins"
"""The kinds of side tables; a kind is the beginning of a file's name."""


@dataclass(frozen=True)
class SideTable:
    """The name of a side table's file, its size in bytes, and the SHA-256 of its content."""

    name: str
    bytes: int
    sha256: str


def table_of(kind: type[D], rows: Sequence[D]) -> pa.Table:
    """Return dataclass instances as a table with one column per field; the fields must be of type str or int.

    Example:
        >>> table_of(SideTable, [SideTable("a", 1, "b")]).to_pylist()
        [{'name': 'a', 'bytes': 1, 'sha256': 'b'}]
    """
    schema = pa.schema([(name, _TYPES[hint]) for name, hint in typing.get_type_hints(kind).items()])
    return pa.table([[getattr(row, name) for row in rows] for name in schema.names], schema=schema)


def publish_table(storage: Storage, folder: str, kind: str, table: pa.Table) -> SideTable:
    """Write a side table of a kind into the manifest's folder under a new name, durable on return; return its file."""
    made, publish = new_table(storage, folder, kind, table)
    publish()
    return made


def new_table(storage: Storage, folder: str, kind: str, table: pa.Table) -> tuple[SideTable, Callable[[], None]]:
    """Return the file of a new side table, and the call that makes it durable."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    content = sink.getvalue()
    name = f"{kind}-{uuid.uuid4().hex}.parquet"
    made = SideTable(name, len(content), hashlib.sha256(content).hexdigest())
    return made, lambda: storage.publish(join(folder, name), content, unique=True)


def replace_table(
    storage: Storage,
    folder: str,
    record: Record[D],
    before: Entry[D] | None,
    named: str,
    table: pa.Table,
    made_of: Callable[[SideTable], D],
) -> Entry[D]:
    """Publish a side table and the next side file that names it, and return the side file.

    The folder holds one side table at a time. `before` is the newest side file of the record, or None: it and its side
    table stay, as other processes may still read them, and everything older is removed. `named` is the kind of the side
    table and its key in the body; `made_of` makes the content of the side file.
    """
    made = publish_table(storage, folder, named, table)
    value = made_of(made)
    name = record.publish(storage, folder, value, before.generation + 1 if before else 0)
    kept = {name, made.name, before.name if before else None, _name_in(before.body.get(named)) if before else None}
    forget(storage, folder, kept)
    return Entry(record, join(folder, name), json_of(value))


def _name_in(stated: Any) -> str | None:
    """Return the file name in a side file's entry, or None if there is none."""
    name = stated.get("name") if isinstance(stated, dict) else None
    return name if isinstance(name, str) else None


def rows_of(kind: type[D], table: pa.Table, uri: str) -> tuple[D, ...]:
    """Return the rows of a side table as instances of the dataclass that `table_of` got.

    `uri` is the table's folder, for the message. Raises DataFileError if the rows do not fit the dataclass.
    """
    return tuple(shaped(kind, row, uri) for row in table.to_pylist())


def load_table(
    storage: Storage, folder: str, file: SideTable, schema: pa.Schema | None = None, may_lack: Collection[str] = ()
) -> pa.Table:
    """Return the content of a side table.

    `schema` is the exact schema the table must have, and only its columns in `may_lack` may hold NULL; None if the
    caller checks each row. Raises DataFileError if the file is gone or damaged, or its name is not that of a side
    table.
    """
    uri = join(folder, named(folder, "side table", file.name, SIDE_TABLE))
    kind = file.name.partition("-")[0]
    try:
        content = storage.read(uri, _MOST_BYTES)
    except OSError as problem:
        raise DataFileError(f"the {kind} '{uri}' cannot be read: {problem}") from problem
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataFileError(f"the {kind} '{uri}' are damaged: the file is not the one its manifest names")
    try:
        table = _parsed(content)
        if schema is not None:
            _require_columns(table, schema, may_lack)
    # A matching SHA-256 does not make the content trustworthy; pyarrow raises many kinds of errors on bad files.
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, MemoryError) as problem:
        raise DataFileError(f"the {kind} '{uri}' are damaged: {problem}") from problem
    return table


def _require_columns(table: pa.Table, schema: pa.Schema, may_lack: Collection[str]) -> None:
    if not table.schema.equals(schema):
        raise ValueError("its columns are others")
    lacking = [name for name in schema.names if name not in may_lack and table[name].null_count]
    if lacking:
        raise ValueError(f"its column '{lacking[0]}' has NULL")


def _parsed(content: bytes) -> pa.Table:
    """Return the table in a Parquet file; raise ValueError if its footer declares an implausible size."""
    file = pq.ParquetFile(pa.BufferReader(content))
    meta = file.metadata
    plain = sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
    if not 0 <= meta.num_rows <= _MOST_ROWS or not 0 <= plain <= max(_MOST_TIMES * len(content), 1 << 20):
        raise ValueError(f"{len(content)} bytes would become {meta.num_rows} rows of {plain} bytes")
    return file.read()


def checksums_of(written: Iterable[WrittenContainer]) -> pa.Table | None:
    """Return the checksums of the blobs of a write's containers, or None if none were asked for.

    The columns are path (relative to the table), method, offset and length (int64, bytes) and checksum (binary).
    """
    tables = [
        pa.Table.from_batches([made.checksums])
        .add_column(0, "method", pa.array([made.checksum] * made.blobs))
        .add_column(0, "path", pa.array([made.path] * made.blobs))
        for made in written
        if made.checksums is not None
    ]
    return pa.concat_tables(tables) if tables else None
