"""Blobs written to an S3-compatible server: containers of every format, manifests, external references; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from support import servers

from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.uploads.manifest import finish, list_uploads, open_upload, read_checksums, stage
from hudi_vector.errors import BlobWriteError, InvalidBlobError
from hudi_vector.storage import StorageOptions, open_storage

TASK = TaskAttempt(1, 2)
BLOBS = [b"inline", b"x" * 5000, None, b"y" * 200_000, b"z" * 100]


@pytest.fixture(scope="module")
def options() -> Iterator[StorageOptions]:
    with servers.lake() as (found, _):
        yield found


@pytest.fixture(scope="module")
def lake(options: StorageOptions) -> pafs.S3FileSystem:
    """The server through pyarrow's own file system."""
    return open_storage("s3://lake", options).filesystem


def stored(lake: pafs.S3FileSystem, blob: dict[str, Any] | None) -> bytes | None:
    if blob is None or blob["type"] == "INLINE":
        return blob and blob["data"]
    reference = blob["reference"]
    with lake.open_input_file(reference["external_path"].removeprefix("s3a://")) as file:
        return file.read_at(reference["length"], reference["offset"])


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
def test_a_write_to_an_object_store(form: str, options: StorageOptions, lake: pafs.S3FileSystem) -> None:
    table = f"s3a://lake/{form}/t"
    settings = BlobSettings(inline_threshold=50, max_element_size=10_000, format=form, checksum="crc32")
    upload = open_upload(table, {"img": settings}, lease_ms=60_000, options=options)
    plan = BlobWritePlan(table, upload.write_id, (BlobColumn("img", settings),), options=options)
    with BlobWriter(plan, TASK) as writer:
        found = writer.convert(pa.record_batch({"img": BLOBS})).column("img").to_pylist()
        stage(table, upload.write_id, writer.close(), options=options)
    done = finish(table, upload.write_id, "1", options=options)

    paths = [blob["reference"]["external_path"] for blob in found if blob and blob["reference"]]
    assert all(path.startswith(f"{table}/.hoodie/blobs/img/") for path in paths), "the scheme that Hadoop knows"
    assert [stored(lake, blob) for blob in found] == BLOBS
    listed = lake.get_file_info(pafs.FileSelector(f"lake/{form}/t/.hoodie/blobs", recursive=True))
    on_store = {info.path: info.size for info in listed if info.type == pafs.FileType.File}
    assert on_store == {f"lake/{form}/t/{made.path}": made.bytes for made in done.containers}
    assert len(on_store) == 2
    assert list_uploads(table, options=options) == [done]
    assert read_checksums(done, options=options).num_rows == 3


def test_the_name_of_a_lance_container_is_reserved(options: StorageOptions) -> None:
    """Lance writes it by its own means; other containers have names with random bits, which are not looked up."""
    table, settings = "s3a://lake/reserved/t", BlobSettings(inline_threshold=50, format="lance")
    plan = BlobWritePlan(table, new_write_id(0), (BlobColumn("img", settings),), options=options)
    with BlobWriter(plan, TASK) as writer:
        writer.convert(pa.record_batch({"img": BLOBS}))
        writer.close()
    again = BlobWriter(plan, TASK)
    with pytest.raises(BlobWriteError, match="is there already"):
        again.convert(pa.record_batch({"img": BLOBS}))


def test_external_objects_are_looked_at(options: StorageOptions, lake: pafs.S3FileSystem) -> None:
    with lake.open_output_stream("lake/pictures/cat.png") as stream:
        stream.write(b"meow")
    plan = BlobWritePlan("s3a://lake/u", "20260101000000000_0123456789ab", (BlobColumn("img"),), options=options)
    paths = ["s3a://lake/pictures/cat.png", "s3://lake/pictures/cat.png"]
    found = BlobWriter(plan, TASK).convert(pa.record_batch({"img": paths})).column("img").to_pylist()
    assert [blob["reference"]["external_path"] for blob in found] == paths
    assert [blob["reference"]["length"] for blob in found] == [4, 4]
    for path, message in {
        "s3a://lake/pictures/dog.png": "there is no file",
        "s3a://lake/pictures": "is a folder",
    }.items():
        with pytest.raises(InvalidBlobError, match=message):
            BlobWriter(plan, TASK).convert(pa.record_batch({"img": [path]}))
