"""Avro schemas of commits as Arrow schemas."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.table.avro_schema import META_FIELDS, arrow_schema


def schema_of(*types: Any, meta: bool = False) -> pa.Schema:
    fields = [{"name": f"c{i}", "type": kind} for i, kind in enumerate(types)]
    return arrow_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), meta)


FIXED = {"type": "fixed", "name": "d", "size": 5}
VECTOR = {"type": "fixed", "name": "v", "size": 12, "logicalType": "vector", "dimension": 3}
POINT = {"type": "record", "name": "point", "namespace": "n", "fields": [{"name": "x", "type": ["null", "int"]}]}


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": {"type": "string"}}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "long", "logicalType": "nobody-knows"}, pa.int64()),
        ({**FIXED, "logicalType": "decimal", "precision": 10, "scale": 2}, pa.decimal128(10, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0)),
        (FIXED, pa.binary()),
        (POINT, pa.struct([pa.field("x", pa.int32())])),
        ({"type": "array", "items": "long"}, pa.list_(pa.field("element", pa.int64(), False))),
        ({"type": "array", "items": ["null", "long"]}, pa.list_(pa.field("element", pa.int64(), True))),
        ({"type": "map", "values": "float"}, pa.map_(pa.string(), pa.field("value", pa.float32(), False))),
        ({"type": "map", "values": ["null", "int"]}, pa.map_(pa.string(), pa.field("value", pa.int32(), True))),
        ({"type": "array", "items": POINT}, pa.list_(pa.field("element", pa.struct({"x": pa.int32()}), False))),
        (VECTOR, pa.list_(pa.field("element", pa.float32(), False))),
        ({**VECTOR, "elementType": "DOUBLE"}, pa.list_(pa.field("element", pa.float64(), False))),
        ({**VECTOR, "elementType": "INT8"}, pa.list_(pa.field("element", pa.int8(), False))),
    ],
)
def test_types(avro: Any, arrow: pa.DataType) -> None:
    required, optional, reverse = schema_of(avro, ["null", avro], [avro, "null"])
    assert required.type == optional.type == reverse.type == arrow
    assert [required.nullable, optional.nullable, reverse.nullable] == [False, True, True]


@pytest.mark.parametrize(
    ("element", "descriptor"),
    [(None, "VECTOR(3)"), ("FLOAT", "VECTOR(3)"), ("double", "VECTOR(3, DOUBLE)"), ("INT8", "VECTOR(3, INT8)")],
)
def test_vectors_keep_their_descriptor(element: str | None, descriptor: str) -> None:
    avro = VECTOR if element is None else {**VECTOR, "elementType": element}
    for field in schema_of(avro, ["null", avro]):
        assert field.metadata == {HUDI_TYPE.encode(): descriptor.encode()}


def test_blobs_are_marked() -> None:
    (field,) = schema_of({**POINT, "logicalType": "blob"})
    assert field.metadata == {HUDI_TYPE.encode(): b"BLOB"}


def test_named_types_are_used_again() -> None:
    first, second, third = schema_of(POINT, "point", ["null", "n.point"])
    assert first.type == second.type == third.type
    again, _ = schema_of(VECTOR, "v")
    assert schema_of(VECTOR, "v")[1].metadata == again.metadata


def test_meta_fields_stand_in_front_once() -> None:
    assert tuple(schema_of("int", meta=True).names) == (*META_FIELDS, "c0")
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": "string"} for n in META_FIELDS]})
    assert tuple(arrow_schema(text).names) == META_FIELDS


@pytest.mark.parametrize(
    ("avro", "message"),
    [(["int", "string"], "a union of several types"), ("nosuch", "an unknown type 'nosuch'")],
)
def test_what_spark_cannot_read_either(avro: Any, message: str) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        schema_of(avro)
