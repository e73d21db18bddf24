"""Lengths, depths and numbers that a stranger wrote into files of a table: refused before memory, time or the stack go."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import struct
import subprocess
import sys
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.blob_states import SCHEMA, WITH_META, BlobTable, block, write_id
from support.hostile import DAY, OLD

from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, publish_table
from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.side_arrays import pack, unpack, unpack_apart
from hudi_vector.read.parquet.pages import PageHeader, open_page, read_header
from hudi_vector.read.parquet.thrift import i32, i64, list_of_structs, read_struct, struct_of
from hudi_vector.read.parquet.values import Window, plain_values, run_lengths
from hudi_vector.storage import StorageOptions, join, open_storage
from hudi_vector.storage.side_files import publish
from hudi_vector.table.actions import parse_action
from hudi_vector.table.avro_schema import arrow_schema, require_finite
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.avro_walk import Found, walk_of

STORAGE = open_storage("file:///", StorageOptions())
RECURSIVE = {"type": "record", "name": "row", "fields": [{"name": "next", "type": ["null", "row"]}]}


def nested(depth: int) -> Any:
    """A schema of records in records."""
    kind: Any = "long"
    for level in range(depth):
        kind = {"type": "record", "name": f"r{level}", "fields": [{"name": "f", "type": kind}]}
    return {"type": "record", "name": "top", "fields": [{"name": "f", "type": kind}]}


def chained(length: int) -> Any:
    """A flat schema whose rows lie as deep: each type has the one before."""
    kinds = [{"type": "record", "name": "r0", "fields": [{"name": "f", "type": "long"}]}]
    kinds += [
        {"type": "record", "name": f"r{n}", "fields": [{"name": "f", "type": f"r{n - 1}"}]} for n in range(1, length)
    ]
    return {
        "type": "record",
        "name": "top",
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)],
    }


MUTUAL = {
    "type": "record",
    "name": "a.one",
    "fields": [
        {"name": "x", "type": {"type": "record", "name": "two", "fields": [{"name": "y", "type": ["null", "a.one"]}]}}
    ],
}


@pytest.mark.parametrize("schema", [RECURSIVE, MUTUAL, nested(200), chained(200), {"type": [{}, None]}])
def test_a_schema_without_end_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"contains itself|deeper than|a type is"):
        require_finite(schema)
    with pytest.raises(UnsupportedTableError, match="is not a valid Avro schema"):
        arrow_schema(json.dumps(schema), False)


@pytest.mark.parametrize("schema", [SCHEMA, WITH_META, nested(20), chained(20), "long", ["null", "long"]])
def test_schemas_of_tables_are_finite(schema: Any) -> None:
    require_finite(schema)


def test_one_name_in_two_places_is_no_circle() -> None:
    inner = {"type": "record", "name": "reference", "namespace": "b", "fields": [{"name": "x", "type": "long"}]}
    outer = {
        "type": "record",
        "name": "reference",
        "namespace": "a",
        "fields": [{"name": "x", "type": inner}, {"name": "y", "type": "b.reference"}],
    }
    require_finite(outer)


@pytest.mark.parametrize("text", ["", "null", "7", "[]", "{}", '{"fields": 7}', '{"fields": [{}]}', "[" * 100_000, "{"])
def test_what_is_no_schema_is_a_sentence(text: str) -> None:
    with pytest.raises(UnsupportedTableError, match="the table's schema is not a valid Avro schema"):
        arrow_schema(text)


def action_of(schema: Any, rows: bytes) -> bytes:
    """An Avro container with a block of one row, written as no writer does."""
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), [])
    content = sink.getvalue()
    sync = content[-16:]

    def number(value: int) -> bytes:
        out, value = bytearray(), value << 1
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    return content + number(1) + number(len(rows)) + rows + sync


def test_rows_that_lie_in_each_other_do_not_end_the_process(tmp_path: Path) -> None:
    """fastavro decodes them without a limit: before, this was a segmentation fault of whoever listed the table."""
    path = tmp_path / "1_2.commit"
    path.write_bytes(action_of(RECURSIVE, b"\x02" * 1_000_000 + b"\x00"))
    program = (
        "import sys\n"
        "from hudi_vector.errors import DataFileError\n"
        "from hudi_vector.table.actions import parse_action\n"
        "try:\n    parse_action(open(sys.argv[1], 'rb').read(), 'file:///t/1_2.commit')\n"
        "except DataFileError as refused:\n    print(refused)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "'file:///t/1_2.commit' cannot be read: the type 'row' contains itself" in done.stdout


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda tail: b"Obj\x01" + tail)))
def test_any_bytes_of_an_action_are_a_record_or_a_sentence(content: bytes) -> None:
    try:
        assert isinstance(parse_action(content, "file:///t/1.commit"), dict)
    except DataFileError as refused:
        assert "the timeline file 'file:///t/1.commit' cannot be read" in str(refused)


def test_rows_of_a_log_file_that_lie_in_each_other_are_a_doubt(tmp_path: Path) -> None:
    table = BlobTable(tmp_path.resolve() / "t", OLD)
    container = table.container(write_id(OLD, 1))
    instant = table.instant()
    key = {"name": "_hoodie_record_key", "type": "string"}
    schema = {**RECURSIVE, "fields": [key, *RECURSIVE["fields"]]}
    row = b"\x02" + b"1" + (b"\x02\x02" + b"1") * 100_000 + b"\x00"
    content = struct.pack(">iii", 3, 1, len(row)) + row
    table.raw_log("f1", instant, block(3, {0: instant.encode(), 2: json.dumps(schema).encode()}, content))
    table.complete(instant)
    report = find_unneeded(table.uri, grace_ms=DAY)
    assert (report.candidates, len(report.doubts)) == ((), 1)
    assert "contains itself" in report.doubts[0]
    assert any("contains itself" in doubt for doubt in look(table.uri, ["1"], tuple).doubts)
    assert (table.path / container).exists()


def test_a_number_without_end_is_refused_soon() -> None:
    endless = b"\x15" + b"\xff" * 300_000
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_struct(endless)
    with pytest.raises(ValueError, match="more than 64 bits"):
        run_lengths(b"\xff" * 300_000, 1, 4)
    schema = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}, *WITH_META["fields"]]}
    walk = walk_of(schema)
    assert walk is not None
    for row in (b"\xff" * 300_000, b"\x02\x02" + b"\xff" * 300_000):
        with pytest.raises(DataFileError, match="more than 64 bits"):
            walk(row, 0, Found())


def test_structs_in_structs_are_refused() -> None:
    for kind in (0x1C, 0x19):  # a struct in a struct, a list in a struct
        deep = bytes([kind, 0x1C] if kind == 0x19 else [kind]) * 200_000
        with pytest.raises(ValueError, match="are nested deeper than"):
            read_struct(deep)
        with pytest.raises(ValueError, match="are nested deeper than"):
            list_of_structs(deep, 7)


def page(plain_size: int, stored: int, values: int, kind: int = 0) -> bytes:
    """A page's header."""
    data = struct_of({1: i64(values), 2: i32(0), 3: i32(3), 4: i32(3)})
    return struct_of({1: i32(kind), 2: i64(plain_size), 3: i64(stored), 5: data}).data


@pytest.mark.parametrize(("plain_size", "values"), [(1 << 31, 1), (1 << 62, 1), (10, 1 << 40), (10, (1 << 26) + 1)])
def test_a_page_of_impossible_size_is_refused(plain_size: int, values: int) -> None:
    content = page(plain_size, 0, values)
    with pytest.raises(ValueError, match="something else than sizes"):
        read_header(Window.over(content), 0)


@contextlib.contextmanager
def most_of_arrow(limit: int) -> Iterator[None]:
    """Hold Arrow to so many bytes at any moment of a block."""
    before, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(watched)
    try:
        yield
    finally:
        pa.set_memory_pool(before)
    assert watched.max_memory() < limit


@contextlib.contextmanager
def most_of_python(limit: int) -> Iterator[None]:
    """Hold Python's own allocations to so many bytes more at any moment of a block."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "brotli", "lz4_raw"])
def test_little_does_not_become_much(codec: str) -> None:
    made = pa.Codec(codec)
    packed = made.compress(b"\0\0\0\0" + b"x" * 96, asbytes=True)
    header = PageHeader(0, 0, len(packed), (1 << 31) - 1, 1, 0)
    with most_of_arrow(1 << 20), pytest.raises(ValueError, match=f"bytes of {codec} cannot become 2147483647"):
        open_page(Window.over(packed), header, made, 0)
    whole = PageHeader(0, 0, len(packed), 100, 1, 0)
    assert bytes(open_page(Window.over(packed), whole, made, 0).values.take(4, 96)) == b"x" * 96


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "brotli", "lz4_raw"])
def test_pages_that_shrink_much_are_read(codec: str) -> None:
    made, content = pa.Codec(codec), bytes(64 << 20)
    packed = made.compress(content, asbytes=True)
    opened = open_page(Window.over(packed), PageHeader(0, 0, len(packed), len(content), 1, 0), made, 0)
    assert opened.values.end == len(content)


def test_more_values_than_bytes_take_no_memory() -> None:
    with pytest.raises(EOFError):
        plain_values(Window.over(b"\0" * 100), 0, 1 << 26)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_arrays_that_become_much_are_refused_before(codec: str, tmp_path: Path) -> None:
    plain = pack("segment", {"rows": 1}, {"a": np.zeros(1 << 25), "b": np.zeros(3)}, {"c": np.zeros(5)})
    file = tmp_path / "segment"
    file.write_bytes(plain)
    assert [len(array) for array in unpack("segment", STORAGE.open(f"file://{file}"), "x")[1].values()] == [
        1 << 25,
        3,
        5,
    ]
    table = pa.ipc.open_file(pa.BufferReader(plain)).read_all()
    for bomb in (table, table.set_column(1, "b", pa.array(["x"]).dictionary_encode())):
        with (
            pa.OSFile(str(file), "wb") as sink,
            pa.ipc.new_file(sink, bomb.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer,
        ):
            writer.write_table(bomb)
        assert file.stat().st_size < 10 << 20
        for read in (
            lambda: unpack("segment", STORAGE.open(f"file://{file}"), "x"),
            lambda: unpack_apart("segment", STORAGE.open(f"file://{file}"), "x", ["a"]),
        ):
            with (
                most_of_arrow(1 << 20),
                pytest.raises(DataFileError, match=r"it (is compressed|has dictionaries), which no file of ours"),
            ):
                read()


def test_a_compressed_timeline_file_is_refused_before_it_expands() -> None:
    sink = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "text", "type": "string"}]}
    fastavro.writer(sink, fastavro.parse_schema(schema), [{"text": "x" * (64 << 20)}], codec="deflate")
    content = sink.getvalue()
    with most_of_python(8 << 20), pytest.raises(DataFileError, match="by 'deflate', which no timeline file is"):
        parse_action(content, "file:///t/.hoodie/1.commit")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_layout_of_arrays_is_refused_or_read(data: st.DataObject) -> None:
    content = bytearray(pack("segment", {"rows": 1}, {"a": np.arange(9), "b": np.zeros(3)}))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(content), len(content), 9, len(content) // 2]))
    with contextlib.suppress(DataFileError, UnsupportedTableError):
        unpack("segment", pa.BufferReader(bytes(content[:cut])), "x")


def test_a_side_table_takes_memory_in_proportion(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}"
    whole = publish_table(STORAGE, folder, "files", pa.table({"a": [1, 2, 3]}))
    assert load_table(STORAGE, folder, whole).num_rows == 3
    bomb = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 3_000_000), pa.array(["x" * 2000]))})
    sink = io.BytesIO()
    pq.write_table(bomb, sink, compression="zstd")
    for content in (sink.getvalue(), b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1"):
        file = publish_content(folder, content)
        try:
            held = load_table(STORAGE, folder, file)
        except DataFileError as refused:
            assert "are damaged" in str(refused)
        else:
            assert held.nbytes <= 1 << 33
    with pytest.raises(DataFileError, match="is not the name of a side table"):
        load_table(STORAGE, folder, SideTable("../../etc/passwd", 1, ""))


def publish_content(folder: str, content: bytes) -> SideTable:
    name = f"files-{uuid.uuid4().hex}.parquet"
    STORAGE.publish(join(folder, name), content)
    return SideTable(name, len(content), hashlib.sha256(content).hexdigest())


def test_there_is_a_last_generation(tmp_path: Path) -> None:
    for generation in (100_000_000, -1):
        with pytest.raises(DataFileError, match="a side file of the last generation"):
            publish(STORAGE, f"file://{tmp_path}", "lease", 1, generation, {})
