"""Values of a Parquet column found page by page are those that pyarrow reads, whatever the file's encoding."""

from __future__ import annotations

import contextlib
import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.errors import DataFileError
from hudi_vector.read.parquet.byte_column import ByteColumn
from hudi_vector.read.parquet.thrift import read_struct
from hudi_vector.read.parquet.values import Window, run_lengths

KIND = pa.struct([("img", pa.struct([("data", pa.binary())]))])
LEAF = "doc.img.data"


class Counted:
    """A file that remembers what was read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads: list[tuple[int, int]] = []

    def read_at(self, count: int, offset: int) -> bytes:
        self.reads.append((offset, count))
        return self.content[offset : offset + count]


def written(values: list[Any], kind: pa.DataType = KIND, name: str = "doc", **settings: Any) -> bytes:
    """A Parquet file of one column beside another."""
    table = pa.table({"id": pa.array(range(len(values)), pa.int64()), name: pa.array(values, kind)})
    sink = io.BytesIO()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def opened(content: bytes, leaf: str = LEAF, ahead: int = 512, source: Any = None) -> ByteColumn:
    return ByteColumn(source or pa.BufferReader(content), pq.read_metadata(io.BytesIO(content)), leaf, "f", ahead)


def by_pyarrow(content: bytes, name: str = "doc") -> list[bytes | None]:
    values = pq.read_table(io.BytesIO(content), columns=[name]).column(0).combine_chunks()
    while pa.types.is_struct(values.type):
        (values,) = values.flatten()
    found: list[bytes | None] = values.to_pylist()
    return found


def located(content: bytes, column: ByteColumn) -> list[tuple[int, bytes | None]]:
    """For each row its length, and its bytes where they have a place in the file."""
    found = []
    for group in range(column.groups):
        places = column.locate(group)
        for length, offset in zip(places.length.tolist(), places.offset.tolist(), strict=True):
            found.append((length, content[offset : offset + length] if offset >= 0 else None))
    return found


def taken(column: ByteColumn, rows: list[int]) -> list[bytes | None]:
    return [value for page in column.pages(np.array(rows, np.int64)) for value in column.read(page)]


def check(content: bytes, column: ByteColumn, name: str = "doc", plain: bool = False) -> None:
    """Every row as pyarrow reads it, in all the ways it can be asked for."""
    expected = by_pyarrow(content, name)
    for value, (length, there) in zip(expected, located(content, column), strict=True):
        assert length == (-1 if value is None else len(value))
        assert there == value or (there is None and not plain)
    rows = list(range(len(expected)))
    assert taken(column, rows) == expected
    for step in (3, 7):
        assert taken(column, rows[1::step]) == expected[1::step]


def mixed(count: int, seed: int = 0) -> list[Any]:
    """NULL at each level, empty values, repeated ones and random ones."""
    numbers = np.random.default_rng(seed)
    kinds = [
        lambda i: None,
        lambda i: {"img": None},
        lambda i: {"img": {"data": None}},
        lambda i: {"img": {"data": b""}},
        lambda i: {"img": {"data": b"again %d" % (i % 5)}},
        lambda i: {"img": {"data": numbers.bytes(int(numbers.integers(1, 300)))}},
    ]
    return [kinds[numbers.integers(len(kinds))](i) for i in range(count)]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["dictionary", "plain", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_every_way_of_storing(codec: str, version: str, encoding: str) -> None:
    values = mixed(500)
    for index, page in itertools.product([True, False], [300, 1 << 20]):
        content = written(
            values,
            compression=codec,
            data_page_version=version,
            use_dictionary=encoding == "dictionary",
            column_encoding={LEAF: encoding} if encoding.startswith("DELTA") else None,
            write_page_index=index,
            data_page_size=page,
            row_group_size=200,
            dictionary_pagesize_limit=2000,  # a dictionary that gives up half-way
            write_batch_size=8,
        )
        check(content, opened(content), plain=codec == "none" and encoding == "plain")


@settings(max_examples=150)
@given(
    values=st.lists(st.none() | st.binary(max_size=40), max_size=80),
    codec=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    index=st.booleans(),
    page=st.sampled_from([1, 30, 1000]),
    group=st.integers(1, 50),
    ahead=st.sampled_from([1, 64, 1 << 16]),
)
def test_any_values(
    values: list[Any], codec: str, version: str, dictionary: bool, index: bool, page: int, group: int, ahead: int
) -> None:
    content = written(
        values,
        pa.binary(),
        "data",
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        write_page_index=index,
        data_page_size=page,
        row_group_size=group,
        write_batch_size=3,
    )
    check(content, opened(content, "data", ahead), "data", plain=codec == "none" and not dictionary)


def test_a_column_that_cannot_be_null() -> None:
    values = [b"%d" % i * (i % 9) for i in range(100)]
    table = pa.table([pa.array(values)], schema=pa.schema([pa.field("data", pa.binary(), nullable=False)]))
    sink = io.BytesIO()
    pq.write_table(table, sink, data_page_size=100, write_batch_size=10, use_dictionary=False)
    check(sink.getvalue(), opened(sink.getvalue(), "data"), "data")


def test_files_without_rows_and_pages_without_values() -> None:
    for values in ([], [None] * 20, [{"img": {"data": b""}}]):
        for version, codec in itertools.product(["1.0", "2.0"], ["none", "snappy", "zstd"]):
            content = written(values, data_page_version=version, compression=codec)
            check(content, opened(content))


@pytest.mark.parametrize("index", [True, False])
def test_only_the_pages_of_the_rows_are_read(index: bool) -> None:
    values = [{"img": {"data": bytes([i % 256]) * 5000}} for i in range(400)]
    content = written(
        values,
        compression="none",
        use_dictionary=False,
        data_page_size=50_000,
        write_batch_size=1,
        write_page_index=index,
        row_group_size=200,
    )
    file = Counted(content)
    column = opened(content, source=file)
    assert taken(column, [7, 8, 311]) == [values[row]["img"]["data"] for row in (7, 8, 311)]
    assert sum(count for _, count in file.reads) < 2 * 55_000 + 40 * 512  # two pages, and the headers of others
    before = len(file.reads)
    assert taken(column, [9]) == [values[9]["img"]["data"]]
    assert len(file.reads) == before + 1  # where the pages lie is known by now
    if index:
        assert before == 4  # an index and a page for each row group


def test_long_values_are_jumped_over() -> None:
    values = [{"img": {"data": bytes(100_000)}} for _ in range(50)]
    content = written(values, compression="none", use_dictionary=False, write_statistics=False)
    file = Counted(content)
    opened(content, source=file).locate(0)
    assert sum(count for _, count in file.reads) < 120 * 512


def test_nothing_is_read_twice() -> None:
    content = written(mixed(2000), compression="zstd", data_page_size=2000, write_batch_size=10, use_dictionary=False)
    file = Counted(content)
    opened(content, source=file, ahead=1000).locate(0)
    places = [place for begin, count in file.reads for place in range(begin, begin + count)]
    assert len(places) == len(set(places))


def test_a_damaged_file_is_one_sentence() -> None:
    content = written(mixed(300), compression="snappy", data_page_size=500, write_batch_size=10)
    begin = pq.read_metadata(io.BytesIO(content)).row_group(0).column(1).dictionary_page_offset
    rows = list(range(300))
    for damage in (b"\xff" * 200, b"\x00" * 200, b"\x15\x00\x15" * 60):
        damaged = content[:begin] + damage + content[begin + len(damage) :]
        column = opened(content, source=pa.BufferReader(damaged))
        with pytest.raises(DataFileError, match="the data file 'f' cannot be read: "):
            column.locate(0)
        with pytest.raises(DataFileError, match="the data file 'f' cannot be read: "):
            taken(column, rows)
    with pytest.raises(DataFileError, match="the data file 'f' cannot be read: it is shorter than its footer says"):
        opened(content, source=Counted(content[:100])).locate(0)


@settings(max_examples=300)
@given(place=st.floats(0, 1), bits=st.integers(1, 255), codec=st.sampled_from(["none", "snappy", "zstd"]))
def test_a_wrong_byte_is_no_other_error(place: float, bits: int, codec: str) -> None:
    content = bytearray(written(mixed(60), compression=codec, data_page_size=500, write_batch_size=10))
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(1)
    content[column.dictionary_page_offset + int(place * (column.total_compressed_size - 1))] ^= bits
    damaged = opened(bytes(content))
    with contextlib.suppress(DataFileError):
        damaged.locate(0)
    with contextlib.suppress(DataFileError):
        taken(damaged, [3, 30, 59])


def test_runs_of_numbers() -> None:
    assert run_lengths(b"", 0, 3).tolist() == [0, 0, 0]
    assert run_lengths(bytes([8, 5, 3, 0b10001000, 0b11000110, 0b11111010]), 3, 10).tolist() == [5] * 4 + [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    assert run_lengths(bytes([4, 0x01, 0x02]), 16, 2).tolist() == [0x0201] * 2
    for short in (b"", bytes([8]), bytes([3]), bytes([0x80])):
        with pytest.raises(EOFError):
            run_lengths(short, 3, 4)


def test_a_window_ends_where_it_was_told_to() -> None:
    window = Window(pa.BufferReader(bytes(range(100))), 50, 10)
    assert bytes(window.take(45, 5)) == bytes(range(45, 50))
    assert bytes(window.take(3, 2)) == b"\x03\x04"
    for begin, size in ((45, 6), (51, 0), (-1, 2)):
        with pytest.raises(EOFError):
            window.take(begin, size)


def test_structs_of_thrift() -> None:
    every = bytes([0x11, 0x12, 0x13, 0x07, 0x17]) + bytes(8) + bytes([0x19, 0x21, 0x01, 0x02, 0x1B, 0x00])
    every += bytes([0x1B, 0x01, 0x85, 0x01, 0x61, 0x02, 0x05, 0x80, 0x02, 0x04, 0x00])
    assert read_struct(every) == (
        {1: True, 2: False, 3: 7, 4: 0.0, 5: [True, False], 6: {}, 7: {b"a": 1}, 128: 2},
        len(every),
    )
    with pytest.raises(EOFError):
        read_struct(every[:-1])
    with pytest.raises(ValueError, match="no type 13"):
        read_struct(bytes([0x1D]))
