"""Containers of every format: each blob is the range of bytes that its reference names."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_vector.blobs.containers.byte_values import ByteValues
from hudi_vector.blobs.containers.container import OpenContainer, WrittenContainer
from hudi_vector.blobs.names import ContainerName, is_write_id, new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.container_formats import FORMATS as KNOWN
from hudi_vector.errors import BlobWriteError, InvalidBlobError
from hudi_vector.storage import StorageOptions

FORMATS = ("raw", "parquet", "lance")
WRITE = "20260101120000000_0123456789ab"


def values_of(blobs: list[bytes | None], kind: pa.DataType | None = None) -> ByteValues:
    array = pa.array(blobs, kind or pa.binary())
    return ByteValues.of(array, np.flatnonzero(np.asarray(array.is_valid())))


def fill(path: Path, appends: list[list[bytes]], **settings: object) -> tuple[WrittenContainer, list[int]]:
    container = OpenContainer(f"file://{path}", BlobSettings(**settings), StorageOptions())
    offsets = [int(offset) for blobs in appends for offset in container.append(values_of(blobs))]
    return container.close("x", "d=1", "img"), offsets


def assert_ranges(path: Path, appends: list[list[bytes]], offsets: list[int]) -> None:
    content = path.read_bytes()
    blobs = [blob for append in appends for blob in append]
    assert len(blobs) == len(offsets)
    for blob, offset in zip(blobs, offsets, strict=True):
        assert content[offset : offset + len(blob)] == blob


def random_blobs(sizes: list[int]) -> list[bytes]:
    rng = np.random.default_rng(7)
    return [rng.bytes(size) for size in sizes]


def test_a_format_is_its_row_and_its_module(tmp_path: Path) -> None:
    assert KNOWN.keys() == set(FORMATS), "a new format runs through every test of this file"
    for number, (form, row) in enumerate(KNOWN.items()):
        name = ContainerName("d=1", "img", WRITE, 0, 0, number, row.extension)
        assert ContainerName.parse("/t", name.uri("/t")) == name
        assert BlobSettings.of({"hoodie.storage.blob.outofline.format": form.upper()}).format == form
        written, offsets = fill(tmp_path / form, [[b"abc"]], format=form)
        assert (written.blobs, len(offsets)) == (1, 1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "sizes",
    [
        [[0]],
        [[1]],
        [[0, 0], [0]],
        [[64, 63, 65], [0], [1, 0, 2]],
        [[100_000, 3_000_000], [5, 9]],
        [[10] * 9_000, [3] * 900],
    ],
    ids=["empty", "one", "empties", "odd", "large", "many"],
)
def test_a_blob_is_a_range_of_bytes(form: str, sizes: list[list[int]], tmp_path: Path) -> None:
    appends = [random_blobs(each) for each in sizes]
    written, offsets = fill(tmp_path / "x", appends, format=form)
    assert_ranges(tmp_path / "x", appends, offsets)
    blobs = list(itertools.chain(*appends))
    assert written == WrittenContainer(
        "x", "d=1", "img", (tmp_path / "x").stat().st_size, len(blobs), sum(map(len, blobs)), "none"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("form", FORMATS)
def test_blobs_of_zero_bytes_only_and_of_equal_bytes(form: str, tmp_path: Path) -> None:
    appends = [[b"\0" * 70] * 30, [b"\0" * 5]]
    _, offsets = fill(tmp_path / "x", appends, format=form)
    assert_ranges(tmp_path / "x", appends, offsets)
    assert len(set(offsets)) == 31


def test_a_raw_container_is_the_concatenation(tmp_path: Path) -> None:
    fill(tmp_path / "x", [[b"ab", b""], [b"c"]])
    assert (tmp_path / "x").read_bytes() == b"abc"


def test_a_parquet_container_is_read_by_parquet_readers(tmp_path: Path) -> None:
    fill(tmp_path / "x", [[b"ab", b""], [b"c" * 1000]], format="parquet")
    assert pq.read_table(tmp_path / "x").to_pydict() == {"blob": [b"ab", b"", b"c" * 1000]}
    column = pq.read_metadata(tmp_path / "x").row_group(0).column(0)
    assert (column.compression, column.statistics, column.has_dictionary_page) == ("UNCOMPRESSED", None, False)


def test_a_lance_container_is_read_by_lance(tmp_path: Path) -> None:
    from lance.file import LanceFileReader

    fill(tmp_path / "x", [[b"ab", b""], [b"c" * 1000]], format="lance")
    table = LanceFileReader(str(tmp_path / "x")).read_all().to_table()
    assert table.to_pydict() == {"blob": [b"ab", b"", b"c" * 1000]}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_anywhere_in_a_large_or_sliced_array(form: str, tmp_path: Path) -> None:
    blobs = [b"skipped", b"a", None, b"bc", b"", b"def", b"last"]
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array(blobs, kind).slice(1)
        values = ByteValues.of(array, np.array([0, 2, 3, 4]))
        assert [bytes(values.view(index)) for index in range(4)] == [b"a", b"bc", b"", b"def"]
        assert values.to_arrow().to_pylist() == [b"a", b"bc", b"", b"def"]
        assert b"".join(values.runs()) == b"abcdef"
        path = tmp_path / f"{kind}"
        container = OpenContainer(f"file://{path}", BlobSettings(format=form), StorageOptions())
        assert_ranges(path, [[b"a", b"bc", b"", b"def"]], _closed(container, container.append(values)))


def _closed(container: OpenContainer, offsets: np.ndarray) -> list[int]:
    container.close("x", "", "img")
    return [int(offset) for offset in offsets]


def test_bytes_that_lie_together_are_written_in_one_piece() -> None:
    array = pa.array([b"ab", b"c", b"de", None, b"f"], pa.binary())
    pieces = [bytes(piece) for piece in ByteValues.of(array, np.array([0, 1, 4])).runs()]
    assert pieces == [b"abc", b"f"]
    in_order = ByteValues.of(array, np.array([2, 0])).runs()
    assert [bytes(piece) for piece in in_order] == [b"de", b"ab"]
    buffer = array.buffers()[2]
    view = ByteValues.of(array, np.array([1])).view(0)
    assert np.frombuffer(view, np.uint8).ctypes.data == buffer.address + 2, "a view, not a copy"


@pytest.mark.parametrize("form", FORMATS)
def test_there_is_room_up_to_the_size_of_a_file(form: str, tmp_path: Path) -> None:
    limit = 10_000
    settings = BlobSettings(format=form, max_element_size=1000, max_file_size=limit)
    container = OpenContainer(f"file://{tmp_path / 'x'}", settings, StorageOptions())
    lengths = np.full(50, 500)
    first = container.room(lengths)
    assert 15 <= first <= 20
    container.append(values_of([b"x" * 500] * first))
    assert container.room(lengths) < 3
    size = container.close("x", "", "img").bytes
    assert size <= limit or (form == "lance" and size <= limit + 600), "but for the footer"


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_container_takes_any_value(form: str, tmp_path: Path) -> None:
    settings = BlobSettings(format=form, max_element_size=10, max_file_size=10)
    container = OpenContainer(f"file://{tmp_path / 'x'}", settings, StorageOptions())
    assert container.room(np.array([5000, 1])) == 1
    offsets = container.append(values_of([b"x" * 5000]))
    assert container.room(np.array([1])) == 0
    assert_ranges(tmp_path / "x", [[b"x" * 5000]], _closed(container, offsets))


def test_lance_containers_end_before_lance_changes_its_layout(tmp_path: Path) -> None:
    settings = BlobSettings(format="lance", max_file_size=1 << 40)
    container = OpenContainer(f"file://{tmp_path / 'x'}", settings, StorageOptions())
    count = container.room(np.ones(600_000, np.int64))
    assert count == 1 << 18
    blobs = [number.to_bytes(4, "little") for number in range(count)]
    offsets = container.append(values_of(blobs))
    assert container.room(np.ones(5, np.int64)) == 0
    container.close("x", "", "img")
    content = np.fromfile(tmp_path / "x", np.uint8)
    found = content[offsets[:, None] + np.arange(4)].view("<u4").ravel()
    assert (found == np.arange(count)).all()


def test_a_changed_layout_of_lance_is_refused(tmp_path: Path) -> None:
    container = OpenContainer(f"file://{tmp_path / 'x'}", BlobSettings(format="lance"), StorageOptions())
    for _ in range(130):
        container.append(values_of([b"12345678"] * 5000))  # more than there is room for
    with pytest.raises(BlobWriteError, match=r"pylance lays .* out differently"):
        container.close("x", "", "img")


@pytest.mark.parametrize("form", ["parquet", "lance"])
def test_bytes_that_are_not_where_they_should_be_are_refused(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = OpenContainer(f"file://{tmp_path / 'x'}", BlobSettings(format=form), StorageOptions())
    container.append(values_of([b"a" * 100, b"b" * 100]))
    path = str(tmp_path / "x")
    from hudi_vector import storage

    def damage(self: storage.Storage, *args: object, **kwargs: object) -> object:
        content = Path(path).read_bytes()
        Path(path).write_bytes(content.replace(b"b" * 100, b"b" * 99 + b"!"))
        return real(self, *args, **kwargs)

    real = storage.Storage.open
    monkeypatch.setattr(storage.Storage, "open", damage)
    with pytest.raises(BlobWriteError, match="holds other bytes"):
        container.close("x", "", "img")


def test_a_parquet_page_that_was_split_is_refused(tmp_path: Path) -> None:
    container = OpenContainer(f"file://{tmp_path / 'x'}", BlobSettings(format="parquet"), StorageOptions())
    container.append(values_of([b"\0" * 3] * 50_000))  # more than there is room for
    with pytest.raises(BlobWriteError, match="holds other bytes"):
        container.close("x", "", "img")


def test_a_parquet_file_with_other_row_groups_is_refused(tmp_path: Path) -> None:
    from hudi_vector.blobs.containers.parquet import _SCHEMA, ParquetContainer

    container = ParquetContainer(f"file://{tmp_path / 'x'}", StorageOptions())
    container.append(values_of([b"a"]))
    container._writer.write_table(pa.table([pa.array([b"b"], pa.large_binary())], schema=_SCHEMA))
    with pytest.raises(BlobWriteError, match="is laid out differently"):
        container.close()


def test_a_parquet_row_group_is_bounded_in_rows_bytes_and_by_the_file(tmp_path: Path) -> None:
    settings = BlobSettings(format="parquet", max_element_size=1000, max_file_size=4 + 3 * 504)
    small = OpenContainer(f"file://{tmp_path / 'x'}", settings, StorageOptions())
    assert small.room(np.full(5, 500)) == 2, "three values would fit without the header of their page"
    large = OpenContainer(f"file://{tmp_path / 'y'}", BlobSettings(format="parquet"), StorageOptions())
    assert large.room(np.full(50_000, 1)) == 10_000
    assert large.room(np.full(10, 20 << 20)) == 3
    assert large.room(np.array([100 << 20, 1])) == 1
    for container in (small, large):
        container.discard()


def test_what_parquet_cannot_hold_is_refused(tmp_path: Path) -> None:
    from hudi_vector.blobs.containers.parquet import ParquetContainer

    container = ParquetContainer(f"file://{tmp_path / 'x'}", StorageOptions())
    huge = values_of([b""])
    too_large = ByteValues(huge.array, huge.rows, huge.begins, np.array([2**31 - 4]), huge.data)
    with pytest.raises(InvalidBlobError, match="at most 2147483643 bytes"):
        container.append(too_large)
    container.discard()


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_is_there_is_not_touched(form: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        OpenContainer(f"file://{tmp_path / 'x'}", BlobSettings(format=form), StorageOptions())
    assert (tmp_path / "x").read_bytes() == b"mine"


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_discarded_is_closed_and_bears_our_name(form: str, tmp_path: Path) -> None:
    import os

    container = OpenContainer(f"file://{tmp_path / 'x'}", BlobSettings(format=form), StorageOptions())
    container.append(values_of([b"a" * 5_000_000]))
    container.discard()
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert not [path for path in opened if path.startswith(str(tmp_path))]


@pytest.mark.parametrize("form", FORMATS)
def test_a_closed_container_was_synced(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("os.fsync", watched)
    fill(tmp_path / "x", [[b"a"]], format=form)
    assert synced[-2:] == [str(tmp_path / "x"), str(tmp_path)]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("crc32", [zlib.crc32(b"ab").to_bytes(4, "big"), b"\0\0\0\0"]),
        ("sha256", [hashlib.sha256(b"ab").digest(), hashlib.sha256(b"").digest()]),
    ],
)
def test_checksums(method: str, expected: list[bytes], tmp_path: Path) -> None:
    written, offsets = fill(tmp_path / "x", [[b"ab"], [b""]], checksum=method)
    assert written.checksum == method
    assert written.checksums is not None
    assert written.checksums.to_pydict() == {"offset": offsets, "length": [2, 0], "checksum": expected}
    travelled = pickle.loads(pickle.dumps(written))
    assert travelled == written
    assert travelled.checksums.equals(written.checksums)


def test_names_say_who_made_a_file() -> None:
    name = ContainerName("d=1/h=2", "doc.img", WRITE, 3, 17, 2, "blob")
    uri = name.uri("s3a://bucket/t")
    assert uri == f"s3a://bucket/t/.hoodie/blobs/d=1/h=2/doc.img/{WRITE}/{WRITE}-00003-17-2.blob"
    assert ContainerName.parse("s3a://bucket/t/", uri) == name
    bare = ContainerName("", "img", WRITE, 123456, 0, 0, "lance")
    assert ContainerName.parse("/t", bare.uri("/t/")) == bare


@pytest.mark.parametrize(
    "path",
    [
        "img/x.blob",
        f"img/{WRITE}/{WRITE}-00003-17-2.png",
        f"img/20260101120000000_ffffffffffff/{WRITE}-00003-17-2.blob",
        f"{WRITE}/{WRITE}-00003-17-2.blob",
        f"img/{WRITE}/.tmpAbCd",
        f"img/{WRITE}/{WRITE}-00003-17-2.blob.trash",
    ],
)
def test_other_names_are_not_ours(path: str) -> None:
    assert ContainerName.parse("/t", f"/t/.hoodie/blobs/{path}") is None
    assert ContainerName.parse("/other", f"/t/.hoodie/blobs/img/{WRITE}/{WRITE}-00003-17-2.blob") is None


def test_write_ids_sort_by_time_and_differ() -> None:
    ids = [new_write_id(now) for now in (0, 1, 999, 1000, 1_790_000_000_123)]
    assert ids == sorted(ids)
    assert len({new_write_id(5) for _ in range(1000)}) == 1000
    assert all(is_write_id(made) for made in ids)
    assert not is_write_id("20260101120000000")
