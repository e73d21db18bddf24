"""Settings of a command, and the session that it needs, or the settings alone where it needs none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

from hudi_vector.command.endings import note_interrupts
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError
from hudi_vector.options import ALL, CLEAN_EXECUTION, Settings, require_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["new_session", "session_or_settings", "settings_alone", "settings_for_commits"]

_SPARK, _HUDI = "spark.", "hoodie."
_QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}


def session_or_settings(
    conf: Sequence[str], tables: Sequence[str], *, needs_spark: bool = False, marks: bool = False, spreads: bool = False
) -> SparkSession | Settings:
    """Return the settings alone if a command can run without a session, else a registered session.

    A session is needed if the command itself `needs_spark`; if one of the `tables` is the name of a catalog; if only
    Java can read the settings; for a command that `marks`, or that `spreads` its reading, if executors are to read the
    data files; and under spark-submit, which has started one already. `conf` are settings as KEY=VALUE.
    """
    is_named = any("/" not in table for table in tables)
    settings = None
    if not (needs_spark or is_named or "PYSPARK_GATEWAY_PORT" in os.environ):
        settings = _settings_here(conf)
    if settings is None or (marks and _marks_by_executors(settings)) or (spreads and _has_cluster(settings)):
        return new_session(conf)
    return settings


def settings_alone(conf: Sequence[str]) -> Settings:
    """Return the settings of a command that never starts Spark; raise InvalidOptionError if only Java can read them."""
    settings = _settings_here(conf)
    if settings is None:
        raise InvalidOptionError(
            "the settings of Hadoop in core-site.xml or hdfs-site.xml hold ${…} or include other files, which only "
            "Java can read; give those of the storage with --conf spark.hadoop.fs.…=VALUE, and HADOOP_CONF_DIR without "
            "them"
        )
    return settings


def settings_for_commits(conf: Sequence[str]) -> dict[str, str]:
    """Return the settings of Hudi among those given as KEY=VALUE, which its writes do not take from the session."""
    own = {option.key for option in ALL}
    return {key: value for key, value in _settings(conf)[1].items() if key not in own}


def _settings_here(conf: Sequence[str]) -> Settings | None:
    """Return the settings of a command without a session; None if only Java can read them."""
    _spare_pandas()
    from hudi_vector.table_services.environment import settings_here

    of_spark, of_hudi = _settings(conf)
    return settings_here({**of_spark, **of_hudi})


def _spare_pandas() -> None:
    """Let pyarrow do without pandas, whose import takes as long as a small search, until a frame is asked for.

    pyarrow imports pandas for the first list or array that it converts, to know frames where it meets them. It looks
    once; a conversion to a frame imports pandas also after that.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    """A finder of modules that finds everything but pandas."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        """Raise ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not imported here")


def _marks_by_executors(settings: Settings) -> bool:
    execution = CLEAN_EXECUTION.in_session(settings)
    return execution == "distributed" or (execution == "auto" and _has_cluster(settings))


def _has_cluster(settings: Settings) -> bool:
    return not settings.values.get("spark.master", "local").startswith("local")


def new_session(conf: Sequence[str]) -> SparkSession:
    """Return a registered session; the command's settings take precedence over settings given to spark-submit."""
    of_spark, of_hudi = _settings(conf)

    from pyspark.sql import SparkSession

    import hudi_vector as hv

    builder = SparkSession.builder.appName("hudi-vector").config(map={**_QUIET, **_submitted(), **of_spark})
    with _stdout_for_rows():
        spark = hv.configure(builder).getOrCreate()
    note_interrupts()
    # Spark's launchers drop settings whose names do not begin with "spark.", so Hudi's are given with that prefix.
    for name, value in spark.sparkContext.getConf().getAll():
        key = name.removeprefix(_SPARK)
        if key.startswith(_HUDI) and spark.conf.get(key, None) is None:
            spark.conf.set(key, value)
    for key, value in of_hudi.items():
        spark.conf.set(key, value)
    return hv.register(spark)


@contextlib.contextmanager
def _stdout_for_rows() -> Iterator[None]:
    """Redirect the standard output of a JVM that starts in this block to standard error.

    Otherwise the first line of Ivy would be printed before the rows.
    """
    rows = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(rows, 1)
        os.close(rows)


def _settings(given: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings for Spark's start, and the settings of Hudi and this package for the session.

    Raises InvalidArgumentError if a text is not KEY=VALUE with an allowed prefix, or a key of this package is unknown.
    """
    of_spark: dict[str, str] = {}
    of_hudi: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        key = name.strip()
        key = key.removeprefix(_SPARK) if key.startswith(_SPARK + _HUDI) else key
        if not equals or not key.startswith((_SPARK, _HUDI)):
            raise InvalidArgumentError(
                f"--conf {text!r} is no setting: give KEY=VALUE, with a key that begins with {_SPARK} or {_HUDI}"
            )
        (of_hudi if key.startswith(_HUDI) else of_spark)[key] = value
    require_known(of_hudi)
    return of_spark, of_hudi


def _submitted() -> dict[str, str]:
    """Return the settings given to spark-submit, or {} without it.

    They must be in the builder: its own settings would override them, and their lists would be lost.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
