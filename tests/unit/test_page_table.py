"""Page tables that segments keep are those of the files, spare reading footers, and never change an answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.caches import empty_cache

import hudi_vector as hv
from hudi_vector.index.side_arrays import pack, unpack
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.page_table import PagedChunk, PageTable, page_table, paged_chunks
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

DIMENSION, WIDTH, FILES, ROWS = 6, 24, 6, 200
CENTRES = np.random.default_rng(0).standard_normal((FILES, DIMENSION)) * 9
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    with empty_cache(64 << 20):
        yield


def vectors(number: int) -> np.ndarray[Any, Any]:
    """The vectors of a file: most near a centre of their own, some near any."""
    chance = np.random.default_rng(number + 1)
    near = np.where(chance.random(ROWS) < 0.8, number, chance.integers(0, FILES, ROWS))
    return (CENTRES[near] + chance.standard_normal((ROWS, DIMENSION))).astype("<f4")


def write(path: Path, number: int = 0, nulls: float = 0.0, **how: Any) -> FileInfo:
    absent = np.random.default_rng(number).random(ROWS) < nulls
    values = [None if gone else row.tobytes() for gone, row in zip(absent, vectors(number), strict=True)]
    ids = pa.array(range(number * ROWS, (number + 1) * ROWS))
    table = pa.table({"id": ids, "emb": pa.array(values, pa.binary(WIDTH))})
    pq.write_table(table, path, **{"use_dictionary": ["id"], **how})
    return info(f"file://{path}")


def info(uri: str) -> FileInfo:
    found = open_storage(uri, StorageOptions()).info(uri)
    assert found is not None
    return found


def data(file: FileInfo) -> DataFile:
    return DataFile(file, StorageOptions(), mapped=False)


def told(paged: PagedChunk | None) -> Any:
    """A row group's pages as plain numbers."""
    if paged is None:
        return None
    places = (paged.places.begin.tolist(), paged.places.end.tolist(), paged.places.first_row.tolist())
    return asdict(paged.chunk), places, paged.depth, paged.width


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli"])
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_a_page_table_is_the_one_of_the_file(tmp_path: Path, codec: str, nulls: float) -> None:
    for index, page, group in itertools.product([True, False], [300, 1 << 20], [70, 1000]):
        how: dict[str, Any] = {"write_page_index": index, "data_page_size": page, "row_group_size": group}
        file = write(tmp_path / f"{index}{page}{group}.parquet", 0, nulls, compression=codec, write_batch_size=8, **how)
        expected = [told(paged) for paged in paged_chunks(data(file), "emb", WIDTH)]
        table = page_table(data(file), "emb", WIDTH)
        assert table is not None
        again = PageTable(WIDTH, ROWS, file.size, table.numbers.copy())
        assert again.groups is not None
        assert [told(paged) for _, paged in again.groups] == expected
        assert [rows for rows, _ in again.groups] == [min(group, ROWS - at) for at in range(0, ROWS, group)]

        spec = ScanSpec("t", pa.schema([("id", pa.int64())]), VectorColumn("emb", DIMENSION, "float"))
        asked = np.array([199, 0, 3, 3, 68, 71, 140])
        whole = ParquetSlice(file, spec, keep=False).vectors_at(asked, ScanCounts())
        process_cache().clear()
        found = ParquetSlice(file, spec, keep=True).vectors_at(asked, ScanCounts(), pages=again)
        assert found.positions.tolist() == whole.positions.tolist()
        assert found.values.tobytes() == whole.values.tobytes()
        assert process_cache().get((file, "footer")) is None
        there = np.isin(np.unique(asked), whole.positions).all()
        stored = ParquetSlice(file, spec, keep=True).stored_vectors(np.unique(asked), table)
        if codec in ("none", "snappy") and nulls == 0:
            assert stored == whole.values.tobytes()
        assert stored is None or there


def test_places_of_a_few_rows_are_used_where_all_are_known(tmp_path: Path) -> None:
    """Else the caller reads pages: many rows, none of a page table, rows that the cache has, rows of another file."""
    file = write(tmp_path / "f.parquet", compression="snappy", row_group_size=90)
    table = page_table(data(file), "emb", WIDTH)
    spec = ScanSpec("t", pa.schema([("id", pa.int64())]), VectorColumn("emb", DIMENSION, "float"))
    reader = ParquetSlice(file, spec, keep=True)
    asked = np.array([0, 89, 90, 199])
    assert reader.stored_vectors(asked, table) == vectors(0)[asked].tobytes()
    assert reader.stored_vectors(asked, None) is None
    assert reader.stored_vectors(np.arange(40), table) is None
    with pytest.raises(hv.errors.DataFileError, match="has 200 rows, and none at position 200"):
        reader.stored_vectors(np.array([3, 200]), table)
    list(reader.blocks(ScanCounts()))
    assert reader.stored_vectors(asked, table) is None


def test_pages_that_are_left_to_pyarrow_are_in_no_page_table(tmp_path: Path) -> None:
    for how in ({"compression": "lz4"}, {"use_dictionary": True}):
        assert page_table(data(write(tmp_path / "left.parquet", **how)), "emb", WIDTH) is None
        process_cache().clear()
    assert page_table(data(write(tmp_path / "f.parquet")), "emb", WIDTH + 4) is None


def test_numbers_that_are_of_no_such_file_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "f.parquet", data_page_size=300, row_group_size=70, write_batch_size=8)
    table = page_table(data(file), "emb", WIDTH)
    assert table is not None
    right = table.numbers
    assert PageTable(WIDTH, ROWS, file.size, right).groups is not None
    assert PageTable(WIDTH, ROWS + 1, file.size, right).groups is None
    assert PageTable(WIDTH, ROWS, 900, right).groups is None
    for wrong in (right[:0], right[:1], right[:-1], right[:-3], np.append(right, 0), np.append(right, right[-3:])):
        assert PageTable(WIDTH, ROWS, file.size, wrong).groups is None
    for place, value in itertools.product(range(16), (-7, 1 << 40)):
        assert PageTable(WIDTH, ROWS, file.size, np.insert(np.delete(right, place), place, value)).groups is None


def test_literals_spare_looking_at_pages(tmp_path: Path) -> None:
    """Vectors of pages in which Snappy found nothing are read at their places, without a byte of the pages' heads."""
    file = write(tmp_path / "f.parquet", compression="snappy", data_page_size=600, row_group_size=90)
    table = page_table(data(file), "emb", WIDTH)
    assert table is not None
    assert table.literals is not None
    assert table.groups is not None
    spec = ScanSpec("t", pa.schema([("id", pa.int64())]), VectorColumn("emb", DIMENSION, "float"))
    content = bytearray((tmp_path / "f.parquet").read_bytes())
    for _, paged in table.groups:
        assert paged is not None
        assert len(paged.literals) == len(paged.places.begin)
        for begin, page in zip(paged.places.begin.tolist(), paged.literals, strict=True):
            assert page is not None
            content[begin : int(page.place[0])] = bytes(int(page.place[0]) - begin)
    (tmp_path / "f.parquet").write_bytes(content)
    changed = info(f"file://{tmp_path / 'f.parquet'}")
    found = ParquetSlice(changed, spec, keep=True).vectors_at(np.arange(ROWS), ScanCounts(), pages=table)
    assert found.values.tobytes() == vectors(0).tobytes()


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_vectors_of_files_whose_footers_count_no_nulls(tmp_path: Path, codec: str, absent: float) -> None:
    """A build has counted the NULL vectors; where there are none, a search reads nothing but the rows it looks at."""
    how: dict[str, Any] = {"compression": codec, "write_statistics": False}
    file = write(tmp_path / "f.parquet", 0, absent, **how)
    (known,) = paged_chunks(data(file), "emb", WIDTH)
    assert known is not None
    assert not known.is_full
    process_cache().clear()
    place = {"files": [str(tmp_path / "f.parquet")], "column": "emb"}
    hv.index.create(None, directory=str(tmp_path / "indexes"), metric="l2", kind="ivf_sq8", **place)
    kept, is_there = vectors(0), np.random.default_rng(0).random(ROWS) >= absent
    query = kept[np.flatnonzero(is_there)[7]].astype("f8")
    with hv.open(index_directory=str(tmp_path / "indexes"), **place) as t:
        found = t.search(query, 3, metric="l2", columns=["id"], mode="approximate", nprobes=1000, refine_factor=2)
        assert (found.report.bytes_read == 6 * WIDTH) == (not absent)
    distances = np.where(is_there, np.linalg.norm(kept.astype("f8") - query, axis=1), np.inf)
    assert found.column("id").to_pylist() == np.argsort(distances)[:3].tolist()


def test_literals_that_are_of_no_such_pages_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "f.parquet", compression="snappy", data_page_size=600, row_group_size=90)
    table = page_table(data(file), "emb", WIDTH)
    assert table is not None
    right = table.literals
    assert right is not None

    def known(literals: Any) -> bool:
        groups = PageTable(WIDTH, ROWS, file.size, table.numbers, literals).groups
        assert groups is not None
        return all(paged is not None and bool(paged.literals) for _, paged in groups)

    assert known(right)
    assert not known(None)
    for wrong in (right[:0], right[:-1], np.full_like(right, -1), np.full_like(right, 1 << 62), right * 2, right + 1):
        assert not known(wrong)
    for place, value in itertools.product((0, 1, 2, 3, 4), (-7, 1 << 40, 1 << 62)):
        assert not known(np.insert(np.delete(right, place), place, value))


@pytest.fixture(params=["ivf_sq8", "hnsw"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], str]:
    """Files of one index, and its directory."""
    (tmp_path / "data").mkdir()
    files = [str(tmp_path / "data" / f"{number}.parquet") for number in range(FILES)]
    for number, path in enumerate(files):
        write(Path(path), number, compression="none" if number % 2 else "snappy")
    hv.index.create(
        None, files=files, column="emb", directory=str(tmp_path / "indexes"), metric="l2", kind=request.param
    )
    return files, str(tmp_path / "indexes")


def rewritten(directory: str, change: Change) -> None:
    """The segments with other arrays, their checksums right."""
    for segment in Path(directory).rglob("segments/*.arrow"):
        header, arrays = unpack("segment", pa.BufferReader(segment.read_bytes()), str(segment))
        change(arrays)
        about = {key: value for key, value in header.items() if key not in ("magic", "format_version", "what")}
        segment.write_bytes(pack("segment", about, arrays))


def footers_read(files: list[str], directory: str) -> int:
    """How many files' footers a first search for two rows reads, whose answer is the exact one."""
    everything = np.concatenate([vectors(number) for number in range(FILES)]).astype("f8")
    query = CENTRES.mean(axis=0)
    process_cache().clear()
    with hv.open(files=files, column="emb", index_directory=directory) as t:
        found = t.search(query, 2, metric="l2", columns=["id"], mode="approximate", nprobes=1000, refine_factor=60)
        assert found.report.slices == {"index": FILES}
        read = sum(process_cache().get((info(f"file://{path}"), "footer")) is not None for path in files)
        distances = np.linalg.norm(everything - query, axis=1)
        assert found.column("id").to_pylist() == np.argsort(distances)[:2].tolist()
        for k in (2, 40):
            answers = [t.search(query, k, metric="l2", columns=["id"], **how).table for how in ({}, {"mode": "exact"})]
            assert answers[0].equals(answers[1])
    return read


def test_a_first_search_reads_the_footers_of_the_rows_found_only(made: tuple[list[str], str]) -> None:
    files, directory = made
    assert footers_read(files, directory) <= 3  # of the two rows, and of the first file for the schema


@pytest.mark.parametrize("case", ["of old", "of another file", "empty"])
def test_without_a_page_table_that_fits_the_file_is_asked(made: tuple[list[str], str], case: str) -> None:
    files, directory = made
    other = page_table(data(write(Path(directory) / "other.parquet", row_group_size=90)), "emb", WIDTH)
    assert other is not None
    other.numbers[1] += 1
    changes: dict[str, Change] = {
        "of old": lambda arrays: arrays.pop("pages"),
        "of another file": lambda arrays: arrays.update(pages=other.numbers),
        "empty": lambda arrays: arrays.update(pages=np.empty(0, np.int64)),
    }
    rewritten(directory, changes[case])
    assert footers_read(files, directory) == FILES
    assert hv.index.verify(None, files=files, column="emb", directory=directory) == []


def test_a_damaged_page_table_is_a_damaged_segment(made: tuple[list[str], str]) -> None:
    files, directory = made
    segment = min(Path(directory).rglob("segments/*.arrow"))
    content = segment.read_bytes()
    _, arrays = unpack("segment", pa.BufferReader(content), str(segment))
    at = content.index(arrays["pages"].tobytes()) + arrays["pages"].nbytes - 16
    segment.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert footers_read(files, directory) <= 4
    (problem,) = hv.index.verify(None, files=files, column="emb", directory=directory)
    assert "its content does not match its checksum" in problem.problem
