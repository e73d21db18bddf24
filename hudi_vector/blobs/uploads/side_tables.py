"""Side tables: Parquet files beside a write's manifest, which names each and proves it whole."""

from __future__ import annotations

import hashlib
import io
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import forget, generation_of, publish
from hudi_vector.storage.stored_values import named, shaped

__all__ = [
    "CHECKSUMS_OF_BLOBS",
    "PINS",
    "SIDE_TABLE",
    "SideTable",
    "checksums_of",
    "load_table",
    "publish_table",
    "replace_table",
    "rows_of",
    "table_of",
]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)

SIDE_TABLE = re.compile(r"[a-z]+-[0-9a-f]{32}\.parquet")
"""What the names of their files look like."""
_MOST_BYTES, _MOST_ROWS = 4 << 30, 1 << 30
_MOST_TIMES = 1000
"""How many times larger than its file the columns of a table may be."""
_TYPES: dict[Any, pa.DataType] = {"str": pa.string(), "int": pa.int64()}

CHECKSUMS_OF_BLOBS, PINS = "checksums", "pins"
"""What side tables hold, and how their names begin."""


@dataclass(frozen=True)
class SideTable:
    """A side table: its file's name, its size in bytes and the SHA-256 of its content."""

    name: str
    bytes: int
    sha256: str


def table_of(kind: type[D], rows: Sequence[D]) -> pa.Table:
    """Rows as a table with a column for each of their fields.

    Args:
        kind: A dataclass whose fields are texts and whole numbers.
        rows: Some of it.

    Example:
        >>> table_of(SideTable, [SideTable("a", 1, "b")]).to_pylist()
        [{'name': 'a', 'bytes': 1, 'sha256': 'b'}]
    """
    schema = pa.schema([(entry.name, _TYPES[entry.type]) for entry in fields(kind)])
    return pa.table([[getattr(row, name) for row in rows] for name in schema.names], schema=schema)


def publish_table(storage: Storage, folder: str, kind: str, table: pa.Table) -> SideTable:
    """Write a side table under a new name, durable when this returns.

    Args:
        storage: The file system.
        folder: The folder of the manifest.
        kind: What the table holds.
        table: All of it.

    Returns:
        The file.
    """
    sink = io.BytesIO()
    pq.write_table(table, sink)
    content = sink.getvalue()
    name = f"{kind}-{uuid.uuid4().hex}.parquet"
    storage.publish(join(folder, name), content)
    return SideTable(name, len(content), hashlib.sha256(content).hexdigest())


def replace_table(
    storage: Storage,
    folder: str,
    kind: tuple[str, int],
    before: tuple[str, dict[str, Any]] | None,
    named: str,
    table: pa.Table,
    **body: Any,
) -> tuple[str, dict[str, Any]]:
    """Publish the next side file of a folder that holds one side table and the side file that names it.

    Args:
        storage: The file system.
        folder: The folder.
        kind: What the side file is, and its version.
        before: The newest one, as `hudi_vector.storage.side_files.newest` found it. It and its table stay, since others
            may still read them; what is older goes.
        named: What the table is called, in the side file's body too.
        table: All of it.
        body: What else the side file says.

    Returns:
        The side file's name and its body.
    """
    made = publish_table(storage, folder, named, table)
    body = {**body, named: asdict(made)}
    name = publish(storage, folder, *kind, generation_of(before[0]) + 1 if before else 0, body)
    kept = {name, made.name, before[0] if before else None, _name_in(before[1].get(named)) if before else None}
    forget(storage, folder, kept)
    return name, body


def _name_in(stated: Any) -> str | None:
    """The name of the file that a side file names, if it names one."""
    name = stated.get("name") if isinstance(stated, dict) else None
    return name if isinstance(name, str) else None


def rows_of(kind: type[D], table: pa.Table, uri: str) -> tuple[D, ...]:
    """The rows of a side table as they were given to `table_of`.

    Args:
        kind: The dataclass.
        table: The table.
        uri: The folder it lies in, for the message.

    Raises:
        DataFileError: They are something else.
    """
    return tuple(shaped(kind, row, uri) for row in table.to_pylist())


def load_table(
    storage: Storage, folder: str, file: SideTable, schema: pa.Schema | None = None, may_lack: Collection[str] = ()
) -> pa.Table:
    """Read a side table.

    Args:
        storage: The file system.
        folder: The folder of the manifest.
        file: What the manifest says of it.
        schema: What its columns must be, where the caller does not look at each row.
        may_lack: Those of them that may be NULL.

    Returns:
        What was published.

    Raises:
        DataFileError: The file is gone or damaged, or its name leads elsewhere.
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
    # Whoever wrote it can compute a checksum; pyarrow raises many things over what it cannot read.
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
    """A table, unless its footer says that it would take memory out of all proportion."""
    file = pq.ParquetFile(pa.BufferReader(content))
    meta = file.metadata
    plain = sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
    if not 0 <= meta.num_rows <= _MOST_ROWS or not 0 <= plain <= max(_MOST_TIMES * len(content), 1 << 20):
        raise ValueError(f"{len(content)} bytes would become {meta.num_rows} rows of {plain} bytes")
    return file.read()


def checksums_of(written: Iterable[WrittenContainer]) -> pa.Table | None:
    """The checksums that were computed of the blobs of containers.

    Args:
        written: The containers of a write.

    Returns:
        Columns path (from the table's folder), method, offset and length (int64, bytes), checksum (binary); None where
        no checksums were asked for.
    """
    tables = [
        pa.Table.from_batches([made.checksums])
        .add_column(0, "method", pa.array([made.checksum] * made.blobs))
        .add_column(0, "path", pa.array([made.path] * made.blobs))
        for made in written
        if made.checksums is not None
    ]
    return pa.concat_tables(tables) if tables else None
