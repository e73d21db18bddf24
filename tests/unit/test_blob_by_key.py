"""Blobs of single rows by record key: the newest version of each, whatever files hold it."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import servers
from support.blob_states import (
    ARROW,
    OLD,
    WITH_META,
    BlobTable,
    avro_block,
    blob,
    block,
    inline,
    parquet_block,
    rows_of,
)

from hudi_vector.blobs.reading.by_key import blob_paths, find_blobs, why_not_direct
from hudi_vector.errors import DataFileError, UnmergeableError, UnsupportedTableError
from hudi_vector.read.logs.keys import _DELETES
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

CACHE = 64 << 20
KEYS = 12


def made(path: Path, **properties: str) -> BlobTable:
    settings = {
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        **properties,
    }
    return BlobTable(path.resolve() / "t", OLD, properties=settings)


def snapshot(table: BlobTable) -> Snapshot:
    return NativeTable(Source(table.uri, "t")).snapshot()


def found(table: BlobTable, keys: Sequence[object] = range(KEYS)) -> dict[str, Any]:
    taken = snapshot(table)
    assert why_not_direct(taken) is None
    assert blob_paths(taken.schema) == [("img",)]
    rows = find_blobs(taken, ("img",), {(str(key),) for key in keys}, CACHE)
    assert len(set(rows.keys)) == len(rows.keys)
    return {key: value for (key,), value in zip(rows.keys, rows.blobs.to_pylist(), strict=True)}


def deletions(keys: Sequence[int], instant: str, order: int | None) -> bytes:
    """A block that deletes rows; without an ordering value whatever comes before."""
    held = io.BytesIO()
    value = None if order is None else ("LongWrapper", {"value": order})
    rows = [{"recordKey": str(key), "partitionPath": "", "orderingVal": value} for key in keys]
    fastavro.schemaless_writer(held, _DELETES, rows)
    return block(1, {0: instant.encode()}, struct.pack(">ii", 3, len(held.getvalue())) + held.getvalue())


def changes(blobs: Mapping[int, Any], instant: str, order: int, form: str) -> bytes:
    rows = [{**row, "ts": order} for row in rows_of(blobs, instant, "f1", "", "f1")]
    return avro_block(rows, WITH_META, instant) if form == "avro" else parquet_block(rows, WITH_META, instant)


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("seed", range(6))
def test_histories(tmp_path: Path, mode: str, seed: int) -> None:
    """A model of the table says which version of each row is valid after every commit."""
    chance = random.Random(seed)
    by_order = mode == "EVENT_TIME_ORDERING"
    more = {"hoodie.record.merge.mode": mode}
    table = made(tmp_path, **more, **({} if by_order else {"hoodie.table.ordering.fields": ""}))
    instant = table.instant()
    model: dict[str, tuple[int, Any]] = {}

    def put(key: int, order: int, value: Any, is_there: bool = True) -> None:
        known = model.get(str(key))
        if known is None or not by_order or order >= known[0]:
            model[str(key)] = (order, (value,) if is_there else ())

    base = {key: blob(f"base/{key}") for key in range(0, KEYS, 2)}
    table.base("f1", instant, base)
    table.base("f2", instant, {key: inline(b"other") for key in range(1, KEYS, 4)})
    table.complete(instant, "commit")
    first = int(instant)
    model.update({str(key): (first, (value,)) for key, value in base.items()})
    model.update({str(key): (first, (inline(b"other"),)) for key in range(1, KEYS, 4)})
    for step in range(5):
        instant, order = table.instant(), first + chance.randint(-2, 8)
        chosen = chance.sample(range(0, KEYS, 2), 3)
        if step % 3 == 2:
            content = deletions(chosen, instant, order if by_order else None)
            for key in chosen:
                put(key, order, None, is_there=False)
        else:
            values = {key: chance.choice([None, inline(b"%d" % step), blob(f"{step}/{key}")]) for key in chosen}
            content = changes(values, instant, order, chance.choice(["avro", "parquet"]))
            for key, value in values.items():
                put(key, order, value)
        table.raw_log("f1", instant, content)
        table.complete(instant)
        assert found(table) == {key: value[0] for key, (_, value) in model.items() if value}, f"step {step}"


def test_rows_that_no_log_file_changes_need_no_merge(tmp_path: Path) -> None:
    """A payload of the user's own is Hudi's to merge, but rows of the base file alone are valid as they are."""
    table = made(
        tmp_path, **{"hoodie.compaction.payload.class": "org.example.Own", "hoodie.record.merge.mode": "CUSTOM"}
    )
    instant = table.instant()
    table.base("f1", instant, {key: blob(str(key)) for key in range(4)})
    table.complete(instant, "commit")
    instant = table.instant()
    table.log("f1", instant, {2: blob("new")})
    table.complete(instant)
    assert found(table, [0, 3, 77]) == {"0": blob("0"), "3": blob("3")}
    with pytest.raises(UnmergeableError, match="a merge mode or payload of the user's own merges one of the rows"):
        found(table, [0, 2])


def test_a_row_in_log_files_alone_is_left_to_spark(tmp_path: Path) -> None:
    table = made(tmp_path)
    instant = table.instant()
    table.log("f1", instant, {2: blob("new")})
    table.complete(instant)
    assert found(table, [3]) == {}
    with pytest.raises(UnmergeableError, match="log files without a base file"):
        found(table, [2])


def test_log_files_with_parts_of_rows_are_left_to_spark(tmp_path: Path) -> None:
    table = made(tmp_path)
    instant = table.instant()
    table.base("f1", instant, {2: blob("old")})
    table.complete(instant, "commit")
    instant = table.instant()
    content = changes({2: blob("new")}, instant, 1, "avro")
    header = block(3, {0: instant.encode(), 2: b"{}", 7: b"true"}, b"")
    table.raw_log("f1", instant, header + content)
    table.complete(instant)
    with pytest.raises(UnmergeableError, match="only some of their columns"):
        found(table, [2])


def test_a_damaged_log_file_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    instant = table.instant()
    table.base("f1", instant, {2: blob("old")})
    table.complete(instant, "commit")
    instant = table.instant()
    content = changes({2: blob("new")}, instant, 1, "avro").replace(b"_0_0", b"\xff\xff\xff\xff")
    table.raw_log("f1", instant, content)
    table.complete(instant)
    with pytest.raises(DataFileError, match=r"log\.1_0-1-2' cannot be read|rows of the block at byte 0"):
        found(table, [2])


def test_keys_of_several_fields_are_compared_by_their_values(tmp_path: Path) -> None:
    """The record key ``id:1,ts:2`` is also the text of other values."""
    table = made(tmp_path, **{"hoodie.table.recordkey.fields": "id,ts", "hoodie.table.keygenerator.type": "COMPLEX"})
    instant = table.instant()
    rows = rows_of({1: blob("one"), 2: blob("two")}, instant, "f1", "", "f")
    rows = [{**row, "ts": 5, "_hoodie_record_key": f"id:{row['id']},ts:5"} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows, ARROW), table.path / f"f1_0-1-2_{instant}.parquet", store_schema=False)
    table.complete(instant, "commit")
    taken = snapshot(table)
    assert why_not_direct(taken) is None
    got = find_blobs(taken, ("img",), {("1", "5"), ("2", "6"), ("1", "5,ts:5")}, CACHE)
    assert (got.keys, got.blobs.to_pylist()) == ((("1", "5"),), [blob("one")])


def test_on_an_object_store(tmp_path: Path) -> None:
    """Single pages are found by the page index; a file without one is left to Spark."""
    table = made(tmp_path)
    instant = table.instant()
    base = table.base("f1", instant, {key: blob(str(key)) for key in range(4)})
    pq.write_table(pq.read_table(base), base, write_page_index=True, store_schema=False)
    table.base("f2", instant, {9: blob("9")})
    table.complete(instant, "commit")
    instant = table.instant()
    table.log("f1", instant, {2: inline(b"new")})
    table.complete(instant)
    with servers.lake() as (options, client):
        for file in table.path.rglob("*"):
            if file.is_file():
                key = f"t/{file.relative_to(table.path)}"
                client.put_object(Bucket="lake", Key=key, Body=file.read_bytes())
        taken = NativeTable(Source("s3://lake/t", "t", options)).snapshot()
        got = find_blobs(taken, ("img",), {("1",), ("2",), ("7",)}, CACHE)
        assert sorted(zip(got.keys, got.blobs.to_pylist(), strict=True)) == [
            (("1",), blob("1")),
            (("2",), inline(b"new")),
        ]
        with pytest.raises(UnsupportedTableError, match=r"single pages of 'img\.type' cannot be found"):
            find_blobs(taken, ("img",), {("9",)}, CACHE)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hoodie.populate.meta.fields": "false"}, "no record keys"),
        ({"hoodie.table.keygenerator.type": "CUSTOM"}, "its key generator"),
        ({"hoodie.table.recordkey.fields": "img"}, "its key field 'img' is neither text nor a whole number"),
        ({"hoodie.bootstrap.base.path": "/other"}, "the table is bootstrapped"),
    ],
)
def test_tables_that_only_spark_reads(tmp_path: Path, properties: dict[str, str], reason: str) -> None:
    table = made(tmp_path, **properties)
    instant = table.instant()
    table.base("f1", instant, {1: blob("one")})
    table.complete(instant, "commit")
    assert reason in str(why_not_direct(snapshot(table)))
