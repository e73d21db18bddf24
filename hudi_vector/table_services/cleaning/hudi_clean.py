"""Hudi's own clean, which removes data files of old versions; it runs before the blob cleaner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError, RefusedError, number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NEWEST_ONLY", "clean_with_hudi", "require_sense"]

_RETAINED = "hoodie.clean.commits.retained"
NEWEST_ONLY = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    # Otherwise Hudi looks for nothing if no commit came after its last clean, whatever that one retained.
    "hoodie.clean.trigger.max.commits": "0",
}
"""Settings with which Hudi's clean leaves the newest slice of each file group alone."""

# Hudi's default of hoodie.keep.min.commits. Hudi requires that archival keeps more commits than the clean.
_KEPT_BY_DEFAULT = 20


def require_sense(run: bool, retained_commits: int | None, dry_run: bool) -> None:
    """Raise InvalidArgumentError if the arguments for Hudi's clean do not fit together.

    `retained_commits` needs `run` and must be 1 or more; `run` is not possible in a dry run, since Hudi's clean deletes
    data files.
    """
    if retained_commits is not None and not run:
        raise InvalidArgumentError("retained_commits says how Hudi's clean runs; give run_hudi_clean=True with it")
    if retained_commits is not None and retained_commits < 1:
        raise InvalidArgumentError(f"retained_commits = {retained_commits} is not allowed: give 1 or more commits")
    if run and dry_run:
        raise InvalidArgumentError(
            "a dry run changes nothing, and Hudi's clean deletes data files; leave one of them out"
        )


def clean_with_hudi(
    spark: SparkSession, path: str, retained_commits: int | None, more: Mapping[str, str] | None = None
) -> str:
    """Run Hudi's clean on a table and return what it did, as a sentence.

    `path` is the table's base path as Hadoop knows it. Settings come from the session, and `more` overrides them. If
    `retained_commits` is None, ``hoodie.clean.commits.retained`` of the session or else Hudi's default holds. Raise
    RefusedError if the clean fails.
    """
    from py4j.protocol import Py4JJavaError

    from hudi_vector.spark.catalyst.gateway import first_sentence
    from hudi_vector.writing.client import hudi_client

    try:
        with hudi_client(spark, path, {**_settings(retained_commits), **(more or {})}) as client:
            done = client.clean()
    except Py4JJavaError as problem:
        raise RefusedError(
            f"Hudi's clean of '{path}' failed, so its blobs were not looked at: {first_sentence(problem)}"
        ) from None
    spark.catalog.refreshByPath(path)
    if done is None:
        return "Hudi's clean found nothing to remove"
    kept = done.getEarliestCommitToRetain()  # none where the clean keeps the newest versions of files
    removed = f"Hudi's clean removed {number_of(done.getTotalFilesDeleted(), 'data file')}"
    return f"{removed}; the earliest commit it keeps is {kept}" if kept else removed


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
