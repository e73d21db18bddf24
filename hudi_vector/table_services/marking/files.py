"""Marks on storage: published once, and read by sweeps and by people who review them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_vector.blobs.names import is_write_id
from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, publish_table, rows_of, table_of
from hudi_vector.errors import DataFileError, InvalidArgumentError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Record, json_of
from hudi_vector.storage.stored_values import shaped
from hudi_vector.table_services.mark_report import MARKS, KeptFile, MarkReport, UnneededFile

__all__ = ["list_marks", "publish_mark", "read_mark"]

_LISTS: Mapping[str, Any] = {"candidates": UnneededFile, "kept": KeptFile, "dangling": KeptFile}
_MARK = Record("mark", 1, MarkReport, elsewhere=("table", *_LISTS))
_LOCAL = StorageOptions()


def publish_mark(report: MarkReport, options: StorageOptions = _LOCAL) -> str:
    """Write a mark's report, durably, and return the mark's id, by which `read_mark` finds the report.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> report = MarkReport("20260101000000000_0123456789ab", normalise(table), 0, "", total_bytes=7)
        >>> read_mark(table, publish_mark(report)) == report
        True
    """
    storage, folder = open_storage(report.table, options), join(report.table, MARKS, report.mark_id)
    lists = {name: table_of(kind, getattr(report, name)) for name, kind in _LISTS.items()}
    written = storage.each(lambda name: publish_table(storage, folder, name, lists[name]), lists)
    stored = {name: json_of(table) for name, table in zip(lists, written, strict=True)}
    # The side file comes last: a mark without it does not count as published.
    _MARK.publish(storage, folder, report, 0, **stored)
    return report.mark_id


def read_mark(table: str, mark_id: str, options: StorageOptions = _LOCAL) -> MarkReport:
    """Return the report of a published mark.

    Raise InvalidArgumentError if the table has no such mark or the mark was never completely published, DataFileError
    if one of its lists is gone or damaged or its content is invalid, and UnsupportedTableError if another version of
    this package wrote it.
    """
    root = normalise(table)
    storage, folder = open_storage(root, options), join(root, MARKS, mark_id)
    found = _MARK.newest(storage, folder) if is_write_id(mark_id) else None
    if found is None:
        raise InvalidArgumentError(f"'{table}' has no mark {mark_id!r}; give the id that mark_blobs or a dry run named")
    stated = {name: shaped(SideTable, found.body.pop(name), found.uri) for name in _LISTS if name in found.body}
    lists = {name: rows_of(_LISTS[name], load_table(storage, folder, file), folder) for name, file in stated.items()}
    report = found.value(table=root, **lists)
    if report.mark_id != mark_id:
        raise DataFileError(f"'{folder}' is damaged, or somebody changed it: it is not the mark '{mark_id}'")
    return report


def list_marks(table: str, options: StorageOptions = _LOCAL) -> list[str]:
    """Return the ids of a table's marks, oldest first, including marks that were never completely published."""
    root = normalise(table)
    return sorted(name for name in open_storage(root, options).list_folders(join(root, MARKS)) if is_write_id(name))
