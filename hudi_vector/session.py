"""The preparation of a SparkSession for Hudi and this package: `configure` and `register`.

The SparkSession belongs to the user: this module never creates, keeps or stops one.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import SessionError
from hudi_vector.jars import bundle_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["configure", "java_version", "register"]

_LOG = logging.getLogger(__name__)

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


@known_arguments()
def register(spark: SparkSession) -> SparkSession:
    """Install the SQL functions of this package in a session and in every later ``newSession()`` of it.

    Registering again changes nothing. Hudi's own functions stay available as ``hudi_vector_search_native``,
    ``hudi_vector_search_batch_native`` and ``read_blob_native``.

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
        from hudi_vector.spark.catalyst.fitness import require_fit, require_workers, workers_are_local_strangers
        from hudi_vector.sql.functions import install
    except ImportError as absent:  # pragma: no cover - only with a broken pyspark installation
        raise SessionError(f"the SQL functions cannot be loaded: {absent}") from absent
    require_fit(spark)
    if workers_are_local_strangers(spark):
        require_workers(spark)
    install(spark)
    return spark


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
