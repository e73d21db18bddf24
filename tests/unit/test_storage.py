"""Paths and credentials."""

from __future__ import annotations

import importlib.util
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from hudi_vector.errors import DataFileError, HudiVectorError, MissingDependencyError, UnsupportedTableError
from hudi_vector.storage import (
    Storage,
    StorageOptions,
    hudi_rs_options,
    join,
    lance_options,
    normalise,
    open_storage,
    root_of,
    scheme_of,
)
from hudi_vector.storage.credentials.clients import azure_arguments, gcs_arguments
from hudi_vector.storage.writeback import begin_writeback

S3 = {
    "spark.hadoop.fs.s3a.endpoint": "http://localhost:9000",
    "fs.s3a.access.key": "the-key",
    "fs.s3a.secret.key": "the-secret",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("/tables/a", "file:///tables/a"),
        ("/tables//a/", "file:///tables/a"),
        ("/tables/./b/../a", "file:///tables/a"),
        ("file:/tables/a", "file:///tables/a"),
        ("file:///tables/a/", "file:///tables/a"),
        ("FILE:///tables/a", "file:///tables/a"),
        ("/a b/ü", "file:///a b/ü"),
        ("s3a://bucket/a/", "s3://bucket/a"),
        ("s3n://bucket//a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("S3A://Bucket/A", "s3://Bucket/A"),
        ("gs://bucket/a/../b", "gs://bucket/b"),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
    ],
)
def test_one_spelling_for_one_place(given: str, wanted: str) -> None:
    assert normalise(given) == wanted
    assert normalise(wanted) == wanted


def test_a_relative_path_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalise("t") == f"file://{tmp_path}/t"
    assert normalise("./year=2026/a:b") == f"file://{tmp_path}/year=2026/a:b"


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [("/a", "file"), ("a", "file"), ("a/b:c", "file"), ("s3a://b", "s3"), ("GS://b", "gs"), ("C:/x", "file")],
)
def test_schemes(uri: str, scheme: str) -> None:
    assert scheme_of(uri) == scheme


def test_join_leaves_out_what_is_empty() -> None:
    assert join("s3://b/t", ".hoodie", "", "x") == "s3://b/t/.hoodie/x"


def test_only_storage_settings_are_kept_in_one_order() -> None:
    made = StorageOptions.of(S3)
    assert made == StorageOptions.of(dict(reversed(S3.items())))
    assert made.get("fs.s3a.endpoint") == "http://localhost:9000"
    assert made.get("spark.sql.shuffle.partitions") is None
    assert pickle.loads(pickle.dumps(made)) == made


def test_secrets_are_masked() -> None:
    made = StorageOptions.of(S3)
    for text in (repr(made), str(made), f"{made}", repr([made])):
        assert "the-secret" not in text
        assert "the-key" not in text
        assert "fs.s3a.secret.key=***" in text


def test_the_words_of_hudi_rs() -> None:
    mapped = hudi_rs_options("s3", StorageOptions.of(S3))
    assert mapped == {
        "aws_access_key_id": "the-key",
        "aws_secret_access_key": "the-secret",
        "aws_region": "us-east-1",
        "aws_endpoint": "http://localhost:9000",
        "aws_allow_http": "true",
    }
    assert lance_options("s3", StorageOptions.of(S3)) == mapped
    assert hudi_rs_options("file", StorageOptions.of(S3)) == {}
    assert lance_options("file", StorageOptions()) is None


@pytest.mark.parametrize(
    ("settings", "endpoint"),
    [
        ({"fs.s3a.endpoint": "host:1"}, "https://host:1"),
        ({"fs.s3a.endpoint": "host:1", "fs.s3a.connection.ssl.enabled": "false"}, "http://host:1"),
        ({"fs.s3a.endpoint": "https://host", "fs.s3a.connection.ssl.enabled": "false"}, "https://host"),
        ({}, None),
    ],
)
def test_endpoints(settings: dict[str, str], endpoint: str | None) -> None:
    assert hudi_rs_options("s3", StorageOptions.of(settings)).get("aws_endpoint") == endpoint


def test_local_files_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(b"12")
    (tmp_path / "a" / "b" / "y").write_bytes(b"345")
    storage = open_storage("file:///", StorageOptions())
    uri = normalise(str(tmp_path / "a"))
    assert [(info.name, info.size) for info in storage.list_files(uri)] == [("x", 2)]
    assert sorted(info.uri for info in storage.list_files(uri, recursive=True)) == [f"{uri}/b/y", f"{uri}/x"]
    assert storage.list_folders(uri) == ["b"]
    assert storage.read(f"{uri}/x") == b"12"
    found = storage.info(f"{uri}/x")
    assert found is not None
    assert found == storage.list_files(uri)[0], "a listing and a look see one identity"
    assert storage.info(f"{uri}/z") is None
    assert storage.list_files(f"{uri}/absent") == storage.list_folders(f"{uri}/absent") == []
    with pytest.raises(FileNotFoundError):
        storage.read(f"{uri}/z")
    with pytest.raises(DataFileError) as gone:
        storage.open(f"{uri}/z")
    assert str(gone.value) == f"the data file '{uri}/z' cannot be opened: it is gone"


def test_an_unknown_scheme_is_refused_in_one_sentence() -> None:
    with pytest.raises(HudiVectorError, match="nosuch://"):
        open_storage("nosuch://a/b", StorageOptions())


AZURE = "abfss://lake@acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/a/b", "file://"),
        ("s3a://bucket/a", "s3://"),
        ("gs://bucket/a", "gs://"),
        ("hdfs://name:8020/a", "hdfs://name:8020"),
        ("hdfs://cluster", "hdfs://cluster"),
        (f"{AZURE}/a/b", AZURE),
    ],
)
def test_what_one_file_system_serves(uri: str, root: str) -> None:
    assert root_of(uri) == root


def test_paths_on_azure_begin_with_the_container() -> None:
    storage = open_storage(f"{AZURE}/a", StorageOptions.of({"fs.azure.account.key": "a2V5"}))
    assert storage.scheme == "abfss"
    assert storage.path(f"{AZURE}/a/b") == "lake/a/b"
    assert storage.uri("lake/a/b") == f"{AZURE}/a/b"
    assert open_storage(f"{AZURE}/c", StorageOptions.of({"fs.azure.account.key": "a2V5"})) is storage


HOST = "acme.dfs.core.windows.net"
OAUTH = {
    f"fs.azure.account.oauth2.client.id.{HOST}": "id",
    f"fs.azure.account.oauth2.client.secret.{HOST}": "secret",
    f"fs.azure.account.oauth2.client.endpoint.{HOST}": "https://login.microsoftonline.com/the-tenant/oauth2/token",
}


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, {}),
        ({f"fs.azure.account.key.{HOST}": "k", "fs.azure.account.key.other.dfs.core.windows.net": "o"},
         {"account_key": "k"}),
        ({"fs.azure.sas.fixed.token": "s"}, {"sas_token": "s"}),
        (OAUTH, {"client_id": "id", "client_secret": "secret", "tenant_id": "the-tenant"}),
    ],
)  # fmt: skip
def test_the_words_of_azure(settings: dict[str, str], arguments: dict[str, str]) -> None:
    assert azure_arguments(HOST, StorageOptions.of(settings)) == {"account_name": "acme", **arguments}


def test_an_account_of_another_cloud_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match=r"'acme\.example\.org' is no storage account of Azure"):
        open_storage("abfss://lake@acme.example.org/a", StorageOptions())


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, {}),
        ({"fs.gs.auth.type": "unauthenticated"}, {"token": "anon"}),
        (
            {"fs.gs.auth.service.account.json.keyfile": "/k.json", "fs.gs.project.id": "p"},
            {"token": "/k.json", "project": "p"},
        ),
        ({"fs.gs.storage.root.url": "http://localhost:4443"}, {"endpoint_url": "http://localhost:4443"}),
    ],
)
def test_the_words_of_google(settings: dict[str, str], arguments: dict[str, str]) -> None:
    assert gcs_arguments(StorageOptions.of(settings)) == arguments


@pytest.mark.parametrize(
    ("uri", "extra", "package"), [("gs://b/k", "gcs", "gcsfs"), ("hdfs://n/k", "hdfs", "hdfs_native")]
)
def test_a_driver_that_is_not_installed_names_its_extra(uri: str, extra: str, package: str) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingDependencyError, match=rf"install hudi-vector\[{extra}\]"):
        open_storage(uri, StorageOptions())


def test_a_new_file_is_created_once_with_its_folders(tmp_path: Path) -> None:
    storage = open_storage("file:///", StorageOptions())
    uri = normalise(str(tmp_path / "a" / "b" / "x"))
    file = storage.create(uri)
    file.write(b"12")
    file.write(memoryview(b"345"))
    file.close()
    assert storage.read(uri) == b"12345"
    with pytest.raises(FileExistsError):
        storage.create(uri)
    assert storage.read(uri) == b"12345", "what is there is not touched"


def test_a_discarded_file_keeps_what_was_written(tmp_path: Path) -> None:
    storage = open_storage("file:///", StorageOptions())
    file = storage.create(normalise(str(tmp_path / "x")))
    file.write(b"12")
    file.discard()
    assert file.stream.closed
    assert (tmp_path / "x").read_bytes() == b"12"


def test_a_published_file_appears_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("file:///", StorageOptions())
    uri = normalise(str(tmp_path / "a" / "x"))
    storage.publish(uri, b"1")
    assert [info.name for info in storage.list_files(normalise(str(tmp_path)), recursive=True)] == ["x"]
    assert storage.read(uri) == b"1"

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        storage.publish(f"{uri}2", b"2")
    assert storage.info(f"{uri}2") is None
    monkeypatch.undo()
    storage.publish(f"{uri}2", b"2")  # what the crash left is in nobody's way
    assert storage.read(f"{uri}2") == b"2"


def test_files_and_the_folders_that_name_them_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("os.fsync", watched)
    storage = open_storage("file:///", StorageOptions())
    file = storage.create(normalise(str(tmp_path / "a" / "b" / "x")))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    file.write(b"1")
    file.close()
    assert synced[2:] == [str(tmp_path / "a" / "b" / "x"), str(tmp_path / "a" / "b")]
    storage.sync(normalise(str(tmp_path / "a" / "b" / "x")))
    assert synced[4:] == synced[2:4]


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """A storage that renames and one that copies, with an empty folder on it."""
    uri = f"file://{tmp_path}" if request.param == "file" else f"memory:///{tmp_path.name}"
    storage = open_storage(uri, StorageOptions())
    yield storage, uri
    for info in storage.list_files(uri, recursive=True):
        storage.delete(info.uri)


def test_a_file_moves_and_goes(place: tuple[Storage, str]) -> None:
    storage, uri = place
    storage.publish(f"{uri}/a/x", b"12")
    storage.move(f"{uri}/a/x", f"{uri}/b/c/y")
    assert [info.uri for info in storage.list_files(uri, recursive=True)] == [f"{uri}/b/c/y"]
    assert storage.read(f"{uri}/b/c/y") == b"12"
    with pytest.raises(FileNotFoundError):
        storage.move(f"{uri}/a/x", f"{uri}/d/x")
    assert "d" not in storage.list_folders(uri)
    storage.publish(f"{uri}/a/x", b"3")
    with pytest.raises(FileExistsError, match="is there already"):
        storage.move(f"{uri}/a/x", f"{uri}/b/c/y")
    assert (storage.read(f"{uri}/a/x"), storage.read(f"{uri}/b/c/y")) == (b"3", b"12")
    assert [storage.delete(f"{uri}/a/x") for _ in range(2)] == [True, False]
    assert storage.info(f"{uri}/a/x") is None


def test_a_file_keeps_its_time_when_it_moves_unless_told(tmp_path: Path) -> None:
    storage, uri = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    (tmp_path / "x").write_bytes(b"1")
    os.utime(tmp_path / "x", ns=(1, 1_000_000_000))
    storage.move(f"{uri}/x", f"{uri}/y")
    assert (tmp_path / "y").stat().st_mtime_ns == 1_000_000_000
    storage.move(f"{uri}/y", f"{uri}/z", renew=True)
    assert (tmp_path / "z").stat().st_mtime > 1_700_000_000


def test_links_are_moved_and_deleted_themselves(tmp_path: Path) -> None:
    storage, uri = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        storage.move(f"{uri}/x", f"{uri}/broken")
    storage.move(f"{uri}/link", f"{uri}/moved")
    assert (tmp_path / "moved").is_symlink()
    assert storage.delete(f"{uri}/moved")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_bytes_of_a_large_file_are_on_their_way_before_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def watched(descriptor: int, offset: int, count: int) -> None:
        assert os.fstat(descriptor).st_size == offset + count, "no byte is left in a buffer of this process"
        begun.append((offset, count))
        begin_writeback(descriptor, offset, count)

    monkeypatch.setattr("hudi_vector.storage.begin_writeback", watched)
    storage = open_storage("file:///", StorageOptions())
    content = os.urandom(1 << 20) * 21
    file = storage.create(normalise(str(tmp_path / "large")))
    for begin in range(0, len(content), 1000 << 10):
        file.write(memoryview(content)[begin : begin + (1000 << 10)])
    file.close()
    assert (tmp_path / "large").read_bytes() == content
    assert [offset for offset, _ in begun] == [0, begun[0][1]]
    assert all(count >= 8 << 20 for _, count in begun)
    storage.publish(normalise(str(tmp_path / "small")), b"a few bytes")
    assert len(begun) == 2


def test_both_folders_of_a_move_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    (tmp_path / "x").write_bytes(b"1")
    storage, uri = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    storage.move(f"{uri}/x", f"{uri}/a/x")
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path)]
    storage.delete(f"{uri}/a/x")
    assert synced[3:] == [str(tmp_path / "a")]


def test_large_objects_are_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"memory:///{tmp_path.name}"
    storage = open_storage(uri, StorageOptions())
    monkeypatch.setattr("hudi_vector.storage._ONE_COPY_BYTES", 10)
    monkeypatch.setattr("hudi_vector.storage._PIECE_BYTES", 7)
    storage.publish(f"{uri}/x", bytes(range(100)))
    storage.move(f"{uri}/x", f"{uri}/y")
    assert storage.read(f"{uri}/y") == bytes(range(100))
    assert storage.info(f"{uri}/x") is None

    monkeypatch.setattr(storage, "filesystem", _CutOff(storage.filesystem))
    with pytest.raises(OSError, match="the line is cut"):
        storage.move(f"{uri}/y", f"{uri}/z")
    assert storage.info(f"{uri}/z") is None, "no part of a file is left"
    assert storage.read(f"{uri}/y") == bytes(range(100))
    storage.delete(f"{uri}/y")


class _CutOff:
    """A file system whose output breaks after a first piece."""

    def __init__(self, real: pafs.FileSystem) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def open_output_stream(self, path: str) -> object:
        real = self._real.open_output_stream(path)

        class Stream:
            written = 0

            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                real.close()

            def write(self, piece: bytes) -> None:
                if self.written:
                    raise OSError("the line is cut")
                self.written = real.write(piece)

        return Stream()


def test_a_file_that_somebody_else_removes_meanwhile_is_no_error(monkeypatch):
    storage = open_storage("memory:///", StorageOptions())
    storage.publish("memory:///removed/twice", b"x")
    seen = storage.info("memory:///removed/twice")
    assert storage.delete("memory:///removed/twice")
    monkeypatch.setattr(type(storage), "info", lambda *_: seen)
    assert not storage.delete("memory:///removed/twice")
