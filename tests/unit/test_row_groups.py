"""A column chunk that ends before its row group: whatever reads rows counts them, and loses none in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.blob_states import ARROW, blob, rows_of
from support.damaged import cut_short

from hudi_vector.blobs.scans.bare_file import BareFile
from hudi_vector.errors import DataFileError
from hudi_vector.read.logs.blocks import PARQUET_DATA, LogBlock
from hudi_vector.read.logs.keys import keys_of_block
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.table_services.erasure.key_rows import KeyScan
from hudi_vector.table_services.references.base_files import parquet_references
from hudi_vector.table_services.retention.retained import BASE, RetainedFile
from hudi_vector.vectors.holders import _in_parquet

LOCAL = StorageOptions()
NOW = "20260101000000000"
KEY = "_hoodie_record_key"


def short_file(path: Path, *leaves: str) -> FileInfo:
    """A file of two row groups of 100 rows, whose footer says that the first one has 70 values of some leaves."""
    table = pa.Table.from_pylist(rows_of({n: blob(f"/{n}") for n in range(200)}, NOW, "f1", "", "f1"), ARROW)
    cut_short(table, path, 100, 70, *leaves)
    return FileInfo(f"file://{path}", path.stat().st_size, path.stat().st_mtime_ns)


def block_of(file: FileInfo) -> LogBlock:
    return LogBlock(0, PARQUET_DATA, {}, memoryview(Path(file.uri[7:]).read_bytes()))


def bare_rows(file: FileInfo) -> list[Any]:
    with pa.OSFile(file.uri[7:]) as source:
        return list(BareFile(source, file.uri).rows(["img"], lambda leaf: leaf == "id"))


FIELDS = ("type", "external_path", "offset", "length", "managed")
WAYS: dict[str, tuple[tuple[str, ...], Callable[[FileInfo], Any]]] = {
    "references": (FIELDS, lambda file: parquet_references(pa.OSFile(file.uri[7:]))),
    "keys of a block": ((KEY,), lambda file: keys_of_block(block_of(file))),
    "rows without bytes": (("id",), bare_rows),
    "holders of a column": (("ts",), lambda file: _in_parquet(pa.OSFile(file.uri[7:]), "ts")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_column_that_ends_before_its_row_group_is_an_error(way: str, tmp_path: Path) -> None:
    leaves, read = WAYS[way]
    with pytest.raises((DataFileError, ValueError), match="row group 0 has 100 rows, and pyarrow reads 70 of"):
        read(short_file(tmp_path / "f.parquet", *leaves))


@pytest.mark.parametrize("leaves", [(KEY,), FIELDS], ids=["keys", "references"])
def test_an_erasure_does_not_pass_over_keys_that_are_not_read(leaves: tuple[str, ...], tmp_path: Path) -> None:
    info = short_file(tmp_path / f"f1_0-1-2_{NOW}.parquet", *leaves)
    file = RetainedFile(f"file://{tmp_path}", info, BASE, "f1", NOW)
    scan = KeyScan(["50", "99"])
    (found,) = scan([file], LOCAL)
    assert "row group 0 has 100 rows, and pyarrow reads 70 of" in str(found.doubt)
    assert not scan.held
