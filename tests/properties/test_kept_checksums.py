"""What was kept of blobs is found again as a join of tables finds it."""

from __future__ import annotations

import tempfile
from zlib import crc32

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.uploads.kept_checksums import KeptChecksums
from hudi_vector.blobs.uploads.manifest import open_upload, read_checksums, stage
from hudi_vector.storage import StorageOptions, normalise

RANGE = ["uri", "offset", "length"]
WRITES = st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 7, 30]), min_size=1, max_size=12), min_size=1, max_size=3)
# Of the blobs that were written, by number: where a question differs from the blob's own range.
QUESTIONS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 0, -1, 1, 500]), st.sampled_from([0, 0, 0, -1, 1])),
    max_size=30,
)


def written(table: str, lengths: list[int], number: int) -> pa.Table:
    """The checksums of a write of blobs of these lengths, a few to a container."""
    chosen = BlobSettings(
        inline_threshold=0, checksum=("crc32", "sha256")[number % 2], max_element_size=32, max_file_size=32
    )
    upload = open_upload(table, {"img": chosen}, lease_ms=60_000)
    with BlobWriter(BlobWritePlan(table, upload.write_id, (BlobColumn("img", chosen),)), TaskAttempt(0, 0)) as writer:
        blobs = pa.array([bytes([place]) * length for place, length in enumerate(lengths)], pa.binary())
        writer.convert(pa.record_batch({"img": blobs}))
        kept = read_checksums(stage(table, upload.write_id, writer.close()))
    uris = [f"{table}/{path}" for path in kept["path"].to_pylist()]
    return kept.add_column(0, "uri", pa.array(uris, pa.string()))


@settings(max_examples=60)
@given(writes=WRITES, questions=QUESTIONS)
def test_the_join_and_the_search_agree(writes: list[list[int]], questions: list[tuple[int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = normalise(folder)
        kept = pa.concat_tables([written(table, lengths, number) for number, lengths in enumerate(writes)])
        rows = kept.to_pylist()
        chosen = [(rows[number % len(rows)], by, more) for number, by, more in questions]
        asked = [(row["uri"], row["offset"] + by, row["length"] + more) for row, by, more in chosen]
        asked += [(f"{table}/elsewhere", 0, 1), (None, 0, 1)]
        uris, offset, length = (list(column) for column in zip(*asked, strict=True))
        table_of = pa.table(
            {"row": range(len(asked)), "uri": pa.array(uris, pa.string()), "offset": offset, "length": length}
        )
        joined = table_of.join(kept, RANGE, join_type="inner").select(["row", "method", "checksum"])
        # Empty blobs side by side are one range with one checksum.
        expected = sorted({tuple(row.values()) for row in joined.to_pylist()})
        found = KeptChecksums(StorageOptions()).of(pa.array(uris, pa.string()), np.array(offset), np.array(length))
    got = zip(found.rows.tolist(), found.methods.to_pylist(), found.checksums.to_pylist(), strict=True)
    assert list(got) == expected


def test_only_what_changed_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = normalise(folder)
        kept = written(table, [3, 0, 5], 0).take([2, 0, 1, 0])
        uris, offset, length = (kept[name].combine_chunks() for name in RANGE)
        found = KeptChecksums(StorageOptions()).of(uris, offset.to_numpy(), length.to_numpy())
    assert [len(found), crc32(b"\x00" * 3).to_bytes(4, "big")] == [4, found.checksums[1].as_py()]
    values = [b"\x02" * 5, b"\x00" * 3, b"", None]
    assert found.changed(pa.array(values)).tolist() == []
    assert found.changed(pa.array([b"\x02" * 5, b"\x00" * 4, b"x", None])).tolist() == [1, 2]
    assert found.changed(pa.array([b"", b"\x00" * 2]), 2).tolist() == [1]
