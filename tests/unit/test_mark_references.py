"""References in base files and log files: found by shape, all of them, or a clear refusal."""

from __future__ import annotations

import copy
import io
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance.file import LanceFileWriter
from support.blob_states import (
    ARROW,
    AVRO_BLOB,
    BLOB,
    REFERENCE,
    WITH_META,
    avro_block,
    blob,
    block,
    change_block,
    change_schema,
    inline,
    parquet,
    parquet_block,
    rows_of,
)

from hudi_vector.errors import DataFileError, InvalidBlobError
from hudi_vector.read.logs.blocks import read_blocks
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.table_services.references.base_files import parquet_references
from hudi_vector.table_services.references.files import references_of
from hudi_vector.table_services.references.lance_files import lance_fields
from hudi_vector.table_services.references.log_files import TornTail, log_references
from hudi_vector.table_services.references.references import REFERENCES, add_references, references_in
from hudi_vector.table_services.retention.retained import BASE, LOG, RetainedFile

NOW = "20260101000000000"
BLOBS = {1: blob("/a", 0, 5), 2: blob("/a", 5, 5), 3: inline(b"x"), 4: None, 5: blob("/b", None, None, managed=False)}
FOUND = [("img", "/a", 0, 5, True), ("img", "/a", 5, 5, True), ("img", "/b", None, None, False)]


def of_parquet(content: bytes) -> list[tuple[Any, ...]]:
    return told(parquet_references(pa.BufferReader(content)))


def of_log(*blocks: bytes) -> list[tuple[Any, ...]]:
    references, torn = log_references(pa.BufferReader(b"".join(blocks)))
    assert torn is None
    return told(references)


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    assert table.schema.equals(REFERENCES)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def rows(blobs: dict[int, Any]) -> list[dict[str, Any]]:
    return rows_of(blobs, NOW, "f", "", "f")


def test_a_base_file_gives_each_reference_once() -> None:
    assert of_parquet(parquet(rows({**BLOBS, 6: blob("/a", 0, 5)}), ARROW)) == FOUND


def test_types_as_hudi_spells_them_elsewhere() -> None:
    kind = pa.struct([("type", pa.binary()), ("data", pa.binary()), ("reference", REFERENCE)])
    made = [{**value, "type": value["type"].encode()} if value else None for value in BLOBS.values()]
    sink = io.BytesIO()
    pq.write_table(pa.table({"img": pa.array(made, kind)}), sink, row_group_size=2)
    assert of_parquet(sink.getvalue()) == FOUND


def test_blobs_are_found_wherever_they_are_nested() -> None:
    deep = pa.struct([("page", pa.int32()), ("image", BLOB), ("empty", pa.struct([("x", pa.int32())]))])
    table = pa.table(
        {
            "a.b": pa.array([blob("/dotted"), None], BLOB),
            "doc": pa.array([{"page": 1, "image": blob("/deep"), "empty": None}, None], deep),
            "many": pa.array([[blob("/l1"), None, blob("/l2")], None], pa.list_(BLOB)),
            "named": pa.array([[("k", blob("/m"))], None], pa.map_(pa.string(), BLOB)),
            "bare": pa.array([blob("/bare")["reference"], None], REFERENCE),
            "none": pa.array([1, 2]),
        }
    )
    expected = {
        ("a.b", "/dotted"),
        ("doc.image", "/deep"),
        ("many", "/l1"),
        ("many", "/l2"),
        ("named.value", "/m"),
        ("bare", "/bare"),
    }
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert {row[:2] for row in of_parquet(sink.getvalue())} == expected
    assert {row[:2] for row in told(references_in(table))} == expected


def test_bytes_of_blobs_are_not_read() -> None:
    big = {number: inline(bytes([number]) * (1 << 20)) for number in range(1, 9)}

    class Counting(io.BytesIO):
        count = 0

        def read(self, size: int = -1) -> bytes:
            found = super().read(size)
            self.count += len(found)
            return found

    source = Counting(parquet(rows({**big, 9: blob("/a")}), ARROW))
    assert parquet_references(source).num_rows == 1
    assert source.count < 1 << 19


def test_an_out_of_line_blob_without_a_path_is_refused() -> None:
    lost = {1: blob("/a"), 2: {"type": "OUT_OF_LINE", "data": None, "reference": None}}
    with pytest.raises(InvalidBlobError, match="1 of its rows are OUT_OF_LINE in column 'img' and name no path"):
        of_parquet(parquet(rows(lost), ARROW))
    with pytest.raises(InvalidBlobError, match="name no path"):
        of_log(avro_block(rows(lost), WITH_META, NOW))
    unknown = pa.table({"img": pa.array([{"type": "ELSEWHERE", "data": None, "reference": None}], BLOB)})
    with pytest.raises(InvalidBlobError, match="name no path"):
        references_in(unknown)


def test_an_inline_blob_with_a_path_counts() -> None:
    assert of_parquet(parquet(rows({1: {**blob("/odd"), "type": "INLINE"}}), ARROW)) == [("img", "/odd", 0, 5, True)]


def test_many_references_become_one_table() -> None:
    parts: list[pa.Table] = []
    for _ in range(50):
        add_references(parts, references_in(pa.table({"img": pa.array(list(BLOBS.values()), BLOB)})), held=10)
    assert sum(part.num_rows for part in parts) <= 16


@pytest.mark.parametrize("made", [avro_block, parquet_block])
def test_every_block_of_a_log_counts(made: Any) -> None:
    older = {1: blob("/superseded")}
    deleted = block(1, {0: NOW.encode()}, struct.pack(">ii", 3, 2) + b"xx")
    command = block(0, {0: NOW.encode(), 4: b"0"}, b"")
    content = [made(rows(older), WITH_META, NOW), deleted, made(rows(BLOBS), WITH_META, NOW), command]
    assert of_log(*content) == sorted([("img", "/superseded", 0, 5, True), *FOUND], key=str)
    assert [found.kind for found in read_blocks(pa.BufferReader(b"".join(content)))][1::2] == [1, 0]


def test_a_block_of_only_the_touched_columns() -> None:
    partial = {
        "type": "record",
        "name": "part",
        "fields": [{"name": "id", "type": "int"}, {"name": "img", "type": AVRO_BLOB}],
    }
    assert of_log(avro_block([{"id": 1, "img": blob("/p")}], partial, NOW)) == [("img", "/p", 0, 5, True)]


def test_avro_names_a_type_the_second_time() -> None:
    schema = {
        "type": "record",
        "name": "row",
        "namespace": "some.where",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "color", "symbols": ["RED"]}},
            {"name": "one", "type": ["null", AVRO_BLOB], "default": None},
            {"name": "color", "type": "color"},
            {"name": "two", "type": ["null", "blob"], "default": None},
            {"name": "list", "type": {"type": "array", "items": ["null", "blob"]}},
            {"name": "map", "type": ["null", {"type": "map", "values": "blob"}]},
            {"name": "doc", "type": {"type": "record", "name": "doc", "fields": [{"name": "scan", "type": "blob"}, {"name": "n", "type": "long"}]}},
            {"name": "emb", "type": {"type": "fixed", "name": "v", "size": 4, "logicalType": "vector", "dimension": 1}},
        ],
    }  # fmt: skip
    row = {
        "kind": "RED", "one": blob("/1"), "color": "RED", "two": blob("/2"), "list": [blob("/3"), None],
        "map": {"k": blob("/4")}, "doc": {"scan": blob("/5"), "n": 7}, "emb": b"abcd",
    }  # fmt: skip
    found = {found[:2] for found in of_log(avro_block([row], schema, NOW))}
    assert found == {("one", "/1"), ("two", "/2"), ("list", "/3"), ("map.value", "/4"), ("doc.scan", "/5")}


def test_an_enum_that_another_column_defines_first() -> None:
    other = copy.deepcopy(AVRO_BLOB)
    other["fields"][0]["type"] = "blob_storage_type"
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "kind", "type": AVRO_BLOB["fields"][0]["type"]}, {"name": "img", "type": other}],
    }
    assert of_log(avro_block([{"kind": "INLINE", "img": blob("/e")}], schema, NOW)) == [("img", "/e", 0, 5, True)]


def test_rows_without_blobs_are_not_decoded() -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}]}
    assert of_log(block(3, {2: json.dumps(schema).encode()}, b"of an older version")) == []


GOOD = avro_block(rows(BLOBS), WITH_META, NOW)


@pytest.mark.parametrize(
    ("cut", "instant"), [(0, None), (3, None), (7, None), (20, None), (40, None), (1500, NOW), (len(GOOD) - 1, NOW)]
)
def test_a_torn_tail_is_told(cut: int, instant: str | None) -> None:
    references, torn = log_references(pa.BufferReader(GOOD + GOOD[:cut]))
    assert told(references) == FOUND
    assert torn == (TornTail(len(GOOD), instant) if cut else None)
    references, torn = log_references(pa.BufferReader(GOOD[:cut]))
    assert (told(references), torn) == ([], TornTail(0, instant))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"garbage" + GOOD, "no block begins at byte 0"),
        (GOOD + b"garbage", f"no block begins at byte {len(GOOD)}"),
        (GOOD[:-20] + GOOD, "its lengths contradict each other"),
        (GOOD[:6] + struct.pack(">q", 10**9) + GOOD[14:] + GOOD, "another one begins before its end"),
        (GOOD[:6] + struct.pack(">q", -5) + GOOD[14:], "its length is -5"),
        (GOOD[:-8] + struct.pack(">q", 1), "its lengths contradict each other"),
        (GOOD[:6] + struct.pack(">q", 20) + GOOD[14:34], "is damaged"),
        (block(3, {0: b"x"}, b"", version=0), "has version 0"),
        (block(2, {}, b""), "of type CORRUPT, which is not read"),
        (block(4, {}, b""), "of type HFILE_DATA"),
        (block(6, {}, b""), "has no schema"),
        (block(77, {}, b""), r"of type unknown \(77\)"),
        (block(3, {}, b""), "has no schema"),
        (avro_block(rows(BLOBS), WITH_META, NOW, version=2), "have version 2"),
        (block(3, {2: json.dumps(WITH_META).encode()}, struct.pack(">iii", 3, 1, 99) + b"x"), "does not fit in it"),
        (block(3, {2: json.dumps(WITH_META).encode()}, struct.pack(">ii", 3, 0) + b"x"), "bytes are left"),
    ],
)
def test_damage_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        of_log(content)


def test_a_row_of_another_length_is_refused() -> None:
    whole = struct.unpack_from(">i", GOOD, GOOD.index(struct.pack(">ii", 3, 5)) + 8)[0]
    place = GOOD.index(struct.pack(">ii", 3, 5)) + 8
    record = GOOD[place + 4 : place + 4 + whole] + b"\x00"
    content = struct.pack(">iii", 3, 1, len(record)) + record
    with pytest.raises(DataFileError, match="row 0 of a block has"):
        of_log(block(3, {2: json.dumps(WITH_META).encode()}, content))


@pytest.mark.parametrize(
    ("name", "content", "doubt"),
    [
        ("f_0-1-2_20260101000000000.parquet", b"", "cannot be read: Parquet file size is 0 bytes"),
        ("f_0-1-2_20260101000000000.parquet", b"PAR1 and more", "cannot be read"),
        (".f_20260101000000000.log.1_0-1-2", b"no log at all", "no block begins at byte 0"),
        (".f_20260101000000000.log.1_0-1-2", block(5, {}, b"no parquet"), "cannot be read"),
        (".f_20260101000000000.log.1_0-1-2", block(3, {2: b"{"}, b""), "cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_doubts(tmp_path: Any, name: str, content: bytes, doubt: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    info = FileInfo(f"file://{path}", len(content), 0)
    file = RetainedFile(f"file://{tmp_path}", info, LOG if ".log." in name else "base", "f", NOW)
    found = references_of(file, StorageOptions())
    assert found.doubt is not None
    assert doubt in found.doubt
    assert str(path) in found.doubt
    path.unlink()
    assert references_of(file, StorageOptions()).is_gone


def test_logs_of_changed_rows() -> None:
    before, after = rows({1: blob("/old")})[0], rows({1: blob("/new")})[0]
    schema = change_schema(WITH_META)
    made = [
        {"op": "u", "ts_ms": "1", "before": before, "after": after},
        {"op": "i", "ts_ms": "1", "before": None, "after": rows({2: blob("/a")})[0]},
        {"op": "d", "ts_ms": "1", "before": rows({3: inline(b"x")})[0], "after": None},
    ]
    assert [(name, path) for name, path, *_ in of_log(change_block(made, schema, NOW))] == [
        ("after.img", "/a"),
        ("after.img", "/new"),
        ("before.img", "/old"),
    ]
    keys = {**schema, "fields": [{"name": name, "type": ["null", "string"]} for name in ("op", "record_key")]}
    assert of_log(change_block([{"op": "u", "record_key": "1"}], keys, NOW)) == []


def test_changed_rows_as_text_are_a_doubt() -> None:
    for kind in ("string", {"type": "map", "values": "string", "name": "m", "namespace": "n"}):
        schema = change_schema(kind)
        schema["fields"] = schema["fields"][:3]
        value = "{}" if kind == "string" else {"img": "x"}
        with pytest.raises(DataFileError, match="holds 'before' as no record"):
            of_log(change_block([{"op": "u", "ts_ms": "1", "before": value}], schema, NOW))


def lance_file(path: Path, table: pa.Table) -> RetainedFile:
    with LanceFileWriter(str(path), table.schema) as writer:
        writer.write_batch(table)
    info = open_storage(f"file://{path}", LOCAL).info(f"file://{path}")
    return RetainedFile(f"file://{path.parent}", info, BASE, "f", NOW)


def test_lance_base_files(tmp_path: Path) -> None:
    made = [{"id": number, "img": value} for number, value in BLOBS.items()]
    file = lance_file(tmp_path / "f_0-1-2_20260101000000000.lance", pa.Table.from_pylist(made * 5000, _LANCE))
    found = references_of(file, LOCAL)
    assert (found.doubt, told(found.references)) == (None, FOUND)
    none = lance_file(tmp_path / "g_0-1-2_20260101000000000.lance", pa.table({"id": [1], "s": [{"a": 1}]}))
    assert told(references_of(none, LOCAL).references) == []


def test_blobs_nested_in_lance(tmp_path: Path) -> None:
    deep = pa.struct([("page", pa.int32()), ("image", BLOB)])
    table = pa.table(
        {
            "doc": pa.array([{"page": 1, "image": blob("/deep")}, None], deep),
            "many": pa.array([[blob("/l1"), None, blob("/l2")], None], pa.list_(BLOB)),
            "bare": pa.array([blob("/bare")["reference"], None], REFERENCE),
            "big": pa.array([b"x" * 100, None], pa.binary()),
        }
    )
    right = [("bare", "/bare"), ("doc.image", "/deep"), ("many", "/l1"), ("many", "/l2")]
    file = lance_file(tmp_path / "f_0-1-2_20260101000000000.lance", table)
    assert [row[:2] for row in told(references_of(file, LOCAL).references)] == right
    assert lance_fields(table.schema) == ["doc.image.type", "doc.image.reference", "many", "bare"]
    dotted = pa.table({"a.b": table["bare"]})
    assert lance_fields(dotted.schema) is None


def test_an_outside_blob_without_a_path_in_lance_is_a_doubt(tmp_path: Path) -> None:
    lost = pa.Table.from_pylist([{"id": 1, "img": {"type": "OUT_OF_LINE", "data": None, "reference": None}}], _LANCE)
    file = lance_file(tmp_path / "f_0-1-2_20260101000000000.lance", lost)
    assert "OUT_OF_LINE in column 'img' and name no path" in references_of(file, LOCAL).doubt


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "hole", "gone"])
def test_damaged_lance_files_are_doubts(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "f_0-1-2_20260101000000000.lance"
    file = lance_file(path, pa.Table.from_pylist([{"id": 1, "img": blob("/a")}] * 50, _LANCE))
    raw = path.read_bytes()
    path.write_bytes(
        {"empty": b"", "cut": raw[:-9], "other": b"x" * 500, "hole": raw[:-200] + bytes(160) + raw[-40:]}.get(
            damage, b""
        )
    )
    if damage == "gone":
        path.unlink()
    found = references_of(file, LOCAL)
    assert (found.is_gone, found.doubt is None) == (damage == "gone", damage == "gone")


_LANCE = pa.schema([("id", pa.int32()), ("img", BLOB)])
LOCAL = StorageOptions()
