"""One blob as an open file, many as a stream."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from support.blob_states import inline
from support.descriptors import open_files

from hudi_vector.blobs.files import OpenLocalFile, RemoteFile
from hudi_vector.blobs.reading.handle import iter_bytes, open_blob
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.errors import BlobReadError, InvalidArgumentError, InvalidBlobError, UnknownColumnError

CONTENT = np.random.default_rng(0).bytes(3 << 20)


class Row(tuple):
    """What Spark's Row is: a tuple that knows the names of its values."""

    def __new__(cls, **values: Any) -> Row:
        made = super().__new__(cls, values.values())
        made.__fields__ = list(values)
        return made

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.__fields__:
                raise ValueError(key)
            key = self.__fields__.index(key)
        return super().__getitem__(key)


@pytest.fixture
def video(tmp_path: Path) -> str:
    (tmp_path / "video.mp4").write_bytes(CONTENT)
    return str(tmp_path / "video.mp4")


def reference(path: str, offset: int | None = None, length: int | None = None) -> dict:
    place = {"external_path": path, "offset": offset, "length": length, "managed": False}
    return {"type": "OUT_OF_LINE", "data": None, "reference": place}


def forms(path: str, offset: int | None, length: int | None) -> list[Any]:
    blob = reference(path, offset, length)
    row = Row(**{**blob, "reference": Row(**blob["reference"])})
    return [blob, row, blob_rows([blob])[0], (path, offset, length)]


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(("offset", "length"), [(None, None), (100, 5000), (3_000_000, None), (None, 7), (5, 0)])
def test_a_blob_in_every_form(video: str, form: int, offset: int | None, length: int | None) -> None:
    wanted = CONTENT[offset or 0 :][: length if length is not None else len(CONTENT)]
    with open_blob(forms(video, offset, length)[form]) as file:
        assert file.read() == wanted
        assert file.read() == b""
        assert video in open_files()
        file.seek(0)
        assert file.read(3) == wanted[:3]


def test_a_file_like_any_other(video: str, tmp_path: Path) -> None:
    """The same random calls on the blob and on a file with its bytes give the same answers."""
    (tmp_path / "copy").write_bytes(CONTENT[1000:900_000])
    numbers = np.random.default_rng(3)
    with open_blob((video, 1000, 899_000)) as blob, (tmp_path / "copy").open("rb") as copy:
        assert (blob.readable(), blob.seekable(), blob.writable(), blob.closed) == (True, True, False, False)
        for _ in range(300):
            size, place = int(numbers.integers(0, 200_000)), int(numbers.integers(-1000, 1_000_000))
            call = numbers.choice(["read", "seek", "end", "readline", "readinto", "tell"])
            if call == "read":
                assert blob.read(size) == copy.read(size)
            elif call == "seek":
                assert blob.seek(max(place, 0)) == copy.seek(max(place, 0))
            elif call == "end":
                assert blob.seek(-(size % 899_000), io.SEEK_END) == copy.seek(-(size % 899_000), io.SEEK_END)
            elif call == "readline":
                assert blob.readline() == copy.readline()
            elif call == "readinto":
                one, other = bytearray(size), bytearray(size)
                assert blob.readinto(one) == copy.readinto(other)
                assert one == other
            else:
                assert blob.tell() == copy.tell()
    assert blob.closed
    assert str(tmp_path / "video.mp4") not in open_files()
    with pytest.raises(ValueError, match="closed"):
        blob.read()


def test_seeking_before_the_start(video: str) -> None:
    with open_blob((video, 5, 10)) as file:
        assert file.read(2) == CONTENT[5:7]
        with pytest.raises(ValueError, match="byte -1 is before the blob's start"):
            file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            file.seek(0, os.SEEK_HOLE)
        assert file.read(2) == CONTENT[7:9]


def test_inline_bytes_and_fewer_things(video: str) -> None:
    for data in (b"in the row", b"", bytearray(b"as Spark gives it"), memoryview(b"view")):
        with open_blob(inline(data)) as file:  # type: ignore[arg-type]
            assert isinstance(file, io.BufferedReader)
            assert file.read() == bytes(data)
            assert file.seek(0, io.SEEK_END) == len(data)


@pytest.mark.parametrize("place", ["local", "remote"])
def test_only_what_is_asked_for_is_read(video: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for kind in (OpenLocalFile, RemoteFile):
        original = kind.read_into
        monkeypatch.setattr(
            kind,
            "read_into",
            lambda file, views, offset, original=original: (
                asked.append((offset, sum(map(len, views)))) or original(file, views, offset)
            ),
        )
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/open/video", CONTENT)
    with open_blob((video if place == "local" else "memory://open/video", 10, 3_000_000)) as file:
        assert asked == []
        assert file.read(1000) == CONTENT[10:1010]
        file.seek(-4, io.SEEK_END)
        assert file.read() == CONTENT[3_000_006:3_000_010]
    buffer = {"local": 64 << 10, "remote": 1 << 20}[place]
    assert asked[0] == (10, buffer)
    assert {size for _, size in asked[1:]} == {4}
    assert all(offset + size <= 3_000_010 for offset, size in asked)
    memory.rm("/open", recursive=True)


@pytest.mark.parametrize(
    ("blob", "error", "message"),
    [
        (None, InvalidBlobError, "a NULL blob has no bytes"),
        ({"type": None, "data": None, "reference": None}, InvalidBlobError, "a NULL blob has no bytes"),
        ({"type": None, "data": b"x", "reference": None}, InvalidBlobError, "has no type, but data"),
        ({"type": "INLINE", "data": None, "reference": None}, InvalidBlobError, "INLINE and has no data"),
        ({"type": "INLINE", "data": "text", "reference": 5}, InvalidBlobError, "type dict is no blob; give a struct"),
        ({"type": 7, "data": None, "reference": None}, InvalidBlobError, "a field of the wrong type"),
        ({"path": "/x"}, InvalidBlobError, r"dict is no blob; give a struct with .* or \(path, offset, length\)"),
        (Row(path="/x"), InvalidBlobError, "Row is no blob"),
        (SimpleNamespace(type="INLINE"), InvalidBlobError, "SimpleNamespace is no blob"),
        (("/x", 1), InvalidBlobError, "a tuple of 2 values is no blob"),
        ((None, 0, 1), InvalidBlobError, "OUT_OF_LINE and has no reference"),
        (("/x", "0", 1), InvalidBlobError, "offset is '0', a str; give a whole number of bytes"),
        (("/x", 0, 1.5), InvalidBlobError, "length is 1.5, a float; give a whole"),
        (("/x", 2**63, 1), InvalidBlobError, "a field of the wrong type"),
        (("/x", -1, 1), InvalidBlobError, "negative offset -1"),
        (("x", 0, 1), InvalidBlobError, "'x' is relative"),
        (("/absent", 0, 1), BlobReadError, r"the blob at '/absent' \(offset 0, length 1\) cannot be read: the file is"),
        (("/", None, None), BlobReadError, "it is a directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened(blob: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_blob(blob)


def test_too_short_at_once_or_later(video: str) -> None:
    with pytest.raises(BlobReadError, match=f"too short, it has {3 << 20} bytes"):
        open_blob((video, 5, 3 << 20))
    with open_blob((video, 0, None)) as file:
        os.truncate(video, 10)
        with pytest.raises(BlobReadError, match=r"video\.mp4' .*the file became shorter while it was read"):
            file.read()


@pytest.mark.parametrize("path", ["video.mp4", "gone.mp4", ""])
def test_a_blob_without_bytes_is_an_empty_file(tmp_path: Path, video: str, path: str) -> None:
    with open_blob((str(tmp_path / path), 0, 0)) as file:
        assert (file.read(), file.seek(0)) == (b"", 0)


def test_relative_to_a_table(tmp_path: Path, video: str) -> None:
    with open_blob(("video.mp4", 0, 3), table=str(tmp_path)) as file:
        assert file.read() == CONTENT[:3]


BLOBS = [inline(b"one"), None, ("video.mp4", 2, 3), inline(b"")]
VALUES = [b"one", None, CONTENT[2:5], b""]


@pytest.fixture
def folder(tmp_path: Path, video: str) -> str:
    return str(tmp_path)


def sources() -> Iterator[tuple[str, Any, str | None]]:
    """(what it is, the source, the column)."""
    table = pa.table({"id": range(4), "img": blob_rows(BLOBS)})
    rows = [{"id": i, "img": blob} for i, blob in enumerate(BLOBS)]
    for column in ("img", None):
        yield "table", table, column
        yield "chunks", pa.concat_tables([table.slice(0, 1), table.slice(1)]), column
        yield "batch", table.to_batches()[0], column
        yield "reader", table.to_reader(1), column
        yield "batches", iter(table.to_batches(max_chunksize=3)), column
        yield "tables", [table.slice(0, 2), table.slice(2)], column
    yield "dicts", rows, "img"
    yield "a generator of rows", (row for row in rows), "img"
    yield "Rows", [Row(**row) for row in rows], "img"
    yield "blobs", BLOBS, None
    yield "NULL first", iter([None, *BLOBS]), None


@pytest.mark.parametrize(
    "number", range(len(list(sources()))), ids=[f"{what}-{column}" for what, _, column in sources()]
)
def test_bytes_of_every_source(number: int, folder: str) -> None:
    what, source, column = list(sources())[number]
    wanted = [None, *VALUES] if what == "NULL first" else VALUES
    assert list(iter_bytes(source, column, table=folder)) == wanted


def test_rows_come_with_their_bytes(folder: str) -> None:
    table = pa.table({"id": range(4), "img": blob_rows(BLOBS), "label": list("abcd")})
    assert list(iter_bytes(table, rows=True, table=folder)) == [
        ({"id": i, "label": "abcd"[i]}, value) for i, value in enumerate(VALUES)
    ]
    rows = [Row(id=i, img=blob) for i, blob in enumerate(BLOBS)]
    found = list(iter_bytes(rows, "img", rows=True, table=folder, memory_budget=1))
    assert all(row is given for (row, _), given in zip(found, rows, strict=True))
    assert [value for _, value in found] == VALUES
    alone = pa.table({"img": blob_rows(BLOBS)})
    assert list(iter_bytes(alone, rows=True, table=folder)) == [({}, value) for value in VALUES]


@pytest.mark.parametrize("source", [[], pa.table({"img": blob_rows([])}), iter(())])
def test_a_stream_of_nothing(source: Any) -> None:
    assert list(iter_bytes(source, "img")) == []


def test_a_stream_takes_rows_as_it_needs_them(video: str) -> None:
    taken = 0

    def rows() -> Iterator[dict]:
        nonlocal taken
        while True:
            taken += 1
            yield inline(bytes(100_000))

    values = iter_bytes(rows(), memory_budget=1_000_000)
    assert len(next(values)) == 100_000
    assert taken <= 20, "rows that bring their bytes are not gathered beyond the budget"


def test_a_stream_of_many_rows_in_bounded_pieces(video: str) -> None:
    places = [(video, i * 1000, 900) for i in range(3000)]
    found = iter_bytes(iter(places), memory_budget=200_000)
    assert all(value == CONTENT[i * 1000 : i * 1000 + 900] for i, value in enumerate(found))


@pytest.mark.parametrize(
    ("source", "column", "error", "message"),
    [
        (pa.table({"id": [1]}), None, InvalidArgumentError, "name the BLOB column to read: the source has none"),
        (
            pa.table({"a": blob_rows([None]), "b": blob_rows([None])}),
            None,
            InvalidArgumentError,
            "the source has 'a', 'b'",
        ),
        (pa.table({"img": blob_rows([None])}), "image", UnknownColumnError, "'image' does not exist"),
        (pa.table({"id": [1]}), "id", InvalidBlobError, "column 'id' is int64, which is no blob"),
        ([{"id": 1}], "img", InvalidArgumentError, r"a row \(dict\) has no column 'img'"),
        ([5], None, InvalidBlobError, "int is no blob"),
        ([("/absent", 0, 1)], None, BlobReadError, "'/absent'"),
    ],
)
def test_a_stream_of_something_else(source: Any, column: str | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(iter_bytes(source, column))


def test_the_budget_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="a memory budget of 0 bytes"):
        list(iter_bytes([inline(b"x")], memory_budget=0))
