"""Paths and credentials."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.storage import (
    StorageOptions,
    hudi_rs_options,
    join,
    lance_options,
    normalise,
    open_storage,
    scheme_of,
)

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
    storage = open_storage("file", StorageOptions())
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
    with pytest.raises(DataFileError, match="cannot be opened"):
        storage.open(f"{uri}/z")


def test_an_unknown_scheme_is_refused_in_one_sentence() -> None:
    with pytest.raises(HudiVectorError, match="nosuch://"):
        open_storage("nosuch", StorageOptions())


def test_a_new_file_is_created_once_with_its_folders(tmp_path: Path) -> None:
    storage = open_storage("file", StorageOptions())
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
    storage = open_storage("file", StorageOptions())
    file = storage.create(normalise(str(tmp_path / "x")))
    file.write(b"12")
    file.discard()
    assert file.stream.closed
    assert (tmp_path / "x").read_bytes() == b"12"


def test_a_published_file_appears_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("file", StorageOptions())
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


def test_files_and_the_folders_that_name_them_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("os.fsync", watched)
    storage = open_storage("file", StorageOptions())
    file = storage.create(normalise(str(tmp_path / "a" / "b" / "x")))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    file.write(b"1")
    file.close()
    assert synced[2:] == [str(tmp_path / "a" / "b" / "x"), str(tmp_path / "a" / "b")]
    storage.sync(normalise(str(tmp_path / "a" / "b" / "x")))
    assert synced[4:] == synced[2:4]
