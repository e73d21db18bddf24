"""The vectors of chosen rows, read by page, are those of the whole column, however the file is written."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.caches import empty_cache

from hudi_vector.errors import DataFileError
from hudi_vector.kernels.topk import VectorBlock
from hudi_vector.read.cache import process_cache
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.page_table import page_table, paged_chunks
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.parquet.snappy_literals import literals_of, ranges_of
from hudi_vector.read.parquet.values import Window
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, StorageOptions

DIMENSION = 6


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    with empty_cache(64 << 20):
        yield


def vectors(count: int, element: str = "float", nulls: float = 0.0, seed: int = 0) -> list[bytes | None]:
    numbers = np.random.default_rng(seed)
    column = VectorColumn("emb", DIMENSION, element)
    values = (numbers.standard_normal((count, DIMENSION)) * 30).astype(column.dtype)
    missing = numbers.random(count) < nulls
    return [None if absent else value.tobytes() for value, absent in zip(values, missing, strict=True)]


def written(path: Path, values: list[bytes | None], element: str = "float", **how: Any) -> FileInfo:
    width = DIMENSION * VectorColumn("emb", DIMENSION, element).dtype.itemsize
    nullable = how.pop("nullable", True)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("emb", pa.binary(width), nullable)])
    table = pa.table([pa.array(range(len(values)), pa.int64()), pa.array(values, pa.binary(width))], schema=schema)
    pq.write_table(table, path, **{"use_dictionary": False, "write_page_index": True, **how})
    return info(path)


def info(path: Path) -> FileInfo:
    status = os.stat(path)
    return FileInfo(f"file://{path}", status.st_size, status.st_mtime_ns)


def opened(file: FileInfo, element: str = "float", keep: bool = True) -> ParquetSlice:
    return ParquetSlice(file, spec_of(element), keep)


def spec_of(element: str = "float") -> ScanSpec:
    return ScanSpec("t", pa.schema([pa.field("id", pa.int64())]), VectorColumn("emb", DIMENSION, element))


def check(block: VectorBlock, values: list[bytes | None], positions: list[int], element: str = "float") -> None:
    """The rows with a vector, ascending, each once, with the values that were written and their norms."""
    expected = [row for row in sorted(set(positions)) if values[row] is not None]
    assert block.positions.tolist() == expected
    assert block.values.dtype == VectorColumn("emb", DIMENSION, element).dtype
    assert [row.tobytes() for row in block.values] == [values[row] for row in expected]
    np.testing.assert_allclose(block.squares, (block.values.astype("f8") ** 2).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_every_way_of_storing(tmp_path: Path, codec: str, version: str, nulls: float) -> None:
    values = vectors(700, nulls=nulls)
    asked = [3, 699, 4, 4, 0, *range(250, 420, 3)]
    for index, dictionary, page in itertools.product([True, False], [True, False], [400, 1 << 20]):
        file = written(
            tmp_path / f"{index}-{dictionary}-{page}.parquet",
            values,
            compression=codec,
            data_page_version=version,
            use_dictionary=dictionary,
            data_page_size=page,
            write_page_index=index,
            row_group_size=300,
            write_batch_size=8,
        )
        for keep in (True, False):
            counts = ScanCounts()
            check(opened(file, keep=keep).vectors_at(np.array(asked), counts), values, asked)
            assert counts.nulls == sum(values[row] is None for row in set(asked))
            check(opened(file, keep=keep).vectors_at(np.array(asked), ScanCounts()), values, asked)


@pytest.mark.parametrize("element", ["float", "double", "int8"])
@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("nullable", [True, False])
def test_every_element_type(tmp_path: Path, element: str, codec: str, nullable: bool) -> None:
    values = vectors(200, element)
    file = written(tmp_path / "f.parquet", values, element, compression=codec, data_page_size=500, nullable=nullable)
    asked = [0, 13, 14, 199]
    check(opened(file, element).vectors_at(np.array(asked), ScanCounts()), values, asked, element)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_rows_of_any_file(tmp_path: Path, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 400), "rows")
    values = vectors(count, nulls=data.draw(st.sampled_from([0.0, 0.05, 0.9]), "nulls"))
    file = written(
        tmp_path / "f.parquet",
        values,
        compression=data.draw(st.sampled_from(["none", "snappy", "gzip"]), "codec"),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"]), "version"),
        write_page_index=data.draw(st.booleans(), "index"),
        write_statistics=data.draw(st.booleans(), "statistics"),
        data_page_size=data.draw(st.integers(24, 4000), "page"),
        write_batch_size=data.draw(st.integers(1, 50), "batch"),
        row_group_size=data.draw(st.integers(1, 400), "group"),
    )
    process_cache().clear()  # the next example may have the size and the time of this one
    reads = RangeReads(data.draw(st.integers(0, 5000), "gap"), data.draw(st.integers(0, 3), "threads"))
    for _ in range(2):
        asked = data.draw(st.lists(st.integers(0, count - 1), max_size=60), "asked")
        table = data.draw(
            st.sampled_from([None, page_table(DataFile(file, StorageOptions(), False), "emb", 24)]), "table"
        )
        got = opened(file, keep=data.draw(st.booleans(), "keep")).vectors_at(
            np.array(asked, np.int64), ScanCounts(), reads, table
        )
        check(got, values, asked)


def test_only_the_bytes_of_the_rows_are_read_where_nothing_is_compressed(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", vectors(5000), compression="none", data_page_size=4000)
    counts = ScanCounts()
    opened(file).vectors_at(np.array([7, 8, 4000]), counts, RangeReads(max_gap=1))
    assert counts.bytes_read == 3 * 24
    opened(file).vectors_at(np.array([7, 9]), (near := ScanCounts()), RangeReads(max_gap=24))
    assert near.bytes_read == 3 * 24, "what lies between two rows is read with them"


def test_a_page_is_read_once_and_kept(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", vectors(5000), compression="gzip", data_page_size=4000)
    first, again, beside = ScanCounts(), ScanCounts(), ScanCounts()
    opened(file).vectors_at(np.array([70]), first)
    assert 0 < first.bytes_read < 30_000
    opened(file).vectors_at(np.array([71]), again)
    assert again.bytes_read == 0
    opened(file, keep=False).vectors_at(np.array([70]), beside)
    assert beside.bytes_read == first.bytes_read


@pytest.mark.parametrize("nulls", [0.0, 0.1])
def test_of_what_snappy_left_as_it_was_only_the_rows_are_read(tmp_path: Path, nulls: float) -> None:
    values = vectors(20_000, nulls=nulls)
    file = written(tmp_path / "f.parquet", values, compression="snappy", data_page_size=300_000)
    asked = [0, 11, *range(2700, 2760), 19_999]  # a literal ends at 64 KiB, in the midst of a row
    for keep in (True, False, True):
        counts = ScanCounts()
        check(opened(file, keep=keep).vectors_at(np.array(asked), counts, RangeReads(max_gap=1)), values, asked)
        assert (counts.bytes_read == len(asked) * 24) == (not nulls)


def test_what_snappy_compressed_is_decompressed(tmp_path: Path) -> None:
    values = [np.full(DIMENSION, row // 7, "<f4").tobytes() for row in range(20_000)]
    file = written(tmp_path / "f.parquet", values, compression="snappy", data_page_size=100_000)
    asked = list(range(5, 20_000, 333))
    for _ in range(2):
        check(opened(file).vectors_at(np.array(asked), ScanCounts()), values, asked)


@given(size=st.integers(1, 200_000), noise=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 50))
def test_literals_of_any_block(size: int, noise: float, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    plain = np.frombuffer(numbers.bytes(size), np.uint8) * (numbers.random(size) < noise)
    packed = pa.Codec("snappy").compress(plain.astype(np.uint8).tobytes(), asbytes=True)
    found = literals_of(Window.over(packed), 0, len(packed), size)
    assert found is not None or noise < 1 or size > 100_000
    assert literals_of(Window.over(packed), 0, len(packed), size + 1) is None
    assert literals_of(Window.over(packed[:-1]), 0, len(packed) - 1, size) is None
    if found is not None:
        length = min(size, int(numbers.integers(1, 3000)))
        begin = np.sort(numbers.integers(0, size - length + 1, 9))
        out = np.zeros((9, length), np.uint8)
        for which, inside, place, count in zip(*ranges_of([found, found], np.ones(9, int), begin, length), strict=True):
            out[which, inside : inside + count] = np.frombuffer(packed, np.uint8)[place : place + count]
        assert (out == np.stack([plain[at : at + length] for at in begin])).all()


def test_threads_share_nothing_that_is_not_for_threads(tmp_path: Path) -> None:
    values = vectors(20_000)
    file = written(tmp_path / "f.parquet", values, compression="gzip", data_page_size=20_000)
    asked = list(range(0, 20_000, 97))
    check(opened(file, keep=False).vectors_at(np.array(asked), ScanCounts(), RangeReads(1, 4)), values, asked)


def test_decoded_vectors_are_used_where_they_are_kept(tmp_path: Path) -> None:
    values = vectors(300, nulls=0.2)
    file = written(tmp_path / "f.parquet", values, row_group_size=128)
    list(opened(file).blocks(ScanCounts()))
    counts = ScanCounts()
    asked = [299, 0, 127, 128, 5]
    check(opened(file).vectors_at(np.array(asked), counts), values, asked)
    assert counts.bytes_read == 0
    assert counts.nulls == sum(values[row] is None for row in asked)


def test_the_page_table_is_kept_by_the_files_identity(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", vectors(300), compression="snappy", data_page_size=500)

    def table_of(identity: FileInfo) -> Any:
        data = DataFile(identity, StorageOptions(), mapped=True)
        try:
            return paged_chunks(data, "emb", 24)
        finally:
            data.close()

    assert table_of(file) is table_of(file)
    later = FileInfo(file.uri, file.size, file.mtime_ns + 1)
    assert table_of(later) is not table_of(file)


def test_lists_of_numbers_and_files_without_the_column(tmp_path: Path) -> None:
    numbers = np.random.default_rng(4).standard_normal((50, DIMENSION)).astype("f4")
    lists = [None if row == 3 else [*numbers[row].tolist(), *([0.0] * (row == 4))] for row in range(50)]
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"id": range(50), "emb": pa.array(lists, pa.list_(pa.float32()))}), path)
    for keep in (True, False):
        got = opened(info(path), keep=keep).vectors_at(np.array([9, 3, 4, 2]), counts := ScanCounts())
        assert got.positions.tolist() == [2, 9]
        np.testing.assert_array_equal(got.values, numbers[[2, 9]])
        assert counts.nulls + counts.invalid == 2
    path = tmp_path / "older.parquet"
    pq.write_table(pa.table({"id": range(50)}), path)
    got = opened(info(path)).vectors_at(np.array([1, 2]), counts := ScanCounts())
    assert (len(got), got.values.shape[1], counts.nulls) == (0, DIMENSION, 2)


def test_invalid_vectors_are_left_out(tmp_path: Path) -> None:
    values = vectors(20)
    values[5] = np.array([1, 2, np.nan, 0, 0, 0], "<f4").tobytes()
    file = written(tmp_path / "f.parquet", values)
    got = opened(file).vectors_at(np.array([4, 5, 6]), counts := ScanCounts())
    assert got.positions.tolist() == [4, 6]
    assert counts.invalid == 1


def test_rows_beyond_the_file_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", vectors(20))
    for row in (20, -1):
        with pytest.raises(DataFileError, match=f"has 20 rows, and none at position {row}"):
            opened(file).vectors_at(np.array([3, row]), ScanCounts())


def test_a_file_written_anew_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", vectors(20), compression="none")
    opened(file).vectors_at(np.array([3]), ScanCounts())
    written(tmp_path / "f.parquet", vectors(40), compression="none")
    with pytest.raises(DataFileError, match="rewritten after"):
        opened(file).vectors_at(np.array([3]), ScanCounts())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, 2500), byte=st.integers(0, 255), codec=st.sampled_from(["none", "snappy"]))
def test_damage_is_an_error_or_other_numbers_but_nothing_else(tmp_path: Path, at: int, byte: int, codec: str) -> None:
    file = written(tmp_path / "f.parquet", vectors(60, nulls=0.1), compression=codec, data_page_size=300)
    content = bytearray((tmp_path / "f.parquet").read_bytes())
    content[at % (len(content) - 1200)] = byte
    (tmp_path / "f.parquet").write_bytes(content)
    process_cache().clear()
    try:
        got = opened(file).vectors_at(np.arange(60), ScanCounts())
    except DataFileError as problem:
        assert file.uri in str(problem)
    else:
        assert len(got) <= 60


def test_a_lance_file_gives_the_same_rows(tmp_path: Path) -> None:
    from lance.file import LanceFileWriter

    numbers = np.random.default_rng(4).standard_normal((500, DIMENSION)).astype("f4")
    flat = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), DIMENSION)
    path = tmp_path / "f.lance"
    with LanceFileWriter(str(path)) as writer:
        writer.write_batch(pa.table({"id": range(500), "emb": flat}))
    asked = [7, 499, 7, 0]
    for scanned in (False, True):
        slice_ = LanceSlice(info(path), spec_of(), keep=True)
        if scanned:
            list(slice_.blocks(ScanCounts()))
        got = slice_.vectors_at(np.array(asked), ScanCounts())
        assert got.positions.tolist() == [0, 7, 499]
        np.testing.assert_array_equal(got.values, numbers[[0, 7, 499]])
    mask = LanceSlice(info(path), spec_of(), keep=False).allowed(counts := ScanCounts())
    assert (mask.all(), len(mask), counts.rows) == (True, 500, 500)
    with pytest.raises(DataFileError, match="none at position 500"):
        LanceSlice(info(path), spec_of(), keep=True).vectors_at(np.array([500]), ScanCounts())
