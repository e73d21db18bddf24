"""Which bundle is chosen: argument, environment, a jar put by hand, the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_vector.errors import InvalidArgumentError, SessionError
from hudi_vector.jars import Bundle, bundle_for, known_bundles

COORDINATE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    file = tmp_path / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
    file.touch()
    return file


def test_the_list() -> None:
    bundles = known_bundles()
    assert list(bundles) == ["3.4", "3.5", "4.0", "4.1"]
    assert [spark for spark, bundle in bundles.items() if bundle.proved] == ["3.5"]
    assert bundles["4.0"].location == "org.apache.hudi:hudi-spark4.0-bundle_2.13:1.2.0"
    assert not any(bundle.is_file for bundle in bundles.values())


@pytest.mark.parametrize("version", ["3.5", "3.5.0", "3.5.9", "3.5.1.dev0"])
def test_the_list_decides_by_minor_version(version: str) -> None:
    assert bundle_for(version, environment={}, directories=()) == Bundle(COORDINATE, is_file=False, proved=True)


def test_a_jar_put_by_hand_comes_before_the_list(jar: Path) -> None:
    assert bundle_for("3.5.9", environment={}, directories=(jar.parent,)) == Bundle(str(jar), is_file=True)
    assert not bundle_for("3.4.1", environment={}, directories=(jar.parent,)).is_file


def test_the_environment_comes_before_a_jar_put_by_hand(jar: Path) -> None:
    environment = {"HUDI_VECTOR_BUNDLE": "g:a:1"}
    assert bundle_for("3.5.9", environment=environment, directories=(jar.parent,)) == Bundle("g:a:1", is_file=False)


def test_the_argument_comes_first(jar: Path) -> None:
    environment = {"HUDI_VECTOR_BUNDLE": "g:a:1"}
    assert bundle_for("9.9", str(jar), environment, ()) == Bundle(str(jar), is_file=True)
    remote = "s3://bucket/hudi.jar"
    assert bundle_for("9.9", remote, environment, ()) == Bundle(remote, is_file=True)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_VECTOR_BUNDLE", "g:a:2")
    assert bundle_for("3.5.9").location == "g:a:2"


def test_an_unknown_spark_says_what_is_known() -> None:
    with pytest.raises(SessionError, match=r"Spark 2\.4\.8; known are 3\.4, 3\.5, 4\.0, 4\.1"):
        bundle_for("2.4.8", environment={}, directories=())


@pytest.mark.parametrize("name", ["hudi", "g:a", "g::1", "a:b:c:d"])
def test_a_name_that_is_no_bundle(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="names no Hudi bundle"):
        bundle_for("3.5.9", name)


def test_a_jar_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        bundle_for("3.5.9", str(tmp_path / "absent.jar"))
