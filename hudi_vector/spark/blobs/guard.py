"""Protection of users' queries on single fields of a BLOB from wrong results of Hudi 1.2.

Where a file slice has log files, Hudi 1.2 reads the requested fields of a BLOB by their position in the whole struct,
without an error: ``img.reference.external_path`` is NULL for every row, ``img.data`` is the text of ``img.type``. Spark
requests single fields if ``spark.sql.optimizer.nestedSchemaPruning.enabled`` is true, and whole structs otherwise.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudi_vector.options import GUARD_BLOBS

__all__ = ["guard"]

_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"


def guard(spark: SparkSession) -> None:
    """Make this session, and later sessions of the application, read structs whole.

    Nothing is changed if the session sets ``hoodie.blob.guard.fields`` to false.
    """
    if GUARD_BLOBS.in_session(spark) == "false":
        return
    spark.conf.set(_PRUNING, "false")
    # New sessions start with the settings of the application.
    spark.sparkContext._jsc.sc().conf().set(_PRUNING, "false")
