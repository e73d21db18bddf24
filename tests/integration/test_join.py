"""KNN joins equal the comparison of all pairs, whichever route they take."""

from __future__ import annotations

from datetime import date
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import ArrayType, DoubleType, FloatType, LongType, StringType, StructField, StructType
from support import join_oracle, tables

import hudi_vector as hv
from hudi_vector import errors, options
from hudi_vector.spark.join import prepare

DIMENSION = 4
LEFT = "id LONG, name STRING, budget DOUBLE, grp STRING, v ARRAY<FLOAT>"
RIGHT = StructType(
    [
        StructField("id", LongType()),
        StructField("price", DoubleType()),
        StructField("category", StringType()),
        hv.vector_field("emb", DIMENSION),
    ]
)
NAMES = ("id", "price", "category", "emb")


def rows_of(count, seed, first=0):
    """Rows with few different vectors, so that distances tie; some without a vector, some without a number."""
    numbers = np.random.default_rng(seed)
    found = []
    for i in range(first, first + count):
        vector = None if i % 11 == 3 else [float(x) for x in numbers.integers(-2, 3, DIMENSION)]
        number = None if i % 7 == 2 else float(numbers.integers(0, 100))
        found.append((i, number, f"c{i % 3}", vector))
    return found


RIGHT_ROWS = rows_of(90, 1)
LEFT_ROWS = {
    size: [(i, f"n{i}", number, group, v) for i, number, group, v in rows]
    for size, rows in {"few": rows_of(9, 2, 1000), "many": rows_of(80, 3, 2000)}.items()
}


@pytest.fixture(scope="module")
def rights(spark, workspace):
    """The same rows as a Hudi table with log files, as Parquet files, as a Lance dataset, and as a computed plan."""
    import lance

    frame = spark.createDataFrame(RIGHT_ROWS, RIGHT)
    path = tables.fresh_path(workspace, "joined")
    # Nullable, as in the log files: a NULL that the base file rules out can only be merged by Spark.
    first = frame.withColumn("price", F.when(F.col("id") >= 0, F.lit(-1.0)))
    tables.write(first, path, datasource__write__table__type="MERGE_ON_READ")
    tables.write(frame.where("id % 2 = 0"), path)
    spark.sql(f"CREATE TABLE joined_hudi USING hudi LOCATION '{path}'")
    folder = tables.fresh_path(workspace, "files")
    frame.orderBy("id").coalesce(1).write.option("maxRecordsPerFile", 20).parquet(str(folder))
    stored = pa.table(dict(zip(NAMES, zip(*RIGHT_ROWS, strict=True), strict=True)))
    vectors = stored.column("emb").cast(pa.list_(pa.float32(), DIMENSION))
    stored = stored.set_column(3, "emb", vectors)
    dataset = lance.write_dataset(stored, str(workspace / "joined.lance"), max_rows_per_file=25)
    assert len(dataset.get_fragments()) == 4
    dataset.delete("id = 17")
    dataset.insert(stored.filter(pa.compute.equal(stored.column("id"), 17)))
    return {
        "hudi": spark.table("joined_hudi"),
        "files": spark.read.parquet(str(folder)),
        "lance": str(workspace / "joined.lance"),
        "plan": frame.unionByName(frame.where("id < 0")),
        "folder": folder,
    }


@pytest.fixture(scope="module")
def lefts(spark):
    return {size: spark.createDataFrame(rows, LEFT).cache() for size, rows in LEFT_ROWS.items()}


@pytest.fixture(scope="module")
def few(lefts):
    return lefts["few"]


def is_anew(number):
    """Whether the Hudi table got the row twice."""
    return number % 2 == 0


def by_key(row):
    return str(row["id"]).encode()


def by_columns(row):
    """As the chosen right columns in order: the vector, the price, the id."""
    return (row["emb"], row["price"], row["id"])


def in_lance(row):
    """The row that was inserted again stands last."""
    return (row["id"] == 17, row["id"])


TIES = {"hudi": by_key, "files": lambda row: row["id"], "lance": in_lance, "plan": lambda row: row["id"]}


def check(found, size, k, metric, tie, right=RIGHT_ROWS, left=None, **how):
    mine = [dict(zip(LEFT.replace(",", "").split()[::2], row, strict=True)) for row in left or LEFT_ROWS[size]]
    theirs = [dict(zip(NAMES, row, strict=True)) for row in right]
    if tie is by_key:  # the rows that were written twice have their prices, the others the first ones
        theirs = [row if is_anew(row["id"]) else {**row, "price": -1.0} for row in theirs]
    expected = join_oracle.joined(mine, theirs, k, metric, tie=tie, **how)
    rank = F.expr("IF(_rank IS NULL, NULL, struct(_group_rank, _rank))") if "groups" in how else "_rank"
    got = [tuple(row) for row in found.select("id", "right_id", rank, "_distance").collect()]
    join_oracle.compare(got, expected, "id")
    return got


def cheaper(mine, other):
    return None if mine["budget"] is None or other["price"] is None else other["price"] < mine["budget"]


@pytest.mark.parametrize("kind", ["hudi", "files", "lance", "plan"])
def test_a_join_is_what_comparing_all_pairs_gives(lefts, rights, kind):
    few, many, right = lefts["few"], lefts["many"], rights[kind]
    found = hv.knn_join(few, right, "v", "emb", 3, join_type="left_outer")
    check(found, "few", 3, "cosine", TIES[kind], outer=True)
    check(hv.knn_join(many, right, "v", "emb", 3, metric="l2"), "many", 3, "l2", TIES[kind])
    found = hv.knn_join(few, right, "v", "emb", None, metric="dot_product", max_distance=-3.0)
    assert len(check(found, "few", None, "dot_product", TIES[kind], max_distance=-3.0)) > 20


@pytest.mark.parametrize("kind", ["hudi", "files", "plan"])
def test_filters_names_and_a_condition_over_both_sides(lefts, rights, kind):
    asking = lefts["many"].where("name <> 'n2004'")
    named = (
        rights[kind].where("category <> 'c1' AND price IS NOT NULL").select("emb", F.col("price").alias("cost"), "id")
    )
    found = hv.knn_join(asking, named, "v", "emb", 4, metric="l2", condition="cost < l.budget", join_type="left_outer")
    # The record key is known to the table, whatever columns were chosen.
    tie = by_columns if kind == "plan" else TIES[kind]
    kept = [
        row for row in RIGHT_ROWS if row[2] != "c1" and (row[1] is not None or (kind == "hudi" and not is_anew(row[0])))
    ]
    left = [row for row in LEFT_ROWS["many"] if row[0] != 2004]
    check(found, "many", 4, "l2", tie, kept, left, outer=True, holds=cheaper)


GROUPED = [
    ("hudi", "search"),
    ("files", "search"),
    ("files", "external"),
    ("lance", "lance"),
    ("plan", "broadcast"),
    ("plan", "temp"),
    ("plan", "crossjoin"),
]


@pytest.mark.parametrize(("kind", "route"), GROUPED)
def test_the_best_rows_of_each_group(spark, lefts, rights, workspace, clean_session, kind, route):
    for option in (options.JOIN_TEMP_DIR, options.INDEX_EXTERNAL_DIR):
        spark.conf.set(option.key, str(workspace / "grouped"))
    spark.conf.set(options.JOIN_PATH.key, route)
    few, many, tie = lefts["few"], lefts["many"], TIES[kind]
    dropped = {"metric": "l2", "group_by": "PRICE", "group_nulls": "drop", "join_type": "left_outer"}
    found = hv.knn_join(few, rights[kind], "v", "emb", 4, **dropped)
    assert found.columns[-3:] == ["_rank", "_group_rank", "_distance"]
    priced = [row for row in RIGHT_ROWS if row[1] is not None or (kind == "hudi" and not is_anew(row[0]))]
    check(found, "few", 4, "l2", tie, priced, outer=True, groups=(["price"], 1))
    both = {"metric": "l2", "group_by": ["category", "price"], "per_group": 2}
    found = hv.knn_join(many, rights[kind], "v", "emb", 3, condition="price < l.budget OR price IS NULL", **both)
    holds = lambda a, b: b["price"] is None or cheaper(a, b)  # noqa: E731
    check(found, "many", 3, "l2", tie, holds=holds, groups=(["category", "price"], 2))
    text = hv.explain(hv.knn_join, few, rights[kind], "v", "emb", 4, **dropped)
    assert f"route       {route}" in text
    assert "groups      by price, the best row of each, without NULL" in text


def test_sparks_comparison_of_all_pairs(few, rights):
    # What has no place in the pure form goes to Spark whole.
    text = "concat(category, '') = l.grp AND price < l.budget"
    assert "route       crossjoin" in hv.explain(hv.knn_join, few, rights["plan"], "v", "emb", 3, condition=text)
    found = hv.knn_join(few, rights["plan"], "v", "emb", 3, condition=text, join_type="left_outer", exclude_self="id")
    same = lambda a, b: a["grp"] == b["category"] and cheaper(a, b)  # noqa: E731
    check(found, "few", 3, "cosine", TIES["plan"], holds=same, outer=True)


def test_a_computed_side_is_written_once(spark, few, rights, workspace, clean_session):
    folder = workspace / "temporary"
    spark.conf.set(options.JOIN_TEMP_DIR.key, str(folder))
    spark.conf.set(options.JOIN_BROADCAST_MAX_BYTES.key, "10")
    text = hv.explain(hv.knn_join, few, rights["plan"], "v", "emb", 3)
    assert "route       temp: the right side is computed (a Union is between" in text
    assert "not broadcast: its size is not known to fit, and no more than 10 bytes are held in memory" in text
    with hv.knn_join(few, rights["plan"], "v", "emb", 3, condition="price < l.budget") as found:
        check(found, "few", 3, "cosine", TIES["plan"], holds=cheaper)
        assert list(folder.rglob("*.parquet"))
    assert not list(folder.rglob("*.parquet"))
    found.release()


def test_files_with_an_index_beside_them(spark, lefts, rights, workspace, clean_session):
    beside = workspace / "joined_indexes"
    spark.conf.set(options.INDEX_EXTERNAL_DIR.key, str(beside))
    files = rights["files"]
    few = lefts["few"]
    text = hv.explain(hv.knn_join, few, files, "v", "emb", 3, mode="approximate")
    assert "route       search" in text
    assert "bytes are read faster than an index of them" in text
    assert not beside.exists()
    assert "not external: every vector is read once" in hv.explain(hv.knn_join, few, files, "v", "emb", 3)
    spark.conf.set(options.JOIN_PATH.key, "external")
    for size in ("few", "many"):
        check(hv.knn_join(lefts[size], files, "v", "emb", 3, metric="l2"), size, 3, "l2", TIES["files"])
    assert "index       ivf_sq8 for l2, until the answer is exact" in hv.explain(
        hv.knn_join, few, files, "v", "emb", 3, metric="l2"
    )
    # Every list looked at, every candidate scored: nothing is missed.
    found = hv.knn_join(few, files, "v", "emb", 3, metric="l2", mode="approximate", nprobes=1000, refine_factor=100)
    check(found, "few", 3, "l2", TIES["files"])
    spark.conf.set(options.INDEX_EXTERNAL_ENABLED.key, "false")
    with pytest.raises(errors.InvalidArgumentError, match=r"'external' was asked for, and .*enabled = false"):
        hv.knn_join(few, files, "v", "emb", 3)


def test_rows_of_files_that_the_caller_says_are_deleted(spark, lefts, rights, workspace, clean_session):
    first, *_, last = sorted(rights["files"].inputFiles())
    ids = {file: pq.read_table(file.removeprefix("file://")).column("id").to_pylist() for file in (first, last)}
    mask = [row % 3 == 0 for row in range(len(ids[first]))]
    rows = list(range(0, len(ids[last]), 2))
    gone = {row for row, is_gone in zip(ids[first], mask, strict=True) if is_gone} | {ids[last][row] for row in rows}
    kept, deleted = [row for row in RIGHT_ROWS if row[0] not in gone], {first: mask, last: rows}
    spark.conf.set(options.INDEX_EXTERNAL_DIR.key, str(workspace / "deleted_indexes"))
    for route, size in (("search", "many"), ("external", "many"), ("external", "few")):
        spark.conf.set(options.JOIN_PATH.key, route)
        found = hv.knn_join(lefts[size], rights["files"], "v", "emb", 4, metric="l2", deleted=deleted)
        check(found, size, 4, "l2", TIES["files"], kept)
        assert f"route       {route}" in hv.explain(
            hv.knn_join, lefts[size], rights["files"], "v", "emb", 4, metric="l2", deleted=deleted
        )
    spark.conf.set(options.JOIN_PATH.key, "broadcast")
    with pytest.raises(errors.InvalidArgumentError, match="by their places in files, which the route 'broadcast'"):
        hv.knn_join(lefts["few"], rights["files"], "v", "emb", 4, deleted=[(last, 0)])
    spark.conf.set(options.JOIN_PATH.key, "auto")
    for right, why in (
        ("plan", "is not searched as files: a Union is between"),
        ("hudi", "is not searched as files; filter"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=why):
            hv.knn_join(lefts["few"], rights[right], "v", "emb", 4, deleted=[(last, 0)])
    with pytest.raises(errors.InvalidArgumentError, match="which is no file of"):
        hv.knn_join(lefts["few"], rights["files"], "v", "emb", 4, deleted=[("/nowhere.parquet", 3)])


def test_a_delta_table_by_its_path(few, workspace):
    from deltalake import write_deltalake

    path = str(workspace / "delta")
    kept = [row for row in RIGHT_ROWS if row[3] is not None]
    stored = pa.table(dict(zip(NAMES, zip(*kept, strict=True), strict=True)))
    write_deltalake(path, stored.set_column(3, "emb", stored.column("emb").cast(pa.list_(pa.float32()))))
    found = hv.knn_join(few, path, "v", "emb", 3, metric="l2", condition="category = l.grp")
    same = lambda a, b: a["grp"] == b["category"]  # noqa: E731
    check(found, "few", 3, "l2", TIES["files"], kept, holds=same)


def test_files_with_vectors_as_bytes(spark, lefts, workspace):
    folder = workspace / "vectors as bytes"
    folder.mkdir()
    for part in range(2):
        rows = RIGHT_ROWS[45 * part : 45 * part + 45]
        vectors = [None if row[3] is None else np.array(row[3], "<f4").tobytes() for row in rows]
        columns = {name: [row[at] for row in rows] for at, name in enumerate(NAMES[:3])}
        pq.write_table(
            pa.table({**columns, "emb": pa.array(vectors, pa.binary(4 * DIMENSION))}), folder / f"{part}.parquet"
        )
    right = spark.read.parquet(str(folder))
    assert dict(right.dtypes)["emb"] == "binary"
    assert "route       search: the right side is a scan" in hv.explain(hv.knn_join, lefts["few"], right, "v", "emb", 3)
    for size in ("few", "many"):
        found = hv.knn_join(lefts[size], right, "v", "emb", 3, metric="l2", condition="price < l.budget")
        check(found, size, 3, "l2", TIES["files"], holds=cheaper)
    row = found.first()
    assert row["emb"] == RIGHT_ROWS[row["right_id"]][3]
    chosen = right.where("category = 'c1'").select("emb", "id", "price")
    kept = [row for row in RIGHT_ROWS if row[2] == "c1"]
    check(hv.knn_join(lefts["few"], chosen, "v", "emb", 2), "few", 2, "cosine", TIES["files"], kept)
    text = "concat(category, '') = 'c1'"  # Spark alone evaluates it: the arrays are made for it
    check(hv.knn_join(lefts["few"], right, "v", "emb", 2, condition=text), "few", 2, "cosine", by_columns, kept)
    with pytest.raises(errors.InvalidTypeError, match="column 'emb' of 'the right side' is BINARY"):
        hv.knn_join(lefts["few"], right.groupBy("emb").count(), "v", "emb", 2)


def test_files_in_folders_of_partitions(spark, lefts, workspace, clean_session):
    folder = str(workspace / "folders of files")
    named = "concat(category, ' %41/') AS part"
    days = "CASE WHEN id % 4 = 0 THEN NULL ELSE date_add(DATE'2026-01-01', CAST(id % 4 AS INT)) END AS day"
    rows = spark.createDataFrame(RIGHT_ROWS, RIGHT).selectExpr("*", named, days, "id % 2 AS odd")
    rows.coalesce(1).write.partitionBy("part", "day", "odd").parquet(folder)
    right = spark.read.parquet(folder)
    places = {}
    for file in sorted(map(unquote, right.inputFiles())):
        for number in pq.read_table(file.removeprefix("file://"), partitioning=None).column("id").to_pylist():
            places[number] = len(places)
    assert len(places) == len(RIGHT_ROWS)

    def check_join(side, size, kept=RIGHT_ROWS, condition=None, **how):
        found = hv.knn_join(lefts[size], side, "v", "emb", 3, metric="l2", condition=condition)
        for number, *told in found.select("right_id", "part", "day", "odd").collect():
            day = None if number % 4 == 0 else date(2026, 1, 1 + number % 4)
            assert told == [f"{RIGHT_ROWS[number][2]} %41/", day, number % 2]
        check(found, size, 3, "l2", lambda row: places[row["id"]], kept, **how)

    chosen = right.where("part = 'c1 %41/' AND (day IS NULL OR day > DATE'2026-01-02')")
    for size in ("few", "many"):
        check_join(right, size)
        check_join(chosen, size, [row for row in RIGHT_ROWS if row[2] == "c1" and row[0] % 4 != 1])
    text = hv.explain(hv.knn_join, lefts["few"], right.where("odd = 1 AND day IS NULL"), "v", "emb", 3)
    assert "route       search: the right side is a scan of Parquet files" in text
    assert "slices      0" in text
    late = lambda a, b: a["budget"] is not None and (b["id"] % 2) * 60 > a["budget"]  # noqa: E731
    check_join(right, "many", condition="odd * 60 > l.budget", holds=late)
    spark.conf.set(options.INDEX_EXTERNAL_DIR.key, str(workspace / "indexes of folders"))
    spark.conf.set(options.JOIN_PATH.key, "external")
    check_join(right.where("odd = 1"), "many", [row for row in RIGHT_ROWS if row[0] % 2])


@pytest.mark.parametrize(("kind", "groups"), [("hudi", None), ("hudi", (["category"], 2)), ("files", None)])
def test_a_table_joined_with_itself(spark, rights, kind, groups):
    theirs = [dict(zip(NAMES, row, strict=True)) for row in RIGHT_ROWS]
    other = lambda a, b: a["id"] != b["id"] and (kind == "hudi" or a["category"] == b["category"])  # noqa: E731
    how = {"left_vector": "emb", "tie": TIES[kind], "holds": other, "groups": groups}
    expected = join_oracle.joined(theirs, theirs, 2, "l2", **how)
    rank = "_rank"
    if kind == "hudi":
        sql = "hudi_knn_join('joined_hudi', TABLE(joined_hudi), 'emb', right_vector => 'emb', k => 2, metric => 'l2'"
        if groups is not None:
            sql, rank = f"{sql}, group_by => array('category'), per_group => 2", F.struct("_group_rank", "_rank")
        found = spark.sql(f"SELECT * FROM {sql}, exclude_self => true)")
    else:
        condition = "r.category = l.category"
        files = rights["files"]
        found = hv.knn_join(files, files, "emb", "emb", 2, metric="l2", exclude_self=["id"], condition=condition)
    got = [tuple(row) for row in found.select("id", "right_id", rank, "_distance").collect()]
    join_oracle.compare(got, expected, "id")


def test_edges(spark, lefts, rights):
    few, right = lefts["few"], rights["files"]
    # k larger than the right side; one left row; none; no right rows; the same whatever the partitions.
    check(hv.knn_join(few, right, "v", "emb", 500), "few", 500, "cosine", TIES["files"])
    one = few.where("id = 1000")
    check(hv.knn_join(one, right, "v", "emb", 3), "few", 3, "cosine", TIES["files"], left=LEFT_ROWS["few"][:1])
    assert hv.knn_join(few.where("id < 0"), right, "v", "emb", 3, join_type="left_outer").count() == 0
    for kind in ("files", "hudi", "plan"):
        nobody = rights[kind].where("id < 0")
        alone = hv.knn_join(lefts["many"], nobody, "v", "emb", 3, join_type="left_outer").select("id", "_rank")
        assert sorted(map(tuple, alone.collect())) == [(i, None) for i in range(2000, 2080)]
    spread = [hv.knn_join(lefts["many"].repartition(n), right, "v", "emb", 3).drop("v", "emb") for n in (1, 5)]
    assert sorted(map(tuple, spread[0].collect())) == sorted(map(tuple, spread[1].collect()))
    assert hv.knn_join(few, right, "v", "emb", 3).count() == 3 * sum(row[-1] is not None for row in LEFT_ROWS["few"])


def test_right_columns_that_hold_nothing(few, rights):
    """Spark says of `array()` that its elements, whose type it does not know, are never null."""
    empty = rights["plan"].selectExpr("id AS n", "emb", "array() AS tags")
    found = hv.knn_join(few, empty, "v", "emb", 1).select("tags").collect()
    assert [row["tags"] for row in found] == [[]] * len(found) != []
    with pytest.raises(errors.UnsupportedTableError, match="columns of the type map<void,void> cannot be read"):
        hv.knn_join(few, empty.selectExpr("n", "emb", "map() AS tags"), "v", "emb", 1).collect()


def test_columns(few, rights):
    found = hv.knn_join(few, rights["files"], "v", "emb", 1, rank_column="n", distance_column="far")
    assert found.columns == [
        "id", "name", "budget", "grp", "v", "right_id", "price", "category", "emb", "n", "far",
    ]  # fmt: skip
    row = found.where("id = 1000").select("emb", "v", "n", "far").collect()[0]
    assert len(row["emb"]) == DIMENSION
    assert row["n"] == 1


@pytest.mark.soak
def test_a_thousand_files_and_many_left_rows(spark, few, workspace):
    folder = workspace / "thousand"
    folder.mkdir()
    rows = [row for row in rows_of(1100, 5) if row[3] is not None]
    for start, row in enumerate(rows):
        table = pa.table({"id": [row[0]], "emb": pa.array([row[3]], pa.list_(pa.float32()))})
        pq.write_table(table, folder / f"{start:04d}.parquet")
    right = spark.read.parquet(str(folder))
    check(hv.knn_join(few, right, "v", "emb", 5, metric="l2"), "few", 5, "l2", TIES["files"], rows)
    # 200,000 left rows with the vectors of few: each gets what the first of its vector gets.
    many = spark.range(200_000).selectExpr("id AS n", "1000 + id % 9 AS id").join(few, "id")
    found = hv.knn_join(many, right, "v", "emb", 2, metric="l2")
    kinds = found.groupBy("id", "right_id", "_rank").count().collect()
    asking = [row for row in LEFT_ROWS["few"] if row[-1] is not None]
    assert len(kinds) == 2 * len(asking)
    assert sum(row["count"] for row in kinds) == 2 * sum(len(range(row[0] - 1000, 200_000, 9)) for row in asking)


def test_the_rule_is_printed(few, lefts, rights):
    text = hv.explain(hv.knn_join, few, "joined_hudi", "v", "emb", 3, condition="price < 50 AND price < l.budget")
    assert "─ route       search: the right side is a Hudi table: its slices are searched" in text
    assert "on the right side, before distances: price < 50" in text
    assert "on both sides: price < l.budget; where few left values differ" in text
    assert "left        few rows: the driver asks" in text
    assert "filter      price < 50" in text
    text = hv.explain(hv.knn_join, lefts["many"], rights["files"].where("price > 3"), "v", "emb", 3)
    assert "the right side is a scan of Parquet files" in text
    assert "left        one stage without a shuffle behind it, over" in text
    assert "filter      price > 3.0" in text
    assert "route       lance: the right side is a Lance dataset" in hv.explain(
        hv.knn_join, few, rights["lance"], "v", "emb", 3
    )
    text = hv.explain(hv.knn_join, few, rights["hudi"].where("soundex(category) = 'C000'"), "v", "emb", 3)
    assert "route       broadcast: the right side is computed (a filter of it cannot be pushed down exactly" in text
    text = hv.explain(hv.knn_join, few, rights["files"].groupBy("id").agg(F.first("emb").alias("emb")), "v", "emb", 3)
    assert "route       broadcast: the right side is computed (a Aggregate is between" in text


def test_a_right_filter_that_only_spark_evaluates(few, rights):
    kept = [row for row in RIGHT_ROWS if row[2] == "c2" and is_anew(row[0])]
    text = "concat(category, '') = 'c2' AND price >= 0"
    found = hv.knn_join(few, rights["hudi"], "v", "emb", 3, condition=text)
    check(found, "few", 3, "cosine", by_key, [row for row in kept if row[1] is not None])


def test_nearest_by_join(few, rights):
    right = rights["plan"].withColumnRenamed("id", "rid")
    found = hv.nearest_by_join(few, right, "vector_l2_distance(v, emb)", 2, mode="exact", join_type="left_outer")
    assert found.columns == ["id", "name", "budget", "grp", "v", "rid", "price", "category", "emb"]
    plain = hv.knn_join(few, right, "v", "emb", 2, metric="l2", join_type="left_outer")
    wanted = sorted(map(tuple, plain.select("id", "rid").collect()), key=str)
    assert sorted(map(tuple, found.select("id", "rid").collect()), key=str) == wanted
    for alike in (F.call_function("vector_l2_distance", few["v"], right["emb"]), "VECTOR_L2_DISTANCE( r.`emb`, L.v )"):
        same = hv.nearest_by_join(few, right, alike, 2, mode="exact", join_type="left_outer")
        assert sorted(map(tuple, same.select("id", "rid").collect()), key=str) == wanted
    best = hv.nearest_by_join(few, right, "vector_inner_product(v, emb)", 2, "exact", "similarity")
    product = hv.knn_join(few, right, "v", "emb", 2, metric="dot_product")
    assert sorted(map(tuple, best.select("id", "rid").collect())) == sorted(
        map(tuple, product.select("id", "rid").collect())
    )
    for arguments, sentence in [
        (("vector_l2_distance(v, emb)", 0), "k must be a whole number"),
        (("vector_l2_distance(v, emb)", 1, "fast"), "unknown mode 'fast'; give one of approx, exact"),
        (("vector_l2_distance(v, embb)", 1), "did you mean 'emb'?"),
        (("vector_l2_distance(v,", 1), "of a left and a right column, not 'vector_l2_distance(v,'; rank by other"),
        ((F.abs(few["budget"] - right["price"]), 1), "rank by other expressions with crossJoin and row_number"),
        (("vector_l2_distance(v, emb)", 1, "exact", "similarity"), "ranks by distance; give direction='distance'"),
        (("vector_l2_distance(v, l.v)", 1), "names two columns of one side; name one of each"),
        (("vector_l2_distance(r.v, emb)", 1), "column 'v' does not exist in 'the sides of the join'"),
    ]:
        with pytest.raises(errors.InvalidArgumentError) as raised:
            hv.nearest_by_join(few, right, *arguments)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)
    twice = few.withColumnRenamed("v", "emb")
    with pytest.raises(errors.InvalidFilterError, match=r"'emb' .* is of both sides; write l\.emb or r\.emb"):
        hv.nearest_by_join(twice, right, "vector_l2_distance(emb, emb)", 1)
    assert hv.nearest_by_join(twice, right, "vector_l2_distance(l.emb, r.emb)", 1).columns[-1] == "right_emb"


WRONG = [
    ({"k": 0}, errors.InvalidArgumentError, "k must be a whole number from 1 to 100000, not 0"),
    ({"k": None}, errors.InvalidArgumentError, "k and max_distance are both missing"),
    ({"metric": "manhattan"}, errors.InvalidArgumentError, "unknown metric 'manhattan'"),
    ({"join_type": "full"}, errors.InvalidArgumentError, "unknown join_type 'full'; give one of inner, left_outer"),
    ({"mode": "fast"}, errors.InvalidArgumentError, "unknown mode 'fast'"),
    ({"max_distance": "far"}, errors.InvalidTypeError, "max_distance must be a number"),
    ({"query_column": "w"}, errors.UnknownColumnError, "column 'w' does not exist in 'the left side'"),
    ({"column": "category"}, errors.InvalidTypeError, "column 'category' of 'the right side' is STRING"),
    ({"condition": "prise < 3"}, errors.UnknownColumnError, "did you mean 'price'?"),
    ({"condition": "budget > 3"}, errors.UnknownColumnError, "a column of the left side only; write l.budget"),
    ({"condition": "id > 3"}, errors.InvalidFilterError, "names 'id', a column of both sides; write r.id"),
    ({"condition": "price + 1"}, errors.InvalidFilterError, "filter"),
    ({"condition": "price <"}, errors.InvalidFilterError, "is not valid: Syntax error"),
    ({"condition": "rand() < 0.5"}, errors.InvalidFilterError, "the same answer every time"),
    ({"condition": 3}, errors.InvalidTypeError, "the argument 'condition' must be text, not 3"),
    ({"exclude_self": True}, errors.InvalidArgumentError, "exclude_self=True goes by the record key"),
    ({"exclude_self": "ident"}, errors.UnknownColumnError, "column 'ident' does not exist in 'the left side'"),
    ({"exclude_self": []}, errors.InvalidArgumentError, "exclude_self is an empty list"),
    ({"exclude_self": "name"}, errors.UnknownColumnError, "column 'name' does not exist in 'the right side'"),
    ({"rank_column": "id"}, errors.InvalidArgumentError, "'the left side' has a column 'id'"),
    ({"distance_column": "price"}, errors.InvalidArgumentError, "give distance_column another name"),
    ({"rank_column": "x", "distance_column": "X"}, errors.InvalidArgumentError, "are both 'x'"),
    ({"group_by": "prise"}, errors.UnknownColumnError, "column 'prise' does not exist in 'the right side'"),
    ({"per_group": 2}, errors.InvalidArgumentError, "per_group needs group_by"),
    (
        {"group_by": "price", "k": None, "max_distance": 1.0},
        errors.InvalidArgumentError,
        "group_by needs k, the number",
    ),
    ({"group_by": "price", "rank_column": "_group_rank"}, errors.InvalidArgumentError, "are both '_group_rank'"),
    ({"left": 3}, errors.InvalidTypeError, "the left side must be a DataFrame or the name of a table, not 3"),
    ({"right": "nowhere"}, errors.TableNotFoundError, "there is no table, view or path 'nowhere'"),
    ({"right": "/no/such/path"}, errors.TableNotFoundError, "there is no Hudi table at '/no/such/path'"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), WRONG)
def test_wrong_input_gets_one_sentence(few, rights, arguments, error, sentence):
    given = {"left": few, "right": rights["files"], "query_column": "v", "column": "emb", "k": 3, **arguments}
    with pytest.raises(error) as raised:
        hv.knn_join(**given)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("'joined_hudi', 'joined_hudi', 'emb', 'embb', 3", "column 'embb' does not exist in 'joined_hudi'"),
        ("'joined_hudi', TABLE(SELECT 1 AS id), 'emb', 'id', 3", "column 'id' of 'the right side' is INT"),
        ("'joined_hudi', 'joined_hudi', 'emb'", "the argument 'right_vector' is missing"),
        ("'joined_hudi', 'joined_hudi', 'emb', 'emb', 3, kk => 1", "there is no argument 'kk'"),
    ],
)
def test_wrong_input_of_sql_gets_one_sentence(spark, rights, arguments, sentence):
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"SELECT * FROM hudi_knn_join({arguments})")
    assert str(raised.value).startswith("hudi_knn_join: ")
    assert sentence in str(raised.value)


def test_routes_that_are_not_open_are_refused(spark, few, rights, clean_session):
    spark.conf.set(options.JOIN_PATH.key, "search")
    with pytest.raises(errors.InvalidArgumentError, match="'search' was asked for, and the right side is computed"):
        hv.knn_join(few, rights["plan"], "v", "emb", 3)
    spark.conf.set(options.JOIN_PATH.key, "index")
    with pytest.raises(errors.InvalidOptionError, match="give one of auto, search, lance"):
        hv.knn_join(few, rights["plan"], "v", "emb", 3)


def test_vectors_of_other_lengths_are_refused(spark, rights):
    schema = StructType([StructField("k", LongType()), StructField("v", ArrayType(FloatType(), False))])
    short = spark.createDataFrame([(1, [1.0, 2.0])], schema)
    with pytest.raises((errors.DimensionMismatchError, PySparkException), match=r"\(such as 2\) than 4"):
        hv.knn_join(short, rights["plan"], "v", "emb", 3).collect()
    after_empty = spark.createDataFrame([(1, []), (2, [1.0] * 4)], schema).coalesce(1)
    with pytest.raises((errors.DimensionMismatchError, PySparkException), match=r"\(such as 2\) than 4"):
        hv.knn_join(short, after_empty, "v", "v", 3).collect()
    typed = short.to(StructType([short.schema[0], hv.vector_field("v", 2)]))
    with pytest.raises(errors.DimensionMismatchError, match="of 2 elements, column 'emb' of 'joined_hudi' of 4"):
        hv.knn_join(typed, "joined_hudi", "v", "emb", 3)


@pytest.mark.parametrize("side", ["hudi", "lance"])
def test_a_side_that_is_a_path_is_looked_at_once(spark, rights, few, monkeypatch, side):
    seen = []
    looked = prepare.stored_snapshot
    monkeypatch.setattr(prepare, "stored_snapshot", lambda s, name: seen.append(name) or looked(s, name))
    path = rights["lance"]
    if side == "hudi":
        path = spark.sql("DESCRIBE EXTENDED joined_hudi").where("col_name = 'Location'").first()[1]
    assert hv.knn_join(few, path, "v", "emb", 1).count() > 0
    assert seen == [path]
