"""Slices with log files under an index: what log files touch is merged, the rest answered by the index."""

from __future__ import annotations

import logging
import struct
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

import hudi_vector as hv
from hudi_vector.errors import DataFileError
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.read.log_blocks import AVRO_DATA, CDC_DATA, COMMAND, DELETE, LogBlock
from hudi_vector.read.log_keys import _DELETES, _keys_of, log_keys
from hudi_vector.read.spec import ScanSpec
from hudi_vector.read.touched import touched_rows
from hudi_vector.search.asked import vector_column
from hudi_vector.storage import StorageOptions
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
QUERIES = np.random.default_rng(2).standard_normal((5, 4))


@pytest.fixture(params=["1.2.0_v8_mor", "1.1.1_v9_mor"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A real table, inserted, updated, updated by older rows and deleted from; with an index of its base files."""
    with tarfile.open(FIXTURES / f"{request.param}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    path = str(tmp_path / "table")
    snapshot = snapshot_of(path)
    column = vector_column(snapshot, "emb", path, 4)
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, column)
    create_index(snapshot, spec, Parameters(metric="l2", num_partitions=2))
    return path


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
        assert hits.report.rows == t.search(QUERIES[0], 100, metric="l2", mode="exact").report.rows
        assert "rows that no log file touches" in hits.plan.describe()
        merged = hits.column("file_path").null_count
        assert 0 < merged < len(hits)  # the others lie where the base file has them
        many = t.search_batch(QUERIES, 4, metric="l2", columns=["id"])
        singles = [t.search(query, 4, metric="l2", columns=["id"]).table for query in QUERIES]
        assert many.table.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(singles))
        few = t.search(QUERIES[0], 100, metric="l2", mode="approximate", nprobes=2, refine_factor=9)
        assert len(few) == len(hits)


def test_nothing_is_left_behind(table: str) -> None:
    before = set(Path(tempfile.gettempdir()).glob("hudi-vector-*"))
    with hv.open(table, column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        t.search(QUERIES[0], 3, metric="l2", columns=["id"])
    assert set(Path(tempfile.gettempdir()).glob("hudi-vector-*")) <= before


def test_log_files_that_cannot_be_understood_have_their_slice_merged(
    table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = snapshot_of(table).file_slices[0]
    told = touched_rows(entry, StorageOptions(), keep=False)
    assert 0 < len(told.positions) < told.rows
    assert told.left_to_merge.count == len(told.positions)
    monkeypatch.setattr("hudi_vector.read.touched._MOST_SHARE", 0.1)
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
    assert _keys_of(block(DELETE, content)) == [*(f"key {n}" for n in range(len(values))), "last"]
    for wrong in (struct.pack(">ii", 2, len(content) - 8) + content[8:], content[:-1], content[:9]):
        with pytest.raises(DataFileError):
            _keys_of(block(DELETE, wrong))


def test_blocks_without_keys() -> None:
    assert log_keys(pa.BufferReader(b"")).to_pylist() == []
    with pytest.raises(DataFileError, match="have no record key"):
        _keys_of(block(AVRO_DATA, struct.pack(">ii", 3, 0)))
    with pytest.raises(DataFileError, match="of type CDC_DATA, which is not read"):
        _keys_of(block(CDC_DATA, b""))
    with pytest.raises(DataFileError, match="of type COMMAND"):
        _keys_of(block(COMMAND, b""))
    nested = replace(
        block(AVRO_DATA, b""),
        header={
            2: b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}},'
            b' {"name": "_hoodie_record_key", "type": "string"}]}'
        },
    )
    with pytest.raises(DataFileError, match="key after nested values"):
        _keys_of(nested)
