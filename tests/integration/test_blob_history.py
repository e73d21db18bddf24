"""Random writes that are killed between every two steps: what was committed reads back, and every byte is accounted for."""

from __future__ import annotations

import random

import pytest
from support import tables
from support.blobs import content, got, rows, stored, write
from support.clean_life import Killed, dying_at

from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.uploads.manifest import COMMITTED, OPEN, STAGED, list_uploads

# Between the end of a step and the beginning of the next nothing happens, but for Hudi's commit before the last.
KILLS = (
    ("open_upload", False),
    ("staged_rows", False),
    ("stage", False),
    ("stage", True),
    ("finish", False),
    ("finish", True),
)
COLUMN = {"img": {"inline.threshold": "1KB", "container.maxElementSize": "4KB", "container.maxFileSize": "16KB"}}


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_kills_between_all_steps(spark, workspace, table_type):
    path = tables.fresh_path(workspace, "killed")
    choice = random.Random(3)
    model: dict[int, bytes | None] = {}
    write(rows(spark, [2000, 100, 5000]), path, blobs=COLUMN, table_type=table_type)
    model.update({0: content(1000, 2000), 1: content(1001, 100), 2: content(1002, 5000)})
    version = 1
    for step, after in KILLS:
        version += 1
        sizes = [choice.choice([None, 10, 1500, 3000, 9000]) for _ in range(choice.randint(2, 5))]
        with dying_at(step, after), pytest.raises(Killed):
            write(rows(spark, sizes, ts=version), path, blobs=COLUMN)
        if step == "finish":  # Hudi had committed
            model.update(
                {i: None if size is None else content(1000 * version + i, size) for i, size in enumerate(sizes)}
            )
        assert got(path) == model
    last = write(rows(spark, [7000], ts=version + 1), path, blobs=COLUMN)
    model[0] = content(1000 * (version + 1), 7000)
    assert stored(spark, path) == model
    _assert_accounted_for(spark, path, last.blobs.write_id)


def _assert_accounted_for(spark, path, last):
    uploads = {upload.write_id: upload for upload in list_uploads(f"file://{path}")}
    later = max(upload.lease_until_ms for upload in uploads.values())
    files = [file for file in (path / ".hoodie/blobs").rglob("*") if file.is_file()]
    by_write: dict[str, dict[str, int]] = {}
    for file in files:
        name = ContainerName.parse(f"file://{path}", f"file://{file}")
        by_write.setdefault(name.write_id, {})[str(file.relative_to(path))] = file.stat().st_size
    assert by_write.keys() <= uploads.keys()
    for write_id, found in by_write.items():
        upload = uploads[write_id]
        listed = {container.path: container.bytes for container in upload.containers}
        if upload.state != OPEN:
            assert found == listed
        if upload.state != COMMITTED:
            assert not upload.may_commit(later)
    assert uploads[last].state == COMMITTED
    assert {upload.state for upload in uploads.values()} == {OPEN, STAGED, COMMITTED}
    live = spark.read.format("hudi").load(str(path)).selectExpr("blob_location(img) AS p").where("p IS NOT NULL")
    referred = {row.p.rsplit("/", 2)[1] for row in live.collect()}
    assert referred <= {write_id for write_id, upload in uploads.items() if upload.state in (COMMITTED, STAGED)}
