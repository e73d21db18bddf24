"""Replacement of file groups by the same rows in another order, in one commit of Hudi's own client.

Hudi's clustering can sort only by columns, and INSERT OVERWRITE replaces everything in a partition at commit time,
including rows that were written after the read. This commit replaces exactly the file groups that were read; rows keep
Hudi's meta columns, as in Hudi's clustering. If writers use a lock, Hudi checks for conflicts with commits since the
start of this one, which comes before the check that no other commit completed since the read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from hudi_vector.errors import RefusedError, number_of
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.table.model import FileSlice
from hudi_vector.table.native import NativeTable
from hudi_vector.writing.client import hudi_client
from hudi_vector.writing.failures import in_one_sentence, is_conflict
from hudi_vector.writing.hudi_options import CODEC, DEFAULT_CODEC
from hudi_vector.writing.rewriting.coarse_order import numbered, ordered
from hudi_vector.writing.rewriting.rewrite import Rewriting, committed_now, listed_now

__all__ = ["replace_in_order"]

_ACTION = "replacecommit"
_OPTION = "org.apache.hudi.common.util.Option"
_FILE_BYTES = "hoodie.parquet.max.file.size"
_DEFAULT_FILE_BYTES = 120 << 20
_ATTEMPTS = 3


def replace_in_order(
    work: Rewriting,
    path: str,
    order: Sequence[str],
    vectors: Sequence[VectorColumn],
    folder: str,
    begun: Callable[[str], None],
    before_commit: Callable[[], None],
) -> str | None:
    """Rewrite all file groups of a table, with the rows sorted within each partition; return the instant.

    Args:
        work: The table; its writers must use a lock, or no other process may write to it.
        path: The table's base path, as Hadoop spells it.
        order: The columns to sort by; a vector column means the cluster of each row.
        vectors: The vector columns among them.
        folder: The folder for the numbers of the clusters.
        begun: Called with the instant of each attempt before any of its files is written.
        before_commit: Called when all files are written; an exception stops the commit.

    Returns:
        The instant, or None for a table without file slices.

    Raises:
        RefusedError: Other writers committed during each of three attempts, or the number of rows written is wrong.
        WriteError: Spark or Hudi failed.
    """
    for _ in range(_ATTEMPTS):
        with in_one_sentence(f"putting the rows of '{work.table}' in order failed"):
            timeline = listed_now(work.known)
            table, seen = work.now(timeline), frozenset(timeline.commits)
            slices = NativeTable(table.source).snapshot().file_slices
            if not slices:
                return None
            numbers = numbered(table, vectors, folder)
            count = numbers.count()
            settings = _settings(work, has_blobs=bool(table.columns))
            size = sum(each.size for each in slices)
            tasks = max(1, -(-size // int(settings.get(_FILE_BYTES, _DEFAULT_FILE_BYTES))))
            rows = ordered(table, order, numbers, [column.name for column in vectors], tasks)

            def is_undisturbed(table: BlobTable = table, seen: frozenset[Any] = seen) -> bool:
                before_commit()
                return committed_now(table) == seen

            instant = _replace(work, path, rows, count, slices, settings, begun, is_undisturbed)
            if instant is not None:
                return instant
    raise RefusedError(
        f"others committed to '{work.table}' during each of {_ATTEMPTS} attempts to put its rows in order; nothing "
        "was changed, run it again when less is written"
    )


def _settings(work: Rewriting, *, has_blobs: bool) -> dict[str, str]:
    """Return Hudi's settings for the files and the commit, as `hv.write` sets them."""
    files = {CODEC: work.spark.conf.get(CODEC, None) or DEFAULT_CODEC}
    if has_blobs:
        files["hoodie.parquet.dictionary.enabled"] = "false"
    return {**files, **work.settings()}


def _replace(
    work: Rewriting,
    path: str,
    rows: DataFrame,
    count: int,
    slices: Iterable[FileSlice],
    settings: Mapping[str, str],
    begun: Callable[[str], None],
    is_undisturbed: Callable[[], bool],
) -> str | None:
    """Write the rows and commit them in place of file groups; return None if another commit came in between.

    Raises RefusedError if the number of rows written is not `count`. A failed or refused commit is rolled back.
    """
    with hudi_client(work.spark, path, settings) as client:
        instant: str = client.startCommit(_ACTION)
        try:
            begun(instant)
            statuses = _written(work, client, instant, rows)
            written = sum(int(status.getStat().getNumWrites()) for status in statuses)
            if any(status.hasErrors() for status in statuses) or written != count:
                raise RefusedError(
                    f"{written} instead of {number_of(count, 'row')} of '{work.table}' were rewritten, so nothing was "
                    "committed; rows of equal key and sequence number cannot be put in order"
                )
            if is_undisturbed() and _commit(work, client, instant, statuses, slices):
                return instant
        except BaseException:
            with suppress(Py4JJavaError):
                client.rollback(instant)
            raise
        client.rollback(instant)
        return None


def _written(work: Rewriting, client: Any, instant: str, rows: DataFrame) -> Any:
    """Write the files of an instant that was started; return Hudi's write statuses."""
    named = handles_of(work.spark).named
    option = named(_OPTION)
    # With clustering's operation type, readers of changes know that no row changed.
    operation = named("org.apache.hudi.common.model.WriteOperationType").CLUSTER
    table = client.initTable(operation, option.of(instant))
    meta = table.getMetaClient()
    client.preWrite(instant, operation, meta)
    state = named("org.apache.hudi.common.table.timeline.HoodieInstant$State").REQUESTED
    requested = meta.createNewInstant(state, _ACTION, instant)
    table.getActiveTimeline().transitionRequestedToInflight(requested, option.empty())
    helper = named("org.apache.hudi.HoodieDatasetBulkInsertHelper")
    data = helper.bulkInsert(rows._jdf, instant, table, client.getConfig(), True, True)
    return named("org.apache.hudi.data.HoodieJavaRDD").getJavaRDD(data).collect()


def _commit(work: Rewriting, client: Any, instant: str, statuses: Any, slices: Iterable[FileSlice]) -> bool:
    option = handles_of(work.spark).named(_OPTION)
    replaced: dict[str, list[str]] = defaultdict(list)
    for each in slices:
        replaced[each.partition_path].append(each.file_id)
    # Pass the collected statuses as a new RDD; Spark might recompute the RDD that writes the files.
    written = work.spark.sparkContext._jsc.parallelize(statuses, 1)
    try:
        client.commit(instant, written, option.empty(), _ACTION, dict(replaced), option.empty())
    except Py4JJavaError as problem:
        if is_conflict(problem):
            return False
        raise
    return True
