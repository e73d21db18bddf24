"""Bytes of blobs, and one clear sentence where they cannot be had."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pickle
import threading
import tracemalloc
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from support import servers
from support.blob_states import inline
from support.descriptors import open_files
from support.rights import without_root

from hudi_vector.blobs.files import BlobFiles, LocalFile, OpenLocalFile, RemoteFile
from hudi_vector.blobs.reading import resolve as resolving
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.reading.transfer import transfer
from hudi_vector.blobs.struct import BLOB_TYPE, REFERENCE_TYPE, BlobColumns
from hudi_vector.errors import BlobReadError, InvalidArgumentError, InvalidBlobError, MissingDependencyError
from hudi_vector.storage import StorageOptions
from hudi_vector.storage.ranges import plan_reads

CONTENT = bytes(range(256)) * 40


def columns(*blobs: Any) -> BlobColumns:
    """Blobs as dicts, (path, offset, length) or None."""
    return BlobColumns.of(blob_rows(blobs))


def fetched(*blobs: Any, part: Part | None = None, **settings: Any) -> list[bytes | None]:
    found = BlobFetcher(**settings).fetch(columns(*blobs), part or Part())
    found.validate(full=True)
    assert found.type == pa.binary()
    values: list[bytes | None] = found.to_pylist()
    return values


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Iterator[None]:
    yield
    assert not [path for path in open_files() if "pytest-of-" in path]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "blobs.bin"
    path.write_bytes(CONTENT)
    return str(path)


def test_each_kind_of_blob(file: str) -> None:
    assert fetched(
        inline(b"in the row"), (file, 5, 7), None, (file, None, None), inline(b""), (file, 9, 0), (file, 5, 7)
    ) == [b"in the row", CONTENT[5:12], None, CONTENT, b"", b"", CONTENT[5:12]]  # fmt: skip


def test_offset_or_length_alone(file: str) -> None:
    assert fetched((file, 10_000, None), (file, None, 3), (file, len(CONTENT), None)) == [
        CONTENT[10_000:],
        CONTENT[:3],
        b"",
    ]
    assert BlobFetcher().sizes(columns((file, 10_000, None), (file, None, 3), (file, None, None))).tolist() == [
        240,
        3,
        10_240,
    ]


def test_sizes_look_at_no_file_whose_size_is_not_needed() -> None:
    blobs = columns(("/absent/x", 0, 2**40), inline(b"four"), None)
    assert BlobFetcher().sizes(blobs).tolist() == [2**40, 4, 0]
    assert BlobFetcher().sizes(blobs, Part(1, 100)).tolist() == [100, 3, 0]


def test_nothing_to_read() -> None:
    assert fetched() == []
    assert fetched(None, None) == [None, None]
    assert BlobFetcher().sizes(columns()).tolist() == []


def test_inline_bytes_alone_are_not_copied() -> None:
    blobs = columns(inline(b"x" * 1000), None)
    found = BlobFetcher().fetch(blobs)
    assert found.to_pylist() == [b"x" * 1000, None]
    assert found.buffers()[2].address == blobs.data.buffers()[2].address


def test_a_slice_of_a_column(file: str) -> None:
    array = blob_rows([inline(b"a"), (file, 0, 2), inline(b"bcd"), (file, 4, 2), None, inline(b"e")])
    found = BlobFetcher().fetch(BlobColumns.of(array.slice(2, 3)))
    assert found.to_pylist() == [b"bcd", CONTENT[4:6], None]
    found = BlobFetcher().fetch(BlobColumns.of(pa.chunked_array([array.slice(4), array.slice(1, 2)])))
    assert found.to_pylist() == [None, b"e", CONTENT[:2], b"bcd"]


def test_a_null_blob_may_come_as_a_struct_of_nulls() -> None:
    struct = {"type": None, "data": None, "reference": None}
    assert BlobFetcher().fetch(BlobColumns.of(pa.array([struct], BLOB_TYPE))).to_pylist() == [None]
    reference = dict.fromkeys(field.name for field in REFERENCE_TYPE)
    array = pa.array([{**struct, "type": "INLINE", "data": b"x", "reference": reference}], BLOB_TYPE)
    assert BlobFetcher().fetch(BlobColumns.of(array)).to_pylist() == [b"x"]


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (Part(), [b"0123456789", b"345", b"", None]),
        (Part(0, 2), [b"01", b"34", b"", None]),
        (Part(0, 0), [b"", b"", b"", None]),
        (Part(np.array([8, 2, 0, 7]), 5), [b"89", b"5", b"", None]),
        (Part(np.array([10, 3, 0, 0])), [b"", b"", b"", None]),
        (Part(1, np.array([1, 2, 3, 4])), None),
    ],
)
def test_parts_are_cut_at_the_end_of_the_blob(tmp_path: Path, part: Part, wanted: list | None) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    blobs = [(str(path), None, None), (str(path), 3, 3), inline(b""), None]
    if wanted is None:
        with pytest.raises(BlobReadError, match="bytes from 1 on are asked for, and the blob has 0 bytes"):
            fetched(*blobs, part=part)
        assert fetched(*blobs, part=part, on_error="null") == [b"1", b"45", None, None]
    else:
        assert fetched(*blobs, part=part) == wanted


def test_a_range_of_a_blob_larger_than_a_value(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # sparse: no bytes on disk
        file.seek((3 << 30) - 4)
        file.write(b"tail")
    blob = (str(path), None, None)
    assert BlobFetcher().sizes(columns(blob)).tolist() == [3 << 30]
    assert fetched(blob, part=Part((3 << 30) - 4, 100)) == [b"tail"]
    with pytest.raises(
        BlobReadError, match=rf"'{path}' \(no offset, no length\).*{3 << 30} bytes.*2147483647; read it in"
    ):
        fetched(blob)
    assert fetched(blob, inline(b"y"), on_error="null") == [None, b"y"]
    halves = [(str(path), 0, 2**30), (str(path), 2**30, 2**30)]
    with pytest.raises(InvalidArgumentError, match=r"2 blobs have 2147483648 bytes together.*read fewer"):
        fetched(*halves, on_error="null")


@pytest.mark.parametrize("where", ["/{0}", "file:{0}", "file://{0}", "FILE://{0}", "//{0}/", "{0}/../{1}"])
@pytest.mark.parametrize("name", ["plain", "a b", "100%", "a%20b", "a#b?c=d", "ü – 图", "a:b", "..x"])
def test_paths_as_people_write_them(tmp_path: Path, where: str, name: str) -> None:
    (tmp_path / name).write_bytes(name.encode())
    path = where.format(tmp_path / name, name)
    assert fetched((path, None, None), (path, 1, None)) == [name.encode(), name.encode()[1:]]


def test_an_escape_in_a_path_is_part_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"blank")
    with pytest.raises(BlobReadError, match=r"a%20b.* the file is gone"):
        fetched((f"file://{tmp_path}/a%20b", None, None))


@pytest.mark.parametrize("table", ["{}", "file://{}/", "{}//"])
def test_relative_paths_start_at_the_table(tmp_path: Path, table: str) -> None:
    folder = tmp_path / "t" / ".hoodie" / "blobs"
    folder.mkdir(parents=True)
    (folder / "a b").write_bytes(b"managed")
    blobs = [(path, None, None) for path in (".hoodie/blobs/a b", "./.hoodie//blobs/x/../a b")]
    assert fetched(*blobs, table=table.format(tmp_path / "t")) == [b"managed"] * 2
    with pytest.raises(InvalidBlobError, match=r"'\.hoodie/blobs/a b' is relative, and there is no table"):
        fetched(*blobs)


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "..", "/a/../../x", "file:///../x", "s3a://b/../x", "s3://b/a/../.."]
)
def test_a_path_does_not_climb_out(path: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"outside")
    (tmp_path / "t").mkdir()
    if path.endswith("a/../.."):
        path += "/.."
    with pytest.raises(InvalidBlobError, match=r"climbs out of .* with '\.\.'"):
        fetched((path, None, None), table=str(tmp_path / "t"), on_error="null")


REFERENCE = {"external_path": "/x", "offset": 0, "length": 1, "managed": False}


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (inline(None), "row 1 is INLINE and has no data$"),
        ({**inline(None), "reference": REFERENCE}, "row 1 is INLINE and has no data, only a reference.*CONTENT"),
        (
            {**inline(None), "reference": {**REFERENCE, "external_path": "/t/x_1-0-1_2.lance"}},
            "only a reference into its Lance base file: Hudi 1.2 leaves the bytes there by default; .*=CONTENT$",
        ),
        ({"type": "OUT_OF_LINE", "data": b"x", "reference": None}, "row 1 is OUT_OF_LINE and has no reference"),
        ({"type": "OUT_OF_LINE", "data": None, "reference": {**REFERENCE, "external_path": None}}, "has no reference"),
        ({"type": "OUT_OF_LINE", "data": None, "reference": {**REFERENCE, "external_path": ""}}, "an empty path"),
        ({"type": "ELSEWHERE", "data": b"x", "reference": None}, "row 1 has the type 'ELSEWHERE'; a blob is INLINE or"),
        ({"type": None, "data": b"x", "reference": None}, "row 1 has no type, but data or a reference"),
        ({"type": None, "data": None, "reference": REFERENCE}, "row 1 has no type, but data or a reference"),
        (("/x", -1, 5), "row 1 refers to '/x' with the negative offset -1"),
        (("/x", 0, -5), "row 1 refers to '/x' with the negative length -5"),
        (("/x", None, -(2**63)), "row 1 refers to '/x' with the negative length"),
        (("/a\0b", 0, 1), r"the blob's path '/a\\x00b' holds a NUL, which no name of a file does"),
        (("file:x", 0, 1), "'file:x' is relative"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_a_blob_that_contradicts_itself_raises(blob: Any, message: str, on_error: str) -> None:
    with pytest.raises(InvalidBlobError, match=message):
        fetched(None, blob, on_error=on_error)


def test_a_column_that_is_no_blob() -> None:
    with pytest.raises(InvalidBlobError, match="the column is int64, which is no blob"):
        BlobColumns.of(pa.array([1]))


@pytest.mark.parametrize(
    ("name", "offset", "length", "reason"),
    [
        ("absent", None, None, "the file is gone"),
        ("absent", 0, 5, "the file is gone"),
        ("blobs.bin/inside", 0, 5, "the file is gone"),
        ("", None, None, "it is a directory"),
        ("", 0, 5, "it is a directory"),
        ("pipe", 0, 5, "it is no regular file"),
        ("blobs.bin", 10_000, 241, "the file is too short, it has 10240 bytes"),
        ("blobs.bin", 10_241, None, "the file is too short, it has 10240 bytes"),
        ("blobs.bin", 2**62, 2**62, "the file is too short, it has 10240 bytes"),
        ("blobs.bin", None, 10_241, "the file is too short, it has 10240 bytes"),
        ("n" * 300, 0, 5, "File name too long"),
    ],
)  # fmt: skip
def test_bytes_that_cannot_be_had(file: str, name: str, offset: int | None, length: int | None, reason: str) -> None:
    folder = Path(file).parent
    os.mkfifo(folder / "pipe")
    path = str(folder / name)
    with pytest.raises(BlobReadError) as caught:
        fetched((file, 0, 1), (path, offset, length))
    start = "no offset" if offset is None else f"offset {offset}"
    size = "no length" if length is None else f"length {length}"
    assert str(caught.value).startswith(f"the blob at '{path}' ({start}, {size}) cannot be read: {reason}")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert fetched((file, 0, 1), (path, offset, length), (file, 1, 1), on_error="null") == [b"\0", None, b"\1"]


def test_a_file_that_may_not_be_read(file: str, tmp_path: Path) -> None:
    with without_root(tmp_path):
        assert fetched((file, 0, 5)) == [CONTENT[:5]]
        os.chmod(file, 0)
        with pytest.raises(BlobReadError, match="permission denied"):
            fetched((file, 0, 5))
        assert fetched((file, 0, 5), on_error="null") == [None]


class Stubborn(LocalFile):
    """A file that is there when it is looked at, and not what it was when it is read."""

    def __init__(self, file: LocalFile, problem: OSError | None) -> None:
        super().__init__(file.path, file.size)
        self._problem = problem

    def open(self) -> OpenLocalFile:
        if self._problem is not None:
            raise self._problem
        os.truncate(self.path, 100)
        return super().open()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("problem", "reason", "kept"),
    [
        (PermissionError(13, "Permission denied"), "permission denied", [None, None, None, None, None]),
        (FileNotFoundError(2, "No such file"), "the file is gone", [None, None, None, None, None]),
        (OSError(5, "Input/output error"), "Input/output error", [None, None, None, None, None]),
        (None, "the file became shorter while it was read", [None, CONTENT[:9], None, None, None]),
    ],
)  # fmt: skip
def test_what_changes_between_the_look_and_the_read(
    file: str, threads: int, problem: OSError | None, reason: str, kept: list
) -> None:
    other = Path(file).with_name("other")
    other.write_bytes(b"other")
    blobs = columns(
        (file, 9000, 1000), (file, 0, 9), (str(other), None, None), (file, 90, 20), (file, 200, 9), (file, 205, 9)
    )
    for on_error in ("raise", "null"):
        Path(file).write_bytes(CONTENT)
        fetcher = BlobFetcher(on_error=on_error, threads=threads, max_gap=0)
        files = fetcher.files()
        (seen,) = files.look([file])
        assert isinstance(seen, LocalFile)
        files._known[file] = Stubborn(seen, problem)
        if on_error == "raise":
            with pytest.raises(BlobReadError, match=rf"offset 9000, length 1000\) cannot be read: {reason}"):
                fetcher.fetch(blobs, files=files)
        else:
            found = fetcher.fetch(blobs, files=files)
            assert found.to_pylist() == [*kept[:2], b"other", *kept[2:]]
            values = found.buffers()[2].to_pybytes()
            assert values[:1000] + values[1014:] == bytes(1000 + 20 + 9 + 9), "nothing stays under a NULL"


def test_far_ranges_take_no_memory_for_what_lies_between(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        assert fetched((str(tmp_path / "sparse"), 0, 5), (str(tmp_path / "sparse"), 1 << 29, 5)) == [bytes(5)] * 2
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_descriptors_are_bounded_and_closed(tmp_path: Path) -> None:
    paths = []
    for number in range(3000):  # more than a process may have open, usually 1024
        paths.append(str(tmp_path / str(number)))
        Path(paths[-1]).write_bytes(b"%d" % number)
    assert fetched(*((path, None, None) for path in paths), threads=2) == [b"%d" % number for number in range(3000)]


def test_more_views_than_one_call_takes(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(50_000)
    (tmp_path / "x").write_bytes(content)
    order = np.random.default_rng(1).permutation(5000)
    blobs = [(str(tmp_path / "x"), int(row) * 10, 7) for row in order]
    assert fetched(*blobs, threads=1) == [content[row * 10 : row * 10 + 7] for row in order.tolist()]


class CountedReads:
    """How often local files are opened and read, by wrapping the calls and leaving them at work."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opened = self.read = 0
        self.threads: set[int] = set()
        patch.setattr(LocalFile, "open", self._counted(LocalFile.open, "opened"))
        patch.setattr(OpenLocalFile, "read_into", self._counted(OpenLocalFile.read_into, "read"))
        patch.setattr(RemoteFile, "read_into", self._counted(RemoteFile.read_into, "read"))

    def _counted(self, function: Any, name: str) -> Any:
        def counted(*arguments: Any) -> Any:
            self.threads.add(threading.get_ident())
            setattr(self, name, getattr(self, name) + 1)
            return function(*arguments)

        return counted


@pytest.mark.parametrize(
    ("gap", "reads"), [(None, 1), (0, 100), (899, 100), (900, 1)], ids=["default", "0", "899", "900"]
)
def test_near_ranges_are_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: int | None, reads: int) -> None:
    (tmp_path / "x").write_bytes(bytes(100_000))
    counted = CountedReads(monkeypatch)
    fetched(*((str(tmp_path / "x"), row * 1000, 100) for row in range(100)), max_gap=gap, threads=1)
    assert (counted.opened, counted.read) == (1, reads)


def test_an_object_store_reads_wider_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/gaps/x", bytes(3 << 20))
    counted = CountedReads(monkeypatch)
    spots = [("memory://gaps/x", 0, 10), ("memory://gaps/x", 200_000, 10), ("memory://gaps/x", 2_500_000, 10)]
    assert fetched(*spots) == [bytes(10)] * 3
    assert counted.read == 2
    memory.rm("/gaps", recursive=True)


def test_large_blobs_are_shared_among_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = np.random.default_rng(0).bytes(20 << 20)
    (tmp_path / "video").write_bytes(content)
    counted = CountedReads(monkeypatch)
    assert fetched((str(tmp_path / "video"), 5, None), threads=4) == [content[5:]]
    assert counted.read >= 8
    assert len(counted.threads) > 1


@pytest.mark.parametrize("seconds", [1e-6, 0.01], ids=["quick", "slow"])
def test_a_slow_disk_is_read_by_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each read takes so long by a clock of the test's own; of a slow disk two threads read at the same time."""
    (tmp_path / "x").write_bytes(CONTENT)
    count, length = 64, 5
    offset = np.arange(0, count * 20, 20)
    reads = plan_reads(np.zeros(count, np.int64), offset, np.full(count, length), np.arange(count) * length, max_gap=0)
    original, at_once, calls, now = OpenLocalFile.read_into, threading.Barrier(2), itertools.count(), 0.0

    def timed(*given: Any) -> int:
        nonlocal now
        now += seconds
        # One thread reads the first few, to see how long they take.
        if next(calls) in (count // 2, count // 2 + 1) and seconds == 0.01:
            at_once.wait(60)
        return original(*given)

    monkeypatch.setattr(OpenLocalFile, "read_into", timed)
    counted = CountedReads(monkeypatch)
    output = bytearray(count * length)
    (file,) = BlobFiles(StorageOptions(), None).look([str(tmp_path / "x")])
    assert not transfer(reads, [file], memoryview(output), None, clock=lambda: now)
    assert output == b"".join(CONTENT[begin : begin + length] for begin in offset.tolist())
    assert counted.read == count
    assert (len(counted.threads) > 1) == (seconds == 0.01)


def test_each_file_is_looked_at_once_in_several_calls(file: str) -> None:
    fetcher = BlobFetcher()
    files = fetcher.files()
    blobs = columns((file, None, None))
    assert fetcher.sizes(blobs, files=files).tolist() == [len(CONTENT)]
    Path(file).write_bytes(CONTENT + b"more")
    assert fetcher.fetch(blobs, files=files).to_pylist() == [CONTENT]
    assert fetcher.fetch(blobs).to_pylist() == [CONTENT + b"more"]


def test_a_memory_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_vector.blobs.files._KNOWN_FILES", 10)
    files = BlobFiles(StorageOptions(), None)
    paths = [str(tmp_path / str(number)) for number in range(25)]
    for path in paths:
        Path(path).write_bytes(path.encode())
    for few in (paths[:8], paths[4:12], paths):
        sizes = [file.size for file in files.look(few) if isinstance(file, LocalFile)]
        assert sizes == [len(path) for path in few]
        assert len(files._known) <= 10


@pytest.mark.parametrize(("scheme", "package", "extra"), [("gs", "gcsfs", "gcs"), ("hdfs", "hdfs_native", "hdfs")])
@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_a_driver_that_is_not_installed_is_named(scheme: str, package: str, extra: str, on_error: str) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    message = rf"the blob at '{scheme}://b/k' cannot be read.*install hudi-vector\[{extra}\]"
    with pytest.raises(MissingDependencyError, match=message):
        fetched((f"{scheme}://b/k", 0, 1), on_error=on_error)


def test_an_unknown_scheme() -> None:
    with pytest.raises(
        BlobReadError, match=r"'nosuch://b/k' \(offset 0, length 1\).*no driver for the scheme 'nosuch://'"
    ):
        fetched(("nosuch://b/k", 0, 1))
    assert fetched(("nosuch://b/k", 0, 1), on_error="null") == [None]


def test_a_driver_of_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/drive/a b%", CONTENT)
    path = "memory://drive/a b%"
    assert fetched((path, 3, 5), (path, None, None), threads=2) == [CONTENT[3:8], CONTENT]
    for wrong, reason in (("memory://drive/no", "the file is gone"), ("memory://drive", "it is a directory")):
        with pytest.raises(BlobReadError, match=f"'{wrong}'.*{reason}"):
            fetched((wrong, 0, 1))
    files = BlobFetcher().files()
    files.look([path])
    memory.pipe_file("/drive/a b%", CONTENT[:4])
    with pytest.raises(BlobReadError, match="the file became shorter while it was read"):
        BlobFetcher().fetch(columns((path, 3, 5)), files=files)
    memory.rm("/drive", recursive=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_error": "ignore"}, "on_error = 'ignore' is not allowed: give 'raise' or 'null'"),
        ({"max_gap": -1}, "max_gap = -1 is not allowed"),
        ({"threads": 0}, "threads = 0 is not allowed"),
    ],
)
def test_settings_that_are_not_allowed(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BlobFetcher(**settings)


@pytest.mark.parametrize("part", [{"start": -1}, {"count": -1}, {"start": np.array([0, -3])}])
def test_parts_that_are_not_allowed(part: dict) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the (offset|length) of a part of a blob is -\d; give 0 or more"):
        Part(**part)


def test_a_fetcher_travels_and_shows_no_secret() -> None:
    fetcher = BlobFetcher(StorageOptions.of({"fs.s3a.secret.key": "hush"}), "/t", 5, 2, "null")
    assert pickle.loads(pickle.dumps(fetcher)) == fetcher
    assert "hush" not in repr(fetcher)


def test_the_largest_value_is_javas_largest_array() -> None:
    assert resolving.MAX_VALUE_BYTES == 2_147_483_647


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[StorageOptions, Any]]:
    with servers.lake() as found:
        yield found


def test_an_object_store(store: tuple[StorageOptions, Any], file: str) -> None:
    options, client = store
    content = np.random.default_rng(0).bytes(3 << 20)
    client.put_object(Bucket="lake", Key="d/a b%20#?.bin", Body=content)
    path = "s3a://lake/d/a b%20#?.bin"
    rows = np.random.default_rng(1).integers(0, 3 << 19, (60, 2)).tolist()
    found = fetched(*((path, *row) for row in rows), (file, 1, 2), (path, 5, None), options=options)
    assert found == [*(content[offset : offset + length] for offset, length in rows), CONTENT[1:3], content[5:]]
    relative = fetched(("d/a b%20#?.bin", 0, 3), options=options, table="s3a://lake/")
    assert relative == [content[:3]]
    assert BlobFetcher(options).sizes(columns((path, None, None))).tolist() == [3 << 20]


def check_keys_after(client: Any, requests: int) -> None:
    """Let the server take any key for a number of requests, and check it from then on."""
    address = f"{client.meta.endpoint_url}/moto-api/reset-auth"
    plain = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(address, str(requests).encode(), plain, method="POST")).close()


def test_an_object_store_that_does_not_know_us(store: tuple[StorageOptions, Any]) -> None:
    options, client = store
    client.put_object(Bucket="lake", Key="secret", Body=b"four")
    check_keys_after(client, 0)
    try:
        with pytest.raises(BlobReadError, match=r"'s3a://lake/secret' .* cannot be read: permission denied$"):
            fetched(("s3a://lake/secret", 0, 1), options=options)
        assert fetched(("s3a://lake/secret", 0, 1), options=options, on_error="null") == [None]
    finally:
        check_keys_after(client, 1_000_000)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("s3a://lake/folder/no", "the file is gone"),
        ("s3a://nolake/x", "the file is gone"),
        ("s3a://lake/folder", "it is a directory"),
        ("s3a://lake/folder/x", "the file is too short, it has 4 bytes"),
    ],
)
def test_an_object_store_without_the_bytes(store: tuple[StorageOptions, Any], path: str, reason: str) -> None:
    options, client = store
    client.put_object(Bucket="lake", Key="folder/x", Body=b"four")
    with pytest.raises(BlobReadError) as caught:
        fetched((path, 2, 3), options=options)
    assert str(caught.value).startswith(f"the blob at '{path}' (offset 2, length 3) cannot be read: {reason}")
    assert fetched((path, 2, 3), ("s3://lake/folder/x", 1, 2), options=options, on_error="null") == [None, b"ou"]
