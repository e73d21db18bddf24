"""KNN joins equal the comparison of all pairs, whichever route they take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import ArrayType, DoubleType, FloatType, LongType, StringType, StructField, StructType
from support import join_oracle, tables

import hudi_vector as hv
from hudi_vector import errors, options

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


def rows_of(count, seed, first=0):
    """Rows with few different vectors, so that distances tie; some without a vector, some without a number."""
    numbers = np.random.default_rng(seed)
    found = []
    for i in range(first, first + count):
        vector = None if i % 11 == 3 else [float(x) for x in numbers.integers(-2, 3, DIMENSION)]
        number = None if i % 7 == 2 else float(numbers.integers(0, 100))
        found.append((i, number, f"c{i % 3}", vector))
    return found


@pytest.fixture(scope="module")
def right_rows():
    return rows_of(90, 1)


@pytest.fixture(scope="module")
def rights(spark, workspace, right_rows):
    """The same rows as a Hudi table with log files, as Parquet files and as a computed plan, behind names."""
    frame = spark.createDataFrame(right_rows, RIGHT)
    path = tables.fresh_path(workspace, "joined")
    stale = frame.withColumn("price", F.lit(-1.0))
    tables.write(stale, path, datasource__write__table__type="MERGE_ON_READ")
    tables.write(frame, path)
    spark.sql(f"CREATE TABLE joined_hudi USING hudi LOCATION '{path}'")
    folder = str(tables.fresh_path(workspace, "files"))
    frame.orderBy("id").coalesce(1).write.option("maxRecordsPerFile", 20).parquet(folder)
    return {
        "hudi": spark.table("joined_hudi"),
        "files": spark.read.parquet(folder),
        "plan": frame.unionByName(frame.where("id < 0")).alias("p"),
    }


@pytest.fixture(scope="module")
def few(spark):
    rows = rows_of(9, 2, 1000)
    return spark.createDataFrame([(i, f"n{i}", number, group, v) for i, number, group, v in rows], LEFT)


@pytest.fixture(scope="module")
def many(spark):
    rows = rows_of(80, 3, 2000)
    return spark.createDataFrame([(i, f"n{i}", number, group, v) for i, number, group, v in rows], LEFT)


def tie_of(kind):
    if kind == "hudi":
        return lambda row: str(row["id"]).encode()  # the record key
    return lambda row: row["id"]


def by_columns(row):
    """As the right columns in order, NULLs first: cost, then id."""
    return (row["price"] is not None, row["price"] or 0, row["id"])


def check(found, left, right_rows, kind, k, metric, tie=None, **how):
    mine = [row.asDict() for row in left.collect()]
    theirs = [dict(zip(("id", "price", "category", "emb"), row, strict=True)) for row in right_rows]
    expected = join_oracle.joined(mine, theirs, k, metric, tie=tie or tie_of(kind), **how)
    got = [tuple(row) for row in found.select("id", "right_id", "_rank", "_distance").collect()]
    join_oracle.compare(got, expected, "id")
    return got


def cheaper(mine, other):
    return None if mine["budget"] is None or other["price"] is None else other["price"] < mine["budget"]


@pytest.mark.parametrize("kind", ["hudi", "files", "plan"])
@pytest.mark.parametrize("size", ["few", "many"])
def test_a_join_is_what_comparing_all_pairs_gives(request, rights, right_rows, kind, size):
    left, right = request.getfixturevalue(size), rights[kind]
    for metric, join_type in (("l2", "inner"), ("cosine", "left_outer"), ("dot_product", "inner")):
        found = hv.knn_join(left, right, "v", "emb", 3, metric=metric, join_type=join_type)
        check(found, left, right_rows, kind, 3, metric, outer=join_type == "left_outer")
    # Filters and names on both sides, and a condition over both.
    asking = left.where("name <> 'n1004'")
    named = right.where("category <> 'c1' AND price IS NOT NULL").select("emb", F.col("price").alias("cost"), "id")
    found = hv.knn_join(asking, named, "v", "emb", 4, metric="l2", condition="cost < l.budget", join_type="left_outer")
    kept = [row for row in right_rows if row[2] != "c1" and row[1] is not None]
    # The names of the record key are not among the chosen columns; the files' rows stand by their ids.
    tie = by_columns if kind == "plan" else None
    check(found, asking, kept, kind, 4, "l2", outer=True, holds=cheaper, tie=tie)


@pytest.mark.parametrize("kind", ["hudi", "files", "plan"])
def test_all_rows_within_a_distance(few, rights, right_rows, kind):
    found = hv.knn_join(few, rights[kind], "v", "emb", None, metric="l2", max_distance=2.0)
    got = check(found, few, right_rows, kind, None, "l2", max_distance=2.0)
    assert len(got) > 20
    found = hv.knn_join(few, rights[kind], "v", "emb", 2, metric="l2", max_distance=1.5, join_type="left_outer")
    check(found, few, right_rows, kind, 2, "l2", max_distance=1.5, outer=True)


def test_sparks_comparison_of_all_pairs(spark, few, rights, right_rows, clean_session):
    spark.conf.set(options.JOIN_PATH.key, "crossjoin")
    found = hv.knn_join(
        few, rights["plan"], "v", "emb", 3, metric="l2", condition="price < l.budget", join_type="left_outer"
    )
    check(found, few, right_rows, "plan", 3, "l2", holds=cheaper, outer=True)
    spark.conf.set(options.JOIN_PATH.key, "auto")
    # What has no place in the pure form goes to Spark whole.
    text = "concat(category, '') = l.grp"
    found = hv.knn_join(few, rights["plan"], "v", "emb", 3, condition=text)
    check(found, few, right_rows, "plan", 3, "cosine", holds=lambda a, b: a["grp"] == b["category"])
    assert "route       crossjoin" in hv.explain_join(few, rights["plan"], "v", "emb", 3, condition=text)


def test_a_table_joined_with_itself(spark, rights, right_rows):
    same = lambda row: str(row["id"]).encode()  # noqa: E731
    theirs = [dict(zip(("id", "price", "category", "emb"), row, strict=True)) for row in right_rows]
    expected = join_oracle.joined(
        theirs, theirs, 2, "l2", left_vector="emb", tie=same, holds=lambda a, b: a["id"] != b["id"]
    )
    for how in (True, "id"):
        found = hv.knn_join("joined_hudi", "joined_hudi", "emb", "emb", 2, metric="l2", exclude_self=how)
        got = [tuple(row) for row in found.select("id", "right_id", "_rank", "_distance").collect()]
        join_oracle.compare(got, expected, "id")
    condition = "r.category = l.category"
    found = hv.knn_join(
        rights["files"], rights["files"], "emb", "emb", 2, metric="l2", exclude_self=["id"], condition=condition
    )
    expected = join_oracle.joined(
        theirs, theirs, 2, "l2", left_vector="emb", tie=lambda row: row["id"],
        holds=lambda a, b: a["id"] != b["id"] and a["category"] == b["category"],
    )  # fmt: skip
    got = [tuple(row) for row in found.select("id", "right_id", "_rank", "_distance").collect()]
    join_oracle.compare(got, expected, "id")


def test_edges(spark, few, many, rights, right_rows):
    right = rights["files"]
    # k larger than the right side.
    check(hv.knn_join(few, right, "v", "emb", 500), few, right_rows, "files", 500, "cosine")
    # One left row, no left rows, no right rows.
    one = few.where("id = 1000")
    check(hv.knn_join(one, right, "v", "emb", 3), one, right_rows, "files", 3, "cosine")
    assert hv.knn_join(few.where("id < 0"), right, "v", "emb", 3, join_type="left_outer").count() == 0
    for kind in ("files", "hudi", "plan"):
        nobody = rights[kind].where("id < 0")
        assert hv.knn_join(many, nobody, "v", "emb", 3).count() == 0
        alone = hv.knn_join(few, nobody, "v", "emb", 3, join_type="left_outer").select("id", "right_id", "_rank")
        assert sorted(row["id"] for row in alone.collect() if row["_rank"] is None) == list(range(1000, 1009))
    # The same rows whatever the left partitions, and without any column.
    found = [
        sorted(map(tuple, hv.knn_join(many.repartition(n), right, "v", "emb", 3).drop("v", "emb").collect()))
        for n in (1, 5)
    ]
    assert found[0] == found[1]
    assert hv.knn_join(few, right, "v", "emb", 3).count() == 3 * sum(row["v"] is not None for row in few.collect())


def test_columns(few, rights):
    found = hv.knn_join(few, rights["files"], "v", "emb", 1, rank_column="n", distance_column="far")
    assert found.columns == [
        "id", "name", "budget", "grp", "v", "right_id", "price", "category", "emb", "n", "far",
    ]  # fmt: skip
    row = found.where("id = 1000").select("emb", "v", "n", "far").collect()[0]
    assert len(row["emb"]) == DIMENSION
    assert row["n"] == 1


def test_many_files(spark, few, workspace):
    folder = workspace / "thousand"
    folder.mkdir()
    rows = [row for row in rows_of(1000, 5) if row[3] is not None]
    for start, row in enumerate(rows):
        table = pa.table({"id": [row[0]], "emb": pa.array([row[3]], pa.list_(pa.float32()))})
        pq.write_table(table, folder / f"{start:04d}.parquet")
    found = hv.knn_join(few, spark.read.parquet(str(folder)), "v", "emb", 5, metric="l2")
    check(found, few, rows, "files", 5, "l2")


def test_the_rule_is_printed(spark, few, many, rights, clean_session):
    text = hv.explain_join(few, "joined_hudi", "v", "emb", 3, condition="price < 50 AND price < l.budget")
    assert "  route       search: the right side is a Hudi table: its slices are searched" in text
    assert "on the right side, before distances: price < 50" in text
    assert "on both sides: price < l.budget; where few left values differ" in text
    assert "left        few rows: the driver asks" in text
    assert "filter      price < 50" in text
    text = hv.explain_join(many, rights["files"].where("price > 3"), "v", "emb", 3)
    assert "the right side is a scan of Parquet files" in text
    assert "left        one stage without a shuffle behind it, over" in text
    assert "filter      price > 3.0" in text
    text = hv.explain_join(few, rights["hudi"].where("soundex(category) = 'C000'"), "v", "emb", 3)
    assert "    not " not in text.splitlines()[2]
    assert "route       broadcast: the right side is computed (a filter of it cannot be pushed down exactly" in text
    text = hv.explain_join(few, rights["files"].groupBy("id").agg(F.first("emb").alias("emb")), "v", "emb", 3)
    assert "route       broadcast: the right side is computed (a Aggregate stands between" in text
    spark.conf.set(options.JOIN_BROADCAST_MAX_BYTES.key, "10")
    text = hv.explain_join(few, rights["plan"], "v", "emb", 3)
    assert "not broadcast: its size is not known to fit, and no more than 10 bytes are held in memory" in text


def test_a_right_filter_that_only_spark_evaluates(few, rights, right_rows):
    kept = [row for row in right_rows if row[2] == "c2"]
    found = hv.knn_join(few, rights["hudi"], "v", "emb", 3, condition="concat(category, '') = 'c2' AND price >= -1")
    check(found, few, [row for row in kept if row[1] is not None], "hudi", 3, "cosine")
    found = hv.knn_join(few, rights["hudi"].where("concat(category, '') = 'c2'"), "v", "emb", 3)
    check(found, few, kept, "hudi", 3, "cosine")


WRONG = [
    ({"k": 0}, errors.InvalidArgumentError, "k must be a whole number from 1 to 100000, not 0"),
    ({"k": None}, errors.InvalidArgumentError, "k and max_distance are both missing"),
    ({"metric": "manhattan"}, errors.InvalidArgumentError, "unknown metric 'manhattan'"),
    ({"join_type": "full"}, errors.InvalidArgumentError, "unknown join_type 'full'; give one of inner, left_outer"),
    ({"mode": "fast"}, errors.InvalidArgumentError, "unknown mode 'fast'"),
    ({"max_distance": "far"}, errors.InvalidTypeError, "max_distance must be a number"),
    ({"left_vector": "w"}, errors.UnknownColumnError, "column 'w' does not exist in 'the left side'"),
    ({"right_vector": "category"}, errors.InvalidTypeError, "column 'category' of 'the right side' is STRING"),
    ({"condition": "prise < 3"}, errors.UnknownColumnError, "did you mean 'price'?"),
    (
        {"condition": "budget > 3"},
        errors.UnknownColumnError,
        "which is a column of the left side only; write l.budget",
    ),
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
    ({"left": 3}, errors.InvalidTypeError, "the left side must be a DataFrame or the name of a table, not 3"),
    ({"right": "nowhere"}, errors.TableNotFoundError, "there is no table, view or path 'nowhere'"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), WRONG)
def test_wrong_input_gets_one_sentence(few, rights, arguments, error, sentence):
    given = {"left": few, "right": rights["files"], "left_vector": "v", "right_vector": "emb", "k": 3, **arguments}
    with pytest.raises(error) as raised:
        hv.knn_join(**given)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600


def test_routes_that_are_not_open_are_refused(spark, few, rights, clean_session):
    spark.conf.set(options.JOIN_PATH.key, "search")
    with pytest.raises(errors.InvalidArgumentError, match="'search' was asked for, and the right side is computed"):
        hv.knn_join(few, rights["plan"], "v", "emb", 3)
    spark.conf.set(options.JOIN_PATH.key, "index")
    with pytest.raises(errors.InvalidOptionError, match="give one of auto, search, lance"):
        hv.knn_join(few, rights["plan"], "v", "emb", 3)


def test_vectors_of_other_lengths_are_refused(spark, few, many, rights):
    schema = StructType([StructField("k", LongType()), StructField("v", ArrayType(FloatType(), False))])
    short = spark.createDataFrame([(1, [1.0, 2.0])], schema)
    for kind in ("files", "plan"):
        with pytest.raises((errors.DimensionMismatchError, PySparkException), match=r"\(such as 2\) than 4"):
            hv.knn_join(short, rights[kind], "v", "emb", 3).collect()
    typed = short.to(StructType([short.schema[0], hv.vector_field("v", 2)]))
    with pytest.raises(
        errors.DimensionMismatchError, match="holds vectors of 2 elements, column 'emb' of 'joined_hudi'"
    ):
        hv.knn_join(typed, "joined_hudi", "v", "emb", 3)
