"""Tables whose columns have the names of those that searches add, show only when named, or use inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType
from support import tables
from support.frames import planned

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.errors import InvalidArgumentError

ROWS, K = 12, 3
VECTORS = tables.vectors(ROWS, 7, 3).astype(np.float64)
STORED = ("c0", "c1", "c2")
NAMES = (
    "_rank", "_distance", "_hudi_distance", "_hudi_query_index", "_hudi_query_id", "_hudi_query__hudi_query_id",
    "_hudi_query_emb", "distance", "score", "_distance_emb", "_hudi_search_id", "_hudi_search__hudi_search_id",
    "right_id", "right_right_id", "rowtime", "__hudi_vector_query", "__hudi_vector_distance", "__hudi_vector_cost",
    "__hudi_vector_distances", "__hudi_vector_left", "__hudi_vector_id", "___hudi_vector_query", "file_path", "row_index",
)  # fmt: skip


def of(key: int, number: int) -> int:
    """What the column of this number holds in a row: no rank, no index and no distance."""
    return 1000 * (number % 3 + 1) + key


@pytest.fixture(scope="module")
def path(spark, workspace):
    path = tables.fresh_path(workspace, "taken")
    fields = [StructField("id", LongType()), *(StructField(name, LongType()) for name in STORED)]
    schema = StructType([*fields, hv.vector_field("emb", 3, "double")])
    rows = [(i, of(i, 0), of(i, 1), of(i, 2), vector.tolist()) for i, vector in enumerate(VECTORS)]
    far = [(*rows[0][:-1], [100.0, 100.0, 100.0]), *rows[1:]]
    tables.write(planned(spark, far, schema), path, datasource__write__operation="bulk_insert")
    tables.write(planned(spark, rows[:1], schema), path)
    return str(path)


@pytest.fixture(scope="module")
def stored(spark, path):
    return spark.read.format("hudi").load(path)


@dataclass(frozen=True)
class Way:
    """A search: who it answers, in which order its columns come, and which names of a table it refuses.

    `run` takes the views of the rows that are searched and of those that ask.
    """

    run: Callable[..., DataFrame]
    sides: tuple[str, ...] = ("searched",)
    refuses: dict[str, set[str]] | None = None
    computed: bool = False
    conf: tuple[tuple[str, str], ...] = ()
    shows_vectors: bool = False


def _sql(function: str) -> Callable[..., DataFrame]:
    def run(spark, searched, asking):
        text = function.format(
            searched=searched, asking=asking, k=K, q=f"array({','.join(map(repr, VECTORS[5].tolist()))})"
        )
        return spark.sql(f"SELECT * FROM {text}")

    return run


def _stream(spark, searched, asking):
    return hv.vector_search(spark.table(asking), searched, "emb", "emb", K, metric="l2")


def _knn(spark, searched, asking):
    return hv.knn_join(asking, searched, "emb", "emb", K, metric="l2")


def _hybrid(spark, searched, asking):
    return hv.hybrid_search(spark, searched, ["emb"], [VECTORS[5]], k=K, metrics="l2")


def _hybrid_batch(spark, searched, asking):
    return hv.hybrid_search_batch(spark, searched, ["emb"], asking, ["emb"], k=K, metrics="l2")


SINGLE = _sql("hudi_vector_search('{searched}', 'emb', {q}, {k}, 'l2')")
BATCH = _sql("hudi_vector_search_batch('{searched}', 'emb', '{asking}', 'emb', {k}, 'l2')")
RFC = _sql(
    "hudi_vector_search(base_table => '{asking}', base_col => 'emb', query_table => '{searched}', query_col => 'emb', "
    "k => {k}, distance_metric => 'l2')"
)
SPREAD = ((options.BATCH_COLLECT_MAX_BYTES.key, "0"),)
OF_SINGLE = {"searched": {"_distance"}}
OF_BATCH = {"searched": {"_distance", "_rank", "_hudi_query_index"}}
OF_RFC = {"asking": {"_distance", "_rank"}}
OF_HYBRID = {"searched": {"_distance_emb", "score", "_rank"}}
OF_HYBRID_BATCH = {"searched": {*OF_HYBRID["searched"], "_hudi_query_index"}}
OF_JOIN = {"searched": {"_distance", "_rank"}, "asking": {"_distance", "_rank"}}
OF_STREAM = {"asking": {"score", "_distance", "_rank"}}
TWO, ASKING_FIRST = ("searched", "asking"), ("asking", "searched")
WAYS = {
    "single": Way(SINGLE, refuses=OF_SINGLE),
    "single by spark": Way(SINGLE, refuses=OF_SINGLE, computed=True),
    "python": Way(lambda s, t, _: hv.search(s, t, "emb", VECTORS[5], K, metric="l2"), refuses=OF_SINGLE),
    "batch": Way(BATCH, TWO, OF_BATCH),
    "batch by spark": Way(BATCH, TWO, OF_BATCH, computed=True),
    "batch spread": Way(BATCH, TWO, OF_BATCH, conf=SPREAD),
    "two tables": Way(RFC, ASKING_FIRST, OF_RFC),
    "two tables spread": Way(RFC, ASKING_FIRST, OF_RFC, conf=SPREAD),
    "hybrid": Way(_hybrid, refuses=OF_HYBRID),
    "hybrid by spark": Way(_hybrid, refuses=OF_HYBRID, computed=True),
    "hybrid batch": Way(_hybrid_batch, TWO, OF_HYBRID_BATCH),
    "hybrid batch spread": Way(_hybrid_batch, TWO, OF_HYBRID_BATCH, conf=SPREAD),
    "join": Way(_knn, ASKING_FIRST, OF_JOIN, shows_vectors=True),
    "join in memory": Way(
        _knn, ASKING_FIRST, OF_JOIN, conf=((options.JOIN_PATH.key, "broadcast"),), shows_vectors=True
    ),
    "join in pairs": Way(_knn, ASKING_FIRST, OF_JOIN, conf=((options.JOIN_PATH.key, "crossjoin"),), shows_vectors=True),
    "stream": Way(_stream, ASKING_FIRST, OF_STREAM, shows_vectors=True),
}


def view(stored: DataFrame, name: str, columns: list[str], computed: bool = False) -> str:
    """A view of the table that shows its stored columns under these names, in turn."""
    shown = [f"{STORED[number % 3]} AS `{column}`" for number, column in enumerate(columns)]
    rows = stored.where("id + 0 >= 0") if computed else stored
    rows.selectExpr("id", *shown, "emb").createOrReplaceTempView(name)
    return name


def nearest(key: int) -> list[int]:
    return np.argsort(np.linalg.norm(VECTORS - VECTORS[key], axis=1), kind="stable")[:K].tolist()


@pytest.mark.parametrize(
    ("way", "spelled"),
    [*((way, str) for way in WAYS), *((way, str.upper) for way in ("single", "batch", "two tables", "stream"))],
    ids=[*WAYS, *(f"{way} in capitals" for way in ("single", "batch", "two tables", "stream"))],
)
def test_a_tables_columns_keep_their_values_whatever_they_are_called(spark, clean_session, stored, way, spelled):
    search = WAYS[way]
    for key, value in search.conf:
        spark.conf.set(key, value)
    shown = {
        side: [spelled(name) for name in NAMES if name not in (search.refuses or {}).get(side, ())] for side in TWO
    }
    views = [view(stored, f"taken_{side}", shown[side], search.computed and side == "searched") for side in TWO]
    found = search.run(spark, *views)
    assert len({name.lower() for name in found.columns}) == len(found.columns)
    both = found.select("*", *(f"`{name}`" for name in reversed(found.columns))).collect()
    width = len(found.columns)
    rows = [tuple(row)[:width] for row in both]
    assert [tuple(reversed(tuple(row)[width:])) for row in both] == rows
    of_query: dict[int, list[int]] = {}
    for row in rows:
        keys, at = {}, 0
        for side in search.sides:
            keys[side], own = row[at], shown[side]
            assert list(row[at + 1 : at + 1 + len(own)]) == [of(keys[side], number) for number in range(len(own))]
            names = found.columns[at : at + 1 + len(own)]
            assert names == ["id", *own] or side != search.sides[0]
            assert all(name.endswith(column) for name, column in zip(names, ["id", *own], strict=True))
            at += len(names) + search.shows_vectors
        of_query.setdefault(keys.get("asking", 5), []).append(keys["searched"])
    asked = range(ROWS) if "asking" in search.sides else [5]
    assert {key: sorted(got) for key, got in of_query.items()} == {key: sorted(nearest(key)) for key in asked}


@pytest.mark.parametrize("way", WAYS)
def test_names_that_a_search_always_shows_are_refused_in_one_sentence(spark, clean_session, stored, way):
    search = WAYS[way]
    for side, names in (search.refuses or {}).items():
        views = [view(stored, f"taken_{one}", ["c"]) for one in TWO]
        for name in sorted(names):
            view(stored, f"taken_{side}", [name.title()])
            with pytest.raises((InvalidArgumentError, AnalysisException)) as refused:
                search.run(spark, *views)
            assert f"has a column '{name}'".lower() in str(refused.value).lower()
            assert "the name of a column that the" in str(refused.value)


def test_a_batchs_rows_ask_again(spark, clean_session, stored):
    for limit in ("0", "1g"):
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, limit)
        view(stored, "taken_first", ["c"])
        batch = "hudi_vector_search_batch('taken_first', 'emb', {}, 'emb', 2, 'l2')"
        hop = f"TABLE(SELECT f.*, t.emb FROM {batch.format(chr(39) + 'taken_first' + chr(39))} f "
        hop += "JOIN taken_first t ON f.id = t.id)"
        found = spark.sql(f"SELECT * FROM {batch.format(hop)}")
        assert len(set(found.columns)) == len(found.columns)
        rows = found.collect()
        assert len(rows) == 2 * 2 * ROWS
        kinds = dict(found.dtypes)
        assert kinds["_hudi_query_index"] == kinds["_hudi_query__hudi_query_index"] == "bigint"
        first = {row["_hudi_query__hudi_query_id"] for row in rows}
        assert first == set(range(ROWS))


def test_a_query_sets_own_index_stays(spark, clean_session, stored):
    view(stored, "taken_first", ["c"])
    asking = spark.createDataFrame(
        [(7, VECTORS[1].tolist()), (9, VECTORS[2].tolist())], "_hudi_query_index INT, v ARRAY<DOUBLE>"
    )
    for limit in ("0", "1g"):
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, limit)
        found = hv.search_batch(spark, "taken_first", "emb", asking, "v", 1, metric="l2")
        rows = found.select("_hudi_query__hudi_query_index", "id").collect()
        assert sorted(tuple(row) for row in rows) == [(7, 1), (9, 2)]


def test_what_changed_counts_ranks_itself(spark, clean_session, stored):
    stored.createOrReplaceTempView("taken_rows")
    meta = "_hoodie_record_key, _hoodie_partition_path, _hoodie_commit_time"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW taken_first AS SELECT {meta}, c0 AS `_rank`, emb FROM taken_rows")
    first = min(row[0] for row in spark.sql("SELECT _hoodie_commit_time FROM taken_rows").collect())
    changes = hv.search_changes(
        spark, "taken_first", "emb", VECTORS[0].tolist(), ROWS, from_instant=first, metric="l2"
    ).collect()
    ranks = {row["_hoodie_record_key"]: (row["from_rank"], row["to_rank"]) for row in changes}
    assert ranks["0"] == (ROWS, 1)
    assert all(before + 1 == after for key, (before, after) in ranks.items() if key != "0")
