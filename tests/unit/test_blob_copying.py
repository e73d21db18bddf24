"""Blobs copied between containers: the same bytes, proved before anything may refer to them."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_vector.blobs.containers.pool import ContainerPool, TaskAttempt
from hudi_vector.blobs.copies.copy_chunk import Piece
from hudi_vector.blobs.copies.copying import PLACES, RANGES, Copier, digests, read_ahead
from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter
from hudi_vector.blobs.uploads.manifest import finish, open_upload, stage
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
    return pa.Table.from_batches(moved, pa.schema([*RANGES, *PLACES])).to_pylist(), written


def content(table, move):
    file = Path(join(table, move["new_path"]).removeprefix("file://")).read_bytes()
    return file[move["new_begin"] : move["new_begin"] + move["count"]]


@pytest.fixture(params=[8, 8 << 20])
def piece(request, monkeypatch):
    """How many bytes are copied or compared at once."""
    for module in ("copying", "copy_chunk"):
        monkeypatch.setattr(f"hudi_vector.blobs.copies.{module}.PIECE", request.param)


@pytest.mark.usefixtures("piece")
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each makes files durable
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
    assert [move["new_begin"] is None for move in moves] == [False, True, False, True]
    assert [content(table, move) for move in moves if move["new_path"]] == [b"first", b"third"]
    assert [made.blob_bytes for made in written] == [10]
    assert digests(batch([*ranges, gone]), table, StorageOptions()).null_count == 1
    moves, written = copied(table, batch([gone]), batch([gone, gone]))
    assert [move["new_path"] for move in moves] == [None] * 3
    assert written == []


@pytest.mark.usefixtures("piece")
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each makes files durable
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.sets(st.integers(0, 30), max_size=6))
def test_bytes_of_several_rows_are_copied_once(tmp_path_factory, repeats, cuts):
    """Also where they come in several batches, and what rows have besides comes back beside them."""
    table = normalise(str(tmp_path_factory.mktemp("table")))
    blobs = [bytes([number]) * (5 + 12 * number) for number in range(len(repeats))]
    ranges = uploaded(table, blobs)
    which = [number for number, times in enumerate(repeats) for _ in range(times)]
    rows = batch([ranges[number] for number in which], [number // 3 for number in which])
    rows = rows.append_column("reference", pa.array([{"key": key} for key in range(len(which))]))
    batches = [rows.slice(a, b - a) for a, b in pairwise(sorted({0, len(which), *(c for c in cuts if c < len(which))}))]
    written = []
    copier = Copier(table, new_write_id(0), (("img", SETTINGS),))
    moves = pa.Table.from_batches(copier.copy(batches, TaskAttempt(0, 7), written)).to_pylist()
    assert [move["reference"]["key"] for move in moves] == list(range(len(which)))
    assert [content(table, move) for move in moves] == [blobs[number] for number in which]
    assert sum(made.blobs for made in written) == len(blobs)
    assert len({(move["new_path"], move["new_begin"]) for move in moves}) == len(blobs)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("place", [0, 7, 8, 30, -1])
@pytest.mark.parametrize("twice", [True, False])
def test_a_container_that_does_not_hold_the_bytes_fails_the_copy(tmp_path, monkeypatch, place, twice):
    """Any one wrong byte, whichever of both ways finds it."""
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"first", b"second" * 5, b"third"])
    real = ContainerPool.close

    def close(pool):
        made = real(pool)
        file = Path(join(table, made[-1].path).removeprefix("file://"))
        content = bytearray(file.read_bytes())
        content[place] ^= 1
        file.write_bytes(content)
        return made

    monkeypatch.setattr(ContainerPool, "close", close)
    monkeypatch.setattr("hudi_vector.blobs.copies.copy_chunk.scheme_of", lambda _: "file" if twice else "s3")
    with pytest.raises(BlobWriteError, match="does not hold the bytes that were copied to it"):
        copied(table, batch(ranges))


def open_containers():
    links = (Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return [target for link in links if link.is_symlink() and (target := str(link.readlink())).endswith(".blob")]


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_container_that_cannot_be_made_durable_fails_the_copy_of_all(tmp_path, monkeypatch, fails):
    """The next containers are being filled meanwhile; none of them stays open."""
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"first", b"second", b"third"])
    real, closed = os.fsync, []

    def fsync(descriptor):
        closed.append(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"7-{fails}.blob"):
            raise OSError(errno.EIO, "the disk is broken")
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    moves = Copier(table, new_write_id(0), (("img", SETTINGS),)).copy([batch(ranges, [0, 1, 2])], TaskAttempt(0, 7), [])
    found = [content(table, move) for _ in range(fails) for move in next(moves).to_pylist()]
    with pytest.raises(BlobWriteError, match=r"cannot be written: .*the disk is broken"):
        next(moves)
    assert found == [b"first", b"second", b"third"][:fails]
    assert open_containers() == []


def test_a_copy_that_is_not_wanted_any_more_leaves_nothing_open(tmp_path):
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"first", b"second", b"third"])
    moves = Copier(table, new_write_id(0), (("img", SETTINGS),)).copy([batch(ranges, [0, 1, 1])], TaskAttempt(0, 7), [])
    assert content(table, next(moves).to_pylist()[0]) == b"first"
    moves.close()
    assert open_containers() == []


@given(st.lists(st.sampled_from([1, 5, 10, 11, 30]), max_size=8))
def test_pieces_are_read_ahead_unless_they_are_large(sizes):
    """Of two pieces in memory at once, the later one is no larger than a piece is to be."""
    held, most = set(), []

    def fetch(piece):
        number = piece.rows["number"][0].as_py()
        held.add(number)
        most.append((piece.bytes, sum(other < number for other in list(held))))
        return pa.nulls(0, pa.binary())

    pieces = [
        Piece(pa.record_batch({"number": [number]}), pa.record_batch({"count": [size]}), np.array([1]))
        for number, size in enumerate(sizes)
    ]
    numbers = []
    with ThreadPoolExecutor(2) as threads, pytest.MonkeyPatch.context() as patched:
        patched.setattr("hudi_vector.blobs.copies.copying.PIECE", 10)
        for piece, _ in read_ahead(threads, fetch, pieces):
            numbers.append(piece.rows["number"][0].as_py())
            held.discard(numbers[-1])
    assert numbers == list(range(len(sizes)))
    assert all(before == 0 for size, before in most if size > 10)
    assert all(before <= 1 for _, before in most)


def test_equal_bytes_have_equal_digests(tmp_path):
    table = normalise(str(tmp_path))
    ranges = uploaded(table, [b"same", b"other", b"same"])
    one, other, again = digests(batch(ranges), table, StorageOptions()).to_pylist()
    assert one == again != other
