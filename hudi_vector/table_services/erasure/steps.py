"""The steps of an erasure, in `STEPS` in the order in which they run.

No step keeps a note of what it did: whether it is due is found by a look at the table. So a run that was killed is
ended by the next one, which goes on where the table shows that something is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudi_vector.blobs.leases import CLEAN
from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.options import INDEX_EXTERNAL_DIR
from hudi_vector.storage import join
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.cleaning.hudi_clean import NEWEST_ONLY, clean_with_hudi
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.erasure.api import ErasureResult, Holder, look_now, rows_of
from hudi_vector.table_services.erasure.held import pending_of
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.plans.compaction import KEEP
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.trash.trash import expire, list_trash
from hudi_vector.writing.erased.deny_list import add_erased, read_erased

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.index.catalog import Index
    from hudi_vector.table_services.compaction.run import Compaction

__all__ = ["STEPS", "Erasing", "Step"]

_NOT_ITS = "it holds no blob of the erased rows"


@dataclass
class Erasing:
    """An erasure under way.

    Attributes:
        spark: A registered session.
        place: The table as the cleaner sees it.
        work: The table as the compaction of blobs sees it, with Hudi's settings for commits.
        keys: The record keys, each once.
        found: What the newest look at the table found.
        remember: Whether the keys go to the deny-list.
    """

    spark: SparkSession
    place: ServiceTable
    work: Compaction
    keys: Sequence[str]
    found: ErasureResult
    remember: bool = True

    def holders(self, *kinds: str) -> list[Holder]:
        """Return the files of some kinds that hold bytes of the keys."""
        return [holder for holder in self.found.holders if holder.kind in kinds]

    def look(self) -> None:
        """Look at the table again."""
        self.found = look_now(self.spark, self.place, self.keys)

    def settings(self) -> dict[str, str]:
        """Return Hudi's settings for a commit, which cleans, archives and compacts nothing by itself."""
        from hudi_vector.writing.rewriting.rewrite import Rewriting

        work = self.work
        return Rewriting(self.spark, work.name, work.table, work.hudi_options, work.alone).settings()

    def native(self) -> NativeTable:
        """Open the table without Spark."""
        return NativeTable(Source(self.place.table, self.place.table, self.place.options))


@dataclass(frozen=True)
class Step:
    """A step of an erasure.

    Attributes:
        name: Its name.
        due: Returns what there is to do, or an empty text.
        run: Does it, and returns what was done, or an empty text if there was nothing after all.
        looks: Whether the table is looked at again before it, if a step before it has changed something.
    """

    name: str
    due: Callable[[Erasing], str]
    run: Callable[[Erasing], str]
    looks: bool = True


def _forgotten(job: Erasing) -> str:
    if not job.remember:
        return ""
    known = read_erased(job.place.table, job.place.options)
    new = len(job.keys) if known is None else len(known.lacks(job.keys))
    return f"{number_of(new, 'key')} for the list of erased keys" if new else ""


def _remember(job: Erasing) -> str:
    added = add_erased(job.place.table, job.keys, job.place.options)
    return f"{number_of(added, 'key')} went to the list of erased keys, as salted hashes"


def _deletes(job: Erasing) -> str:
    return f"{number_of(job.found.live, 'key')} with rows" if job.found.live else ""


def _delete(job: Erasing) -> str:
    from hudi_vector.spark.stored_partitions import with_stored_partitions
    from hudi_vector.writing.writer import write

    config = job.work.table.config
    rows = with_stored_partitions(rows_of(job.spark, job.place, job.keys), config)
    key = config.record_key_fields
    done = write(rows, job.place.path, record_key=key, operation="delete", options=job.settings())
    return f"the rows of {number_of(job.found.live, 'key')} were deleted by {done.instant}"


def _of_containers(job: Erasing) -> str:
    found = job.holders("container")
    return f"{number_of(len(found), 'container')} with bytes of the keys" if found else ""


def _repack(job: Erasing) -> str:
    """Copy the blobs of other rows out of the containers that hold bytes of the keys."""
    from hudi_vector.table_services.compaction.api import Wanted, compact_blobs, publish

    work = job.work.reopened()
    if not work.table.columns:
        return ""
    mine = {holder.path for holder in job.holders("container")}
    planned = Wanted(job.spark, 100, None, 0, None).plan(
        work, tuple(work.table.columns), deduplicate=False, look=work.look
    )
    chosen = tuple(
        each if each.path in mine or each.action == KEEP else replace(each, action=KEEP, reason=_NOT_ITS, group=-1)
        for each in planned.containers
    )
    plan = replace(planned, containers=chosen)
    if not plan.candidates:
        return ""
    publish(plan, work)
    done = compact_blobs(
        job.spark, job.place.path, plan=plan.plan_id, assume_single_writer=work.alone, options=work.hudi_options
    )
    return f"{number_of(done.blobs, 'blob')} of other rows moved out of {number_of(len(plan.candidates), 'container')}"


def _of_logs(job: Erasing) -> str:
    found = job.holders("log file")
    return f"{number_of(len(found), 'log file')} with rows or deletions of the keys" if found else ""


def _compact(job: Erasing) -> str:
    from hudi_vector.table_services.erasure.hudi_upkeep import compact_logs

    ran = compact_logs(job.spark, job.place.path, job.settings(), pending_of(job.native()))
    return f"{number_of(ran, 'compaction')} of Hudi ran" if ran else ""


def _of_data(job: Erasing) -> str:
    found = job.holders("base file", "log file")
    return f"{number_of(len(found), 'data file')} with rows of the keys" if found else ""


def _clean(job: Erasing) -> str:
    return clean_with_hudi(job.spark, job.place.path, None, {**job.work.hudi_options, **NEWEST_ONLY})


def _of_blobs(job: Erasing) -> str:
    found = job.holders("container", "leftover")
    return f"{number_of(len(found), 'file')} of the blob area and of staged rows" if found else ""


def _sweep(job: Erasing) -> str:
    """Delete for good the containers with bytes of the keys that nothing needs, and leftovers of killed processes."""
    # Exactly the files that the look named go, so that no other file needs the grace.
    now = replace(job.place, grace_ms=0)
    mine = {holder.path for holder in job.holders("container")}
    first = _only(now.first_mark(), mine)
    done = sweep(
        first, lambda: _only(now.mark(), mine), trash=False, limits=SweepLimits(100), options=job.place.options
    )
    left, _ = job.place.remove_leftovers([first], False)
    doubts = f"; nothing more may go: {first.doubts[0]}" if first.doubts else ""
    return f"{number_of(len(done.deleted) + len(left), 'file')} deleted ({done.bytes} bytes of blobs){doubts}"


def _only(report: MarkReport, mine: set[str]) -> MarkReport:
    return replace(report, candidates=tuple(file for file in report.candidates if file.path in mine))


def _of_trash(job: Erasing) -> str:
    found = job.holders("trash")
    return f"{number_of(len(found), 'file')} in the trash" if found else ""


def _empty_trash(job: Erasing) -> str:
    report = job.place.mark()
    if report.doubts:
        return f"nothing may go: {report.doubts[0]}"
    needed = {file.path: file.reason for file in report.dangling}
    mine = {holder.path for holder in job.holders("trash")}
    ours = {each.path for each in list_trash(job.place.storage, job.place.table) if each.trash_path in mine}

    def stays(path: str) -> str | None:
        return needed.get(path) if path in ours else "it is of other rows"

    with ServiceLease(job.place.table, CLEAN, options=job.place.options):
        gone = expire(job.place.table, window_ms=0, now_ms=clock_ms() + 1, stays=stays, options=job.place.options).gone
    return f"{number_of(len(gone), 'file')} left the trash for good"


def _of_indexes(job: Erasing) -> str:
    found = job.holders("segment")
    return f"{number_of(len(found), 'segment or pack', 'segments or packs')} of indexes" if found else ""


def _make_indexes(job: Erasing) -> str:
    """Train and make again the indexes with bytes of the keys, since centroids are means of vectors too."""
    from hudi_vector.table_services.vector_index.places import IndexSubject

    held = [_uri(job, holder.path) for holder in job.holders("segment")]
    _, indexes = IndexSubject.of(job.spark, job.place.path).indexes(None)
    made = [index for index in indexes if any(uri.startswith(f"{index.folder}/") for uri in held)]
    for index in made:
        _make_index(job, index)
    return ", ".join(f"{index.name} of '{index.manifest.column}' was made again" for index in made)


def _make_index(job: Erasing, index: Index) -> None:
    from hudi_vector.table_services.vector_index.api import create, drop
    from hudi_vector.table_services.vector_index.compacting import compact
    from hudi_vector.table_services.vector_index.places import IndexSpec

    known, is_own = index.manifest, index.folder.startswith(f"{job.place.table}/")
    place: Any = {} if is_own else {"directory": INDEX_EXTERNAL_DIR.in_session(job.spark)}
    which: Any = {"kind": known.kind, "metric": known.metric, **place}
    spec: Any = {name: known.parameters.get(name) for name in IndexSpec.__annotations__}
    table, column = job.place.path, known.column
    try:
        create(job.spark, table, column, recall_target=index.recall_target, **which, **spec)
    except InvalidArgumentError:  # no row is left that a model could be trained on
        drop(job.spark, table, column, **which)
        return
    compact(job.spark, table, column, grace="0s", **which)


def _uri(job: Erasing, path: str) -> str:
    return path if "://" in path else join(job.place.table, path)


def _of_statistics(job: Erasing) -> str:
    found = job.holders("metadata table")
    return f"{number_of(len(found), 'file')} of Hudi's metadata table with keys and statistics" if found else ""


def _remove_statistics(job: Erasing) -> str:
    from hudi_vector.table_services.erasure.hudi_upkeep import remove_metadata_table

    remove_metadata_table(job.spark, job.place.path, job.work.hudi_options)
    return "Hudi's metadata table was removed; the next write makes it again"


def _of_cache(job: Erasing) -> str:
    found = job.holders("cache")
    return f"{number_of(len(found), 'entry of the cache', 'entries of the cache')} on this host" if found else ""


def _empty_cache(job: Erasing) -> str:
    found = job.holders("cache")
    for holder in found:
        with suppress(OSError):  # another process removed it
            Path(holder.path).unlink()
    return f"{number_of(len(found), 'entry')} left the cache on disk of this host"


STEPS: Sequence[Step] = (
    # First: a load between the following steps then brings no erased row back, if it consults the list.
    Step("remember", _forgotten, _remember, looks=False),
    Step("delete", _deletes, _delete),
    # Before Hudi's compaction and clean, which then take the versions that refer to the old containers.
    Step("repack", _of_containers, _repack),
    Step("compact_logs", _of_logs, _compact),
    Step("clean", _of_data, _clean),
    Step("sweep", _of_blobs, _sweep),
    Step("trash", _of_trash, _empty_trash, looks=False),
    Step("index", _of_indexes, _make_indexes, looks=False),
    Step("metadata_table", _of_statistics, _remove_statistics, looks=False),
    # Last, since what ran before may have read files that are gone now.
    Step("cache", _of_cache, _empty_cache),
)
