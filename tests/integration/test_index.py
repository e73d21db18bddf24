"""An index on real tables: `auto` answers what `exact` answers through every change, and uses the index where it can."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from support import indexed, oracle, tables
from support.frames import planned

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.command.main import main
from hudi_vector.read.cache import process_cache

DIMENSION = 16


def clustered(count: int, seed: int) -> np.ndarray:
    """Vectors in eight clusters, the last two of them zero."""
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((8, DIMENSION)) * 3
    made = centres[numbers.integers(0, 8, count)] + numbers.standard_normal((count, DIMENSION))
    made[-2:] = 0
    return made.astype(np.float32)


def frame(spark, ids, seed=0):
    ids = list(ids)
    rows = [
        (i, f"name {i}", float(i % 1000), f"c{i % 4}", vector.tolist())
        for i, vector in zip(ids, clustered(len(ids), seed), strict=True)
    ]
    return planned(spark, rows, tables.schema(DIMENSION))


def write(spark, path, ids, seed=0, **options):
    tables.write(frame(spark, ids, seed), path, datasource__write__partitionpath__field="category", **options)


def answer(spark, path, query, k=5, **asked):
    found = hv.search(spark, path, "emb", query, k, **asked)
    rows = found.select("_distance", "_rank", "id", "name").collect()
    return [tuple(row) for row in rows], hv.last_reports()[0]


def assert_exact(spark, path, *, covered, k=5, **asked):
    """The answers of `auto` are those of `exact` to the last bit, without Spark and with it.

    The last report is that of the search with Spark, which keeps no vectors in memory; `covered` is the number of
    slices that the index answers for then.
    """
    shown = ["id", "name"]
    queries = clustered(4, 77).astype(np.float64)[:2] + 0.1
    with (
        hv.open(path, column="emb") as remembering,
        hv.open(path, column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as reading,
    ):
        for query in queries:
            exact = remembering.search(query, k, mode="exact", columns=shown, **asked).table
            assert remembering.search(query, k, columns=shown, **asked).table.equals(exact)
            found = reading.search(query, k, columns=shown, **asked)
            assert found.table.equals(exact)
            assert covered is None or found.report.slices.get("index", 0) == covered
    spark.conf.set("hoodie.vector.cache.max.bytes", "0")
    found, report = answer(spark, path, queries[-1], k, **asked)
    spark.conf.unset("hoodie.vector.cache.max.bytes")
    ids = [exact[name].to_pylist() for name in ("_distance", *shown)]
    assert found == [(far, rank, *row) for rank, (far, *row) in enumerate(zip(*ids, strict=True), 1)]
    assert covered is None or report.slices.get("index", 0) == covered
    assert report.execution == "local"


@pytest.fixture(scope="module")
def products(spark, workspace):
    path = tables.fresh_path(workspace, "indexed")
    write(spark, path, range(2000))
    for metric in ("l2", "cosine", "dot_product"):
        hv.index.create(spark, str(path), "emb", metric=metric)
    return str(path)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_auto_answers_what_exact_answers(spark, products, metric):
    assert_exact(spark, products, covered=4, metric=metric)
    assert_exact(spark, products, covered=4, metric=metric, k=300)
    assert_exact(spark, products, covered=4, metric=metric, filter="price < 20")
    assert_exact(spark, products, covered=4, metric=metric, max_distance=0.5)
    query = clustered(5, 8)[0].astype(np.float64)
    found = hv.search(spark, products, "emb", query, 7, metric=metric)
    oracle.assert_nearest(found, oracle.nearest(spark.read.format("hudi").load(products), "emb", query, 7, metric))


def test_a_batch_equals_its_single_queries_in_every_mode(spark, products):
    queries = clustered(40, 5)[:38].astype(np.float64)
    for asked in ({}, {"mode": "approximate", "nprobes": 2, "refine_factor": 3}, {"algorithm": "ivf_sq8"}):
        batch = hv.search_batch(spark, products, "emb", queries, k=4, metric="l2", **asked)
        rows = batch.select("_hudi_query_index", "_rank", "_distance", "id").collect()
        for number in range(0, len(queries), 6):
            single = hv.search(spark, products, "emb", queries[number], 4, metric="l2", **asked)
            got = sorted(tuple(row)[1:] for row in rows if row[0] == number)
            assert got == [tuple(row) for row in single.select("_rank", "_distance", "id").collect()]


def test_approximate_looks_at_less_and_says_so(spark, products):
    query = clustered(5, 3)[0].astype(np.float64)
    text = hv.explain(hv.search, spark, products, "emb", query, metric="l2", mode="approximate", nprobes=1)
    assert "ivf_sq8 for l2, 1 list," in text
    found, report = answer(spark, products, query, 5, metric="l2", mode="approximate", nprobes=1)
    assert len(found) == 5
    assert report.slices == {"index": 4}
    whole, _ = answer(spark, products, query, 5, metric="l2", recall_target=0.99)
    exact, _ = answer(spark, products, query, 5, metric="l2", mode="exact")
    assert len({row[2] for row in whole} & {row[2] for row in exact}) >= 4


@pytest.mark.parametrize(
    ("kind", "numbers"), [("ivf_rabitq", {"num_bits": 2}), ("ivf_pq", {"num_sub_vectors": 8}), ("hnsw", {})]
)
def test_kinds_with_codes_that_cost_little(spark, products, kind, numbers):
    made = hv.index.create(spark, products, "emb", metric="l2", kind=kind, **numbers)
    assert (made.kind, made.segments_made, made.covered_rows) == (kind, 4, 2000)
    asked = {"metric": "l2", "mode": "approximate", "algorithm": kind}
    found = hv.index.recall(spark, products, "emb", kind=kind, metric="l2", sample=20)
    assert found.recall >= 0.85
    query = clustered(5, 3)[0].astype(np.float64)
    for more in ({}, {"filter": "price < 900"}, {"filter": "price < 7"}, {"nprobes": 2, "refine_factor": 1}):
        rows, report = answer(spark, products, query, 5, **asked, **more)
        assert report.slices == {"index": 4}
        assert len(rows) == 5
        exact, _ = answer(
            spark, products, query, 5, metric="l2", mode="exact", **{k: more[k] for k in more if k == "filter"}
        )
        assert more.get("nprobes") or len({row[2] for row in rows} & {row[2] for row in exact}) >= 4
    many = hv.search_batch(spark, products, "emb", clustered(30, 5)[:28].astype(np.float64), k=4, **asked)
    assert many.count() == 28 * 4
    if kind == "hnsw":
        with pytest.raises(errors.InvalidArgumentError, match="its index is hnsw, which gives no exact answers"):
            hv.search(spark, products, "emb", query, 5, metric="l2", algorithm=kind)
    else:
        expected, _ = answer(spark, products, query, 5, metric="l2", mode="exact")
        assert answer(spark, products, query, 5, metric="l2", algorithm=kind)[0] == expected
    assert_exact(spark, products, covered=4, metric="l2")  # by ivf_sq8, which comes first
    assert hv.index.verify(spark, products, "emb", kind=kind, metric="l2") == []
    assert [one.kind for one in hv.index.drop(spark, products, "emb", kind=kind)] == [kind]


def test_sql_has_the_same_arguments(spark, products):
    array = "array(" + ", ".join(f"{x!r}D" for x in clustered(5, 3)[0].astype(float).tolist()) + ")"
    text = "SELECT id FROM hudi_vector_search('{}', 'emb', {}, 3, 'l2'{})"
    exact = spark.sql(text.format(products, array, ", 'brute_force'")).collect()
    assert hv.last_reports()[0].slices == {"parquet": 4}
    for more in ("", ", 'ivf_sq8'", ", mode => 'auto', recall_target => 1.0"):
        assert spark.sql(text.format(products, array, more)).collect() == exact
        assert hv.last_reports()[0].slices == {"index": 4}
    spark.sql(text.format(products, array, ", mode => 'approximate', nprobes => 2, refine_factor => 4")).collect()
    assert hv.last_reports()[0].slices == {"index": 4}


def test_changes_need_an_earlier_point(spark, products):
    with pytest.raises(errors.InvalidArgumentError, match="from_instant is missing"):
        hv.search_changes(spark, products, "emb", [1.0] * DIMENSION)


WRONG_JOBS = [
    ("create", {"kind": "flat"}, "unknown kind of index 'flat'; give ivf_sq8, ivf_flat, ivf_rabitq, ivf_pq or hnsw"),
    ("create", {"num_bits": 4}, "num_bits is for the kind ivf_rabitq or ivf_pq or hnsw, and the kind is ivf_sq8"),
    ("create", {"kind": "ivf_pq", "num_bits": 4.0}, "num_bits must be a whole number, not 4.0"),
    ("create", {"kind": "ivf_pq", "num_sub_vectors": 5}, "give a number that divides 16, such as 4"),
    ("create", {"kind": 7}, "the argument 'kind' must be text, not 7"),
    ("create", {"metric": "l3"}, "unknown metric 'l3'"),
    ("create", {"num_partitions": "7"}, "num_partitions must be a whole number, not '7'"),
    ("create", {"num_partitions": 0}, "num_partitions is 0; give 1 to"),
    ("create", {"max_iters": 0}, "max_iters is 0; give 1 or more"),
    ("create", {"sample": -1}, "sample must be a whole number, 1 or more, not -1"),
    ("create", {"recall_target": 2}, "recall_target must be a number above 0, up to 1, not 2"),
    ("create", {"column": "embb"}, "did you mean 'emb'"),
    ("create", {"column": "name"}, "a search needs a VECTOR"),
    ("create", {"column": None}, "the argument 'column' must be text"),
    ("create", {"table": "no_such_table"}, "no_such_table"),
    ("refresh", {"metric": "l2", "kind": "ivf_flat"}, "has 0 such indexes .*; make one with hudi_vector.index.create"),
    ("refresh", {}, "has 3 such indexes .*; name one by metric and kind"),
    ("recall", {"k": 0, "metric": "l2"}, "k must be a whole number from 1 to"),
    ("recall", {"sample": 1, "metric": "l2"}, "sample must be a whole number, 2 or more, not 1"),
    ("recall", {"at_least": "x", "metric": "l2"}, "at_least must be a number, not 'x'"),
    ("compact", {"grace": "soon", "metric": "l2"}, "grace = 'soon' is not allowed"),
    ("describe", {"column": 7}, "the argument 'column' must be text, not 7"),
    ("drop", {"column": "embb"}, "did you mean 'emb'"),
]


@pytest.mark.parametrize(("job", "asked", "sentence"), WRONG_JOBS)
def test_wrong_jobs(spark, products, job, asked, sentence):
    with pytest.raises((ValueError, TypeError, LookupError), match=sentence) as raised:
        getattr(hv.index, job)(spark, **{"table": products, "column": "emb", **asked})
    assert isinstance(raised.value, errors.HudiVectorError)
    assert "\n" not in str(raised.value)


WRONG = [
    ({"algorithm": "hnsw"}, "algorithm 'hnsw' was asked for with metric cosine, and its index is ivf_sq8"),
    ({"algorithm": "annoy"}, "unknown algorithm 'annoy'; give one of brute_force"),
    ({"mode": "fast"}, "unknown mode 'fast'; give one of auto, exact, approximate"),
    ({"nprobes": 4}, "nprobes gives up exactness, and nothing asked for that"),
    ({"nprobes": 0, "mode": "approximate"}, "nprobes must be a whole number, 1 or more, not 0"),
    ({"recall_target": 1.5}, "recall_target must be a number above 0, up to 1, not 1.5"),
    ({"algorithm": "ivf_sq8", "mode": "exact"}, "mode 'exact' uses no index, and algorithm is 'ivf_sq8'"),
    ({"algorithm": "brute_force", "mode": "approximate"}, "brute_force is exact, and mode is 'approximate'"),
]


@pytest.mark.parametrize(("asked", "sentence"), WRONG)
def test_wrong_arguments(spark, products, asked, sentence):
    with pytest.raises(errors.InvalidArgumentError, match=sentence):
        hv.search(spark, products, "emb", [1.0] * DIMENSION, 3, **asked).collect()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_through_its_life(spark, workspace, table_type):
    path = tables.fresh_path(workspace, "life")
    kind = {"datasource__write__table__type": table_type}
    write(spark, path, range(800), **kind)
    first = spark.read.format("hudi").load(str(path)).selectExpr("max(_hoodie_commit_time)").first()[0]
    made = hv.index.create(spark, str(path), "emb", metric="l2")
    assert made.segments_made == 4
    assert_exact(spark, str(path), covered=4, metric="l2")
    if table_type == "COPY_ON_WRITE":
        text = hv.explain(hv.search, spark, str(path), "emb", [1.0] * DIMENSION, metric="cosine")
        assert "none: its index is for l2" in text
        assert_exact(spark, str(path), covered=0, metric="cosine")
    write(spark, path, range(0, 80, 4), seed=9, **kind)  # rows of one partition
    is_written_anew = table_type == "COPY_ON_WRITE"
    assert_exact(spark, str(path), covered=3 if is_written_anew else 4, metric="l2")
    assert hv.last_reports()[0].slices == (
        {"index": 3, "parquet": 1} if is_written_anew else {"index": 4, "touched": 1}
    )
    assert_exact(spark, str(path), covered=4, metric="l2", as_of=first)
    query = clustered(4, 77)[0].astype(np.float64)
    changes = hv.search_changes(spark, str(path), "emb", query, 40, from_instant=first, metric="l2").collect()
    ranks = [
        {row["_hoodie_record_key"]: row["_rank"] for row in found.select("_hoodie_record_key", "_rank").collect()}
        for found in (hv.search(spark, str(path), "emb", query, 40, metric="l2", as_of=at) for at in (first, None))
    ]
    told = {row["_hoodie_record_key"]: row for row in changes}
    assert {key for key, row in told.items() if row["change"] == "left"} == set(ranks[0]) - set(ranks[1])
    assert {key for key, row in told.items() if row["change"] == "entered"} == set(ranks[1]) - set(ranks[0])
    assert {key for key in ranks[0] if key in ranks[1] and ranks[0][key] != ranks[1][key]} <= set(told)
    assert all((row["from_rank"], row["to_rank"]) == (ranks[0].get(k), ranks[1].get(k)) for k, row in told.items())
    assert changes
    refreshed = hv.index.refresh(spark, str(path), "emb")
    if table_type == "COPY_ON_WRITE":
        assert (refreshed.segments_made, refreshed.segments_kept) == (1, 4)
        assert_exact(spark, str(path), covered=4, metric="l2")
    assert_exact(spark, str(path), covered=4, metric="l2", as_of=first)
    tables.write(
        frame(spark, range(1, 60, 4)),
        path,
        datasource__write__operation="delete",
        datasource__write__partitionpath__field="category",
        **kind,
    )
    write(spark, path, range(5000, 5040), seed=4, **kind)
    assert_exact(spark, str(path), covered=0 if is_written_anew else None, metric="l2")
    hv.index.refresh(spark, str(path), "emb")
    assert_exact(spark, str(path), covered=4 if table_type == "COPY_ON_WRITE" else None, metric="l2")
    described = hv.index.describe(spark, str(path))
    assert [(one.column, one.metric, one.kind) for one in described] == [("emb", "l2", "ivf_sq8")]
    hv.index.drop(spark, str(path), "emb")
    assert hv.index.describe(spark, str(path)) == []
    assert_exact(spark, str(path), covered=0, metric="l2")


def test_hashes_of_keys_change_no_answer(spark, products, workspace, monkeypatch, caplog):
    path = tables.fresh_path(workspace, "hashed")
    kind = {"datasource__write__table__type": "MERGE_ON_READ", "datasource__write__precombine__field": "price"}
    write(spark, path, range(800), **kind)
    for made in ("ivf_sq8", "hnsw"):
        hv.index.create(spark, str(path), "emb", metric="l2", kind=made)
    for segment in indexed.segment_files(path) + indexed.segment_files(path, "emb/l2-hnsw"):
        held = pa.ipc.open_file(str(segment)).read_all()
        assert len(held["key_hash"][0]) == len(held["key_row"][0]) == 200
    assert "key_hash" not in pa.ipc.open_file(str(indexed.segment_files(products)[0])).schema.names
    parts = {"datasource__write__partitionpath__field": "category", **kind}
    write(spark, path, range(0, 400, 7), seed=9, **kind)
    late = frame(spark, range(1, 400, 9), seed=3).selectExpr("id", "name", "-1D AS price", "category", "emb")
    tables.write(late, path, **parts)
    tables.write(frame(spark, range(2, 800, 30)), path, datasource__write__operation="delete", **parts)

    def check():
        process_cache().clear()
        assert_exact(spark, str(path), covered=4, metric="l2", k=40)
        assert hv.last_reports()[0].slices == {"index": 4, "touched": 4}
        asked = {"metric": "l2", "mode": "approximate", "algorithm": "hnsw", "refine_factor": 9}
        query = clustered(4, 77)[1].astype(np.float64)
        expected, _ = answer(spark, str(path), query, mode="exact", metric="l2")
        spark.conf.set("hoodie.vector.cache.max.bytes", "0")
        for execution in ("local", "distributed"):
            found, report = answer(spark, str(path), query, execution=execution, **asked)
            assert found == expected
            assert (report.execution, report.proved) == (execution, 0)  # a graph proves nothing
            sure = {**asked, "algorithm": "ivf_sq8", "nprobes": 10_000}
            found, report = answer(spark, str(path), query, execution=execution, **sure)
            assert found == expected
            assert (report.execution, report.proved) == (execution, 5)
        spark.conf.unset("hoodie.vector.cache.max.bytes")

    whole = {segment: segment.read_bytes() for segment in indexed.segment_files(path)}
    with monkeypatch.context() as patch:
        indexed.forbid_whole_columns(patch)
        check()
        for segment in whole:
            indexed.rewrite_keys(segment, indexed.colliding)
        indexed.collide(patch)
        assert_exact(spark, str(path), covered=4, metric="l2", k=40)
    for segment, content in whole.items():
        segment.write_bytes(content)
        own = pa.ipc.open_file(str(segment)).schema.field("key_row").metadata[b"sha256"]
        segment.write_bytes(content.replace(own, b"0" * 64))
    problems = hv.index.verify(spark, str(path), "emb", kind="ivf_sq8", metric="l2")
    assert {problem.segment for problem in problems} == {segment.name for segment in whole}
    assert_exact(spark, str(path), covered=4, metric="l2", k=40)
    assert "record keys of a base file are read" in caplog.text
    for segment, content in whole.items():
        segment.write_bytes(content)
        indexed.rewrite_keys(segment, lambda _: None)
    assert hv.index.verify(spark, str(path), "emb", kind="ivf_sq8", metric="l2") == []
    assert_exact(spark, str(path), covered=4, metric="l2", k=40)
    for segment in whole:
        segment.unlink()
    assert_exact(spark, str(path), covered=None, metric="l2", k=40)


def test_an_index_is_looked_after(spark, workspace, capsys, caplog):
    path = tables.fresh_path(workspace, "tended")
    write(spark, path, range(600))

    def run(*words: str) -> tuple[int, list[dict]]:
        code = main(["index", words[0], "--table", str(path), "--format", "json", *words[1:]])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    column = ("--column", "emb")
    code, (made,) = run("build-if-missing", *column, "--metric", "l2", "--num-partitions", "16")
    assert (code, made["segments_made"], made["covered_rows"]) == (0, 4, 600)
    assert run("build-if-missing", *column, "--metric", "l2")[1][0]["segments_made"] == 0
    code, (measured,) = run("recall", *column, "--sample", "20", "--recall-target", "0.9")
    assert code == 0
    assert measured["recall"] >= 0.8
    assert main(["index", "recall", "--table", str(path), *column, "--at-least", "1.1"]) == 1
    assert "of the nearest rows, and 1.1 were wanted" in capsys.readouterr().err
    assert run("verify", *column) == (0, [])
    write(spark, path, range(600), seed=5)
    upkeep = hv.table_services.maintain
    assert [step.state for step in upkeep(spark, str(path), steps=["index"], dry_run=True).steps] == ["due"]
    assert [step.state for step in upkeep(spark, str(path), steps=["index"]).steps] == ["done"]
    assert run("refresh", *column)[1][0]["segments_made"] == 0
    every = upkeep(spark, str(path), steps=["compact_blobs", "clean_blobs", "index", "figures"])
    assert every.is_well, "a table with vectors alone needs nothing done about its blobs"
    assert "has no BLOB column" in every.steps[0].text
    (indexed,) = every.figures.indexes
    assert (indexed.name, indexed.covered, indexed.files) == ("emb, l2, ivf_sq8", 4, 4)
    assert 0.8 <= indexed.recall <= 1.0  # of the second measurement
    name = tables.fresh_name("tended")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(
        f"CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1, "
        "options => 'hoodie.metadata.enable=false,hoodie.embed.timeline.server=false')"
    )
    home = path / ".hoodie/vector_index/v1/emb/l2-ivf_sq8"
    assert upkeep(spark, str(path), steps=["index"]).steps[0].state == "nothing to do"
    assert len(list((home / "segments").iterdir())) == 8, "a generation that named them was the newest a moment ago"
    for file in home.rglob("*"):
        os.utime(file, (0, 0))
    assert "files of indexes were deleted" in upkeep(spark, str(path), steps=["index"]).steps[0].text
    assert len(list((home / "segments").iterdir())) == 4
    assert_exact(spark, str(path), covered=4, metric="l2")
    with hv.open(str(path), column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as reader:
        query = clustered(4, 77)[0].astype(np.float64)
        before = reader.search(query, 9, metric="l2", columns=["id"])
        hv.index.create(spark, str(path), "emb", metric="l2", num_partitions=8)
        gone = run("compact", *column, "--grace", "0s")[1]
        process_cache().clear()
        caplog.clear()
        assert reader.search(query, 9, metric="l2", columns=["id"]).table.equals(before.table)
        assert "cannot be read, its file is scanned" in caplog.text
    assert sorted(one["deleted"].partition("/")[0] for one in gone) == ["manifests", "models", *["segments"] * 4]
    assert_exact(spark, str(path), covered=4, metric="l2")
    segment = next((home / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:-100])
    code, (problem,) = run("verify", *column)
    assert code == 1
    assert problem["segment"] == segment.name
    assert_exact(spark, str(path), covered=4, metric="l2")
    assert run("drop", *column)[1][0]["segments"] == 4
    assert run("describe") == (0, [])
