"""Hudi's own clean, run before the blobs' one: it removes the data files of versions that need not be readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError, RefusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["clean_with_hudi", "require_sense"]

_RETAINED = "hoodie.clean.commits.retained"
# Archival must keep more commits than the clean, by Hudi's own check of its settings.
_KEPT_BY_DEFAULT = 20


def require_sense(run: bool, retained_commits: int | None, dry_run: bool) -> None:
    """Make sure that what is asked of Hudi's clean can be done.

    Args:
        run: Whether it is to run.
        retained_commits: How many commits stay readable.
        dry_run: Whether nothing may be changed.

    Raises:
        InvalidArgumentError: It cannot.
    """
    if retained_commits is not None and not run:
        raise InvalidArgumentError("retained_commits says how Hudi's clean runs; give run_hudi_clean=True with it")
    if retained_commits is not None and retained_commits < 1:
        raise InvalidArgumentError(f"retained_commits = {retained_commits} is not allowed: give 1 or more commits")
    if run and dry_run:
        raise InvalidArgumentError(
            "a dry run changes nothing, and Hudi's clean deletes data files; leave one of them out"
        )


def clean_with_hudi(spark: SparkSession, path: str, retained_commits: int | None) -> str:
    """Run Hudi's clean on a table by its path; its settings come from the session.

    Args:
        spark: A registered session.
        path: The table's base path, as Hadoop knows it.
        retained_commits: How many commits stay readable; ``hoodie.clean.commits.retained`` of the session, or Hudi's
            own default, where it is not given.

    Returns:
        What it did, in a sentence.

    Raises:
        RefusedError: It failed.
    """
    from py4j.protocol import Py4JJavaError

    from hudi_vector.spark.catalyst.gateway import first_sentence
    from hudi_vector.writing.client import hudi_client

    try:
        with hudi_client(spark, path, _settings(retained_commits)) as client:
            done = client.clean()
    except Py4JJavaError as problem:
        raise RefusedError(
            f"Hudi's clean of '{path}' failed, so its blobs were not looked at: {first_sentence(problem)}"
        ) from None
    spark.catalog.refreshByPath(path)
    if done is None:
        return "Hudi's clean found nothing to remove"
    return (
        f"Hudi's clean removed {done.getTotalFilesDeleted()} data files; the earliest commit it keeps is "
        f"{done.getEarliestCommitToRetain()}"
    )


def _settings(retained_commits: int | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if retained_commits is not None:
        settings |= {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", _RETAINED: str(retained_commits)}
        if retained_commits >= _KEPT_BY_DEFAULT:
            settings |= {
                "hoodie.keep.min.commits": str(retained_commits + 1),
                "hoodie.keep.max.commits": str(retained_commits + 2),
            }
    return settings
