"""Checks whether the rows of a table can be put in order, and in that of their vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hudi_vector.schema import HUDI_TYPE
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.retention.pending import pending_ingests

if TYPE_CHECKING:
    from hudi_vector.read.spec import VectorColumn
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table.model import FileSlice
    from hudi_vector.table_services.compaction.run import Compaction

__all__ = ["has_buckets", "is_vector", "vectors_among", "why_not_in_order"]

# Ids of file groups of a bucket index begin with the bucket's number; other ids begin with random digits.
_OF_BUCKET = re.compile(r"000\d{5}-")


def is_vector(field: Any) -> bool:
    """Return True if a field of a Spark schema is a VECTOR column."""
    return str(field.metadata.get(HUDI_TYPE, "")).upper().startswith("VECTOR")


def vectors_among(table: BlobTable, names: Sequence[str]) -> list[VectorColumn]:
    """Return the VECTOR columns among the named columns of a table, in the order of the names."""
    from hudi_vector.spark.columns import vector_column

    schema = table.frame.schema
    return [vector_column(schema, name, table.label, None) for name in names if is_vector(schema[name])]


def has_buckets(slices: Sequence[FileSlice]) -> bool:
    """Return True if writers of a table find rows by the numbers of buckets, with which the ids of its groups begin.

    One id in a hundred is enough: random digits look like a bucket's number once in 20,000 times.
    """
    ids = [each.file_id for each in slices]
    return sum(_OF_BUCKET.match(each) is not None for each in ids) * 100 > len(ids)


def why_not_in_order(work: Compaction, order: Sequence[str], vectors: Sequence[VectorColumn]) -> str | None:
    """Return why rows cannot be ordered by columns, and by the vectors among them, without harm to writers, or None.

    A writer with a bucket index fails on a file group without a bucket's number, whatever it writes.
    """
    from hudi_vector.writing.rewriting.rewrite import is_concurrent

    native = NativeTable(work.table.source)
    if order and has_buckets(native.snapshot().file_slices):
        return (
            f"ordering '{work.name}' by '{order[0]}' would take rows out of the buckets in which its bucket index "
            "finds them; order by nothing"
        )
    if not vectors:
        return None
    what, config = f"ordering '{work.name}' by the vectors of '{vectors[0].name}'", work.table.config
    if not work.alone and not is_concurrent(work.hudi_options):
        return (
            f"{what} replaces its file groups by one commit, and no lock by which its writers take turns is set; set "
            "hoodie.write.concurrency.mode and hoodie.write.lock.provider as its writers do, or, if no one else "
            "writes, give assume_single_writer"
        )
    if not config.populates_meta_fields or config.base_file_format != "parquet" or config.bootstrapped:
        return f"{what} needs Parquet files in its own folder that hold Hudi's own columns; order by plain columns"
    services = native.timeline().pending - {each.requested for each in pending_ingests(native)}
    if services:
        return (
            f"{what} replaces file groups, and a table service that is pending on it, '{min(services)}', may need "
            "them; run again when it has completed"
        )
    return None
