"""SparkSessions with Hudi and this package: `session` makes one, `configure` and `register` prepare one of the user's.

A SparkSession belongs to the user: this module neither keeps nor stops one.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_text, known_arguments
from hudi_vector.errors import InvalidTypeError, SessionError, did_you_mean, kind_of
from hudi_vector.jars import bundle_for
from hudi_vector.quiet import fetched_bundle, prepare_object_sizes, quiet_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["configure", "java_version", "register", "session"]

_LOG = logging.getLogger(__name__)

_ARGUMENTS = ("app", "master", "config", "bundle", "quiet")

_EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
_KRYO_SERIALIZER = "org.apache.spark.serializer.KryoSerializer"
_KRYO_REGISTRATOR = "org.apache.spark.HoodieSparkKryoRegistrar"

# Hudi 1.2 has classes compiled for Java 11; Hadoop 3.3 needs the security manager, which Java lacks from 24 on.
_JAVA = range(11, 24)
_JAVA_REMEDY = (
    "install Java 17, the tested version, and set JAVA_HOME to its folder before the first SparkSession is made"
)


@known_arguments()
def configure(builder: SparkSession.Builder, bundle: str | None = None) -> SparkSession.Builder:
    """Add the settings that Hudi and this package need to a builder, keeping its own settings.

    Adds the Hudi bundle for the installed Spark, Hudi's session extension, catalog and Kryo settings, and the running
    interpreter as the Python of the workers. Lists (packages, jars, extensions) are merged; single values that the
    builder already has are kept. All these settings must be known before Spark starts.

    Args:
        builder: ``SparkSession.builder``, with any settings of your own.
        bundle: A jar file or Maven coordinate to use instead of the bundle that this package knows for the installed
            Spark; by default the environment variable ``HUDI_VECTOR_BUNDLE``, if set.

    Returns:
        The same builder.

    Raises:
        SessionError: No bundle is known for the installed Spark, a session that lacks these settings is already
            running, or Spark would start with an unsupported Java or finds none.
        InvalidArgumentError: ``bundle`` is neither a jar file nor a Maven coordinate.

    Example:
        >>> import hudi_vector as hv
        >>> from pyspark.sql import SparkSession
        >>> spark = hv.register(hv.configure(SparkSession.builder.appName("x")).getOrCreate())
    """
    import pyspark

    _require_java()
    options: dict[str, str] = builder._options
    chosen = bundle_for(pyspark.__version__, bundle)
    wanted = {"spark.sql.extensions": _EXTENSION, "spark.kryo.registrator": _KRYO_REGISTRATOR}
    if bundle is not None or not _names_a_bundle(options):
        key = "spark.jars" if chosen.is_file else "spark.jars.packages"
        wanted[key] = chosen.location
        _append(builder, options, key, chosen.location)
    _append(builder, options, "spark.sql.extensions", _EXTENSION)
    for key, value in (
        ("spark.serializer", _KRYO_SERIALIZER),
        ("spark.sql.catalog.spark_catalog", _CATALOG),
    ):
        if key not in options:
            builder.config(key, value)
        elif options[key] != value:
            _LOG.warning("%s stays %s, as the builder has it; Hudi expects %s", key, options[key], value)
        wanted[key] = options[key]
    _append(builder, options, "spark.kryo.registrator", _KRYO_REGISTRATOR)
    _require_no_other_session(wanted, any_bundle=bundle is None)
    if "spark.pyspark.python" not in options:
        # pyspark reads only the environment when it runs as a plain Python process.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def session(
    app: str = "hudi-vector",
    *,
    master: str | None = None,
    config: Mapping[str, object] | None = None,
    bundle: str | None = None,
    quiet: bool = True,
    **settings: object,
) -> SparkSession:
    """Make a SparkSession with Hudi and the SQL functions of this package, or return the one that runs.

    It does what a builder, `configure` and `register` do. A quiet session logs errors alone; Ivy, Hudi and Spark's
    progress bars print nothing. Where an earlier session has fetched the Hudi bundle, that file is used.

    Args:
        app: The name of the application.
        master: Spark's master, for example ``"local[2]"``; by default Spark's own choice.
        config: Settings of Spark by name, for example ``{"spark.driver.memory": "4g"}``.
        bundle: As for `configure`.
        quiet: False for all that Spark and Hudi print. It has no effect on a session that runs already, and none on a
            log4j file or progress bars that the settings name.
        settings: More settings of Spark, with their names as keywords: ``**{"spark.driver.memory": "4g"}``.

    Returns:
        The session, which is yours to stop.

    Raises:
        SessionError: As for `configure` and `register`.
        InvalidTypeError: An argument is unknown or has another type.
        InvalidArgumentError: ``bundle`` is neither a jar file nor a Maven coordinate.

    Example:
        >>> import hudi_vector as hv
        >>> spark = hv.session("pets", master="local[2]", config={"spark.driver.memory": "4g"})
    """
    import pyspark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not isinstance(quiet, bool):
        raise InvalidTypeError(f"quiet must be true or false, not {quiet!r}")
    builder = SparkSession.builder.appName(as_text(app, "app"))
    if master is not None:
        builder.master(as_text(master, "master"))
    for key, value in {**_settings_of(config), **_named_settings(settings)}.items():
        builder.config(key, value)
    if quiet and SparkContext._active_spark_context is None:
        _require_java()  # a bundle may have to be fetched, by Java
        options: dict[str, str] = builder._options
        for key, value in quiet_settings(options).items():
            builder.config(key, value)
        if not _names_a_bundle(options):
            bundle = fetched_bundle(bundle_for(pyspark.__version__, bundle), options) or bundle
    spark = register(configure(builder, bundle).getOrCreate())
    if quiet:
        prepare_object_sizes(spark)
    return spark


@known_arguments()
def register(spark: SparkSession) -> SparkSession:
    """Install the SQL functions of this package in a session and in every later ``newSession()`` of it.

    Registering again changes nothing. Hudi's own functions stay available as ``hudi_vector_search_native``,
    ``hudi_vector_search_batch_native`` and ``read_blob_native``. New Python workers of a local session are forked from
    a process that has imported what tasks need, unless it names a ``spark.python.daemon.module``.

    Args:
        spark: A SparkSession with Hudi on its class path; it need not come from `configure`.

    Returns:
        The same session.

    Raises:
        SessionError: The session is a Spark Connect client, has no running JVM, runs with unpinned threads, has no Hudi
            bundle of a version with vector search, or is local with workers that cannot load this package.

    Example:
        >>> spark = hv.register(spark)
        >>> spark.sql("SELECT * FROM hudi_vector_search('products', 'embedding', ARRAY(1.0, 2.0, 3.0), 5)").count()
        5
    """
    try:
        from hudi_vector.spark.catalyst.fitness import (
            prepare_workers,
            require_fit,
            require_workers,
            workers_are_local_strangers,
        )
        from hudi_vector.sql.functions import install
    except ImportError as absent:  # pragma: no cover - only with a broken pyspark installation
        raise SessionError(f"the SQL functions cannot be loaded: {absent}") from absent
    require_fit(spark)
    if workers_are_local_strangers(spark):
        require_workers(spark)
    else:
        prepare_workers(spark)
    install(spark)
    return spark


def _settings_of(config: object) -> dict[str, str]:
    """Return settings as text; raise InvalidTypeError if they are no mapping of names."""
    if config is not None and not isinstance(config, Mapping):
        raise InvalidTypeError(f"config must be a mapping of Spark's settings by name, not {kind_of(config)}")
    return {as_text(key, "config"): _as_setting(value) for key, value in (config or {}).items()}


def _named_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Return keywords as settings; raise InvalidTypeError for one without a dot, which is a misspelt argument."""
    for name in settings:
        if "." not in name:
            hint = did_you_mean(name, _ARGUMENTS) or f"its arguments are {', '.join(_ARGUMENTS)};"
            raise InvalidTypeError(
                f"session has no argument '{name}'; {hint} settings of Spark go by their full names: "
                'config={"spark.driver.memory": "4g"}'
            )
    return {name: _as_setting(value) for name, value in settings.items()}


def _as_setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _require_java() -> None:
    """Raise SessionError if pyspark would start a Java that Spark cannot use, or none can be found."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # a JVM is already running, started by an earlier session or by spark-submit
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    chosen = f"JAVA_HOME is '{home}'" if home else "JAVA_HOME is not set"
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        raise SessionError(f"Spark needs Java 17, and there is no '{program}' ({chosen}); {_JAVA_REMEDY}") from None
    version = java_version(ran.stderr)
    if version is not None and version not in _JAVA:
        raise SessionError(
            f"Spark 3.5 with Hudi runs on Java {_JAVA[0]} to {_JAVA[-1]}, and '{program}' is Java {version} "
            f"({chosen}); {_JAVA_REMEDY}"
        )


def java_version(said: str) -> int | None:
    """Return the major version in the output of ``java -version``, for example 8 for ``"1.8.0_392"``, or None."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _require_no_other_session(wanted: Mapping[str, str], *, any_bundle: bool) -> None:
    """Raise SessionError if a running session lacks settings: a builder would return it unchanged."""
    from pyspark import SparkContext

    from hudi_vector.spark.catalyst.fitness import has_hudi

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return
    present, has_bundle = context.getConf(), any_bundle and has_hudi(context)
    lacking = [
        key
        for key, value in sorted(wanted.items())
        if not (has_bundle and key.startswith("spark.jars"))
        and not set(value.split(",")) <= {entry.strip() for entry in str(present.get(key, "")).split(",")}
    ]
    if lacking:
        raise SessionError(
            f"a SparkSession runs already, so that {', '.join(lacking)} cannot be set any more; "
            "call spark.stop() before hudi_vector.configure, or give that session to hudi_vector.register as it is"
        )


def _names_a_bundle(options: dict[str, str]) -> bool:
    named = options.get("spark.jars.packages", "") + "," + options.get("spark.jars", "")
    return any("hudi-spark" in entry and "-bundle" in entry for entry in named.split(","))


def _append(builder: SparkSession.Builder, options: dict[str, str], key: str, value: str) -> None:
    present = [entry.strip() for entry in options.get(key, "").split(",") if entry.strip()]
    if value not in present:
        builder.config(key, ",".join([*present, value]))
