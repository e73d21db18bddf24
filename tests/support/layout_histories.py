"""The histories: what is written, and how each stage of it should be read. See `layouts`."""

from __future__ import annotations

from pyspark.sql.functions import expr
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    StringType,
    StructField,
)

import hudi_vector as hv
from support.killed import conf
from support.layouts import CATEGORY, EMB, ID, NAME, PRICE, TS, Table, history, stage

MOR = "MERGE_ON_READ"
BY_CATEGORY = {"datasource__write__partitionpath__field": "category"}


@history(
    stage("updated", "parquet", native=True),
    stage("clustered", "parquet"),
    stage("partition_overwritten", "parquet"),
    stage("partition_deleted", "parquet"),
    stage("rolled_back", "parquet"),
    stage("restored", "parquet"),
    stage("table_overwritten", "parquet"),
)
def cow(table: Table) -> None:
    table.configure(**BY_CATEGORY)
    table.write(table.rows(range(60)))
    table.write(table.rows(range(10, 30), seed=1, ts=20))
    table.write(table.rows(range(12, 15), seed=2, ts=5))  # older than what is stored: loses
    table.delete(range(5))
    table.stage("updated")
    table.call("run_clustering", op="scheduleAndExecute")
    table.stage("clustered")
    table.write(table.rows([100, 103, 106], seed=3), "insert_overwrite")
    table.stage("partition_overwritten")
    table.write(table.rows([1]), "delete_partition", datasource__write__partitions__to__delete="c2")
    table.stage("partition_deleted")
    saved = table.instants()[-1]
    table.call("create_savepoint", commit_time=saved)
    table.write(table.rows(range(40, 50), seed=4, ts=30))
    table.call("rollback_to_instant", instant_time=table.instants()[-1])
    table.stage("rolled_back")
    table.write(table.rows(range(45, 55), seed=5, ts=30))
    table.call("rollback_to_savepoint", instant_time=saved)
    table.stage("restored")
    table.write(table.rows(range(200, 205), seed=6), "insert_overwrite_table")
    table.stage("table_overwritten")


@history(
    stage("logs", "merged", "parquet", native=True),
    stage("pending_compaction", "merged", "parquet", native=True),
    stage("compacted", "parquet", "merged"),
    stage("clustered", "parquet", "merged"),
    stage("partition_overwritten", "parquet", "merged"),
    stage("rolled_back", "parquet", "merged"),
    stage("restored", "parquet", "merged"),
)
def mor(table: Table) -> None:
    table.configure(MOR, **BY_CATEGORY)
    table.write(table.rows(range(60)))
    table.write(table.rows(range(9, 30), seed=1, ts=20))
    table.write(table.rows(range(12, 15), seed=2, ts=5))  # older than what is stored: loses
    table.write(table.rows(range(13, 16), seed=3, ts=20))  # as old: the later one wins
    table.delete(range(6))
    table.write(table.rows(range(3, 90, 3), seed=4, ts=30, category=lambda _: "c0"))  # some of them new
    table.stage("logs")
    table.call("run_compaction", op="schedule")
    table.write(table.rows([20, 21, 50, 91], seed=5, ts=40))
    table.stage("pending_compaction")
    table.call("run_compaction", op="run")
    table.stage("compacted")
    table.write(table.rows(range(50, 60), seed=6, ts=50), "bulk_insert")
    table.call("run_clustering", op="scheduleAndExecute")
    table.write(table.rows([10, 13], seed=7, ts=60))
    table.stage("clustered")
    table.write(table.rows([101, 104, 107], seed=8), "insert_overwrite")
    table.stage("partition_overwritten")
    saved = table.instants()[-1]
    table.call("create_savepoint", commit_time=saved)
    table.write(table.rows([10, 101, 200], seed=9, ts=70))
    table.write(table.rows([10, 13, 101], seed=10, ts=80))
    table.call("rollback_to_instant", instant_time=table.instants()[-1])
    table.stage("rolled_back")
    table.call("rollback_to_savepoint", instant_time=saved)
    table.stage("restored")


@history(stage("inline_compacted", "parquet", native=True), stage("logs_again", "merged", native=True))
def metadata_on(table: Table) -> None:
    """With the metadata table, column statistics and Hudi's own defaults."""
    table.configure(MOR, metadata__enable="true", metadata__index__column__stats__enable="true")
    table.write(table.rows(range(40)))
    inline = {"compact__inline": "true", "compact__inline__max__delta__commits": "1"}
    table.write(table.rows(range(10), seed=1, ts=20), **inline)
    table.stage("inline_compacted")
    table.write(table.rows(range(5, 40), seed=2, ts=30))
    table.stage("logs_again")


@history(
    *[stage(name, "spark", reason="log files without a base file", native=True) for name in ("inserted", "changed")]
)
def log_only(table: Table) -> None:
    """An index that covers log files lets Hudi insert into them: file groups without a base file."""
    table.configure(MOR, index__type="INMEMORY", **BY_CATEGORY)
    table.write(table.rows(range(30)), "upsert")
    table.stage("inserted")
    table.write(table.rows(range(20, 40), seed=1, ts=20))
    table.write(table.rows(range(22, 25), seed=2, ts=5))
    table.delete(range(3))
    table.stage("changed")


@history(stage("merged", "merged", native=True))
def partial(table: Table) -> None:
    """MERGE INTO writes log blocks that hold the touched columns only."""
    table.configure(MOR)
    table.write(table.rows(range(20)))
    name = table.register()
    table.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('hoodie.compact.inline'='false')")

    def merge(rows: list[tuple], *fields: StructField) -> None:
        table.frame(rows, *fields).createOrReplaceTempView("source")
        touched = ", ".join(f"{field.name} = source.{field.name}" for field in fields if field.name != "id")
        merged = f"MERGE INTO {name} USING source ON {name}.id = source.id WHEN MATCHED THEN UPDATE SET {touched}"
        table.spark.sql(merged)

    merge([(0, 12, [5.0] * 4), (5, 12, [-1.0] * 4), (6, 12, None)], ID, TS, EMB)
    merge([(0, 13, "x"), (1, 5, "too old"), (7, 13, None)], ID, TS, NAME)
    merge([(0, 12, -1.0), (8, 10, -2.0), (5, 5, -7.0)], ID, TS, PRICE)
    table.write(table.rows([9, 10], seed=1, ts=20))
    merge([(9, 30, 77.0), (11, 30, 78.0)], ID, TS, PRICE)
    table.delete([11])
    table.stage("merged")
    table.write(table.rows([0, 7], seed=2, ts=3))  # late: Hudi fills the newer rows, which lack columns, from them
    table.stage("late")


@history()
def renamed(table: Table) -> None:
    """A column is renamed in the table's history of columns, and Hudi clusters one partition, which notes no history."""
    table.configure(**BY_CATEGORY)
    emb = StructField("emb", ArrayType(FloatType()))
    rows = [(i, f"c{i % 3}", 10, [1.0, float(i), 0.0, 2.0]) for i in range(9)]
    table.write(table.frame(rows, ID, CATEGORY, TS, emb))
    settings = {
        "hoodie.schema.on.read.enable": "true",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    }
    with conf(table.spark, settings):
        table.spark.sql(f"ALTER TABLE {table.register()} RENAME COLUMN emb TO vector")
        table.call("run_clustering", op="scheduleAndExecute", predicate="category = 'c1'")
    table.stage("clustered")


@history(stage("changed", "merged", native=True))
def commit_time_ordering(table: Table) -> None:
    """No ordering field: the last commit wins."""
    table.configure(MOR, ordering=None)
    table.write(table.rows(range(20)))
    table.write(table.rows(range(5), seed=1, ts=1))
    table.delete(range(2, 8))
    table.write(table.rows([3], seed=2, ts=0))
    table.stage("changed")


@history(stage("logs", "spark", "parquet", reason="a merge mode or payload of the user's own"))
def own_payload(table: Table) -> None:
    payload = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    table.configure(MOR, datasource__write__payload__class=payload, **BY_CATEGORY)
    table.write(table.rows(range(20)))
    table.write(table.rows([0, 3], seed=1, ts=20, name=lambda _: None, emb=lambda _: None))
    table.stage("logs")


@history(stage("logs", "spark", reason="a merge mode or payload of the user's own"))
def own_delete_marker(table: Table) -> None:
    """Rows whose column Op says D are deleted, by a property of the merge."""
    table.configure(MOR, datasource__write__payload__class="org.apache.hudi.common.model.AWSDmsAvroPayload")
    operation = StructField("Op", StringType())
    table.write(
        table.frame([(i, 1.0 * i, 1, [1.0, float(i), 0.0, 2.0], "I") for i in range(9)], ID, PRICE, TS, EMB, operation)
    )
    table.write(
        table.frame(
            [(i, 5.0, 2, [1.0, 0.0, float(i), 2.0], "DU"[i % 2]) for i in range(4)], ID, PRICE, TS, EMB, operation
        )
    )
    table.stage("logs")


@history(stage("logs", "merged"))
def delete_column(table: Table) -> None:
    """Rows with _hoodie_is_deleted are deleted."""
    table.configure(MOR)
    deleted = StructField("_hoodie_is_deleted", BooleanType())
    table.write(
        table.frame([(i, 1.0 * i, 1, [1.0, float(i), 0.0, 2.0], False) for i in range(9)], ID, PRICE, TS, EMB, deleted)
    )
    table.write(
        table.frame([(i, 5.0, 2, [1.0, 0.0, float(i), 2.0], i < 2) for i in range(4)], ID, PRICE, TS, EMB, deleted)
    )
    table.stage("logs")


@history(stage("logs", "spark", reason="several VECTOR columns of one type"))
def two_vectors(table: Table) -> None:
    table.configure(MOR)
    fields = (ID, PRICE, TS, EMB, hv.vector_field("emb2", 4))
    table.write(table.frame([(i, 1.0 * i, 1, [1.0, float(i), 0.0, 2.0], [1.0] * 4) for i in range(9)], *fields))
    table.write(table.frame([(i, 5.0, 2, [1.0, 0.0, float(i), 2.0], [2.0] * 4) for i in range(4)], *fields))
    table.stage("logs")


@history(stage("logs", "merged"))
def many_types(table: Table) -> None:
    """Columns of every kind, merged from log files."""
    table.configure(MOR)
    columns = (
        "SELECT id, 10.0D * id AS price, 1L AS ts, true AS flag, cast(id AS INT) AS whole,"
        " cast(id / 3 AS FLOAT) AS single, cast(id AS DECIMAL(10, 2)) AS dec,"
        " cast(-id AS DECIMAL(30, 5)) AS wide, cast(concat('b', id) AS BINARY) AS bytes, date'2020-02-29' AS day,"
        " timestamp'2021-03-04 05:06:07.123456' AS moment, timestamp_ntz'2021-03-04 05:06:07.123456' AS local,"
        " struct(id AS a, struct(concat('x', id) AS c, cast(id AS DECIMAL(10, 2)) AS d) AS b) AS nested,"
        " array(struct(id AS a), null) AS items, map('k', struct(id AS a)) AS named, array('p', null) AS words"
        " FROM range(12)"
    )
    emb = table.frame([(i, [float(i), 1.0, 2.0, -float(i)]) for i in range(12)], ID, EMB)
    rows = emb.join(table.sql(columns), "id").coalesce(1)
    table.write(rows, "bulk_insert")
    table.write(rows.filter("id < 4").withColumn("ts", expr("2L")).withColumn("price", expr("price + 1")))
    table.stage("logs")


@history(stage("logs", "merged", native=True))
def parquet_logs(table: Table) -> None:
    table.configure(MOR, logfile__data__block__format="parquet")
    table.write(table.rows(range(20)))
    table.write(table.rows(range(5, 10), seed=1, ts=20))
    table.delete([6])
    table.stage("logs")


@history(stage("logs", "spark", "parquet", reason="BLOB columns in log files"))
def blob_logs(table: Table) -> None:
    table.sql(
        "CREATE TABLE {table} (id BIGINT, price DOUBLE, emb VECTOR(4), img BLOB, ts BIGINT, category STRING) USING hudi"
        " PARTITIONED BY (category) LOCATION '{path}' TBLPROPERTIES (type = 'mor', primaryKey = 'id',"
        " preCombineField = 'ts', 'hoodie.metadata.enable' = 'false', 'hoodie.compact.inline' = 'false')"
    )
    blob = "named_struct('type', 'INLINE', 'data', cast('x' AS binary), 'reference', null)"
    emb = "cast(array(id, id + 1, 1, 0) AS array<float>)"
    table.sql(
        f"INSERT INTO {{table}} SELECT id, 100.0 * id AS price, {emb} AS emb, {blob} AS img, 1L AS ts,"
        " concat('c', id % 2) AS category FROM range(10)"
    )
    table.sql("UPDATE {table} SET price = 1, ts = 2 WHERE id IN (0, 2)")
    table.stage("logs")


def _partitioned(table: Table, **style: str) -> None:
    odd = ["a/b", "x y", "50%", "q=1&r", "ü", None, "a.b:c", "plain"]
    fields = {"datasource__write__partitionpath__field": "category,year"}
    table.configure(MOR, **fields, **style)
    rows = [(i, f"n{i}", 100.0 * i, 10, [float(i), 1.0, 0.0, -1.0], odd[i % len(odd)], 2000 + i % 2) for i in range(32)]
    schema = (ID, NAME, PRICE, TS, EMB, CATEGORY, StructField("year", IntegerType()))
    table.write(table.frame(rows, *schema), "bulk_insert")
    table.write(table.frame([(*row[:2], -1.0, 20, *row[4:]) for row in rows[7:9]], *schema))
    table.stage("two_columns")


_TWO_COLUMNS = {"condition": "category = 'x y' AND year = 2001 OR category IS NULL OR price < 0"}


@history(stage("two_columns", "parquet", "merged", **_TWO_COLUMNS))
def partitions_encoded(table: Table) -> None:
    _partitioned(table, datasource__write__partitionpath__urlencode="true")


@history(stage("two_columns", "parquet", "merged", **_TWO_COLUMNS))
def partitions_hive_encoded(table: Table) -> None:
    style = {"datasource__write__hive_style_partitioning": "true"}
    _partitioned(table, datasource__write__partitionpath__urlencode="true", **style)


@history(stage("one_column", "parquet", condition="category IN ('50%', 'x y') OR category IS NULL"))
def partitions_hive(table: Table) -> None:
    table.configure(datasource__write__hive_style_partitioning="true", **BY_CATEGORY)
    odd = ["x y", "50%", "ü", None, "a.b"]
    table.write(table.rows(range(20), category=lambda i: odd[i % 5]), "bulk_insert")
    table.stage("one_column")


@history(stage("logs", "merged", native=True))
def two_keys(table: Table) -> None:
    table.configure(MOR, key="name,id")
    table.write(table.rows(range(20)))
    table.write(table.rows(range(20), seed=0, ts=20, price=lambda i: -1.0 * i))
    table.stage("logs")


@history(stage("bulk_inserted", "parquet"))
def duplicates(table: Table) -> None:
    """The same key twice in a file, in two files, and in two partitions."""
    table.configure(ordering=None, **BY_CATEGORY)
    table.write(table.rows(range(10)).union(table.rows(range(5))), "bulk_insert")
    table.write(table.rows(range(3)), "bulk_insert")
    table.write(table.rows([1, 4], category=lambda _: "c0"), "bulk_insert")
    table.stage("bulk_inserted")


@history(stage("row_groups", "parquet", condition="price < 100 OR id = 499"))
def several_row_groups(table: Table) -> None:
    """NULL vectors first and last in the file and in between."""
    # parquet-mr looks at the block's size only every hundred rows.
    table.configure(parquet__block__size="4096", parquet__page__size="512")
    without = {0, 1, 250, 498, 499}
    rows = [(i, f"name {i}", 2.0 * i, 1, None if i in without else [i % 7 - 3.5, 1.0, i / 9, 2.0]) for i in range(500)]
    table.write(table.frame(rows, ID, NAME, PRICE, TS, EMB).coalesce(1), "bulk_insert")
    table.stage("row_groups")


@history(stage("logs", "merged", native=True))
def not_nullable(table: Table) -> None:
    table.configure(MOR)
    fields = (ID, hv.vector_field("emb", 4, nullable=False), PRICE, TS)
    table.write(table.frame([(i, [float(i), 1.0, 2.0, 3.0], 100.0 * i, 1) for i in range(12)], *fields))
    table.write(table.frame([(i, [0.0, float(i), 2.0, 3.0], 100.0 * i, 2) for i in range(3)], *fields))
    table.stage("logs")


def _elements(table: Table, element: str) -> None:
    table.configure(MOR)
    fields = (ID, hv.vector_field("emb", 4, element), PRICE, TS)
    value = int if element == "int8" else float
    table.write(table.frame([(i, [value(i), value(-i), value(7), value(1)], 50.0 * i, 1) for i in range(20)], *fields))
    table.stage("base")
    table.write(table.frame([(i, [value(1), value(i), value(0), value(-9)], 50.0, 2) for i in range(3)], *fields))
    table.stage("logs")


@history(stage("base", "parquet", native=True), stage("logs", "merged", native=True))
def double_vectors(table: Table) -> None:
    _elements(table, "double")


# Hudi's own function wants whole numbers as a query of these.
@history(stage("base", "parquet"), stage("logs", "merged"))
def int8_vectors(table: Table) -> None:
    _elements(table, "int8")


def _arrays(table: Table, element: FloatType | DoubleType | ByteType) -> None:
    """Plain arrays: rows of another length, empty ones and NULLs do not count."""
    table.configure(MOR)
    value = int if isinstance(element, ByteType) else float
    fields = (ID, StructField("emb", ArrayType(element)), PRICE, TS)
    odd = {3: None, 7: [], 8: [value(1)] * 3, 9: [value(1)] * 5, 10: [value(1), None, value(2), value(3)]}
    rows = [(i, odd.get(i, [value(i), value(1), value(-i), value(2)]), 60.0 * i, 1) for i in range(16)]
    table.write(table.frame(rows, *fields), "bulk_insert")  # upsert refuses NULL elements
    table.stage("base")
    table.write(table.frame([(0, None, 0.0, 2), (8, [value(8)] * 4, 1.0, 2), (1, [value(2)], 1.0, 2)], *fields))
    table.stage("logs")


@history(stage("base", "parquet"), stage("logs", "merged"))
def float_arrays(table: Table) -> None:
    _arrays(table, FloatType())


@history(stage("base", "parquet"), stage("logs", "merged"))
def double_arrays(table: Table) -> None:
    _arrays(table, DoubleType())


@history(
    stage("column_added", "parquet", condition="note IS NULL AND price < 900"),
    stage("vector_added", "parquet", column="emb2"),
)
def evolved_cow(table: Table) -> None:
    table.configure(**BY_CATEGORY, parquet__small__file__limit="0")
    table.write(table.rows(range(12)))
    note = StructField("note", StringType())
    fields = (ID, NAME, PRICE, CATEGORY, TS, EMB, note)
    table.write(table.frame([(i, "n", 1.0 * i, "c0", 20, [float(i)] * 4, f"note {i}") for i in (0, 30)], *fields))
    table.stage("column_added")
    fields += (hv.vector_field("emb2", 4),)
    rows = [(i, "n", 1.0 * i, "c1", 20, [float(i)] * 4, None, [1.0, 2.0, 3.0, float(i)]) for i in (1, 4, 40, 41)]
    table.write(table.frame(rows, *fields))
    table.stage("vector_added")


@history(
    stage("column_added", "spark", "parquet", reason="of an older schema", condition="note IS NULL AND price < 900"),
    stage("vector_added", "spark", "parquet", reason="of an older schema", column="emb2"),
)
def evolved_mor(table: Table) -> None:
    table.configure(MOR, **BY_CATEGORY)
    table.write(table.rows(range(12)))
    table.write(table.rows([0, 1], seed=1, ts=15))
    note = StructField("note", StringType())
    fields = (ID, NAME, PRICE, CATEGORY, TS, EMB, note)
    table.write(table.frame([(i, "n", 1.0 * i, "c0", 20, [float(i)] * 4, f"note {i}") for i in (0, 3)], *fields))
    table.stage("column_added")
    fields += (hv.vector_field("emb2", 4),)
    rows = [(i, "n", 1.0 * i, "c1", 20, [float(i)] * 4, None, [1.0, 2.0, 3.0, float(i)]) for i in (1, 4)]
    table.write(table.frame(rows, *fields))
    table.stage("vector_added")


@history(stage("created"), stage("all_deleted", "merged"))
def empty(table: Table) -> None:
    table.sql(
        "CREATE TABLE {table} (id BIGINT, name STRING, price DOUBLE, category STRING, ts BIGINT, emb VECTOR(4)) USING"
        " hudi LOCATION '{path}' TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts')"
    )
    table.stage("created")
    table.configure(MOR)
    table.write(table.rows(range(6)))
    table.delete(range(6))
    table.stage("all_deleted")


@history(stage("all_deleted", "parquet"))
def emptied_cow(table: Table) -> None:
    table.configure()
    table.write(table.rows(range(6)))
    table.delete(range(6))
    table.stage("all_deleted")


@history(
    stage("base", "parquet", keyed=False), stage("logs", "spark", "parquet", reason="without meta fields", keyed=False)
)
def no_meta_fields(table: Table) -> None:
    table.configure(MOR, populate__meta__fields="false", index__type="SIMPLE")
    table.write(table.rows(range(30)), "bulk_insert")
    table.stage("base")
    table.write(table.rows(range(5), seed=1, ts=20))
    table.stage("logs")


_RETENTION = {
    "clean__automatic": "true",
    "archive__automatic": "true",
    "clean__commits__retained": "2",
    "keep__min__commits": "3",
    "keep__max__commits": "4",
    "commits__archival__batch": "1",
}


@history(stage("late", "parquet"))
def archived_cow(table: Table) -> None:
    table.configure(**_RETENTION, **BY_CATEGORY)
    for number in range(6):
        table.write(table.rows(range(number, 12 + number), seed=number, ts=10 + number))
    table.stage("late")


@history(stage("late", "merged", "parquet"))
def archived_mor(table: Table) -> None:
    table.configure(MOR, **_RETENTION, **BY_CATEGORY)
    inline = {"compact__inline": "true", "compact__inline__max__delta__commits": "3"}
    for number in range(6):
        table.write(table.rows(range(number, 12 + number), seed=number, ts=10 + number), **inline)
    table.stage("late")
