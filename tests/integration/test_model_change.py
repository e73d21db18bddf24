"""A change of the embedding model on real tables: a column is added, filled, compared with the old one.

Answers of the new column are compared with numpy on what the new model makes of the rows.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import tables
from support.frames import planned
from support.quick import FILTERS_OF_HUDI, QUICK

import hudi_vector as hv
from hudi_vector.command.main import main
from hudi_vector.errors import (
    DimensionMismatchError,
    HudiVectorError,
    InvalidArgumentError,
    InvalidTypeError,
    InvalidVectorError,
    UnknownColumnError,
)
from hudi_vector.vectors.opened import opened_for_change

ROWS = 40
# Files are as large as Hudi makes them, since a price is about their size.
KEEPING = {**QUICK, **FILTERS_OF_HUDI, "hoodie.clean.automatic": "false"}
NEW = 3


def vector(number: int, text: str) -> list[float]:
    """What the new model makes of a row."""
    return [float(number), float(len(text)), float(number % 7)]


def embed(rows: pd.DataFrame) -> np.ndarray:
    """The new model, on the columns id and text."""
    return np.array([vector(number, text) for number, text in zip(rows["id"], rows["text"], strict=True)], np.float32)


def text(number: int) -> str | None:
    """The source of a row; one has none."""
    return None if number == 5 else "a" * (1 + number * number % 11)


def made(spark: SparkSession, workspace: Path, kind: str) -> str:
    """A table of four file groups, in two partitions."""
    path = str(tables.fresh_path(workspace, "model"))
    rows = [(i, text(i), i % 2, i, [float(i), 1.0]) for i in range(ROWS)]
    frame = planned(spark, rows, "id INT, text STRING, part INT, ts INT, old ARRAY<FLOAT>")
    hv.write(
        frame.repartitionByRange(2, "id"), path, record_key="id", partition_by="part", table_type=kind,
        vectors={"old": 2}, operation="bulk_insert", options=KEEPING,
    )  # fmt: skip
    return path


def held(spark: SparkSession, path: str) -> dict[int, Any]:
    """The rows by id, as Hudi reads them."""
    rows = spark.read.format("hudi").load(path).select("id", "text", "part", "ts", "old", "new").collect()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: tuple(row)[1:] for row in rows}


def expected() -> dict[int, Any]:
    """The rows with the new vectors."""
    return {
        i: (text(i), i % 2, i, [float(i), 1.0], None if text(i) is None else vector(i, text(i) or ""))
        for i in range(ROWS)
    }


def nearest(query: list[float], k: int) -> list[float]:
    """The distances of the k nearest rows by numpy."""
    stored = np.array([row[4] for row in expected().values() if row[4] is not None])
    return sorted(np.linalg.norm(stored - query, axis=1))[:k]


@dataclass(frozen=True)
class Change:
    """A table, what adding the column gave, the price of filling it, what filling it gave, and copies after each step.

    Each commit fills at most so many rows: half of them, or all.
    """

    path: str
    batch_rows: int
    added: Any
    price: Any
    done: Any
    kept: Path

    def copy(self, step: str) -> str:
        """A copy of the table as it was when it was ``made``, when the column was ``added``, or ``filled``."""
        return str(shutil.copytree(self.kept / step, tables.fresh_path(self.kept.parent, "model")))


@pytest.fixture(scope="module")
def change(spark: SparkSession, workspace: Path) -> Callable[[str], Change]:
    """The change of a table of copy-on-write or merge-on-read, made when it is first asked for."""

    @cache
    def of(kind: str) -> Change:
        path, kept = made(spark, workspace, kind), tables.fresh_path(workspace, "kept")
        shutil.copytree(path, kept / "made")
        added = hv.vectors.add_column(spark, path, "new", f"VECTOR({NEW})", options=KEEPING)
        shutil.copytree(path, kept / "added")
        batch_rows = ROWS // 2 if kind == "cow" else ROWS
        asked = {"source": ["id", "text"], "batch_rows": batch_rows, "options": KEEPING}
        price = hv.vectors.backfill(spark, path, "new", embed, **asked, dry_run=True)
        done = hv.vectors.backfill(spark, path, "new", embed, **asked, call_rows=7)
        shutil.copytree(path, kept / "filled")
        return Change(path, batch_rows, added, price, done, kept)

    return of


@pytest.fixture(scope="module", params=["cow", "mor"])
def filled(request: pytest.FixtureRequest, change: Callable[[str], Change]) -> Change:
    """A table whose column was added and filled."""
    return change(request.param)


def test_a_filled_column_is_searched_as_numpy_does(spark: SparkSession, filled: Change) -> None:
    path, price, done = filled.path, filled.price, filled.done
    assert held(spark, path) == expected()
    before = spark.read.format("hudi").option("as.of.instant", filled.added.instant).load(path)
    assert [row[0] for row in before.select("new").distinct().collect()] == [None]
    query = [17.2, 4.0, 3.0]
    found = hv.search(spark, path, "new", query, k=6, metric="l2").collect()
    assert [row["_distance"] for row in found] == pytest.approx(nearest(query, 6))
    assert (price.to_fill, price.file_groups, price.filled, price.instants) == (ROWS - 1, 4, 0, ())
    assert (done.filled, done.changed, len(done.instants)) == (ROWS - 1, 0, price.estimated_commits)
    assert price.estimated_commits == ROWS / filled.batch_rows
    assert price.vector_bytes == (ROWS - 1) * NEW * 4
    assert done.written_bytes > 0


def test_the_price_of_copy_on_write_is_what_is_written(filled: Change) -> None:
    path, price, done = filled.path, filled.price, filled.done
    if "COPY_ON_WRITE" in (Path(path) / ".hoodie/hoodie.properties").read_text():
        assert done.written_bytes == pytest.approx(price.estimated_bytes, rel=0.05)
    else:
        assert done.written_bytes < sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))


def test_what_is_filled_is_not_filled_again(spark: SparkSession, filled: Change) -> None:
    path = filled.path
    before = sorted((Path(path) / ".hoodie/timeline").iterdir())
    assert hv.vectors.add_column(spark, path, "NEW", (NEW, "float")).instant is None
    again = hv.vectors.backfill(spark, path, "new", embed, source=["id", "text"], options=KEEPING)
    assert (again.to_fill, again.filled, again.instants) == (0, 0, ())
    assert sorted((Path(path) / ".hoodie/timeline").iterdir()) == before


def test_a_table_with_blobs_gets_a_column_whatever_its_writers_may_lack(spark: SparkSession, workspace: Path) -> None:
    path = str(tables.fresh_path(workspace, "model"))
    frame = planned(spark, [(1, bytearray(b"x"), [1.0, 2.0])], "id INT, img BINARY, old ARRAY<FLOAT>")
    hv.write(frame, path, record_key="id", vectors={"old": 2}, blobs=["img"], options=KEEPING)
    lacking = {**KEEPING, "hoodie.write.set.null.for.missing.columns": "true"}
    assert hv.vectors.add_column(spark, path, "new", 3, options=lacking).instant is not None
    assert spark.read.format("hudi").load(path).select("old", "new").first() == ([1.0, 2.0], None)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_changed_row_keeps_its_values(spark: SparkSession, workspace: Path, tmp_path: Path, kind: str) -> None:
    """Another writer changes rows between the read of their source and the commit: only others get vectors."""
    path = str(tables.fresh_path(workspace, "model"))
    rows = [(i, "older", [float(i)], None) for i in range(9)]
    both = "id INT, text STRING, old ARRAY<FLOAT>, new ARRAY<FLOAT>"
    hv.write(
        planned(spark, rows, both).coalesce(1), path, record_key="id", table_type=kind,
        vectors={"old": 1, "new": 1}, operation="bulk_insert", options=QUICK,
    )  # fmt: skip
    has_read, has_written = tmp_path / "read", tmp_path / "written"

    def waiting(rows: pd.DataFrame) -> list[list[float]]:
        """Compute when the other writer has come and gone; one task waits, so that another core can write."""
        has_read.touch()
        wait_for(has_written)
        return [[-float(number)] for number in rows["id"]]

    def write() -> None:
        wait_for(has_read)
        changed = planned(spark, [(2, "newer", [7.0], None)], both)
        hv.write(changed, path, record_key="id", vectors={"old": 1, "new": 1}, options=QUICK)
        has_written.touch()

    with ThreadPoolExecutor(1) as other:
        writing = other.submit(write)
        done = hv.vectors.backfill(spark, path, "new", waiting, source="id", options=QUICK)
        writing.result()
    assert (done.to_fill, done.filled, done.changed) == (9, 8, 1)
    known = spark.read.format("hudi").load(path).where("id = 2").select("text", "old", "new").collect()
    assert known == [("newer", [7.0], None)]
    assert hv.vectors.backfill(spark, path, "new", waiting, source="id", options=QUICK).filled == 1
    read = spark.read.format("hudi").load(path).select("id", "text", "new").collect()
    assert {row["id"]: tuple(row)[1:] for row in read} == {
        i: ("newer" if i == 2 else "older", [-float(i)]) for i in range(9)
    }


def wait_for(file: Path) -> None:
    """Wait for a file of another thread or process."""
    end = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < end, file
        time.sleep(0.02)


def test_two_columns_are_compared(spark: SparkSession, filled: Change) -> None:
    path = filled.path
    stored = expected()
    old, new = [[10.3, 1.0], [30.2, 1.0]], [[10.31, 2.2, 3.1], [25.27, 5.4, 1.3]]

    def oracle(query: list[float], place: int) -> list[str]:
        known = {key: np.array(row[place]) for key, row in stored.items() if row[place] is not None}
        return [str(key) for key in sorted(known, key=lambda key: (np.linalg.norm(known[key] - query), key))[:5]]

    labels = [["10", "9"], []]
    result = hv.vectors.compare(spark, path, "old", "new", old, new, k=5, metric="l2", labels=labels)
    for number, each in enumerate(result.queries):
        was, now = oracle(old[number], 3), oracle(new[number], 4)
        assert {row.key: row.old_rank for row in each.ranks if row.old_rank} == {k: r for r, k in enumerate(was, 1)}
        assert {row.key: row.new_rank for row in each.ranks if row.new_rank} == {k: r for r, k in enumerate(now, 1)}
        assert each.overlap == len(set(was) & set(now)) / 5
        assert each.entered == each.left == len(set(now) - set(was))
    assert result.queries[0].old_recall == 1.0
    assert result.queries[0].new_recall == len({"9", "10"} & set(oracle(new[0], 4))) / 2
    assert result.queries[1].old_recall is None
    assert len(result.to_pandas()) == 2
    assert "mean overlap" in repr(result)
    assert "<table>" in result._repr_html_()


def short(rows: pd.DataFrame) -> np.ndarray:
    """A model with vectors of another length."""
    return np.zeros((len(rows), 2))


def broken(rows: pd.DataFrame) -> np.ndarray:
    """A model that returns NaN."""
    return np.full((len(rows), 3), np.nan)


WRONG = [
    (lambda s, p: hv.vectors.add_column(s, p, "old", 9), InvalidArgumentError, "already, of type VECTOR(2)"),
    (lambda s, p: hv.vectors.add_column(s, p, "text", 9), InvalidArgumentError, "already, of type STRING"),
    (lambda s, p: hv.vectors.add_column(s, p, "_hoodie_x", 9), InvalidArgumentError, "give another name"),
    (lambda s, p: hv.vectors.add_column(s, p, "x", "VEC"), InvalidArgumentError, "is no vector type"),
    (lambda s, p: hv.vectors.backfill(s, p, "text", embed, source="id"), InvalidTypeError, "which is no VECTOR"),
    (lambda s, p: hv.vectors.backfill(s, p, "nwe", embed, source="id"), UnknownColumnError, "did you mean 'new'"),
    (lambda s, p: hv.vectors.backfill(s, p, "new", 7, source="id"), InvalidTypeError, "embed is a function"),
    (lambda s, p: hv.vectors.backfill(s, p, "new", embed, source=[]), InvalidArgumentError, "name one or more columns"),
    (lambda s, p: hv.vectors.backfill(s, p, "new", embed, source="new"), InvalidArgumentError, "other than 'new'"),
    (
        lambda s, p: hv.vectors.backfill(s, p, "new", embed, source="id", batch_rows=0),
        InvalidArgumentError,
        "batch_rows",
    ),
    (lambda s, p: hv.vectors.backfill(s, p, "new", short, source="id"), DimensionMismatchError, "return one of shape"),
    (lambda s, p: hv.vectors.backfill(s, p, "new", broken, source="id"), InvalidVectorError, "NaN or infinity"),
    (lambda s, p: hv.vectors.compare(s, p, "old", "old", [[1, 1]], []), InvalidArgumentError, "the same questions"),
    (
        lambda s, p: hv.vectors.compare(s, p, "old", "old", [[1, 1]], [[1, 1]], labels=[]),
        InvalidArgumentError,
        "there are 1; give 1",
    ),
    (
        lambda s, p: hv.vectors.compare(s, p, "old", "old", [[1, 1]], [[1, 1]], labels="ab"),
        InvalidTypeError,
        "labels is a list",
    ),
]


def test_wrong_input_gets_one_sentence(
    spark: SparkSession, change: Callable[[str], Change], caplog: pytest.LogCaptureFixture
) -> None:
    path = change("cow").copy("added")
    for call, kind, part in WRONG:
        with pytest.raises(HudiVectorError) as caught:
            call(spark, path)  # type: ignore[no-untyped-call]
        assert isinstance(caught.value, kind), part
        assert part in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not [record for record in caplog.records if record.name.startswith("hudi_vector")], "the sentence says all"
    assert {row[4] for row in held(spark, path).values()} == {None}


def test_a_search_without_a_column_uses_the_one_of_its_time(
    spark: SparkSession, change: Callable[[str], Change]
) -> None:
    known = change("cow")
    path, added, done = known.copy("filled"), known.added, known.done
    old, new = [12.0, 1.0], [17.2, 4.0, 3.0]

    def found(query: list[float], **how: Any) -> list[float]:
        return [row["_distance"] for row in hv.search(spark, path, query=query, k=3, metric="l2", **how).collect()]

    was = sorted(np.linalg.norm(np.array([[i, 1.0] for i in range(ROWS)]) - old, axis=1))[:3]
    assert found(old) == pytest.approx(was), "the only column of before, until another is chosen"
    with pytest.raises(DimensionMismatchError, match="column 'old'"):
        found(new)
    chosen = hv.vectors.use(spark, path, "new", options=KEEPING)
    assert found(new) == pytest.approx(nearest(new, 3))
    assert [row["_distance"] for row in hv.search_batch(spark, path, queries=[new], k=3, metric="l2").collect()] == (
        pytest.approx(nearest(new, 3))
    )
    sql = f"SELECT * FROM hudi_vector_search(table => '{path}', query_vector => array({new[0]}, {new[1]}, {new[2]}), "
    assert [r["_distance"] for r in spark.sql(sql + "k => 3, distance_metric => 'l2')").collect()] == (
        pytest.approx(nearest(new, 3))
    )
    for then in (added.instant, *done.instants):
        assert found(old, as_of=then) == pytest.approx(was), "a time before the choice has the old column"
    assert hv.vectors.use(spark, path, "new").instant is None
    assert held(spark, path) == expected()
    back = hv.vectors.use(spark, path, "old", options=KEEPING)
    assert found(old) == pytest.approx(was)
    assert found(new, as_of=chosen.instant) == pytest.approx(nearest(new, 3))
    assert back.instant is not None


def test_a_table_is_loaded_again_only_when_it_has_changed(spark: SparkSession, change: Callable[[str], Change]) -> None:
    known = change("cow")
    path = known.copy("made")
    work = opened_for_change(spark, path, None)
    assert work.now() is work.now() is work.known
    shutil.copytree(known.kept / "filled", path, dirs_exist_ok=True)
    filled = work.now()
    assert filled is work.now()
    assert {row["new"] is None for row in filled.frame.where("id != 5").select("new").collect()} == {False}


def test_without_spark_the_choice_is_seen_by_a_refresh(spark: SparkSession, change: Callable[[str], Change]) -> None:
    known = change("cow")
    path = known.copy("made")
    with hv.open(path) as opened:
        assert opened.column == "old"
        shutil.copytree(known.kept / "filled", path, dirs_exist_ok=True)
        assert opened.refresh()
        assert opened.column == "old"
        chosen = hv.vectors.use(spark, path, "new", options=KEEPING)
        assert opened.refresh()
        assert opened.column == "new"
        hits = opened.search([17.2, 4.0, 3.0], k=4, metric="l2")
        assert hits["_distance"].to_pylist() == pytest.approx(nearest([17.2, 4.0, 3.0], 4))
        assert "new" not in hits.column_names
        before = str(int(chosen.instant) - 1)
        assert opened.search([12.0, 1.0], k=1, metric="l2", as_of=before)["_distance"].to_pylist() == [0.0]
    with hv.open(path, as_of=before) as earlier:
        assert earlier.column == "old"


def test_several_columns_of_which_none_was_chosen(spark: SparkSession, workspace: Path) -> None:
    path = str(tables.fresh_path(workspace, "model"))
    frame = planned(spark, [(1, [1.0], [2.0])], "id INT, a ARRAY<FLOAT>, b ARRAY<FLOAT>")
    hv.write(frame, path, record_key="id", vectors={"a": 1, "b": 1}, options=QUICK)
    for call in (lambda: hv.search(spark, path, query=[1.0]), lambda: hv.open(path)):
        with pytest.raises(
            InvalidArgumentError, match=r"has the VECTOR columns a, b, and none was chosen .*vectors\.use"
        ):
            call()
    with pytest.raises(InvalidTypeError, match="is INT, which is no VECTOR"):
        hv.vectors.use(spark, path, "id")


def test_a_dropped_column_leaves_the_files(spark: SparkSession, filled: Change) -> None:
    path = filled.path
    known = held(spark, path)
    before = {holder.path for holder in hv.vectors.find_vectors(spark, path, "old")}
    assert before == {str(file.relative_to(path)) for file in Path(path).rglob("*") if keeps(file, "old")}
    hv.vectors.use(spark, path, "old", options=KEEPING)
    with pytest.raises(InvalidArgumentError, match=r"choose another one with hv\.vectors\.use"):
        hv.vectors.drop_column(spark, path, "old")
    hv.vectors.use(spark, path, "new", options=KEEPING)
    asked, commits = {"batch_rows": filled.batch_rows, "options": KEEPING}, 1 + ROWS // filled.batch_rows
    price = hv.vectors.drop_column(spark, path, "old", **asked, dry_run=True)
    assert held(spark, path) == known
    assert (price.to_clear, price.estimated_commits, {each.path for each in price.holders}) == (ROWS, commits, before)
    done = hv.vectors.drop_column(spark, path, "old", **asked)
    assert (done.cleared, len(done.instants), done.dropped) == (ROWS, commits, True)
    frame = spark.read.format("hudi").load(path)
    assert "old" not in frame.columns
    rows = {row["id"]: (row["text"], row["part"], row["ts"], row["new"]) for row in frame.collect()}
    assert rows == {i: (*row[:3], row[4]) for i, row in known.items()}
    left = {holder.path for holder in hv.vectors.find_vectors(spark, path, "old")}
    assert left == before == {holder.path for holder in done.holders}
    query = [17.2, 4.0, 3.0]
    found = hv.search(spark, path, query=query, k=6, metric="l2").collect()
    assert [row["_distance"] for row in found] == pytest.approx(nearest(query, 6))
    was = hv.search(spark, path, "old", [12.0, 1.0], k=1, metric="l2", as_of=filled.done.instants[-1]).collect()
    assert [row["_distance"] for row in was] == [0.0]


MODEL = """
import numpy as np

WEIGHTS = np.array([1.0, 10.0])

def embed(rows):
    return rows[["id", "part"]].to_numpy(float) * WEIGHTS

def fails(rows):
    raise KeyError("no model")
"""


def test_the_commands_change_the_model(
    clean_session: SparkSession,  # commands leave their settings in the session
    change: Callable[[str], Change],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_model.py").write_text(MODEL)
    path = change("cow").copy("made")

    def ran(*words: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
        capfd.readouterr()
        given = [word for key, value in KEEPING.items() for word in ("--conf", f"{key}={value}")]
        ended = main(["vectors", words[0], path, *words[1:], *given, "--format", "json"])
        out, err = capfd.readouterr()
        assert ended == code, err
        return [json.loads(line) for line in out.splitlines()], err

    (added,), said = ran("add-column", "--column", "new", "--vector", "2")
    assert (added["vector"], said) == ("VECTOR(2)", "hudi-vector: 'new' is VECTOR(2)\n")
    fill = ["backfill", "--column", "new", "--source", "id", "--source", "part"]
    (price,), said = ran(*fill, "--function", "own_model:embed")
    assert (price["to_fill"], price["estimated_commits"], price["filled"]) == (ROWS, 1, 0)
    assert said.endswith("nothing was written: this was a dry run\nhudi-vector: give --yes to do it\n")
    assert "KeyError: 'no model'" in ran(*fill, "--function", "own_model:fails", "--yes", code=1)[1].splitlines()[-1]
    (done,), said = ran(*fill, "--function", "own_model:embed", "--yes")
    assert (done["filled"], len(done["instants"])) == (ROWS, 1)
    assert f"written: {ROWS} rows, 1 commit, " in said
    rows = clean_session.read.format("hudi").load(path).select("id", "new").collect()
    assert {row["id"]: row["new"] for row in rows} == {i: [i, 10.0 * (i % 2)] for i in range(ROWS)}
    (tmp_path / "old.json").write_text("[[7, 1]]")
    (tmp_path / "new.json").write_text("[[7, 10]]")
    (tmp_path / "labels.json").write_text('[["7"]]')
    asked = ["--old-queries", "old.json", "--new-queries", "new.json", "--labels", "labels.json", "--metric", "l2"]
    (row,), said = ran("compare", "--old", "old", "--new", "new", "-k", "3", *asked)
    assert (row["old_recall"], row["new_recall"], row["overlap"]) == (1.0, 1.0, 1 / 3)
    assert ran("use", "--column", "new")[1] == "hudi-vector: searches that name no column use 'new'\n"
    assert ran("drop-column", "--column", "new", code=2)[1].count("\n") == 1
    (price,), said = ran("drop-column", "--column", "old")
    assert said.endswith("give --yes to do it\n")
    held_by, said = ran("find", "--column", "old")
    assert (price["to_clear"], price["holders"]) == (ROWS, len(held_by))
    assert said == f"hudi-vector: {len(held_by)} data files hold vectors of 'old'\n"
    assert "old" in clean_session.read.format("hudi").load(path).columns


def keeps(file: Path, column: str) -> bool:
    """Whether a data file of a table holds a value of a column, read by pyarrow; of logs those of a table of rows."""
    if file.suffix == ".parquet" and ".hoodie" not in file.parts:
        held = pq.read_table(file)
        return column in held.column_names and held[column].null_count < held.num_rows
    return ".log." in file.name and not file.name.endswith(".crc")


def test_the_catalog_shows_the_columns(spark: SparkSession, change: Callable[[str], Change], quick_sql: None) -> None:
    path, name = change("cow").copy("filled"), tables.fresh_name("model")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    hv.vectors.add_column(spark, name, "later", 2, options=KEEPING)
    assert spark.table(name).schema["later"].metadata["hudi_type"] == "VECTOR(2)"
    price = hv.vectors.backfill(spark, name, "later", embed, source=["id", "text"], dry_run=True)
    assert (price.table, price.to_fill) == (f"file://{path}", ROWS - 1)
    chosen = hv.vectors.use(spark, name, "new", options=KEEPING)
    hv.index.create(spark, name, "old", num_partitions=2)
    done = hv.vectors.drop_column(spark, name, "old", options=KEEPING)
    assert (done.dropped, done.indexes) == (True, 1)
    assert not list(Path(path, ".hoodie/vector_index").rglob("*.seg*"))
    assert "old" not in spark.table(name).columns
    query = [17.2, 4.0, 3.0]
    found = hv.search(spark, name, query=query, k=3, metric="l2").collect()
    assert [row["_distance"] for row in found] == pytest.approx(nearest(query, 3))
    was = hv.search(spark, name, "old", [12.0, 1.0], k=1, metric="l2", as_of=chosen.instant).collect()
    assert [row["_distance"] for row in was] == [0.0]
    spark.sql(f"INSERT INTO {name} SELECT 99 AS id, 'sql' AS text, 99 AS ts, NULL AS new, NULL AS later, 1 AS part")
    assert spark.table(name).where("id = 99 AND new IS NULL").count() == 1
