"""The left side of a join: its rows ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hudi_vector.query.join.parallel import partitions_wanted
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.few_rows import has_at_most, is_narrow
from hudi_vector.spark.catalyst.gateway import option_value
from hudi_vector.spark.catalyst.local_rows import collected

__all__ = ["LeftSide"]


@dataclass(frozen=True)
class LeftSide:
    """The rows that ask, and the column of their vectors."""

    label: str
    frame: DataFrame
    column: VectorColumn

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.frame.schema

    def has_no_more_than(self, rows: int) -> bool:
        """Whether it has few rows, as far as Spark's statistics or a look at a plan of narrow steps say."""
        plan = self.frame._jdf.queryExecution().optimizedPlan()
        known = option_value(plan.stats().rowCount())
        if known is not None:
            return int(str(known)) <= rows
        return is_narrow(plan) and has_at_most(self.frame, rows)

    def collected(self, names: Sequence[str]) -> pa.Table:
        """Columns of its rows, brought to the driver."""
        chosen = self.frame.select([self.frame[quoted(name)] for name in names])
        return collected(chosen)

    def spread(self, spark: SparkSession) -> tuple[DataFrame, str]:
        """Its rows in enough partitions for the cores, and how that was reached."""
        cores = spark.sparkContext.defaultParallelism
        execution = self.frame._jdf.queryExecution()
        plan = execution.optimizedPlan()
        # Asking a plan with shuffles for its partitions would run them.
        partitions = int(execution.toRdd().getNumPartitions()) if is_narrow(plan) else None
        wanted = partitions_wanted(partitions, cores, int(str(plan.stats().sizeInBytes())))
        if wanted is None:
            return self.frame, "the left side's own partitions" + ("" if partitions is None else f", {partitions}")
        return self.frame.repartition(wanted), f"{wanted} partitions of left rows, one for each core"
