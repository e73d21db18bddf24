"""Tables whose base files are Lance, written by Hudi in a Spark application of its own."""

from __future__ import annotations

from support import servers

PROGRAM = """
import time
from pathlib import Path
import numpy as np
from support import searched
from hudi_vector.blobs.names import ContainerName
from hudi_vector.table_services.mark import find_unneeded

root = os.getcwd()
spark = application(packages="org.lance:lance-spark-3.5_2.12:0.4.0")
query = np.array([3.2, 1.0, 0.5, 0.0])

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
    shown = hv.explain_search(spark, name, "emb", query)
    assert f"    {access}" in shown and reason in shown, shown

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
print("PASSED")
"""


def test_lance_base_files_are_searched_and_marked():
    result = servers.run_program(PROGRAM)
    assert "PASSED" in result.stdout, result.stdout[-2000:] + result.stderr[-4000:]
