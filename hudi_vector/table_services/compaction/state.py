"""Inputs of a blob compaction: states of containers, settings for new ones, and whether rows can be rewritten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.counts.tally import MANAGED
from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads.manifest import Upload
from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.storage import FileInfo, join, open_storage
from hudi_vector.storage.listed import list_below
from hudi_vector.table_services.plans.compaction import CompactionPlan, ContainerState, PlannedContainer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.writing.rewriting.row_order import Order

__all__ = ["AreaLook", "container_states", "look_at_area", "require_suitable", "settings_of"]

_CHECKSUMS = ("none", "crc32", "sha256")


@dataclass(frozen=True)
class AreaLook:
    """The files of a table's blob area as they were listed, and what waits for the uploads that made them, by id.

    It may be older than the rows that are counted: a file that it lacks stays as it is, and one that is gone has no
    rows.
    """

    files: Sequence[FileInfo]
    uploads: Callable[[], Mapping[str, Upload]]


def look_at_area(table: BlobTable, uploads_of: Callable[[Iterable[str]], Mapping[str, Upload]]) -> AreaLook:
    """List a table's blob area, and begin to read the uploads; `uploads_of` reads those of some writes by their ids."""
    area, storage = table.area, open_storage(table.area.uri, table.options)
    files, _ = list_below(storage, area.uri)
    names = (ContainerName.parse(area.table, info.uri) for info in files)
    writes = {name.write_id for name in names if name}
    return AreaLook(files, storage.begun(lambda: uploads_of(writes)))


def container_states(
    table: BlobTable, columns: Sequence[str], look: AreaLook, *, order: Order | None = None
) -> list[ContainerState]:
    """Return the state of each container of the given columns that rows of the newest snapshot refer to.

    With `order`, the planned order of the rows, the states are those after the rows were put in that order, which reads
    the references a second time. Raise DataFileError if the rows cannot be read.
    """
    from hudi_vector.spark.blobs.counted import inventory_of
    from hudi_vector.writing.failures import in_one_sentence
    from hudi_vector.writing.rewriting.row_order import laid_out

    area = table.area
    sizes = {info.uri: info.size for info in look.files}
    names = {uri: ContainerName.parse(area.table, uri) for uri in sizes}
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    # With an order, `table` has columns that take a join to know, and a count needs none of them.
    plain = table.again() if order else table
    counted = inventory_of(plain, look.files).where(f"kind = '{MANAGED}' AND container IS NOT NULL")
    with in_one_sentence(f"counting the blobs of '{table.label}' failed", DataFileError):
        rows = counted.collect()
    for row in rows:
        for count in ("blobs", "shared", "dead_bytes", "dangling"):
            totals[row["container"]][count] += row[count]
    payloads = {made.path: made.blob_bytes for upload in look.uploads().values() for made in upload.containers}
    laid = laid_out(table, {uri: sizes[uri] for uri in totals if uri in sizes}, order) if order else {}
    found = []
    for uri, total in totals.items():
        name = names.get(uri)
        if name is None or name.column not in columns or not total["blobs"]:
            continue
        lies = laid.get(uri)
        if lies and not lies.ranges:
            continue
        path = uri.removeprefix(f"{area.table}/")
        found.append(
            ContainerState(
                path=path,
                partition=name.partition,
                column=name.column,
                bytes=sizes[uri],
                payload=payloads.get(path, sizes[uri]),
                live=max(0, sizes[uri] - total["dead_bytes"] - (lies.leaving_bytes if lies else 0)),
                ranges=total["blobs"] - total["shared"] - (lies.leaving if lies else 0),
                dangling=total["dangling"],
                disorder=lies.disorder if lies else 0,
            )
        )
    return found


def settings_of(
    spark: SparkSession,
    table: BlobTable,
    plan: CompactionPlan,
    members: Sequence[PlannedContainer],
    uploads: Mapping[str, Upload],
) -> dict[str, BlobSettings]:
    """Return the settings for storing the blobs of each column again, by column.

    They are the session's settings, with the plan's sizes and with the strongest checksum among the session's and those
    of the uploads (by their ids) that wrote the containers `members`.
    """
    from hudi_vector.writing.blobs.plan import session_settings

    base = session_settings(spark)
    base = replace(base, max_element_size=plan.max_element_size, max_file_size=2 * plan.target_size)
    strongest = dict.fromkeys(table.columns, base.checksum)
    for each in members:
        name = ContainerName.parse(plan.table, join(plan.table, each.path))
        upload = uploads.get(name.write_id) if name else None
        for column, old in upload.columns if upload else ():
            if column in strongest:
                strongest[column] = max(strongest[column], old.checksum, key=_CHECKSUMS.index)
    return {column: replace(base, checksum=checksum) for column, checksum in strongest.items()}


def require_suitable(table: BlobTable) -> None:
    """Raise UnsupportedTableError if rows of a table cannot be read and written back unchanged by an upsert."""
    config = table.config
    for wrong, what in (
        (not table.columns, "no BLOB column"),
        (not config.record_key_fields, "no record key"),
        (not config.plain_key_generator, "a key generator that makes other partitions of the rows that are read"),
        (not table.has_stored_partitions, "timestamps as partitions, which Hudi reads otherwise"),
        (config.drops_partition_columns, "partition columns that its files do not hold"),
        (not config.plain_merge, "a custom merger, which may do more than replace a row"),
        (config.bootstrapped, "rows in files outside of its folder"),
    ):
        if wrong:
            raise UnsupportedTableError(
                f"'{table.label}' has {what}, so that its references cannot be rewritten by an upsert of whole rows"
            )
