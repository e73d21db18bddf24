"""A footer that was kept stands for the file's: rows and single pages are read without a byte of the footer."""

from __future__ import annotations

from functools import cache
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
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.kept_footer import FooterForm, KeptFooter, keep_footer
from hudi_vector.read.parquet.page_file import column_pages
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

OPTIONS = StorageOptions()
ROWS = 3000
ASKED = np.array([2999, 0, 700, 701, 1500])


@cache
def rows() -> pa.Table:
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "name": pa.array([None if n % 7 == 0 else f"name of {n}" for n in numbers.tolist()]),
            "at": pa.array(numbers, pa.timestamp("us", "UTC")),
            "tags": pa.array([[f"t{n % 5}"] * (n % 3) for n in numbers.tolist()]),
            "more": pa.array([{"a": n, "b": {"c": str(n)}} for n in numbers.tolist()]),
        }
    )


def written(path: Path, **how: Any) -> FileInfo:
    how = {"write_page_index": True, "data_page_size": 600, "write_batch_size": 50, **how}
    with pq.ParquetWriter(path, rows().schema, **how) as writer:
        writer.write_table(rows(), row_group_size=1000)
        writer.add_key_value_metadata({"org.apache.hudi.bloomfilter": "x" * 400_000})
    return info(path)


def info(path: Path) -> FileInfo:
    found = open_storage("file:///", OPTIONS).info(f"file://{path}")
    assert found is not None
    return found


def kept_of(file: FileInfo) -> KeptFooter | None:
    return DataFile(file, OPTIONS, mapped=False).kept_footer()


def without_footer(path: Path) -> FileInfo:
    """The file with nothing but zeros where the footer and the page index were."""
    metadata = pq.read_metadata(path)
    pages_end = max(
        column.data_page_offset + column.total_compressed_size
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
        for column in [metadata.row_group(group).column(number)]
    )
    content = bytearray(path.read_bytes())
    content[pages_end:] = bytes(len(content) - pages_end)
    path.write_bytes(content)
    return info(path)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("index", [True, False])
def test_rows_are_read_without_the_footer(tmp_path: Path, codec: str, index: bool) -> None:
    path = tmp_path / "f.parquet"
    kept = kept_of(written(path, compression=codec, write_page_index=index))
    assert kept is not None
    assert len(kept.content) < 20_000
    file = without_footer(path)
    spec = ScanSpec("t", rows().schema, VectorColumn("emb", 2, "float"))
    expected = rows().take(pa.array(ASKED))
    with empty_cache(64 << 20):
        with pytest.raises(DataFileError, match="cannot be read"):
            ParquetSlice(file, spec, keep=True).rows(ASKED, ["id"])
        keep_footer(file, kept)
        for keep in (True, False):
            found = ParquetSlice(file, spec, keep=keep).rows(ASKED, rows().column_names)
            assert found.equals(expected)
        if index:
            pages = column_pages(DataFile(file, OPTIONS, mapped=False), "name", 1)
            assert pages is not None
            assert len(pages.places.begin) > 5


def test_what_is_kept_says_what_the_footer_says(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet")
    kept, whole = kept_of(file), pq.read_metadata(tmp_path / "f.parquet")
    assert kept is not None
    found = kept.metadata()
    assert found.schema.equals(whole.schema)
    assert found.schema.to_arrow_schema().equals(whole.schema.to_arrow_schema())
    assert [found.row_group(n).to_dict() for n in range(3)] == [whole.row_group(n).to_dict() for n in range(3)]
    assert (found.num_rows, found.created_by) == (whole.num_rows, whole.created_by)
    assert set(found.metadata) <= {b"ARROW:schema"}


def test_a_footer_of_many_columns_is_not_kept(tmp_path: Path) -> None:
    wide = pa.table({f"column_{number}": [number] for number in range(2000)})
    pq.write_table(wide, tmp_path / "wide.parquet", write_page_index=True)
    assert kept_of(info(tmp_path / "wide.parquet")) is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_kept_footer_that_a_stranger_changed_is_one_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Or what the file has at the places that it names: an index's checksums are looked at before."""
    file, content = _changeable(tmp_path_factory)
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        changed[data.draw(st.integers(0, len(content) - 1), "at")] = data.draw(st.integers(0, 255), "to")
    changed = changed[: data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))), "cut")]
    spec = ScanSpec("t", rows().schema, VectorColumn("emb", 2, "float"))
    with empty_cache(64 << 20):
        keep_footer(file, KeptFooter(bytes(changed)))
        try:
            ParquetSlice(file, spec, keep=True).rows(ASKED, ["id"])
        except DataFileError as problem:
            assert "\n" not in str(problem)


_CHANGEABLE: list[tuple[FileInfo, bytes]] = []


def _changeable(folders: pytest.TempPathFactory) -> tuple[FileInfo, bytes]:
    if not _CHANGEABLE:
        file = written(folders.mktemp("kept") / "f.parquet")
        kept = kept_of(file)
        assert kept is not None
        _CHANGEABLE.append((file, kept.content))
    return _CHANGEABLE[0]


def file_of(count: int, longest: int, seed: int, *, has_more: bool = False) -> bytes:
    """A file as Hudi writes it, of so many rows with texts of any length up to the longest."""
    made = np.random.default_rng(seed)
    columns = {"id": made.integers(0, 1 << 40, count), "name": ["n" * n for n in made.integers(0, longest + 1, count)]}
    table = pa.table(columns | ({"more": made.random(count)} if has_more else {}))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False, write_page_index=True) as writer:
        writer.write_table(table, row_group_size=max(1, count // 2))
        writer.add_key_value_metadata({"org.apache.hudi.bloomfilter": "x" * 300_000, "least": "k" * int(longest)})
    return sink.getvalue().to_pybytes()


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 60), st.integers(0, 60), st.integers(0, 1 << 32))
@settings(max_examples=25)
def test_a_footer_is_found_without_the_filter_behind_it(
    count: int, others: int, longest: int, shortest: int, seed: int
) -> None:
    form = FooterForm.of(pa.py_buffer(file_of(count, longest, seed)))
    assert form is not None
    whole = file_of(others, shortest, seed + 1)
    part = whole[: form.end(len(whole))]
    assert len(part) < len(whole) - 250_000
    kept = form.footer_in(part, len(whole))
    assert kept is not None
    metadata = kept.metadata()
    there = pq.read_metadata(pa.BufferReader(whole))
    assert [metadata.row_group(n).to_dict() for n in range(metadata.num_row_groups)] == [
        there.row_group(n).to_dict() for n in range(there.num_row_groups)
    ]
    assert (metadata.created_by, metadata.num_rows) == (there.created_by, there.num_rows)
    found = pq.ParquetFile(pa.BufferReader(part), metadata=metadata).read()
    assert found.equals(pq.read_table(pa.BufferReader(whole)))
    for cut in (0, 1, len(part) // 2, len(part) - 9000, len(part) - 8100):
        assert form.footer_in(part[: max(cut, 0)], len(whole)) in (None, kept)
    assert form.footer_in(file_of(others, shortest, seed, has_more=True), len(whole)) is None


def test_a_form_is_told_only_where_it_spares_much() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2]}), sink)
    assert FooterForm.of(sink.getvalue()) is None
    with pytest.raises((EOFError, ValueError, LookupError)):
        FooterForm.of(pa.py_buffer(b"no file of Parquet at all"))
