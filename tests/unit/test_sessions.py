"""What configure adds to a real builder; no session is started."""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, SessionError
from hudi_vector.jars import Bundle
from hudi_vector.quiet import fetched_bundle, quiet_settings
from hudi_vector.sessions import java_version, register
from hudi_vector.workers import unfit_workers

COORDINATE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"


class _Builder(SparkSession.Builder):
    """Spark's own builder with options of its own: those of ``SparkSession.builder`` outlive a test."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> SparkSession.Builder:
    monkeypatch.delenv("HUDI_VECTOR_BUNDLE", raising=False)
    monkeypatch.setattr("hudi_vector.jars.bundle_for.__defaults__", (None, None, ()))
    monkeypatch.setenv("PYSPARK_PYTHON", "kept")
    # Other tests of this process may have a session, which a builder would give.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    return _Builder()


def test_an_empty_builder_gets_everything(builder: SparkSession.Builder) -> None:
    assert hv.configure(builder) is builder
    assert builder._options == {
        "spark.jars.packages": COORDINATE,
        "spark.sql.extensions": EXTENSION,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }


def test_configuring_twice_changes_nothing(builder: SparkSession.Builder) -> None:
    once = dict(hv.configure(builder)._options)
    assert hv.configure(builder)._options == once


def test_lists_are_merged(builder: SparkSession.Builder) -> None:
    builder.config("spark.jars.packages", "g:a:1, g:b:2").config("spark.sql.extensions", "my.Extension")
    builder.config("spark.kryo.registrator", "my.Registrar")
    options = hv.configure(builder)._options
    assert options["spark.jars.packages"] == f"g:a:1,g:b:2,{COORDINATE}"
    assert options["spark.sql.extensions"] == f"my.Extension,{EXTENSION}"
    assert options["spark.kryo.registrator"] == "my.Registrar,org.apache.spark.HoodieSparkKryoRegistrar"


def test_single_values_are_kept_and_said(builder: SparkSession.Builder, caplog: pytest.LogCaptureFixture) -> None:
    builder.config("spark.serializer", "my.Serializer")
    with caplog.at_level(logging.WARNING, "hudi_vector.sessions"):
        assert hv.configure(builder)._options["spark.serializer"] == "my.Serializer"
    assert "spark.serializer stays my.Serializer" in caplog.text


@pytest.mark.parametrize("key", ["spark.jars.packages", "spark.jars"])
def test_a_bundle_the_builder_has_is_kept(builder: SparkSession.Builder, key: str) -> None:
    own = "g:hudi-spark3.5-bundle_2.12:9" if key.endswith("packages") else "/jars/hudi-spark3.5-bundle_2.12-9.jar"
    options = hv.configure(builder.config(key, own))._options
    assert [options.get(name) for name in ("spark.jars.packages", "spark.jars") if name in options] == [own]


def test_an_argument_is_added_as_what_it_is(builder: SparkSession.Builder, tmp_path: Any) -> None:
    jar = tmp_path / "hudi.jar"
    jar.touch()
    options = hv.configure(builder, bundle=str(jar))._options
    assert options["spark.jars"] == str(jar)
    assert "spark.jars.packages" not in options


def test_a_wrong_bundle_is_refused(builder: SparkSession.Builder) -> None:
    with pytest.raises(InvalidArgumentError, match="'hudi' names no Hudi bundle"):
        hv.configure(builder, bundle="hudi")


def test_workers_get_this_interpreter(builder: SparkSession.Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    hv.configure(builder)
    assert os.environ["PYSPARK_PYTHON"] == "kept"
    monkeypatch.delenv("PYSPARK_PYTHON")
    hv.configure(builder)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_stopped_session_is_refused() -> None:
    class Stopped:
        _sc = None

    with pytest.raises(SessionError, match="no running JVM"):
        register(Stopped())  # type: ignore[arg-type]


def test_a_connect_session_is_refused() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SessionError, match="Spark Connect session"):
        register(connect)


def test_a_search_of_a_stopped_or_connect_session_is_refused() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SessionError, match="Spark Connect session"):
        hv.search(connect, "/tables/t", "emb", [1.0], 1)
    with pytest.raises(InvalidTypeError, match="must be a SparkSession, not str"):
        hv.search("t", "/tables/t", "emb", [1.0], 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)', 17),
        ('java version "1.8.0_392"\n', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25" 2025-09-16 LTS', 25),
        ('openjdk version "24-ea" 2025-03-18', 24),
        ("Error: could not open jvm.cfg", None),
        ("", None),
    ],
)
def test_the_version_of_a_java_is_read(said: str, version: int | None) -> None:
    assert java_version(said) == version


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 12) than that in driver 3.11, PySpark "
            "cannot run with different minor versions.",
            "run Python 3.12 and the driver runs 3.11; give the workers a Python of the driver's version",
        ),
        ("  File …\nModuleNotFoundError: No module named 'hudi_vector'\n", "have no 'hudi_vector'; give"),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "have no 'pyarrow.lib'; give"),
        (
            'java.io.IOException: Cannot run program "python9": error=2',
            "cannot be started: there is no program 'python9'",
        ),
    ],
)
def test_unfit_workers_are_one_sentence(raised: str, said: str) -> None:
    problem = unfit_workers(RuntimeError(f"An error occurred while calling o1.collect.\n: {raised}\n\tat scala.X"))
    assert str(problem).startswith("the Python workers of this session ")
    assert said in str(problem)
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    "raised", ["ModuleNotFoundError: No module named 'mine'", "No module named 'hudi_vectors'", ""]
)
def test_other_errors_of_workers_are_none_of_ours(raised: str) -> None:
    assert unfit_workers(RuntimeError(raised)) is None


def test_a_quiet_session_keeps_what_the_user_set() -> None:
    java = "spark.driver.extraJavaOptions"
    usual = quiet_settings({})
    assert usual["spark.ui.showConsoleProgress"] == "false"
    file = usual[java].removeprefix("-Dlog4j2.configurationFile=file://")
    assert "rootLogger.level = error" in Path(file).read_text("utf-8")
    assert quiet_settings({java: "-Xss4m", "a": "b"})[java] == f"-Xss4m {usual[java]}"
    mine = {java: "-Dlog4j2.configurationFile=file:/mine", "spark.ui.showConsoleProgress": "true"}
    assert quiet_settings(mine) == mine
    assert quiet_settings(usual) == usual


def test_a_jar_that_ivy_has_fetched_is_given_as_a_file(tmp_path: Path) -> None:
    bundle, settings = Bundle("g:a-bundle:1.0", is_file=False), {"spark.jars.ivy": str(tmp_path)}
    jar = tmp_path / "jars" / "g_a-bundle-1.0.jar"
    jar.parent.mkdir()
    with zipfile.ZipFile(jar, "w") as content:
        content.writestr("x", "y")
    assert fetched_bundle(bundle, settings) == str(jar)
    # Other packages make Ivy speak anyway, and a file needs no Ivy.
    assert fetched_bundle(bundle, {**settings, "spark.jars.packages": "g:b:2"}) is None
    assert fetched_bundle(Bundle("/x.jar", is_file=True), settings) is None


def test_a_bundle_that_cannot_be_fetched_is_left_to_spark(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = {"spark.jars.ivy": str(tmp_path), "spark.jars.ivySettings": str(tmp_path / "none.xml")}
    assert fetched_bundle(Bundle("g:a-bundle:1.0", is_file=False), nowhere) is None
    assert "fetching Hudi's bundle g:a-bundle:1.0, which is done once" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"app": 3}, "the argument 'app' must be text, not 3"),
        ({"quiet": "yes"}, "quiet must be true or false, not 'yes'"),
        ({"config": ["x"]}, "config must be a mapping of Spark's settings by name, not list"),
        (
            {"mastre": "local"},
            "session has no argument 'mastre'; did you mean 'master'? settings of Spark go by",
        ),
        (
            {"xyz": "4g"},
            "'xyz'; its arguments are app, master, config, bundle, quiet; settings of Spark go by their full names",
        ),
    ],
)
def test_wrong_arguments_of_a_session_are_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidTypeError) as problem:
        hv.session(**arguments)
    assert sentence in str(problem.value)
