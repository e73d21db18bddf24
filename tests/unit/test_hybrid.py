"""Hybrid search without Spark: files of several vector columns, against brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import hybrid
from support.damaged import cut_short
from support.hybrid import COLUMNS, found_in, planned

from hudi_vector.errors import DataFileError, InvalidArgumentError, InvalidTypeError, InvalidVectorError
from hudi_vector.kernels.metrics import INDEXED, METRICS, exact_distances
from hudi_vector.kernels.sparse import SparseVector, make_sparse_block, sparse_distances
from hudi_vector.kernels.topk import make_block
from hudi_vector.query.hybrid.checks import (
    as_fusion,
    as_metrics,
    as_normalize,
    as_probe,
    as_search_columns,
    as_sparse,
    as_weights,
    distance_names,
)
from hudi_vector.query.hybrid.question import HybridColumn
from hudi_vector.query.hybrid.ranks import ranks_needed
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.several import in_step
from hudi_vector.read.sparse import sparse_blocks, sparse_column_of
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions, open_storage

ROWS = 900


def eighths(values):
    """Coarse values, so that distances tie: whatever the order of the processor's sums, they are exact, and so are ties."""
    return (np.round(8 * values) / 8).tolist()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Three files, of several row groups; vectors are missing here and there."""
    folder = tmp_path_factory.mktemp("hybrid")
    numbers = np.random.default_rng(3)
    rows = []
    for i in range(ROWS):
        size = int(numbers.integers(0, 12))
        sparse = dict(zip(numbers.permutation(40)[:size].tolist(), numbers.normal(size=size).tolist(), strict=True))
        rows.append(
            {
                "id": f"{i:05d}",
                "price": float(i % 100),
                "a": None if i % 31 == 0 else numbers.normal(size=6).astype(np.float32).tolist(),
                "b": None if i % 47 == 0 else eighths(numbers.normal(size=3)),
                "s": None if i % 53 == 0 else {key: float(np.float32(value)) for key, value in sparse.items()},
                "w": None if i % 53 == 0 else {f"ü{key % 7}-{key}": value for key, value in sparse.items()},
                "t": None if i % 59 == 0 else {key + 7: value for key, value in sparse.items()},
            }
        )
    files = []
    for part in range(3):
        own = rows[part * 300 : (part + 1) * 300]
        table = pa.table(
            {
                "id": [row["id"] for row in own],
                "price": [row["price"] for row in own],
                "a": pa.array([row["a"] for row in own], pa.list_(pa.float32())),
                "b": pa.array([row["b"] for row in own], pa.list_(pa.float64())),
                "s": pa.array(
                    [None if row["s"] is None else list(row["s"].items()) for row in own],
                    pa.map_(pa.int32(), pa.float32()),
                ),
                "w": pa.array(
                    [None if row["w"] is None else list(row["w"].items()) for row in own],
                    pa.map_(pa.string(), pa.float64()),
                ),
                "t": pa.array(
                    [
                        None if row["t"] is None else {"indices": list(row["t"]), "values": list(row["t"].values())}
                        for row in own
                    ],
                    pa.struct([("indices", pa.list_(pa.int64())), ("values", pa.list_(pa.float64()))]),
                ),
            }
        )
        files.append(str(folder / f"{part}.parquet"))
        pq.write_table(table, files[-1], row_group_size=110)
    return files, rows


def asking(rows, names, metrics, weights, seed=0):
    numbers = np.random.default_rng(seed)
    queries = {
        "w": {f"ü{key % 7}-{key}": float(key) - 20 for key in numbers.permutation(40)[:8].tolist()},
        "a": numbers.normal(size=6).tolist(),
        "b": eighths(numbers.normal(size=3)),
        "s": {
            int(key): float(value)
            for key, value in zip(numbers.permutation(40)[:8], numbers.normal(size=8), strict=True)
        },
        "t": {
            int(key): float(value)
            for key, value in zip(numbers.permutation(50)[:8], numbers.normal(size=8), strict=True)
        },
    }
    return [
        (name, hybrid.Asked({row["id"]: row[name] for row in rows}, queries[name], metric, weight))
        for name, metric, weight in zip(names, metrics, weights, strict=True)
    ]


@pytest.mark.parametrize(
    "names", [("a",), ("a", "b"), ("s", "a"), ("t", "s"), ("b", "t", "a", "s"), ("a", "a"), ("w", "s")]
)
@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"fusion": "rrf"}], ids=str)
@pytest.mark.parametrize("k", [1, 7, 2000])
def test_the_rows_are_those_of_brute_force(written, names, how, k):
    files, rows = written
    weights = (0.3, 0.7, 1.5, 0.25)
    metrics = [sorted(INDEXED)[(k + len(how) + i) % 3] for i in range(len(names))]
    asked = asking(rows, names, metrics, weights[: len(names)], seed=k)
    got, _ = found_in(files, asked, k, **how)
    hybrid.assert_same(got, hybrid.brute_force([one for _, one in asked], k, **how))


def test_negative_and_zero_weights(written):
    files, rows = written
    for weights in ((1.0, -2.0, 0.0), (0.0, -1.0, -0.5), (-1.0, 0.0, 0.0)):
        asked = asking(rows, ("a", "b", "s"), ("cosine", "l2", "dot_product"), weights)
        got, _ = found_in(files, asked, 9)
        hybrid.assert_same(got, hybrid.brute_force([one for _, one in asked], 9))


@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"fusion": "rrf"}], ids=str)
def test_a_filter_chooses_the_rows_before_scores_and_ranks(written, how):
    files, rows = written
    kept = [row for row in rows if row["price"] < 10]
    asked = asking(kept, ("a", "t"), ("l2", "cosine"), (1.0, 0.5))
    got, progress = found_in(files, asked, 5, condition="price < 10", **how)
    hybrid.assert_same(got, hybrid.brute_force([one for _, one in asked], 5, **how))
    assert progress.counts.filtered + progress.counts.pruned == ROWS - len(kept)
    assert progress.counts.nulls == sum(row["a"] is None or row["t"] is None for row in kept)


@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"fusion": "rrf"}], ids=str)
def test_every_division_of_the_slices_gives_the_same_bits(written, how):
    files, rows = written
    asked = asking(rows, ("a", "b", "s", "t"), ("l2", "cosine", "dot_product", "l2"), (1.0, 0.5, 0.5, 2.0))
    one, _ = found_in(files, asked, 20, groups=[[0, 1, 2]], keep=False, **how)
    for groups in ([[2], [1], [0]], [[1, 2], [0]]):
        for keep in (True, False):
            assert found_in(files, asked, 20, groups=groups, keep=keep, **how)[0] == one
    assert found_in(files, asked, 20, **how)[0] == one


def test_rows_of_equal_score_come_by_file_and_position(tmp_path):
    path = str(tmp_path / "ties.parquet")
    pq.write_table(pa.table({"id": [str(i) for i in range(50)], "b": [[1.0, 0.0, 0.0]] * 50}), path)
    for how in ({}, {"fusion": "rrf"}):
        asked = [("b", hybrid.Asked({}, [1.0, 1.0, 0.0], "l2"))]
        got, _ = found_in([path], asked, 3, **how)
        assert [row[1] for row in got] == ["0", "1", "2"]
        assert len({row[0] for row in got}) == 1


def test_ranks_are_shared_and_the_next_one_is_skipped(tmp_path):
    path = str(tmp_path / "ranks.parquet")
    pq.write_table(
        pa.table({"id": ["a", "b", "c", "d"], "b": [[1.0, 0, 0], [1.0, 0, 0], [2.0, 0, 0], [9.0, 0, 0]]}), path
    )
    got, _ = found_in([path], [("b", hybrid.Asked({}, [0.0, 0.0, 0.0], "l2", 2.0))], 4, fusion="rrf")
    assert [(row[1], row[0]) for row in got] == [("a", 2 / 61), ("b", 2 / 61), ("c", 2 / 63), ("d", 2 / 64)]


@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"fusion": "rrf"}], ids=str)
def test_nothing_to_search_gives_no_rows(written, how):
    files, rows = written
    asked = asking(rows, ("a", "s"), ("l2", "cosine"), (1.0, 0.5))
    assert found_in(files, asked, 5, groups=[], **how)[0] == []
    assert found_in(files, asked, 5, condition="price < 0", **how)[0] == []


def test_invalid_sparse_vectors_are_left_out(tmp_path):
    path = str(tmp_path / "odd.parquet")
    kind = pa.struct([("indices", pa.list_(pa.int64())), ("values", pa.list_(pa.float64()))])
    vectors = [
        {"indices": [1, 2], "values": [1.0, 2.0]},
        {"indices": [1, 1], "values": [1.0, 2.0]},
        {"indices": [1], "values": [1.0, 2.0]},
        {"indices": [1], "values": [float("nan")]},
        {"indices": [None], "values": [1.0]},
        {"indices": [3], "values": [None]},
        {"indices": None, "values": [1.0]},
        {"indices": [], "values": []},
        None,
    ]
    pq.write_table(pa.table({"id": [str(i) for i in range(9)], "t": pa.array(vectors, kind)}), path)
    got, progress = found_in([path], [("t", hybrid.Asked({}, {1: 1.0}, "dot_product"))], 9)
    assert [(row[1], row[0]) for row in got] == [("0", 1.0), ("7", 0.0)]
    assert (progress.counts.rows, progress.counts.nulls) == (9, 7)


# The plain formulas of the oracle lose squares below 1e-308; those have a test of their own.
VALUES = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))
ENTRIES = st.dictionaries(st.integers(-50, 50), VALUES, max_size=8)


@given(st.lists(ENTRIES, min_size=1, max_size=6), ENTRIES, st.sampled_from(sorted(INDEXED)))
def test_sparse_distances_are_those_of_the_same_dense_vectors(rows, query, metric):
    row = np.repeat(np.arange(len(rows)), [len(entries) for entries in rows]).astype(np.int64)
    index = np.array([key for entries in rows for key in entries], np.int64)
    value = np.array([v for entries in rows for v in entries.values()], np.float64)
    block, invalid = make_sparse_block(row, index, value, np.arange(len(rows)))
    assert invalid == 0
    found = sparse_distances(block, as_sparse(query), metric)
    wanted = hybrid.distances(rows, query, metric)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 if metric != "dot_product" else 1e-6)
    alone = [
        sparse_distances(block.select(np.arange(len(rows)) == i), as_sparse(query), metric)[0] for i in range(len(rows))
    ]
    assert found.tolist() == alone


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e-302, 1e-308])
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_sparse_distances_beyond_the_range_of_squares(scale, metric):
    block, _ = make_sparse_block(
        np.array([0, 0, 1]), np.array([1, 2, 1]), np.array([3.0, 4.0, 1.0]) * scale, np.arange(2)
    )
    query = SparseVector(np.array([1]), np.array([3.0 * scale]))
    found = sparse_distances(block, query, metric)
    wanted = [0.4, 0.0] if metric == "cosine" else [4 * scale, 2 * scale]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-15 if metric == "cosine" else 0)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(INDEXED)), st.sampled_from([np.float32, np.float64, np.int8]))
def test_no_row_is_nearer_than_its_floor_or_farther_than_its_ceiling(seed, metric, dtype):
    numbers = np.random.default_rng(seed)
    scale = 10.0 ** numbers.integers(-3, 4) if dtype != np.int8 else 40
    values = (numbers.normal(size=(50, 16)) * scale).astype(dtype)
    queries = numbers.normal(size=(5, 16)) * scale
    queries[0] = values[0]
    block, _ = make_block(values, np.arange(50))
    precision = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    floors, ceilings = METRICS[metric].screen(queries, precision).spans(block)
    for number, query in enumerate(queries):
        exact = exact_distances(values, query, metric)
        assert (floors[:, number] <= exact).all()
        assert (exact <= ceilings[:, number]).all()


@given(st.lists(st.lists(st.integers(0, 60), unique=True, max_size=40).map(sorted), min_size=1, max_size=3), st.data())
def test_streams_in_step_give_the_rows_all_of_them_have(columns, data):
    def stream(positions):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(positions)), max_size=3)))
        for part in np.split(np.array(positions, np.int64), cuts):
            yield make_block(np.stack([part, part], axis=1).astype(np.float64), part)[0]

    found = list(in_step([stream(positions) for positions in columns]))
    wanted = sorted(set.intersection(*map(set, columns)))
    for number in range(len(columns)):
        assert [int(p) for blocks in found for p in blocks[number].positions] == wanted
        assert [float(v) for blocks in found for v in blocks[number].values[:, 0]] == wanted


def test_enough_ranks_decide():
    assert ranks_needed([1.0], 10) >= 10
    for weights in ([1.0, 1.0], [0.3, 0.7, 1.5], [5.0, 0.0]):
        for k in (1, 10, 500):
            needed = ranks_needed(weights, k)
            assert sum(weights) / (61 + needed) < max(weights) / (60 + k)


@pytest.mark.parametrize(
    ("check", "error", "words"),
    [
        (lambda: as_weights([1.0], 2, "weighted"), InvalidArgumentError, "1 weight was given for 2 search columns"),
        (lambda: as_weights([1.0, float("nan")], 2, "weighted"), InvalidArgumentError, "finite number, not nan"),
        (lambda: as_weights([0, 0.0], 2, "weighted"), InvalidArgumentError, "all weights are 0"),
        (lambda: as_weights([1, -1], 2, "rrf"), InvalidArgumentError, "no meaning for ranks"),
        (lambda: as_weights("x", 2, "rrf"), InvalidTypeError, "must be a list of numbers"),
        (lambda: as_weights([True, 1], 2, "rrf"), InvalidTypeError, "must be a number, not True"),
        (lambda: as_metrics(["l2"], 2), InvalidArgumentError, "1 metric was given for 2"),
        (lambda: as_metrics("manhattan", 2), InvalidArgumentError, "unknown metric"),
        (lambda: as_fusion("sum"), InvalidArgumentError, "give weighted or rrf"),
        (lambda: as_normalize(True, "rrf"), InvalidArgumentError, "has no meaning for fusion 'rrf'"),
        (lambda: as_normalize(1, "weighted"), InvalidTypeError, "must be true or false"),
        (lambda: as_search_columns("a"), InvalidTypeError, "must be a list of column names"),
        (lambda: as_search_columns([]), InvalidArgumentError, "is an empty list"),
        (lambda: as_search_columns([1]), InvalidTypeError, "must be text"),
        (lambda: as_probe({1: 2.0}, COLUMNS["a"], "t"), InvalidTypeError, "column 'a' of 't': the query is a sparse"),
        (lambda: as_probe([1.0], COLUMNS["a"], "t"), InvalidArgumentError, "column 'a' of 't': .* has 1 element"),
        (lambda: as_probe([1.0], COLUMNS["s"], "t"), InvalidTypeError, "column 's' of 't': the column holds sparse"),
        (lambda: as_sparse(None), InvalidVectorError, "is NULL"),
        (lambda: as_sparse(([1, 1], [0.5, 0.5])), InvalidVectorError, "names an index twice"),
        (lambda: as_sparse(([1], [0.5, 0.5])), InvalidVectorError, "1 index and 2 values"),
        (lambda: as_sparse({1: None}), InvalidVectorError, "holds NULL"),
        (lambda: as_sparse({1: float("inf")}), InvalidVectorError, "NaN or infinity"),
        (lambda: as_sparse({1.5: 1.0}), InvalidTypeError, "whole number, not 1.5"),
        (lambda: as_sparse({"x": 1.0}), InvalidTypeError, "whole number, not 'x'"),
        (lambda: as_sparse({"1": 1.0, 1: 2.0}, texts=True), InvalidVectorError, "names an index twice"),
        (lambda: as_sparse({1: "x"}), InvalidTypeError, "must be a number, not 'x'"),
    ],
)
def test_wrong_arguments_get_a_sentence(check, error, words):
    with pytest.raises(error, match=words):
        check()


def test_the_distances_have_names_of_their_own():
    assert distance_names(["text", "image", "Text"]) == ("_distance_text", "_distance_image", "_distance_Text_2")
    with pytest.raises(InvalidArgumentError, match="same name"):
        distance_names(["text", "text_2", "text"])


@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"fusion": "rrf"}], ids=str)
def test_query_rows_are_answered_as_single_queries_are(written, how):
    from hudi_vector.query.asking.output import Column
    from hudi_vector.query.asking.queries import QueryColumns
    from hudi_vector.query.asking.task import AskingTask
    from hudi_vector.query.hybrid.question import HybridQuestion
    from hudi_vector.spark.hybrid.batch import HybridFinder

    files, rows = written
    names = ("a", "t", "s")
    asked = [
        [one for _, one in asking(rows, names, ("l2", "cosine", "dot_product"), (1.0, 0.5, 2.0), n)] for n in range(4)
    ]
    sparse = pa.map_(pa.int32(), pa.float64())
    queries = pa.table(
        {
            "who": pa.array(["none", *(f"q{n}" for n in range(4))]),
            "x": pa.array([[1.0] * 6, *(one[0].query for one in asked)], pa.list_(pa.float64())),
            "y": pa.array([None, *(list(one[1].query.items()) for one in asked)], sparse),
            "z": pa.array([[], *(list(one[2].query.items()) for one in asked)], sparse),
        }
    )
    columns = tuple(
        HybridColumn(COLUMNS[name], one.metric, one.weight) for name, one in zip(names, asked[0], strict=True)
    )
    wanted = (VectorColumn("x", 0, "double", is_vector=False), sparse_column_of(queries.schema.field("y")))
    wanted = (*wanted, sparse_column_of(queries.schema.field("z")))
    outputs = (
        Column("who", "query", "who"),
        Column("id", "corpus", "id"),
        Column("score", "added", "score"),
        *(Column(name, "added", name) for name in ("_1", "_2", "_3")),
        Column("_rank", "rank", ""),
    )
    kinds = [pa.string(), pa.string(), *[pa.float64()] * 4, pa.int32()]
    question = HybridQuestion(columns, (), 5, how.get("fusion", "weighted"), how.get("normalize", False))
    answers = AskingTask(
        queries=QueryColumns(wanted, (COLUMNS["a"].dimension, None, None), "queries"),
        finder=HybridFinder(planned(files, 5), question, ("_1", "_2", "_3"), (("id", "id"),)),
        columns=outputs,
        schema=tuple(pa.field(output.name, kind) for output, kind in zip(outputs, kinds, strict=True)),
        k=5,
        cache=1 << 28,
    )
    found = pa.Table.from_batches(list(answers.over(queries.to_batches()))).to_pylist()
    assert {row["who"] for row in found} == {f"q{n}" for n in range(4)}
    for number, one in enumerate(asked):
        own = [row for row in found if row["who"] == f"q{number}"]
        assert [row["_rank"] for row in own] == list(range(1, 6))
        got = [(row["score"], row["id"], [row["_1"], row["_2"], row["_3"]]) for row in own]
        hybrid.assert_same(got, hybrid.brute_force(one, 5, **how))


def test_sparse_vectors_that_end_before_their_row_group_are_an_error(tmp_path: Path) -> None:
    kind = pa.map_(pa.int32(), pa.float32())
    held = pa.table({"words": pa.array([[(n, 1.0)] for n in range(200)], kind)})
    cut_short(held, tmp_path / "f.parquet", 100, 70, "key", "value")
    file = open_storage("file:///", StorageOptions()).info(f"file://{tmp_path}/f.parquet")
    column = sparse_column_of(held.schema.field("words"))
    assert file is not None
    assert column is not None
    spec = ScanSpec(file.uri, held.schema, VectorColumn("emb", 1, "float"))
    with pytest.raises(DataFileError, match="pyarrow reads 70 of column 'words'"):
        list(sparse_blocks(ParquetSlice(file, spec, keep=False), file, spec, column, False, ScanCounts()))
