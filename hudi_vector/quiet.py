"""Settings that keep a new session's screen free of what is neither an answer nor an error.

Spark prints some thirty lines before the first answer: Ivy's report on the bundle, warnings of Hadoop and Hudi, and
those of JOL, with which Hudi measures objects. No stream is closed or redirected against that.
"""

from __future__ import annotations

import logging
import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hudi_vector.jars import Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["fetched_bundle", "prepare_object_sizes", "quiet_settings"]

_LOG = logging.getLogger(__name__)

_LOGGING = Path(__file__).resolve().parent / "quiet-log4j2.properties"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PROGRESS = "spark.ui.showConsoleProgress"
_JOL = "org.apache.hudi.org.openjdk.jol.vm."
# A class of Spark's own jars that prints a version and ends.
_NOTHING_TO_DO = "org.apache.hadoop.util.VersionInfo"


def quiet_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a quiet session; those in `options` are kept, and so is a log4j file that they name."""
    java = options.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" not in java and "log4j.configurationFile" not in java:
        java = f"{java} -Dlog4j2.configurationFile={_LOGGING.as_uri()}".strip()
    return {_JAVA_OPTIONS: java, _PROGRESS: options.get(_PROGRESS, "false")}


def fetched_bundle(bundle: Bundle, options: Mapping[str, str]) -> str | None:
    """Return the jar file of a bundle that is named by its Maven coordinate, or None if Spark has to look for it.

    Spark lists what Ivy found at each start, and has no setting against that. A jar that an earlier start has fetched
    is given to Spark as a file; a missing one is fetched by a separate ``spark-submit`` with the same settings.
    """
    if bundle.is_file or options.get("spark.jars.packages"):
        return None
    home = Path(options.get("spark.jars.ivy") or Path.home() / ".ivy2")
    group, artifact, version = bundle.location.split(":")
    jar = home / "jars" / f"{group}_{artifact}-{version}.jar"
    if not zipfile.is_zipfile(jar):
        _fetch(bundle, home, options)
    return str(jar) if zipfile.is_zipfile(jar) else None


def _fetch(bundle: Bundle, home: Path, options: Mapping[str, str]) -> None:
    from pyspark.find_spark_home import _find_spark_home

    home_of_spark: str = _find_spark_home()  # type: ignore[no-untyped-call] # pyspark's own
    _LOG.warning("fetching Hudi's bundle %s, which is done once", bundle.location)
    settings = {key: value for key, value in options.items() if key.startswith("spark.jars.")}
    settings |= {"spark.jars.packages": bundle.location, "spark.jars.ivy": str(home)}
    command = [os.path.join(home_of_spark, "bin", "spark-submit"), "--master", "local"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    ran = subprocess.run(  # noqa: S603
        [*command, "--class", _NOTHING_TO_DO, "spark-internal"], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        _LOG.info("spark-submit could not fetch %s: %s", bundle.location, ran.stderr)


def prepare_object_sizes(spark: SparkSession) -> None:
    """Make the object with which Hudi measures others, as JOL does after its attempts to attach agents have failed.

    Each failed attempt is a line on standard output, for which JOL has no setting. Does nothing in a JVM where JOL has
    other classes.
    """
    from py4j.protocol import Py4JError

    from hudi_vector.spark.catalyst.handles import handles_of

    java = handles_of(spark)
    find = java.static("org.apache.spark.util.Utils", "classForName")
    try:
        machine = find(_JOL + "VM", True, False).getDeclaredField("INSTANCE")
        machine.setAccessible(True)
        if machine.get(None) is not None:
            return
        unsafe = find("sun.misc.Unsafe", True, False).getDeclaredField("theUnsafe")
        unsafe.setAccessible(True)
        made = next(
            one
            for one in find(_JOL + "HotspotUnsafe", True, False).getDeclaredConstructors()
            if one.getParameterCount() == 2
        )
        made.setAccessible(True)
        arguments = java.gateway.new_array(java.named("java.lang.Object"), 2)
        arguments[0] = unsafe.get(None)
        machine.set(None, made.newInstance(arguments))
    except (Py4JError, StopIteration) as absent:
        _LOG.info("JOL is left as it is: %s", absent)
