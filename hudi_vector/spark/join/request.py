"""A checked request for a join, and the columns of its output."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from hudi_vector import options
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.query.asking.output import Column
from hudi_vector.query.grouping.arguments import GROUP_RANK, Grouping
from hudi_vector.query.join.conditions import JoinCondition
from hudi_vector.query.join.nearest import Ask
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.predicate.change import renamed
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.schema import free_names
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.join.condition import Asked
from hudi_vector.spark.join.left import LeftSide
from hudi_vector.spark.join.right import RightSource
from hudi_vector.spark.search.output import Output, added_output, schema_of

__all__ = ["JoinRequest", "right_names"]

_PREFIX = "right_"


@dataclass(frozen=True)
class JoinRequest:
    """A checked request for a join.

    `asked` is the condition as the user gave it. `condition` also excludes pairs of a row with itself, by
    `self_columns`. `dimension` is the length of the right vectors, None if no right row has a vector. `conf` are
    settings as text. The grouping in `tuning` names right columns.
    """

    spark: SparkSession
    left: LeftSide
    right: RightSource
    k: int | None
    max_distance: float | None
    metric: str
    outer: bool
    tuning: Tuning
    asked: Asked
    condition: JoinCondition
    self_columns: tuple[str, ...]
    rank_column: str
    distance_column: str
    dimension: int | None
    conf: Mapping[str, str]

    @property
    def zone(self) -> str:
        """Return the session's time zone."""
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    def outputs(self) -> list[Output]:
        """Return the output's columns: the left side's, the right side's, rank, group rank if any, and distance.

        Raises InvalidArgumentError if the right side has two columns of the same name.
        """
        left = [Output(Column(field.name, "query", field.name), field) for field in self.left.schema.fields]
        added = [
            added_output(self.rank_column, "rank", IntegerType(), self.outer),
            *([added_output(GROUP_RANK, "added", IntegerType(), self.outer)] if self.tuning.grouping else []),
            added_output(self.distance_column, "distance", DoubleType(), self.outer),
        ]
        names = right_names(self.right.schema.names, {output.column.name.lower() for output in (*left, *added)})
        right = [
            Output(Column(name, "corpus", f.name), StructField(name, f.dataType, f.nullable or self.outer))
            for f, name in zip(self.right.schema.fields, names, strict=True)
        ]
        return [*left, *right, *added]

    def schema(self) -> StructType:
        """Return the schema of the output."""
        return schema_of(self.outputs())

    def columns(self, names: Mapping[str, str], outputs: Sequence[Output]) -> tuple[Column, ...]:
        """Return output columns for a right side in which `names` gives the name of each right column."""
        return tuple(
            Column(o.column.name, o.column.side, names[o.column.source]) if o.column.side == "corpus" else o.column
            for o in outputs
        )

    def groups(self, names: Mapping[str, str]) -> Grouping | None:
        """Return the grouping by columns of a right side in which `names` gives the name of each right column.

        NULL is a value like others in it: `right_predicate` leaves out rows with NULL if they are dropped.
        """
        grouping = self.tuning.grouping
        return None if grouping is None else replace(grouping.named(names), drop_nulls=False)

    def tuned(self, tuning: Tuning, names: Mapping[str, str]) -> Tuning:
        """Return a tuning with the grouping of the join, for a right side with these names."""
        return replace(tuning, grouping=self.groups(names))

    def ask(self, names: Mapping[str, str]) -> Ask:
        """Return the question of every left row to a right side in which `names` gives the name of each column."""
        condition = self.condition
        both = None if condition.both is None else renamed(condition.both, names)
        return Ask(
            metric=self.metric,
            k=self.k,
            max_distance=self.max_distance,
            condition=JoinCondition(None, None, both, condition.pairs_only),
            zone=self.zone,
            block_queries=options.BATCH_BLOCK_QUERIES.read(self.conf),
            timeout=self.tuning.settled(self.conf).timeout,
            grouping=self.groups(names),
        )

    def right_predicate(self, names: Mapping[str, str], own: Predicate | None = None) -> Predicate | None:
        """Return the predicate that every found right row must satisfy, including `own`; None if there is none.

        `names` gives the right side's name of each column.
        """
        terms = [] if own is None else [own]
        mine, grouping = self.condition.right, self.tuning.grouping
        if grouping is not None:
            mine = grouping.filtered(mine, pa.schema(arrow_fields(self.right.schema)))
        if mine is not None:
            terms.append(renamed(mine, names))
        return conjunction(terms) if terms else None

    def needed_left(self, outputs: Sequence[Output]) -> list[str]:
        """Return the left columns that the output columns and the condition need, and the vector column."""
        names = [o.column.source for o in outputs if o.column.side == "query"]
        return list(dict.fromkeys([*names, self.left.column.name, *self.condition.asked_left]))


def right_names(right: Sequence[str], taken: Collection[str]) -> list[str]:
    """Return an output name for each right column; a name in `taken` (lower case) gets a prefix until it is free.

    Raises InvalidArgumentError if two right columns have the same name, in any case.

    Example:
        >>> right_names(["id", "name"], {"id"})
        ['right_id', 'name']
    """
    if len({name.lower() for name in right}) < len(right):
        raise InvalidArgumentError("the right side has two columns of one name; give one of them another")
    return free_names(right, taken, _PREFIX)
