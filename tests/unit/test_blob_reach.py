"""Which files a reference may name: none of this machine for a table on an object store, else those that are listed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.copies.copying import digests
from hudi_vector.blobs.files import BlobFiles, Trouble
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reach import Reach
from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.handle import iter_bytes, open_blob
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import BlobReadError, InvalidBlobError, UnsupportedTableError
from hudi_vector.storage import StorageOptions, open_storage

KEY = "hoodie.blob.read.allowed"
FREE = StorageOptions()


def only(*places: object) -> StorageOptions:
    return StorageOptions.of({KEY: ", ".join(map(str, places))})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that no row should lead to."""
    file = tmp_path / "home" / "id_rsa"
    file.parent.mkdir()
    file.write_bytes(b"secret")
    return file


def refused(blob: Any, match: str, options: StorageOptions = FREE, table: str | None = None) -> None:
    """Every reader refuses a blob, and gives none of its bytes."""
    columns = BlobColumns.of(blob_rows([blob]))
    for reader in (
        lambda: BlobFetcher(options, table).fetch(columns),
        lambda: BlobFetcher(options, table).sizes(BlobColumns.of(blob_rows([(blob[0], None, None)]))),
        lambda: open_blob(blob, options=options, table=table),
        lambda: list(iter_bytes([blob], options=options, table=table)),
    ):
        with pytest.raises(BlobReadError, match=match) as problem:
            reader()
        assert "\n" not in str(problem.value)
    assert BlobFetcher(options, table, on_error="null").fetch(columns).to_pylist() == [None]


@pytest.mark.parametrize("table", ["s3://lake/t", "s3a://lake/t", "gs://lake/t", "abfss://c@a.dfs.core.windows.net/t"])
@pytest.mark.parametrize("spelled", ["{}", "file:{}", "file://{}", "FILE:///{}", "/tmp/../{}"])
def test_a_table_on_an_object_store_names_no_file_of_this_machine(secret: Path, table: str, spelled: str) -> None:
    why = rf"it names a file of this machine, and the table that refers to it is on an object store; list .* in {KEY}"
    refused((spelled.format(secret), 0, 6), why, table=table)
    refused((spelled.format(secret), 0, 6), why, StorageOptions.of({"fs.s3a.access.key": "a"}), table)


def test_files_of_this_machine_are_refused_before_anything_is_seen_of_them(secret: Path) -> None:
    """What is there and what is not are refused alike: nobody learns which files a machine has."""
    files = BlobFiles(FREE, "s3://lake/t")
    there, absent = files.look([str(secret), str(secret.with_name("none"))])
    assert there == absent
    assert isinstance(there, Trouble)


def test_references_from_object_stores_are_known_without_their_table(secret: Path) -> None:
    columns = BlobColumns.of(blob_rows([(str(secret), 0, 6)]))
    assert BlobFetcher().fetch(columns).to_pylist() == [b"secret"]
    with pytest.raises(BlobReadError, match="a file of this machine"):
        BlobFetcher(from_remote=True).fetch(columns)


def test_a_place_that_is_listed_may_be_named(secret: Path, tmp_path: Path) -> None:
    for options in (only(secret.parent), only(f"file://{secret.parent}/"), only("s3://x", secret)):
        found = BlobFetcher(options, "s3://lake/t").fetch(BlobColumns.of(blob_rows([(str(secret), 0, 6)])))
        assert found.to_pylist() == [b"secret"]
    for options in (only(tmp_path / "hom"), only(f"{secret}x"), only(tmp_path / "other"), only("s3://lake/home")):
        refused((str(secret), 0, 6), f"it is in none of the places that {KEY} lists", options, f"file://{tmp_path}/t")


def test_the_folder_of_the_table_is_always_one_of_the_places(tmp_path: Path) -> None:
    inside = tmp_path / "t" / ".hoodie" / "blobs" / "x.blob"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(b"blob")
    for path in (str(inside), ".hoodie/blobs/x.blob"):
        columns = BlobColumns.of(blob_rows([(path, 0, 4)]))
        assert BlobFetcher(only("s3://other"), str(tmp_path / "t")).fetch(columns).to_pylist() == [b"blob"]
    with pytest.raises(BlobReadError, match="in none of the places"):
        BlobFetcher(only("s3://other")).fetch(BlobColumns.of(blob_rows([(str(inside), 0, 4)])))


def test_links_and_dots_lead_to_no_other_place(secret: Path, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "sub").mkdir(parents=True)
    (allowed / "link").symlink_to(secret)
    (allowed / "folder").symlink_to(secret.parent)
    (allowed / "loop").symlink_to(allowed / "loop")
    (allowed / "sub" / "fine").write_bytes(b"fine")
    (tmp_path / "also").symlink_to(allowed)
    for path in ("link", "folder/id_rsa", "../home/id_rsa", "sub/../../home/id_rsa", "loop/x"):
        refused(
            (f"{allowed}/{path}", 0, 6), "cannot be read: it is in none of the places|cannot be read: ", only(allowed)
        )
    for path in (allowed / "sub/fine", allowed / "folder/../sub/fine", tmp_path / "also/sub/fine"):
        for place in (allowed, tmp_path / "also"):
            found = BlobFetcher(only(place)).fetch(BlobColumns.of(blob_rows([(str(path), 0, 4)])))
            assert found.to_pylist() == [b"fine"]


def test_what_was_compared_is_what_is_opened(secret: Path, tmp_path: Path) -> None:
    """A link that is turned round between the look and the read."""
    (tmp_path / "fine").mkdir()
    (tmp_path / "fine" / "a").write_bytes(b"right!")
    link = tmp_path / "fine" / "link"
    link.symlink_to(tmp_path / "fine" / "a")
    fetcher = BlobFetcher(only(tmp_path / "fine"))
    files, columns = fetcher.files(), BlobColumns.of(blob_rows([(str(link), 0, 6)]))
    fetcher.sizes(BlobColumns.of(blob_rows([(str(link), None, None)])), files=files)
    link.unlink()
    link.symlink_to(secret)
    assert fetcher.fetch(columns, files=files).to_pylist() == [b"right!"]


@pytest.mark.parametrize("scheme", ["local", "LOCAL"])
def test_no_other_scheme_leads_to_files_of_this_machine(secret: Path, tmp_path: Path, scheme: str) -> None:
    """Drivers of fsspec know no pipes: one that nobody writes to would be waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (secret, pipe):
        refused((f"{scheme}://{file}", 0, 6), "names files of this machine, which a reference spells file:///")
    with pytest.raises(BlobReadError, match="is no regular file"):
        open_blob((str(pipe), 0, 6))


@pytest.mark.parametrize("scheme", ["zip", "tar", "reference", "simplecache", "generic", "dir", "git"])
def test_drivers_that_wrap_another_one_are_no_way_round(secret: Path, scheme: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"'{scheme}://' is no storage but a view of another one"):
        open_storage(f"{scheme}://x", FREE)
    for path in (f"{scheme}://x", f"{scheme}://{secret}", f"{scheme}::file://{secret}"):
        with pytest.raises(BlobReadError):
            open_blob((path, 0, 6))


def test_base_files_of_inline_blobs_lie_in_the_places_too(tmp_path: Path) -> None:
    bases = BaseFiles(only("s3://lake"))
    with pytest.raises(BlobReadError, match="it is in none of the places"):
        bases.require([f"file://{tmp_path}/f.parquet#img"])
    (found,) = bases.read([(f"file://{tmp_path}/f.parquet#img", np.array([0]))], 1)
    assert "it is in none of the places" in str(found)


def test_compaction_copies_nothing_from_elsewhere(secret: Path) -> None:
    ranges = pa.record_batch({"file": [f"file://{secret}"], "begin": [0], "count": [6]})
    assert digests(ranges, "s3://lake/t", FREE).to_pylist() == [None]
    assert digests(ranges, "/t", FREE).to_pylist() != [None]


def test_a_write_brings_no_reference_that_no_reader_would_take(secret: Path, tmp_path: Path) -> None:
    def written(table: str, options: StorageOptions, **more: Any) -> Any:
        plan = BlobWritePlan(table, "20260101000000000_0123456789ab", (BlobColumn("img", **more),), options=options)
        return BlobWriter(plan, TaskAttempt(1, 2)).convert(pa.record_batch({"img": [str(secret)]}))

    with pytest.raises(InvalidBlobError, match="would not be read: it names a file of this machine, and the table"):
        written("s3a://lake/t", FREE)
    with pytest.raises(InvalidBlobError, match="would not be read: it is in none of the places that"):
        written(str(tmp_path / "t"), only("s3://lake"))
    for table, options in ((str(tmp_path / "t"), FREE), ("s3a://lake/t", only(secret.parent))):
        (blob,) = written(table, options).column("img").to_pylist()
        assert blob["reference"]["length"] == 6


PARTS = st.sampled_from(["a", "b", "a/..", "b/a/../..", "b/..", ".", "", "ab", "a b", "x%2e%2e"])


@given(st.lists(PARTS, max_size=6), st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=2))
def test_only_what_lies_below_a_place_is_let_through(parts: list[str], place: list[str]) -> None:
    """Against Python's own idea of what a path means; nothing of it is there, so that nothing is a link."""
    root = "/no-such-root"
    uri = file_uri(f"{root}/{'/'.join(parts)}", None)
    meant = os.path.normpath(f"{root}/{'/'.join(parts)}")
    inside = Path(meant).is_relative_to(f"{root}/{'/'.join(place)}")
    assert (Reach(only(f"{root}/{'/'.join(place)}")).refusal(uri) is None) == inside
    assert BlobArea.of(root).file(f"{root}/{'/'.join(parts)}") == uri
