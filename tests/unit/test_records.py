"""Records: what one dataclass in a side file is on storage, and what is taken of it back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from hudi_vector.blobs.names import WRITE_ID
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import DataFileError, InvalidOptionError, UnsupportedTableError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import publish, unseal
from hudi_vector.storage.stored_values import PathBelow, at_least, has_form, one_of, value_of

STORAGE = open_storage("file:///", StorageOptions())
WRITE = "20260101000000000_0123456789ab"


@dataclass(frozen=True)
class Part:
    path: PathBelow
    count: Annotated[int, at_least(0)] = 0


@dataclass(frozen=True)
class Whole:
    table: str
    state: Annotated[str, one_of("open", "ended")]
    write_id: Annotated[str, has_form("write", WRITE_ID)]
    parts: tuple[Part, ...] = ()
    columns: tuple[tuple[str, BlobSettings], ...] = ()
    generation: int = -1
    name: str = ""


RECORD = Record("example", 1, Whole, elsewhere=("table", "generation", "name"))
WHOLE = Whole("t", "open", WRITE, (Part("a/b", 2),), (("img", BlobSettings(format="lance")),))
BODY: dict[str, Any] = {
    "state": "open",
    "write_id": WRITE,
    "parts": [{"path": "a/b", "count": 2}],
    "columns": [["img", BlobSettings(format="lance").to_options()]],
}


def test_what_was_published_is_read(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}"
    assert RECORD.newest(STORAGE, folder) is None
    RECORD.publish(STORAGE, folder, Whole("t", "ended", WRITE), 3)
    name = RECORD.publish(STORAGE, folder, WHOLE, 7)
    assert unseal("example", 1, (tmp_path / name).read_bytes(), "") == BODY
    found = RECORD.newest(STORAGE, folder)
    assert found is not None
    assert (found.name, found.generation, found.uri) == (name, 7, f"{folder}/{name}")
    read = found.value(table="t")
    assert read == Whole("t", "open", WRITE, WHOLE.parts, WHOLE.columns, 7, name)
    one = RECORD.read(STORAGE, found.uri)
    assert one is not None
    assert one.value(table="t") == read


def test_further_entries_are_for_the_reader(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}"
    RECORD.publish(STORAGE, folder, WHOLE, 0, folder=[1])
    found = RECORD.newest(STORAGE, folder)
    assert found is not None
    with pytest.raises(DataFileError, match="its Whole holds 'folder', which is not known"):
        found.value(table="t")
    assert found.body.pop("folder") == [1]
    assert found.value(table="t").parts == WHOLE.parts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": "other"}, "its state is 'other', not one of open, ended"),
        ({"state": 7}, "its state is 7, not text"),
        ({"write_id": "../../x"}, "its write_id is '../../x', not the name of a write"),
        ({"write_id": f"{WRITE}\n"}, "not the name of a write"),
        ({"parts": [{"path": "../x"}]}, "its path is '../x', not a path below the table's folder"),
        ({"parts": [{"path": "x", "count": -1}]}, "its count is -1, not 0 or more"),
        ({"columns": [["img", {"a": 1}]]}, "its columns is 1, not text"),
        ({"generation": 5}, "holds 'generation', which is not known"),
        ({"table": "file:///etc"}, "holds 'table', which is not known"),
    ],
)
def test_what_a_field_must_not_be_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = f"file://{tmp_path}"
    name = publish(STORAGE, folder, "example", 1, 0, BODY | change)
    found = RECORD.newest(STORAGE, folder)
    assert found is not None
    with pytest.raises(DataFileError) as refused:
        found.value(table="t")
    assert str(refused.value).startswith(f"'{folder}/{name}' is damaged, or somebody changed it: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "number", [10**400, -(10**400), 1e301, float("inf"), float("nan")], ids=lambda each: str(each)[:9]
)
def test_a_number_beyond_a_float_is_refused(number: float) -> None:
    assert value_of(float, 3, "file:///t/x", "recall") == 3.0
    with pytest.raises(DataFileError, match=r"somebody changed it: its recall is .+, not a finite number"):
        value_of(float, number, "file:///t/x", "recall")


def test_settings_that_no_write_has_are_refused(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}"
    publish(STORAGE, folder, "example", 1, 0, BODY | {"columns": [["i", {"hoodie.storage.blob.checksum": "x"}]]})
    found = RECORD.newest(STORAGE, folder)
    assert found is not None
    with pytest.raises(InvalidOptionError):
        found.value(table="t")


def test_another_kind_is_passed_over_and_another_version_refused(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}"
    RECORD.publish(STORAGE, folder, WHOLE, 1)
    other = publish(STORAGE, folder, "other", 1, 2, {})
    found = RECORD.newest(STORAGE, folder)
    assert found is not None
    assert found.generation == 1
    assert RECORD.read(STORAGE, f"{folder}/{other}") is None
    publish(STORAGE, folder, "example", 2, 3, {})
    with pytest.raises(UnsupportedTableError, match="has version 2 and this hudi-vector knows version 1"):
        RECORD.newest(STORAGE, folder)
