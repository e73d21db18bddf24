"""Tables, files and Delta tables opened for searches without Spark."""

from __future__ import annotations

import base64
import copy
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.archives import FIXTURES, unpack
from support.damaged import cut_short
from support.written_table import Row, WrittenTable, brute_force, rows_of

import hudi_vector as hv
from hudi_vector.errors import (
    DataFileError,
    DimensionMismatchError,
    HudiVectorError,
    InstantNotAvailableError,
    InvalidArgumentError,
    InvalidTypeError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.query.files.plain_files import DeltaFiles
from hudi_vector.read.cache import process_cache
from hudi_vector.shown import as_tree
from hudi_vector.storage import StorageOptions

QUERY = [0.3, -0.2, 0.9, 0.1]
MERGED = FIXTURES / "1.2.0_v8_mor.tar.gz"


@pytest.fixture
def rows() -> list[Row]:
    return [*rows_of(40, "a", 1), *rows_of(30, "b", 2, first=40)]


@pytest.fixture
def table(tmp_path: Path, rows: list[Row]) -> WrittenTable:
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", "f1"): rows[:20], ("a", "f2"): rows[20:40], ("b", "f3"): rows[40:]})
    return written


def opened(table: WrittenTable, **arguments: Any) -> Any:
    return hv.open(str(table.path), column="emb", **arguments)


def ids(rows: list[Row], k: int, metric: str = "l2") -> list[int]:
    return [int(key) for _, key, _ in brute_force(rows, QUERY, k, metric)]


def test_a_search_says_where_its_rows_lie(table: WrittenTable, rows: list[Row]) -> None:
    with opened(table) as t:
        hits = t.search(QUERY, 6, metric="l2", columns=[])
        assert hits.table.schema == pa.schema([("_distance", pa.float64())])
        assert hits.places.schema == pa.schema([("file_path", pa.string()), ("row_index", pa.int64())])
        assert len(hits) == 6
        fetched = t.fetch_rows(hits.refs, columns=["ID", "emb"])
        assert fetched.column("id").to_pylist() == ids(rows, 6)
        expected = [row[0] for row in brute_force(rows, QUERY, 6)]
        np.testing.assert_allclose(hits.column("_distance").to_numpy(), expected, rtol=1e-12)
        assert hits.report.reached_k


def test_without_columns_a_search_has_those_of_the_user(table: WrittenTable, rows: list[Row]) -> None:
    with opened(table) as t:
        hits = t.search(QUERY, 6, metric="l2")
        assert hits.column_names == ["id", "name", "price", "grp", "_distance"]
        assert hits.column("id").to_pylist() == ids(rows, 6)
        assert hits.table.equals(t.search(QUERY, 6, metric="l2", columns=["*"]).table)
        assert t.search(QUERY, 6, columns=["_hoodie_record_key"]).column_names == ["_hoodie_record_key", "_distance"]
        assert t.fetch_rows(hits.refs).column_names == hits.column_names[:-1]


def test_an_opened_table_has_a_length_and_a_schema(table: WrittenTable, rows: list[Row], tmp_path: Path) -> None:
    with opened(table) as t:
        assert len(t) == len(rows)
        assert {"id", "name", "emb", "_hoodie_record_key"} <= set(t.schema.names)
        assert t.schema.field("price").type == pa.float64()
    unpack(MERGED, tmp_path / "merged")
    merged = hv.open(str(tmp_path / "merged" / "table"), column="emb")
    assert len(merged) == merged.search(QUERY, 1, mode="exact").report.rows_seen > 0
    assert len(merged) == len(merged.search(QUERY, 1000, columns=[])) + merged.search(QUERY, 1).report.nulls
    files = sorted(table.path.rglob("*.parquet"))
    alone = hv.open(files=files[:1], column="emb")
    assert len(hv.open(files=files[:1], column="emb", deleted={files[0]: [0, 3]})) == len(alone) - 2


def test_a_column_that_is_called_like_one_of_the_search_is_left_out(tmp_path: Path) -> None:
    vectors = pa.array([[0.0, 1.0], [1.0, 0.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [1, 2], "_distance": [7, 8], "emb": vectors}), tmp_path / "a.parquet")
    t = hv.open(files=[tmp_path / "a.parquet"], column="emb")
    for columns in (None, ["*"], ["_DISTANCE"]):
        with pytest.raises(InvalidArgumentError, match=r"has a column '_distance', .* name other columns"):
            t.search([0.0, 1.0], columns=columns)
    assert t.search([0.0, 1.0], 1, columns=["id"]).to_pylist() == [{"id": 1, "_distance": 0.0}]


def test_hits_show_their_first_rows_and_nothing_of_the_plan(table: WrittenTable) -> None:
    with opened(table) as t:
        hits = t.search(QUERY, 2, metric="l2", columns=["id", "name", "emb"])
        few = repr(hits).splitlines()
        assert few[:2] == ["SearchHits", f"  2 rows of '{table.path}'"]
        assert few[2].split() == ["id", "name", "emb", "_distance"]
        assert "4 values]" in few[3]
        assert len(few) == 5
        assert hits.rows() == hits.table.to_pylist()
        assert hits.to_pandas()["id"].tolist() == hits.column("id").to_pylist()
        assert hits._repr_html_().count("<tr>") == 3
        many = repr(t.search(QUERY, 60, metric="l2"))
        assert len(many.splitlines()) == 14
        assert many.endswith("…")
        assert len(many) < 3000
        assert repr(t.search(QUERY, 3, filter="id < 0", columns=["id"])).splitlines()[1].startswith("  0 rows of")


def test_an_opened_table_shows_its_columns_without_reading_them(table: WrittenTable) -> None:
    t = opened(table)
    shown = repr(t).splitlines()
    assert shown[0] == f"VectorTable '{table.path}', searched by 'emb'"
    assert re.fullmatch(r"  \d+ file slices at instant 2026\d+", shown[1])
    assert "  emb: VECTOR(4)" in shown
    assert "  price: double" in shown
    assert not [line for line in shown if "_hoodie_" in line]
    assert "VECTOR(4)" in t._repr_html_()
    t.close()
    assert repr(t).endswith("  closed")


def test_a_path_object_names_a_table(table: WrittenTable, rows: list[Row]) -> None:
    with hv.open(table.path, column="emb") as t:
        assert isinstance(table.path, Path)
        assert t.search(QUERY, 3, metric="l2", columns=["id"]).column("id").to_pylist() == ids(rows, 3)
    files = sorted(table.path.rglob("*.parquet"))
    with hv.open(files=files, column="emb") as t:
        assert len(t.search(QUERY, 3, metric="l2")) == 3


def test_a_star_names_all_columns_but_the_vectors(table: WrittenTable) -> None:
    with opened(table) as t:
        every = t.search(QUERY, 5, columns=["*"])
        named = t.search(QUERY, 5, columns=["name", "*", "id"])
    assert [name for name in every.column_names if not name.startswith("_")] == ["id", "name", "price", "grp"]
    assert named.column_names == ["name", *(name for name in every.column_names if name != "name")]
    assert every.select(named.column_names).equals(named.table)


def test_rows_come_in_the_callers_order_repeated_or_not(table: WrittenTable, rows: list[Row]) -> None:
    t = opened(table)
    refs = t.search(QUERY, 70, metric="l2").refs
    asked = [refs[5], refs[60], refs[5], refs[0], refs[33]]
    order = ids(rows, 70)
    assert t.fetch_rows(asked, ["id"]).column("id").to_pylist() == [order[i] for i in (5, 60, 5, 0, 33)]
    assert "emb" not in t.fetch_rows(asked).column_names
    assert t.fetch_rows([], ["id", "emb"]).column_names == ["id", "emb"]
    assert t.fetch_rows([], ["id"]).num_rows == 0


def test_a_batch_is_its_single_searches(table: WrittenTable) -> None:
    t = opened(table)
    queries = np.random.default_rng(7).standard_normal((9, 4))
    many = t.search_batch(queries, 4, filter="price < 80", columns=["id"])
    assert many.table.schema.names == ["_hudi_query_index", "id", "_distance"]
    singles = [t.search(query, 4, filter="price < 80", columns=["id"]).table for query in queries]
    assert many.table.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(singles))
    assert many.column("_hudi_query_index").to_pylist() == [number for number in range(9) for _ in range(4)]
    placed = t.search_batch(queries, 2, columns=[])
    assert placed.table.schema.names == ["_hudi_query_index", "_distance"]
    assert len(placed.refs) == 18
    for none in (np.empty((0, 4)), []):
        assert t.search_batch(none, 2, columns=["id"]).table.schema.equals(many.table.schema)
        assert len(t.search_batch(none, 2)) == 0


def test_the_snapshot_is_kept_until_it_is_refreshed(table: WrittenTable, rows: list[Row]) -> None:
    t, quick = opened(table), opened(table, refresh_every=0)
    assert t.refresh() is False
    before = str(table.clock - 1000)
    table.commit({("a", "f1"): rows[:1]})
    left = [rows[0], *rows[20:]]

    def found(t: Any, **arguments: Any) -> list[int]:
        return t.search(QUERY, 5, metric="l2", columns=["id"], **arguments).column("id").to_pylist()

    assert found(t) == ids(rows, 5)
    assert found(quick) == ids(left, 5)
    assert t.refresh() is True
    assert found(t) == ids(left, 5)
    assert found(t, as_of=before) == ids(rows, 5)
    assert found(opened(table, as_of=before)) == ids(rows, 5)
    later = opened(table, as_of="2999-01-01 00:00:00")
    assert found(later) == ids(left, 5)
    table.commit({("a", "f2"): []})
    assert found(later) == ids(left, 5)
    later.refresh()
    assert found(later) == ids([rows[0], *rows[40:]], 5)


def test_a_file_that_hudis_clean_took_is_not_missed(table: WrittenTable, rows: list[Row]) -> None:
    first = str(table.clock - 1000)
    t = opened(table)
    refs = t.search(QUERY, 70, columns=[]).refs
    second = table.commit({("a", "f1"): rows[:5]})
    table.remove("a", "f1", first)
    table.complete(table.next_instant(), "clean", earliest=second)
    found = t.search(QUERY, 70, metric="l2", columns=["id"]).column("id").to_pylist()
    assert found == ids([*rows[:5], *rows[20:]], 70)
    with pytest.raises(InstantNotAvailableError, match="were cleaned away"):
        t.search(QUERY, 3, as_of=first)
    with pytest.raises(DataFileError, match="is no longer there; search again"):
        t.fetch_rows(refs, ["id"])


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_point_whose_files_a_clean_by_versions_took_is_refused(
    table: WrittenTable, rows: list[Row], has_ended: bool
) -> None:
    first = str(table.clock - 1000)
    second = table.commit({("b", "f3"): rows[40:50]})
    table.commit({("a", "f1"): rows[:5]})
    clean = table.next_instant()
    name = Path(table.path, table.partition_path("a"), f"f1_0-1-2_{first}.parquet").name
    table.remove("a", "f1", first)
    table.begin(clean, "clean")
    if has_ended:
        table.complete(clean, "clean", cleaned={table.partition_path("a"): [name]})
    else:
        table.plan_clean(clean, {table.partition_path("a"): [name]})
    t = opened(table)
    for point in (first, second):
        with pytest.raises(InstantNotAvailableError, match=f"Hudi's clean of {clean} took '.*{name}'; give a later"):
            t.search(QUERY, 70, as_of=point)
    later = t.search(QUERY, 70, metric="l2", columns=["id"], as_of=clean).column("id").to_pylist()
    assert later == ids([*rows[:5], *rows[20:50]], 70)


@pytest.mark.parametrize("keeps_all", [True, False])
def test_a_savepoint_is_searched_after_a_clean_if_it_keeps_its_files(
    table: WrittenTable, rows: list[Row], keeps_all: bool
) -> None:
    first = str(table.clock - 1000)
    second = table.commit({("b", "f3"): rows[40:50]})
    names = {"a": [f"f1_0-1-2_{first}.parquet", f"f2_0-1-2_{first}.parquet"], "b": [f"f3_0-1-2_{second}.parquet"]}
    table.save(second, {table.partition_path(group): kept[: None if keeps_all else 1] for group, kept in names.items()})
    third = table.commit({("a", "f1"): rows[:5]})
    table.clean([("b", "f3", first)], earliest=third)
    t = opened(table)
    with pytest.raises(
        InstantNotAvailableError, match=f"instant is {third}, apart from what savepoints keep: {second}"
    ):
        t.search(QUERY, 70, as_of=first)
    if keeps_all:
        saved = t.search(QUERY, 70, metric="l2", columns=["id"], as_of=second).column("id").to_pylist()
        assert saved == ids(rows[:50], 70)
    else:
        with pytest.raises(InstantNotAvailableError, match="its savepoint keeps other files; give a later point"):
            t.search(QUERY, 70, as_of=second)


def test_threads_share_a_table(table: WrittenTable, rows: list[Row]) -> None:
    t = opened(table, refresh_every=0)
    found: list[list[int]] = []

    def ask() -> None:
        for _ in range(5):
            hits = t.search(QUERY, 7, metric="l2")
            found.append(t.fetch_rows(hits.refs, ["id"]).column("id").to_pylist())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ids(rows, 7)] * 20


def test_merged_rows_have_columns_and_no_place(tmp_path: Path) -> None:
    unpack(MERGED, tmp_path)
    t = hv.open(str(tmp_path / "table"), column="emb")
    hits = t.search(QUERY, 5, metric="l2", columns=["id"])
    assert hits.num_rows == 5
    placed = t.search(QUERY, 5, metric="l2")
    assert placed.column("_distance").equals(hits.column("_distance"))
    assert placed.places.column("file_path").null_count == placed.places.column("row_index").null_count > 0
    with pytest.raises(UnsupportedTableError, match="merged from log files and have no place"):
        _ = placed.refs


@pytest.mark.parametrize("kind", ["list", "fixed", "large", "footer", "field"])
@pytest.mark.parametrize("element", ["float", "double", "int8"])
def test_plain_files(tmp_path: Path, kind: str, element: str) -> None:
    numbers = (
        np.random.default_rng(3).integers(-9, 9, (60, 4)).astype({"float": "f4", "double": "f8", "int8": "i1"}[element])
    )
    flat = pa.array(numbers.ravel())
    said = f"VECTOR(4, {element.upper()})"
    field, footer = pa.field("emb", pa.list_(flat.type)), None
    vectors: Any = pa.FixedSizeListArray.from_arrays(flat, 4)
    if kind == "fixed":
        field = field.with_type(vectors.type)
    elif kind == "large":
        field = field.with_type(pa.large_list(flat.type))
    elif kind in ("footer", "field"):
        field = pa.field("emb", pa.binary(4 * numbers.itemsize), True, {"hudi_type": said} if kind == "field" else None)
        footer = {"hoodie.vector.columns": f"emb:{said}"} if kind == "footer" else None
        vectors = pa.array([row.tobytes() for row in numbers], field.type)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.large_string()), field], metadata=footer)
    held = pa.table(
        [pa.array(range(60)), pa.array([f"w{i}" for i in range(60)], pa.large_string()), vectors.cast(field.type)],
        schema=schema,
    )
    for number in (0, 1):
        pq.write_table(held.slice(number * 30, 30), tmp_path / f"{number}.parquet")
    t = hv.open(files=[str(tmp_path / "1.parquet"), str(tmp_path / "0.parquet")], column="emb")
    expected = brute_force([Row(i, "", None, None, tuple(map(float, v))) for i, v in enumerate(numbers)], QUERY, 60)
    hits = t.search(QUERY, 60, metric="l2", columns=["id", "word"], filter="word <> 'w7'")
    np.testing.assert_allclose(
        hits.column("_distance").to_numpy(), [d for d, key, _ in expected if key != "7"], rtol=1e-9
    )
    assert sorted(hits.column("id").to_pylist()) == [i for i in range(60) if i != 7]
    nearest = t.search(QUERY, 3, metric="l2")
    got = t.fetch_rows(nearest.refs, ["emb"]).column("emb").to_pylist()
    np.testing.assert_allclose(np.linalg.norm(np.array(got, "f8") - QUERY, axis=1), [d for d, _, _ in expected[:3]])
    with pytest.raises(InvalidArgumentError, match="files have no history"):
        t.search(QUERY, 3, as_of="20260101000000")
    assert t.refresh() is False
    pq.write_table(held.slice(0, 5), tmp_path / "0.parquet")
    assert t.refresh() is True
    assert len(t.search(QUERY, 60)) == 35


def behind(first: pa.Array, later: pa.Array, folder: Path) -> Any:
    """Two files opened together, of which the second has vectors of another type."""
    pq.write_table(pa.table({"id": [1], "emb": first}), folder / "first.parquet")
    pq.write_table(pa.table({"id": [2, 3], "emb": later}), folder / "later.parquet")
    return hv.open(files=[folder / "first.parquet", folder / "later.parquet"], column="emb")


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        (pa.list_(pa.float32()), pa.nulls(2), [5.0]),
        (pa.list_(pa.float32()), pa.array([None, None], pa.string()), [5.0]),
        (pa.list_(pa.int8()), pa.array([[5, 12], None], pa.list_(pa.int32())), [5.0, 13.0]),
        (pa.list_(pa.float64()), pa.array([[0.3, 0.4], None], pa.list_(pa.float32())), [0.5, 5.0]),
    ],
    ids=["null", "text-of-null", "int32-of-int8", "float"],
)
def test_files_with_no_vector_or_with_values_that_fit_are_taken(
    tmp_path: Path, first: pa.DataType, later: pa.Array, expected: list[float]
) -> None:
    with behind(pa.array([[3, 4]], first), later, tmp_path) as t:
        hits = t.search([0, 0], 5, metric="l2", columns=["id"])
    assert hits.column("_distance").to_pylist() == pytest.approx(expected, rel=1e-12)
    assert hits.report.nulls == 3 - len(expected)


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        (
            pa.int8(),
            pa.array([[0.5, 0.0], None], pa.list_(pa.float32())),
            "holds 0.5 as float32, and others of the column are INT8",
        ),
        (
            pa.int8(),
            pa.array([[256, 0], None], pa.list_(pa.int32())),
            "holds 256 as int32, and others of the column are INT8",
        ),
        (
            pa.int8(),
            pa.array([[200, 0], None], pa.list_(pa.uint8())),
            "holds 200 as uint8, and others of the column are INT8",
        ),
        (pa.float32(), pa.array([[1e300, 0.0], None]), "holds 1e\\+300 as float64, and others of the column are FLOAT"),
        (pa.float32(), pa.array(["x", None]), "is string, which is no array of numbers"),
        (pa.float32(), pa.array([1.0, None]), "is double, which is no array of numbers"),
        (pa.float32(), pa.array([{"a": 1}, None]), "is struct<a: int64>, which is no array of numbers"),
        (pa.float32(), pa.array([["a", "b"], None]), "is list<.*string>, which is no array of numbers"),
        (
            pa.float32(),
            pa.array([[("a", 1.0)], None], pa.map_(pa.string(), pa.float32())),
            "is map<.*>, which is no array of numbers",
        ),
    ],
    ids=["fractions", "int32", "uint8", "double", "text", "numbers", "struct", "texts", "map"],
)
def test_a_file_whose_column_holds_no_vectors_of_the_elements_is_named(
    tmp_path: Path, first: pa.DataType, later: pa.Array, message: str
) -> None:
    with (
        behind(pa.array([[3, 4]], pa.list_(first)), later, tmp_path) as t,
        pytest.raises(DataFileError, match=rf"column 'emb' of '.*/later\.parquet' {message}"),
    ):
        t.search([0, 0], 5, metric="l2", columns=["id"])


def test_a_footer_with_a_type_that_arrow_does_not_know_is_named(tmp_path: Path) -> None:
    """One byte of Arrow's schema in the footer makes integers of 64 bits ones of 128."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "emb": pa.array([[3, 4]], pa.list_(pa.float32()))}), file)
    kept = pq.read_metadata(file).metadata[b"ARROW:schema"]
    schema = base64.b64decode(kept)
    assert schema.count(b"\x40\0\0\0") == 1
    damaged = base64.b64encode(schema.replace(b"\x40\0\0\0", b"\x80\0\0\0"))
    file.write_bytes(file.read_bytes().replace(kept, damaged))
    with pytest.raises(DataFileError, match=r"/a\.parquet' cannot be read: .*64 bits"):
        hv.open(files=[file], column="emb")


SHORT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "columns": ("word", lambda t: t.search([0], 200, metric="l2", columns=["id", "word"])),
    "filter": ("word", lambda t: t.search([0], 200, metric="l2", columns=["id"], filter="word LIKE 'w%'")),
    "groups": ("word", lambda t: t.search([0], 200, metric="l2", columns=["id"], group_by="word", per_group=9)),
    "stream": ("word", lambda t: t.to_reader(["id", "word"]).read_all()),
    "column": ("word", lambda t: t.to_reader(["word"]).read_all()),
    "rows": ("word", lambda t: t.rows()),
    "fetched": ("word", lambda t: t.fetch_rows(t.search([0], 200, metric="l2", columns=[]).refs, columns=["word"])),
    "vectors": ("element", lambda t: t.search([0], 200, metric="l2", columns=["id"])),
    "some vectors": ("element", lambda t: t.search([0], 200, metric="l2", columns=["id"], filter="id > 50")),
}


@pytest.mark.parametrize("budget", ["0", "8000000"], ids=["unkept", "kept"])
@pytest.mark.parametrize("way", SHORT)
def test_a_column_that_ends_before_its_row_group_is_named(tmp_path: Path, way: str, budget: str) -> None:
    leaf, ask = SHORT[way]
    file, lists = tmp_path / "a.parquet", pa.list_(pa.float32())
    words = pa.array([f"w{n % 7}" for n in range(200)])
    held = pa.table({"id": range(200), "word": words, "emb": pa.array([[n] for n in range(200)], lists)})
    cut_short(held, file, 100, 0, leaf)
    with hv.open(files=[file], column="emb", options={"hoodie.vector.cache.max.bytes": budget}) as t:
        assert len(t) == 200
        assert t.to_reader(["id"]).read_all().num_rows == 200
        with pytest.raises(
            DataFileError, match=r"/a\.parquet' cannot be read: row group 0 has 100 rows, and .* reads 0 of"
        ):
            ask(t)


def test_rows_before_the_end_of_a_short_column_are_found(tmp_path: Path) -> None:
    """A read that needs no more of the column does not see its end."""
    tags, vectors = (
        pa.array([[{"n": n}] for n in range(200)]),
        pa.array([[n] for n in range(200)], pa.list_(pa.float32())),
    )
    cut_short(pa.table({"tags": tags, "emb": vectors}), tmp_path / "a.parquet", 100, 70, "n")
    with hv.open(files=[tmp_path / "a.parquet"], column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        assert t.search([3], 1, metric="l2", columns=["tags"]).column("tags").to_pylist() == [[{"n": 3}]]
        with pytest.raises(DataFileError, match="reads 70 of column 'tags'; write the file again"):
            t.search([80], 1, metric="l2", columns=["tags"])


def timed(path: Path, times: pa.Array, first: int = 0, **written: Any) -> Path:
    """A file of rows with vectors of one element, the numbers from `first`, and times."""
    ids = range(first, first + len(times))
    vectors = pa.array([[n] for n in ids], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": ids, "at": times, "emb": vectors}), path, **written)
    return path


def test_timestamps_of_int96_are_instants_of_all_years(tmp_path: Path) -> None:
    times = [datetime(year, 3, 29, 0, 30, tzinfo=timezone.utc) for year in (1900, 2026, 2300, 9999)]
    held = pa.array(times, pa.timestamp("us", "UTC"))
    kinds = {"new": {}, "old": {"use_deprecated_int96_timestamps": True}}
    for name, written in kinds.items():
        file = timed(tmp_path / f"{name}.parquet", held, **written)
        with hv.open(files=[file], column="emb", zone="America/New_York") as t:
            assert t.schema.field("at").type == held.type
            hits = t.search([0], 9, metric="l2", columns=["at"])
            assert hits.column("at").to_pylist() == times
            assert t.fetch_rows(hits.refs, columns=["at"]).column("at").to_pylist() == times
            assert t.to_reader(["at"]).read_all().column("at").to_pylist() == times
            for text, kept in (("2026-03-28 20:30:01", 2), ("2026-03-28 20:30:00", 1), ("2301-01-01 00:00:00", 3)):
                for literal in (f"'{text}'", f"TIMESTAMP '{text}'"):
                    assert len(t.search([0], 9, columns=["id"], filter=f"at < {literal}")) == kept, (name, literal)


def test_timestamps_within_other_types_are_in_microseconds(tmp_path: Path) -> None:
    """Those of INT96, and those in nanoseconds, of which none is a whole number of microseconds."""
    struct = pa.struct({"at": pa.timestamp("ns"), "all": pa.list_(pa.timestamp("ns"))})
    of_names = pa.map_(pa.string(), pa.timestamp("ns"))
    held = pa.table(
        {
            "s": pa.array([{"at": -1, "all": [1999]}], struct),
            "m": pa.array([[("a", -1)]], of_names),
            "l": pa.array([[-1]], pa.large_list(pa.timestamp("ns"))),
            "emb": pa.array([[1]], pa.list_(pa.float32())),
        }
    )
    for number, is_old in enumerate((False, True)):
        pq.write_table(held, tmp_path / f"{number}.parquet", use_deprecated_int96_timestamps=is_old)
        zone = timezone.utc if is_old else None
        before, after = (datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=n) for n in (-1, 1))
        with hv.open(files=[tmp_path / f"{number}.parquet"], column="emb") as t:
            hits = t.search([1], 1, columns=["s", "m", "l"])
            assert hits.column("s").to_pylist() == [{"at": before, "all": [after]}]
            assert hits.column("m").to_pylist() == [[("a", before)]]
            assert hits.column("l").combine_chunks().flatten().cast(pa.int64()).to_pylist() == [-1]
            moment = "TIMESTAMP" if is_old else "TIMESTAMP_NTZ"
            assert len(t.search([1], 1, filter=f"s.at < {moment} '1970-01-01 00:00:00'", columns=[])) == 1


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_of_all_units_are_in_microseconds(tmp_path: Path, zone: str | None) -> None:
    units = [("ms", -1), ("us", 1), ("ns", -1001), ("ns", -1), ("ns", 5)]
    files = [
        timed(tmp_path / f"{number}.parquet", pa.array([count], pa.timestamp(unit, zone)), number)
        for number, (unit, count) in enumerate(units)
    ]
    with hv.open(files=files, column="emb") as t:
        assert t.schema.field("at").type == pa.timestamp("us", zone)
        hits = t.search([0], 9, metric="l2", columns=["at"])
        assert hits.column("at").cast(pa.int64()).to_pylist() == [-1000, 1, -2, -1, 0]
        kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
        before = t.search([0], 9, metric="l2", columns=["id"], filter=f"at < {kind} '1970-01-01 00:00:00'")
        assert before.column("id").to_pylist() == [0, 2, 3]


def test_queries_that_no_vector_is_as_long_as_are_refused(tmp_path: Path) -> None:
    even, mixed = tmp_path / "even.parquet", tmp_path / "mixed.parquet"
    kept = {"id": [1, 2], "emb": pa.array([[1.0, 2.0], None], pa.list_(pa.float32()))}
    pq.write_table(pa.table(kept), even)
    pq.write_table(pa.table({"id": [3, 4], "emb": pa.array([[1.0], [1.0, 2.0, 3.0]], pa.list_(pa.float32()))}), mixed)
    told = "has 3 elements, those in column 'emb' of .* have 2; give 2"
    t = hv.open(files=[str(even)], column="emb")
    for ask in (
        lambda: t.search([1, 2, 3]),
        lambda: t.search_batch([[1, 2, 3]]),
        lambda: t.search([1, 2, 3], filter="id > 0"),
    ):
        with pytest.raises(DimensionMismatchError, match=told):
            ask()
    assert len(t.search([1, 2, 3], filter="id > 7")) == len(t.search([1, 2], filter="id = 2")) == 0
    both = hv.open(files=[str(even), str(mixed)], column="emb")
    assert both.search([1, 2, 3], columns=["id"]).column("id").to_pylist() == [4]
    assert len(both.search([1, 2, 3], max_distance=0.0, metric="l2", filter="id = 4", columns=["id"])) == 1
    assert len(both.search([3, 2, 1], max_distance=0.0, metric="l2")) == 0


def test_a_delta_table(tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).standard_normal((40, 4)).astype("f4")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4).cast(pa.list_(pa.float32()))
    held = pa.table({"id": range(40), "emb": vectors})
    deltalake.write_deltalake(str(tmp_path), held.slice(0, 25))
    t = hv.open(delta=str(tmp_path), column="emb")
    assert len(t.search(QUERY, 100)) == 25
    deltalake.write_deltalake(str(tmp_path), held.slice(25), mode="append")
    deltalake.DeltaTable(str(tmp_path)).delete("id = 3")
    assert t.refresh() is True
    rows = [Row(i, "", None, None, tuple(map(float, v))) for i, v in enumerate(numbers) if i != 3]
    hits = t.search(QUERY, 10, metric="l2")
    assert t.fetch_rows(hits.refs, ["id"]).column("id").to_pylist() == ids(rows, 10)
    with pytest.raises(InvalidArgumentError, match="newest version"):
        t.search(QUERY, 1, as_of="20260101000000")
    with pytest.raises(TableNotFoundError, match=r"^there is no Delta table at '.*/none': Local path .*$"):
        hv.open(delta=str(tmp_path / "none"), column="emb")
    next((tmp_path / "_delta_log").glob("*0.json")).write_text("{")
    with pytest.raises(UnsupportedTableError, match="cannot be opened as a Delta table"):
        hv.open(delta=str(tmp_path), column="emb")


@pytest.mark.parametrize("budget", ["0", "100000000"])
def test_partition_columns_of_a_delta_table(tmp_path: Path, budget: str) -> None:
    days = [date(2026, 1, 1), None, date(2026, 1, 1), date(2026, 1, 2)]
    groups = ["a", "b c/%41", None, "b c/%41"]
    vectors = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]]
    held = pa.table({"id": range(4), "grp": groups, "day": days, "emb": vectors})
    deltalake.write_deltalake(str(tmp_path), held, partition_by=["grp", "day"])
    before = process_cache().budget
    process_cache().resize(int(budget))
    t = hv.open(delta=str(tmp_path), column="emb", options={"hoodie.vector.cache.max.bytes": budget})
    found = t.search([1, 0], 5, metric="l2", columns=["id", "grp", "day"])
    expected = [(i, groups[i], days[i]) for i in (0, 3, 2, 1)]
    assert [tuple(row[name] for name in ("id", "grp", "day")) for row in found.to_pylist()] == expected
    for condition, kept in (
        ("grp = 'b c/%41'", [3, 1]),
        ("grp IS NULL", [2]),
        ("grp IS NOT NULL AND id < 3", [0, 1]),
        ("day >= DATE'2026-01-01'", [0, 3, 2]),
        ("day IS NULL OR grp = 'a'", [0, 1]),
    ):
        hits = t.search([1, 0], 5, metric="l2", columns=["id"], filter=condition)
        assert hits.column("id").to_pylist() == kept, condition
    assert hits.plan.pruned_slices == 2
    rows = t.fetch_rows(t.search([1, 0], 2, metric="l2").refs, ["day", "grp", "id"])
    assert rows.to_pylist() == [{"day": days[i], "grp": groups[i], "id": i} for i in (0, 3)]
    process_cache().resize(before)


def test_columns_that_a_delta_table_got_later(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1], "emb": [[1.0, 0.0]]}))
    later = pa.table({"id": [2], "note": ["x"], "emb": [[0.0, 1.0]]})
    deltalake.write_deltalake(str(tmp_path), later, mode="append", schema_mode="merge")
    with hv.open(delta=str(tmp_path), column="emb") as t:
        hits = t.search([1, 0], 5, metric="l2", columns=["id", "note"])
        assert hits.select(["id", "note"]).to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]
        assert t.search([1, 0], 5, columns=["id"], filter="note IS NULL").column("id").to_pylist() == [1]
        assert t.search([1, 0], 5, columns=["id"], filter="note = 'x'").column("id").to_pylist() == [2]


def test_versions_of_a_delta_table(tmp_path: Path) -> None:
    for ids_written in ([1], [2, 3]):
        rows = pa.table({"id": ids_written, "emb": [[1.0, 0.0]] * len(ids_written)})
        deltalake.write_deltalake(str(tmp_path), rows, mode="append")
    for version, count in ((0, 1), (1, 2), (None, 2)):
        found = DeltaFiles(str(tmp_path), StorageOptions(), version=version).snapshot()
        assert len(found.file_slices) == count
    with hv.open(delta=str(tmp_path), column="emb", version=0) as t:
        assert len(t.search([1, 0], 5)) == 1
    with pytest.raises(UnsupportedTableError, match="cannot be opened"):
        DeltaFiles(str(tmp_path), StorageOptions(), version=9).snapshot()
    with pytest.raises(InvalidTypeError, match="must be a whole number, not 'first'"):
        hv.open(delta=str(tmp_path), column="emb", version="first")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"table": None}, InvalidArgumentError, "give exactly one of table, files, delta and lance"),
        ({"files": ["a"]}, InvalidArgumentError, "give exactly one of table, files, delta and lance"),
        ({"table": None, "files": []}, InvalidArgumentError, "files is an empty list"),
        ({"table": None, "files": "a.parquet"}, InvalidTypeError, "files must be a list of paths"),
        ({"table": None, "files": [3]}, InvalidTypeError, "3 is neither"),
        ({"table": None, "files": ["a.csv"]}, InvalidArgumentError, "named \\*.parquet, and .a.csv. is not"),
        ({"table": None, "files": ["/no/such.parquet"]}, DataFileError, "there is no file 'file:///no/such.parquet'"),
        ({"table": "/no/such"}, TableNotFoundError, "there is no Hudi table at"),
        ({"column": "emd"}, UnknownColumnError, "did you mean 'emb'"),
        ({"column": "price"}, InvalidTypeError, "a search needs a VECTOR"),
        ({"refresh_every": "1h"}, InvalidTypeError, "refresh_every must be a number of seconds"),
        ({"refresh_every": -1}, InvalidArgumentError, "refresh_every must be 0 seconds or more"),
        ({"refresh_every": float("inf")}, InvalidArgumentError, "refresh_every must be 0 seconds or more, and finite"),
        ({"as_of": "yesterday"}, InvalidArgumentError, "as_of = 'yesterday' is no instant"),
        ({"table": None, "files": [None]}, InvalidTypeError, "files must be a list of paths or URIs; None is neither"),
        ({"table": None, "files": ["\udcff.parquet"]}, InvalidArgumentError, "the path '.udcff.parquet' is not UTF-8"),
        ({"table": "a\0b"}, InvalidArgumentError, "the path 'a.x00b' is not UTF-8, or holds NUL; rename the file"),
        ({"options": 5}, InvalidTypeError, "options must be a dictionary of texts, not int"),
        ({"options": "k=v"}, InvalidTypeError, "options must be a dictionary of texts, not str"),
        ({"options": {5: 1}}, InvalidTypeError, "options must be a dictionary of texts, and its key 5 is none"),
        ({"storage_options": 5}, InvalidTypeError, "storage_options must be a dictionary of texts, not int"),
        ({"zone": 5}, InvalidTypeError, "the argument 'zone' must be text, not 5"),
        ({"zone": "Mars"}, InvalidArgumentError, "'Mars' is no time zone known here"),
        ({"zone": ""}, InvalidTypeError, "the argument 'zone' is blank; leave it out, or give a text"),
    ],
)
def test_wrong_input(table: WrittenTable, changed: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hv.open(**{"table": str(table.path), "column": "emb", **changed})


def test_wrong_searches(table: WrittenTable) -> None:
    t = opened(table)
    for arguments, message in (
        ({"mode": "fast"}, "unknown mode 'fast'; give one of auto, exact, approximate"),
        ({"columns": "id"}, "columns must be a list of names"),
        ({"columns": ["idd"]}, "did you mean 'id'"),
        ({"k": 0}, "k must be a whole number"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            t.search(QUERY, **arguments)
    masked = np.ma.array([QUERY], mask=[[False, True, False, False]])
    for queries in ([[1, 2, 3, 4], [1, 2]], 7, [[1, None, 2, 3]], [1.0, 2.0], masked):
        with pytest.raises((ValueError, TypeError), match="quer"):
            t.search_batch(queries)
    for ask in (lambda: t.rows(10**30), lambda: t.to_pandas(2**63), lambda: t.to_reader(batch_size=2**63)):
        with pytest.raises(InvalidArgumentError, match="is a number of more than 64 bits"):
            ask()
    with pytest.raises(InvalidArgumentError, match="is no file of"):
        t.fetch_rows([("/etc/passwd", 0)])
    path = t.search(QUERY, 1).refs[0][0]
    with pytest.raises(DataFileError, match="none at position 99"):
        t.fetch_rows([(path, 99)])
    for refs in ([(path, 1.5)], [path], 3):
        with pytest.raises(InvalidTypeError, match="refs must be pairs"):
            t.fetch_rows(refs)
    t.close()
    with pytest.raises(InvalidArgumentError, match="was closed; open it again"):
        t.search(QUERY)


_WITHOUT_PYSPARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
import hudi_vector as hv
with hv.open(sys.argv[1], column="emb") as t:
    query = [0.3, -0.2, 0.9, 0.1]
    hits = t.search(query, 3, metric="l2", filter="price >= 0")
    many = t.search_batch([query, query], 3, metric="l2", columns=["id"])
    print(t.fetch_rows(hits.refs, ["id"]).column("id").to_pylist(), many.column("id").to_pylist())
"""


def test_pyspark_is_not_needed(table: WrittenTable, rows: list[Row]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYSPARK, str(table.path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == f"{ids(rows, 3)} {ids(rows, 3) * 2}"


def test_the_plan_of_a_call_is_explained(table: WrittenTable) -> None:
    with opened(table) as t:
        hits = t.search(QUERY, 5, filter="price < 50", columns=["id"])
        assert hv.explain(t.search, QUERY, 5, filter="price < 50", columns=["id"]) == as_tree(hits.plan.describe())
        assert hv.explain(t.search, QUERY, 5, filter="price < 50") == as_tree(hits.plan.describe())
        many = t.search_batch([QUERY] * 3, k=2, metric="l2")
        assert hv.explain(t.search_batch, [QUERY] * 3, k=2, metric="l2") == as_tree(many.plan.describe())


def test_what_cannot_be_explained_is_said(table: WrittenTable) -> None:
    with opened(table) as t:
        for wrong, said in (
            (lambda: hv.explain(t.refresh), "explain takes search, search_batch or knn_join and then their arguments"),
            (lambda: hv.explain("search"), "not str"),
            (lambda: hv.explain(t.search), "search: missing a required argument: 'query'"),
            (lambda: hv.explain(t.search, QUERY, effort=3), "no argument 'effort'"),
            (lambda: hv.explain(t.search, QUERY, metric="manhattan"), "unknown metric 'manhattan'"),
            (lambda: hv.explain(t.search, QUERY, columns=["nam"]), "did you mean 'name'"),
        ):
            with pytest.raises(HudiVectorError, match=re.escape(said)):
                wrong()


def answers(opened: Any) -> list[Any]:
    return opened.search(QUERY, k=5, columns=["id"]).column("id").to_pylist()


def test_a_table_without_its_partition_columns_is_refused_also_where_a_filter_names_one(tmp_path: Path) -> None:
    written = WrittenTable(tmp_path / "t", properties={"hoodie.datasource.write.drop.partition.columns": "true"})
    written.commit({("a", "f1"): rows_of(5, "a", 1)})
    why = "can only be searched through Spark, since the table leaves its partition columns out of the files"
    with pytest.raises(UnsupportedTableError, match=why):
        opened(written).search(QUERY, filter="dropped = 'a'")


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_opens_the_table_again(tmp_path: Path, rows: list[Row], copied: Any) -> None:
    table = WrittenTable(tmp_path / "t")
    instant = table.commit({("a", "f1"): rows[:20]})
    past = opened(table, refresh_every=1000.0, as_of=instant, zone="Europe/Berlin")
    newest = opened(table, options={"hoodie.vector.search.local.threads": "1"})
    table.commit({("b", "f3"): rows[40:]})
    newest.refresh()
    for one, visible in ((past, rows[:20]), (newest, rows[:20] + rows[40:])):
        assert answers(copied(one)) == answers(one) == ids(visible, 5, "cosine")
    past.close()
    with pytest.raises(InvalidArgumentError, match="was closed; open it again"):
        copied(past)


def test_a_copy_of_files_has_the_same_rows_deleted(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.path)
    file = next(Path().rglob("f3*.parquet"))
    given = hv.open(files=iter([file]), column="emb", deleted={file: [0, 1, 2]})
    packed = pickle.dumps(given)
    monkeypatch.chdir("/")
    assert len(pickle.loads(packed)) == len(given) == 27
    assert answers(pickle.loads(packed)) == answers(given)
