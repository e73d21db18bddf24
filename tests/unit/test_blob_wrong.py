"""What is wrong with references, in fixed words; without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.stored import CONTRADICTIONS, inline, ref, stored

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.changed import note_changed
from hudi_vector.blobs.counts.presence import GONE, TOO_SHORT, presence
from hudi_vector.blobs.counts.wrong import find_problems
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.uploads.kept_checksums import KeptChecksums
from hudi_vector.blobs.uploads.manifest import open_upload, stage
from hudi_vector.errors import DataFileError
from hudi_vector.storage import StorageOptions


@pytest.fixture
def area(tmp_path: Path) -> BlobArea:
    return BlobArea.of(str(tmp_path / "t"))


def problems(area: BlobArea, *blobs: dict[str, Any] | None) -> list[str | None]:
    return find_problems(stored(area, *blobs), area, BlobFiles(StorageOptions(), area.table)).tolist()


def test_each_problem(area: BlobArea, tmp_path: Path) -> None:
    file, own, other = tmp_path / "f", tmp_path / "t/.hoodie/blobs/f", tmp_path / "u/.hoodie/blobs/f"
    for path in (file, own, other, tmp_path / "t/f"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(10))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = {
        "fine": (None, [None, inline(0), ref(str(file)), ref(f"file:{own}"), ref(".hoodie/blobs/f"), ref(str(file), None, None)]),
        "gone": ("gone", [ref("/no/such"), ref(".hoodie/blobs/g"), ref(str(tmp_path / "u/.hoodie/blobs/g"))]),
        "directory": ("directory", [ref(str(tmp_path))]),
        "short": ("too short", [ref(str(file), 6, 5), ref(str(file), 11, None), ref(str(other), 0, 11)]),
        "unreachable": ("unreachable", [ref("nosuch://x/y"), ref(str(pipe))]),
        "foreign": ("foreign", [ref(str(other)), ref(f"{tmp_path}/t/../u/.hoodie/blobs/f", managed=False)]),
        "relative": ("relative without base", [ref("f"), ref("no/such"), ref("file:f")]),
        "zero": (None, [ref("/no/such", 3, 0)]),
        "contradiction": ("contradicts itself", CONTRADICTIONS),
    }  # fmt: skip
    for words, blobs in expected.values():
        assert problems(area, *blobs) == [words] * len(blobs)
    together = [blob for _, blobs in expected.values() for blob in blobs]
    assert problems(area, *together) == [words for words, blobs in expected.values() for _ in blobs]
    assert problems(area) == []


def test_a_file_is_looked_at_once(area: BlobArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(bytes(10))
    looked: list[str] = []
    files = BlobFiles(StorageOptions(), area.table)
    look = files.look
    monkeypatch.setattr(files, "look", lambda uris: looked.extend(uris) or look(uris))
    blobs = stored(area, *[ref(f"{tmp_path}/f", number, 1) for number in range(10)])
    assert find_problems(blobs, area, files).tolist() == [None] * 10
    assert looked == [f"file://{tmp_path}/f"]


def test_ranges_beyond_64_bits_are_too_short() -> None:
    most = np.iinfo(np.int64).max
    begin, count, size = np.array([[most, most, 100], [1, most, 100], [most, -1, GONE], [0, 100, 100]], np.int64).T
    assert presence(begin, count, size).tolist() == [TOO_SHORT, TOO_SHORT, GONE, 0]


BLOBS = [b"a" * 100, b"", b"c" * 300, None, b"d" * 400]


def written(table: str, checksum: str, form: str = "raw") -> list[dict[str, Any] | None]:
    """References to `BLOBS`, whose write kept checksums."""
    settings = BlobSettings(inline_threshold=0, checksum=checksum, format=form)
    upload = open_upload(table, {"img": settings}, lease_ms=60_000)
    with BlobWriter(BlobWritePlan(table, upload.write_id, (BlobColumn("img", settings),)), TaskAttempt(0, 0)) as writer:
        blobs = writer.convert(pa.record_batch({"img": BLOBS})).column("img").to_pylist()
        stage(table, upload.write_id, writer.close())
    references = [blob and blob["reference"] for blob in blobs]
    return [
        found and ref(found["external_path"], found["offset"], found["length"], found["managed"])
        for found in references
    ]


def checked(area: BlobArea, *blobs: dict[str, Any] | None) -> list[str | None]:
    taken = stored(area, *blobs)
    found = find_problems(taken, area, BlobFiles(StorageOptions(), area.table))
    fetcher = BlobFetcher(on_error="null", table=area.table)
    note_changed(taken, found, KeptChecksums(fetcher.options), fetcher, 150)
    return found.tolist()


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
@pytest.mark.parametrize("checksum", ["crc32", "sha256"])
def test_bytes_that_changed(area: BlobArea, checksum: str, form: str, tmp_path: Path) -> None:
    blobs = [*written(area.table, checksum, form), *written(area.table, checksum), *written(area.table, "none")]
    assert checked(area, *blobs) == [None] * 15
    for number in (2, 5, 12):
        path = Path(blobs[number]["path"].removeprefix("file://"))
        content = bytearray(path.read_bytes())
        content[blobs[number]["offset"] + 50] ^= 1
        path.write_bytes(content)
    outside = tmp_path / "cat.png"
    outside.write_bytes(b"meow")
    parts = [ref(str(outside), 0, 4), {**blobs[2], "length": 299}]  # no checksum was kept of these
    assert checked(area, *blobs, *parts) == [None, None, "changed", None, None, "changed", *[None] * 11]


def test_bytes_that_are_gone_are_not_compared(area: BlobArea) -> None:
    blobs = written(area.table, "crc32")
    path = Path(blobs[0]["path"].removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:450])
    assert checked(area, *blobs) == [None, None, None, None, "too short"]


def test_a_table_without_its_manifests_has_no_checksums(area: BlobArea) -> None:
    blobs = written(area.table, "crc32")
    uploads = Path(area.table.removeprefix("file://")) / ".hoodie/blob_service/v1/uploads"
    uploads.rename(uploads.parent / "elsewhere")
    assert checked(area, *blobs) == [None] * 5


def test_damaged_checksums_are_no_checksums(area: BlobArea) -> None:
    blobs = written(area.table, "crc32")
    (kept,) = (Path(area.table.removeprefix("file://")) / ".hoodie").rglob("checksums-*.parquet")
    kept.write_bytes(b"PAR1")
    with pytest.raises(DataFileError, match="are damaged"):
        checked(area, *blobs)
