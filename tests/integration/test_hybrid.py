"""Hybrid search of real Hudi tables, in Python and in SQL, against brute force over the rows Spark reads."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.types import StructType, _parse_datatype_string
from support import hybrid, tables
from support.frames import planned
from support.grouped import best_groups

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError

ROWS = 240


def schema(second: int) -> StructType:
    fields = _parse_datatype_string(
        "id LONG, name STRING, price DOUBLE, grp STRING, words MAP<STRING, FLOAT>, "
        "terms STRUCT<indices: ARRAY<INT>, values: ARRAY<DOUBLE>>, arr ARRAY<FLOAT>"
    ).fields
    return StructType([*fields, hv.vector_field("text", 8), hv.vector_field("image", second)])


def rows_of(ids, seed, second):
    numbers = np.random.default_rng(seed)
    made = []
    for i in ids:
        size = int(numbers.integers(0, 8))
        index = numbers.permutation(30)[:size].tolist()
        value = [float(np.float32(v)) for v in numbers.normal(size=size)]
        vector = numbers.integers(-3, 4, 8).astype(float).tolist() if i % 5 else numbers.normal(size=8).tolist()
        made.append(
            (
                i,
                f"name {i}",
                float(numbers.integers(0, 100)) if i % 23 else None,
                f"g{i % 2}",
                None if i % 37 == 0 else {str(key): entry for key, entry in zip(index, value, strict=True)},
                None if i % 41 == 0 else (index, value),
                None if i % 43 == 0 else numbers.normal(size=5).tolist(),
                None if i % 29 == 0 else vector,
                None if i % 31 == 0 else numbers.integers(-2, 3, second).astype(float).tolist(),
            )
        )
    return made


def made_table(spark, workspace, name, second, deletes=True):
    """A merge-on-read table with updates and deletes in log files, and a group without any."""
    path = str(tables.fresh_path(workspace, name))
    options = {
        "datasource__write__table__type": "MERGE_ON_READ",
        "datasource__write__partitionpath__field": "grp",
        "compact__inline": "false",
    }
    tables.write(planned(spark, rows_of(range(ROWS), 1, second), schema(second)), path, **options)
    changed = [i for i in range(0, ROWS, 2) if i % 7 == 0]
    tables.write(planned(spark, rows_of(changed, 2, second), schema(second)), path, **options)
    if deletes:
        gone = planned(spark, rows_of(range(10, 60, 10), 3, second), schema(second))
        tables.write(gone, path, **{**options, "datasource__write__operation": "delete"})
    return path


@pytest.fixture(scope="module")
def mixed(spark, workspace):
    return made_table(spark, workspace, "hybrid", 4)


STREAMED = "number LONG, likes ARRAY<FLOAT>, terms MAP<STRING, FLOAT>"


def test_rows_of_a_stream(spark, workspace):
    """What docs/how-to/hybrid.md shows: each micro-batch is a query table, and sees the newest commit."""
    path, folder = str(tables.fresh_path(workspace, "hybrid_stream")), tables.fresh_path(workspace, "asking")
    folder.mkdir()
    how = {"datasource__write__table__type": "MERGE_ON_READ"}
    tables.write(planned(spark, rows_of(range(50), 4, 4), schema(4)), path, **how)
    asked = [(1, QUERIES["text"], QUERIES["words"]), (2, [0.5] * 8, {"1": 1.0}), (3, None, {"1": 1.0})]
    got = []

    def found(batch, _):
        best = hv.hybrid_search_batch(
            batch.sparkSession, path, ["text", "words"], batch, ["likes", "terms"], k=4, weights=[0.25, 2.0],
            metrics=["l2", "dot_product"],
        )  # fmt: skip
        got.extend(best.collect())

    stream = spark.readStream.schema(STREAMED).parquet(str(folder))
    query = stream.writeStream.foreachBatch(found).start()
    try:
        for turn in (0, 1):
            if turn:
                tables.write(planned(spark, rows_of(range(30, 70), 5, 4), schema(4)), path, **how)
            got.clear()
            spark.createDataFrame(asked, STREAMED).coalesce(1).write.mode("append").parquet(str(folder))
            query.processAllAvailable()
            assert {row["number"] for row in got} == {1, 2}
            for number, text, words in asked[:2]:
                ours = sorted((row for row in got if row["number"] == number), key=lambda row: row["_rank"])
                wanted = expected(
                    spark, path, ("text", "words"), ("l2", "dot_product"), (0.25, 2.0), 4, "true",
                    {"text": text, "words": words},
                )  # fmt: skip
                told = [(row["score"], str(row["id"]), [row["_distance_text"], row["_distance_words"]]) for row in ours]
                hybrid.assert_same(told, wanted)
            READ.clear()
    finally:
        query.stop()


@pytest.fixture(scope="module")
def alike(spark, workspace):
    """Two VECTOR columns of one type in log files: only Spark merges them."""
    return made_table(spark, workspace, "hybrid_alike", 8, deletes=False)


QUERIES = {
    "text": [1.0, -2.0, 0.0, 3.0, 1.0, 1.0, -1.0, 0.5],
    "image": [1.0, 0.0, -1.0, 2.0],
    "arr": [0.5, 0.25, -1.0, 2.0, 1.0],
    "words": {"3": 1.5, "7": -0.5, "11": 2.0, "29": 0.25},
    "terms": {1: 0.5, 2: 1.0, 7: 1.0, 50: -3.0},
}
SQL = {
    **{name: f"ARRAY({', '.join(f'{x!r}D' for x in QUERIES[name])})" for name in ("text", "image", "arr")},
    "words": "MAP('29', 0.25, '3', 1.5, '7', -0.5, '11', 2.0)",
    "numbered": "MAP(29, 0.25, 3, 1.5, 7, -0.5, 11, 2.0)",
    "terms": "NAMED_STRUCT('indices', ARRAY(7, 50, 1, 2), 'values', ARRAY(1.0, -3.0, 0.5, 1.0))",
}


READ = {}


def expected(spark, path, names, metrics, weights, k, condition="true", queries=QUERIES, **how):
    """The best rows by brute force, under record keys."""
    if (path, condition) not in READ:
        READ[path, condition] = spark.read.format("hudi").load(path).filter(condition).collect()
    found = READ[path, condition]

    def vector(row, name):
        value = row[name]
        return dict(zip(value["indices"], value["values"], strict=True)) if name == "terms" and value else value

    asked = []
    for name, metric, weight in zip(names, metrics, weights, strict=True):
        vectors = {row["_hoodie_record_key"]: vector(row, name) for row in found}
        asked.append(hybrid.Asked(vectors, queries[name], metric, weight))
    return hybrid.brute_force(asked, k, **how)


def rows(frame, names):
    columns = list(dict.fromkeys(f"_distance_{name}" for name in names))
    return [(row["score"], str(row["id"]), [row[name] for name in columns]) for row in frame.collect()]


CASES = [
    (("text", "image"), ("cosine", "l2"), (0.3, 0.7), {}),
    (("words", "text", "terms"), ("dot_product", "cosine", "l2"), (1.0, 2.0, 0.5), {}),
    (("arr", "words", "image"), ("l2", "cosine", "dot_product"), (1.0, 1.0, -0.25), {"normalize": True}),
    (("text", "image", "terms"), ("cosine", "l2", "dot_product"), (1.0, 0.5, 1.0), {"fusion": "rrf"}),
]


@pytest.mark.parametrize(
    ("names", "metrics", "weights", "how", "execution"),
    [
        *((*case, "local") for case in CASES),
        pytest.param(*CASES[2], "distributed", marks=pytest.mark.soak),
        (*CASES[3], "distributed"),
    ],
)
def test_rows_with_log_files_are_those_of_brute_force(spark, mixed, names, metrics, weights, how, execution):
    for k, condition in ((12, None), (1000, "price < 30"))[execution == "distributed" :]:
        found = hv.hybrid_search(
            spark,
            mixed,
            names,
            [QUERIES[name] for name in names],
            k,
            weights=weights,
            metrics=metrics,
            filter=condition,
            execution=execution,
            **how,
        )
        got = rows(found, names)
        hybrid.assert_same(got, expected(spark, mixed, names, metrics, weights, k, condition or "true", **how))
        report = hv.last_reports()[0]
        assert (report.execution, report.returned) == (execution, len(got))
        assert set(report.slices) <= {"merged", "parquet"}
        assert "merged" in report.slices


@pytest.mark.parametrize(
    ("names", "metrics", "weights", "how"), [pytest.param(*CASES[1], marks=pytest.mark.soak), *CASES[2:]]
)
def test_what_only_spark_merges_is_searched_by_spark(spark, alike, names, metrics, weights, how):
    queries = {**QUERIES, "image": [1.0, 0.0, -1.0, 2.0, 0.0, 0.0, 1.0, 1.0]}
    asked = [queries[name] for name in names]
    found = hv.hybrid_search(
        spark, alike, names, asked, 12, weights=weights, metrics=metrics, filter="price < 30", **how
    )
    got = rows(found, names)
    hybrid.assert_same(got, expected(spark, alike, names, metrics, weights, 12, "price < 30", queries, **how))
    report = hv.last_reports()[0]
    assert report.execution == "spark"
    assert "several VECTOR columns of one type" in report.execution_reason
    assert report.rows_seen > 0


def groups_of(spark, path, names, metrics, weights, k, columns, per_group, drop=False, condition="true", **how):
    """(rank of the group, key, score) of the rows that a search for groups finds."""
    every = expected(spark, path, names, metrics, weights, None, condition, **how)
    values = {row["_hoodie_record_key"]: tuple(row[name] for name in columns) for row in READ[path, condition]}
    best = best_groups(every, lambda found: values[found[1]], k, per_group, drop)
    return [(rank, key, score) for rank, (score, key, _) in best]


def assert_same_groups(frame, wanted):
    got = [(row["_group_rank"], str(row["id"]), row["score"]) for row in frame.collect()]
    assert [row[:2] for row in got] == [row[:2] for row in wanted]
    np.testing.assert_allclose([row[2] for row in got], [row[2] for row in wanted], rtol=1e-6, atol=1e-9)


# Distances of whole numbers are exact, and so are ties; rows of NULL have ranks and scores that count for others.
IN_GROUPS = [
    ("mixed", ("text", "image"), (0.3, 0.7), {}, ("price",), 1, False, "local"),
    ("mixed", ("words", "image"), (0.5, 1.0), {"normalize": True}, ("price", "grp"), 2, True, "distributed"),
    ("mixed", ("image", "text"), (1.0, 0.5), {"fusion": "rrf"}, ("price",), 3, True, "local"),
    ("mixed", ("arr", "image"), (1.0, 1.0), {"fusion": "rrf"}, ("grp",), 4, False, "distributed"),
    ("alike", ("words", "text"), (1.0, 2.0), {"normalize": True}, ("price",), 2, True, "spark"),
    ("alike", ("text", "words"), (1.0, 0.5), {"fusion": "rrf"}, ("grp", "price"), 2, False, "spark"),
]


@pytest.mark.parametrize(("table", "names", "weights", "how", "columns", "per_group", "drop", "execution"), IN_GROUPS)
def test_groups_are_those_of_brute_force(
    spark, request, table, names, weights, how, columns, per_group, drop, execution
):
    path, metrics = request.getfixturevalue(table), ("l2", "dot_product")
    asked = {"metrics": metrics, "weights": weights, "per_group": per_group, "group_by": list(columns), **how}
    asked |= {"group_nulls": "drop"} if drop else {}
    asked |= {} if execution == "spark" else {"execution": execution}
    found = hv.hybrid_search(spark, path, names, [QUERIES[name] for name in names], 9, **asked)
    wanted = groups_of(spark, path, names, metrics, weights, 9, columns, per_group, drop, **how)
    assert_same_groups(found, wanted)
    assert found.columns[-3:] == ["score", "_rank", "_group_rank"]
    report = hv.last_reports()[0]
    assert (report.execution, report.groups) == (execution, len({rank for rank, _, _ in wanted}))


def test_groups_in_sql_in_a_view_and_of_the_past(spark, mixed, clean_session):
    spark.read.format("hudi").load(mixed).createOrReplaceTempView("grouped_view")
    view = "TABLE(SELECT id, price AS cost, grp, words, image FROM grouped_view)"
    names, metrics, weights = ("words", "image"), ("dot_product", "l2"), (1.0, 0.5)
    text = (
        f"SELECT * FROM hudi_hybrid_search({view}, ARRAY('words', 'image'), ({SQL['words']}, {SQL['image']}), "
        "ARRAY(1.0, 0.5), ARRAY('dot', 'l2'), 6, group_by => {columns}, per_group => 2, group_nulls => 'DROP', "
        "filter => 'cost < 60 OR cost IS NULL', fusion => 'rrf')"
    )
    condition = "price < 60 OR price IS NULL"
    for columns, own in (("'Cost'", ("price",)), ("array('grp', 'cost')", ("grp", "price"))):
        found = spark.sql(text.format(columns=columns))
        wanted = groups_of(spark, mixed, names, metrics, weights, 6, own, 2, True, condition, fusion="rrf")
        assert_same_groups(found, wanted)
    first = min(row["_hoodie_commit_time"] for row in READ[mixed, condition])
    then = spark.read.format("hudi").option("as.of.instant", first).load(mixed).collect()
    READ[mixed, first] = then
    asked = {"metrics": metrics, "weights": weights, "as_of": first, "group_by": "price"}
    found = hv.hybrid_search(spark, mixed, names, [QUERIES[name] for name in names], 7, **asked)
    assert_same_groups(found, groups_of(spark, mixed, names, metrics, weights, 7, ("price",), 1, condition=first))


def test_views_and_dataframes(spark, mixed, clean_session):
    frame = spark.read.format("hudi").load(mixed)
    frame.selectExpr("id", "text AS t", "words AS w", "grp").createOrReplaceTempView("renamed")
    names, metrics, weights = ("text", "words"), ("cosine", "cosine"), (1.0, 1.0)
    want = expected(spark, mixed, names, metrics, weights, 8)
    found = hv.hybrid_search(spark, "renamed", ["T", "w"], [QUERIES["text"], QUERIES["words"]], k=8)
    assert found.columns == ["id", "grp", "_distance_t", "_distance_w", "score", "_rank"]
    assert [str(row["id"]) for row in found.collect()] == [key for _, key, _ in want]
    assert hv.last_reports()[0].execution == "local"
    kept = frame.filter("price < 50")
    found = hv.hybrid_search(spark, kept, ["text", "words"], [QUERIES["text"], QUERIES["words"]], k=8)
    hybrid.assert_same(rows(found, names), expected(spark, mixed, names, metrics, weights, 8, "price < 50"))
    assert hv.last_reports()[0].execution == "spark"


@pytest.mark.parametrize(
    "statement",
    [
        "base_table => '{t}', search_column => ARRAY('words', 'text'), probe_column => ({words}, {text}), "
        "weight => ARRAY(0.3, 0.7), distance_type => 'cosine', top_k => 3",
        "'{t}', ARRAY('words', 'text'), STRUCT({numbered}, {text}), ARRAY(0.3D, 0.7D), ARRAY('cosine', 'cosine'), 3",
        "TABLE(SELECT id, words, text FROM {view}), ARRAY('words', 'text'), ({words}, {text}), ARRAY(0.3, 0.7), 'COSINE', 3",
        "table => '{t}', search_columns => ARRAY('words', 'text'), "
        "queries => ({words}, from_json('{json}', 'array<double>')), weights => ARRAY(0.3, 0.7), k => 3",
    ],
)
def test_every_form_in_sql_finds_the_same_rows(spark, mixed, statement, clean_session):
    spark.read.format("hudi").load(mixed).createOrReplaceTempView("hybrid_view")
    text = statement.format(t=mixed, view="hybrid_view", json=QUERIES["text"], **SQL)
    found = spark.sql(f"SELECT * FROM hudi_hybrid_search({text}) ORDER BY _rank")
    names = ("words", "text")
    hybrid.assert_same(rows(found, names), expected(spark, mixed, names, ("cosine",) * 2, (0.3, 0.7), 3))


def test_the_options_of_the_sql_function(spark, mixed):
    text = (
        f"SELECT id, score, _rank, _distance_terms, _distance_image, size(image) AS n FROM hudi_hybrid_search('{mixed}', "
        f"ARRAY('terms', 'image'), ({SQL['terms']}, {SQL['image']}), distance_type => ARRAY('dot', 'euclidean'), "
        "top_k => 6, fusion => 'rrf', filter => 'price < 80', execution => 'local')"
    )
    found = spark.sql(text).collect()
    got = [(row["score"], str(row["id"]), [row["_distance_terms"], row["_distance_image"]]) for row in found]
    names, metrics = ("terms", "image"), ("dot_product", "l2")
    want = expected(spark, mixed, names, metrics, (1.0, 1.0), 6, "price < 80", fusion="rrf")
    hybrid.assert_same(got, want)
    assert [row["_rank"] for row in found] == list(range(1, 7))
    assert {row["n"] for row in found} == {4}
    before = hv.last_reports()[0]
    assert before.metric == "1 × terms (dot_product) + 1 × image (l2), rrf"
    spark.sql("EXPLAIN " + text).collect()
    assert hv.last_reports()[0] is before, "EXPLAIN searches nothing"


def test_a_point_of_the_history(spark, mixed):
    from hudi_vector.table.model import Source
    from hudi_vector.table.native import NativeTable

    first = NativeTable(Source(f"file://{mixed}", "t")).timeline().commits[0].requested
    names, queries = ("text", "words"), [QUERIES["text"], QUERIES["words"]]
    found = hv.hybrid_search(spark, mixed, names, queries, k=9, as_of=first)
    then = spark.read.format("hudi").option("as.of.instant", first).load(mixed).collect()
    asked = [hybrid.Asked({row["_hoodie_record_key"]: row[name] for row in then}, QUERIES[name]) for name in names]
    hybrid.assert_same(rows(found, names), hybrid.brute_force(asked, 9))


def test_rows_of_equal_score_come_by_record_key(spark, mixed):
    for how in ({}, {"fusion": "rrf"}):
        found = hv.hybrid_search(spark, mixed, ["words"], [{1000: 1.0}], k=7, metrics="dot_product", **how).collect()
        keys = [
            row[0] for row in spark.read.format("hudi").load(mixed).filter("words IS NOT NULL").select("id").collect()
        ]
        assert [str(row["id"]) for row in found] == sorted(map(str, keys))[:7]


def test_wrong_arguments_get_one_sentence(spark, mixed):
    def search(columns=("text", "words"), queries=None, **more):
        given = [QUERIES["text"], QUERIES["words"]] if queries is None else queries
        return hv.hybrid_search(spark, mixed, list(columns), given, **more)

    for call, error, words in (
        (lambda: search(weights=[1.0]), InvalidArgumentError, "1 weight was given for 2 search columns"),
        (lambda: search(queries=[QUERIES["text"]]), InvalidArgumentError, "1 query was given for 2"),
        (lambda: search(queries=QUERIES["words"]), InvalidTypeError, "queries must be a list"),
        (lambda: search(columns=("text", "nowhere")), UnknownColumnError, "column 'nowhere' does not exist"),
        (lambda: search(columns=("text", "name")), InvalidTypeError, "a hybrid search needs a VECTOR"),
        (lambda: search(queries=[[1.0], {1: 1.0}]), InvalidArgumentError, "column 'text' of .* has 1 element"),
        (lambda: search(queries=[[1.0] * 8, [1.0]]), InvalidTypeError, "column 'words' of .* holds sparse vectors"),
        (lambda: search(fusion="mean"), InvalidArgumentError, "give weighted or rrf"),
        (lambda: search(k=0), InvalidArgumentError, "k must be a whole number"),
        (lambda: search(metrics=["l2"]), InvalidArgumentError, "1 metric was given"),
        (lambda: search(weights=[1, -1], fusion="rrf"), InvalidArgumentError, "no meaning for ranks"),
        (lambda: search(normalize=True, fusion="rrf"), InvalidArgumentError, "no meaning for fusion 'rrf'"),
        (lambda: search(group_by="prise"), UnknownColumnError, "column 'prise' does not exist"),
        (lambda: search(group_by=["grp", "words"]), InvalidTypeError, "'words' of .* holds vectors, blobs or nested"),
        (lambda: search(group_by="grp", per_group=0), InvalidArgumentError, "per_group must be a whole number from 1"),
        (lambda: search(group_by="grp", group_nulls="no"), InvalidArgumentError, "must be 'keep' or 'drop', not 'no'"),
        (lambda: search(per_group=2), InvalidArgumentError, "per_group needs group_by"),
        (lambda: search(group_nulls="drop"), InvalidArgumentError, "group_nulls needs group_by"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("ARRAY('text'), (ARRAY(1.0), ARRAY(2.0)), top_k => 3", "2 queries were given for 1 search column"),
        ("'text', (ARRAY(1.0)), top_k => 3", "search_columns must be a list of column names"),
        ("ARRAY('text'), ARRAY(ARRAY(1.0)), weight => ARRAY(true), top_k => 3", "a weight must be a number, not True"),
        ("ARRAY('text'), ARRAY(ARRAY(1.0)), weight => ARRAY('a'), top_k => 3", "a weight must be a number, not 'a'"),
        ("ARRAY('text'), ARRAY(ARRAY(1.0)), top_k => 3", "the query vector has 1 element, the column has 8"),
        ("ARRAY('words'), ARRAY(MAP(1, NULL)), top_k => 3", "holds N"),
        ("ARRAY('text'), ARRAY(ARRAY(1.0))", "the argument 'top_k' is missing"),
        (
            "ARRAY('words'), ARRAY(MAP(1, 2.0)), top_k => 3, group_by => 3",
            "group_by must be the name of a column or a li",
        ),
        ("ARRAY('words'), ARRAY(MAP(1, 2.0)), top_k => 3, per_group => 2", "per_group needs group_by"),
        ("ARRAY('text'), ARRAY(ARRAY(1.0)), top_k => 3, limit => 2", "there is no argument 'limit'"),
    ],
)
def test_wrong_sql_gets_one_sentence(spark, mixed, arguments, words):
    with pytest.raises((AnalysisException, IllegalArgumentException), match=words) as raised:
        spark.sql(f"SELECT * FROM hudi_hybrid_search('{mixed}', {arguments})")
    assert str(raised.value).startswith("hudi_hybrid_search: ")


def test_a_column_that_the_search_adds_is_not_hidden(spark, mixed, clean_session):
    spark.read.format("hudi").load(mixed).selectExpr("id AS score", "text").createOrReplaceTempView("scored")
    with pytest.raises(InvalidArgumentError, match="has a column 'score'"):
        hv.hybrid_search(spark, "scored", ["text"], [QUERIES["text"]])
    spark.read.format("hudi").load(mixed).selectExpr("id AS _group_rank", "text").createOrReplaceTempView("ranked")
    with pytest.raises(InvalidArgumentError, match="has a column '_group_rank'"):
        hv.hybrid_search(spark, "ranked", ["text"], [QUERIES["text"]], group_by="_group_rank")
    [own] = hv.hybrid_search(spark, "ranked", ["text"], [QUERIES["text"]], 1).collect()
    assert own["_group_rank"] == int(expected(spark, mixed, ("text",), ("cosine",), (1.0,), 1)[0][1])


@pytest.fixture(scope="module")
def asking(spark):
    """Rows that ask by three columns; one lacks a vector."""
    rows = [(f"q{i}", *rows_of([i + 1], 50 + i, 4)[0][4:]) for i in range(6)] + [
        ("none", {"1": 1.0}, None, None, None, None)
    ]
    fields = [schema(4)[name] for name in ("words", "terms", "arr", "text", "image")]
    return spark.createDataFrame(rows, StructType([*_parse_datatype_string("name STRING").fields, *fields]))


@pytest.mark.parametrize(
    ("how", "spread"),
    [
        ({}, False),
        ({"fusion": "rrf"}, True),
        ({"fusion": "rrf", "group_by": "price", "per_group": 2}, False),
        ({"normalize": True, "group_by": ["grp"], "per_group": 3}, True),
        pytest.param({}, True, marks=pytest.mark.soak),
        pytest.param({"normalize": True}, True, marks=pytest.mark.soak),
        pytest.param({"normalize": True}, False, marks=pytest.mark.soak),
        pytest.param({"fusion": "rrf"}, False, marks=pytest.mark.soak),
    ],
)
def test_each_row_of_a_batch_is_as_a_search_of_its_own(spark, mixed, asking, how, spread, clean_session):
    if spread:
        spark.conf.set("hoodie.vector.search.batch.collect.max.bytes", "0")
    names, weights = ["text", "terms", "words"], [1.0, 0.5, 0.25]
    metrics = ["cosine", "l2", "dot_product"]
    more = {"metrics": metrics, "filter": "price < 70", **how}
    found = hv.hybrid_search_batch(spark, mixed, names, asking, names, 4, weights=weights, **more)
    added = ["_distance_text", "_distance_terms", "_distance_words", "score"]
    added += ["_group_rank", "_rank"] if "group_by" in how else ["_rank"]
    assert sorted(found.columns[-len(added) - 1 :]) == sorted(["_hudi_query_index", *added])
    rows = found.collect()
    answers = {}
    for row in rows:
        answers.setdefault(row["_hudi_query_name"], []).append([row["id"], *[row[name] for name in added]])
    assert sorted(answers) == [f"q{i}" for i in range(6)]
    for asked in asking.filter("name != 'none'").collect()[:2]:
        queries = [asked["text"], (asked["terms"]["indices"], asked["terms"]["values"]), asked["words"]]
        alone = (
            hv.hybrid_search(spark, mixed, names, queries, 4, weights=weights, **more).select("id", *added).collect()
        )
        assert sorted(answers[asked["name"]], key=lambda row: row[-1]) == [list(row) for row in alone]


def test_a_batch_in_sql(spark, mixed, alike, asking, clean_session):
    asking.createOrReplaceTempView("asking")
    for table in (mixed, alike):
        found = spark.sql(
            f"SELECT _hudi_query_name AS asked, id, _rank FROM hudi_hybrid_search(base_table => '{table}', "
            "search_column => ARRAY('arr', 'terms'), query_table => 'asking', probe_column => ARRAY('arr', 'terms'), "
            "top_k => 2) ORDER BY asked, _rank"
        ).collect()
        assert [(row["asked"], row["_rank"]) for row in found] == [(f"q{i}", rank) for i in range(6) for rank in (1, 2)]
    for names, error, words in (
        (["arr"], InvalidArgumentError, "1 query column was given for 2 search columns"),
        (["arr", "image"], InvalidTypeError, "holds dense vectors and 'terms' is searched for sparse"),
        (["image", "terms"], InvalidArgumentError, "'image' of .* has 4 elements, the searched column 'text' has 8"),
    ):
        with pytest.raises(error, match=words):
            hv.hybrid_search_batch(spark, mixed, ["text", "terms"], "asking", names)
