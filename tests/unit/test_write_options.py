"""Hudi's settings for a write, the statement that makes a table, and what a commit says: without a SparkSession."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError
from hudi_vector.schema import VectorType, vector_field
from hudi_vector.writing.catalog import create_table
from hudi_vector.writing.committing.commits import commit_counts
from hudi_vector.writing.findings import Findings, refuse_duplicates, refuse_invalid
from hudi_vector.writing.hudi_options import CODEC, DUPLICATES, hudi_options, read_settings, table_properties
from hudi_vector.writing.layout import agree_on_layout
from hudi_vector.writing.request import write_request
from hudi_vector.writing.vectors.binary import bytes_to_lists

COMBINE = "hoodie.combine.before.insert"


def options_of(session=None, table=None, has_vectors=True, **arguments):
    request = write_request("/t", **{"record_key": "id", **arguments})
    settings = read_settings(request.options, session or {}, table or {})
    return hudi_options(
        request, agree_on_layout(request, None), settings, "t", has_vectors=has_vectors, has_blobs=False
    )


def test_the_whole_of_a_plain_write():
    assert options_of() == {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        CODEC: "snappy",
    }


def test_key_partition_and_ordering_are_handed_over():
    made = options_of(record_key=["a", "b"], partition_by="p", ordering=["ts", "n"], table_type="mor")
    assert made["hoodie.datasource.write.recordkey.field"] == "a,b"
    assert made["hoodie.datasource.write.partitionpath.field"] == "p"
    assert made["hoodie.table.ordering.fields"] == "ts,n"
    assert made["hoodie.datasource.write.table.type"] == "MERGE_ON_READ"


@pytest.mark.parametrize(
    ("option", "session", "table", "has_vectors", "expected"),
    [
        ({}, {}, {}, True, "snappy"),
        ({}, {}, {}, False, None),
        ({}, {}, {CODEC: "zstd"}, True, "zstd"),
        ({}, {CODEC: "gzip"}, {CODEC: "zstd"}, True, "gzip"),
        ({CODEC: "uncompressed"}, {CODEC: "gzip"}, {CODEC: "zstd"}, True, "uncompressed"),
        ({}, {CODEC: "gzip"}, {}, False, "gzip"),
    ],
)
def test_the_users_codec_stays(option, session, table, has_vectors, expected):
    assert options_of(session, table, has_vectors, options=option).get(CODEC) == expected


@pytest.mark.parametrize(
    ("option", "policy", "combine", "checks"),
    [
        ({}, "fail", None, True),
        ({DUPLICATES: "none"}, "none", None, False),
        ({DUPLICATES: "drop"}, "drop", "true", False),
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, "drop", "true", False),
        ({COMBINE: "true"}, "fail", "true", False),
        ({COMBINE: "false"}, "fail", "false", True),
        ({DUPLICATES: "drop", COMBINE: "false"}, "drop", "false", False),
    ],
)
def test_duplicates(option, policy, combine, checks):
    made = options_of(operation="insert", options=option)
    assert (made[DUPLICATES], made.get(COMBINE)) == (policy, combine)
    assert read_settings(option, {}, {}).checks_duplicates("insert") is checks


@pytest.mark.parametrize(
    ("operation", "checks"),
    [
        ("upsert", False),
        ("delete", False),
        ("insert", True),
        ("bulk_insert", True),
        ("insert_overwrite", True),
        ("insert_overwrite_table", True),
    ],
)
def test_operations_that_keep_duplicates_are_checked(operation, checks):
    assert read_settings({}, {}, {}).checks_duplicates(operation) is checks


def test_an_unknown_policy_is_refused():
    with pytest.raises(InvalidArgumentError) as raised:
        read_settings({DUPLICATES: "ignore"}, {}, {})
    assert str(raised.value) == (
        "hoodie.datasource.insert.dup.policy = 'ignore' is not allowed: give one of fail, drop, none"
    )


def test_sorting_is_done_by_hudis_own_partitioner():
    made = options_of(operation="bulk_insert", sort_by=["a", "b"])
    assert made["hoodie.bulkinsert.user.defined.partitioner.sort.columns"] == "a,b"
    assert made["hoodie.bulkinsert.user.defined.partitioner.class"].endswith(".RowCustomColumnsSortPartitioner")


def test_our_own_settings_do_not_reach_hudi():
    made = options_of(options={"hoodie.vector.invalid": "skip", "hoodie.clustering.inline": True})
    assert "hoodie.vector.invalid" not in made
    assert made["hoodie.clustering.inline"] == "true"


def test_a_catalog_table_remembers_its_layout_and_not_one_writes_policy():
    request = write_request("t", record_key="id", ordering="ts", operation="insert")
    layout = agree_on_layout(request, None)
    made = hudi_options(request, layout, read_settings({}, {}, {}), "t", has_vectors=True, has_blobs=False)
    assert table_properties(layout, made) == {
        "primaryKey": "id",
        "type": "cow",
        "orderingFields": "ts",
        CODEC: "snappy",
    }


def test_the_statement_that_makes_a_table():
    schema = StructType(
        [
            StructField("id", LongType(), False),
            StructField("it's", StringType(), metadata={"comment": "the user's"}),
            vector_field("emb", 3, "double"),
        ]
    )
    assert create_table("`db`.`t`", schema, ["it's"], {"primaryKey": "id"}) == (
        "CREATE TABLE `db`.`t` (`id` bigint NOT NULL, `it's` string COMMENT 'the user\\'s', `emb` VECTOR(3, DOUBLE)) "
        "USING hudi PARTITIONED BY (`it's`) TBLPROPERTIES ('primaryKey' = 'id')"
    )


def test_a_commit_is_added_up():
    def one(inserted, updated, deleted):
        return {"numWrites": 99, "numInserts": inserted, "numUpdateWrites": updated, "numDeletes": deleted}

    record = {"partitionToWriteStats": {"a": [one(1, 2, 0), one(4, 0, 0)], "b": [one(0, 0, 7)], "c": None}}
    commit = commit_counts("1", record)
    assert (commit.inserted, commit.updated, commit.deleted) == (5, 2, 7)


@pytest.mark.parametrize(("element", "dtype"), [("float", "<f4"), ("double", "<f8"), ("int8", "i1")])
def test_bytes_are_read_as_vectors(element, dtype):
    rows = [np.array([1, -2, 3], dtype).tobytes(), None, b"?", np.array([4, 5, 6], dtype).tobytes()]
    vector = VectorType(3, element)
    for values in (pa.array(rows, pa.binary()), pa.array([b"", *rows], pa.large_binary())[1:]):
        lists = bytes_to_lists(values, vector)
        assert lists.to_pylist() == [[1, -2, 3], None, [], [4, 5, 6]]
        assert lists.type.value_type == vector.arrow_element
    assert bytes_to_lists(pa.array([], pa.binary()), vector).to_pylist() == []


@pytest.mark.parametrize(
    ("invalid", "error", "described"),
    [
        ({"emb": {"wrong length": 2}}, DimensionMismatchError, "'emb': 2 with wrong length"),
        (
            {"a": {"wrong length": 1, "NULL element": 3}, "b": {"NaN or infinite element": 1}},
            InvalidVectorError,
            "'a': 1 with wrong length, 3 with NULL element; 'b': 1 with NaN or infinite element",
        ),
    ],
)
def test_invalid_vectors_are_counted_in_words(invalid, error, described):
    with pytest.raises(error) as raised:
        refuse_invalid(Findings(rows=9, invalid_rows=5, invalid=invalid, first_invalid="id = 7"))
    assert str(raised.value) == (
        f"nothing was written: 5 of 9 rows hold an invalid vector ({described}), the first at id = 7; "
        "correct them, or set hoodie.vector.invalid to skip or null"
    )


def test_nothing_is_refused_where_nothing_is_wrong():
    refuse_invalid(Findings(rows=3))
    refuse_duplicates(Findings(rows=3), "insert", DUPLICATES)


def test_duplicates_are_counted_in_words():
    with pytest.raises(InvalidArgumentError) as raised:
        refuse_duplicates(Findings(rows=3, duplicate_keys=2, first_duplicate="id = 1"), "insert", DUPLICATES)
    assert str(raised.value) == (
        "nothing was written: 2 record keys occur more than once in the DataFrame, the first is id = 1, "
        "and operation 'insert' would store each row; drop the duplicates, use operation 'upsert', "
        "or set hoodie.datasource.insert.dup.policy to drop or none"
    )
