"""A SparkSession that knows Hudi and this package: builder in, builder out; session in, session out.

The SparkSession stays the user's: nothing here creates, keeps or stops one.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import SessionError
from hudi_vector.jars import Bundle, bundle_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["configure", "register"]

_LOG = logging.getLogger(__name__)

_EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
_KRYO_SERIALIZER = "org.apache.spark.serializer.KryoSerializer"
_KRYO_REGISTRATOR = "org.apache.spark.HoodieSparkKryoRegistrar"


def configure(builder: SparkSession.Builder, bundle: str | None = None) -> SparkSession.Builder:
    """Add to a builder what Hudi and this package need, keeping what it already has.

    Adds the Hudi bundle of the installed Spark, Hudi's session extension, catalog and Kryo settings, and the
    running interpreter as the Python of the workers. Lists (packages, jars, extensions) are merged; single
    values the builder already has are kept.

    Args:
        builder: ``SparkSession.builder``, with any settings of your own.
        bundle: A jar file or Maven coordinate to use instead of the one ``jars/bundles.toml`` names; also
            taken from the environment variable ``HUDI_VECTOR_BUNDLE``.

    Returns:
        The same builder.

    Raises:
        SessionError: No bundle is known for the installed Spark.
        InvalidArgumentError: ``bundle`` is neither a jar file nor a Maven coordinate.

    Example:
        >>> import hudi_vector as hv
        >>> from pyspark.sql import SparkSession
        >>> spark = hv.register(hv.configure(SparkSession.builder.appName("x")).getOrCreate())  # doctest: +SKIP
    """
    import pyspark

    options: dict[str, str] = builder._options
    chosen = bundle_for(pyspark.__version__, bundle)
    if bundle is not None or not _names_a_bundle(options):
        _add_bundle(builder, options, chosen)
    _append(builder, options, "spark.sql.extensions", _EXTENSION)
    for key, value in (
        ("spark.serializer", _KRYO_SERIALIZER),
        ("spark.sql.catalog.spark_catalog", _CATALOG),
    ):
        if key not in options:
            builder.config(key, value)
        elif options[key] != value:
            _LOG.warning("%s stays %s, as the builder has it; Hudi expects %s", key, options[key], value)
    _append(builder, options, "spark.kryo.registrator", _KRYO_REGISTRATOR)
    if "spark.pyspark.python" not in options:
        # pyspark reads only the environment when it runs as a plain Python process.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def register(spark: SparkSession) -> SparkSession:
    """Install the SQL functions of this package in a session, and in every later ``newSession()`` of it.

    Registering again changes nothing. Hudi's own functions stay reachable as ``hudi_vector_search_native``
    and ``hudi_vector_search_batch_native``.

    Args:
        spark: A SparkSession, made by anyone, with Hudi on its class path.

    Returns:
        The same session.

    Raises:
        SessionError: The session is a Spark Connect client, has no running JVM, runs with unpinned threads,
            or has no Hudi bundle of a version with vector search.

    Example:
        >>> spark = hv.register(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM hudi_vector_search('products', 'embedding', ARRAY(1.0, 2.0), 5)")
        ... # doctest: +SKIP
    """
    _require_classic(spark)
    try:
        from hudi_vector.sql.functions import install
    except ImportError as absent:  # pragma: no cover - only with a broken pyspark installation
        raise SessionError(f"the SQL functions cannot be loaded: {absent}") from absent
    install(spark)
    return spark


def _require_classic(spark: Any) -> None:
    if ".connect." in type(spark).__module__:
        raise SessionError(
            "this is a Spark Connect session, which has no JVM to register functions in; "
            "use a classic SparkSession (without a remote URL)"
        )
    context = getattr(spark, "_sc", None)
    if context is None or getattr(context, "_jsc", None) is None or context._jsc.sc().isStopped():
        raise SessionError("this SparkSession has no running JVM: it was stopped; make a new one and register that")
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise SessionError(
            "PYSPARK_PIN_THREAD is off, so that calls may reach another session than their own; "
            "unset it before the first SparkSession is made"
        )
    loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        context._jvm.java.lang.Class.forName("org.apache.hudi.DefaultSource", False, loader)
    except Exception as absent:
        if "ClassNotFoundException" not in str(absent):
            raise
        raise SessionError(
            "Hudi is not on the class path of this SparkSession; build it with hudi_vector.configure(builder), "
            f"or add {bundle_for(spark.version).location} to spark.jars.packages"
        ) from None


def _names_a_bundle(options: dict[str, str]) -> bool:
    named = options.get("spark.jars.packages", "") + "," + options.get("spark.jars", "")
    return any("hudi-spark" in entry and "-bundle" in entry for entry in named.split(","))


def _add_bundle(builder: SparkSession.Builder, options: dict[str, str], bundle: Bundle) -> None:
    _append(builder, options, "spark.jars" if bundle.is_file else "spark.jars.packages", bundle.location)


def _append(builder: SparkSession.Builder, options: dict[str, str], key: str, value: str) -> None:
    present = [entry.strip() for entry in options.get(key, "").split(",") if entry.strip()]
    if value not in present:
        builder.config(key, ",".join([*present, value]))
