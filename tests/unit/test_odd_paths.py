"""One odd path is a doubt like any other: it is named, and everything is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.blob_states import ARROW, DAY, META, NOW, OLD, BlobTable, blob, parquet, write_id

from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.registry import REGISTERED, enter
from hudi_vector.errors import DataFileError, HudiVectorError, InvalidBlobError
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.container_index import container_index
from hudi_vector.table_services.marking.files import publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.kept import KeptReferences

ODD = b"caf\xe9"


def marked(table: BlobTable, *roots: str) -> MarkReport:
    """What a mark finds, which can be published and read back."""
    report = find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW, managed_roots=roots)
    assert read_mark(str(table.path), publish_mark(report)) == report
    return report


def one_doubt(table: BlobTable, *roots: str) -> str:
    report = marked(table, *roots)
    assert report.candidates == ()
    (doubt,) = report.doubts
    return doubt


def committed(table: BlobTable, path: str) -> Path:
    instant = table.instant()
    file = table.base("f1", instant, {1: blob(path)})
    table.complete(instant, "commit")
    return file


@pytest.fixture
def dead(table: BlobTable) -> str:
    """A container that would go."""
    path = table.container(write_id(OLD, 1))
    assert [file.path for file in marked(table).candidates] == [path]
    return path


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("path", ["a\0b", "/a/\0", "s3://b/\0", "\0"])
def test_a_nul_in_a_reference(path: str, table: BlobTable) -> None:
    file = committed(table, path)
    assert one_doubt(table).startswith(f"'file://{file}' holds a reference that names no file: ")
    assert not look(table.uri, ["1"], list).is_well
    with pytest.raises(InvalidBlobError, match="NUL"):
        file_uri(path, "/t")


@pytest.mark.usefixtures("dead")
def test_a_reference_that_is_no_text(table: BlobTable) -> None:
    """Writers may put any bytes into a column of text."""
    instant = table.instant()
    file = table.base("f1", instant, {1: blob("caf??")})
    table.complete(instant, "commit")
    row = {**dict.fromkeys(META, "x"), "id": 1, "ts": 1, "img": blob("cafee")}
    file.write_bytes(parquet([row], ARROW).replace(b"cafee", b"caf\xe9e"))
    table.touch(file)
    assert f"'file://{file}'" in one_doubt(table)


places = st.sampled_from(["", "/", "file:", "file:///", "s3://", "abfss://", "hdfs://", "x://", "gs://b/", "..", "//"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(begin=places, text=st.text(st.characters(codec="utf-8"), max_size=12), managed=st.booleans())
def test_no_reference_stops_a_mark(tmp_path_factory, begin: str, text: str, managed: bool) -> None:  # type: ignore[no-untyped-def]
    table = BlobTable(tmp_path_factory.mktemp("odd").resolve() / "t", OLD)
    live = table.container(write_id(OLD, 1))
    instant = table.instant()
    table.base("f1", instant, {1: blob(begin + text, managed=managed), 2: blob(f"{table.uri}/{live}")})
    table.complete(instant, "commit")
    assert marked(table).candidates == ()


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize(
    "place",
    [
        b".hoodie/blobs/%s.png",
        b".hoodie/blobs/%s/x.png",
        b"%s.parquet",
        b"p/%s_0-1-2_20260101000000000.parquet",
        b"%s/f1_0-1-2_20260101000000000.parquet",
    ],
)
def test_a_name_that_is_not_utf8(place: bytes, table: BlobTable) -> None:
    file = os.path.join(os.fsencode(table.path), place % ODD)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "wb") as made:
        made.write(b"x")
    doubt = one_doubt(table)
    assert "caf\\udce9" in doubt
    assert "UTF-8" in doubt
    if b".hoodie" in place:
        index = container_index(table.uri, KeptReferences(table.uri), StorageOptions())
        assert index.containers.num_rows == 1
        assert index.doubts == (doubt,)
    erased = look(table.uri, ["1"], list)
    assert doubt in erased.doubts


@pytest.mark.usefixtures("dead")
def test_a_name_that_is_not_utf8_below_a_root_or_on_the_timeline(table: BlobTable, tmp_path: Path) -> None:
    root = tmp_path.resolve() / "media"
    root.mkdir()
    odd = os.path.join(os.fsencode(root), ODD)
    with open(odd, "wb") as made:
        made.write(b"x")
    assert "caf\\udce9" in one_doubt(table, str(root))
    os.unlink(odd)
    for folder in (table.timeline, table.path / ".hoodie/blob_service/v1/trash/20260101000000000_0123456789ab"):
        folder.mkdir(parents=True, exist_ok=True)
        with open(os.path.join(os.fsencode(folder), ODD), "wb") as made:
            made.write(b"x")
        assert len(marked(table).candidates) == 1


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".hoodie/blobs/loop", "loop"),
        (".hoodie/blobs/loop", "."),
        (".hoodie/blobs/img/loop", ".."),
        (".hoodie/blobs/img/loop", "../../.."),
        (".hoodie/blob_service/v1/trash/loop", "loop"),
        ("part/loop", "."),
        ("part/loop", "../part"),
    ],
)
def test_a_loop_of_links(link: str, target: str, table: BlobTable) -> None:
    (table.path / link).parent.mkdir(parents=True, exist_ok=True)
    (table.path / link).symlink_to(target)
    (table.path / link).parent.joinpath("again").symlink_to(target)
    doubt = one_doubt(table)
    assert "links" in doubt
    assert str((table.path / link).parent) in doubt
    assert any(doubt.partition(": ")[2] in each for each in look(table.uri, ["1"], list).doubts)


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize(
    "content", [b"hoodie.table.name=caf\xe9\n", b"hoodie.table.version=9\xff\n", b"hoodie.table.version=nine"]
)
def test_a_bad_byte_in_the_properties(content: bytes, table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path.resolve() / "other", OLD)
    enter(table.uri, other.uri, REGISTERED)
    file = other.path / ".hoodie/hoodie.properties"
    file.write_bytes(content)
    assert f"{file}' is damaged" in one_doubt(table)
    with pytest.raises(DataFileError, match=r"hoodie\.properties' is damaged") as refused:
        find_unneeded(str(other.path), grace_ms=DAY, now_ms=NOW)
    assert isinstance(refused.value, HudiVectorError)
