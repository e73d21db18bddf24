"""Random blobs in random batches: what was written is read back, and every byte on disk is accounted for."""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.struct import blob_array
from hudi_vector.blobs.uploads.manifest import finish, open_upload, read_checksums, read_upload, stage

_SIZES = st.one_of(st.integers(0, 70), st.sampled_from([63, 64, 65, 127, 128, 129, 999, 1000, 1001, 5000]))


@st.composite
def blobs(draw: st.DrawFn) -> bytes | None:
    if draw(st.integers(0, 6)) == 0:
        return None
    size = draw(_SIZES)
    return (draw(st.binary(min_size=1, max_size=8)) * (size + 1))[:size]


@st.composite
def all_settings(draw: st.DrawFn) -> BlobSettings:
    file_size = draw(st.integers(1, 6000))
    return BlobSettings(
        inline_threshold=draw(st.sampled_from([0, 1, 64, 1000, 1 << 20])),
        max_element_size=draw(st.integers(1, file_size)),
        max_file_size=file_size,
        format=draw(st.sampled_from(["raw", "parquet", "lance"])),
        checksum=draw(st.sampled_from(["none", "crc32", "sha256"])),
        paths=draw(st.sampled_from(["absolute", "relative"])),
    )


_ROWS = st.lists(st.tuples(st.sampled_from(["", "d=1", "d=2/h=3"]), blobs()), max_size=12)
_CHECKSUMS = {
    "crc32": lambda blob: zlib.crc32(blob).to_bytes(4, "big"),
    "sha256": lambda blob: hashlib.sha256(blob).digest(),
}


def handed_over(values: list[bytes | None], form: str) -> pa.Array:
    """The same blobs as a caller may have them: bytes of two widths, slices of longer arrays, INLINE structs."""
    if form == "struct":
        longer = [b"before", *values]
        none = [None] * len(longer)
        kinds = [None if value is None else "INLINE" for value in longer]
        return blob_array(kinds, longer, none, none, none, none).slice(1)
    if form == "slice":
        return pa.array([b"before", *values, b"after"], pa.binary()).slice(1, len(values))
    return pa.array(values, pa.large_binary() if form == "large" else pa.binary())


def stored_bytes(table: str, blob: dict[str, Any] | None) -> bytes | None:
    if blob is None or blob["type"] == "INLINE":
        return blob and blob["data"]
    reference = blob["reference"]
    path = reference["external_path"].removeprefix("file://")
    with open(path if path.startswith("/") else f"{table}/{path}", "rb") as file:
        file.seek(reference["offset"])
        return file.read(reference["length"])


@pytest.mark.parametrize("form", ["bytes", "large", "slice", "struct"])
@settings(max_examples=25)
@given(batches=st.lists(_ROWS, max_size=4), chosen=all_settings(), most_open=st.integers(1, 3))
def test_what_is_written_is_read_and_accounted_for(
    form: str, batches: list[list[tuple[str, bytes | None]]], chosen: BlobSettings, most_open: int
) -> None:
    with tempfile.TemporaryDirectory() as table:
        upload = open_upload(table, {"img": chosen}, lease_ms=60_000)
        plan = BlobWritePlan(table, upload.write_id, (BlobColumn("img", chosen),), "part", most_open)
        converted, expected, parts = [], [], []
        with BlobWriter(plan, TaskAttempt(0, 0)) as writer:
            for rows in batches:
                values = [value for _, value in rows]
                parts += [part for part, _ in rows]
                expected += values
                columns = {"part": pa.array([part for part, _ in rows], pa.string()), "img": handed_over(values, form)}
                converted += writer.convert(pa.record_batch(columns)).column("img").to_pylist()
            stage(table, upload.write_id, writer.close())
        finish(table, upload.write_id, "1")

        assert [stored_bytes(table, blob) for blob in converted] == expected
        for part, value, blob in zip(parts, expected, converted, strict=True):
            if value is None:
                continue
            assert (blob["type"] == "INLINE") == (len(value) < chosen.inline_threshold)
            if blob["reference"]:
                assert blob["reference"]["managed"]
                assert f".hoodie/blobs/{part}/img/".replace("//", "/") in blob["reference"]["external_path"]

        state = read_upload(table, upload.write_id)
        area = Path(table, ".hoodie/blobs")
        on_disk = {str(file.relative_to(table)): file.stat().st_size for file in area.rglob("*") if file.is_file()}
        assert on_disk == {made.path: made.bytes for made in state.containers}
        outside = [value for value in expected if value is not None and len(value) >= chosen.inline_threshold]
        assert sum(made.blobs for made in state.containers) == len(outside)
        assert sum(made.blob_bytes for made in state.containers) == sum(map(len, outside))
        if chosen.format == "raw":
            assert sum(on_disk.values()) == sum(map(len, outside))
            assert all(
                made.bytes <= max(chosen.max_file_size, made.bytes * (made.blobs == 1)) for made in state.containers
            )
        own = [value for value in outside if len(value) > chosen.max_element_size]
        assert sum(made.blobs == 1 and made.blob_bytes > chosen.max_element_size for made in state.containers) == len(
            own
        )

        checksums = read_checksums(state)
        if chosen.checksum == "none" or not outside:
            assert checksums is None
            return
        known = {
            (row["path"], row["offset"], row["length"], row["checksum"])
            for row in checksums.to_pylist()
            if row["method"] == chosen.checksum
        }
        for value, blob in zip(expected, converted, strict=True):
            if blob and blob["reference"]:
                reference = blob["reference"]
                path = reference["external_path"].removeprefix(f"file://{table}/")
                row = (path, reference["offset"], reference["length"], _CHECKSUMS[chosen.checksum](value))
                assert row in known
