"""Tables whose ``hoodie.properties`` Hudi changes, or that are made again, while they are open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.properties_file import write_properties
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.errors import TableNotFoundError
from hudi_vector.query.opened.vector_table import VectorTable
from hudi_vector.table.config import read_properties

VECTOR = (1.0, 0.0, 0.0, 0.0)
OF_VERSION_6 = {
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.timeline.timezone": "UTC",
}


def written(table: WrittenTable, number: int, group: str = "", folder: str = "") -> tuple[str, str]:
    instant = table.next_instant()
    table.write_base(folder, f"f{number}-0", instant, [Row(number, group, 1.0, "n", VECTOR)])
    return instant, table.complete(instant)


def found(opened: VectorTable, **asked: str) -> list[int]:
    return sorted(row["id"] for row in opened.search(VECTOR, 10, columns=["id"], **asked).to_pylist())


@pytest.mark.parametrize("torn", [None, b"", b"#Updated at 2026\nhoodie.table.na"])
def test_a_table_is_there_while_hudi_changes_its_properties(tmp_path: Path, torn: bytes | None) -> None:
    """Hudi removes the file before it writes the new one, and may be killed in between."""
    table = WrittenTable(tmp_path / "t", partitioned=False)
    written(table, 1)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    copy = properties.rename(properties.with_name("hoodie.properties.backup"))
    if torn is not None:
        properties.write_bytes(torn)
    with hv.open(table.path, column="emb") as opened:
        assert found(opened) == [1]
    copy.unlink()
    properties.unlink(missing_ok=True)
    with pytest.raises(TableNotFoundError, match="there is no Hudi table"):
        hv.open(table.path, column="emb")


def test_the_properties_may_be_back_when_their_copy_is_gone() -> None:
    files = {"/t/.hoodie/hoodie.properties": [None, b"hoodie.table.version=9"]}
    assert read_properties(lambda uri: files.get(uri, [None]).pop(0), "/t/") == b"hoodie.table.version=9"


def test_a_table_that_is_upgraded_stays_open(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path / "t", partitioned=False, properties=OF_VERSION_6)
    schema = {"hoodie.table.create.schema": table.avro_schema(), "hoodie.table.name": "t"}
    plain = {"hoodie.table.keygenerator.type": "NON_PARTITION", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    write_properties(table.path, {**OF_VERSION_6, **schema, **plain})
    first, done = written(table, 1)
    old, new = table.path / ".hoodie" / f"{first}.commit", table.timeline / f"{first}_{done}.commit"
    new.rename(old)
    with hv.open(table.path, column="emb", refresh_every=0) as opened:
        assert found(opened) == [1]
        old.rename(new)
        assert found(opened) == []  # an upgrade moves the timeline before it writes the properties
        upgraded = WrittenTable(table.path, partitioned=False, clock=table.clock, properties=schema)
        assert found(opened) == [1]
        written(upgraded, 2)
        assert found(opened) == [1, 2]


def test_a_table_that_is_made_again_is_pruned_by_its_own_partitions(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path / "t")
    written(table, 1, group="x", folder="x")
    with hv.open(table.path, column="emb", refresh_every=0) as opened:
        assert found(opened, filter="grp = 'x'") == [1]
        shutil.rmtree(table.path)
        other = WrittenTable(table.path, properties={"hoodie.table.partition.fields": "name"}, clock=table.clock)
        written(other, 2, group="x", folder="n")
        for condition, ids in {"name = 'n'": [2], "grp = 'n'": [], "grp = 'x'": [2]}.items():
            assert found(opened, filter=condition) == ids
        shutil.rmtree(table.path)
        with pytest.raises(TableNotFoundError, match="there is no Hudi table"):
            found(opened)
