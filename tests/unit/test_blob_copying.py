"""Blobs copied between containers: the same bytes, proved before anything may refer to them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.blobs.copying import MOVES, RANGES, Copier, digests
from hudi_vector.blobs.manifest import finish, open_upload, stage
from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.writer import BlobColumn, BlobWritePlan, BlobWriter
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions, join, normalise

SETTINGS = BlobSettings(inline_threshold=0, checksum="crc32", max_element_size=50, max_file_size=1000)


def uploaded(table, blobs):
    """Blobs in one container of a committed upload; their ranges."""
    column = BlobColumn("img", SETTINGS)
    upload = open_upload(table, {"img": SETTINGS}, lease_ms=60_000)
    with BlobWriter(BlobWritePlan(table, upload.write_id, (column,)), TaskAttempt(0, 0)) as writer:
        made = writer.convert(pa.record_batch({"img": pa.array(blobs, pa.binary())}))
        stage(table, upload.write_id, writer.close())
    finish(table, upload.write_id, "20260101000000000")
    references = [blob["reference"] for blob in made["img"].to_pylist()]
    return [(normalise(each["external_path"]), each["offset"], each["length"]) for each in references]


def batch(ranges, chunks=None):
    rows = [
        {"column": "img", "partition": "", "chunk": chunk, "file": file, "begin": begin, "count": count}
        for (file, begin, count), chunk in zip(ranges, chunks or [0] * len(ranges), strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, RANGES)


def copied(table, *batches, stored=SETTINGS):
    written = []
    copier = Copier(table, new_write_id(0), (("img", stored),))
    moved = list(copier.copy(batches, TaskAttempt(0, 7), written))
    return pa.Table.from_batches(moved, MOVES).to_pylist(), written


def content(table, move):
    file = Path(join(table, move["new_path"]).removeprefix("file://")).read_bytes()
    return file[move["new_begin"] : move["new_begin"] + move["count"]]


@settings(max_examples=20)  # each makes files durable
@given(
    st.lists(st.binary(max_size=70), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=2),
    st.sampled_from(["raw", "parquet"]),
)
def test_every_range_lies_elsewhere_with_the_same_bytes(tmp_path_factory, blobs, cuts, form):
    table = normalise(str(tmp_path_factory.mktemp("table")))
    ranges = uploaded(table, blobs)
    chunks = [sum(cut <= index for cut in cuts) for index in range(len(blobs))]
    batches = [batch(ranges[a:b], chunks[a:b]) for a, b in pairwise(sorted({0, len(blobs) // 2, len(blobs)}))]
    stored = BlobSettings(format=form, checksum="sha256", max_element_size=50, max_file_size=1000)
    moves, written = copied(table, *batches, stored=stored)
    found = {(move["file"], move["begin"], move["count"]): content(table, move) for move in moves}
    assert found == dict(zip(ranges, blobs, strict=True))
    together = {chunk for blob, chunk in zip(blobs, chunks, strict=True) if len(blob) <= 50}
    assert len(written) == len(together) + sum(len(blob) > 50 for blob in blobs)
    assert sum(made.blobs for made in written) == len(moves) == len(blobs)
    assert sum(made.checksums.num_rows for made in written) == len(blobs)


def test_what_cannot_be_had_or_changed_is_left_out(tmp_path):
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"first", b"second", b"third"])
    file = Path(ranges[0][0].removeprefix("file://"))
    file.write_bytes(file.read_bytes().replace(b"second", b"sEcond"))
    gone = (join(table, ".hoodie/blobs/gone.blob"), 0, 5)
    moves, written = copied(table, batch([*ranges, gone]))
    assert [content(table, move) for move in moves] == [b"first", b"third"]
    assert [made.blob_bytes for made in written] == [10]
    assert digests(batch([*ranges, gone]), table, StorageOptions()).null_count == 1
    assert copied(table, batch([gone])) == ([], [])


def test_a_container_that_does_not_hold_the_bytes_fails_the_copy(tmp_path, monkeypatch):
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"first", b"second"])
    real = ContainerPool.close

    def close(pool):
        made = real(pool)
        file = Path(join(table, made[-1].path).removeprefix("file://"))
        file.write_bytes(file.read_bytes().swapcase())
        return made

    monkeypatch.setattr(ContainerPool, "close", close)
    with pytest.raises(BlobWriteError, match="does not hold the bytes that were copied to it"):
        copied(table, batch(ranges))


def test_equal_bytes_have_equal_digests(tmp_path):
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"same", b"other", b"same"])
    one, other, again = digests(batch(ranges), table, StorageOptions()).to_pylist()
    assert one == again != other
