"""Hudi's own clean, run before the blobs' one: it removes the data files of versions that need not be readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError, RefusedError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.table.config import parse_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["clean_with_hudi", "require_sense"]

_RETAINED = "hoodie.clean.commits.retained"
_METADATA = "hoodie.metadata.enable"
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


def clean_with_hudi(spark: SparkSession, path: str, retained_commits: int | None, options: StorageOptions) -> str:
    """Run Hudi's clean on a table by its path; its settings come from the session.

    Args:
        spark: A registered session.
        path: The table's base path, as Hadoop knows it.
        retained_commits: How many commits stay readable; ``hoodie.clean.commits.retained`` of the session, or Hudi's
            own default, where it is not given.
        options: How storage is opened.

    Returns:
        What it did, in a sentence.

    Raises:
        RefusedError: It failed.
    """
    from py4j.protocol import Py4JJavaError

    from hudi_vector.spark.gateway import first_sentence

    jvm = spark._jvm
    assert jvm is not None
    try:
        settings = jvm.PythonUtils.toScalaMap(_settings(spark, path, retained_commits, options))
        utils = getattr(getattr(jvm.org.apache.hudi, "HoodieCLIUtils$"), "MODULE$")
        nothing = jvm.scala.Option.empty()
        client = utils.createHoodieWriteClient(spark._jsparkSession, path, settings, nothing)
        try:
            done = client.clean()
        finally:
            client.close()
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


def _settings(spark: SparkSession, path: str, retained_commits: int | None, options: StorageOptions) -> dict[str, str]:
    settings = {"hoodie.embed.timeline.server": "false"}
    if spark.conf.get(_METADATA, None) is None:
        # A client that has it on builds the metadata table of a table without one, and one that has it off removes it.
        root = normalise(path)
        properties = parse_properties(
            open_storage(root, options).read(join(root, ".hoodie/hoodie.properties")).decode("utf-8")
        )
        settings[_METADATA] = str(bool(properties.get("hoodie.table.metadata.partitions"))).lower()
    if retained_commits is not None:
        settings |= {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", _RETAINED: str(retained_commits)}
        if retained_commits >= _KEPT_BY_DEFAULT:
            settings |= {
                "hoodie.keep.min.commits": str(retained_commits + 1),
                "hoodie.keep.max.commits": str(retained_commits + 2),
            }
    return settings
