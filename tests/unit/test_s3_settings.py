"""Hadoop's settings of S3 as pyarrow, hudi-rs and Lance get them; what they cannot be told is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import servers

from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import BlobReadError, InvalidOptionError, UnsupportedTableError
from hudi_vector.storage import StorageOptions, hudi_rs_options, lance_options, open_storage
from hudi_vector.storage.credentials.s3 import s3_arguments
from hudi_vector.storage.settings import bucket_settings

KEYS = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "s"}
PROVIDER = "fs.s3a.aws.credentials.provider"
AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE")


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for key in AWS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE", raising=False)


def credentials(settings: dict[str, str]) -> dict[str, Any]:
    found = s3_arguments(StorageOptions.of(settings))
    pafs.S3FileSystem(**found, **({} if "region" in found else {"region": "us-east-1"}))  # they are its arguments
    return {key: value for key, value in found.items() if key != "scheme"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", None), ("1500", 1.5), ("200ms", 0.2), ("5s", 5.0), (" 2M ", 120.0), ("1h", 3600.0)]
)
def test_timeouts_are_in_hadoop_s_words(text: str, seconds: float | None) -> None:
    for key, name in (("establish", "connect_timeout"), ("request", "request_timeout")):
        found = credentials({**KEYS, f"fs.s3a.connection.{key}.timeout": text})
        assert found.get(name) == seconds
        with pytest.raises(
            InvalidOptionError, match=rf"fs.s3a.connection.{key}.timeout = '{text.strip().lower()}x' is"
        ):
            credentials({**KEYS, f"fs.s3a.connection.{key}.timeout": f"{text.strip()}x"})


def provided(*names: str, package: str = "org.apache.hadoop.fs.s3a.", **more: str) -> dict[str, str]:
    return {PROVIDER: " ,\n ".join(package + name for name in names), **more}


SESSION = {**KEYS, "fs.s3a.session.token": "t"}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {}),
        (KEYS, {"access_key": "a", "secret_key": "s"}),
        (SESSION, {"access_key": "a", "secret_key": "s", "session_token": "t"}),
        ({**SESSION, **provided("SimpleAWSCredentialsProvider")}, {"access_key": "a", "secret_key": "s"}),
        (
            {**SESSION, **provided("TemporaryAWSCredentialsProvider")},
            {"access_key": "a", "secret_key": "s", "session_token": "t"},
        ),
        ({**KEYS, **provided("AnonymousAWSCredentialsProvider")}, {"anonymous": True}),
        (provided("SimpleAWSCredentialsProvider", "AnonymousAWSCredentialsProvider"), {"anonymous": True}),
        (
            {**KEYS, **provided("TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider")},
            {"access_key": "a", "secret_key": "s"},
        ),
        (provided("DefaultAWSCredentialsProviderChain", package="com.amazonaws.auth."), {}),
        (provided("SimpleAWSCredentialsProvider", "IAMInstanceCredentialsProvider"), {}),
        (provided("InstanceProfileCredentialsProvider", package="com.amazonaws.auth."), {}),
        (
            {"fs.s3a.proxy.host": "p", "fs.s3a.proxy.port": "81", "fs.s3a.proxy.username": "u"},
            {"proxy_options": {"scheme": "http", "host": "p", "port": 81, "username": "u"}},
        ),
        ({"fs.s3a.encryption.algorithm": "SSE-KMS"}, {}),
    ],
)
def test_what_pyarrow_can_say(settings: dict[str, str], wanted: dict[str, Any]) -> None:
    assert credentials(settings) == wanted


def test_the_environment_is_asked_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("EnvironmentVariableCredentialsProvider", "AnonymousAWSCredentialsProvider")
    assert credentials(provided(*names)) == {"anonymous": True}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "f")
    assert credentials({**KEYS, **provided(*names)}) == {"access_key": "e", "secret_key": "f"}
    with pytest.raises(UnsupportedTableError, match="take the credentials of the environment before those of the mach"):
        credentials(provided("IAMInstanceCredentialsProvider"))


HADOOPS_OWN = (
    *("TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider"),
    *("EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider"),
)


def test_hadoops_own_list_which_every_session_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials(provided(*HADOOPS_OWN)) == {}
    assert credentials({**SESSION, **provided(*HADOOPS_OWN)})["session_token"] == "t"
    assert credentials({**KEYS, **provided(*HADOOPS_OWN)}) == {"access_key": "a", "secret_key": "s"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "f")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "g")
    assert credentials(provided(*HADOOPS_OWN)) == {"access_key": "e", "secret_key": "f", "session_token": "g"}


def test_what_pyarrow_finds_by_itself_is_what_was_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    web, profile = "WebIdentityTokenCredentialsProvider", "ProfileCredentialsProvider"
    for name in (web, profile):
        with pytest.raises(UnsupportedTableError, match="none of these providers has credentials here"):
            credentials(provided(name))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    assert credentials(provided(web)) == credentials(provided(profile, web)) == {}
    with pytest.raises(UnsupportedTableError, match="the credentials of the web identity before those of the machine"):
        credentials(provided("IAMInstanceCredentialsProvider"))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\n")
    assert credentials(provided(profile)) == {}
    with pytest.raises(UnsupportedTableError, match="the credentials of the profile before those of the web identity"):
        credentials(provided(web))


ROLE = {**provided("auth.AssumedRoleCredentialProvider"), "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r"}


def test_a_role_that_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "fs.s3a.assumed.role.credentials.provider"
    more = {asked: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain", "fs.s3a.assumed.role.session.name": "n"}
    named = {"role_arn": "arn:aws:iam::1:role/r", "session_name": "n"}
    assert s3_arguments(StorageOptions.of({**ROLE, **more})) == {**named, "scheme": "https"}
    with pytest.raises(UnsupportedTableError, match=r"pyarrow takes no keys to assume a role with; let Spark read it"):
        s3_arguments(StorageOptions.of({**ROLE, **KEYS}))
    with pytest.raises(UnsupportedTableError, match="none of these has credentials here"):
        s3_arguments(StorageOptions.of(ROLE))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "f")
    assert s3_arguments(StorageOptions.of(ROLE))["role_arn"] == "arn:aws:iam::1:role/r"
    for key in ("policy", "sts.endpoint"):
        with pytest.raises(UnsupportedTableError, match=f"fs.s3a.assumed.role.{key} = 'x' has no counterpart"):
            s3_arguments(StorageOptions.of({**ROLE, f"fs.s3a.assumed.role.{key}": "x"}))
    with pytest.raises(UnsupportedTableError, match="known to neither hudi-rs nor Lance; let Spark read it"):
        lance_options("s3", StorageOptions.of(ROLE))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (provided("MyProvider", package="com.example."), f"{PROVIDER} = 'MyProvider' has no counterpart"),
        ({**KEYS, **provided("MyProvider", "SimpleAWSCredentialsProvider")}, "pyarrow knows no such provider"),
        (provided("SimpleAWSCredentialsProvider"), "none of these providers has credentials here"),
        (provided("auth.AssumedRoleCredentialProvider"), r"fs.s3a.assumed.role.arn is not set"),
        ({"fs.s3a.security.credential.provider.path": "jceks://x"}, "for Java alone"),
        ({"hadoop.security.credential.provider.path": "jceks://x"}, "for Java alone"),
        ({**KEYS, "fs.s3a.encryption.algorithm": "SSE-C"}, "encrypted with a key that only Hadoop is given"),
        ({**KEYS, "fs.s3a.encryption.algorithm": "CSE-KMS"}, "fs.s3a.encryption.algorithm = 'CSE-KMS'"),
        ({**KEYS, "fs.s3a.server-side-encryption-algorithm": "SSE-C"}, "server-side-encryption-algorithm = 'SSE-C'"),
    ],
)
def test_what_only_hadoop_can_follow_is_refused(settings: dict[str, str], message: str) -> None:
    options = StorageOptions.of(settings)
    for opened in (lambda: open_storage("s3a://lake/t", options), lambda: hudi_rs_options("s3", options)):
        with pytest.raises(UnsupportedTableError, match=message) as refused:
            opened()
        assert str(refused.value).endswith("let Spark read it")
    with pytest.raises(BlobReadError, match=message):
        BlobFetcher(options).fetch(BlobColumns.of(blob_rows([("s3a://lake/x", 0, 1)])))


def test_keys_of_credential_files_do_not_matter_where_plain_ones_are_given() -> None:
    assert credentials({**KEYS, "fs.s3a.security.credential.provider.path": "jceks://x"})["access_key"] == "a"


NAMES = st.sampled_from(["lake", "my.lake", "my", "other"])
OPTIONS = st.sampled_from(["endpoint", "access.key", "secret.key", "path.style.access"])


@given(st.dictionaries(st.tuples(st.none() | NAMES, OPTIONS), st.sampled_from("123"), max_size=8), NAMES)
def test_settings_of_a_bucket_go_before_those_of_all(made: dict[tuple[str | None, str], str], bucket: str) -> None:
    keys = {f"fs.s3a.{'' if name is None else f'bucket.{name}.'}{key}": value for (name, key), value in made.items()}
    found = dict(bucket_settings(StorageOptions.of(keys).values, bucket))
    for key in ("endpoint", "access.key", "secret.key", "path.style.access"):
        assert found.get(f"fs.s3a.{key}") == made.get((bucket, key), made.get((None, key))), key
    assert not any(key.startswith("fs.s3a.bucket.other.") for key in found)


def test_settings_without_buckets_stay_the_same_object() -> None:
    options = StorageOptions.of(KEYS)
    assert options.at("s3a://lake/t") is options
    assert StorageOptions.of({"fs.s3a.bucket.lake.access.key": "x"}).at("file:///t").values != ()
    assert "x" not in repr(StorageOptions.of({"fs.s3a.bucket.lake.secret.key": "x"}).at("s3://lake"))


def test_anonymous_in_the_words_of_hudi_rs_and_lance() -> None:
    options = StorageOptions.of(provided("AnonymousAWSCredentialsProvider"))
    assert lance_options("s3", options) == {"aws_skip_signature": "true"}


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[str, str]]:
    """Two S3-compatible servers, each with a bucket of the name of its own, and an object in it."""
    with servers.object_store() as first, servers.object_store() as second:
        for endpoint, name in ((first, "first"), (second, "second.lake")):
            keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
            client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
            client.create_bucket(Bucket=name)
            client.put_object(Bucket=name, Key="x", Body=name.encode(), ACL="public-read")
            client.put_object(Bucket=name, Key="private", Body=b"y")
        yield first, second


def test_each_bucket_is_opened_with_its_own_settings(stores: tuple[str, str]) -> None:
    first, second = stores
    own = {"endpoint": second, "access.key": "k", "secret.key": "s", "path.style.access": "true"}
    settings = {
        "fs.s3a.endpoint": first,
        **KEYS,
        **{f"fs.s3a.bucket.second.lake.{key}": value for key, value in own.items()},
    }
    options = StorageOptions.of({f"spark.hadoop.{key}": value for key, value in settings.items()})
    places = {"s3a://first/x": b"first", "s3://second.lake/x": b"second.lake"}
    for uri, content in places.items():
        assert open_storage(uri, options).read(uri.replace("s3a", "s3")) == content
    blobs = BlobColumns.of(blob_rows([(uri, 0, len(content)) for uri, content in places.items()]))
    assert BlobFetcher(options).fetch(blobs).to_pylist() == list(places.values())
    assert (lance_options("s3", options.at("s3://second.lake/x")) or {})["aws_endpoint"] == second
    assert (lance_options("s3", options.at("s3://first/x")) or {})["aws_endpoint"] == first


def test_a_bucket_that_all_may_read_is_read_without_keys(stores: tuple[str, str]) -> None:
    first, _ = stores
    settings = provided("AnonymousAWSCredentialsProvider", **{"fs.s3a.endpoint": first})
    storage = open_storage("s3a://first/x", StorageOptions.of(settings))
    assert storage.read("s3://first/x") == b"first"
    with pytest.raises(PermissionError, match="'first/private' may not be read with these credentials"):
        storage.read("s3://first/private")
