"""Places of large values in local files, and what has none: Python reads it, or says what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.blob_states import inline
from support.rights import without_root

from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.lazy import LAZY_TYPE, LazyColumns, lazy_pieces
from hudi_vector.blobs.reading.places import PIECE_TYPE, placed_pieces
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import BlobReadError
from hudi_vector.storage import StorageOptions

SIZE = 600 << 10
CONTENT = np.random.default_rng(3).bytes(SIZE)
LARGE = 256 << 10
BUDGET = 64 << 10


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "blobs.bin"
    path.write_bytes(CONTENT)
    return str(path)


def placed(found: Iterable[pa.StructArray]) -> list[Any]:
    """Each value: a place as (path, offset, length), or the bytes that Python read."""
    values: list[Any] = []
    for piece in found:
        assert piece.type == PIECE_TYPE
        assert len(piece) == 1 or sum(map(len, piece.field("bytes").drop_null().to_pylist())) <= BUDGET
        for row in piece.to_pylist():
            if row["path"] is not None:
                assert row["bytes"] is None  # nothing of it passes through Python
            values.append(row["bytes"] if row["path"] is None else (row["path"], row["offset"], row["length"]))
    return values


def read(*blobs: Any, part: Part | None = None, **settings: Any) -> list[Any]:
    columns = BlobColumns.of(blob_rows(blobs))
    return placed(placed_pieces(BlobFetcher(**settings), columns, part or Part(), BUDGET))


def test_large_ranges_of_local_files_have_a_place(file: str) -> None:
    row = CONTENT[: LARGE + 1]
    assert read(
        (file, 5, LARGE), (file, 5, LARGE - 1), (f"file://{file}", 7, None), (f"file:{file}", None, None), None,
        inline(row), (file, SIZE - LARGE, LARGE), (file, 0, 0), inline(b""), (file, None, LARGE),
    ) == [
        (file, 5, LARGE), CONTENT[5 : LARGE + 4], (file, 7, SIZE - 7), (file, 0, SIZE), None,
        row, (file, SIZE - LARGE, LARGE), b"", b"", (file, 0, LARGE),
    ]  # fmt: skip


def test_values_without_a_place_are_cut_into_pieces(file: str) -> None:
    """Places cost no memory, so that rows between them still share a piece."""
    blobs = [(file, 0, SIZE) if number % 2 else (file, number, 30 << 10) for number in range(9)]
    found = list(placed_pieces(BlobFetcher(), BlobColumns.of(blob_rows(blobs)), Part(), BUDGET))
    assert [len(piece) for piece in found] == [4, 4, 1]
    assert placed(found) == [blob if blob[2] == SIZE else CONTENT[blob[1] : blob[1] + (30 << 10)] for blob in blobs]


def test_a_part_counts_not_its_blob(file: str) -> None:
    starts, counts = np.array([0, 100, SIZE, 10]), np.array([10, LARGE, 5, SIZE])
    found = read(*[(file, 0, SIZE)] * 4, part=Part(starts, counts))
    assert found == [CONTENT[:10], (file, 100, LARGE), b"", (file, 10, SIZE - 10)]
    with pytest.raises(BlobReadError, match=f"bytes from {SIZE + 1} on are asked for"):
        read((file, 0, SIZE), part=Part(SIZE + 1, LARGE))


def test_relative_paths_are_read_by_python(file: str) -> None:
    folder, name = os.path.split(file)
    assert read((name, 0, LARGE), table=folder) == [CONTENT[:LARGE]]


def test_other_alphabets_are_read_by_python(tmp_path: Path) -> None:
    """What their letters mean to the JVM depends on its locale."""
    path, link = tmp_path / "Bär.bin", tmp_path / "link.bin"
    path.write_bytes(CONTENT)
    link.symlink_to(path)
    allowed = StorageOptions.of({"hoodie.blob.read.allowed": str(tmp_path)})
    assert read((str(path), 0, SIZE)) == [CONTENT]
    assert read((str(link), 0, SIZE), options=allowed) == [CONTENT]
    assert read((str(link), 0, SIZE)) == [(str(link), 0, SIZE)]


def test_very_large_values_are_read_by_python(tmp_path: Path) -> None:
    path = str(tmp_path / "sparse.bin")
    with open(path, "wb") as made:
        made.truncate((64 << 20) + 1)
    assert read((path, 0, 64 << 20)) == [(path, 0, 64 << 20)]
    assert read((path, None, None)) == [bytes((64 << 20) + 1)]


@pytest.mark.parametrize("settings", [{"verify": True}, {"threads": 2}])
def test_settings_that_only_python_follows(file: str, settings: dict[str, Any]) -> None:
    assert read((file, 1, LARGE), **settings) == [CONTENT[1 : LARGE + 1]]


def test_what_is_compared_with_the_allowed_places_is_what_is_read(file: str, tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    inside, link = tmp_path / "allowed" / "inside.bin", tmp_path / "allowed" / "link.bin"
    inside.write_bytes(CONTENT)
    link.symlink_to(file)
    further = tmp_path / "further.bin"
    further.symlink_to(inside)
    options = StorageOptions.of({"hoodie.blob.read.allowed": str(tmp_path / "allowed")})
    assert read((str(further), 0, SIZE), options=options) == [(str(inside), 0, SIZE)]
    for path in (file, str(link), f"{tmp_path}/allowed/../blobs.bin"):
        with pytest.raises(BlobReadError, match="it is in none of the places"):
            read((path, 0, SIZE), options=options)
        assert read((path, 0, SIZE), options=options, on_error="null") == [None]


@pytest.mark.parametrize("from_remote", [{"from_remote": True}, {"table": "s3://lake/table"}])
def test_a_table_on_an_object_store_names_no_file_of_this_machine(file: str, from_remote: dict[str, Any]) -> None:
    with pytest.raises(BlobReadError, match="it names a file of this machine"):
        read((file, 0, SIZE), **from_remote)
    assert read((file, 0, SIZE), on_error="null", **from_remote) == [None]


def test_what_cannot_be_read_has_no_place(file: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    wrong = {
        "the file is gone, or was never there": (f"{tmp_path}/none", 0, LARGE),
        f"the file is too short, it has {SIZE} bytes": (file, SIZE - LARGE + 1, LARGE),
        "it is a directory": (str(tmp_path), 0, LARGE),
        "it is no regular file": (f"{tmp_path}/pipe", 0, LARGE),
    }
    for reason, blob in wrong.items():
        with pytest.raises(BlobReadError, match=f"cannot be read: {reason}$"):
            read((file, 0, SIZE), blob)
    assert read((file, 0, SIZE), *wrong.values(), on_error="null") == [(file, 0, SIZE), None, None, None, None]


def test_a_file_without_permission_has_no_place(file: str, tmp_path: Path) -> None:
    os.chmod(file, 0)
    with without_root(tmp_path), pytest.raises(BlobReadError, match="permission denied"):
        read((file, 0, SIZE))


def test_references_of_the_rows_of_base_files(file: str) -> None:
    kinds = [(file, 3, LARGE, None, False), (file, 3, LARGE, 0, True), (file, 0, 2, 0, True), None]
    given = [None if kind is None else dict(zip(LAZY_TYPE.names, kind, strict=True)) for kind in kinds]
    fetcher = BlobFetcher()
    columns = LazyColumns.of(pa.array(given, LAZY_TYPE))
    found = placed(lazy_pieces(fetcher, columns, BaseFiles(fetcher.options, kept=10_000), BUDGET))
    assert found == [(file, 3, LARGE), (file, 3, LARGE), CONTENT[:2], None]
