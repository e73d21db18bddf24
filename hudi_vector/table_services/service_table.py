"""A table as a service sees it: where it lies, how its storage is opened, what its settings are, how it is marked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from hudi_vector.blobs.leases import CLEAN, clock_ms
from hudi_vector.options import (
    CLEAN_EXECUTION,
    CLEAN_GRACE,
    CLEAN_LOCAL_MAX_BYTES,
    CLEAN_LOCAL_MAX_FILES,
    CLEAN_MANAGED_ROOTS,
    CLEAN_MAX_FILES,
    CLEAN_MAX_SHARE,
    Option,
)
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.container_index import verify_containers
from hudi_vector.table_services.file_references import Reader, read_here
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.kept_references import KeptReferences
from hudi_vector.table_services.located import locate
from hudi_vector.table_services.mark import find_unneeded
from hudi_vector.table_services.mark_files import publish_mark
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.trash import expire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ServiceTable"]

_LOG = logging.getLogger(__name__)
_EXECUTION_KEYS = (CLEAN_EXECUTION.key, CLEAN_LOCAL_MAX_BYTES.key, CLEAN_LOCAL_MAX_FILES.key)
_DIFFERENCES = "what was kept of the references of {} files was wrong and is replaced, such as '{}'"


@dataclass(frozen=True)
class ServiceTable:
    """A table, its path as Hadoop knows it, how its storage is opened and how it is marked."""

    table: str
    path: str
    options: StorageOptions = field(repr=False)
    setting: Callable[[str], str | None]
    grace_ms: int
    marking: dict[str, Any]
    verify_index: bool = False
    reader: Reader = read_here

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        name: str,
        grace: str | int | None = None,
        other_tables: Sequence[str] = (),
        ignore_stale_pending: bool = False,
        managed_roots: Sequence[str] | None = None,
        verify_index: bool = False,
    ) -> ServiceTable:
        """The table that a user names, with what a service was given for it."""
        table, path, options = locate(spark, name)

        def setting(key: str) -> str | None:
            return spark.conf.get(key, None)

        # Other writers may have another zone than this JVM, so the mark is not told one.
        roots = (setting(CLEAN_MANAGED_ROOTS.key) or "").split(",") if managed_roots is None else managed_roots
        marking = {
            "other_tables": _listed(other_tables),
            "managed_roots": tuple(root.strip() for root in _listed(roots) if root.strip()),
            "ignore_stale_pending": ignore_stale_pending,
        }
        grace_ms = _chosen(CLEAN_GRACE, grace, setting)
        return cls(table, path, options, setting, grace_ms, marking, verify_index, _reader(spark, setting))

    @cached_property
    def references(self) -> KeptReferences:
        """The references of its data files, for all marks of one run."""
        return KeptReferences(self.table, self.options, self.reader, verify=self.verify_index)

    def chosen(self, option: Option[int], given: str | int | None) -> int:
        """What a caller gave, or the session's setting."""
        return _chosen(option, given, self.setting)

    def limits(self, max_share: int | None, max_files: int | None) -> SweepLimits:
        """How much may go."""
        return SweepLimits(self.chosen(CLEAN_MAX_SHARE, max_share), self.chosen(CLEAN_MAX_FILES, max_files))

    def mark(self) -> MarkReport:
        """What nothing needs now."""
        found = find_unneeded(
            self.table, grace_ms=self.grace_ms, options=self.options, reader=self.references, **self.marking
        )
        self.keep_references()
        return found

    def keep_references(self, *, forget: bool = True) -> None:
        """Save what was read of data files; they can be read again, so nothing fails where it cannot be saved."""
        try:
            self.references.save(forget=forget)
        except OSError as problem:
            _LOG.warning(
                "the references of %s were not kept, and the next mark reads them anew: %s", self.table, problem
            )

    def first_mark(self, done: Sequence[str] = ()) -> MarkReport:
        """A mark that says what was done before it, and what it found wrong in what was kept; published."""
        found = self.mark()
        wrong = self.references.differing
        if self.verify_index and not found.doubts:
            wrong = [*wrong, *verify_containers(self.table, self.references, self.options)]
        found = replace(found, notes=(*done, *found.notes))
        if wrong:
            found = replace(found, notes=(*found.notes, _DIFFERENCES.format(len(wrong), wrong[0])))
        publish_mark(found, self.options)
        return found

    def empty_trash(self, window_ms: int, dry_run: bool) -> list[CleanFile]:
        """Delete for good what has been in the trash for longer than the window."""
        run = partial(expire, self.table, window_ms=window_ms, now_ms=clock_ms(), options=self.options)
        if dry_run:
            return run(dry_run=True)
        with ServiceLease(self.table, CLEAN, options=self.options):
            return run()


def _reader(spark: SparkSession, setting: Callable[[str], str | None]) -> Reader:
    from hudi_vector.table_services.distributed import SpreadLimits, spread_reader

    conf = {key: value for key in _EXECUTION_KEYS if (value := setting(key)) is not None}
    execution = CLEAN_EXECUTION.read(conf)
    if execution == "local":
        return read_here
    limits = SpreadLimits(CLEAN_LOCAL_MAX_BYTES.read(conf), CLEAN_LOCAL_MAX_FILES.read(conf))
    return spread_reader(spark.sparkContext, limits if execution == "auto" else SpreadLimits(0, 0))


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    """One path, or several: text is a sequence of letters too."""
    return (given,) if isinstance(given, str) else tuple(given)


def _chosen(option: Option[int], given: str | int | None, setting: Callable[[str], str | None]) -> int:
    text = setting(option.key) if given is None else str(given)
    return option.default if text is None else option.parse(text)
