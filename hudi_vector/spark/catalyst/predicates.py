"""Analysis of filter texts by Spark, and their translation to predicates if possible.

Spark analyses the text against a relation without rows that its optimizer cannot remove; no Spark job runs. One call
fetches the optimized condition.
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
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError, translate
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.table.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Filter", "analyse_filter", "without_inferred"]


@dataclass(frozen=True)
class Filter:
    """A filter as Spark understands it.

    `predicate` is None if a node cannot be translated: then Spark evaluates the whole filter, and `reason` names the
    node. `columns` are the top-level columns that the filter reads, in alphabetical order.
    """

    text: str
    predicate: Predicate | None
    reason: str | None
    columns: tuple[str, ...]


_FILTERS: Recent[tuple[str, ...], Filter] = Recent(256)
_RELATIONS: Recent[tuple[str, ...], Any] = Recent(16)

# Words that give the same text another meaning at another time. A backslash may hide one of them.
_MOVING = re.compile(
    r"\\|\b(now|today|tomorrow|yesterday|current_\w+|curdate|localtimestamp|unix_timestamp|user|session_user)\b",
    re.IGNORECASE,
)


def analyse_filter(spark: SparkSession, schema: StructType, text: str, table: str = "the table") -> Filter:
    """Have Spark parse and analyse a filter, and translate it; the predicate is None if only Spark can evaluate it.

    Results are cached by session, schema, text and the session's settings, except for filters that depend on the clock
    or the user.

    Args:
        spark: The session whose settings apply: time zone, ANSI mode, case sensitivity.
        schema: The columns that the filter may name.
        text: A condition, as after ``WHERE``.
        table: The name of the table in messages.

    Raises:
        InvalidFilterError: The text does not parse, is not a condition, or holds a sub-query, an aggregate, window or
            generator function, or a function like ``rand()`` that is not deterministic.
        UnknownColumnError: The filter names a column that does not exist.

    Example:
        >>> analyse_filter(spark, spark.table("products").schema, "price < 10").columns
        ('price',)
    """
    described = schema.json()
    session = spark._jsparkSession
    settings = hashlib.sha256(repr(sorted(session_settings(spark).items())).encode()).hexdigest()
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
    java = handles_of(spark)
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
    if parsed.getClass().getSimpleName() == "Alias":
        # Spark parses 'a = 1 and' as a condition with the alias "and", so an incomplete filter would go unnoticed.
        raise InvalidFilterError(f"the filter {text!r} is followed by the name '{parsed.name()}', or is not complete")
    if parsed.getClass().getSimpleName() == "Literal" and parsed.value() is None:
        return Filter(text, FALSE, None, ())  # Spark requires a boolean here, and a bare NULL has no type
    filtered = _relation(spark, described).filter(java.named("org.apache.spark.sql.Column")(parsed))
    execution = filtered.queryExecution()
    condition = execution.analyzed().condition()
    subqueries = java.named("org.apache.spark.sql.catalyst.expressions.SubqueryExpression")
    if subqueries.hasSubquery(condition):
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
    """Return a condition without the ``x IS NOT NULL`` that Spark's optimizer adds to conditions that refuse NULL."""
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
    """Return the columns that make this node NULL if they are NULL."""
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
    """Return a function from a column's name to the table's spelling; Spark keeps the spelling of the filter text."""
    exact = set(schema.names)
    folded = {name.lower(): name for name in schema.names}
    return lambda name: name if name in exact else folded.get(name.lower(), name)


def _relation(spark: SparkSession, described: str) -> Any:
    """Return a DataFrame without rows whose columns may all be NULL, as in any table that is read from files."""
    session = spark._jsparkSession
    key = (session.sessionUUID(), described)
    relation = _RELATIONS.get(key)
    if relation is None:
        schema = handles_of(spark).named("org.apache.spark.sql.types.DataType").fromJson(described).asNullable()
        relation = session.createDataFrame(spark._jsc.emptyRDD(), schema)
        _RELATIONS.put(key, relation)
    return relation


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the thread's active one, from which Spark's parser takes time zone and ANSI mode."""
    sessions = handles_of(spark).named("org.apache.spark.sql.SparkSession")
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
    """Raise Spark's errors as UnknownColumnError or InvalidFilterError with one sentence."""
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
