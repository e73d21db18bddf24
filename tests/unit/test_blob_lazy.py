"""References in the place of blobs, taken from base files and read again, without Spark."""

from __future__ import annotations

import os
import pickle
import random
import re
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.blob_states import inline
from support.descriptors import open_files

from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.lazy import LAZY_TYPE, LazyColumns, lazy_pieces
from hudi_vector.blobs.scans.lazy_scan import LazyScan
from hudi_vector.blobs.struct import BLOB_TYPE
from hudi_vector.errors import BlobReadError, DataFileError, InvalidBlobError, UnsupportedTableError
from hudi_vector.spark.blobs.references import base_files
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.table.config import TableConfig
from hudi_vector.table.model import FileSlice, Snapshot, Source

OUTSIDE = b"0123456789" * 10


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Any:
    yield
    assert not [path for path in open_files() if "pytest-of-" in path]


@pytest.fixture
def outside(tmp_path: Path) -> str:
    path = tmp_path / "outside.bin"
    path.write_bytes(OUTSIDE)
    return str(path)


def ref(path: str, offset: int | None = None, length: int | None = None) -> dict[str, Any]:
    reference = {"external_path": path, "offset": offset, "length": length, "managed": False}
    return {"type": "OUT_OF_LINE", "data": None, "reference": reference}


def written(path: Path, table: pa.Table, **settings: Any) -> FileInfo:
    """A base file."""
    pq.write_table(table, path, **{"use_dictionary": False, "data_page_size": 500, "write_batch_size": 5, **settings})
    return FileInfo(f"file://{path}", path.stat().st_size, 0)


def blobs_table(blobs: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(range(len(blobs)), pa.int64()), "img": pa.array(blobs, BLOB_TYPE)})


def scanned(file: FileInfo, column: str = "img", schema: pa.Schema | None = None) -> pa.Table:
    schema = schema or pa.schema([("id", pa.int64()), ("img", LAZY_TYPE)])
    scan = pickle.loads(pickle.dumps(LazyScan(column, schema)))
    return pa.Table.from_batches(scan.batches(file), schema)


def references(file: FileInfo) -> list[dict[str, Any] | None]:
    found: list[dict[str, Any] | None] = scanned(file).column("img").to_pylist()
    return found


def read(references: list[Any], budget: int = 1 << 20, **settings: Any) -> list[bytes | None]:
    fetcher = BlobFetcher(**settings)
    columns = LazyColumns.of(pa.array(references, LAZY_TYPE))
    read = lazy_pieces(fetcher, columns, BaseFiles(fetcher.options, kept=10_000), budget)
    pieces = [piece.field("bytes") for piece in read]
    assert all(len(piece) == 1 or sum(len(value.as_py() or b"") for value in piece) <= budget for piece in pieces)
    return [value for piece in pieces for value in piece.to_pylist()]


def kinds_of_blobs(outside: str) -> tuple[list[Any], list[bytes | None]]:
    """Blobs of every kind, and their bytes."""
    empty_struct = {"type": None, "data": None, "reference": None}
    some = [
        (inline(b"in the row"), b"in the row"),
        (ref(outside, 5, 7), OUTSIDE[5:12]),
        (None, None),
        (ref(outside), OUTSIDE),
        (inline(b""), b""),
        (ref(outside, 9, 0), b""),
        (empty_struct, None),
        (inline(b"x" * 3000), b"x" * 3000),
    ]
    rows = [*some * 3, *((inline(b"%d" % i * i), b"%d" % i * i) for i in range(150))]
    return [blob for blob, _ in rows], [value for _, value in rows]


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_kind_of_blob(tmp_path: Path, outside: str, codec: str, version: str, dictionary: bool) -> None:
    blobs, expected = kinds_of_blobs(outside)
    file = written(
        tmp_path / "f.parquet",
        blobs_table(blobs),
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=65,
    )
    table = scanned(file)
    assert table.column("id").to_pylist() == list(range(len(blobs)))
    found = table.column("img").to_pylist()
    content = Path(tmp_path / "f.parquet").read_bytes()
    for row, (blob, value, reference) in enumerate(zip(blobs, expected, found, strict=True)):
        if value is None:
            assert reference is None
        elif blob["type"] == "INLINE":
            assert {**reference, "offset": None} == {
                "path": file.uri,
                "offset": None,
                "length": len(value),
                "row": row,
                "inline": True,
            }
            if codec == "none" and not dictionary:
                assert content[reference["offset"] :][: len(value)] == value
            elif codec != "none":
                assert reference["offset"] is None
        else:
            inside = blob["reference"]
            expected_path = (inside["external_path"], inside["offset"], inside["length"])
            assert tuple(reference.values()) == (*expected_path, None, False)
    shuffled = list(range(len(blobs))) * 2
    random.Random(0).shuffle(shuffled)
    for budget in (500, 20_000, 1 << 20):
        assert read([found[row] for row in shuffled], budget) == [expected[row] for row in shuffled]


def test_other_columns_in_other_types_and_blobs_inside_structs(tmp_path: Path) -> None:
    doc = pa.struct([("page", pa.int32()), ("img", BLOB_TYPE)])
    values = [None, {"page": 1, "img": None}, {"page": 2, "img": inline(b"two")}, {"page": 3, "img": inline(b"")}]
    table = pa.table(
        {"doc": pa.array(values, doc), "thumb": pa.array([inline(b"t%d" % i) for i in range(4)], BLOB_TYPE)}
    )
    file = written(tmp_path / "f.parquet", table)
    schema = pa.schema(
        [
            ("added", pa.string()),
            ("doc", pa.struct([("page", pa.int64()), ("img", LAZY_TYPE)])),
            ("thumb", BLOB_TYPE),
        ]
    )
    found = scanned(file, "doc.img", schema)
    assert found.column("added").null_count == 4
    assert found.column("thumb").to_pylist() == table.column("thumb").to_pylist()
    inner = found.column("doc").to_pylist()
    assert inner[:2] == [None, {"page": 1, "img": None}]
    assert read([row["img"] for row in inner[2:]]) == [b"two", b""]


def test_a_reference_says_by_itself_which_column_it_means(tmp_path: Path) -> None:
    folder = tmp_path / "part=a#b"
    folder.mkdir()
    one, two = ([inline(bytes([letter]) * 4) for _ in range(9)] for letter in b"ab")
    table = pa.table({"one": pa.array(one, BLOB_TYPE), "two": pa.array(two, BLOB_TYPE)})
    file = written(folder / "f.parquet", table)
    found = []
    for name in ("one", "two"):
        schema = pa.schema([(name, LAZY_TYPE)])
        found += scanned(file, name, schema).column(0).to_pylist()
    assert [row["path"] for row in (found[0], found[-1])] == [f"{file.uri}#one", f"{file.uri}#two"]
    assert read(found[::-1]) == [b"bbbb"] * 9 + [b"aaaa"] * 9
    plain = written(folder / "plain.parquet", table, compression="none")
    first = scanned(plain, "two", pa.schema([("two", LAZY_TYPE)])).column(0).to_pylist()[0]
    assert first["path"] == plain.uri  # a range needs no column
    with pytest.raises(InvalidBlobError, match=r"names none of the file's BLOB columns \(one, two\)"):
        read([{**found[0], "path": file.uri}])


def test_a_file_that_is_older_than_the_column(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", pa.table({"id": pa.array([1, 2], pa.int32())}))
    assert scanned(file).to_pylist() == [{"id": 1, "img": None}, {"id": 2, "img": None}]


def test_a_base_file_that_is_gone(tmp_path: Path, outside: str) -> None:
    for codec in ("none", "snappy"):
        file = written(
            tmp_path / f"{codec}.parquet",
            blobs_table([inline(b"gone"), inline(b""), ref(outside, 0, 2)]),
            compression=codec,
        )
        found = references(file)
        os.remove(tmp_path / f"{codec}.parquet")
        void = (
            f"the base file '{file.uri}' is gone: Hudi's clean removed it, and references to its INLINE blobs are void; "
            "take new references with blob_references"
        )
        with pytest.raises(BlobReadError) as refused:
            read(found)
        assert str(refused.value) == void
        assert read(found, on_error="null") == [None, b"", OUTSIDE[:2]]
        assert read(found[1:]) == [b"", OUTSIDE[:2]]  # nothing of the file is needed
        with pytest.raises(DataFileError, match="is gone since blob_references listed it"):
            references(file)


def test_other_files_that_are_gone_are_told_as_ever(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", blobs_table([inline(b"there"), ref("/nowhere/x", 0, 2)]), compression="none")
    found = references(file)
    with pytest.raises(
        BlobReadError, match=r"the blob at '/nowhere/x' \(offset 0, length 2\) cannot be read: the file is gone"
    ):
        read(found)
    assert read(found, on_error="null") == [b"there", None]


def test_references_that_were_tampered_with(tmp_path: Path) -> None:
    file = written(tmp_path / "f.parquet", blobs_table([inline(b"four"), None]))
    one = references(file)[0]
    assert one is not None
    with pytest.raises(
        BlobReadError, match=r"row 0 of the base file .* has no value of 5 bytes, as its reference says"
    ):
        read([{**one, "length": 5}])
    for row in (-1, 1, 2):
        with pytest.raises(BlobReadError, match=f"row {row} of the base file .* has no value of 4 bytes"):
            read([{**one, "row": row}])
    assert read([{**one, "length": 5}, {**one, "row": 2}, one], on_error="null") == [None, None, b"four"]
    for less in ({"row": None}, {"length": None}):
        with pytest.raises(InvalidBlobError, match="lacks its length, or both offset and row"):
            read([{**one, **less}])
    with pytest.raises(InvalidBlobError, match=r"names none of the file's BLOB columns \(img\)"):
        read([{**one, "path": file.uri + "#other"}])
    (tmp_path / "f.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(BlobReadError, match=r"the base file .* cannot be read: "):
        read([one])


def test_a_blob_that_contradicts_itself(tmp_path: Path) -> None:
    file = written(
        tmp_path / "f.parquet", blobs_table([inline(b"a"), {"type": "INLINE", "data": None, "reference": None}])
    )
    with pytest.raises(InvalidBlobError, match="INLINE and has no data"):
        references(file)


def test_base_files_elsewhere(tmp_path: Path) -> None:
    blobs = [inline(b"%d" % i * 50) for i in range(200)]
    local = written(tmp_path / "f.parquet", blobs_table(blobs))
    memory = fsspec.filesystem("memory")
    try:
        for name in ("a", "b"):
            memory.pipe(f"/lazy/{name}.parquet", (tmp_path / "f.parquet").read_bytes())
        found = [
            reference
            for name in ("a", "b")
            for reference in references(FileInfo(f"memory://lazy/{name}.parquet", local.size, 0))
        ]
        random.Random(1).shuffle(found)
        expected = [b"%d" % reference["row"] * 50 for reference in found if reference]
        assert read(found) == expected
        assert read(found[:1]) == expected[:1]
        memory.rm("/lazy/a.parquet")
        with pytest.raises(BlobReadError, match=r"the base file 'memory://lazy/a.parquet' is gone"):
            read(found)
    finally:
        memory.rm("/lazy", recursive=True)


def test_pages_and_files_are_read_by_threads_alike(tmp_path: Path) -> None:
    files = [
        written(tmp_path / f"{n}.parquet", blobs_table([inline(b"%d" % (n * i) * 60) for i in range(150)]))
        for n in range(4)
    ]
    found = [reference for file in files for reference in references(file)]
    random.Random(2).shuffle(found)
    assert read(found, threads=3) == read(found, threads=1)
    assert read(found[:1] * 5, threads=3, options=StorageOptions()) == read(found[:1] * 5)


def slices(*names: str, properties: str = "", evolves: bool = False) -> Snapshot:
    """A snapshot with a slice for each name; log files after a plus."""
    made = []
    for name in names:
        base, *logs = (FileInfo(f"file:///t/{file}", 1, 0) for file in name.split("+"))
        made.append(FileSlice("", base.name, "1", base, tuple(logs)))
    config = TableConfig.parse("hoodie.table.version=9\n" + properties)
    source = Source("file:///t", "photos")
    return Snapshot(source, config, "", None, None, pa.schema([]), tuple(made), evolves_on_read=evolves)


def test_tables_that_references_cannot_lead_into() -> None:
    assert [file.name for file in base_files(slices("a.parquet", "b.parquet"))] == ["a.parquet", "b.parquet"]
    for snapshot, message in (
        (slices("a.parquet", "b.parquet+.b.log"), "'photos' has log files in 1 of 2 file slices, and their rows"),
        (
            slices("a.parquet", "b.lance"),
            "'photos' has base files of the format lance, and references lead into Parquet",
        ),
        (
            slices("a.parquet", evolves=True),
            "references into 'photos' cannot be taken: its schema evolves on read; use",
        ),
        (
            slices("a.parquet", properties="hoodie.datasource.write.drop.partition.columns=true"),
            "cannot be taken: the table leaves its partition columns out of the files; use read_blobs",
        ),
    ):
        with pytest.raises(UnsupportedTableError, match=re.escape(message)):
            base_files(snapshot)
