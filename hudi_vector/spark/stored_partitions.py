"""The values of partition columns as they were written, where Hudi's reader gives others."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StringType, StructType, TimestampNTZType, TimestampType

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.nested_fields import field_at
from hudi_vector.table.config import TableConfig

__all__ = ["are_stored_partitions", "require_stored_partitions", "with_stored_partitions"]

_PATH = "_hoodie_partition_path"
_WHOLE = 1 << 30


def are_stored_partitions(schema: StructType, config: TableConfig) -> bool:
    """Return False if Hudi reads values of a partition column from which those that were written cannot be made.

    It takes a timestamp from the path, where it is text without a time zone, or a number that it reads as NULL.
    """
    kinds = (field_at(schema, name) for name in config.partition_fields)
    return not any(kind is not None and isinstance(kind.dataType, (TimestampType, TimestampNTZType)) for kind in kinds)


def require_stored_partitions(table: str, schema: StructType, config: TableConfig) -> None:
    """Raise UnsupportedTableError, naming the table, if its rows cannot be written again in their partitions."""
    if not are_stored_partitions(schema, config):
        raise UnsupportedTableError(
            f"'{table}' is partitioned by timestamps, which Hudi reads otherwise than they were written, so that its "
            "rows cannot be written again in their places"
        )


def with_stored_partitions(frame: DataFrame, config: TableConfig) -> DataFrame:
    """Return the rows of a table with the text of their partition columns as it is in their partition paths.

    Hudi's reader takes text from the path and decodes it, whether it was encoded or not: it reads 'a%20b' as 'a b' and,
    without Hive style, 'x=1' as '1'. A row that is written again would be a second one, in another partition. A path
    with more parts than there are columns ends the job with an UnsupportedTableError if Hudi may read it so.
    """
    fields = config.partition_fields
    texts = [name for name in fields if name in frame.columns and isinstance(frame.schema[name].dataType, StringType)]
    if config.url_encode_partitioning or not (config.populates_meta_fields and config.plain_key_generator and texts):
        return frame
    path = F.col(_PATH)
    parts = F.split(path, "/") if len(fields) > 1 else F.array(path)
    problem = F.concat(
        F.lit(f"{UnsupportedTableError.__module__}.{UnsupportedTableError.__name__}: the partition path '"),
        path,
        F.lit(f"' has more parts than the partition columns {', '.join(fields)}, and Hudi reads other values for them"),
    )
    stored = {}
    for name in texts:
        part, read = parts[fields.index(name)], F.col(quoted(name))
        value = F.substring(part, len(name) + 2, _WHOLE) if config.hive_style_partitioning else part
        given = F.when(F.size(parts) == len(fields), value).otherwise(F.raise_error(problem))
        is_read_otherwise = path.rlike("%" if config.hive_style_partitioning else "[%=]")
        kept = F.when(is_read_otherwise & read.isNotNull(), given).otherwise(read)
        stored[name] = kept.alias(name, metadata=frame.schema[name].metadata)
    return frame.select(*(stored.get(name, F.col(quoted(name))) for name in frame.columns))
