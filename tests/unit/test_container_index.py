"""The index of containers: live bytes against a count byte by byte, kept until the table changes, never wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.blob_states import BlobTable, blob, write_id

from hudi_vector.blobs.uploads.side_tables import publish_table
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.side_files import newest, publish
from hudi_vector.table_services.marking.container_index import (
    CONTAINERS,
    ContainerIndex,
    container_index,
    covered,
    verify_containers,
)
from hudi_vector.table_services.references.kept import KEPT_REFERENCES, KeptReferences

OLD = 1_787_000_000_000
LOCAL = StorageOptions()


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "t", OLD)


def refer(table: BlobTable, file_id: str, *blobs: object) -> Path:
    instant = table.instant()
    file = table.base(file_id, instant, dict(enumerate(blobs)))
    table.complete(instant, "commit")
    return file


def index(table: BlobTable) -> tuple[ContainerIndex, int]:
    kept = KeptReferences(table.uri)
    found = container_index(table.uri, kept, LOCAL)
    kept.save()
    return found, kept.opened


def counts(found: ContainerIndex) -> list[tuple[int, int, int]]:
    return [(row["live_bytes"], row["references"], row["files"]) for row in found.containers.to_pylist()]


def side_files(table: BlobTable) -> list[str]:
    return sorted(file.name for file in (table.path / KEPT_REFERENCES / "index").iterdir())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 12)), max_size=25))
def test_bytes_are_counted_once(ranges: list[tuple[int, int, int]]) -> None:
    sizes = np.array([12, 7, 0, 30])
    clipped = [(c, min(b, int(sizes[c])), min(max(b, e), int(sizes[c]))) for c, b, e in ranges]
    columns = np.array(clipped, np.int64).reshape(-1, 3).T
    live = [{byte for c, b, e in clipped if c == each for byte in range(b, e)} for each in range(4)]
    assert covered(*columns, sizes).tolist() == [len(each) for each in live]


def test_what_a_reference_covers(table: BlobTable) -> None:
    ours = [f"{table.uri}/{table.container(write_id(OLD, number))}" for number in range(6)]
    refer(table, "f1", blob(ours[1], 0, 10), blob(ours[1], 5, 10), blob(ours[2], None, None), blob(ours[3], 90, 50))
    refer(table, "f2", blob(ours[1], 0, 10), blob(ours[4].removeprefix("file://"), -1, 7), blob("/elsewhere"))
    found, _ = index(table)
    assert counts(found) == [(0, 0, 0), (15, 2, 2), (100, 1, 1), (10, 1, 1), (100, 1, 1), (0, 0, 0)]
    assert found.containers["uri"].to_pylist() == ours
    assert found.containers["newest"].to_pylist()[1].endswith(found.containers["instant"].to_pylist()[1] + ".parquet")


def test_it_holds_until_the_table_changes(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    file = refer(table, "f1", blob(path, 0, 5))
    assert (counts(index(table)[0]), index(table)[1]) == ([(5, 1, 1)], 0)
    before = side_files(table)
    index(table)
    assert side_files(table) == before
    refer(table, "f2", blob(path, 0, 9))
    found, opened = index(table)
    assert (counts(found), opened) == ([(9, 2, 2)], 1)
    file.unlink()
    assert counts(index(table)[0]) == [(9, 1, 1)]
    again = next(table.path.glob("f2_*"))
    table.base("f2", again.stem[-17:], {0: blob(path, 0, 8)})
    found, opened = index(table)
    assert (counts(found), opened) == ([(8, 1, 1)], 1), "written anew in its place"
    table.container(write_id(OLD, 2))
    assert counts(index(table)[0]) == [(8, 1, 1), (0, 0, 0)]
    assert len(side_files(table)) == 4, "the newest and the one before it"


def test_an_empty_table_has_an_empty_index(table: BlobTable) -> None:
    assert index(table)[0].containers.equals(CONTAINERS.empty_table())


def test_a_doubt_is_told_and_nothing_is_kept(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    refer(table, "f1", blob(path, 0, 5))
    table.file("g_0-1-2_20260101000000000.parquet", b"PAR1")
    found, _ = index(table)
    assert (counts(found), len(found.doubts)) == ([(5, 1, 1)], 1)
    assert not (table.path / KEPT_REFERENCES / "index").exists()


def test_a_wrong_index_is_found_and_replaced(table: BlobTable) -> None:
    path = table.container(write_id(OLD, 1))
    refer(table, "f1", blob(path, 0, 5))
    made, _ = index(table)
    storage, folder = open_storage(table.uri, LOCAL), f"{table.uri}/{KEPT_REFERENCES}/index"
    wrong = made.containers.set_column(2, "live_bytes", pa.array([6]))
    entry = publish_table(storage, folder, "containers", wrong)
    body = {"fingerprint": made.fingerprint, "containers": {"name": entry.name, "bytes": 0, "sha256": entry.sha256}}
    publish(storage, folder, "blob-index", 1, 7, body)
    assert counts(index(table)[0]) == [(6, 1, 1)]
    assert verify_containers(table.uri, KeptReferences(table.uri, verify=True), LOCAL) == [f"{table.uri}/{path}"]
    assert counts(index(table)[0]) == [(5, 1, 1)]
    (
        table.path / KEPT_REFERENCES / "index" / newest(storage, folder, "blob-index", 1)[1]["containers"]["name"]
    ).unlink()
    assert counts(index(table)[0]) == [(5, 1, 1)]
    assert verify_containers(table.uri, KeptReferences(table.uri), LOCAL) == []
