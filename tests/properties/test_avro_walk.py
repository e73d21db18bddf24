"""References in Avro rows of random schemas, against fastavro and a plain search of what it decodes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.blob_states import AVRO_BLOB, blob, inline

from hudi_vector.errors import DataFileError, InvalidBlobError
from hudi_vector.table.avro_names import with_full_names
from hudi_vector.table_services.references.avro_references import avro_references
from hudi_vector.table_services.references.files import UNREADABLE

PLAIN = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.just(1.5),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=100),
}
paths = st.text(st.characters(codec="utf-8"), min_size=1, max_size=70)
lengths = st.none() | st.integers(0, 2**62)
blobs = st.one_of(st.builds(blob, paths, lengths, lengths, st.booleans()), st.builds(inline, st.binary(max_size=300)))


class Names:
    """Names that no other type of the schema has."""

    def __init__(self) -> None:
        self.count = 0
        self.has_blob = False

    def next(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"


@st.composite
def types(draw: Any, names: Names, depth: int) -> tuple[Any, Any]:
    """A type, and values of it."""
    kind = draw(
        st.sampled_from(
            ["plain", "blob", "null", "fixed", "enum", *(["record", "array", "map", "option"] * (depth > 0))]
        )
    )
    if kind == "blob":
        node: Any = "blob" if names.has_blob else AVRO_BLOB
        names.has_blob = True
        return node, blobs
    if kind == "null":
        return "null", st.none()
    if kind == "fixed":
        return {"type": "fixed", "name": names.next("f"), "size": 6}, st.binary(min_size=6, max_size=6)
    if kind == "enum":
        return {"type": "enum", "name": names.next("e"), "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "record":
        return draw(records(names, depth - 1))
    if kind == "array":
        item, values = draw(types(names, depth - 1))
        return {"type": "array", "items": item}, st.lists(values, max_size=3)
    if kind == "map":
        item, values = draw(types(names, depth - 1))
        return {"type": "map", "values": item}, st.dictionaries(st.text(max_size=5), values, max_size=3)
    if kind == "option":
        node, values = draw(types(names, depth - 1))
        return (node, values) if isinstance(node, list) or node == "null" else (["null", node], st.none() | values)
    name = draw(st.sampled_from(sorted(PLAIN)))
    return name, PLAIN[name]


@st.composite
def records(draw: Any, names: Names, depth: int) -> tuple[Any, Any]:
    """A record, and values of it."""
    made = [draw(types(names, depth)) for _ in range(draw(st.integers(1, 4)))]
    fields = [{"name": f"c{number}", "type": node} for number, (node, _) in enumerate(made)]
    name = names.next("r")
    return (
        {"type": "record", "name": name, "namespace": f"space.{name}", "fields": fields},
        st.fixed_dictionaries({f"c{number}": values for number, (_, values) in enumerate(made)}),
    )


@st.composite
def blocks(draw: Any) -> tuple[Any, list[Any]]:
    """A schema, and rows of it."""
    schema, values = draw(records(Names(), 3))
    return schema, draw(st.lists(values, max_size=4))


def written(schema: Any, rows: list[Any]) -> tuple[list[bytes], list[Any]]:
    """The rows in Avro, and as fastavro decodes them."""
    parsed = fastavro.parse_schema(with_full_names(schema))
    made = []
    for row in rows:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, row)
        made.append(sink.getvalue())
    return made, [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in made]


def search(value: Any) -> Iterator[tuple[Any, ...]]:
    """Every reference in a decoded row."""
    if isinstance(value, dict):
        if value.keys() == {"external_path", "offset", "length", "managed"}:
            yield tuple(value.values())
        for inner in value.values():
            yield from search(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from search(inner)


@settings(max_examples=200)
@given(made=blocks())
def test_every_reference_is_found(made: tuple[Any, list[Any]]) -> None:
    schema, rows = made
    records_, decoded = written(schema, rows)
    found = avro_references(json.dumps(schema), lambda: [memoryview(one) for one in records_])
    expected = set(search(decoded))
    assert {tuple(row.values())[1:] for row in found.to_pylist()} == expected


@settings(max_examples=200)
@given(made=blocks(), where=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damage_is_found_or_harmless(made: tuple[Any, list[Any]], where: int, byte: int) -> None:
    schema, rows = made
    records_, _ = written(schema, rows)
    if not records_:
        return
    first = bytearray(records_[0] or b"\x00")
    first[where % len(first)] = byte
    try:
        avro_references(json.dumps(schema), lambda: [memoryview(bytes(first))])
    except UNREADABLE as problem:
        assert str(problem)


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x02\x00", "an array of"),
        ("string", b"\x01", "has -1 bytes"),
        (["null", "long"], b"\x01", "has no branch"),
    ],
)
def test_what_cannot_be(kind: Any, row: bytes, message: str) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "x", "type": kind}, {"name": "img", "type": AVRO_BLOB}],
    }
    with pytest.raises(DataFileError, match=message):
        avro_references(json.dumps(schema), lambda: [memoryview(row)])


def test_types_that_are_not_walked() -> None:
    itself = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
    for schema, message in (
        (itself, "contains itself"),
        ({**itself, "fields": [{"name": "x", "type": "odd"}]}, "is not known"),
    ):
        with pytest.raises(DataFileError, match=message):
            avro_references(json.dumps(schema), list)


def test_a_blob_that_names_no_path_is_told_with_its_column() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "doc", "type": {"type": "array", "items": AVRO_BLOB}}]}
    rows, _ = written(schema, [{"doc": [blob("/a"), {**blob("/a"), "reference": None}]}])
    with pytest.raises(InvalidBlobError, match="1 of its rows are OUT_OF_LINE in column 'doc'"):
        avro_references(json.dumps(schema), lambda: [memoryview(row) for row in rows])
