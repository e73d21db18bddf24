"""Lance datasets, Delta tables and temporary files on an S3-compatible server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import deltalake
import lance
import numpy as np
import pyarrow as pa
import pytest
from support.servers import lake

import hudi_vector as hv
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.query.files.temporary import TempTable
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage import StorageOptions, lance_options
from hudi_vector.storage import temp_area as areas
from hudi_vector.storage.temp_area import TempArea, lease_is_there

FIELDS = (pa.field("id", pa.int64()), pa.field("v", pa.list_(pa.float32())))


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[StorageOptions, Any]]:
    with lake() as found:
        yield found


def keys(client: Any, prefix: str) -> list[str]:
    """Of objects; pyarrow makes empty ones that stand for folders."""
    return [key for key in all_keys(client, prefix) if not key.endswith("/")]


def all_keys(client: Any, prefix: str) -> list[str]:
    found = client.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", [])
    return [entry["Key"] for entry in found]


def written(area: TempArea, options: StorageOptions, rows: int) -> tuple[TempTable, list[str]]:
    table = TempTable(area.new_place(), FIELDS, VectorColumn("v", 2, "float", is_vector=False), 1 << 30, options)
    vectors = np.arange(2 * rows, dtype="f4").reshape(rows, 2)
    batch = pa.record_batch(
        [pa.array(range(rows)), pa.array(vectors.tolist(), FIELDS[1].type)], schema=pa.schema(FIELDS)
    )
    snapshot = table.snapshot([table.write([part]) for part in (batch.slice(0, rows // 2), batch.slice(rows // 2))])
    return table, [each.base_file.uri for each in snapshot.file_slices if each.base_file]


def test_a_delta_table_beside_it(store: tuple[StorageOptions, Any]) -> None:
    options, _ = store
    rows = pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"], "v": [[0.0, 1.0], [1.0, 0.0], [3.0, 3.0]]})
    unsafe = {"aws_s3_allow_unsafe_rename": "true"}  # moto has no conditional writes
    own = {**(lance_options("s3", options) or {}), **unsafe}
    deltalake.write_deltalake("s3://lake/delta", rows, partition_by=["kind"], storage_options=own)
    with hv.open(delta="s3a://lake/delta", column="v", storage_options=dict(options.values)) as t:
        hits = t.search([1.0, 1.0], 3, metric="l2", columns=["id", "kind"], filter="kind = 'a'")
        assert hits.select(["id", "kind"]).to_pylist() == [{"id": 1, "kind": "a"}, {"id": 3, "kind": "a"}]


def test_a_lance_dataset_is_searched(store: tuple[StorageOptions, Any]) -> None:
    options, _ = store
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(20, dtype="f4")), 2)
    rows = pa.table({"id": pa.array(range(10)), "v": vectors})
    lance.write_dataset(rows, "s3://lake/d.lance", max_rows_per_file=5, storage_options=lance_options("s3", options))
    with hv.open(lance="s3a://lake/d.lance", column="v", storage_options=dict(options.values)) as t:
        found = t.search([0.0, 0.0], 3, metric="l2", columns=["id"])
        assert found.column("id").to_pylist() == [0, 1, 2]
        assert t.fetch_rows(t.search([18.0, 19.0], 1, metric="l2").refs, ["id"]).column("id").to_pylist() == [9]


def test_a_temporary_dataset_is_searched_and_removed(store: tuple[StorageOptions, Any]) -> None:
    options, client = store
    area = TempArea("s3a://lake/tmp", options, "app")
    table, files = written(area, options, 10)
    assert not [key for key in all_keys(client, "tmp/") if key.endswith("/")], (
        "a writer may have no right to make these"
    )
    with hv.open(files=files, column="c1", storage_options=dict(options.values)) as t:
        found = t.search([0.0, 0.0], 3, metric="l2", columns=["c0"])
        assert found.column("c0").to_pylist() == [0, 1, 2]
        assert t.fetch_rows(t.search([18.0, 19.0], 1, metric="l2").refs, ["c0"]).column("c0").to_pylist() == [9]
    area.renew()
    assert len([key for key in keys(client, "tmp/") if "/lease/" in key]) == 1
    assert area.remove(table.place) is True
    assert not [key for key in keys(client, "tmp/") if ".parquet" in key]
    area.close()
    assert keys(client, "tmp/") == []


def test_leftovers_are_swept(store: tuple[StorageOptions, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    options, client = store
    dead, mine = TempArea("s3://lake/swept", options, "dead"), TempArea("s3://lake/swept", options, "mine")
    table, _ = written(dead, options, 4)
    client.put_object(Bucket="lake", Key="swept/hudi-vector-temp/foreign/data.parquet", Body=b"x")
    assert lease_is_there(dead.folder, options)
    with pytest.raises(UnsupportedTableError, match="a task does not see"):
        replace(table, place=table.place.replace("dead-", "gone-")).write([])
    assert mine.sweep() == []
    monkeypatch.setattr(areas, "LEFT_OVER_MS", -1)
    assert mine.sweep() == [dead.folder]
    assert keys(client, "swept/hudi-vector-temp/dead") == []
    assert keys(client, "swept/hudi-vector-temp/foreign") == ["swept/hudi-vector-temp/foreign/data.parquet"]
    mine.close()
