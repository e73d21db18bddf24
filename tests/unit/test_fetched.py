"""A file of an object store gives the bytes it has, whether they were asked for ahead or not, and each only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.read.parquet.fetched import FetchedFile
from hudi_vector.storage.ranges import MAX_READ, OBJECT_STORE_MAX_GAP

DATA = np.random.default_rng(1).bytes(20_000)
RANGES = st.lists(
    st.tuples(st.integers(0, len(DATA)), st.integers(0, 3_000)).map(
        lambda one: (one[0], min(one[0] + one[1], len(DATA)))
    ),
    max_size=5,
)


class Counting:
    """Bytes that count how they are read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.reads, self.is_closed = data, list[tuple[int, int]](), False

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self.reads.append((offset, offset + nbytes))
        return self.data[offset : offset + nbytes]

    def close(self) -> None:
        self.is_closed = True


def opened(data: bytes = DATA) -> tuple[FetchedFile, Counting]:
    source = Counting(data)
    return FetchedFile(source, len(data)), source


@given(ahead=RANGES, inner=RANGES, asked=RANGES)
def test_bytes_are_those_of_the_file(ahead: list[Any], inner: list[Any], asked: list[Any]) -> None:
    file, source = opened()

    def assert_right() -> None:
        for begin, end in asked:
            assert file.read_at(end - begin, begin) == DATA[begin:end]
            file.seek(begin)
            assert file.read_buffer(end - begin).to_pybytes() == DATA[begin:end]
            assert file.tell() == end
            file.seek(begin)
            assert file.read(end - begin) == DATA[begin:end]

    with file.ahead(ahead):
        read = len(source.reads)
        for begin, end in ahead:
            assert file.read_at(end - begin, begin) == DATA[begin:end]
        with file.ahead(inner):
            assert_right()
        with file.ahead(ahead):
            assert_right()
        assert not any(one in ahead for one in source.reads[read:] if one[0] < one[1] and one not in inner)
    assert_right()
    file.close()
    assert source.is_closed


def test_ranges_are_read_together_where_little_lies_between_them() -> None:
    file, source = opened()
    near, far = [(0, 4_000), (6_000, 9_000)], [(0, 100), (15_000, 15_100)]
    with file.ahead(near), file.ahead(near):
        assert source.reads == [(0, 9_000)]
    source.reads.clear()
    with file.ahead(far):
        assert sorted(source.reads) == far, "more bytes between them than of them"
    large, source = opened(bytes(2 * OBJECT_STORE_MAX_GAP + 4 * MAX_READ))
    apart = [(0, MAX_READ), (MAX_READ + OBJECT_STORE_MAX_GAP + 1, 2 * MAX_READ)]
    with large.ahead(apart):
        assert sorted(source.reads) == apart, "too much between them"
    source.reads.clear()
    with large.ahead([(10, 2 * MAX_READ + 20)]):
        assert sorted(source.reads) == [
            (10, MAX_READ + 10),
            (MAX_READ + 10, 2 * MAX_READ + 10),
            (2 * MAX_READ + 10, 2 * MAX_READ + 20),
        ]
        source.reads.clear()
        assert len(large.read_at(MAX_READ, MAX_READ // 2)) == MAX_READ
    assert not source.reads


def test_a_file_that_is_shorter_is_an_error() -> None:
    source = Counting(DATA)
    file = FetchedFile(source, len(DATA) + 10)
    with pytest.raises(EOFError), file.ahead([(5, len(DATA) + 5)]):
        pass
    assert file.read_at(5, 0) == DATA[:5]


def test_pyarrow_asks_for_nothing_that_is_there(tmp_path: Path) -> None:
    table = pa.table({"a": range(9_000), "b": [f"text {n}" for n in range(9_000)], "c": [[n] for n in range(9_000)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=5_000)
    file, source = opened((tmp_path / "f.parquet").read_bytes())
    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=0)
    columns = [parquet.metadata.row_group(1).column(number) for number in range(3)]
    begins = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    ranges = [(begin, begin + column.total_compressed_size) for begin, column in zip(begins, columns, strict=True)]
    source.reads.clear()
    with file.ahead(ranges):
        assert parquet.read_row_group(1, use_threads=False) == table.slice(5_000)
    assert len(source.reads) == 1
    assert parquet.read_row_group(0, use_threads=False) == table.slice(0, 5_000)
