"""The checks of arguments: what they take, and the sentence for what they do not."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict

import numpy as np
import pytest

from hudi_vector.arguments import (
    as_count,
    as_distance,
    as_k,
    as_seconds,
    as_settings,
    as_text,
    as_vector,
    is_unicode,
    known_arguments,
    require_unicode,
)
from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError, InvalidVectorError
from hudi_vector.kernels.metrics import metric_named

NAN, INF = float("nan"), float("inf")


class Dense:
    """What pyspark.ml gives for a vector."""

    def toArray(self) -> np.ndarray:  # noqa: N802 - pyspark's name
        return np.array([1.0, 2.0])


@pytest.mark.parametrize(
    "given",
    [
        [1, 2],
        (1.0, 2.0),
        [Decimal(1), Decimal("2.0")],
        [1, Fraction(2)],
        np.array([1, 2]),
        np.array([1, 2], np.float32),
        np.array([1, 2], np.int8),
        np.ma.array([1, 2]),
        Dense(),
    ],
)
def test_vectors(given: Any) -> None:
    made = as_vector(given, 2)
    assert made.tolist() == [1.0, 2.0]
    assert made.dtype == np.float64
    assert as_vector(given, None).tolist() == [1.0, 2.0]


NUMBERS = "the query vector must be an array of numbers, not "
ONE = "the query vector must be a one-dimensional array of numbers, not "
MASKED = "the query vector has masked elements; every element must be a number"
FINITE = "the query vector holds NaN or infinity; every element must be a finite number"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (None, InvalidVectorError, "the query vector is NULL; give an array of numbers"),
        ([], InvalidVectorError, "the query vector is empty; give an array of numbers"),
        (np.array([]), InvalidVectorError, "the query vector is empty; give an array of numbers"),
        ([1, None], InvalidVectorError, "the query vector holds NULL; every element must be a number"),
        (np.ma.array([1, 2], mask=[False, True]), InvalidVectorError, MASKED),
        ([1, NAN], InvalidVectorError, FINITE),
        ([1, -INF], InvalidVectorError, FINITE),
        ([1, 2, 3], DimensionMismatchError, "the query vector has 3 elements, the column has 2; give 2"),
        ([1], DimensionMismatchError, "the query vector has 1 element, the column has 2; give 2"),
        ("[1, 2]", InvalidTypeError, NUMBERS + "'[1, 2]'"),
        (b"12", InvalidTypeError, NUMBERS + "b'12'"),
        (3, InvalidTypeError, NUMBERS + "3"),
        ({"a": 1}, InvalidTypeError, NUMBERS + "{'a': 1}"),
        ([1, "x"], InvalidTypeError, ONE + "1 dimension of <U21"),
        ([[1, 2]], InvalidTypeError, ONE + "2 dimensions of int64"),
        ([True, False], InvalidTypeError, ONE + "1 dimension of bool"),
        ([1j, 2], InvalidTypeError, ONE + "1 dimension of complex128"),
    ],
)  # fmt: skip
def test_wrong_vectors(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        as_vector(given, 2)
    assert str(refused.value) == message


def test_a_long_value_is_shown_in_short() -> None:
    with pytest.raises(InvalidTypeError, match=r"…$") as refused:
        as_vector("x" * 1000, 2)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("given", [1, 100_000, np.int32(7)])
def test_k(given: Any) -> None:
    assert as_k(given) == int(given)
    assert type(as_k(given)) is int


@pytest.mark.parametrize(
    ("given", "shown"),
    [(0, "0"), (-1, "-1"), (100_001, "100001"), (1.0, "1.0"), ("3", "'3'"), (True, "True"), (None, "NULL")],
)
def test_wrong_k(given: Any, shown: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        as_k(given)
    assert str(refused.value) == f"k must be a whole number from 1 to 100000, not {shown}"


@pytest.mark.parametrize(
    ("given", "wanted"), [(None, None), (1, 1.0), (-0.5, -0.5), (np.float32(0.5), 0.5), (INF, INF)]
)
def test_distances(given: Any, wanted: float | None) -> None:
    assert as_distance(given) == wanted


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (NAN, InvalidArgumentError, "max_distance is NaN; give a number or NULL"),
        pytest.param(
            10**400,
            InvalidArgumentError,
            "max_distance is a number beyond what DOUBLE holds; leave it out",
            id="beyond-double",
        ),
        ("1", InvalidTypeError, "max_distance must be a number or NULL, not '1'"),
        (True, InvalidTypeError, "max_distance must be a number or NULL, not True"),
        ([1], InvalidTypeError, "max_distance must be a number or NULL, not [1]"),
    ],
)
def test_wrong_distances(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        as_distance(given)
    assert str(refused.value) == message


def test_counts() -> None:
    assert as_count(None, "limit") is None
    assert as_count(np.int64(3), "limit") == as_count(3, "limit") == 3
    assert as_count(2**63 - 1, "limit") == 2**63 - 1
    for given in (0, True, 1.0, "1"):
        with pytest.raises(InvalidArgumentError, match=f"^limit must be a whole number, 1 or more, not {given!r}$"):
            as_count(given, "limit")
    for given in (2**63, 10**30):
        with pytest.raises(
            InvalidArgumentError, match=r"^limit is a number of more than 64 bits; give 9223372036854775807 "
        ):
            as_count(given, "limit")


def test_settings() -> None:
    assert as_settings(None, "options") == {}
    assert as_settings({"a": "x", "b": 2}, "options") == {"a": "x", "b": "2"}
    for given, shown in ((5, "not int"), ("k=v", "not str"), ([("k", "v")], "not list"), ({5: 1}, "its key 5 is none")):
        with pytest.raises(InvalidTypeError, match=f"^options must be a dictionary of texts, (and )?{shown}$"):
            as_settings(given, "options")


def test_texts() -> None:
    assert as_text("a b", "table") == "a b"
    assert as_text(None, "filter", allow_null=True) is None


@pytest.mark.parametrize(("given", "shown"), [(None, "NULL"), (3, "3"), (b"x", "b'x'")])
def test_wrong_texts(given: Any, shown: str) -> None:
    with pytest.raises(InvalidTypeError) as refused:
        as_text(given, "table")
    assert str(refused.value) == f"the argument 'table' must be text, not {shown}"


@pytest.mark.parametrize("given", ["", "  ", "\n\t"])
def test_blank_texts(given: str) -> None:
    with pytest.raises(InvalidTypeError) as refused:
        as_text(given, "table")
    assert str(refused.value) == "the argument 'table' is blank; give a text"
    with pytest.raises(InvalidTypeError) as refused:
        as_text(given, "filter", allow_null=True)
    assert str(refused.value) == "the argument 'filter' is blank; leave it out, or give a text"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("cosine", "cosine"),
        (" COSINE ", "cosine"),
        ("l2", "l2"),
        ("Euclidean", "l2"),
        ("dot_product", "dot_product"),
        ("dot", "dot_product"),
        ("INNER_PRODUCT", "dot_product"),
    ],
)
def test_metrics(given: str, wanted: str) -> None:
    assert metric_named(given) == wanted


@pytest.mark.parametrize("given", ["", "manhattan", None, 2, [], {}])
def test_wrong_metrics(given: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        metric_named(given)
    assert str(refused.value) == (
        f"unknown metric {given!r}; give cosine, l2 (euclidean), dot_product (dot, inner_product) or hamming"
    )


class _Options(TypedDict, total=False):
    effort: int


@known_arguments(_Options)
def _ask(table: str, *, metric: str = "l2", **options: Any) -> tuple[Any, ...]:
    """Ask."""
    return table, metric, options


def test_an_unknown_argument_gets_the_nearest_one() -> None:
    assert _ask("t", metric="cosine", effort=3) == ("t", "cosine", {"effort": 3})
    with pytest.raises(InvalidTypeError, match=r"^_ask has no argument 'metrik'; did you mean 'metric'\?$"):
        _ask("t", metrik="l2")
    with pytest.raises(TypeError, match=r"^_ask has no argument 'efort'; did you mean 'effort'\?$"):
        _ask("t", efort=2)
    with pytest.raises(InvalidTypeError, match=r"^_ask has no argument 'distance_metric'; it is 'metric' here$"):
        _ask("t", distance_metric="l2")
    with pytest.raises(InvalidTypeError, match="_ask has no argument 'zzz'; its arguments are effort, metric, table"):
        _ask("t", zzz=1)
    assert str(inspect.signature(_ask)).startswith("(table: ")
    assert (_ask.__name__, _ask.__doc__) == ("_ask", "Ask.")


@pytest.mark.parametrize("given", ["", "caf\u00e9", "\U0001f600", "\0"])
def test_texts_of_whole_characters(given: str) -> None:
    assert is_unicode(given)
    require_unicode(given, "the text")


@pytest.mark.parametrize("given", ["\ud800", "a" * 50 + "\udfff" + "b" * 50])
def test_halves_of_surrogate_pairs(given: str) -> None:
    assert not is_unicode(given)
    with pytest.raises(InvalidArgumentError, match=r"^the text holds half of a surrogate .+ in .+ud.+; .+$") as refused:
        require_unicode(given, "the text")
    assert len(str(refused.value)) < 130
    str(refused.value).encode()  # it can be printed


@pytest.mark.parametrize(("given", "wanted"), [(None, None), (0, 0.0), (1.5, 1.5), (np.int64(3), 3.0)])
def test_seconds(given: Any, wanted: float | None) -> None:
    assert as_seconds(given, "every") == wanted


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("5", InvalidTypeError, "every must be a number of seconds, not '5'"),
        (True, InvalidTypeError, "every must be a number of seconds, not True"),
        (-1, InvalidArgumentError, "every must be 0 seconds or more, and finite, not -1"),
        (NAN, InvalidArgumentError, "every must be 0 seconds or more, and finite, not nan"),
        (INF, InvalidArgumentError, "every must be 0 seconds or more, and finite, not inf"),
    ],
)
def test_wrong_seconds(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        as_seconds(given, "every")
    assert str(refused.value) == message


def test_k_is_named_as_it_was_given() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^top_k must be a whole number from 1 to 100000, not True$"):
        as_k(True, "top_k")
