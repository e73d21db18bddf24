"""Rows of given record keys in the tables that share blobs with a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.erasure.key_rows import KeyScan
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers

__all__ = ["OtherFile", "rows_elsewhere"]


@dataclass(frozen=True)
class OtherFile:
    """A data file of another table with rows of the keys.

    Attributes:
        uri: The file.
        bytes: Its size.
        borrows: Whether rows of the keys in that table refer to blobs of this one.
    """

    uri: str
    bytes: int
    borrows: bool


def rows_elsewhere(
    tables: Iterable[NativeTable], keys: Collection[str], home: str, doubts: list[str]
) -> list[OtherFile]:
    """Return the data files with rows of the keys in the tables that share blobs with a table, ordered by URI.

    `home` is the identity of the table's blob area, with a slash at its end. What cannot be read is added to `doubts`.
    Tables without ``_hoodie_record_key`` are left out: their rows have no key to compare.
    """
    found = []
    for each in tables:
        if each.config.populates_meta_fields:
            scan, named = KeyScan(keys), Referrers({}, Places())
            doubts += [*gather(each, scan, named).doubts, *named.doubts]
            borrows = next(named.below(home), None) is not None
            found += [OtherFile(file.info.uri, file.info.size, borrows) for file in scan.held]
    return sorted(found, key=lambda file: file.uri)
