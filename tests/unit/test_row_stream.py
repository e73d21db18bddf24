"""All rows of an opened table as a stream of Arrow batches, and how pandas, polars and DuckDB take them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.archives import FIXTURES, unpack
from support.written_table import Row, WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.query.opened import vector_table

QUERY = [0.3, -0.2, 0.9, 0.1]
OWN = ["id", "name", "price", "grp", "emb"]


@pytest.fixture
def rows() -> list[Row]:
    return rows_of(60, "a", 1)


@pytest.fixture
def table(tmp_path: Path, rows: list[Row]) -> WrittenTable:
    """A table of six files of ten rows."""
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", f"f{n}"): rows[10 * n : 10 * n + 10] for n in range(6)})
    return written


@pytest.fixture
def opened(table: WrittenTable) -> Any:
    return hv.open(str(table.path), column="emb")


def ids(found: Any) -> list[int]:
    return sorted(pa.table(found).column("id").to_pylist())


def test_a_reader_has_all_rows_in_batches_of_at_most_a_size(opened: Any, rows: list[Row]) -> None:
    reader = opened.to_reader(batch_size=4)
    assert reader.schema.names == OWN
    batches = list(reader)
    assert max(batch.num_rows for batch in batches) == 4
    found = sorted(pa.Table.from_batches(batches).to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(60))
    for row, written in zip(found, rows, strict=True):
        np.testing.assert_allclose(row["emb"], written.emb, rtol=1e-6)


def test_columns_and_a_filter_choose_what_is_read(opened: Any, rows: list[Row]) -> None:
    found = opened.to_reader(["NAME", "id", "name"], "price < 50").read_all()
    assert found.column_names == ["name", "id"]
    assert ids(found) == [row.id for row in rows if row.price is not None and row.price < 50]
    assert opened.to_reader(["*", "_hoodie_record_key"]).schema.names == [*OWN, "_hoodie_record_key"]
    nothing = opened.to_reader(filter="price < -1")
    assert (nothing.schema.names, nothing.read_all().num_rows) == (OWN, 0)


def test_files_are_read_while_batches_are_taken(table: WrittenTable, opened: Any) -> None:
    """The last file is not there any more when its turn comes; what was read before has arrived."""
    reader = opened.to_reader()
    taken = [reader.read_next_batch().num_rows]
    next(table.path.rglob("f5*.parquet")).unlink()
    with pytest.raises(DataFileError, match=r"the data file '.*f5.*' cannot be (read|opened)"):
        taken.extend(batch.num_rows for batch in reader)
    assert taken[:3] == [10, 10, 10]


def test_a_reader_that_is_left_alone_ends(opened: Any) -> None:
    reader = opened.to_reader(batch_size=1)
    assert reader.read_next_batch().num_rows == 1
    del reader
    gc.collect()
    assert len(opened.to_reader().read_all()) == 60


def test_rows_deleted_in_a_delta_table_and_in_a_lance_dataset_do_not_come(tmp_path: Path) -> None:
    vectors = pa.array(np.ones((30, 4), "f4").tolist(), pa.list_(pa.float32()))
    held = pa.table({"id": range(30), "emb": vectors})
    deltalake.write_deltalake(str(tmp_path / "d"), held)
    deltalake.DeltaTable(str(tmp_path / "d")).delete("id = 3")
    left = [number for number in range(30) if number != 3]
    assert ids(hv.open(delta=str(tmp_path / "d"), column="emb").to_reader(["id"])) == left
    fixed = held.set_column(1, "emb", vectors.cast(pa.list_(pa.float32(), 4)))
    lance.write_dataset(fixed, str(tmp_path / "l"), max_rows_per_file=10).delete("id = 3")
    opened = hv.open(lance=str(tmp_path / "l"), column="emb")
    assert ids(opened.to_reader()) == left
    assert ids(opened.to_reader(["id"], "id > 10", 4)) == left[10:]


def test_rows_in_log_files_are_merged(tmp_path: Path) -> None:
    unpack(FIXTURES / "1.2.0_v8_mor.tar.gz", tmp_path)
    t = hv.open(str(tmp_path / "table"), column="emb")
    nearest = t.search(QUERY, 10_000, metric="l2", columns=["id"]).column("id").to_pylist()
    found = t.to_reader(["id", "emb"], "emb IS NOT NULL").read_all()
    assert found.column("id").to_pylist() != []
    assert ids(found) == sorted(nearest)


def test_libraries_of_arrow_take_tables_hits_and_readers(opened: Any) -> None:
    hits = opened.search(QUERY, 3, columns=["id"])
    assert pl.DataFrame(opened).shape == (60, 5)
    assert pl.DataFrame(hits)["id"].to_list() == hits.column("id").to_pylist()
    assert pa.table(opened).num_rows == 60
    assert pa.table(hits).equals(hits.table)
    assert pa.schema(opened).names == OWN
    assert pd.DataFrame.from_arrow(opened).shape == (60, 5)
    assert hits.to_pandas()["id"].tolist() == hits.column("id").to_pylist()
    again = pa.RecordBatchReader.from_stream(opened)
    assert again.read_all().num_rows == 60


def test_duckdb_finds_variables_by_their_names(opened: Any) -> None:
    hits = opened.search(QUERY, 3, columns=["id"])  # noqa: F841 - DuckDB reads it by its name
    reader = opened.to_reader(["id", "grp"])  # noqa: F841
    assert duckdb.sql("SELECT count(*), count(DISTINCT grp) FROM reader").fetchall() == [(60, 1)]
    joined = duckdb.sql("SELECT t.id, t.name FROM opened t JOIN hits USING (id) ORDER BY _distance").fetchall()
    assert [number for number, _ in joined] == duckdb.sql("SELECT id FROM hits").to_arrow_table()["id"].to_pylist()


def test_rows_and_a_frame_are_bounded(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(opened.rows()) == len(opened.to_pandas()) == 60
    assert list(opened.rows(limit=1)[0]) == OWN
    assert len(opened.rows(limit=25)) == len(opened.to_pandas(limit=25)) == 25
    monkeypatch.setattr(vector_table, "_MOST_ROWS", 59)
    for ask in (opened.rows, opened.to_pandas):
        with pytest.raises(InvalidArgumentError, match="has more than 59 rows; give a limit, or read batches"):
            ask()
    assert len(opened.rows(limit=60)) == 60


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": "id"}, InvalidTypeError, "columns must be a list of names, not 'id'"),
        ({"columns": []}, InvalidArgumentError, "columns is an empty list; name a column, or leave columns out"),
        ({"columns": ["idd"]}, UnknownColumnError, "did you mean 'id'"),
        ({"filter": 3}, InvalidTypeError, "the argument 'filter' must be text, not 3"),
        ({"filter": "pric < 3"}, UnknownColumnError, "did you mean 'price'"),
        ({"batch_size": 0}, InvalidArgumentError, "batch_size must be a whole number, 1 or more, not 0"),
        ({"batch": 3}, InvalidTypeError, "to_reader has no argument 'batch'; did you mean 'batch_size'"),
    ],
)
def test_wrong_input(opened: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        opened.to_reader(**arguments)


def test_wrong_limits_closed_tables_and_tables_for_spark(opened: Any, tmp_path: Path, rows: list[Row]) -> None:
    for limit in (0, -1, "all", True):
        with pytest.raises(InvalidArgumentError, match="limit must be a whole number, 1 or more"):
            opened.rows(limit=limit)
    opened.close()
    with pytest.raises(InvalidArgumentError, match="was closed; open it again"):
        opened.to_reader()
    written = WrittenTable(tmp_path / "s", properties={"hoodie.table.keygenerator.type": "TIMESTAMP"})
    written.commit({("a", "f1"): rows[:5]})
    with pytest.raises(UnsupportedTableError, match="key generator makes partition paths that are not"):
        hv.open(str(written.path), column="emb").to_reader()
