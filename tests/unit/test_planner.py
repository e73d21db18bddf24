"""Plans: how every kind of table is read and why, where the search runs, which partitions are left out."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan, partition_values
from hudi_vector.read.predicate.form import parse
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.table.config import TableConfig
from hudi_vector.table.model import FileSlice, Snapshot, Source

SCHEMA = pa.schema(
    {"id": pa.int64(), "grp": pa.string(), "year": pa.int32(), "day": pa.date32(), "price": pa.float64()}
)
COLUMN = VectorColumn("emb", 4, "float")
PLAIN = "hoodie.table.version=9\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\nhoodie.table.type=MERGE_ON_READ\n"


def info(name: str, size: int = 10, base: str = "file:///t") -> FileInfo:
    return FileInfo(f"{base}/{name}", size, 1)


def slice_of(partition: str = "", logs: int = 0, name: str = "f_0_1.parquet", **options: Any) -> FileSlice:
    files = tuple(info(f".f_1.log.{i}", 5, **options) for i in range(logs))
    return FileSlice(partition, "f", "1", info(name, **options) if name else None, files)


def snapshot(*slices: FileSlice, text: str = "", schema: pa.Schema = SCHEMA, **changes: Any) -> Snapshot:
    made = Snapshot(
        source=Source("file:///t", "products", StorageOptions.of({"fs.s3a.secret.key": "the-secret"})),
        config=TableConfig.parse(PLAIN + text),
        identity="x",
        instant="20260101000000000",
        watermark="20260101000001000",
        schema=schema,
        file_slices=slices or (slice_of(),),
    )
    return replace(made, **changes)


def plan(table: Snapshot, text: str | None = None, conf: dict[str, str] | None = None, **request: Any) -> SearchPlan:
    predicate = None if text is None else parse(text, table.schema)
    asked = SearchRequest(COLUMN, "cosine", 3, predicate=predicate, filter_text=text, **request)
    return make_plan(table, asked, conf or {})


def access(table: Snapshot, **request: Any) -> tuple[str, str]:
    (only,) = plan(table, **request).slices
    return only.access, only.reason


def with_vectors(*descriptors: str) -> pa.Schema:
    fields = [
        pa.field(f"v{i}", pa.list_(pa.float32()), metadata={HUDI_TYPE: text}) for i, text in enumerate(descriptors)
    ]
    return pa.schema([*SCHEMA, *fields])


TWO_ALIKE = with_vectors("VECTOR(4)", "VECTOR(4)")
TWO_KINDS = with_vectors("VECTOR(4)", "VECTOR(8)")
BLOB = SCHEMA.append(pa.field("img", pa.struct({"data": pa.binary()}), metadata={HUDI_TYPE: "BLOB"}))


@pytest.mark.parametrize(
    ("table", "wanted", "reason"),
    [
        (snapshot(), "parquet", ""),
        (snapshot(slice_of(logs=1)), "merged", "1 log file"),
        (snapshot(slice_of(logs=3)), "merged", "3 log files"),
        (snapshot(slice_of(logs=1, name="")), "spark", "log files without a base file"),
        (
            snapshot(slice_of(logs=1), older_schemas=frozenset({"1"})),
            "spark",
            "log files on a base file of an older schema",
        ),
        (snapshot(slice_of(), older_schemas=frozenset({"1"})), "parquet", ""),
        (snapshot(slice_of(logs=1), schema=TWO_ALIKE), "spark", "several VECTOR columns of one type in log files"),
        (snapshot(slice_of(logs=1), schema=TWO_KINDS), "merged", "1 log file"),
        (snapshot(slice_of(name="f_0_1.lance")), "lance", ""),
        (snapshot(slice_of(logs=1, name="f_0_1.lance")), "spark", "log files on a Lance base file"),
        (snapshot(schema=BLOB), "parquet", ""),
        (snapshot(slice_of(logs=1), schema=BLOB), "spark", "BLOB columns in log files"),
        (snapshot(text="hoodie.record.merge.mode=CUSTOM"), "parquet", ""),
        (
            snapshot(slice_of(logs=1), text="hoodie.record.merge.mode=CUSTOM"),
            "spark",
            "a merge mode or payload of the user's own",
        ),
        (snapshot(text="hoodie.populate.meta.fields=false"), "parquet", ""),
        (
            snapshot(slice_of(logs=1), text="hoodie.populate.meta.fields=false"),
            "spark",
            "log files without meta fields",
        ),
        (snapshot(slice_of(logs=1), text="hoodie.table.version=6"), "merged", "1 log file"),
        (
            snapshot(slice_of(logs=1), text="hoodie.table.version=6", as_of="20260101000000"),
            "spark",
            "log files of table version 6 as of an earlier instant",
        ),
        (snapshot(slice_of(logs=1), as_of="20260101000000"), "merged", "1 log file"),
        (
            snapshot(slice_of(logs=1), source=Source("hdfs://name/t", "t")),
            "spark",
            "log files on 'hdfs://'",
        ),
        (snapshot(source=Source("hdfs://name/t", "t")), "parquet", ""),
        (snapshot(evolves_on_read=True), "spark", "its schema evolves on read"),
        (
            snapshot(text="hoodie.datasource.write.drop.partition.columns=true"),
            "spark",
            "the table leaves its partition columns out of the files",
        ),
        (
            snapshot(text="hoodie.table.partition.fields=grp\nhoodie.table.keygenerator.type=TIMESTAMP"),
            "spark",
            "its key generator makes partition paths that are not the columns' values",
        ),
        (snapshot(text="hoodie.table.keygenerator.type=TIMESTAMP"), "parquet", ""),
    ],
)
def test_how_a_slice_is_read(table: Snapshot, wanted: str, reason: str) -> None:
    assert access(table) == (wanted, reason)


def test_what_the_request_needs_spark_for() -> None:
    assert access(snapshot(), why_spark="the filter (a UDF)") == ("spark", "the filter (a UDF)")


@pytest.mark.parametrize(
    ("asked", "conf", "execution", "reason"),
    [
        ("auto", {}, "local", "10 bytes, no more than hoodie.vector.search.local.max.bytes = 2147483648"),
        (
            "auto",
            {"hoodie.vector.search.local.max.bytes": "9"},
            "distributed",
            "10 bytes, more than hoodie.vector.search.local.max.bytes = 9",
        ),
        ("auto", {"hoodie.vector.search.execution": "distributed"}, "distributed", "as asked"),
        ("local", {"hoodie.vector.search.execution": "distributed"}, "local", "as asked"),
        ("distributed", {}, "distributed", "as asked"),
    ],
)
def test_where_a_search_runs(asked: str, conf: dict[str, str], execution: str, reason: str) -> None:
    made = plan(snapshot(), conf=conf, execution=asked)
    assert (made.execution, made.reason) == (execution, reason)


def test_one_slice_that_only_spark_reads_sends_the_search_to_spark() -> None:
    made = plan(snapshot(slice_of(), slice_of(logs=1), schema=BLOB), execution="local")
    assert made.execution == "spark"
    assert made.reason == "read by Spark's own Hudi reader (BLOB columns in log files)"
    assert made.access_counts == {"parquet": 1, "spark": 1}


def test_base_files_of_other_formats_are_read_by_spark() -> None:
    assert access(snapshot(slice_of(name="f_0_1.orc"))) == ("spark", "base files of format orc")


def test_a_bootstrapped_table_is_read_by_spark_even_if_it_shows_no_slices() -> None:
    made = plan(snapshot(text="hoodie.bootstrap.base.path=/elsewhere\n", file_slices=()))
    assert made.execution == "spark"
    assert made.reason == "read by Spark's own Hudi reader (the table is bootstrapped)"


def test_an_empty_table_is_searched_on_the_driver() -> None:
    assert plan(snapshot(file_slices=())).execution == "local"


PARTITIONED = "hoodie.table.partition.fields=grp\n"
HIVE = PARTITIONED + "hoodie.datasource.write.hive_style_partitioning=true\n"
ENCODED = PARTITIONED + "hoodie.datasource.write.partitionpath.urlencode=true\n"
TWO = "hoodie.table.partition.fields=grp,year\nhoodie.table.keygenerator.type=COMPLEX\n"


@pytest.mark.parametrize(
    ("text", "paths", "predicate", "kept"),
    [
        (PARTITIONED, ["a", "b"], "grp = 'a'", ["a"]),
        (PARTITIONED, ["a", "b"], "grp <> 'a' AND price < 3", ["b"]),
        (PARTITIONED, ["a", "b"], "grp = 'a' OR price < 3", ["a", "b"]),
        (PARTITIONED, ["a", "b"], "price < 3", ["a", "b"]),
        (PARTITIONED, ["a", "b"], "grp IS NULL", []),
        (
            PARTITIONED,
            ["a", "__HIVE_DEFAULT_PARTITION__", "default"],
            "grp IS NULL",
            ["__HIVE_DEFAULT_PARTITION__", "default"],
        ),
        (PARTITIONED, ["a", "__HIVE_DEFAULT_PARTITION__"], "grp = 'b'", ["__HIVE_DEFAULT_PARTITION__"]),
        (PARTITIONED, ["a/b", "b"], "grp = 'b'", ["a/b", "b"]),  # a value with a slash is not told from its path
        (HIVE, ["grp=a", "grp=b", "b"], "grp = 'b'", ["grp=b", "b"]),
        (HIVE, ["grp=a=b"], "grp = 'a=b'", ["grp=a=b"]),
        (ENCODED, ["a%2Fb", "a%20c"], "grp = 'a/b'", ["a%2Fb"]),
        (PARTITIONED, ["a%2Fb"], "grp = 'a/b'", []),
        (TWO, ["a/2025", "a/2026", "b/2026"], "grp = 'a' AND year > 2025", ["a/2026"]),
        (TWO, ["a/x", "a/-5"], "year < 0", ["a/x", "a/-5"]),
        ("hoodie.table.partition.fields=day\n", ["2026-01-01"], "day > DATE '2026-02-01'", ["2026-01-01"]),
        ("", ["", "a"], "grp = 'a'", ["", "a"]),
    ],
)
def test_partitions_that_cannot_match_are_left_out(
    text: str, paths: list[str], predicate: str, kept: list[str]
) -> None:
    made = plan(snapshot(*(slice_of(path) for path in paths), text=text), predicate)
    assert [entry.file_slice.partition_path for entry in made.slices] == kept
    assert made.pruned_slices == len(paths) - len(kept)


@pytest.mark.parametrize("path", ["a/--5", "a/5-", "a/²", "a/٣", "a/1e3", "a/99999999999", "a/ 5", "a/+5"])
def test_a_path_that_is_no_number_tells_nothing_certain(path: str) -> None:
    assert "year" not in partition_values(path, snapshot(text=TWO))


def test_a_plan_travels_and_shows_no_secret() -> None:
    made = plan(
        snapshot(slice_of("a"), slice_of("b", logs=2), text=PARTITIONED, as_of="2026-01-01"),
        "price < 3",
        max_distance=0.5,
    )
    assert pickle.loads(pickle.dumps(made)) == made
    text = made.describe()
    assert "the-secret" not in text + repr(made) + str(made)
    assert text.splitlines() == [
        "Search of products (file:///t)",
        "  snapshot    instant 20260101000000000, completed until 20260101000001000, as of 2026-01-01",
        "  column      emb VECTOR(4, FLOAT)",
        "  metric      cosine, k = 3, max_distance = 0.5",
        "  filter      price < 3",
        "  index       none: the column has no index",
        "  execution   local: 30 bytes, no more than hoodie.vector.search.local.max.bytes = 2147483648",
        "  slices      2 to read",
        "    merged    1: 2 log files",
        "    parquet   1",
        "  bytes       30 at the most",
    ]
    assert repr(made).splitlines()[-4:] == [
        "├─ slices      2 to read",
        "│  ├─ merged    1: 2 log files",
        "│  └─ parquet   1",
        "└─ bytes       30 at the most",
    ]
    assert [row["access"] for row in made.rows()] == ["parquet", "merged"]


def test_a_plan_says_what_was_pruned_and_what_is_no_vector() -> None:
    table = snapshot(slice_of("a"), slice_of("b"), text=PARTITIONED, instant=None, watermark=None)
    asked = SearchRequest(
        VectorColumn("xs", 2, "double", is_vector=False), "l2", 1, predicate=parse("grp = 'a'", SCHEMA), filter_text="…"
    )
    text = make_plan(table, asked, {}).describe()
    assert "1 to read, 1 pruned by partition" in text
    assert "xs ARRAY(2, DOUBLE)" in text
    assert "instant none, completed until none" in text
