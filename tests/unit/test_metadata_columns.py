"""Metadata of documents in typed columns: what comes back as it was, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from hudi_vector.errors import InvalidTypeError
from hudi_vector.integrations.metadata import MetadataColumns, arrow_types

AT = dt.datetime(2026, 1, 31, 15, 30, tzinfo=dt.timezone.utc)


def stored(kind: str, *values: Any) -> list[Any]:
    columns = MetadataColumns("t", None, arrow_types({"m": kind}))
    ids = [f"d{n}" for n in range(len(values))]
    found: list[Any] = columns.arrays(ids, [{"m": value} for value in values])["m"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [1, None, np.int64(3)]),
        ("bigint", [1 << 40]),
        ("double", [1.5, 2, np.float64(3)]),
        ("boolean", [True, np.bool_(False)]),
        ("date", [AT.date()]),
        ("timestamp", [AT]),
        ("string", ["", "a"]),
    ],
)
def test_values_of_the_type_come_back(kind: str, values: list[Any]) -> None:
    assert stored(kind, *values) == values


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.5), ("int", 1 << 31), ("int", True), ("int", "1"), ("bigint", 2.0), ("double", True), ("double", "1"),
        ("boolean", 1), ("boolean", "true"), ("date", AT), ("date", 5), ("timestamp", 5), ("timestamp", AT.date()),
        ("string", b"ab"), ("string", 1),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^metadata 'm' of document 'd1' is .*; give a value of that type$"):
        stored(kind, None, value)
