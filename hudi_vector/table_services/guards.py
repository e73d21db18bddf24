"""Checks that limit the cleaner, whatever a mark says: foreign files, unsafe paths, and too many bytes at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from hudi_vector.blobs.names import BLOB_AREA, write_of
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import CLEAN_MAX_FILES, CLEAN_MAX_SHARE
from hudi_vector.storage import Storage, join, normalise, scheme_of
from hudi_vector.table_services.mark_report import MarkReport

__all__ = ["SweepLimits", "is_plain", "require_table", "root_above", "too_much", "why_not_ours"]


@dataclass(frozen=True)
class SweepLimits:
    """Limits of one sweep: the share of the blob area's bytes in percent, and the number of files."""

    max_share: int = CLEAN_MAX_SHARE.default
    max_files: int = CLEAN_MAX_FILES.default


def require_table(report: MarkReport, table: str) -> str:
    """Return the normalised base path `table`; raise InvalidArgumentError if the report is about another table.

    Different spellings of one path count as equal.

    Example:
        >>> require_table(MarkReport("m", "s3://lake/t", 0, ""), "s3a://lake/t/")
        's3://lake/t'
    """
    if normalise(report.table) != normalise(table):
        raise InvalidArgumentError(
            f"mark '{report.mark_id}' is about '{report.table}' and not about '{table}'; name the table it was made of"
        )
    return normalise(table)


def why_not_ours(storage: Storage, table: str, path: str, roots: Iterable[str] = ()) -> str | None:
    """Return why a file must not be touched although a mark names it, or None if it may be touched.

    A file may be touched if it has the name of a container of this table (half-written ones too) or is below a managed
    root, and if its path is plain and has no symbolic link.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        path: The file's path relative to the table's folder, or the URI of a file below a managed root.
        roots: The managed roots, normalised.
    """
    if "\0" in path:
        return "refused: its path contains a NUL character"
    root = root_above(path, roots)
    if root is not None:
        return _why_not_below(root.rstrip("/"), path)
    uri = join(table, path)
    if path.startswith("/") or normalise(uri) != uri:
        return "refused: its path is not a plain path below the table's folder"
    if not path.startswith(f"{BLOB_AREA}/"):
        return f"refused: it is outside {BLOB_AREA}"
    if write_of(table, uri) is None:
        return "refused: it does not have the name of a container"
    if not is_plain(storage, table, path):
        return "refused: its path contains a symbolic link"
    return None


def root_above(path: str, roots: Iterable[str]) -> str | None:
    """Return the managed root (one of the normalised `roots`) that contains a file of a mark, or None."""
    return next((root for root in roots if path.startswith(f"{root.rstrip('/')}/")), None)


def _why_not_below(root: str, path: str) -> str | None:
    if normalise(path) != path:
        return "refused: its path is not a plain path below a managed root"
    if "/.hoodie/" in path:
        return "refused: it is in a Hudi table"
    if scheme_of(root) == "file" and not _leads_straight(root.removeprefix("file://"), path[len(root) + 1 :]):
        return "refused: its path contains a symbolic link"
    return None


def is_plain(storage: Storage, table: str, path: str) -> bool:
    """Return True if no symbolic link is on `path` below the table's folder; the folder itself may be behind a link.

    `table` is normalised, and `path` is relative to it and need not exist. Only local storage can contain links; other
    storage always gives True.
    """
    if storage.scheme != "file":
        return True
    return _leads_straight(storage.path(table), path)


def _leads_straight(folder: str, path: str) -> bool:
    return os.path.realpath(join(folder, path)) == join(os.path.realpath(folder).rstrip("/"), path)


def too_much(going: Iterable[int], total_bytes: int, max_share: int) -> str | None:
    """Return a sentence that says why a sweep takes too much at once, or None if it does not.

    `going` has the bytes of each file that the sweep would take, `total_bytes` is the size of the blob area, and
    `max_share` is the permitted share in percent; 100 permits everything.

    Example:
        >>> too_much([60], 100, 50)[:36]
        '60 of 100 bytes in the blob area wou'
    """
    taken = sum(going)
    if max_share == 100 or taken * 100 <= total_bytes * max_share:
        return None
    return (
        f"{taken} of {total_bytes} bytes in the blob area would go, and hoodie.blob.clean.max.share allows {max_share} "
        "percent; look at the mark's report, and allow more if it is right"
    )
