"""What the cleaner refuses, whatever a mark says: files that are not its own, too much at once."""

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
    """How much one run may take: a share of the blob area's bytes in percent, and a number of files."""

    max_share: int = CLEAN_MAX_SHARE.default
    max_files: int = CLEAN_MAX_FILES.default


def require_table(report: MarkReport, table: str) -> str:
    """Make sure that a report is about a table; the spellings of one place count as one.

    Args:
        report: The report.
        table: The table's base path.

    Returns:
        The base path, normalised.

    Raises:
        InvalidArgumentError: It is about another table.

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
    """Why a file may not be touched although a mark names it.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        path: The file's path from there, or the URI of one below a managed root.
        roots: The managed roots, normalised.

    Returns:
        The reason, or None where it is a container of this table, whole or not, or lies below a managed root.
    """
    if "\0" in path:
        return "refused: a NUL character stands in its path"
    root = root_above(path, roots)
    if root is not None:
        return _why_not_below(root.rstrip("/"), path)
    uri = join(table, path)
    if path.startswith("/") or normalise(uri) != uri:
        return "refused: its path is not a plain path below the table's folder"
    if not path.startswith(f"{BLOB_AREA}/"):
        return f"refused: it lies outside of {BLOB_AREA}"
    if write_of(table, uri) is None:
        return "refused: it does not bear the name of a container"
    if not is_plain(storage, table, path):
        return "refused: a symbolic link stands in its path"
    return None


def root_above(path: str, roots: Iterable[str]) -> str | None:
    """The managed root below which a file lies, or None.

    Args:
        path: The file's path, as marks name it.
        roots: The managed roots, normalised.
    """
    return next((root for root in roots if path.startswith(f"{root.rstrip('/')}/")), None)


def _why_not_below(root: str, path: str) -> str | None:
    if normalise(path) != path:
        return "refused: its path is not a plain path below a managed root"
    if "/.hoodie/" in path:
        return "refused: it lies in a Hudi table"
    if scheme_of(root) == "file" and not _leads_straight(root.removeprefix("file://"), path[len(root) + 1 :]):
        return "refused: a symbolic link stands in its path"
    return None


def is_plain(storage: Storage, table: str, path: str) -> bool:
    """Whether a path leads where it says: no symbolic link stands in it below the table's folder.

    Args:
        storage: The table's storage; only local files know links.
        table: The table's base path, normalised, itself perhaps behind a link.
        path: A path from there, to what may not exist.
    """
    if storage.scheme != "file":
        return True
    return _leads_straight(storage.path(table), path)


def _leads_straight(folder: str, path: str) -> bool:
    return os.path.realpath(join(folder, path)) == join(os.path.realpath(folder).rstrip("/"), path)


def too_much(going: Iterable[int], total_bytes: int, max_share: int) -> str | None:
    """Why a sweep takes too much at once.

    Args:
        going: The bytes of each file that would go.
        total_bytes: The bytes of all files in the blob area.
        max_share: The share that may go, percent.

    Returns:
        The reason as a sentence, or None.

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
