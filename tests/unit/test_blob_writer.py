"""Batches become blobs: bytes where they belong, references checked, NULL kept, failures that leave nothing open."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.blobs.names import ContainerName, new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.struct import BLOB_TYPE, blob_array
from hudi_vector.blobs.uploads.manifest import list_uploads, open_upload, stage
from hudi_vector.errors import BlobWriteError, InvalidArgumentError, InvalidBlobError, UnknownColumnError
from hudi_vector.storage import StorageOptions

TASK = TaskAttempt(3, 17)
WRITE = new_write_id(1_790_000_000_000)
SMALL = BlobSettings(inline_threshold=10, max_element_size=1000, max_file_size=3000)


def plan_of(table: Path, *columns: BlobColumn, **settings: Any) -> BlobWritePlan:
    return BlobWritePlan(str(table), WRITE, columns or (BlobColumn("img", SMALL),), **settings)


def bytes_of(blob: dict[str, Any] | None) -> bytes | None:
    """What a blob stands for, by plain file reads."""
    if blob is None:
        return None
    if blob["type"] == "INLINE":
        assert blob["reference"] is None
        return blob["data"]
    assert blob["data"] is None
    reference = blob["reference"]
    with open(reference["external_path"].removeprefix("file://"), "rb") as file:
        file.seek(reference["offset"])
        found = file.read(reference["length"])
    assert len(found) == reference["length"]
    return found


def batch_of(blobs: Any, name: str = "img", kind: pa.DataType | None = None) -> pa.RecordBatch:
    array = blobs if isinstance(blobs, pa.Array) else pa.array(blobs, kind or pa.binary())
    return pa.record_batch({"id": pa.array(range(len(array)), pa.int32()), name: array})


def written_files(table: Path) -> dict[str, int]:
    area = table / ".hoodie/blobs"
    return {str(file.relative_to(table)): file.stat().st_size for file in area.rglob("*") if file.is_file()}


BLOBS: list[bytes | None] = [b"", None, b"x" * 9, b"y" * 10, b"z" * 11, None, b"b" * 1000, b"c" * 1001, b"d" * 999]


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=["binary", "large", "view"])
def test_bytes_go_where_they_belong(kind: pa.DataType, form: str, tmp_path: Path) -> None:
    settings = BlobSettings(inline_threshold=10, max_element_size=1000, max_file_size=5000, format=form)
    with BlobWriter(plan_of(tmp_path, BlobColumn("img", settings)), TASK) as writer:
        batch = writer.convert(batch_of(BLOBS, kind=kind))
        written = writer.close()
    assert batch.schema.field("img").type == BLOB_TYPE
    assert batch.schema.field("img").metadata == {b"hudi_type": b"BLOB"}
    assert batch.column("id").to_pylist() == list(range(9))
    found = batch.column("img").to_pylist()
    assert [blob and blob["type"][:3] for blob in found] == [
        "INL", None, "INL", "OUT", "OUT", None, "OUT", "OUT", "OUT",
    ]  # fmt: skip
    assert [bytes_of(blob) for blob in found] == BLOBS
    assert all(blob["reference"]["managed"] for blob in found if blob and blob["reference"])
    assert written_files(tmp_path) == {made.path: made.bytes for made in written}
    own = [made for made in written if made.blobs == 1 and made.blob_bytes == 1001]
    assert len(own) == 1, "the blob above the element size lies alone"
    assert sum(made.blobs for made in written) == 5


def test_a_container_bears_the_name_of_its_attempt(tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path), TASK)
    batch = writer.convert(batch_of([b"x" * 10]))
    [made] = writer.close()
    path = batch.column("img")[0]["reference"]["external_path"].as_py()
    assert path == f"file://{tmp_path}/{made.path}"
    assert ContainerName.parse(f"file://{tmp_path}", path) == ContainerName("", "img", WRITE, 3, 17, 0, "blob")


def test_containers_roll_at_their_size(tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path), TASK)
    batches = [writer.convert(batch_of([bytes([number]) * 400] * 5)) for number in range(6)]
    written = writer.close()
    assert [made.bytes for made in written] == [2800] * 4 + [800]
    for number, batch in enumerate(batches):
        assert [bytes_of(blob) for blob in batch.column("img").to_pylist()] == [bytes([number]) * 400] * 5


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
def test_many_small_blobs(form: str, tmp_path: Path) -> None:
    settings = BlobSettings(inline_threshold=0, format=form)
    blobs = [str(number).encode() for number in range(45_000)]
    writer = BlobWriter(plan_of(tmp_path, BlobColumn("img", settings)), TASK)
    found = writer.convert(batch_of(blobs)).column("img")
    [made] = writer.close()
    content = (tmp_path / made.path).read_bytes()
    references = [blob["reference"] for blob in found.to_pylist()]
    assert [content[at["offset"] : at["offset"] + at["length"]] for at in references] == blobs


def test_each_partition_and_column_has_its_containers(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, BlobColumn("a", SMALL), BlobColumn("b", SMALL), partition_column="part")
    writer = BlobWriter(plan, TASK)
    rows = pa.record_batch(
        {
            "part": ["d=1", "d=2/h=1", "d=1"],
            "a": pa.array([b"a" * 20, b"b" * 21, b"c" * 22]),
            "b": pa.array([b"d" * 23, None, b"e" * 24]),
        }
    )
    converted = writer.convert(rows)
    written = writer.close()
    assert sorted((made.partition, made.column, made.blob_bytes) for made in written) == [
        ("d=1", "a", 42),
        ("d=1", "b", 47),
        ("d=2/h=1", "a", 21),
    ]
    assert all(made.path.startswith(f".hoodie/blobs/{made.partition}/{made.column}/{WRITE}/") for made in written)
    for name in ("a", "b"):
        assert [bytes_of(blob) for blob in converted.column(name).to_pylist()] == rows.column(name).to_pylist()
    assert converted.column("part").to_pylist() == ["d=1", "d=2/h=1", "d=1"]


def open_files(folder: Path) -> int:
    links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sum(link.startswith(str(folder)) for link in links)


def test_the_container_that_was_used_longest_ago_is_closed(tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path, partition_column="part", most_open=2), TASK)
    for part in ("a", "b", "a", "c", "a"):
        writer.convert(pa.record_batch({"part": [part], "img": pa.array([b"x" * 20])}))
    assert sorted((made.partition, made.blobs) for made in writer.close()) == [("a", 3), ("b", 1), ("c", 1)]


def test_the_number_of_open_containers_is_bounded(tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path, partition_column="part", most_open=3), TASK)
    parts = [f"p={number % 7}" for number in range(21)]
    blobs = [bytes([number]) * 50 for number in range(21)]
    converted = []
    for begin in range(0, 21, 5):
        rows = {"part": parts[begin : begin + 5], "img": pa.array(blobs[begin : begin + 5])}
        converted += writer.convert(pa.record_batch(rows)).column("img").to_pylist()
        assert open_files(tmp_path) <= 3
    assert sum(made.blobs for made in writer.close()) == 21
    assert open_files(tmp_path) == 0
    assert [bytes_of(blob) for blob in converted] == blobs


def test_blobs_nested_in_structs(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("n", pa.int64()), pa.field("scan", pa.struct([pa.field("img", pa.binary())]))])
    documents = [
        {"n": 1, "scan": {"img": b"x" * 30}},
        None,
        {"n": 2, "scan": None},
        {"n": 3, "scan": {"img": None}},
        {"n": 4, "scan": {"img": b"y"}},
    ]
    schema = pa.schema([pa.field("doc", kind, metadata={"k": "v"})], metadata={"a": "b"})
    rows = pa.record_batch([pa.array([{"n": 0, "scan": None}, *documents], kind).slice(1)], schema=schema)
    writer = BlobWriter(plan_of(tmp_path, BlobColumn("doc.scan.img", SMALL)), TASK)
    converted = writer.convert(rows)
    [made] = writer.close()
    assert made.column == "doc.scan.img"
    assert "/doc.scan.img/" in made.path
    assert converted.schema.metadata == {b"a": b"b"}
    assert converted.schema.field("doc").metadata == {b"k": b"v"}
    inner = converted.schema.field("doc").type.field("scan").type.field("img")
    assert (inner.type, inner.metadata) == (BLOB_TYPE, {b"hudi_type": b"BLOB"})
    found = converted.column("doc").to_pylist()
    assert bytes_of(found[0]["scan"].pop("img")) == b"x" * 30
    assert bytes_of(found[4]["scan"].pop("img")) == b"y"
    assert found == [
        {"n": 1, "scan": {}},
        None,
        {"n": 2, "scan": None},
        {"n": 3, "scan": {"img": None}},
        {"n": 4, "scan": {}},
    ]


def test_bytes_below_a_null_struct_are_not_written(tmp_path: Path) -> None:
    child = pa.array([b"x" * 50, b"y" * 50], pa.binary())
    parent = pa.StructArray.from_arrays([child], names=["img"], mask=pa.array([True, False]))
    writer = BlobWriter(plan_of(tmp_path, BlobColumn("doc.img", SMALL)), TASK)
    found = writer.convert(pa.record_batch({"doc": parent})).column("doc").to_pylist()
    assert [made.blobs for made in writer.close()] == [1]
    assert found[0] is None
    assert bytes_of(found[1]["img"]) == b"y" * 50


def test_paths_become_whole_files(tmp_path: Path) -> None:
    (tmp_path / "cat é.png").write_bytes(b"meow")
    (tmp_path / "empty").write_bytes(b"")
    table = tmp_path / "t"
    writer = BlobWriter(plan_of(table), TASK)
    paths = [f"{tmp_path}/cat é.png", None, f"file://{tmp_path}/empty", f"{tmp_path}/cat é.png"]
    found = writer.convert(batch_of(paths, kind=pa.string())).column("img").to_pylist()
    assert writer.close() == []
    assert [bytes_of(blob) for blob in found] == [b"meow", None, b"", b"meow"]
    assert found[0] == {
        "type": "OUT_OF_LINE",
        "data": None,
        "reference": {"external_path": paths[0], "offset": 0, "length": 4, "managed": False},
    }
    assert not table.exists()


def test_unchecked_paths_keep_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"12")
    writer = BlobWriter(plan_of(tmp_path / "t", BlobColumn("img", check_files=False)), TASK)
    paths = [f"{tmp_path}/here", f"{tmp_path}/later", "nosuch://bucket/x"]
    found = writer.convert(batch_of(paths, kind=pa.large_string())).column("img").to_pylist()
    assert [(blob["reference"]["offset"], blob["reference"]["length"]) for blob in found] == [
        (0, 2),
        (None, None),
        (None, None),
    ]


def structs(*blobs: tuple[Any, ...] | None) -> pa.StructArray:
    columns = list(zip(*[blob or (None,) * 6 for blob in blobs], strict=True))
    return blob_array(*columns)


def test_structs_are_placed_again_and_references_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    path = f"file://{tmp_path}/file"
    rows = structs(
        ("INLINE", b"small", None, None, None, None),
        ("INLINE", b"large enough", None, None, None, None),
        None,
        ("OUT_OF_LINE", None, path, 2, 3, False),
        ("OUT_OF_LINE", None, path, None, None, None),
        ("OUT_OF_LINE", None, path, 10, 0, False),
        ("OUT_OF_LINE", None, path, 4, None, False),
    )
    writer = BlobWriter(plan_of(tmp_path / "t"), TASK)
    found = writer.convert(batch_of(rows)).column("img").to_pylist()
    assert [made.blob_bytes for made in writer.close()] == [12]
    assert found[0] == rows[0].as_py()
    assert (found[1]["type"], bytes_of(found[1])) == ("OUT_OF_LINE", b"large enough")
    assert found[2] is None
    assert found[3] == rows[3].as_py()
    assert found[4]["reference"] == {"external_path": path, "offset": None, "length": None, "managed": False}
    assert found[5:] == rows.to_pylist()[5:]


def test_references_to_own_containers_pass(tmp_path: Path) -> None:
    for paths in ("absolute", "relative"):
        settings = BlobSettings(inline_threshold=0, paths=paths)
        first = BlobWriter(BlobWritePlan(str(tmp_path), new_write_id(1), (BlobColumn("img", settings),)), TASK)
        stored = first.convert(batch_of([b"abc"]))
        first.close()
        path = stored.column("img")[0]["reference"]["external_path"].as_py()
        assert path.startswith(f"file://{tmp_path}/" if paths == "absolute" else ".hoodie/blobs/img/")
        again = BlobWriter(plan_of(tmp_path, BlobColumn("img", settings)), TASK)
        assert again.convert(stored).column("img").equals(stored.column("img"))
        assert again.close() == []


def test_the_scheme_of_the_table_stays_in_references(tmp_path: Path) -> None:
    settings = BlobSettings(inline_threshold=0)
    for spelling in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}/"):
        plan = BlobWritePlan(spelling, new_write_id(1), (BlobColumn("img", settings),))
        writer = BlobWriter(plan, TASK)
        path = writer.convert(batch_of([b"abc"])).column("img")[0]["reference"]["external_path"].as_py()
        writer.close()
        assert path.startswith(f"file://{tmp_path}/.hoodie/blobs/img/")


BAD_STRUCTS = {
    "its type is 'LOCAL'; a blob is INLINE or OUT_OF_LINE": ("LOCAL", b"x", None, None, None, None),
    "it is INLINE without data": ("INLINE", None, None, None, None, None),
    "read the source with hoodie.read.blob.inline.mode=CONTENT": ("INLINE", None, "/a", 0, 1, False),
    "it is INLINE and has a reference too": ("INLINE", b"x", "/a", 0, 1, False),
    "it is OUT_OF_LINE without a reference": ("OUT_OF_LINE", None, None, None, None, None),
    "it is OUT_OF_LINE and has data too": ("OUT_OF_LINE", b"x", "/a", 0, 1, False),
    "its offset is -1; give 0 or more": ("OUT_OF_LINE", None, "{file}", -1, 1, False),
    "its length is -5; give 0 or more": ("OUT_OF_LINE", None, "{file}", 0, -5, False),
    "its range of 6 bytes from byte 5 on goes past the end of '{file}', which has 10 bytes": (
        "OUT_OF_LINE", None, "{file}", 5, 6, False,
    ),
    "its range of 9223372036854775807 bytes from byte 9223372036854775807 on": (
        "OUT_OF_LINE", None, "{file}", 2**63 - 1, 2**63 - 1, False,
    ),
    "its path '' is empty": ("OUT_OF_LINE", None, "", 0, 1, False),
    "its path 'a/b' is relative; give an absolute path or a URI": ("OUT_OF_LINE", None, "a/b", 0, 1, False),
    "its path 'file:a' is relative": ("OUT_OF_LINE", None, "file:a", 0, 1, False),
    "its path '.hoodie/blobs/x' is relative": ("OUT_OF_LINE", None, ".hoodie/blobs/x", 0, 1, True),
    "its path '/a/../b' climbs with '..'": ("OUT_OF_LINE", None, "/a/../b", 0, 1, False),
    "its path 's3a://b/../x' climbs": ("OUT_OF_LINE", None, "s3a://b/../x", 0, 1, False),
    "there is no file '/no/such'": ("OUT_OF_LINE", None, "/no/such", 0, 1, False),
    "is a folder; a blob is a file or a part of one": ("OUT_OF_LINE", None, "{folder}", 0, 1, False),
    "is managed and lies outside the table's blob area": ("OUT_OF_LINE", None, "{file}", 0, 1, True),
    "'/u/.hoodie/blobs/x' lies in the blob area of another table": ("OUT_OF_LINE", None, "/u/.hoodie/blobs/x", 0, 1, True),
    "write the bytes instead": ("OUT_OF_LINE", None, "/u/.hoodie/blobs/x", 0, 1, False),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_STRUCTS)
def test_wrong_blobs_are_refused_with_their_row(message: str, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(b"0123456789")
    folder.mkdir()
    places = {"{file}": str(file), "{folder}": str(folder)}
    blob = tuple(places.get(part, part) if isinstance(part, str) else part for part in BAD_STRUCTS[message])
    good = ("INLINE", b"x", None, None, None, None)
    writer = BlobWriter(plan_of(tmp_path / "t", BlobColumn("img")), TASK)
    writer.convert(batch_of(structs(good, good)))
    with pytest.raises(InvalidBlobError) as caught:
        writer.convert(batch_of(structs(None, good, blob, good)))
    assert str(caught.value).startswith("column 'img', row 4 of its task: ")
    assert message.replace("{file}", str(file)) in str(caught.value)


def test_a_struct_without_a_type_but_with_data_is_refused(tmp_path: Path) -> None:
    rows = pa.array([{"type": None, "data": b"x", "reference": None}], BLOB_TYPE)
    with pytest.raises(InvalidBlobError, match="row 0 of its task: it has no type, but data or a reference"):
        BlobWriter(plan_of(tmp_path), TASK).convert(batch_of(rows))


@pytest.mark.parametrize("kind", [pa.int64(), pa.list_(pa.binary()), pa.struct([("data", pa.binary())])], ids=str)
def test_other_types_are_no_blobs(kind: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(InvalidBlobError, match=r"column 'img' is .*, which is no blob; give bytes, paths of files"):
        BlobWriter(plan_of(tmp_path), TASK).convert(batch_of(pa.nulls(2, kind)))


def test_values_above_two_gigabytes_are_refused(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2**31 + 1], np.int64))
    array = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(np.zeros(2**31 + 1, np.uint8))])
    with pytest.raises(
        InvalidBlobError, match="row 1 of its task: its 2147483648 bytes are more than a value can have"
    ):
        BlobWriter(plan_of(tmp_path), TASK).convert(batch_of(array))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {"doc": pa.array([{"img": b"x"}]), "list": pa.array([[{"img": b"x"}]]), "img": pa.array([b"x"])}
    )
    for path, message in {
        "imgg": "'imgg' does not exist .* did you mean 'img'",
        "doc.pic": "'doc.pic' does not exist",
    }.items():
        with pytest.raises(UnknownColumnError, match=message):
            BlobWriter(plan_of(tmp_path, BlobColumn(path)), TASK).convert(rows)
    with pytest.raises(
        InvalidBlobError, match=r"'list.img' lies within 'list', which is list<.*nested in structs only"
    ):
        BlobWriter(plan_of(tmp_path, BlobColumn("list.img")), TASK).convert(rows)
    with pytest.raises(UnknownColumnError, match="'part' does not exist"):
        BlobWriter(plan_of(tmp_path, partition_column="part"), TASK).convert(rows)


@pytest.mark.parametrize("path", ["/a", "a//b", "../a", "a/..", "a/", "."])
def test_partition_paths_stay_within_the_blob_area(path: str, tmp_path: Path) -> None:
    rows = pa.record_batch({"part": [path], "img": pa.array([b"x" * 20])})
    with pytest.raises(InvalidArgumentError, match="is no partition path"):
        BlobWriter(plan_of(tmp_path, partition_column="part"), TASK).convert(rows)
    assert list(tmp_path.iterdir()) == []


def test_a_row_without_partition_is_refused(tmp_path: Path) -> None:
    rows = pa.record_batch({"part": pa.array(["a", None]), "img": pa.array([b"x", b"y"])})
    with pytest.raises(InvalidArgumentError, match="'part' holds the partition paths and is NULL"):
        BlobWriter(plan_of(tmp_path, partition_column="part"), TASK).convert(rows)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), BLOB_TYPE, pa.null()], ids=["bytes", "text", "blob", "null"]
)
def test_no_rows_and_only_nulls(kind: pa.DataType, tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path), TASK)
    for rows in (0, 3):
        found = writer.convert(batch_of(pa.nulls(rows, kind))).column("img")
        assert found.type == BLOB_TYPE
        assert found.null_count == len(found) == rows
    assert writer.close() == []
    assert list(tmp_path.iterdir()) == []


def test_plans_travel_without_showing_secrets(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, options=StorageOptions((("fs.s3a.secret.key", "the-secret"),)))
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert "the-secret" not in repr(plan)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"write_id": "../other"}, "'../other' is no write id; take that of open_upload"),
        ({"most_open": 0}, "most_open = 0 is not allowed: give 1 or more"),
        ({"columns": (BlobColumn("a/b"),)}, "'a/b' is no path of a column"),
        ({"columns": (BlobColumn("a..b"),)}, "'a..b' is no path of a column"),
        ({"columns": (BlobColumn("img"), BlobColumn("img"))}, "'img' is named more than once"),
    ],
)
def test_wrong_plans_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BlobWritePlan(**{"table": "/t", "write_id": WRITE, "columns": (BlobColumn("img"),), **wrong})


def test_two_attempts_never_share_a_file(tmp_path: Path) -> None:
    first = BlobWriter(plan_of(tmp_path), TaskAttempt(3, 17))
    first.convert(batch_of([b"first" * 5]))
    again = BlobWriter(plan_of(tmp_path), TaskAttempt(3, 18))
    again.convert(batch_of([b"again" * 5]))
    same = BlobWriter(plan_of(tmp_path), TaskAttempt(3, 17))
    with pytest.raises(BlobWriteError, match="File exists"):
        same.convert(batch_of([b"same" * 5]))
    assert len({made.path for writer in (first, again) for made in writer.close()}) == 2


def test_a_writer_that_has_ended_takes_nothing_more(tmp_path: Path) -> None:
    writer = BlobWriter(plan_of(tmp_path), TASK)
    writer.close()
    for use in (writer.close, lambda: writer.convert(batch_of([b"x"]))):
        with pytest.raises(BlobWriteError, match="has ended"):
            use()


def test_bytes_are_durable_when_close_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: dict[str, int] = {}
    real = os.fsync

    def watched(descriptor: int) -> None:
        real(descriptor)
        synced[os.readlink(f"/proc/self/fd/{descriptor}")] = os.fstat(descriptor).st_size

    monkeypatch.setattr("os.fsync", watched)
    writer = BlobWriter(plan_of(tmp_path), TASK)
    for _ in range(5):
        writer.convert(batch_of([b"x" * 1000] * 2))
    written = writer.close()
    assert len(written) == 4
    for made in written:
        assert synced[str(tmp_path / made.path)] == made.bytes, "synced after its last byte"


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
@pytest.mark.parametrize("step", range(1, 19))
def test_a_crash_between_any_two_steps_leaves_only_what_the_manifest_names(
    step: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step-th call to storage or a container fails; the write's open manifest covers all that is there."""
    from hudi_vector.blobs.containers import lance as container_lance
    from hudi_vector.blobs.containers import parquet as container_parquet
    from hudi_vector.blobs.containers import raw as container_raw
    from hudi_vector.storage import NewFile, Storage

    calls = 0

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError("disk full")
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    settings = BlobSettings(inline_threshold=0, max_element_size=40, max_file_size=100, format=form)
    upload = open_upload(str(tmp_path), {"img": settings}, lease_ms=1000, now_ms=0)
    counted(Storage, "create")
    counted(NewFile, "close")
    counted(Storage, "sync")
    for module, name in (
        (container_raw, "RawContainer"),
        (container_parquet, "ParquetContainer"),
        (container_lance, "LanceContainer"),
    ):
        counted(getattr(module, name), "append")
        counted(getattr(module, name), "close")
    plan = BlobWritePlan(str(tmp_path), upload.write_id, (BlobColumn("img", settings),))
    failed = False
    try:
        with BlobWriter(plan, TASK) as writer:
            for _ in range(2):
                writer.convert(batch_of([b"a" * 30, b"b" * 60]))
            written = writer.close()
        stage(str(tmp_path), upload.write_id, written, now_ms=1)
    except BlobWriteError as problem:
        assert "disk full" in str(problem)
        failed = True
    except OSError:
        failed = True
    monkeypatch.undo()
    assert failed == (calls >= step)
    assert open_files(tmp_path) == 0
    for path in written_files(tmp_path):
        name = ContainerName.parse("t", f"t/{path}")
        assert name is not None, path
        assert name.write_id == upload.write_id
    [found] = list_uploads(str(tmp_path))
    assert found.may_commit(500)
    assert not found.may_commit(2000)
    assert found.state == ("open" if failed else "staged")


def test_a_failure_closes_every_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers stay alive, so that nothing is closed by the garbage collector."""

    def two_open() -> BlobWriter:
        writer = BlobWriter(plan_of(tmp_path, partition_column="part"), TaskAttempt(0, len(alive)))
        writer.convert(pa.record_batch({"part": ["a", "b"], "img": pa.array([b"x" * 20] * 2)}))
        assert open_files(tmp_path) == 2
        alive.append(writer)
        return writer

    alive: list[BlobWriter] = []
    with pytest.raises(UnknownColumnError):
        two_open().convert(batch_of([b"x"]))
    assert open_files(tmp_path) == 0, "convert failed"

    with pytest.raises(KeyboardInterrupt), two_open():
        raise KeyboardInterrupt
    assert open_files(tmp_path) == 0, "the caller failed"

    def full(_: int) -> None:
        raise OSError("disk full")

    writer = two_open()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        BlobWriteError, match=r"the container '.hoodie/blobs/a/img/.*' cannot be written: disk full"
    ) as e:
        writer.close()
    assert open_files(tmp_path) == 0, "close failed"
    assert e.tb is not None, "what the frames of the failure hold was alive too"
    with pytest.raises(BlobWriteError, match="has ended"):
        writer.close()


KILLED = """
import os, signal, sys
import pyarrow as pa
from hudi_vector.blobs.uploads.manifest import open_upload
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt

table, form = sys.argv[1:]
settings = BlobSettings(inline_threshold=0, format=form)
upload = open_upload(table, {"img": settings}, lease_ms=1000, now_ms=0)
writer = BlobWriter(BlobWritePlan(table, upload.write_id, (BlobColumn("img", settings),)), TaskAttempt(0, 0))
writer.convert(pa.record_batch({"img": [b"x" * 20_000_000]}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("form", ["raw", "parquet", "lance"])
def test_what_a_killed_process_leaves_lies_in_the_folder_of_its_write(form: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), form], env=environment, timeout=120, check=False)
    assert ran.returncode == -signal.SIGKILL
    [upload] = list_uploads(str(tmp_path))
    assert (upload.state, upload.may_commit(999), upload.may_commit(1000)) == ("open", True, False)
    left = written_files(tmp_path)
    assert left
    assert all(path.startswith(f".hoodie/blobs/img/{upload.write_id}/") for path in left)
    ours = [path for path in left if ContainerName.parse("t", f"t/{path}")]
    assert len(ours) == 1
    others = {path.rpartition("/")[2][:4] for path in left if path not in ours}
    assert others <= ({".tmp"} if form == "lance" else set())
