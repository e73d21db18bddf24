"""The arguments of a write, without Spark: what is accepted, and what each wrong input is told."""

from __future__ import annotations

import pytest

from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError
from hudi_vector.schema import VectorType
from hudi_vector.table.config import TableConfig
from hudi_vector.writing.layout import agree_on_layout, agree_on_vectors
from hudi_vector.writing.request import vector_type, write_request
from hudi_vector.writing.target import is_path

PROPERTIES = """
hoodie.table.name=t
hoodie.table.version=9
hoodie.table.type=MERGE_ON_READ
hoodie.table.recordkey.fields=id
hoodie.table.partition.fields=day
hoodie.table.ordering.fields=ts
"""


@pytest.fixture
def config() -> TableConfig:
    return TableConfig.parse(PROPERTIES)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (128, VectorType(128)),
        ((128, "double"), VectorType(128, "double")),
        ([4, "BYTE"], VectorType(4, "int8")),
        ("VECTOR(128, INT8)", VectorType(128, "int8")),
        (VectorType(3), VectorType(3)),
    ],
)
def test_a_vector_is_described_in_several_ways(spec, expected):
    assert vector_type("emb", spec) == expected


def test_columns_are_given_as_a_name_a_list_or_in_hudis_own_way():
    request = write_request("t", record_key="a, b", partition_by=["day"], ordering=("ts", "n"))
    assert (request.record_key, request.partition_by, request.ordering) == (("a", "b"), ("day",), ("ts", "n"))


def test_what_was_not_said_stays_open():
    request = write_request("t", record_key="id")
    assert (request.partition_by, request.ordering, request.table_type) == (None, None, None)
    assert request.operation == "upsert"


@pytest.mark.parametrize("given", ["mor", " MOR ", "MERGE_ON_READ", "merge_on_read"])
def test_table_types_have_hudis_names_too(given):
    assert write_request("t", record_key="id", table_type=given).table_type == "mor"


def test_options_become_text():
    request = write_request("t", record_key="id", options={"hoodie.a": True, "hoodie.b": 3, "hoodie.c": None})
    assert request.options == {"hoodie.a": "true", "hoodie.b": "3"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"table": ""}, InvalidTypeError, "table is a path or a catalog name, not ''"),
        ({"table": None}, InvalidTypeError, "table is a path or a catalog name, not None"),
        (
            {"record_key": ""},
            InvalidArgumentError,
            "record_key is empty; name the column, or the columns, that identify a row",
        ),
        ({"record_key": 3}, InvalidTypeError, "record_key is a column name or a list of them, not 3"),
        ({"partition_by": [1]}, InvalidTypeError, "partition_by is a column name or a list of them, not [1]"),
        (
            {"record_key": ["id", "id"]},
            InvalidArgumentError,
            "record_key names column 'id' more than once; name it once",
        ),
        (
            {"operation": "merge"},
            InvalidArgumentError,
            (
                "operation = 'merge' is not allowed: give one of "
                "upsert, insert, bulk_insert, delete, insert_overwrite, insert_overwrite_table"
            ),
        ),
        ({"table_type": "cowboy"}, InvalidArgumentError, "table_type = 'cowboy' is not allowed: give one of cow, mor"),
        ({"table_type": 1}, InvalidArgumentError, "table_type = 1 is not allowed: give one of cow, mor"),
        (
            {"sort_by": "id"},
            InvalidArgumentError,
            "sort_by is for operation 'bulk_insert' and cannot be used with 'upsert'; leave it out",
        ),
        (
            {"options": {"hoodie.datasource.write.precombine.field": "ts"}},
            InvalidArgumentError,
            "options holds 'hoodie.datasource.write.precombine.field'; use the argument ordering instead",
        ),
        (
            {"vectors": {"emb": 3}, "options": {"hoodie.table.cdc.enabled": True}},
            InvalidArgumentError,
            "hoodie.table.cdc.enabled = true keeps whole rows inside others, where Hudi 1.2 takes no VECTOR column: the "
            "table could be written once, and never again; leave it out",
        ),
        (
            {"vectors": {"emb": 0}},
            InvalidArgumentError,
            "the dimension of a vector is 1 or more, not 0",
        ),
        (
            {"vectors": {"emb": "ARRAY(3)"}},
            InvalidArgumentError,
            "'ARRAY(3)' is no vector type: write VECTOR(n) or VECTOR(n, FLOAT|DOUBLE|INT8)",
        ),
        (
            {"vectors": {"emb": 1.5}},
            InvalidTypeError,
            (
                "vectors['emb'] = 1.5 describes no vector: "
                "give 128, (128, 'double'), 'VECTOR(128, INT8)' or a VectorType"
            ),
        ),
        (
            {"vectors": {"emb": 2**29}},
            InvalidArgumentError,
            (
                "column 'emb' would be VECTOR(536870912), 2147483648 bytes a vector; "
                "Hudi allows 536870911 elements of FLOAT"
            ),
        ),
    ],
)
def test_wrong_arguments(arguments, error, message):
    given = {"table": "t", "record_key": "id", **arguments}
    with pytest.raises(error) as raised:
        write_request(**given)
    assert str(raised.value) == message


def test_the_widest_vector_hudi_allows_is_accepted():
    assert vector_type("emb", 2**29 - 1).dimension == 2**29 - 1
    assert vector_type("emb", (2**31 - 1, "int8")).dimension == 2**31 - 1


@pytest.mark.parametrize(
    ("table", "expected"),
    [("/t", True), ("a/b", True), ("s3a://b/t", True), ("file:/t", True), ("db.t", False), ("t", False)],
)
def test_a_path_holds_a_slash(table, expected):
    assert is_path(table) is expected


def test_a_new_table_gets_what_was_asked_for():
    request = write_request("/t", record_key="id", partition_by=["a", "b"], ordering="ts", table_type="mor")
    layout = agree_on_layout(request, None)
    assert (layout.table_type, layout.partition_option, layout.ordering) == ("MERGE_ON_READ", "a,b", ("ts",))


def test_a_table_that_is_there_keeps_its_layout(config):
    layout = agree_on_layout(write_request("/t", record_key="id"), config, "day:simple")
    assert (layout.table_type, layout.partition_by, layout.ordering) == ("MERGE_ON_READ", ("day",), ("ts",))
    assert layout.partition_option == "day:simple"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"record_key": "key"},
            "'/t' has the record key 'id' and cannot be written with 'key'; give 'id', or write to another table",
        ),
        (
            {"partition_by": ["day", "hour"]},
            (
                "'/t' has the partition fields 'day' and cannot be written with 'day', 'hour'; "
                "give 'day', or write to another table"
            ),
        ),
        (
            {"partition_by": []},
            (
                "'/t' has the partition fields 'day' and cannot be written with (none); "
                "give 'day', or write to another table"
            ),
        ),
        (
            {"ordering": "n"},
            "'/t' has the ordering fields 'ts' and cannot be written with 'n'; give 'ts', or write to another table",
        ),
        (
            {"table_type": "cow"},
            (
                "'/t' has the table type 'MERGE_ON_READ' and cannot be written with 'COPY_ON_WRITE'; "
                "give 'MERGE_ON_READ', or write to another table"
            ),
        ),
    ],
)
def test_another_layout_than_the_table_has_is_refused(config, arguments, message):
    request = write_request("/t", **{"record_key": "id", **arguments})
    with pytest.raises(InvalidArgumentError) as raised:
        agree_on_layout(request, config)
    assert str(raised.value) == message


def test_vectors_of_the_table_need_not_be_named():
    found = agree_on_vectors("t", {"b": VectorType(2)}, {"a": VectorType(3)}, {"a": "array<float>"})
    assert found == {"a": VectorType(3), "b": VectorType(2)}


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            VectorType(4),
            DimensionMismatchError,
            (
                "column 'emb' of 't' is VECTOR(3) and cannot take VECTOR(4); "
                "a vector column keeps its type, so write to another column or table"
            ),
        ),
        (
            VectorType(3, "double"),
            InvalidArgumentError,
            (
                "column 'emb' of 't' is VECTOR(3) and cannot take VECTOR(3, DOUBLE); "
                "a vector column keeps its type, so write to another column or table"
            ),
        ),
    ],
)
def test_another_vector_type_than_the_table_has_is_refused(asked, error, message):
    with pytest.raises(error) as raised:
        agree_on_vectors("t", {"emb": asked}, {"emb": VectorType(3)}, {"emb": "array<float>"})
    assert str(raised.value) == message


def test_a_plain_array_of_the_table_takes_no_vectors():
    with pytest.raises(InvalidArgumentError) as raised:
        agree_on_vectors("t", {"emb": VectorType(3)}, {}, {"emb": "array<float>"})
    assert str(raised.value) == (
        "column 'emb' of 't' is array<float> and cannot take VECTOR(3); write to another column or table"
    )
