"""Columns of plain Parquet files whose names look like paths, which Parquet itself does not tell apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_vector as hv
from hudi_vector.errors import UnsupportedTableError

VECTORS = np.random.default_rng(5).normal(size=(40, 3))
NAMES = ["a.b", "é.漢", ".", "a.", "v`l", "list.element"]


@pytest.fixture(params=NAMES)
def opened(request: pytest.FixtureRequest, tmp_path: Path):
    """A file with a vector column of that name, among columns whose leaves have paths that are like it."""
    name = request.param
    rows = {
        "a": [{"z": i, "b": -i} for i in range(40)],
        name: pa.array(VECTORS.tolist()),
        f"{name}.c": [10 * i for i in range(40)],
        "words": [{str(i): [i, i]} for i in range(40)],
        "n.o.p": [i % 7 for i in range(40)],
    }
    types = pa.schema([("words", pa.map_(pa.string(), pa.list_(pa.int64())))])
    columns = {
        key: pa.array(value, types.field(key).type) if key in types.names else value for key, value in rows.items()
    }
    file = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table(columns), file, row_group_size=16)
    return name, hv.open(files=[file], column=name)


def test_rows_are_found_with_their_columns(opened) -> None:
    name, table = opened
    query = VECTORS[11] + 0.01
    order = np.argsort(((VECTORS - query) ** 2).sum(axis=1))[:5]
    hits = table.search(query, k=5, metric="l2", columns=[f"{name}.c", "n.o.p", "a", "words"])
    assert [row[f"{name}.c"] for row in hits.to_pylist()] == [10 * i for i in order]
    assert [row["n.o.p"] for row in hits.to_pylist()] == [i % 7 for i in order]
    assert [row["a"] for row in hits.to_pylist()] == [{"z": i, "b": -i} for i in order]
    assert [row["words"] for row in hits.to_pylist()] == [[(str(i), [i, i])] for i in order]
    found = table.search(query, k=1, metric="l2", columns=[name]).to_pylist()
    assert found[0][name] == pytest.approx(VECTORS[11].tolist())


def test_filters_ask_the_columns_that_they_name(opened) -> None:
    name, table = opened
    query = VECTORS[11]
    key = "`" + f"{name}.c".replace("`", "``") + "`"
    allowed = [i for i in range(40) if 10 * i >= 200 and i % 7 == 3]
    order = sorted(allowed, key=lambda i: ((VECTORS[i] - query) ** 2).sum())
    hits = table.search(query, k=9, metric="l2", columns=[f"{name}.c"], filter=f"{key} >= 200 AND `n.o.p` = 3")
    assert [row[f"{name}.c"] for row in hits.to_pylist()] == [10 * i for i in order]


@pytest.mark.parametrize("first", [0, 1])
def test_a_name_that_differs_by_case_is_no_missing_column(tmp_path: Path, first: int) -> None:
    """Spark reads it; its rows would be missing, or their values NULL."""
    spellings = [("id", "emb"), ("ID", "emb"), ("id", "EMB")]
    chosen = [spellings[0], spellings[1 + first]]
    for number, (key, vector) in enumerate(chosen):
        held = {key: [number], vector: [[1.0, 0.0]], "other": ["x"]}
        pq.write_table(pa.table(held), tmp_path / f"{number}.parquet")
    files = [str(tmp_path / f"{number}.parquet") for number in range(2)]
    with hv.open(files=files, column="emb") as table:
        wrong = ("id", "ID") if first == 0 else ("emb", "EMB")
        with pytest.raises(
            UnsupportedTableError, match=f"column '{wrong[0]}' is called '{wrong[1]}' in the file .*1.par"
        ):
            table.search([1.0, 0.0], k=5, columns=["id"])
        if first == 0:
            assert table.search([1.0, 0.0], k=5, columns=["other"]).num_rows == 2


def test_columns_whose_names_differ_by_case_alone_are_two(tmp_path: Path) -> None:
    rows = {"emb": [[1.0, 0.0]], "n": [1]}
    pq.write_table(pa.table({**rows, "N": [2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table(rows), tmp_path / "1.parquet")
    with hv.open(files=[str(tmp_path / f"{number}.parquet") for number in range(2)], column="emb") as table:
        assert table.search([1.0, 0.0], k=5, columns=["N"])["N"].to_pylist() == [2, None]
