"""References that are kept between marks: only new files are opened, and damage costs nothing but time."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from support.blob_states import DAY, NOW, OLD, BlobTable, blob, write_id

from hudi_vector.blobs.uploads.side_tables import publish_table
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.storage.side_files import seal, unseal
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.references.kept import KEPT_REFERENCES, KeptReferences
from hudi_vector.table_services.references.references import REFERENCES, folded
from hudi_vector.table_services.references.shards import ReferenceShards
from hudi_vector.table_services.retention.retained import list_retained


@pytest.fixture
def table(table: BlobTable) -> BlobTable:
    for number in range(5):
        add(table, number)
    return table


def add(table: BlobTable, number: int) -> Path:
    instant = table.instant()
    path = table.container(write_id(OLD, number))
    file = table.base(f"f{number}", instant, {1: blob(path, 0, 1), 2: blob(path, 1, 1), 3: blob(f"/x/{number}")})
    table.complete(instant, "commit")
    return file


def run(table: BlobTable) -> tuple[MarkReport, int]:
    kept = KeptReferences(str(table.path))
    report = find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW, reader=kept)
    plain = find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW)
    assert (report.candidates, report.kept, report.doubts) == (plain.candidates, plain.kept, plain.doubts)
    return report, kept.save()


def folder(table: BlobTable) -> list[Path]:
    return sorted((table.path / KEPT_REFERENCES).iterdir())


def test_the_second_run_opens_only_what_changed(table: BlobTable) -> None:
    report, added = run(table)
    assert (report.retained_files, report.opened_files, added) == (5, 5, 5)
    before = folder(table)
    report, added = run(table)
    assert (report.retained_files, report.opened_files, added) == (5, 0, 0)
    assert folder(table) == before
    add(table, 9)
    report, added = run(table)
    assert (report.retained_files, report.opened_files, added) == (6, 1, 1)


def test_a_file_that_was_written_anew_is_read_anew(table: BlobTable) -> None:
    run(table)
    file = next(table.path.glob("f1_*"))
    path = table.container(write_id(OLD, 77))
    table.base("f1", file.stem[-17:], {1: blob(path), 2: None, 3: None})
    report, _ = run(table)
    assert report.opened_files == 1
    assert [found.path.rpartition("/")[2][18:30] for found in report.candidates] == [f"{1:012x}"]


def test_two_marks_open_each_file_once(table: BlobTable) -> None:
    kept = KeptReferences(str(table.path))
    opened = [find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW, reader=kept).opened_files for _ in range(2)]
    assert opened == [5, 0]
    assert kept.save() == 5


def test_young_and_damaged_files_are_not_kept(table: BlobTable) -> None:
    young = add(table, 8)
    os.utime(young, ns=(time.time_ns(), time.time_ns()))
    table.file("g_0-1-2_20260101000000000.parquet", b"PAR1")
    report, added = run(table)
    assert (report.opened_files, added, len(report.doubts)) == (7, 5, 1)


@pytest.mark.parametrize("damaged", ["files-*", "folded-*", "0*"])
@pytest.mark.parametrize("content", [b"", b"other", None])
def test_what_is_damaged_is_read_anew(table: BlobTable, damaged: str, content: bytes | None) -> None:
    run(table)
    (file,) = (table.path / KEPT_REFERENCES).glob(damaged)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert run(table)[0].opened_files == 5
    assert run(table)[0].opened_files == 0


def test_lists_that_do_not_belong_together_are_read_anew(table: BlobTable) -> None:
    run(table)
    (file,) = (table.path / KEPT_REFERENCES).glob("0*")
    body = unseal("blob-references", 1, file.read_bytes(), "")
    storage = open_storage(table.uri, StorageOptions())
    fewer = publish_table(storage, f"{table.uri}/{KEPT_REFERENCES}", "references", REFERENCES.empty_table())
    body["shards"][0]["references"] = asdict(fewer)
    file.write_bytes(seal("blob-references", 1, body))
    assert run(table)[0].opened_files == 0, "references folded by path are whole"
    kept = KeptReferences(table.uri)
    assert find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=kept.whole).opened_files == 5
    kept.save()
    assert find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=KeptReferences(table.uri).whole).opened_files == 0


def test_what_a_newer_version_keeps_is_let_be(table: BlobTable) -> None:
    run(table)
    (file,) = (table.path / KEPT_REFERENCES).glob("0*")
    file.write_bytes(file.read_bytes().replace(b"references 1", b"references 2", 1))
    with pytest.raises(UnsupportedTableError, match="has version 2"):
        run(table)


def test_it_neither_grows_nor_forgets(table: BlobTable) -> None:
    for number in range(10, 40):
        add(table, number)
        os.remove(sorted(table.path.glob("f*.parquet"))[0])
        report, _ = run(table)
        assert (report.retained_files, report.opened_files) == (5, 1 if number > 10 else 5)
        shards = sorted({file.name.split("-")[0] for file in folder(table)})
        assert shards[-3:] == ["files", "folded", "references"]
        assert len(folder(table)) <= 2 + 6 * 16
    for file in table.path.glob("f*.parquet"):
        file.unlink()
    assert run(table)[0].retained_files == 0
    add(table, 50)
    run(table)
    assert len(folder(table)) <= 5


def test_another_reader_reads_what_is_new(table: BlobTable) -> None:
    read = []

    def reader(files, options: StorageOptions):
        read.extend(files)
        return read_here(files, options)

    run(table)
    new = add(table, 9)
    found = find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW, reader=KeptReferences(table.uri, reader=reader))
    assert [file.info.name for file in read] == [new.name]
    assert found.opened_files == 1


def test_what_is_kept_is_checked_against_the_data_files(table: BlobTable) -> None:
    run(table)
    kept = KeptReferences(table.uri, verify=True)
    report = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=kept)
    assert (report.opened_files, kept.opened, kept.differing) == (5, 5, [])
    kept.save()
    assert run(table)[0].opened_files == 0
    wrong = sorted(table.path.glob("f*.parquet"))[2]
    before = wrong.stat()
    content = wrong.read_bytes()
    wrong.write_bytes(content.replace(b"/x/2", b"/x/7"))
    os.utime(wrong, ns=(before.st_mtime_ns, before.st_mtime_ns))
    kept = KeptReferences(table.uri, verify=True)
    for opened in (5, 0):
        assert find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=kept).opened_files == opened
    assert kept.differing == [f"file://{wrong}"]
    kept.save()
    again = KeptReferences(table.uri, verify=True)
    find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=again)
    assert again.differing == []


def some(number: int, rows: int) -> tuple[FileInfo, pa.Table]:
    values = [["img"] * rows, [f"/{number}/{row % 3}" for row in range(rows)], range(rows), [5] * rows, [True] * rows]
    return FileInfo(f"file:///t/{number}", number, 1), pa.table([list(column) for column in values], schema=REFERENCES)


@pytest.mark.parametrize("large", [7, 10_000])
def test_shards_hold_what_was_added_whatever_their_size(large: int, tmp_path: Path) -> None:
    storage, uri = open_storage(f"file://{tmp_path}", StorageOptions()), f"file://{tmp_path.resolve()}/s"
    files: dict[FileInfo, pa.Table] = {}
    for run_number in range(17):
        shards = ReferenceShards(storage, uri, large)
        for number in range(run_number * 10, run_number * 10 + 3):
            info, table = some(number, number % 5)
            shards.add(info, table)
            files[info] = table
        for gone in list(files)[: 2 * (run_number % 3)]:
            del files[gone]
        shards.save(files.__contains__)
        for fresh in (shards, ReferenceShards(storage, uri, large)):
            for fold in (False, True):
                found = dict(fresh.of(files, fold=fold))
                assert found.keys() == files.keys()
                for info, table in files.items():
                    right = folded(table) if fold else table
                    assert found[info].to_pylist() == right.to_pylist()
    named = sum(1 for _ in (tmp_path / "s").glob("files-*"))
    assert named <= 2 * 16


def test_a_run_that_asked_for_a_few_files_forgets_none(table: BlobTable) -> None:
    run(table)
    new = add(table, 9)
    files = list_retained(table.uri, open_storage(table.uri, StorageOptions())).files
    kept = KeptReferences(table.uri)
    assert len(list(kept([file for file in files if file.info.name == new.name], StorageOptions()))) == 1
    kept.save(forget=False)
    assert run(table)[0].opened_files == 0


def test_nothing_is_written_where_nothing_changed(table: BlobTable) -> None:
    kept = KeptReferences(table.uri)
    shown = []
    for added in (5, 0):
        find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=kept)
        assert kept.save() == added
        shown.append(folder(table))
    assert shown[0] == shown[1]
