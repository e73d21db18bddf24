"""Filter texts: Spark parses and analyses them, and what has a place in the pure form is translated to it.

The text is analysed against a relation that holds no rows and that Spark's optimizer cannot fold away; no Spark
job runs. One call fetches the optimized condition.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from hudi_vector.errors import InvalidFilterError, UnknownColumnError
from hudi_vector.read.predicate.form import Predicate, columns
from hudi_vector.read.predicate.nodes import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Cast,
    Column,
    Compare,
    In,
    IsNull,
    Length,
    Like,
    Match,
    Not,
    conjunction,
)
from hudi_vector.spark.catalyst.gateway import first_sentence
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError, translate
from hudi_vector.table.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Filter", "analyse_filter", "without_inferred"]


@dataclass(frozen=True)
class Filter:
    """A filter as Spark understands it.

    ``predicate`` is None where a node has no place in the pure form: the whole filter is then for Spark, and
    ``reason`` says which node it was. ``columns`` are the top-level columns it reads, in alphabetical order.
    """

    text: str
    predicate: Predicate | None
    reason: str | None
    columns: tuple[str, ...]


_FILTERS: Recent[tuple[str, ...], Filter] = Recent(256)
_RELATIONS: Recent[tuple[str, ...], Any] = Recent(16)

# Words after which the same text may mean something else a moment later. A backslash may hide one of them.
_MOVING = re.compile(
    r"\\|\b(now|today|tomorrow|yesterday|current_\w+|curdate|localtimestamp|unix_timestamp|user|session_user)\b",
    re.IGNORECASE,
)


def analyse_filter(spark: SparkSession, schema: StructType, text: str, table: str = "the table") -> Filter:
    """Let Spark parse and analyse a filter, and translate it.

    Results are kept for the session, the schema, the text and the session's settings; those that read the clock
    are not kept.

    Args:
        spark: The session whose settings apply: time zone, ANSI mode, case sensitivity.
        schema: The columns the filter may name.
        text: A condition, as after ``WHERE``.
        table: What messages call the table.

    Returns:
        The filter; its predicate is None where only Spark can evaluate it.

    Raises:
        InvalidFilterError: The text does not parse, is no condition, or holds a sub-query, an aggregate, window or
            generator function, or a function such as ``rand()`` that answers differently each time.
        UnknownColumnError: It names a column that is not there.

    Example:
        >>> analyse_filter(spark, spark.table("products").schema, "price < 10").columns
        ('price',)
    """
    described = schema.json()
    session = spark._jsparkSession
    settings = hashlib.sha256(session.sessionState().conf().settings().toString().encode()).hexdigest()
    key = (session.sessionUUID(), described, text, settings)
    known = _FILTERS.get(key)
    if known is not None:
        return known
    with _explained(text, schema, table), _active(spark):
        found = _analysed(spark, schema, described, text)
    if _MOVING.search(text) is None:
        _FILTERS.put(key, found)
    return found


def _analysed(spark: SparkSession, schema: StructType, described: str, text: str) -> Filter:
    sql = _jvm(spark).org.apache.spark.sql
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
    if parsed.getClass().getSimpleName() == "Alias":
        # Spark takes 'a = 1 and' for a column named "and": what follows a complete condition would go unnoticed.
        raise InvalidFilterError(f"the filter {text!r} is followed by the name '{parsed.name()}', or is not complete")
    if parsed.getClass().getSimpleName() == "Literal" and parsed.value() is None:
        return Filter(text, FALSE, None, ())  # Spark wants a boolean here, and NULL alone has no type
    filtered = _relation(spark, described).filter(sql.Column(parsed))
    execution = filtered.queryExecution()
    condition = execution.analyzed().condition()
    if sql.catalyst.expressions.SubqueryExpression.hasSubquery(condition):
        raise InvalidFilterError(f"the filter {text!r} holds a sub-query; join or filter the search's result instead")
    if not condition.deterministic():
        raise InvalidFilterError(f"the filter {text!r} must give a row the same answer every time, and does not")
    spelled = _spelling(schema)
    try:
        predicate = _translated(execution.optimizedPlan(), spelled)
    except (UntranslatableError, RecursionError) as refused:
        reason = str(refused) if isinstance(refused, UntranslatableError) else "the filter is nested too deeply"
        return Filter(text, None, reason, _references(condition, spelled))
    return Filter(text, predicate, None, tuple(sorted(columns(predicate))))


def _translated(plan: Any, spelled: Callable[[str], str]) -> Predicate:
    shape = plan.nodeName()
    if shape == "LogicalRDD":
        return TRUE
    if shape == "LocalRelation":  # empty: the optimizer proved that no row can satisfy the condition
        return FALSE
    if shape != "Filter" or plan.child().nodeName() != "LogicalRDD":
        raise UntranslatableError(f"a filter that Spark plans as {shape} is evaluated by Spark only")
    condition = plan.condition()
    return without_inferred(translate(condition, json.loads(condition.toJSON()), spelled))


def without_inferred(predicate: Predicate) -> Predicate:
    """Leave out the ``x IS NOT NULL`` that Spark adds beside conditions that no NULL satisfies.

    Args:
        predicate: A condition as Spark's optimizer leaves it.

    Returns:
        The condition as it was meant.
    """
    if not isinstance(predicate, And):
        return predicate
    inferred = [isinstance(term, Not) and isinstance(term.term, IsNull) for term in predicate.terms]
    refusing = {
        column
        for term, is_inferred in zip(predicate.terms, inferred, strict=True)
        if not is_inferred
        for column in _refuse_null(term)
    }
    return conjunction(
        [
            term
            for term, is_inferred in zip(predicate.terms, inferred, strict=True)
            if not (is_inferred and term.children()[0].children()[0] in refusing)
        ]
    )


def _refuse_null(node: Predicate) -> set[Predicate]:
    """The columns whose NULL makes this node NULL."""
    if isinstance(node, Column):
        return {node}
    strict = isinstance(node, Arithmetic | Cast | Compare | In | Length | Like | Match | Not)
    if not strict or (isinstance(node, Compare) and node.op == "<=>"):
        return set()
    return {column for child in node.children() for column in _refuse_null(child)}


def _references(condition: Any, spelled: Callable[[str], str]) -> tuple[str, ...]:
    names, references = set(), condition.references().iterator()
    while references.hasNext():
        names.add(spelled(str(references.next().name())))
    return tuple(sorted(names))


def _spelling(schema: StructType) -> Callable[[str], str]:
    """How the table spells a column: Spark's attributes keep the spelling of the text."""
    exact = set(schema.names)
    folded = {name.lower(): name for name in schema.names}
    return lambda name: name if name in exact else folded.get(name.lower(), name)


def _relation(spark: SparkSession, described: str) -> Any:
    """A DataFrame without rows. Every column may be NULL, as in any table that is read from files."""
    session = spark._jsparkSession
    key = (session.sessionUUID(), described)
    relation = _RELATIONS.get(key)
    if relation is None:
        schema = _jvm(spark).org.apache.spark.sql.types.DataType.fromJson(described).asNullable()
        relation = session.createDataFrame(spark._jsc.emptyRDD(), schema)
        _RELATIONS.put(key, relation)
    return relation


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make this session the thread's: Spark's parser takes time zone and ANSI mode from the active one."""
    sessions = _jvm(spark).org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def _explained(text: str, schema: StructType, table: str) -> Iterator[None]:
    """Spark's errors as one sentence of this package's."""
    try:
        yield
    except AnalysisException as refused:
        if str(refused.getErrorClass()).startswith("UNRESOLVED_COLUMN"):
            name = _unquoted((refused.getMessageParameters() or {}).get("objectName", ""))
            raise UnknownColumnError.of(name, schema.names, table) from None
        raise InvalidFilterError(f"the filter {text!r} is not valid: {first_sentence(refused)}") from None
    except ParseException as refused:
        raise InvalidFilterError(f"the filter {text!r} does not parse: {first_sentence(refused)}") from None
    except (PySparkException, Py4JJavaError) as refused:
        raise InvalidFilterError(f"the filter {text!r} cannot be evaluated: {first_sentence(refused)}") from None


def _unquoted(name: str) -> str:
    return ".".join(re.findall(r"`((?:[^`]|``)*)`", name)).replace("``", "`") or name
