"""Tables on an S3-compatible server, and tables whose base files are Lance, in one Spark application that has the jars."""

from __future__ import annotations

import pytest
from support import servers

SECRET = "secret-of-the-test-0123456789"
SERVER = """
import logging, io, sys
import boto3

text = io.StringIO()
logging.basicConfig(stream=text, level=logging.DEBUG)
for noisy in ("py4j", "botocore", "boto3", "urllib3", "s3transfer"):
    logging.getLogger(noisy).setLevel(logging.WARNING)

endpoint, secret = sys.argv[1:3]
s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="tester",
                  aws_secret_access_key=secret)
s3.create_bucket(Bucket="lake")
spark = application(
    packages="org.apache.hadoop:hadoop-aws:3.3.4,org.lance:lance-spark-3.5_2.12:0.4.0,io.delta:delta-spark_2.12:3.3.2",
    conf={
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": "tester",
        "spark.hadoop.fs.s3a.secret.key": secret,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    },
)
"""
S3 = """
import numpy as np
from support import searched, tables

path = "s3a://lake/tables/products"
spark.sql(f\"\"\"CREATE TABLE products (id BIGINT, price DOUBLE, ts BIGINT, emb VECTOR(4)) USING hudi LOCATION '{path}'
    TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', 'hoodie.metadata.enable' = 'false')\"\"\")
spark.sql(\"\"\"INSERT INTO products SELECT id, 10.0D * id AS price, 1L AS ts,
    cast(array(id, 1, 2, -id) AS array<float>) AS emb FROM range(20)\"\"\")
spark.sql("UPDATE products SET price = -1, ts = 2 WHERE id < 3")
spark.sql("DELETE FROM products WHERE id = 4")

query = np.array([3.2, 1.0, 0.5, 0.0])
shown = []
expected = searched.Expected(spark.read.format("hudi").load(path), "emb", "price < 100", 4)
for table in (path, "products"):
    for execution in ("local", "distributed"):
        got = searched.search(spark, table, "emb", query, 6, metric="l2", filter="price < 100", execution=execution)
        searched.assert_found(got, expected.nearest(query, 6, "l2", filtered=True))
    sql = f"SELECT * FROM hudi_vector_search('{table}', 'emb', ARRAY(3.2, 1.0, 0.5, 0.0), 6, 'l2')"
    searched.assert_found(spark.sql(sql).drop("_hudi_distance").collect(), expected.nearest(query, 6, "l2", filtered=False))
    strange = "sha1(cast(id AS STRING)) IS NOT NULL AND price < 100"  # only Spark knows this one
    searched.assert_found(
        searched.search(spark, table, "emb", query, 6, metric="l2", filter=strange),
        expected.nearest(query, 6, "l2", filtered=True),
    )
    assert hv.last_reports()[0].execution == "spark"
    shown.append(hv.explain(hv.search, spark, table, "emb", query))
    shown.append(spark.sql("EXPLAIN EXTENDED " + sql).collect()[0][0])
    assert "merged    1" in shown[0], shown[0]

from hudi_vector.spark.resolve import resolve_name
from hudi_vector.spark.snapshots import snapshot_for
from hudi_vector.table.native import NativeTable

source = resolve_name(spark, path).source
shown += [repr(source), str(source.options), repr(snapshot_for(spark, source, None)), text.getvalue()]
shown += [str(report) for report in hv.last_reports()]
assert hv.last_reports(), "there is no report to look for the secret in"
assert not [part for part in shown if secret in part], "the secret was shown"
first = NativeTable(source).timeline().commits[0].requested  # with Lance's jars Hudi 1.2 does not parse CALL
spark.sql("ALTER TABLE products ADD COLUMNS (note STRING)")
spark.sql("INSERT INTO products SELECT 77L, 7.0D, 3L, cast(array(7, 1, 2, -7) AS array<float>), 'late'")
then = hv.search(spark, path, "emb", query, 30, as_of=first)
assert ("note" in then.columns, then.count()) == (False, 20), then.columns

# Blobs of base files with compressed pages, of others whose bytes can be had directly, and of a file of its own.
photos, outside = "s3a://lake/tables/photos", bytes(range(200))
s3.put_object(Bucket="lake", Key="outside.bin", Body=outside)
for number, codec in enumerate(("snappy", "uncompressed")):
    rows = spark.range(20 * number, 20 * number + 20, 1, 1).selectExpr(
        "id", "1L AS ts", "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN blob_ref('s3a://lake/outside.bin', id, 7L) "
        "ELSE to_blob(CAST(concat('blob', id) AS BINARY)) END AS img")
    tables.write(rows, photos, datasource__write__operation="bulk_insert", parquet__compression__codec=codec,
                 parquet__dictionary__enabled="false", metadata__enable="false")
wanted = {i: (None, outside[i:i + 7], b"blob%d" % i, b"blob%d" % i)[i % 4] for i in range(40)}
references = hv.blob_references(spark, photos, "img").select("id", "img")
for row in references.collect():
    if row.id % 4 > 1:
        assert row.img.inline and row.img.path.startswith(("s3://lake/tables/photos/", "s3a://lake/tables/photos/")), row
        assert (row.img.offset is None) == (row.id < 20), row
        if row.id >= 20:
            end = row.img.offset + row.img.length
            part = s3.get_object(Bucket="lake", Key=row.img.path.partition("lake/")[2], Range=f"bytes={row.img.offset}-{end - 1}")
            assert part["Body"].read() == wanted[row.id], row
read = lambda frame, **more: {r.id: r.img and bytes(r.img) for r in hv.read_blobs(frame, "img", **more).collect()}
assert read(references.repartition(2, "id")) == wanted
kept = spark.createDataFrame(references.collect(), references.schema)
gone = next(row.img.path for row in kept.collect() if row.id == 2)
s3.delete_object(Bucket="lake", Key=gone.partition("lake/")[2])
try:
    read(kept)
    raise AssertionError("bytes of a file that is gone")
except Exception as problem:
    assert "is gone: Hudi's clean removed it" in str(problem).strip().splitlines()[-1], problem
assert read(kept, on_error="null") == {i: None if i < 20 and i % 4 > 1 else blob for i, blob in wanted.items()}

# A row that leads to a file of this machine, as any writer can bring one.
strange, own = "s3a://lake/tables/strange", os.path.abspath("own.txt")
with open(own, "w") as file:
    file.write("the reader's own")
rows = spark.range(2).selectExpr("id", "1L AS ts", f"CASE id WHEN 0 THEN blob_ref('{own}', 0L, 3L) "
    "ELSE blob_ref('s3a://lake/outside.bin', 1L, 7L) END AS img")
tables.write(rows, strange, datasource__write__operation="bulk_insert", metadata__enable="false")
load = lambda: spark.read.format("hudi").load(strange)
load().createOrReplaceTempView("strange_view")
spark.sql(f"CREATE TABLE strange USING hudi LOCATION '{strange}'")
asking = {
    "a path": lambda: spark.sql(f"SELECT id, read_blob(img) FROM parquet.`{strange}`"),
    "a name": lambda: spark.sql("SELECT s.id, read_blob(s.img) FROM strange s WHERE ts = 1"),
    "a view": lambda: spark.sql("SELECT id, read_blob(img) FROM (SELECT * FROM strange_view)"),
    "read_blobs": lambda: hv.read_blobs(load().select("id", "img"), "img"),
}
for said, frame in asking.items():
    try:
        shown = frame().collect()
        raise AssertionError((said, shown))
    except AssertionError:
        raise
    except Exception as problem:
        last = str(problem).strip().splitlines()[-1]
        assert "it names a file of this machine, and the table that refers to it is on an object store" in last, (said, last)
    spark.conf.set("hoodie.blob.read.allowed", f"{own}, s3://lake")
    found = {row[0]: bytes(row[1]) for row in frame().collect()}
    assert found == {0: b"the", 1: outside[1:8]}, (said, found)
    spark.conf.unset("hoodie.blob.read.allowed")
found = {row[0]: row[1] for row in spark.sql("SELECT id, try_read_blob(img) FROM strange").collect()}
assert (found[0], bytes(found[1])) == (None, outside[1:8]), found
assert {row.problem for row in hv.blobs.verify(spark, strange).collect()} == {"unreachable"}
print("S3 PASSED")
"""
CONTAINERS = """
# Containers on that server: repacked in two groups, and their rows in the order of their vectors.
albums = "s3a://lake/tables/albums"
for ts, count in ((1, 12), (2, 8)):
    rows = spark.range(0, count, 1, 1).selectExpr(
        "id", f"{ts}L AS ts", "cast(array(id % 3 * 10, id) AS array<float>) AS vec",
        f"CAST(repeat(concat(id, '-{ts} '), 300) AS BINARY) AS img", f"CAST(repeat(concat({ts}, id), 20) AS BINARY) AS doc")
    hv.write(rows, albums, record_key="id", ordering="ts", table_type="mor", vectors={"vec": 2}, options=QUICK,
             blobs={"img": {"inline.threshold": "0"}, "doc": {"inline.threshold": "0"}})
load = lambda: spark.read.format("hudi").load(albums).selectExpr("id", "ts", "vec", "read_blob(img)", "read_blob(doc)")
before = sorted(load().collect())
done = hv.table_services.compact_blobs(spark, albums, group_size=500, options=QUICK)
assert (done.containers_before, len(done.commits), done.is_well) == (2, 2, True), done
assert sorted(load().collect()) == before
done = hv.table_services.cluster(spark, albums, order_by="vec", assume_single_writer=True, options=QUICK)
assert (len(done.instants), len(done.groups), done.is_well) == (1, 1, True), done
assert sorted(load().collect()) == before
assert hv.blobs.verify(spark, albums, deep=True).collect() == []

# A person among these rows leaves every object of the table.
def holding(*needles):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="tables/albums/")
    keys = [each["Key"] for page in pages for each in page["Contents"]]
    bodies = ((key, s3.get_object(Bucket="lake", Key=key)["Body"].read()) for key in keys)
    return [key for key, body in bodies if any(needle in body for needle in needles)]

assert holding(b"3-1 3-1 ") and holding(b"3-2 3-2 ")
done = hv.table_services.erase(spark, albums, ["3"])
assert (done.erased, done.remains, done.doubts) == (True, [], ()), done
assert not [step.text for step in done.steps if step.text.endswith(" ")], done
assert holding(b"3-1 3-1 ", b"3-2 3-2 ") == []
assert sorted(load().collect()) == [row for row in before if row.id != 3]
print("CONTAINERS PASSED")
"""
LANCE = """
import time
from pathlib import Path
from hudi_vector.blobs.names import ContainerName
from hudi_vector.table_services.marking.mark import find_unneeded

root, query = os.getcwd(), np.array([3.2, 1.0, 0.5, 0.0])

def make(name, kind):
    spark.sql(f\"\"\"CREATE TABLE {name} (id BIGINT, price DOUBLE, ts BIGINT, emb VECTOR(4)) USING hudi
        LOCATION '{root}/{name}' TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts',
        'hoodie.metadata.enable' = 'false', 'hoodie.compact.inline' = 'false',
        'hoodie.table.base.file.format' = 'lance',
        'hoodie.write.record.merge.custom.implementation.classes' = 'org.apache.hudi.DefaultSparkRecordMerger')\"\"\")
    spark.sql(f\"\"\"INSERT INTO {name} SELECT id, 10.0D * id AS price, 1L AS ts,
        cast(array(id, 1, 2, -id) AS array<float>) AS emb FROM range(20)\"\"\")
    spark.sql(f"UPDATE {name} SET price = -1, ts = 2 WHERE id < 3")

def check(name, access, reason=""):
    expected = searched.Expected(spark.table(name), "emb", "price < 100", 4)
    for execution, metric, k, filtered in (("local", "l2", 6, True), ("distributed", "cosine", 100, False)):
        text = "price < 100" if filtered else None
        got = searched.search(spark, name, "emb", query, k, metric=metric, filter=text, execution=execution)
        searched.assert_found(got, expected.nearest(query, k, metric, filtered))
    shown = hv.explain(hv.search, spark, name, "emb", query)
    assert f"─ {access}" in shown and reason in shown, shown

make("cow", "cow")
check("cow", "lance")
make("mor", "mor")
check("mor", "spark", "log files on a Lance base file")

spark.sql(f\"\"\"CREATE TABLE blobs (id BIGINT, ts BIGINT, img BLOB) USING hudi LOCATION '{root}/blobs' TBLPROPERTIES
    (type = 'cow', primaryKey = 'id', preCombineField = 'ts', 'hoodie.metadata.enable' = 'false',
    'hoodie.table.base.file.format' = 'lance',
    'hoodie.write.record.merge.custom.implementation.classes' = 'org.apache.hudi.DefaultSparkRecordMerger')\"\"\")
names = [ContainerName("", "img", "20260101000000000_0123456789ab", 0, 0, n, "blob").uri(f"{root}/blobs") for n in range(3)]
struct = "named_struct('external_path', {}, 'offset', 1L, 'length', 5L, 'managed', true)"
spark.sql(f\"\"\"INSERT INTO blobs SELECT id, 1L AS ts, named_struct('type', 'OUT_OF_LINE', 'data', CAST(NULL AS BINARY),
    'reference', {struct.format(f"concat('{names[0][:-6]}', id, '.blob')")}) AS img FROM range(2)
    UNION ALL SELECT 7L, 1L, named_struct('type', 'INLINE', 'data', X'0102', 'reference', CAST(NULL AS
    STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)) UNION ALL SELECT 8L, 1L, NULL\"\"\")
for name in names:
    path = Path(name.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 100)
found = find_unneeded(f"{root}/blobs", grace_ms=0, now_ms=time.time_ns() // 1_000_000 + 10**9)
assert found.doubts == (), found.doubts
assert [Path(file.path).name for file in found.candidates] == [Path(names[2]).name], found
assert len(found.kept) == 2 and all("refers to it" in file.reason for file in found.kept), found
print("LANCE PASSED")
"""

READERS = """
# Right sides of joins as Spark's own readers of Delta and Lance give them, beside the comparison of all pairs.
import deltalake, lance
import pyarrow as pa

root = os.getcwd()
asking = spark.range(5).selectExpr("id AS n", "cast(array(7 * id + 0.3, 1, 2) AS array<float>) AS q").cache()
rows = spark.range(60).selectExpr("id", "CASE id % 3 WHEN 0 THEN 'a %41' WHEN 1 THEN NULL ELSE 'c' END AS part",
    "date_add(DATE'2026-01-01', cast(id % 2 AS INT)) AS day", "cast(array(id, 1, 2) AS array<float>) AS emb")

def check_join(right, route, reason=""):
    shown = hv.explain(hv.knn_join, asking, right, "q", "emb", 2, metric="l2")
    assert f"route       {route}: " in shown and reason in shown, shown
    answers = []
    for path in ("auto", "crossjoin"):
        spark.conf.set("hoodie.vector.join.path", path)
        found = hv.knn_join(asking, right, "q", "emb", 2, metric="l2").drop("q")
        answers.append(sorted(map(tuple, found.collect()), key=str))
    spark.conf.unset("hoodie.vector.join.path")
    assert len(answers[0]) == 10 and answers[0] == answers[1], answers
    return {row[1] for row in answers[0]}

delta = f"{root}/delta"
rows.coalesce(2).write.format("delta").partitionBy("part").save(delta)
read = lambda **how: spark.read.format("delta").options(**how).load(delta)
check_join(read(), "search")
check_join(read().where("part IS NULL OR day > DATE'2026-01-01' AND id > 5"), "search")
check_join(read().alias("x").where("part = 'a %41'").selectExpr("x.id AS k", "emb", "part"), "search")
deltalake.DeltaTable(delta).delete("id IN (0, 7)")
assert not {0, 7} & check_join(read(), "search")
assert {0, 7} < check_join(read(versionAsOf=0), "search")
check_join(spark.read.format("delta").load(f"{delta}/part=c"), "broadcast", "it reads a folder of a Delta table")

stored = f"{root}/images.lance"
kept = pa.array([float(x) for i in range(60) for x in (i, 1, 2)], pa.float32())
lance.write_dataset(pa.table({"id": list(range(60)), "emb": pa.FixedSizeListArray.from_arrays(kept, 3)}), stored)
lance.dataset(stored).delete("id IN (0, 7)")
read = lambda **how: spark.read.format("lance").options(**how).load(stored)
assert not {0, 7} & check_join(read(), "lance")
assert {0, 7} < check_join(read(version="1"), "lance")
check_join(read().where("id BETWEEN 3 AND 30 AND id % 2 = 0").selectExpr("id AS k", "emb"), "lance")
check_join(read().where("sha1(cast(id AS STRING)) > '8'"), "broadcast", "a filter of it cannot be pushed down exactly")
print("READERS PASSED")
"""


@pytest.fixture(scope="module")
def ran():
    with servers.object_store() as endpoint:
        yield servers.run_program(SERVER + S3 + LANCE + READERS, endpoint, SECRET)


def test_search_and_references_on_s3a_with_credentials_that_never_show(ran):
    assert "S3 PASSED" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]
    assert SECRET not in ran.stdout + ran.stderr


def test_lance_base_files_are_searched_and_marked(ran):
    assert "LANCE PASSED" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]


def test_sides_of_joins_that_other_readers_of_spark_give(ran):
    assert "READERS PASSED" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]


@pytest.mark.soak
def test_containers_on_s3a_are_repacked_and_ordered():
    with servers.object_store() as endpoint:
        ran = servers.run_program(SERVER + CONTAINERS, endpoint, SECRET)
    assert "CONTAINERS PASSED" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]
