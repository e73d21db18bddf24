"""One SparkSession for each process that runs tests, started only when a test asks for it."""

from __future__ import annotations

import gc
import os
import sys
import time

# A process for each core tests already. The threads of numpy and faiss would wait for each other by going round in
# circles, which takes three quarters of the time of tests of the index. Numpy reads this once: when it is imported.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# What is imported and collected stays until the end: to look for garbage meanwhile takes a tenth of the time.
gc.disable()

# Haystack tells its makers of each pipeline that runs, and reads this once too.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from collections.abc import Iterator  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from support.processes import alone  # noqa: E402
from support.soak import LONG_TESTS, RECORD, Record, Soak, file_of, longest_ago_first  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.sharing_out import SharingOut
    from xdist.remote import Producer

# The same examples on every run: a failure found once is found again.
settings.register_profile("project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")

SOAK = Soak.told()

collect_ignore_glob: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--until", type=float, metavar="TIME", help="skip tests that would begin later, in seconds since 1970"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    end = item.config.getoption("--until")
    if end is not None and time.time() > end:
        pytest.skip("the time that --until gives was over; `make test` runs all tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[LONG_TESTS] = [item.nodeid for item in items if item.get_closest_marker("soak") is not None]
    if config.getoption("-m") == "soak":
        _long_tests_begin(config, items)
    if config.getoption("-m"):
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if item.get_closest_marker("soak") is None else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Modules and tests live until the end, so each look for garbage would go through half a million objects in vain;
    # the first threshold follows, as tests make many objects and few circles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingOut | None:
    if config.getoption("dist") != "loadfile":
        return None
    from support.sharing_out import SharingOut

    return SharingOut(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("hudi_defaults") is None:
        return (yield)
    from support.quick import as_hudi_has_it

    with as_hudi_has_it(item.funcargs["spark"]):  # type: ignore[attr-defined]
        return (yield)


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.getoption("-m") != "soak":
        return None
    return f"random histories: SOAK_SEED={SOAK.seed} SOAK_MINUTES={'' if SOAK.minutes is None else SOAK.minutes}"


def _long_tests_begin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the file first whose tests ran longest ago: a run may be cut short."""
    long = config.stash[LONG_TESTS]
    files: dict[str, list[str]] = {file_of(item.nodeid): [] for item in items}
    for test in long:
        files[file_of(test)].append(test)
    record = Record(RECORD, SOAK.seed)
    order = {file: place for place, file in enumerate(longest_ago_first(files, record.rows()))}
    items.sort(key=lambda item: order[file_of(item.nodeid)])
    if SOAK.minutes is None and not config.option.collectonly:
        config.pluginmanager.register(record)
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            record.begin(long)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> Soak:
    """The seeds of this run; the minutes it was told are shared by the tests that go on so long."""
    tests = sum("soak" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return replace(SOAK, minutes=None if SOAK.minutes is None else SOAK.minutes / tests)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for warehouse, metastore and tables of this run."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run see, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def spark(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A registered session on two cores, with Hudi's real bundle."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from support.local_files import set_permissions_in_java
    from support.quick import (
        JVM,
        WITHOUT_GENERATED_CODE,
        make_hadoop_settings_few,
        name_the_caller,
        remember_java_names,
    )

    import hudi_vector as hv

    remember_java_names()
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("hudi-vector-tests")
        .config("spark.driver.memory", "5g")
        .config("spark.ui.enabled", "false")  # no port to find
        .config("spark.sql.shuffle.partitions", "2")  # tables here are small
        .config("spark.default.parallelism", "2")
        # Java fills with zeros what it is asked for: 64 MB for a sort, a grouping or a join, and 4 for a broadcast.
        .config("spark.buffer.pageSize", "1m")
        .config("spark.broadcast.blockSize", "128k")
        .config("hoodie.memory.dfs.buffer.max.size", str(64 << 10))
        .config("spark.sql.session.timeZone", "UTC")  # the oracle computes in UTC
        .config("spark.sql.warehouse.dir", str(workspace / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={workspace / 'derby'} {JVM}")
        .config("spark.sql.codegen.cache.maxEntries", "2000")  # tests have the same plans again and again
        .config("spark.python.daemon.module", "support.python_daemon")
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parent))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    # Two that fetch Hudi's bundle into one empty cache would damage it.
    with alone(tmp_path_factory.getbasetemp().parent):
        session = hv.register(hv.configure(builder).getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    for key, value in WITHOUT_GENERATED_CODE.items():
        session.conf.set(key, value)
    make_hadoop_settings_few(session)
    name_the_caller(session)
    set_permissions_in_java(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def quick_sql(spark: SparkSession) -> Iterator[None]:
    """Statements that write are as quick as DataFrames that the tests write."""
    from support.quick import quick_statements

    with quick_statements(spark):
        yield


@pytest.fixture(scope="module")
def as_spark_has_it(spark: SparkSession) -> Iterator[None]:
    """Spark makes code of plans, for tests of what users type."""
    from support.quick import WITH_GENERATED_CODE, set_to

    with set_to(spark, WITH_GENERATED_CODE):
        yield


@pytest.fixture
def clean_session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, without temporary views, cached tables and settings of other tests."""
    # Spark's own objects, as the statements SET and SHOW TABLES cost more than many a test.
    state = spark._jsparkSession.sessionState()
    settings, catalog = state.conf().settings(), state.catalog()
    assert spark._jvm is not None
    before = spark._jvm.java.util.HashMap(settings)
    yield spark
    spark.catalog.clearCache()
    views = catalog.listLocalTempViews("*")
    for name in [views.apply(place).table() for place in range(views.size())]:
        spark.catalog.dropTempView(name)
    if not settings.equals(before):
        settings.keySet().retainAll(before.keySet())
        settings.putAll(before)
