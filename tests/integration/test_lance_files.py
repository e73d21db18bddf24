"""Tables whose base files are Lance, written by Hudi in a Spark application of its own."""

from __future__ import annotations

from support import servers

PROGRAM = """
import numpy as np
from support import searched

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
print("PASSED")
"""


def test_lance_base_files_are_searched_directly_and_through_spark_under_log_files():
    result = servers.run_program(PROGRAM)
    assert "PASSED" in result.stdout, result.stdout[-2000:] + result.stderr[-4000:]
