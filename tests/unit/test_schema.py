"""The VECTOR type: descriptors and fields."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.schema import VectorType, free_names, quoted, vector_field


@pytest.mark.parametrize(
    ("text", "dimension", "element"),
    [
        ("VECTOR(3)", 3, "float"),
        ("vector( 128 )", 128, "float"),
        ("VECTOR(4, FLOAT)", 4, "float"),
        ("VECTOR(4,double)", 4, "double"),
        (" VECTOR (4 , INT8) ", 4, "int8"),
        ("VECTOR(4, BYTE)", 4, "int8"),
    ],
)
def test_descriptors_are_read(text: str, dimension: int, element: str) -> None:
    vector = VectorType.parse(text)
    assert vector == VectorType(dimension, element)
    assert VectorType.parse(vector.descriptor) == vector


@pytest.mark.parametrize("text", ["", "VECTOR", "VECTOR()", "VECTOR(-1)", "VECTOR(1.5)", "VECTOR(3) x", "ARRAY(3)"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no vector type"):
        VectorType.parse(text)


@pytest.mark.parametrize(
    ("dimension", "element", "error", "message"),
    [
        (0, "float", InvalidArgumentError, "1 or more, not 0"),
        (True, "float", InvalidTypeError, "a whole number, not True"),
        (2.0, "float", InvalidTypeError, "a whole number, not 2.0"),
        (2, "half", InvalidArgumentError, "float, double or int8, not 'half'"),
    ],
)
def test_wrong_types_are_refused(dimension: int, element: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        VectorType(dimension, element)


@pytest.mark.parametrize(
    ("element", "descriptor", "width", "dtype", "arrow"),
    [
        ("float", "VECTOR(3)", 12, "<f4", pa.float32()),
        ("double", "VECTOR(3, DOUBLE)", 24, "<f8", pa.float64()),
        ("INT8", "VECTOR(3, INT8)", 3, "i1", pa.int8()),
    ],
)
def test_what_a_type_says(element: str, descriptor: str, width: int, dtype: str, arrow: pa.DataType) -> None:
    vector = VectorType(3, element)
    assert vector.descriptor == descriptor
    assert vector.width == width
    assert vector.dtype == np.dtype(dtype)
    assert vector.arrow_element == arrow


def test_the_spark_field() -> None:
    field = vector_field("emb", 3, "double", nullable=False)
    assert field.simpleString() == "emb:array<double>"
    assert not field.nullable
    assert not field.dataType.containsNull
    assert field.metadata == {"hudi_type": "VECTOR(3, DOUBLE)"}


NAMES = st.text(st.sampled_from("aAbB_`. é漢'\"\\"), min_size=1, max_size=4)


@given(st.lists(NAMES, unique_by=str.lower, max_size=6), st.sets(NAMES, max_size=6), st.sampled_from(["_", "a", "a_"]))
def test_free_names_are_free_and_different_and_no_other_than_they_must(names, taken, prefix):
    found = free_names(names, taken, prefix)
    lower = [name.lower() for name in found]
    assert len(set(lower)) == len(lower)
    assert not set(lower) & {name.lower() for name in taken}
    for name, free in zip(names, found, strict=True):
        assert free.endswith(name)
        assert set(free[: len(free) - len(name)].split(prefix)) <= {""}
        assert (free == name) == (name.lower() not in {other.lower() for other in taken})


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_a_quoted_name_is_read_back(names):
    read, text = [], quoted(*names)
    while text:
        found = re.match(r"`((?:[^`]|``)*)`(?:\.|$)", text)
        read.append(found[1].replace("``", "`"))
        text = text[found.end() :]
    assert read == names
