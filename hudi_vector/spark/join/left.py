"""The left side of a join, whose rows are the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hudi_vector.errors import number_of
from hudi_vector.query.join.parallel import partitions_wanted
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.gateway import option_value
from hudi_vector.spark.catalyst.local_rows import collected
from hudi_vector.spark.search.few_rows import has_at_most, is_narrow

__all__ = ["LeftSide"]


@dataclass(frozen=True)
class LeftSide:
    """The query rows and their vector column."""

    label: str
    frame: DataFrame
    column: VectorColumn

    @property
    def schema(self) -> StructType:
        """Return the columns."""
        return self.frame.schema

    def has_no_more_than(self, rows: int) -> bool:
        """Return True if the side has at most `rows` rows, by Spark's statistics or by a small count.

        Without statistics, only a plan without a shuffle is counted; for any other plan the result is False.
        """
        plan = self.frame._jdf.queryExecution().optimizedPlan()
        known = option_value(plan.stats().rowCount())
        if known is not None:
            return int(str(known)) <= rows
        return is_narrow(plan) and has_at_most(self.frame, rows)

    def collected(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of all rows, collected on the driver."""
        chosen = self.frame.select([self.frame[quoted(name)] for name in names])
        return collected(chosen)

    def spread(self, spark: SparkSession) -> tuple[DataFrame, str]:
        """Return the rows in enough partitions for the cores, and a text for explain that describes the partitions."""
        cores = spark.sparkContext.defaultParallelism
        execution = self.frame._jdf.queryExecution()
        plan = execution.optimizedPlan()
        # For a plan with shuffles, asking for the number of partitions would run the shuffles.
        partitions = int(execution.toRdd().getNumPartitions()) if is_narrow(plan) else None
        wanted = partitions_wanted(partitions, cores, int(str(plan.stats().sizeInBytes())))
        if wanted is None:
            return self.frame, "the left side's own partitions" + ("" if partitions is None else f", {partitions}")
        return self.frame.repartition(wanted), f"{number_of(wanted, 'partition')} of left rows, one for each core"
