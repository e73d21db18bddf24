"""Pruning: a decision from statistics whether a file or row group can have a row that satisfies a predicate.

For each condition three possibilities are tracked: whether a row may make it true, false or NULL. Unknown statistics
leave all three open, so only wrong statistics can lead to a wrong answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hudi_vector.read.predicate.nodes import (
    And,
    Cast,
    Column,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    LocalTimestamp,
    Match,
    Not,
    Or,
    Predicate,
    is_comparable,
    like_tokens,
)
from hudi_vector.read.predicate.zone import instant

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ColumnStats", "may_match", "row_group_stats"]

_NAN = (1, 0.0)  # greater than (0, x) for every number x
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Values of a list that are compared with statistics; a longer one takes longer than it saves.
_MOST_LISTED = 1000


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of a column over some rows; ``None`` means unknown.

    ``minimum`` and ``maximum`` are Python values or Arrow scalars. ``exact`` is False if they may be truncated, as
    writers do with long texts; then the maximum of texts and bytes is not used.
    """

    minimum: object = None
    maximum: object = None
    null_count: int | None = None
    exact: bool = True


@dataclass(frozen=True)
class _Outcome:
    """The truth values that a condition may have in some row."""

    true: bool = True
    false: bool = True
    null: bool = True


_ANYTHING = _Outcome()


@dataclass(frozen=True)
class _Bounds:
    """The range of all values (``None`` is open), and whether there may be values and NULLs at all."""

    low: Any = None
    high: Any = None
    values: bool = True
    nulls: bool = True


@dataclass(frozen=True)
class _Rows:
    stats: Mapping[str, ColumnStats]
    count: int
    zone: str


def may_match(predicate: Predicate, stats: Mapping[str, ColumnStats], rows: int, zone: str) -> bool:
    """Return False only if none of the `rows` rows of a file or row group can satisfy a condition.

    `stats` has statistics by column name. A column without an entry is unknown; for a column that the file does not
    have, pass ``ColumnStats(null_count=rows)``. `zone` is the session time zone for wall-clock times in the condition.

    Example:
        >>> condition = Compare(">", Column("x", pa.int64()), Literal(9, pa.int64()))
        >>> may_match(condition, {"x": ColumnStats(1, 5, 0)}, 100, "UTC")
        False
        >>> may_match(condition, {}, 100, "UTC")
        True
    """
    return rows != 0 and _outcome(predicate, _Rows(stats, rows, zone)).true


def _outcome(node: Predicate, rows: _Rows) -> _Outcome:
    if isinstance(node, And):
        parts = [_outcome(term, rows) for term in node.terms]
        return _Outcome(
            true=all(part.true for part in parts),
            false=any(part.false for part in parts),
            null=any(part.null for part in parts) and all(part.true or part.null for part in parts),
        )
    if isinstance(node, Or):
        # De Morgan's law also holds with three truth values.
        return _negated(_outcome(And(tuple(Not(term) for term in node.terms)), rows))
    if isinstance(node, Not):
        return _negated(_outcome(node.term, rows))
    if isinstance(node, Compare):
        return _compared(node, rows)
    if isinstance(node, In):
        if not 0 < len(node.values) <= _MOST_LISTED:
            return _ANYTHING
        return _outcome(Or(tuple(Compare("=", node.term, value) for value in node.values)), rows)
    return _simple_outcome(node, rows)


def _negated(outcome: _Outcome) -> _Outcome:
    return _Outcome(true=outcome.false, false=outcome.true, null=outcome.null)


def _simple_outcome(node: Predicate, rows: _Rows) -> _Outcome:
    if isinstance(node, Literal) and pa.types.is_boolean(node.type):
        return _Outcome(true=node.value is True, false=node.value is False, null=node.value is None)
    if isinstance(node, Column) and pa.types.is_boolean(node.type):
        return _compared(Compare("=", node, Literal(True, node.type)), rows)
    if isinstance(node, IsNull):
        bounds = _bounds(node.term, rows)
        return _Outcome(true=bounds.nulls, false=bounds.values, null=False)
    if isinstance(node, Match | Like):
        bounds = _bounds(node.term, rows)
        may_start = _may_start(bounds, _prefix(node))
        return _Outcome(true=bounds.values and may_start, false=bounds.values, null=bounds.nulls)
    return _ANYTHING


def _prefix(node: Match | Like) -> bytes:
    """Return bytes with which every matching value begins."""
    if isinstance(node, Match):
        pattern = node.pattern if node.kind == "starts" else ""
        return pattern if isinstance(pattern, bytes) else pattern.encode()
    prefix = ""
    for token in like_tokens(node.pattern, node.escape):
        if not token:
            break
        prefix += token
    return prefix.encode()


def _may_start(bounds: _Bounds, prefix: bytes) -> bool:
    if bounds.high is not None and bounds.high < prefix:
        return False
    return bounds.low is None or bounds.low[: len(prefix)] <= prefix


_MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compared(node: Compare, rows: _Rows) -> _Outcome:
    left, right, op = node.left, node.right, node.op
    if isinstance(left, Literal | LocalTimestamp):
        left, right, op = right, left, _MIRRORED[op]
    if not isinstance(right, Literal | LocalTimestamp):
        return _ANYTHING
    bounds = _bounds(left, rows)
    if isinstance(right, Literal) and right.value is None:
        return _Outcome(bounds.nulls, bounds.values, null=False) if op == "<=>" else _Outcome(False, False, True)
    value = (
        instant(right.micros, rows.zone) if isinstance(right, LocalTimestamp) else _order_key(right.value, right.type)
    )
    if value is None:
        return _ANYTHING
    true, false = _against("=" if op == "<=>" else op, bounds.low, bounds.high, value)
    true, false = true and bounds.values, false and bounds.values
    if op == "<=>":
        return _Outcome(true, false or bounds.nulls, null=False)
    return _Outcome(true, false, bounds.nulls)


def _against(op: str, low: Any, high: Any, value: Any) -> tuple[bool, bool]:
    """Return whether a value within the bounds may compare true, and whether one may compare false."""
    may_be_less = low is None or low < value
    may_be_greater = high is None or high > value
    may_equal = (low is None or low <= value) and (high is None or high >= value)
    return {
        "=": (may_equal, may_be_less or may_be_greater),
        "<": (may_be_less, may_equal or may_be_greater),
        "<=": (may_be_less or may_equal, may_be_greater),
        ">": (may_be_greater, may_equal or may_be_less),
        ">=": (may_be_greater or may_equal, may_be_less),
    }[op]


def _bounds(node: Predicate, rows: _Rows) -> _Bounds:
    if isinstance(node, Cast):
        return _cast_bounds(node, rows)
    if not isinstance(node, Column) or node.path or node.name not in rows.stats:
        return _Bounds()
    stats = rows.stats[node.name]
    low = _order_key(stats.minimum, node.type)
    high = _order_key(stats.maximum, node.type)
    if pa.types.is_floating(node.type) or (isinstance(high, bytes) and not stats.exact):
        high = None  # writers leave out NaN, the largest number, and a truncated text is not an upper bound
    if low == _NAN:
        low = None  # this writer did not leave out NaN, so there may be smaller numbers
    nulls = stats.null_count is None or stats.null_count > 0
    values = stats.null_count is None or stats.null_count < rows.count
    return _Bounds(low, high, values, nulls)


def _cast_bounds(node: Cast, rows: _Rows) -> _Bounds:
    """Return the bounds of the term for a cast between integers and decimals, else an open range.

    Casts between integers and decimals in predicates only widen, which does not change values.
    """
    inner = _bounds(node.term, rows)
    source = node.term.result_type()
    exact = (pa.types.is_integer(source) or pa.types.is_decimal(source)) and (
        pa.types.is_integer(node.type) or pa.types.is_decimal(node.type)
    )
    return inner if exact else _Bounds(None, None, inner.values, inner.nulls)


def _order_key(value: object, data_type: pa.DataType) -> Any:
    """Convert a value to a form with Spark's order of the type; None if the value is unknown or of another type."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if pa.types.is_boolean(data_type):
        return value if isinstance(value, bool) else None
    if pa.types.is_floating(data_type):
        return _float_key(value, data_type)
    if pa.types.is_integer(data_type) or pa.types.is_decimal(data_type):
        return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _bytes_key(value)
    return _time_key(value, data_type)


def _float_key(value: object, data_type: pa.DataType) -> tuple[int, float] | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = pa.scalar(float(value), data_type).as_py()  # 0.1 as a float differs from 0.1 as a double
    return _NAN if math.isnan(number) else (0, number)


def _bytes_key(value: object) -> bytes | None:
    if isinstance(value, bytes):
        return value
    try:
        return value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def _time_key(value: object, data_type: pa.DataType) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if pa.types.is_date(data_type):
        return (value - date(1970, 1, 1)).days if type(value) is date else None
    if pa.types.is_timestamp(data_type) and isinstance(value, datetime):
        if (value.tzinfo is None) != (data_type.tz is None):
            return None
        return (value.replace(tzinfo=value.tzinfo or timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    return None


def row_group_stats(metadata: Any, group: int, schema: pa.Schema) -> dict[str, ColumnStats]:
    """Return the trustworthy statistics of a Parquet row group by column name.

    `metadata` is a ``pyarrow.parquet.FileMetaData``, `schema` the columns of the table. A column has no entry if
    predicates cannot compare its type, if it has no usable statistics, or if the file does not have it; the caller must
    distinguish the last case.

    Example:
        >>> import io
        >>> import pyarrow.parquet as pq
        >>> file = io.BytesIO()
        >>> pq.write_table(pa.table({"x": [1, None, 5]}), file)
        >>> row_group_stats(pq.read_metadata(file), 0, pa.schema({"x": pa.int64()}))
        {'x': ColumnStats(minimum=1, maximum=5, null_count=1, exact=True)}
    """
    found = {}
    row_group, leaves = metadata.row_group(group), metadata.schema
    for position in range(row_group.num_columns):
        chunk = row_group.column(position)
        index = schema.get_field_index(chunk.path_in_schema)
        # Paths of nested columns have dots, but so may names of flat columns: the whole path is looked up, and a nested
        # column may have the path of a flat one.
        if "." in chunk.path_in_schema and leaves.column(position).name != chunk.path_in_schema:
            continue
        if index < 0 or not is_comparable(schema.field(index).type) or chunk.statistics is None:
            continue
        stats = _chunk_stats(chunk.statistics, schema.field(index).type)
        if stats != ColumnStats():
            found[chunk.path_in_schema] = stats
    return found


def _chunk_stats(statistics: Any, data_type: pa.DataType) -> ColumnStats:
    nulls = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max:
        return ColumnStats(null_count=nulls)
    try:
        low, high = _decoded(statistics, data_type)
    except (UnicodeDecodeError, ValueError, OverflowError, pa.ArrowException):
        low = high = None
    exact = (
        getattr(statistics, "is_min_value_exact", None) is not False
        and getattr(statistics, "is_max_value_exact", None) is not False
    )
    return ColumnStats(low, high, nulls, exact)


_TIME_UNITS = {"milliseconds": 1000, "microseconds": 1}


def _decoded(statistics: Any, data_type: pa.DataType) -> tuple[object, object]:
    """Return minimum and maximum, or None twice unless the file's type has the values and order of the table's type."""
    logical, physical = statistics.logical_type, statistics.physical_type
    if pa.types.is_timestamp(data_type):
        return _decoded_timestamps(statistics, data_type)
    if pa.types.is_decimal(data_type):
        return _decoded_decimals(statistics, data_type)
    trusted = {
        "bool": physical == "BOOLEAN",
        "date32[day]": logical.type == "DATE",
        "string": logical.type == "STRING",
        "binary": physical == "BYTE_ARRAY" and logical.type == "NONE",
        "float": physical == "FLOAT",
        "double": physical in ("FLOAT", "DOUBLE"),
    }
    if pa.types.is_integer(data_type):
        whole = physical in ("INT32", "INT64") and logical.type in ("NONE", "INT")
        usable = whole and '"isSigned":false' not in logical.to_json().replace(" ", "")
    else:
        usable = trusted.get(str(data_type), False)
    if not usable:
        return None, None
    ends = statistics.min, statistics.max
    if physical == "FLOAT" and pa.types.is_float64(data_type):
        # As `conform` reads them: by their decimal digits, which keep the order.
        return float(str(np.float32(ends[0]))), float(str(np.float32(ends[1])))
    return ends


def _decoded_timestamps(statistics: Any, data_type: pa.DataType) -> tuple[object, object]:
    if statistics.physical_type != "INT64" or statistics.logical_type.type != "TIMESTAMP":
        return None, None
    described = str(statistics.logical_type)
    factor = next((value for unit, value in _TIME_UNITS.items() if f"timeUnit={unit}" in described), None)
    if factor is None or ("isAdjustedToUTC=true" in described) != (data_type.tz is not None):
        return None, None
    return statistics.min_raw * factor, statistics.max_raw * factor


def _decoded_decimals(statistics: Any, data_type: pa.DataType) -> tuple[object, object]:
    """Return minimum and maximum of decimals that are stored as integers, else None twice.

    Some writers ordered decimals in byte arrays without regard to their sign.
    """
    described = str(statistics.logical_type)
    whole = statistics.physical_type in ("INT32", "INT64") and statistics.logical_type.type == "DECIMAL"
    if not whole or f"scale={data_type.scale})" not in described:
        return None, None
    return (
        Decimal(statistics.min_raw).scaleb(-data_type.scale),
        Decimal(statistics.max_raw).scaleb(-data_type.scale),
    )
