"""Counts of stored blobs by file, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.stored import CONTRADICTIONS, inline, ref, stored

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.tally import TALLY, add_up, count_blobs, summarise, whole_files
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.names import ContainerName
from hudi_vector.errors import InvalidBlobError
from hudi_vector.storage import StorageOptions

WRITE = "20260101000000000_0123456789ab"


def counted(area: BlobArea, column: str, *rows: tuple[str, dict[str, Any] | None]) -> pa.Table:
    partition = pa.array([partition for partition, _ in rows], pa.string())
    return count_blobs(column, partition, stored(area, *(blob for _, blob in rows)))


def listed(*files: tuple[str, int]) -> pa.Table:
    rows = [dict(zip(TALLY.names, (uri, None, None, 0, 0, False, 0, size), strict=True)) for uri, size in files]
    return pa.Table.from_pylist(rows, TALLY)


def summary(area: BlobArea, *tallies: pa.Table) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Kind, blobs, bytes, shared, dead and dangling by column, partition and file name."""
    found = summarise(pa.concat_tables(tallies), area, BlobFiles(StorageOptions(), area.table)).to_pylist()
    made = {
        (row["column"], row["partition"], row["container"].rpartition("/")[2]): (
            row["kind"], row["blobs"], row["bytes"], row["shared"], row["dead_bytes"], row["dangling"],
        )
        for row in found
    }  # fmt: skip
    assert len(made) == len(found)
    return made


@pytest.fixture
def area(tmp_path: Path) -> BlobArea:
    return BlobArea.of(str(tmp_path / "t"))


def container(area: BlobArea, column: str = "img", partition: str = "", number: int = 0, size: int = 100) -> str:
    uri = ContainerName(partition, column, WRITE, 0, 0, number, "blob").uri(area.table)
    path = Path(uri.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return uri


def name(uri: str) -> str:
    return uri.rpartition("/")[2]


def test_ranges_shared_overlapping_and_dead(area: BlobArea) -> None:
    uri = container(area)
    rows = [ref(uri, 0, 10), ref(uri, 0, 10), ref(uri, 5, 10), ref(uri, 90, 10), ref(uri, 50, 0)]
    found = summary(area, counted(area, "img", *(("", row) for row in rows)), listed((uri, 100)))
    assert found == {("img", "", name(uri)): ("managed", 5, 30, 1, 75, 0)}


def test_one_range_in_several_words_is_one(area: BlobArea) -> None:
    uri = container(area)
    path = uri.removeprefix("file://")
    rows = [ref(uri, 0, 100), ref(path, None, None, False), ref("file:" + path, 0, None), ref(path, None, 100)]
    found = summary(area, counted(area, "img", *(("", row) for row in rows)), listed((uri, 100)))
    assert found == {("img", "", name(uri)): ("managed", 4, 100, 3, 0, 0)}


def test_inline_and_null(area: BlobArea) -> None:
    first = counted(area, "img", ("d=1", inline(3)), ("d=1", None), ("d=2", inline(0)))
    second = counted(area, "img", ("d=1", inline(4)))
    assert summary(area, first, second) == {
        ("img", "d=1", "inline"): ("inline", 2, 7, 0, 0, 0),
        ("img", "d=2", "inline"): ("inline", 1, 0, 0, 0, 0),
    }


def test_what_is_dead_stands_in_one_row(area: BlobArea) -> None:
    uri = container(area, "img", "d=1")
    in_one = counted(area, "img", ("d=1", ref(uri, 0, 10)), ("d=2", ref(uri, 10, 10)))
    thumbs = counted(area, "a", ("d=1", ref(uri, 0, 10)))
    assert summary(area, in_one, thumbs, listed((uri, 100))) == {
        ("img", "d=1", name(uri)): ("managed", 1, 10, 0, 80, 0),
        ("img", "d=2", name(uri)): ("managed", 1, 10, 0, 0, 0),
        ("a", "d=1", name(uri)): ("managed", 1, 10, 0, 0, 0),
    }
    assert summary(area, thumbs, listed((uri, 100))) == {
        ("a", "d=1", name(uri)): ("managed", 1, 10, 0, 0, 0),
        ("img", "d=1", name(uri)): ("managed", 0, 0, 0, 90, 0),
    }
    whole = counted(area, "a", ("d=1", ref(uri, 0, 100)))
    assert summary(area, whole, listed((uri, 100))) == {("a", "d=1", name(uri)): ("managed", 1, 100, 0, 0, 0)}


def test_files_nothing_refers_to(area: BlobArea) -> None:
    uri, empty = container(area, "doc.img", "d=1", 0), container(area, "doc.img", "d=1", 1, size=0)
    stray = area.uri + "/notes.txt"
    assert summary(area, listed((uri, 100), (empty, 0), (stray, 7))) == {
        ("doc.img", "d=1", name(uri)): ("managed", 0, 0, 0, 100, 0),
        ("doc.img", "d=1", name(empty)): ("managed", 0, 0, 0, 0, 0),
        (None, None, "notes.txt"): ("managed", 0, 0, 0, 7, 0),
    }


def test_a_stray_file_that_rows_refer_to(area: BlobArea) -> None:
    stray = area.uri + "/img/notes.txt"
    tally = counted(area, "img", ("d=2", ref(stray)), ("d=1", ref(stray)))
    assert summary(area, tally, listed((stray, 7))) == {
        ("img", "d=1", "notes.txt"): ("managed", 1, 5, 0, 2, 0),
        ("img", "d=2", "notes.txt"): ("managed", 1, 5, 0, 0, 0),
    }


def test_rows_that_dangle(area: BlobArea, tmp_path: Path) -> None:
    short, gone = container(area, number=0, size=8), area.uri + f"/img/{WRITE}/gone.blob"
    outside = tmp_path / "cat.png"
    outside.write_bytes(bytes(4))
    rows = [
        ref(short, 0, 8), ref(short, 0, 9), ref(short, 9, None), ref(short, 2**62, 2**62), ref(short, 99, 0),
        ref(gone, 0, 5), ref(gone, 0, 0), ref(gone, None, None),
        ref(str(outside), None, None, False), ref(str(outside), 0, 5, False), ref(str(tmp_path), None, None, None),
        ref("nosuch://x/y.bin", 0, 5, True),
    ]  # fmt: skip
    found = summary(area, counted(area, "img", *(("", row) for row in rows)), listed((short, 8)))
    assert found == {
        ("img", "", name(short)): ("managed", 5, 8 + 9 + 2**62, 0, 0, 3),
        ("img", "", "gone.blob"): ("managed", 3, 5, 1, 0, 2),
        ("img", "", "cat.png"): ("external", 2, 9, 0, 0, 1),
        ("img", "", tmp_path.name): ("external", 1, 0, 0, 0, 1),
        ("img", "", "y.bin"): ("managed", 1, 5, 0, 0, 0),
    }


@pytest.mark.parametrize("blob", CONTRADICTIONS, ids=str)
def test_a_blob_that_contradicts_itself_is_not_counted(area: BlobArea, blob: dict[str, Any]) -> None:
    with pytest.raises(InvalidBlobError, match="'img' holds blobs that contradict themselves, 1 among 2 rows"):
        counted(area, "img", ("", inline(1)), ("", blob))


def test_adding_up_in_steps_is_adding_up(area: BlobArea) -> None:
    rows = [("d=1", ref("/a", 0, 5)), ("d=1", inline(2)), ("d=1", ref("/a", 0, 5)), ("d=2", ref("/a", 0, 5))]
    once = counted(area, "img", *rows)
    assert once.num_rows == 3
    parts = [add_up(pa.concat_tables([counted(area, "img", row) for row in some])) for some in (rows[:2], rows[2:])]
    order = [("partition", "ascending"), ("file", "ascending")]
    assert add_up(pa.concat_tables(parts)).sort_by(order) == once.sort_by(order)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 20])
def test_rows_are_cut_where_a_file_ends(cut: int) -> None:
    files = [None, None, "a", "a", "a", "a", "a", "b", "c", "c", "d"]
    rows = pa.Table.from_pylist([{"file": file, "blobs": number} for number, file in enumerate(files)], TALLY)
    batches = rows.to_batches(max_chunksize=cut)
    tables = list(whole_files([batches[0].slice(0, 0), *batches, batches[0].slice(0, 0)]))
    assert pa.concat_tables(tables) == rows
    named = [set(table["file"].to_pylist()) for table in tables]
    assert sum(map(len, named)) == len(set(files)), "no file in two tables"
    assert len(tables) > 1
