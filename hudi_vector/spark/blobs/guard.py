"""Users' own queries over single fields of a BLOB, kept from a silent wrong answer of Hudi 1.2.

Where a slice has log files, Hudi 1.2 reads the fields of a BLOB that a query asks for by their position in the whole
struct: ``img.reference.external_path`` is NULL for every row, ``img.data`` the text of ``img.type``. Spark asks for
single fields because of ``spark.sql.optimizer.nestedSchemaPruning.enabled``; without it whole structs are read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudi_vector.options import GUARD_BLOBS

__all__ = ["guard"]

_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"


def guard(spark: SparkSession) -> None:
    """Let this session, and those made from it later, read structs whole, unless the user wants them narrowed.

    Args:
        spark: The session; ``hoodie.blob.guard.fields`` = false in it leaves Spark as it is.
    """
    if GUARD_BLOBS.in_session(spark) == "false":
        return
    spark.conf.set(_PRUNING, "false")
    # A new session begins with the application's own settings.
    spark.sparkContext._jsc.sc().conf().set(_PRUNING, "false")
