"""Samples of tables that Hudi writes, against what Spark reads of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import tables

import hudi_vector as hv
from hudi_vector.blobs.samples.plan import make_plan

ROWS = 60
COLUMNS = """
    CAST(id AS INT) AS id, concat('p', id % 2) AS part, CAST(id AS DECIMAL(10, 2)) AS price, date'2020-02-29' AS day,
    timestamp'2021-03-04 05:06:07.123456' AS moment, IF(id % 4 = 0, NULL, concat('name ', id)) AS name,
    array(CAST(id AS FLOAT), 1F, -2F) AS emb, array(named_struct('a', id)) AS items, map('k', id) AS named,
    IF(id % 7 = 0, NULL, CAST(repeat(concat('{text}', id), IF(id % 2 = 0, 1, 100)) AS BINARY)) AS img
"""


def written(spark: Any, path: str, first: int, last: int, text: str, **options: str) -> None:
    df = spark.range(first, last, 1, 2).selectExpr(*_split(COLUMNS.format(text=text)))
    hv.write(
        df, path, record_key="id", partition_by="part", vectors={"emb": 3}, blobs={"img": {"inline.threshold": "50"}},
        **options,
    )  # fmt: skip


def _split(columns: str) -> list[str]:
    """The expressions, at commas of the first level."""
    found, depth = [""], 0
    for sign in columns:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_samples_are_the_rows_that_spark_reads(spark, workspace, kind):
    path = str(tables.fresh_path(workspace, "samples"))
    more = {"hoodie.compact.inline": "false"}
    written(spark, path, 0, ROWS, "old", table_type=kind, options=more)
    written(spark, path, ROWS - 20, ROWS, "new", table_type=kind, options=more)  # new rows would make a base file
    spark.read.format("hudi").load(path).createOrReplaceTempView("samples")
    frame = hv.read_blobs(spark.table("samples"), "img", table=path)
    expected = {row["id"]: row for row in frame.collect()}
    plan = make_plan(path)
    assert any(each.log_files for each in plan.snapshot.file_slices) == (kind == "mor")
    index = plan.index()
    found = index.read(range(len(index)))
    assert sorted(found["id"]) == sorted(expected)
    for position, number in enumerate(found["id"]):
        row, sample = expected[number], {name: values[position] for name, values in found.items()}
        assert sample["img"] == (None if row["img"] is None else bytes(row["img"]))
        assert isinstance(sample["emb"], np.ndarray)
        assert (sample["emb"].dtype, sample["emb"].tolist()) == (np.float32, list(row["emb"]))
        assert sample["items"] == [each.asDict() for each in row["items"]]
        assert dict(sample["named"]) == row["named"]
        assert [sample[name] for name in ("part", "price", "day", "name")] == [
            row[name] for name in ("part", "price", "day", "name")
        ]
        assert sample["moment"].replace(tzinfo=None) == row["moment"]
    filtered = make_plan(path, filter="part = 'p1' AND name IS NOT NULL", columns=["id"], blobs=[]).index()
    wanted = frame.where("part = 'p1' AND name IS NOT NULL").select("id").collect()
    assert sorted(filtered.read(range(len(filtered)))["id"]) == sorted(row["id"] for row in wanted)
