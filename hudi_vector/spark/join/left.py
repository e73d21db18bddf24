"""The left side of a join: its rows ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType

from hudi_vector.read.spec import VectorColumn
from hudi_vector.search.join.parallel import partitions_wanted
from hudi_vector.spark.gateway import JavaObject, option_value, simple_name
from hudi_vector.spark.local_rows import collected

__all__ = ["LeftSide"]

_NARROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "LocalLimit"})
_LEAVES = frozenset({"LogicalRelation", "LogicalRDD", "LocalRelation", "InMemoryRelation", "Range", "OneRowRelation"})


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
        return _is_narrow(plan) and len(self.frame.select(F.lit(1)).head(rows + 1)) <= rows

    def collected(self, names: Sequence[str]) -> pa.Table:
        """Columns of its rows, brought to the driver."""
        chosen = self.frame.select([self.frame[_quoted(name)] for name in names])
        return collected(chosen)

    def spread(self, spark: SparkSession) -> tuple[DataFrame, str]:
        """Its rows in enough partitions for the cores, and how that was reached."""
        cores = spark.sparkContext.defaultParallelism
        execution = self.frame._jdf.queryExecution()
        plan = execution.optimizedPlan()
        # Asking a plan with shuffles for its partitions would run them.
        partitions = int(execution.toRdd().getNumPartitions()) if _is_narrow(plan) else None
        wanted = partitions_wanted(partitions, cores, int(str(plan.stats().sizeInBytes())))
        if wanted is None:
            return self.frame, "the left side's own partitions" + ("" if partitions is None else f", {partitions}")
        return self.frame.repartition(wanted), f"{wanted} partitions of left rows, one for each core"


def _is_narrow(plan: JavaObject) -> bool:
    """Whether each of the plan's partitions is made of one of its source's."""
    node = plan
    while simple_name(node) in _NARROW:
        node = node.children().apply(0)
    return simple_name(node) in _LEAVES


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
