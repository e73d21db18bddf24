"""How the blobs of a write are stored: no blob of a table with Lance base files lies in its row."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import BLOB_INLINE_THRESHOLD
from hudi_vector.writing.blobs.plan import planned_columns

KEY = BLOB_INLINE_THRESHOLD.key
SCHEMA = StructType(
    [
        StructField("id", IntegerType()),
        StructField("img", BinaryType()),
        StructField("doc", StructType([StructField("scan", BinaryType())])),
    ]
)


def thresholds(specs: dict[str, Any], given: dict[str, str], base: str = "lance") -> dict[str, int]:
    columns = planned_columns(SCHEMA, None, specs, given, table="t", base_format=base)
    return {column.path: column.settings.inline_threshold for column in columns}


SPELLED = [KEY, KEY.upper(), "inline.threshold", "Inline.Threshold", " threshold"]


@pytest.mark.parametrize("base", ["lance", "LANCE"])
@pytest.mark.parametrize("key", SPELLED)
@pytest.mark.parametrize("value", ["1", "64KB", "16MB"])
def test_no_column_of_a_lance_table_is_inline_by_a_setting_of_its_own(base: str, key: str, value: str) -> None:
    for column in ("img", "doc.scan"):
        specs: dict[str, Any] = {"img": {}, "doc.scan": {}}
        specs[column] = {key: value}
        for given in ({}, {KEY: "0"}):
            with pytest.raises(InvalidArgumentError, match=f"column '{column}' .* 't' has Lance base files") as refused:
                thresholds(specs, given, base)
            assert "set it to 0" in str(refused.value)
        assert thresholds(specs, {}, "parquet")[column] > 0


@pytest.mark.parametrize("key", [KEY, f"hoodie.storage.blob.{'inline.threshold'.upper()}"])
def test_no_column_of_a_lance_table_is_inline_by_a_setting_of_all(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="column 'img'"):
        thresholds({"img": {}}, {key: "9"})
    with pytest.raises(InvalidArgumentError, match=r"column 'doc.scan'"):
        thresholds({"img": {"inline.threshold": "0"}, "doc.scan": {}}, {key: "9"})


def test_without_a_threshold_blobs_of_a_lance_table_go_to_containers() -> None:
    for given, own in itertools.product(({}, {KEY: "0"}, {KEY: "0B"}), ({}, {"inline.threshold": "0"})):
        assert thresholds({"img": own, "doc.scan": {}}, given) == {"img": 0, "doc.scan": 0}
    assert thresholds({"img": {"inline.threshold": "0"}}, {KEY: "9"}) == {"img": 0}
    assert thresholds({"img": {}}, {}, "parquet") == {"img": BLOB_INLINE_THRESHOLD.default}
