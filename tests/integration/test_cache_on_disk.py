"""The cache on disk in searches by Spark: the driver and executors share it, and answers do not depend on it."""

from __future__ import annotations

import pytest
from support import tables
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors, options
from hudi_vector.read.cache import process_cache

QUERY = [1.0, 0.0, -0.5, 0.25]


@pytest.fixture(scope="module")
def path(spark, workspace):
    made = str(tables.fresh_path(workspace, "cached"))
    vector = "IF(id % 50 = 0, NULL, transform(sequence(1, 4), n -> CAST(sin(id * n) AS FLOAT))) emb"
    frame = spark.range(0, 4_000, 1, 2).selectExpr("CAST(id AS INT) id", "1L ts", vector)
    hv.write(frame, made, record_key="id", ordering="ts", vectors={"emb": 4}, options=QUICK)
    return made


def test_executors_keep_what_they_read_for_the_next_search(spark, path, tmp_path, clean_session):
    def search(execution):
        process_cache().clear()
        rows = hv.search(spark, path, "emb", QUERY, 9, columns=["id"], execution=execution).collect()
        return rows, hv.last_reports()[0].bytes_read

    spark.conf.set(options.CACHE_MAX_BYTES.key, "0")  # executors keep nothing in memory
    expected, read = search("distributed")
    spark.conf.set(options.CACHE_DIR.key, str(tmp_path))
    assert search("distributed") == (expected, read)
    assert search("distributed") == search("local") == (expected, 0)
    [own] = tmp_path.iterdir()
    for file in own.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert search("distributed") == (expected, read)


def test_a_folder_that_cannot_be_used_is_one_sentence(spark, path, clean_session):
    spark.conf.set(options.CACHE_DIR.key, "s3a://lake/cache")
    with pytest.raises(errors.InvalidOptionError, match="give the absolute path of a folder on a local disk"):
        hv.search(spark, path, "emb", QUERY, 9)
    spark.conf.set(options.CACHE_DIR.key, "/tmp")
    spark.conf.set(options.CACHE_DIR_MAX_BYTES.key, "0")
    with pytest.raises(errors.InvalidOptionError, match=r"hoodie\.vector\.cache\.dir\.max\.bytes = '0' is not allowed"):
        hv.search(spark, path, "emb", QUERY, 9)
