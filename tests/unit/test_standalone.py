"""The search without Spark, over tables written by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.opened import found_in, plan_of
from support.written_table import Row, WrittenTable, brute_force, rows_of

from hudi_vector.errors import (
    DataFileError,
    DimensionMismatchError,
    HudiVectorError,
    InstantNotAvailableError,
    InvalidArgumentError,
    InvalidFilterError,
    InvalidTypeError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.query.opened import request as asked

QUERY = [0.3, -0.2, 0.9, 0.1]


@pytest.fixture
def rows() -> list[Row]:
    return [*rows_of(40, "a", 1), *rows_of(30, "b", 2, first=40)]


@pytest.fixture
def table(tmp_path: Path, rows: list[Row]) -> WrittenTable:
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", "f1"): rows[:20], ("a", "f2"): rows[20:40], ("b", "f3"): rows[40:]})
    return written


def found_keys(table: WrittenTable, **arguments: Any) -> list[str]:
    settings = {"query": QUERY, "k": 5, "metric": "l2", **arguments}
    return found_in(table.path, **settings).column("_hoodie_record_key").to_pylist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
@pytest.mark.parametrize("element", ["float", "double", "int8"])
def test_the_rows_are_the_nearest(tmp_path: Path, metric: str, element: str) -> None:
    numbers = np.random.default_rng(3).integers(-9, 9, (60, 4))
    rows = [Row(i, "a", None, None, tuple(map(float, vector))) for i, vector in enumerate(numbers)]
    written = WrittenTable(tmp_path / "t", element=element)
    written.commit({("a", "f1"): rows[:25], ("a", "f2"): rows[25:]})
    found = found_in(written.path, QUERY, 7, metric=metric)
    expected = brute_force(rows, QUERY, 7, metric)
    assert found.column("_hoodie_record_key").to_pylist() == [key for _, key, _ in expected]
    np.testing.assert_allclose(found.column("_distance").to_numpy(), [row[0] for row in expected], rtol=1e-12)
    assert found.report.reached_k
    assert found.report.rows_seen == 60


def test_all_columns_but_the_vector_come_by_default(table: WrittenTable) -> None:
    found = found_in(table.path, QUERY, 2, columns=["*"])
    assert found.column_names == ["id", "name", "price", "grp", "_distance"]
    assert found.schema.field("_distance").type == pa.float64()


def test_columns_are_chosen_whatever_their_capitals(table: WrittenTable, rows: list[Row]) -> None:
    found = found_in(table.path, QUERY, 1, column="EMB", metric="l2", columns=["ID", "emb"])
    assert found.column_names == ["id", "emb", "_distance"]
    best = brute_force(rows, QUERY, 1)[0]
    row = next(row for row in rows if row.key == best[1])
    assert found.to_pylist() == [{"id": row.id, "emb": list(row.emb or ()), "_distance": best[0]}]


def test_no_columns_leave_the_distance(table: WrittenTable) -> None:
    assert found_in(table.path, QUERY, 3, columns=[]).column_names == ["_distance"]


def test_a_filter_is_applied_before_distances(table: WrittenTable, rows: list[Row]) -> None:
    kept = [row for row in rows if row.price is not None and row.price < 20]
    assert found_keys(table, filter="price < 20") == [key for _, key, _ in brute_force(kept, QUERY, 5)]


def test_a_filter_prunes_partitions(table: WrittenTable, rows: list[Row]) -> None:
    found = found_in(table.path, QUERY, 4, metric="l2", filter="grp = 'b'")
    assert found.report.slices_pruned == 2
    assert found.column("_hoodie_record_key").to_pylist() == [key for _, key, _ in brute_force(rows[40:], QUERY, 4)]


def test_max_distance_is_inclusive(table: WrittenTable, rows: list[Row]) -> None:
    third = brute_force(rows, QUERY, 3)[2][0]
    assert len(found_keys(table, max_distance=third)) == 3
    assert len(found_keys(table, max_distance=float(np.nextafter(third, 0)))) == 2


def test_fewer_rows_come_with_the_reason(table: WrittenTable) -> None:
    report = found_in(table.path, QUERY, 100).report
    assert not report.reached_k
    assert report.why_fewer == "the table holds 70 rows"


def test_null_vectors_never_match(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t")
    rows = [Row(i, "a", None, None, None if i % 2 else (1.0 * i, 0.0, 0.0, 0.0)) for i in range(10)]
    written.commit({("a", "f1"): rows})
    report = found_in(written.path, QUERY, 10, columns=["id"])
    assert sorted(report.column("id").to_pylist()) == [0, 2, 4, 6, 8]
    assert report.report.nulls == 5
    assert report.report.why_fewer == "5 rows have no vector"


def test_as_of_sees_the_table_as_it_was(table: WrittenTable, rows: list[Row]) -> None:
    first = str(table.clock - 1000)
    table.commit({("a", "f1"): []})
    kept = [key for _, key, _ in brute_force(rows, QUERY, 5)]
    now = [key for _, key, _ in brute_force(rows[20:], QUERY, 5)]
    assert found_keys(table) == now
    assert found_keys(table, as_of=first) == kept
    # The first commit completed one second after it was requested, at 00:00:02.
    assert found_keys(table, as_of="2026-01-01 00:00:02") == kept
    assert found_keys(table, as_of="2026-01-01 01:00:02", zone="+01:00") == kept
    with pytest.raises(InstantNotAvailableError, match="lies before the first commit"):
        found_keys(table, as_of="2026-01-01 00:00:01")


def test_meta_fields_off(tmp_path: Path, rows: list[Row]) -> None:
    written = WrittenTable(tmp_path / "t", has_meta_fields=False)
    twins = [Row(i, "a", None, None, (1.0, 0.0, 0.0, 0.0)) for i in (5, 3, 4)]
    written.commit({("a", "f2"): twins[:1], ("a", "f1"): twins[1:]})
    found = found_in(written.path, QUERY, 3, columns=["id", "_hoodie_record_key"])
    assert found.column("id").to_pylist() == [3, 4, 5], "ties are in the order of file and position"
    assert found.column("_hoodie_record_key").to_pylist() == [None] * 3


def test_equal_distances_are_ordered_by_key(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t")
    ids = [7, 100, 12, 9, 1, 50]
    twins = [Row(i, "a", None, None, (1.0, 0.0, 0.0, 0.0)) for i in ids]
    written.commit({("a", "f2"): twins[:3], ("a", "f1"): twins[3:]})
    assert found_keys(written, k=4) == ["1", "100", "12", "50"]


def test_an_empty_table_gives_no_rows(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t")
    written.commit({})
    found = found_in(written.path, QUERY)
    assert found.num_rows == 0
    assert "id" in found.column_names
    assert found.report.why_fewer == "the table holds no rows at this instant"


def test_files_older_than_the_vector_column_have_none(tmp_path: Path, rows: list[Row]) -> None:
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", "f1"): rows[:10]}, with_vector=False)
    written.commit({("a", "f2"): rows[10:20]})
    found = found_in(written.path, QUERY, 20, metric="l2")
    assert found.column("_hoodie_record_key").to_pylist() == [key for _, key, _ in brute_force(rows[10:20], QUERY, 20)]
    assert found.report.nulls == 10


def test_several_row_groups_with_null_vectors_first_and_last(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t", row_group_rows=8)
    rows = [
        Row(row.id, "a", row.price, row.name, None if row.id in (0, 7, 8, 39) else row.emb) for row in rows_of(40, "a")
    ]
    written.commit({("a", "f1"): rows})
    expected = [key for _, key, _ in brute_force(rows, QUERY, 40)]
    assert found_keys(written, k=40) == expected
    assert found_keys(written, k=40, options={"hoodie.vector.cache.max.bytes": "0"}) == expected


def test_explain_says_the_plan_and_reads_nothing(table: WrittenTable) -> None:
    text = plan_of(table.path, QUERY, 3, filter="grp = 'a'", storage_options={"fs.s3a.secret.key": "hidden"})
    assert "execution   local: without Spark" in text
    assert "2 to read, 1 pruned by partition" in text
    assert "hidden" not in text


def test_a_table_that_only_spark_reads_is_refused_with_the_reason(tmp_path: Path, rows: list[Row]) -> None:
    written = WrittenTable(tmp_path / "t", properties={"hoodie.table.keygenerator.type": "TIMESTAMP"})
    written.commit({("a", "f1"): rows[:5]})
    with pytest.raises(UnsupportedTableError, match="key generator makes partition paths that are not"):
        found_in(written.path, QUERY)
    assert "spark" in plan_of(written.path, QUERY)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"k": 0}, InvalidArgumentError, "k must be a whole number from 1 to 100000, not 0"),
        ({"k": 2.0}, InvalidArgumentError, "k must be a whole number from 1 to 100000, not 2.0"),
        ({"query": [1.0, 2.0]}, DimensionMismatchError, "the query vector has 2 elements, the column has 4; give 4"),
        ({"query": None}, HudiVectorError, "the query vector is NULL"),
        ({"metric": "manhattan"}, InvalidArgumentError, "unknown metric 'manhattan'"),
        ({"column": "emd"}, UnknownColumnError, "did you mean 'emb'"),
        ({"column": "price"}, InvalidTypeError, "column 'price' of .* is double; a search needs a VECTOR"),
        ({"columns": ["nam"]}, UnknownColumnError, "did you mean 'name'"),
        ({"columns": "name"}, InvalidTypeError, "columns must be a list of names"),
        ({"filter": "price <"}, InvalidFilterError, "price <"),
        ({"filter": "cost < 3"}, HudiVectorError, "cost"),
        ({"as_of": "yesterday"}, InvalidArgumentError, "as_of = 'yesterday' is no instant"),
        ({"zone": "Mars/Olympus"}, InvalidArgumentError, "no time zone"),
        ({"options": "k=v"}, InvalidTypeError, "options must be a dictionary of texts, not str"),
        ({"max_distance": float("nan")}, InvalidArgumentError, "max_distance is NaN"),
        ({"options": {"hoodie.vector.search.local.threads": "-1"}}, InvalidArgumentError, "is not allowed"),
        ({"table": 7}, InvalidTypeError, "the argument 'table' must be text, not 7"),
    ],
)
def test_wrong_input(table: WrittenTable, changed: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments = {"table": str(table.path), "column": "emb", "query": QUERY, **changed}
    with pytest.raises(error, match=message):
        found_in(**arguments)


def test_a_path_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="there is no Hudi table at"):
        found_in(tmp_path, QUERY)


def test_a_table_with_a_column_of_the_searchs_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = WrittenTable(tmp_path / "t")
    text = written.avro_schema().replace('"price"', '"_distance"')
    monkeypatch.setattr(WrittenTable, "avro_schema", lambda self, with_vector=True: text)
    written.commit({})
    with pytest.raises(InvalidArgumentError, match="has a column '_distance'"):
        found_in(written.path, QUERY)


class _CleanInBetween:
    """Cleans a table between the planning and the reading of the next search."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clean: Any) -> None:
        self.plans = 0
        make_plan = asked.make_plan

        def plan_then_clean(*arguments: Any) -> Any:
            plan = make_plan(*arguments)
            self.plans += 1
            if self.plans == 1:
                clean()
            return plan

        monkeypatch.setattr(asked, "make_plan", plan_then_clean)


def test_a_file_cleaned_between_plan_and_read(
    table: WrittenTable, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(table.clock - 1000)

    def clean() -> None:
        second = table.commit({("a", "f1"): rows[:5]})
        table.remove("a", "f1", first)
        table.complete(table.next_instant(), "clean", earliest=second)

    cleaned = _CleanInBetween(monkeypatch, clean)
    assert found_keys(table, k=70) == [key for _, key, _ in brute_force([*rows[:5], *rows[20:]], QUERY, 70)]
    assert cleaned.plans == 2


def test_a_file_cleaned_between_plan_and_read_as_of(
    table: WrittenTable, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(table.clock - 1000)

    def clean() -> None:
        second = table.commit({("a", "f1"): rows[:5]})
        table.remove("a", "f1", first)
        table.complete(table.next_instant(), "clean", earliest=second)

    _CleanInBetween(monkeypatch, clean)
    with pytest.raises(InstantNotAvailableError, match="were cleaned away; the oldest available instant is"):
        found_keys(table, as_of=first)


def test_a_damaged_file_is_named(table: WrittenTable) -> None:
    file = next((table.path / "b").glob("*.parquet"))
    file.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataFileError, match=file.name):
        found_keys(table)


_WITHOUT_PYSPARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
import hudi_vector as hv
with hv.open(sys.argv[1], column="emb") as table:
    found = table.search([0.3, -0.2, 0.9, 0.1], 3, metric="l2", filter="price >= 0", columns=["_hoodie_record_key"])
print(found.column("_hoodie_record_key").to_pylist())
"""


def test_pyspark_is_not_needed(table: WrittenTable, rows: list[Row]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYSPARK, str(table.path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str([key for _, key, _ in brute_force(rows, QUERY, 3)])
