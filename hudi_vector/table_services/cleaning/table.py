"""A table as the cleaner sees it: its location, storage settings, cleaner settings, marks and trash."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from hudi_vector.blobs.leases import CLEAN
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, InvalidOptionError
from hudi_vector.options import (
    CLEAN_EXECUTION,
    CLEAN_GRACE,
    CLEAN_LOCAL_MAX_BYTES,
    CLEAN_LOCAL_MAX_FILES,
    CLEAN_MANAGED_ROOTS,
    CLEAN_MAX_FILES,
    CLEAN_MAX_SHARE,
    Settings,
    parse_names,
)
from hudi_vector.storage import Storage, StorageOptions, open_storage
from hudi_vector.table_services.arguments import paths
from hudi_vector.table_services.cleaning.forget import forget_notes
from hudi_vector.table_services.cleaning.leftovers import remove_leftovers
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.located import locate_anyhow
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.container_index import verify_containers
from hudi_vector.table_services.marking.files import publish_mark
from hudi_vector.table_services.marking.kept_uploads import KeptUploads
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import Reader, read_here
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.sites import Site
from hudi_vector.table_services.trash.trash import Expired, expire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ServiceTable"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_DIFFERENCES = "the stored references of {} files were wrong and are replaced, the first are those of '{}'"


@dataclass(frozen=True)
class ServiceTable:
    """A table with everything the cleaner needs to mark it and to delete from it.

    Attributes:
        session: A registered session, or the settings if there is none.
        table: The table's base path, normalised.
        path: The table's base path as Hadoop knows it.
        options: The storage settings.
        grace_ms: The minimum age of a file that may go, milliseconds.
        marking: Further arguments of `find_unneeded`.
        verify_index: Whether to read data files and manifests again although they are kept, and compare.
        reader: Reads the data files whose references are not kept.
    """

    session: SparkSession | Settings = field(repr=False)
    table: str
    path: str
    options: StorageOptions = field(repr=False)
    grace_ms: int
    marking: dict[str, Any]
    verify_index: bool = False
    reader: Reader = read_here

    @classmethod
    def of(
        cls,
        spark: SparkSession | Settings | None,
        name: str | os.PathLike[str],
        grace: str | int | None = None,
        other_tables: Sequence[str] = (),
        ignore_stale_pending: bool = False,
        managed_roots: Sequence[str] | None = None,
        verify_index: bool = False,
        look: bool = True,
    ) -> ServiceTable:
        """Find the table that a user names; settings that are not given come from the session, or are the defaults.

        Without `look`, whether there is a table at a path on other storage is left to the first mark.
        """
        table, path, options = locate_anyhow(spark, name, look)
        session = Settings() if spark is None else spark
        # `writers_zone` is not set: other writers may use another time zone than this JVM.
        roots = parse_names(CLEAN_MANAGED_ROOTS.in_session(session)) if managed_roots is None else managed_roots
        marking = {
            "other_tables": tuple(paths("other_tables", other_tables)),
            "managed_roots": tuple(root.strip() for root in paths("managed_roots", roots) if root.strip()),
            "ignore_stale_pending": ignore_stale_pending,
        }
        grace_ms = CLEAN_GRACE.in_session(session, grace)
        return cls(session, table, path, options, grace_ms, marking, verify_index, _reader(session))

    @property
    def storage(self) -> Storage:
        """Return the storage of the table."""
        return open_storage(self.table, self.options)

    @property
    def spark(self) -> SparkSession:
        """Return the session, for Hudi's clean; raise InvalidArgumentError if there is none."""
        if isinstance(self.session, Settings):
            raise InvalidArgumentError("Hudi's clean runs in Spark; give a session, or leave run_hudi_clean out")
        return self.session

    @cached_property
    def references(self) -> KeptReferences:
        """Return the reader of the data files' references, shared by all marks of one run."""
        return KeptReferences(self.table, self.options, self.reader, verify=self.verify_index)

    @cached_property
    def uploads(self) -> KeptUploads:
        """Return the reader of the writes to the table, shared by all marks of one run."""
        return KeptUploads(self.table, self.options, verify=self.verify_index)

    def limits(self, max_share: int | None, max_files: int | None) -> SweepLimits:
        """Return the limits of a sweep; a value of None comes from the session."""
        return SweepLimits(
            CLEAN_MAX_SHARE.in_session(self.session, max_share), CLEAN_MAX_FILES.in_session(self.session, max_files)
        )

    def mark(self) -> MarkReport:
        """Make a mark now, and keep the references and ended writes that it read for the next one."""
        found = self._found()
        self.storage.together(self.keep_references, self._keep_uploads)
        return found

    def _found(self) -> MarkReport:
        """Make a mark; what earlier ones kept is loaded while the blob area is listed."""
        references = self.storage.begun(lambda: self.references)
        uploads = self.storage.begun(lambda: self.uploads)
        found = find_unneeded(
            self.table,
            grace_ms=self.grace_ms,
            options=self.options,
            reader=_when_ready(references),
            uploads=_when_ready(uploads),
            **self.marking,
        )
        references(), uploads()  # raises if a newer version of this package keeps them
        return found

    def keep_references(self, *, forget: bool = True) -> None:
        """Save the references that were read; log a warning if they cannot be saved, as they can be read again."""
        try:
            self.references.save(forget=forget)
        except OSError as problem:
            _LOG.warning(
                "the references of %s were not kept, and the next mark reads them again: %s", self.table, problem
            )

    def _keep_uploads(self) -> None:
        try:
            self.uploads.save()
        except OSError as problem:
            _LOG.warning(
                "the ended writes of %s were not stored, and the next mark reads them again: %s", self.table, problem
            )

    def forget_notes(self, found: MarkReport) -> None:
        """Remove old notes that are not needed; those that cannot be removed wait for the next run."""
        try:
            with ServiceLease(self.table, CLEAN, options=self.options):
                forget_notes(found, self.uploads(self.table, self.options), self.options)
        except (OSError, HudiVectorError) as problem:
            _LOG.warning("notes of %s that nothing needs stay until the next run: %s", self.table, problem)

    def first_mark(self, done: Sequence[str] = (), begin: Callable[[MarkReport], None] | None = None) -> MarkReport:
        """Make and publish a mark whose notes begin with `done`, sentences about what ran before it.

        `begin` is called before the mark is published, to begin what goes on meanwhile. If kept references or the kept
        container index turned out wrong, the last note counts the files concerned.
        """
        found = self._found()
        found = replace(found, notes=(*done, *found.notes))
        if begin is not None:
            begin(found)
        if self.verify_index:
            self.storage.together(self.keep_references, self._keep_uploads)
            wrong = list(self.references.differing)
            wrong += [] if found.doubts else verify_containers(self.table, self.references, self.options)
            if wrong:
                found = replace(found, notes=(*found.notes, _DIFFERENCES.format(len(wrong), wrong[0])))
            publish_mark(found, self.options)
            return found
        self.storage.together(self.keep_references, self._keep_uploads, lambda: publish_mark(found, self.options))
        return found

    def empty_trash(self, window_ms: int, marks: Sequence[MarkReport], now_ms: int, dry_run: bool) -> Expired:
        """Delete trashed files for good that are older than the window and that no mark found needed.

        If a mark has a doubt, nothing is deleted. Times are in milliseconds.
        """
        needed = {file.path: file.reason for mark in marks for file in mark.dangling}
        doubt = next((doubt for mark in marks for doubt in mark.doubts), None)
        stays = needed.get if doubt is None else lambda path: needed.get(path, f"a doubt keeps everything: {doubt}")
        run = partial(expire, self.table, window_ms=window_ms, now_ms=now_ms, stays=stays, options=self.options)
        if dry_run or doubt is not None:
            return run(dry_run=True)
        with ServiceLease(self.table, CLEAN, options=self.options):
            return run()

    def remove_leftovers(self, marks: Sequence[MarkReport], dry_run: bool) -> tuple[list[CleanFile], list[CleanFile]]:
        """Delete the leftovers of killed processes, unless a mark has a doubt.

        Return what is gone and what storage would not delete.
        """
        if any(mark.doubts for mark in marks):
            return [], []
        run = partial(
            remove_leftovers,
            Site(self.table, self.options),
            partial(self.uploads, self.table, self.options),
            grace_ms=self.grace_ms,
            # The time of the mark: leftovers that became old since wait for the next run, as in a dry run.
            now_ms=marks[0].made_ms,
            ignore_stale_pending=self.marking["ignore_stale_pending"],
        )
        if dry_run:
            return run(dry_run=True)
        with ServiceLease(self.table, CLEAN, options=self.options):
            return run()


def _when_ready(made: Callable[[], Callable[..., T]]) -> Callable[..., T]:
    """Return a function that calls the one that is being made."""

    def call(*arguments: Any) -> T:
        return made()(*arguments)

    return call


def keep_references(references: KeptReferences, table: str, *, forget: bool) -> None:
    """Save the references that were read; log a warning if they cannot be saved, as they can be read again."""
    try:
        references.save(forget=forget)
    except OSError as problem:
        _LOG.warning("the references of %s were not stored, and the next mark reads them again: %s", table, problem)


def _reader(spark: SparkSession | Settings) -> Reader:
    execution = CLEAN_EXECUTION.in_session(spark)
    if isinstance(spark, Settings) and execution == "distributed":
        raise InvalidOptionError(
            f"{CLEAN_EXECUTION.key} = 'distributed' needs a session; give one, or set it to 'local'"
        )
    if isinstance(spark, Settings) or execution == "local":
        return read_here
    from hudi_vector.table_services.references.distributed import SpreadLimits, spread_reader

    limits = SpreadLimits(CLEAN_LOCAL_MAX_BYTES.in_session(spark), CLEAN_LOCAL_MAX_FILES.in_session(spark))
    return spread_reader(spark.sparkContext, limits if execution == "auto" else SpreadLimits(0, 0))
