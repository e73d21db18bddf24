"""Fetching ranges equals slicing the files row by row, whatever the ranges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.blobs.reading import fetch as fetching
from hudi_vector.blobs.reading.batches import read_batches
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE, BlobColumns, blob_array
from hudi_vector.storage.ranges import plan_reads

CONTENTS = [np.random.default_rng(seed).bytes(size) for seed, size in enumerate((0, 1, 300, 5000))]

# (where: NULL, inline or a file, offset, length); places are cut to the file below.
blobs = st.tuples(
    st.sampled_from(["null", "inline", "local", "remote"]),
    st.integers(0, len(CONTENTS) - 1),
    st.none() | st.integers(0, 5000),
    st.none() | st.integers(0, 5000),
)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    local = tmp_path_factory.mktemp("ranges")
    remote = fsspec.filesystem("memory")
    for number, content in enumerate(CONTENTS):
        Path(local / f"{number}.bin").write_bytes(content)
        remote.pipe_file(f"/ranges/{number}.bin", content)
    yield {"local": str(local), "remote": "memory://ranges"}
    remote.rm("/ranges", recursive=True)


def row_and_bytes(roots: dict[str, str], blob: tuple) -> tuple[tuple, bytes | None]:
    """A row of a blob column, and the bytes that slicing gives for it."""
    where, number, offset, length = blob
    if where == "null":
        return (None,) * 6, None
    content = CONTENTS[number]
    if where == "inline":
        return (INLINE, content, None, None, None, None), content
    offset = None if offset is None else min(offset, len(content))
    length = None if length is None else min(length, len(content) - (offset or 0))
    wanted = content[offset or 0 :] if length is None else content[offset or 0 :][:length]
    return (OUT_OF_LINE, None, f"{roots[where]}/{number}.bin", offset, length, False), wanted


@given(
    st.lists(blobs, max_size=30),
    st.sampled_from([None, 0, 3, 10_000]),
    st.sampled_from([1, 3]),
    st.sampled_from([None, 7, 1000]),
)
@settings(max_examples=150)
def test_fetching_is_slicing(
    roots: dict[str, str], given_blobs: list, gap: int | None, threads: int, share: int | None
) -> None:
    made = [row_and_bytes(roots, blob) for blob in given_blobs]
    columns = BlobColumns.of(blob_array(*(zip(*(row for row, _ in made), strict=True) if made else [[]] * 6)))
    fetcher = BlobFetcher(max_gap=gap, threads=threads)
    with pytest.MonkeyPatch.context() as patch:
        if share is not None:
            patch.setattr(fetching, "_MIN_SHARE", share)  # small files, many reads
        found = fetcher.fetch(columns)
    found.validate(full=True)
    assert found.to_pylist() == [wanted for _, wanted in made]
    assert fetcher.sizes(columns).tolist() == [len(wanted or b"") for _, wanted in made]


@given(st.lists(blobs, max_size=20), st.data())
def test_a_part_is_a_slice_of_a_slice(roots: dict[str, str], given_blobs: list, data: st.DataObject) -> None:
    made = [row_and_bytes(roots, blob) for blob in given_blobs]
    columns = BlobColumns.of(blob_array(*(zip(*(row for row, _ in made), strict=True) if made else [[]] * 6)))
    starts = np.array([data.draw(st.integers(0, len(wanted or b""))) for _, wanted in made], np.int64)
    counts = np.array(data.draw(st.lists(st.integers(0, 6000), min_size=len(made), max_size=len(made))), np.int64)
    part = Part(starts, counts)
    expected = [
        None if wanted is None else wanted[start : start + count]
        for (_, wanted), start, count in zip(made, starts.tolist(), counts.tolist(), strict=True)
    ]
    found = BlobFetcher().fetch(columns, part)
    found.validate(full=True)
    assert found.to_pylist() == expected
    assert BlobFetcher().sizes(columns, part).tolist() == [len(wanted or b"") for wanted in expected]


@given(st.lists(blobs, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.integers(1, 20_000))
def test_batches_keep_rows_and_bytes(roots: dict[str, str], given_blobs: list, cuts: list[int], budget: int) -> None:
    made = [row_and_bytes(roots, blob) for blob in given_blobs]
    table = pa.record_batch(
        {
            "id": np.arange(len(made)),
            "img": blob_array(*(zip(*(row for row, _ in made), strict=True) if made else [[]] * 6)),
        }
    )
    bounds = [0, *sorted(min(cut, len(made)) for cut in cuts), len(made)]
    given_batches = [table.slice(a, b - a) for a, b in pairwise(bounds)]
    found = list(read_batches(given_batches, {"img": "img"}, BlobFetcher(), budget))
    assert [i for batch in found for i in batch["id"].to_pylist()] == list(range(len(made)))
    assert [value for batch in found for value in batch["img"].to_pylist()] == [wanted for _, wanted in made]
    assert all(batch.num_rows == 1 or sum(len(v.as_py() or b"") for v in batch["img"]) <= budget for batch in found)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(0, 90)), max_size=40),
    st.integers(0, 50),
    st.integers(1, 120),
)
def test_a_plan_serves_every_byte_once_and_reads_no_gap_it_must_not(ranges: list, gap: int, most: int) -> None:
    file, offset, length = np.array(ranges, np.int64).reshape(-1, 3).T
    target = np.cumsum(length) - length
    reads = plan_reads(file, offset, length, target, max_gap=gap, max_read=most)
    assert (reads.length <= most).all()
    served = np.zeros(int(length.sum()), np.int64)
    for read in range(len(reads)):
        runs = slice(reads.first_run[read], reads.first_run[read + 1])
        begin, end = reads.offset[read], reads.offset[read] + reads.length[read]
        needed = np.zeros(int(end - begin), np.bool_)
        for source, to, size in zip(reads.run_source[runs], reads.run_target[runs], reads.run_size[runs], strict=True):
            assert begin <= source
            assert source + size <= end
            served[to : to + size] += 1
            needed[source - begin : source + size - begin] = True
        assert needed[0]
        assert needed[-1]
        unneeded = "".join("0" if flag else "1" for flag in needed)
        assert "1" * (gap + 1) not in unneeded
    assert (served == 1).all()
