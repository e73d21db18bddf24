"""The description of a table: its instants, file slices, columns, indexes and blobs, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hudi_vector.command.arguments import conf, form, several, text, the_table
from hudi_vector.command.arguments import table as _the_argument
from hudi_vector.command.cells import of_bytes, of_moment
from hudi_vector.command.endings import DONE
from hudi_vector.command.groups import HELP, Command
from hudi_vector.command.rows import write_rows
from hudi_vector.command.sessions import settings_alone
from hudi_vector.errors import number_of

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_vector.options import Settings
    from hudi_vector.storage import StorageOptions
    from hudi_vector.table.model import Snapshot
    from hudi_vector.table.native import NativeTable

__all__ = ["table"]

_LAST = 5
Fact = tuple[str, str, Any]


@click.command(cls=Command, context_settings=HELP)
@several(_the_argument, text("--as-of", "INSTANT", "as it was then: an instant or a timestamp"), conf, form)
def table(table: str | None, named_table: str | None, as_of: str | None, conf: tuple[str, ...], form: str) -> int:
    """Say what a table is: instants, files, columns, indexes, blobs."""
    facts = list(_facts(the_table(table, named_table), as_of, settings_alone(conf)))
    shown = _for_people if form == "table" else lambda _, value: value
    write_rows([{"part": part, "name": name, "value": shown(name, value)} for part, name, value in facts], form)
    return DONE


def _for_people(name: str, value: Any) -> Any:
    if name == "bytes" or name.endswith("_bytes"):
        return of_bytes(value)
    return of_moment(value) if name.endswith("_ms") else value


def _facts(name: str, as_of: str | None, settings: Settings) -> Iterator[Fact]:
    """Yield what is known of a table, as a part of it, a name and a value."""
    from hudi_vector.storage import StorageOptions, normalise
    from hudi_vector.table.instants import parse_as_of
    from hudi_vector.table.model import Source
    from hudi_vector.table.native import NativeTable

    options = StorageOptions.of(settings.values)
    native = NativeTable(Source(normalise(name), name, options))
    snapshot = native.snapshot(None if as_of is None else parse_as_of(as_of, "UTC"))
    yield from _of_table(native)
    yield from _of_timeline(native, snapshot)
    yield from _of_files(snapshot)
    yield from (("column", field.name, _kind(field)) for field in snapshot.schema if not _is_meta(field))
    if as_of is None:
        yield from _of_indexes(native.source.uri, settings)
        yield from _of_blobs(native.source.uri, options)


def _of_table(native: NativeTable) -> Iterator[Fact]:
    config = native.config
    yield "table", "path", native.source.uri
    yield "table", "name", config.name
    yield "table", "type", "MERGE_ON_READ" if config.merge_on_read else "COPY_ON_WRITE"
    yield "table", "version", config.version
    yield "table", "record_key", ", ".join(config.record_key_fields)
    yield "table", "partitioned_by", ", ".join(config.partition_fields)
    yield "table", "ordering", ", ".join(config.ordering_fields)


def _of_timeline(native: NativeTable, snapshot: Snapshot) -> Iterator[Fact]:
    whole = native.timeline()
    yield "timeline", "snapshot", snapshot.instant
    yield "timeline", "completed", len(whole.completed)
    yield "timeline", "pending", len(whole.pending)
    for instant in sorted(whole.completed, key=lambda each: each.completed)[-_LAST:]:
        yield "instant", instant.requested, instant.action
    yield from (("instant", requested, "pending") for requested in sorted(whole.pending))


def _of_files(snapshot: Snapshot) -> Iterator[Fact]:
    slices = snapshot.file_slices
    yield "files", "partitions", len({each.partition_path for each in slices})
    yield "files", "file_slices", len(slices)
    yield "files", "base_files", sum(each.base_file is not None for each in slices)
    yield "files", "log_files", sum(len(each.log_files) for each in slices)
    yield "files", "bytes", snapshot.size


def _of_indexes(table_uri: str, settings: Settings) -> Iterator[Fact]:
    import hudi_vector as hv

    for each in hv.index.describe(settings, table_uri):
        yield (
            "index",
            f"{each.column} {each.metric} {each.kind}",
            f"{each.covered_files} of {number_of(each.files, 'file')}",
        )
        yield "index", "bytes", each.bytes
        yield "index", "created_ms", each.created_ms
        if each.proposal:
            yield "index", "proposal", each.proposal


def _of_blobs(table_uri: str, options: StorageOptions) -> Iterator[Fact]:
    """Yield the size of the table's blob area, if there is one."""
    from hudi_vector.blobs.area import BlobArea
    from hudi_vector.storage import open_storage

    area = BlobArea(table_uri)
    listed = open_storage(area.uri, options).list_files(area.uri, recursive=True)
    if listed:
        yield "blobs", "files", len(listed)
        yield "blobs", "bytes", sum(info.size for info in listed)


def _is_meta(field: pa.Field) -> bool:
    return bool(field.name.startswith("_hoodie_"))


def _kind(field: pa.Field) -> str:
    """Return the type of a column: Hudi's, such as ``VECTOR(128, FLOAT)``, where it declares one, else Arrow's."""
    from hudi_vector.read.conform import vector_type
    from hudi_vector.schema import BLOB, HUDI_TYPE

    vector = vector_type(field)
    if vector is not None:
        return f"VECTOR({vector.dimension}, {vector.element.upper()})"
    declared = (field.metadata or {}).get(HUDI_TYPE.encode(), b"").decode()
    return BLOB if declared == BLOB else str(field.type)
