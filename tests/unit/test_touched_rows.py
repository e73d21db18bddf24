"""Slices with log files under an index: what log files touch is merged, the rest answered by the index."""

from __future__ import annotations

import logging
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from support.archives import FIXTURES, unpack
from support.indexed import collide, colliding, forbid_whole_columns, rewrite_keys, segment_files

import hudi_vector as hv
from hudi_vector.errors import DataFileError
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.index.catalog import Index
from hudi_vector.index.load import load_key_hashes
from hudi_vector.query.opened.request import vector_column
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs import blocks
from hudi_vector.read.logs.blocks import AVRO_DATA, CDC_DATA, COMMAND, DELETE, LogBlock, block_headers, read_blocks
from hudi_vector.read.logs.keys import _DELETES, keys_of_block, log_keys
from hudi_vector.read.logs.touched import touched_rows
from hudi_vector.read.spec import ScanSpec
from hudi_vector.storage import StorageOptions
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

QUERIES = np.random.default_rng(2).standard_normal((5, 4))


@pytest.fixture(scope="module", params=["1.2.0_v8_mor", "1.1.1_v9_mor"])
def template(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A real table, inserted, updated, updated by older rows and deleted from; with an index of its base files."""
    folder = tmp_path_factory.mktemp(request.param)
    unpack(FIXTURES / f"{request.param}.tar.gz", folder)
    indexed(str(folder / "table"))
    return folder / "table"


@pytest.fixture
def table(template: Path, tmp_path: Path) -> str:
    """A copy of that table, which a test may change."""
    return str(shutil.copytree(template, tmp_path / "table"))


def indexed(path: str) -> Index:
    snapshot = snapshot_of(path)
    column = vector_column(snapshot, "emb", path, 4)
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, column)
    return create_index(snapshot, spec, Parameters(metric="l2", num_partitions=2))


def snapshot_of(path: str) -> Snapshot:
    return NativeTable(Source(f"file://{path}", path)).snapshot()


def ask(t: Any, query: Any, **asked: Any) -> list[dict[str, Any]]:
    return t.search(query, metric="l2", columns=["id", "_hoodie_commit_seqno"], **asked).to_pylist()


@pytest.mark.parametrize("cached", [False, True])
def test_the_answer_is_that_of_whole_slices(table: str, cached: bool) -> None:
    options = {} if cached else {"hoodie.vector.cache.max.bytes": "0"}
    with hv.open(table, column="emb", options=options) as t:
        for asked in ({"k": 3}, {"k": 100}, {"k": 5, "filter": "id > 3"}, {"k": 100, "filter": "id = 1"}):
            for query in QUERIES:
                assert ask(t, query, **asked) == ask(t, query, mode="exact", **asked)
        hits = t.search(QUERIES[0], 100, metric="l2")
        assert hits.report.slices == {"index": 2, "touched": 2}
        assert hits.report.rows_seen == t.search(QUERIES[0], 100, metric="l2", mode="exact").report.rows_seen
        assert "rows that no log file touches" in hits.plan.describe()
        merged = hits.places.column("file_path").null_count
        assert 0 < merged < len(hits)  # the others lie where the base file has them
        many = t.search_batch(QUERIES, 4, metric="l2", columns=["id"])
        singles = [t.search(query, 4, metric="l2", columns=["id"]).table for query in QUERIES]
        assert many.table.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(singles))
        few = t.search(QUERIES[0], 100, metric="l2", mode="approximate", nprobes=2, refine_factor=9)
        assert len(few) == len(hits)


def assert_exact(table: str, cached: bool = False) -> None:
    process_cache().clear()
    with hv.open(table, column="emb", options={} if cached else {"hoodie.vector.cache.max.bytes": "0"}) as t:
        for query in QUERIES:
            assert ask(t, query, k=4) == ask(t, query, k=4, mode="exact")
        assert t.search(QUERIES[0], 100, metric="l2").report.slices == {"index": 2, "touched": 2}


@pytest.mark.parametrize("collides", [False, True])
def test_hashes_of_keys_tell_what_log_files_touch(table: str, monkeypatch: pytest.MonkeyPatch, collides: bool) -> None:
    index, options = indexed(table), StorageOptions()
    if collides:
        collide(monkeypatch)
        for segment in segment_files(table):
            rewrite_keys(segment, colliding)
    for entry in snapshot_of(table).file_slices:
        assert entry.base_file is not None
        told = touched_rows(entry, options, keep=False)
        segment = index.entry_of(entry.base_file)
        assert segment is not None
        hashes = load_key_hashes(index.folder, segment, options, keep=False)
        assert hashes is not None
        found = touched_rows(entry, options, keep=False, hashes=lambda of=hashes: of)
        assert (found.rows, told.why_all) == (told.rows, "")
        assert found.rows == len(hashes.key_row)
        assert found.why_all or set(found.positions) >= set(told.positions)
        assert collides or found.positions.tolist() == told.positions.tolist()
    forbid_whole_columns(monkeypatch)
    assert_exact(table)
    assert_exact(table, cached=True)


def test_hashes_are_kept_within_the_budget(table: str) -> None:
    index, options = indexed(table), StorageOptions()
    entry = index.manifest.entries[0]
    cache = process_cache()
    before = cache.budget
    try:
        for budget, is_kept in ((1 << 20, True), (0, False)):
            cache.clear()
            cache.resize(budget)
            kept = load_key_hashes(index.folder, entry, options, keep=True)
            assert kept is not None
            assert (load_key_hashes(index.folder, entry, options, keep=True) is kept) == is_kept
            assert cache.nbytes == (12 * entry.rows if is_kept else 0)
    finally:
        cache.clear()
        cache.resize(before)


def test_segments_of_old_have_their_keys_read(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for segment in segment_files(table):
        rewrite_keys(segment, lambda _: None)
    assert indexed(table).manifest.generation == 2  # they are whole, and kept
    assert_exact(table)
    forbid_whole_columns(monkeypatch)
    with pytest.raises(AssertionError, match="all keys are read"):
        assert_exact(table)


@pytest.mark.parametrize("harm", ["gone", "cut", "hashes", "rows", "another version"])
def test_segments_that_are_damaged_have_their_keys_read(
    table: str, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    for segment in segment_files(table):
        content = bytearray(segment.read_bytes())
        keys: list[Any] = []
        rewrite_keys(segment, lambda held, keys=keys: keys.append(held) or held)
        assert segment.read_bytes() == content
        if harm == "cut":
            del content[len(content) // 2 :]
        elif harm == "another version":
            content = content.replace(b'"format_version": 1', b'"format_version": 2')
        elif harm != "gone":
            array = keys[0].key_hash if harm == "hashes" else keys[0].key_row
            at = content.index(array.tobytes())
            content[at : at + 4] = b"\xff\xff\xff\xff"
        segment.unlink() if harm == "gone" else segment.write_bytes(content)
    process_cache().clear()
    with hv.open(table, column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        for query in QUERIES:
            assert ask(t, query, k=4) == ask(t, query, k=4, mode="exact")
    assert "record keys of a base file are read" in caplog.text


def test_nothing_is_left_behind(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    own, make = tmp_path / "temp", tempfile.mkdtemp
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))  # other tests make such folders meanwhile
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **given: made.append(make(**given)) or made[-1])
    with hv.open(table, column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        t.search(QUERIES[0], 3, metric="l2", columns=["id"])
    assert {Path(folder).parent for folder in made} == {own}
    assert list(own.iterdir()) == []


def test_log_files_that_cannot_be_understood_have_their_slice_merged(
    table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = snapshot_of(table).file_slices[0]
    told = touched_rows(entry, StorageOptions(), keep=False)
    assert 0 < len(told.positions) < told.rows
    assert told.left_to_merge.count == len(told.positions)
    monkeypatch.setattr("hudi_vector.read.logs.touched._MOST_SHARE", 0.1)
    many = touched_rows(entry, StorageOptions(), keep=False)
    assert many.why_all == f"log files touch {len(told.positions)} of {told.rows} rows"
    assert many.left_to_merge.count == told.rows
    with hv.open(table, column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        for query in QUERIES:
            assert ask(t, query, k=4) == ask(t, query, k=4, mode="exact")
    monkeypatch.undo()
    log = Path(entry.log_files[-1].uri.removeprefix("file://"))
    content = bytearray(log.read_bytes())
    content[content.index(b"#HUDI#") + 14 + 7] = CDC_DATA  # the type of the block
    log.write_bytes(content)
    entry = snapshot_of(table).file_slices[0]
    with caplog.at_level(logging.INFO, "hudi_vector.search"):
        assert "which is not read" in touched_rows(entry, StorageOptions(), keep=False).why_all
    assert f"file group '{entry.file_id}' is merged whole" in caplog.text
    log.unlink()
    with pytest.raises(DataFileError, match="it is gone"):
        touched_rows(entry, StorageOptions(), keep=False)


def block(kind: int, content: bytes) -> LogBlock:
    return LogBlock(0, kind, {2: b'{"type": "record", "name": "r", "fields": []}'}, memoryview(content))


def test_deleted_keys_with_ordering_values_of_every_type() -> None:
    values = [None, ("BooleanWrapper", True), ("LongWrapper", 1 << 40), ("DoubleWrapper", 0.5), ("StringWrapper", "x"),
              ("DecimalWrapper", b"\x01\x02"), ("TimestampMicrosWrapper", -5), ("DateWrapper", 9)]  # fmt: skip
    rows: list[Any] = [
        {"recordKey": f"key {n}", "partitionPath": "p", "orderingVal": v if v is None else (v[0], {"value": v[1]})}
        for n, v in enumerate(values)
    ]
    listed = (
        "ArrayWrapper",
        {"wrappedValues": [("IntWrapper", {"value": 3}), ("LocalDateWrapper", {"value": 4}), None]},
    )
    rows.append({"recordKey": "last", "partitionPath": None, "orderingVal": listed})
    import io

    held = io.BytesIO()
    fastavro.schemaless_writer(held, _DELETES, rows)
    content = struct.pack(">ii", 3, len(held.getvalue())) + held.getvalue()
    assert keys_of_block(block(DELETE, content)) == [*(f"key {n}" for n in range(len(values))), "last"]
    for wrong in (struct.pack(">ii", 2, len(content) - 8) + content[8:], content[:-1], content[:9]):
        with pytest.raises(DataFileError):
            keys_of_block(block(DELETE, wrong))


@pytest.mark.parametrize("most", [12, 1 << 16])
def test_headers_are_those_of_the_blocks(template: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(blocks, "_HEADER_BYTES", most)
    for log in (log for entry in snapshot_of(str(template)).file_slices for log in entry.log_files):
        content = Path(log.uri.removeprefix("file://")).read_bytes()
        whole = [(one.kind, one.header) for one in read_blocks(pa.BufferReader(content))]
        assert whole
        assert list(block_headers(pa.BufferReader(content))) == whole
        assert list(block_headers(pa.BufferReader(content[:-1]))) == whole[:-1]
        with pytest.raises(DataFileError, match="no block begins at byte"):
            list(block_headers(pa.BufferReader(content + b"#HUD!?")))
        assert list(block_headers(pa.BufferReader(content + b"#HUD!"))) == whole  # too few bytes to tell: cut off


def test_blocks_without_keys() -> None:
    assert log_keys(pa.BufferReader(b"")).to_pylist() == []
    with pytest.raises(DataFileError, match="have no record key"):
        keys_of_block(block(AVRO_DATA, struct.pack(">ii", 3, 0)))
    with pytest.raises(DataFileError, match="of type CDC_DATA, which is not read"):
        keys_of_block(block(CDC_DATA, b""))
    with pytest.raises(DataFileError, match="of type COMMAND"):
        keys_of_block(block(COMMAND, b""))
    nested = replace(
        block(AVRO_DATA, b""),
        header={
            2: b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}},'
            b' {"name": "_hoodie_record_key", "type": "string"}]}'
        },
    )
    with pytest.raises(DataFileError, match="key after nested values"):
        keys_of_block(nested)
