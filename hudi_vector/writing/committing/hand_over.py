"""Hand-over of rows to Hudi's writer, which leaves things behind where it fails, and also fails after its commit."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hudi_vector.errors import HudiVectorError, InvalidArgumentError, WriteError
from hudi_vector.spark.catalyst.gateway import first_sentence
from hudi_vector.table.config import PROPERTIES, TableConfig, read_properties
from hudi_vector.table.timeline import Timeline
from hudi_vector.writing.catalog import create_table
from hudi_vector.writing.client import FAILED_WRITES, roll_back
from hudi_vector.writing.committing.commits import (
    TOKEN_KEY,
    Commit,
    begun_writes,
    find_commit,
    listed_timeline,
    new_token,
)
from hudi_vector.writing.hudi_options import DUPLICATES, hudi_options, table_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.writing.files import Files
    from hudi_vector.writing.target import Target
    from hudi_vector.writing.write_plan import WritePlan

__all__ = ["Handing", "hand_to_hudi"]

_LOG = logging.getLogger(__name__)

_MODE, _ALONE = "hoodie.write.concurrency.mode", "single_writer"
_CLUSTERING = "HoodieClusteringUpdateException"
_NO_SCHEMA = "Schema string cannot be null or empty"
_DUPLICATE_KEY = re.compile(r"HoodieDuplicateKeyException: Duplicate key found for insert statement, key is: (.+)")
_LEFT_BEHIND = re.compile(r"Found commits after time :(\d+)")


@dataclass
class Handing:
    """State of a write while Hudi has its rows, and after it failed.

    Attributes:
        may_have_committed: Whether Hudi may have committed the rows.
        instant: The commit of a write that failed after it, None for no or an unknown one.
    """

    may_have_committed: bool = False
    instant: str | None = None


def hand_to_hudi(
    spark: SparkSession,
    files: Files,
    rows: DataFrame,
    plan: WritePlan,
    token: str | None = None,
    handing: Handing | None = None,
) -> Commit | None:
    """Make Hudi write rows as they are; return the commit, or None if the write made none.

    Args:
        spark: The session.
        files: Hadoop's file systems with the session's settings.
        rows: The rows, with vectors and blobs as the table stores them.
        plan: The write.
        token: A unique text that the commit carries; None for the one in the options or a new one.
        handing: Gets what is known of the write; None if that is not needed.

    Raises:
        InvalidArgumentError: An insert has a key that the table already has, or Hudi cannot tell.
        WriteError: A clustering of the rows' files is scheduled or was killed, or Hudi failed after its commit.
    """
    target, token = plan.target, token or plan.request.options.get(TOKEN_KEY) or new_token()
    handing = handing or Handing()
    options = hudi_options(
        plan.request,
        plan.layout,
        plan.settings,
        target.name,
        has_vectors=plan.has_vectors,
        has_blobs=bool(plan.blobs),
    )
    if target.quoted_name and not target.is_registered:
        properties = table_properties(plan.layout, options)
        spark.sql(create_table(target.quoted_name, rows.schema, plan.layout.partition_by, properties))
        target = replace(target, is_registered=True)
    config = target.existing.config if target.existing else _config(files, target)
    before = listed_timeline(files, target.path, config) if config else Timeline(())
    handing.may_have_committed = True
    try:
        _save(spark, rows, target, {**options, TOKEN_KEY: token})
    except (Py4JJavaError, PySparkException) as problem:
        _look_after(spark, files, target, options, before, token, handing)
        known = _in_words(problem, plan, handing.instant)
        if known is None:
            raise
        raise known from None
    if target.quoted_name:
        spark.catalog.refreshTable(target.quoted_name)
    config = _config(files, target)
    return find_commit(files, target.path, config, frozenset(before.commits), token) if config else None


def _save(spark: SparkSession, rows: DataFrame, target: Target, options: Mapping[str, str]) -> None:
    """Make Hudi write, and roll back the failed writes of others that Hudi itself does not roll back any more."""
    left = None
    while True:
        try:
            return rows.write.format("hudi").options(**options).mode("append").save(target.path)
        except Py4JJavaError as problem:
            # Hudi rolls back what others left before it writes, but fails at a write that others have committed after.
            found = _LEFT_BEHIND.search(str(problem))
            if found is None or found[1] == left:
                raise
            left = found[1]
        _LOG.warning("write %s of '%s', which had failed or was killed, is rolled back", left, target.given)
        roll_back(spark, target.path, options, left)


def _look_after(
    spark: SparkSession,
    files: Files,
    target: Target,
    options: Mapping[str, str],
    before: Timeline,
    token: str,
    handing: Handing,
) -> None:
    """Find out whether a write that failed was committed, and roll it back if not.

    Hudi does so at its next write only, and not any more if a clustering has completed until then. Where writers take
    turns, the pending write could be another's, so nothing is rolled back.
    """
    with suppress(Py4JJavaError, OSError):  # the write's own failure is what its user has to know
        config = _config(files, target)
        if config is None:
            return
        done = find_commit(files, target.path, config, frozenset(before.commits), token)
        handing.may_have_committed, handing.instant = done is not None, done.instant if done else None
        takes_turns = options.get(_MODE, _ALONE).lower() != _ALONE
        if takes_turns or options.get(FAILED_WRITES, "EAGER").upper() != "EAGER" or done is not None:
            return
        begun = begun_writes(files, target.path, config) - before.pending
        if len(begun) == 1:
            roll_back(spark, target.path, options, *begun)


def _in_words(problem: Exception, plan: WritePlan, instant: str | None) -> HudiVectorError | None:
    """Return the error that says what a failure of Hudi means, None for a failure that nothing more is known of.

    `instant` is the commit that was made all the same, if it was.
    """
    text, table = str(problem), plan.request.table
    if instant is not None:
        _LOG.error("after instant %s of '%s'", instant, table, exc_info=problem)
        return WriteError(
            f"instant {instant} of '{table}' was committed, and its rows are there, but what Hudi does after a commit "
            f"failed: {first_sentence(problem)}"
        )
    if _CLUSTERING in text:
        return WriteError(_being_clustered(plan))
    if _NO_SCHEMA in text and plan.request.operation == "insert" and plan.settings.has_global_index:
        return InvalidArgumentError(
            f"nothing was written: Hudi cannot look up by a global index which keys '{table}' holds already; use "
            f"operation 'upsert', or set {DUPLICATES} to none"
        )
    found = _DUPLICATE_KEY.search(text)
    if found is None:
        return None
    return InvalidArgumentError(
        f"nothing was written: '{table}' holds record key '{found[1].strip()}' already; use operation 'upsert', or set "
        f"{DUPLICATES} to drop or none"
    )


def _being_clustered(plan: WritePlan) -> str:
    name, path = plan.request.table, plan.target.path
    return (
        f"nothing was written: a clustering of '{name}' has been scheduled and has not completed, and Hudi refuses "
        "changes to rows of the files that it rewrites; wait until it has completed, or, if it was killed, end it with "
        f"'hudi-vector maintain --table {path}' (one that another tool scheduled: CALL run_clustering(path => "
        f"'{path}', op => 'execute')), and write again"
    )


def _config(files: Files, target: Target) -> TableConfig | None:
    content = read_properties(files.read, target.path)
    return TableConfig.of_file(content, f"{target.path}/{PROPERTIES}") if content is not None else None
