"""A bit that flipped in a page is an error wherever the checksums of pages are compared, and never another value."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.blob_states import ARROW, META, blob

from hudi_vector.errors import DataFileError
from hudi_vector.read.logs.record_keys import hashes_of_file, keys_of_file
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.parquet.page_file import column_pages
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.table_services.erasure.key_rows import KeyScan
from hudi_vector.table_services.references.base_files import parquet_references
from hudi_vector.table_services.retention.retained import BASE, RetainedFile

LOCAL = StorageOptions()
KEY, PATH = "key-17", ".hoodie/blobs/img/17.blob"


def file_with_flipped(tmp_path: Path, text: str | None) -> FileInfo:
    """A file of one row as Hudi writes it, with checksums; a bit of the text is flipped in the first page with it."""
    row = {**dict.fromkeys(META, "x"), "_hoodie_record_key": KEY, "id": 17, "ts": 1, "img": blob(PATH)}
    sink = io.BytesIO()
    rows = pa.Table.from_pylist([row], ARROW)
    pq.write_table(rows, sink, compression="none", write_page_checksum=True, store_schema=False)
    content = bytearray(sink.getvalue())
    if text is not None:
        content[content.index(text.encode()) + text.index("17")] ^= 2
    path = tmp_path / "f1_0-1-2_20260101000000000.parquet"
    path.write_bytes(content)
    status = os.stat(path)
    return FileInfo(f"file://{path}", status.st_size, status.st_mtime_ns)


def read_by_pages(file: FileInfo) -> pa.Table:
    data = DataFile(file, LOCAL, mapped=False)
    pages = column_pages(data, "_hoodie_record_key", 0)
    assert pages is not None
    return pages.rows(data, np.arange(1))


WAYS: dict[str, tuple[str, Callable[[FileInfo], Any]]] = {
    "references": (PATH, lambda file: parquet_references(pa.OSFile(file.uri[7:]))),
    "keys": (KEY, lambda file: keys_of_file(file, LOCAL)),
    "pages of found rows": (KEY, read_by_pages),
    "hashes of keys": (KEY, lambda file: hashes_of_file(file, LOCAL)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_flipped_bit_is_an_error(way: str, tmp_path: Path) -> None:
    text, read = WAYS[way]
    assert read(file_with_flipped(tmp_path, None)) is not None
    file = file_with_flipped(tmp_path, text)
    changed = pq.read_table(file.uri[7:]).to_pylist()[0]
    assert text not in (changed["_hoodie_record_key"], changed["img"]["reference"]["external_path"])
    with pytest.raises((DataFileError, OSError), match="checksum"):
        read(file)


def test_an_erasure_does_not_pass_over_a_key_that_flipped(tmp_path: Path) -> None:
    for text in (None, KEY):
        file = RetainedFile(f"file://{tmp_path}", file_with_flipped(tmp_path, text), BASE, "f1", "20260101000000000")
        scan = KeyScan([KEY])
        (found,) = scan([file], LOCAL)
        assert (found.doubt is None, bool(scan.held)) == ((True, True) if text is None else (False, False))
        assert text is None or "checksum" in str(found.doubt)
