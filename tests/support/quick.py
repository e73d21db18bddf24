"""Settings for small tables: a commit of Hudi takes a second with these and four without."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync

from hudi_vector.jars import ENVIRONMENT_VARIABLE, bundle_for
from hudi_vector.quiet import fetched_bundle

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Spark's classes, already read: `tests/support/archive.py` makes it, a JVM that finds none or one of another Spark does without."""

CLOSURES = Path(sys.prefix) / "closures.jar"
"""A class that takes the functions of an RDD as they are: `tests/support/archive.py` makes it, a JVM does without if it is not there."""

FEW_STATEMENTS = " ".join(
    (
        # A word about an archive that does not fit would be read as an answer of spark-submit.
        f"-XX:SharedArchiveFile={ARCHIVE}",
        "-Xlog:disable",
        # A JVM that runs each statement a few times, on few cores: no second compiler and no collector beside the work.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # With one compiler a JVM keeps 48 MB of code, which a few tests fill: then it throws out what it compiles again.
        "-XX:ReservedCodeCacheSize=512m",
        "-XX:MetaspaceSize=256m",
        # Before Hudi first estimates the size of an object, JOL starts four JVMs that fail to look into this one.
        "-Djol.skipDynamicAttach=true -Djol.skipHotspotSAAttach=true",
        # Each plan makes classes; that compilers made them right is not what is tested.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
    )
)
"""For programs of a few statements that have a Spark of their own."""

SEEN_BY_USERS = " ".join(
    [option for option in FEW_STATEMENTS.split() if not option.startswith(("-Xlog:", "-Djol."))]
    + ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
)
"""For programs of which all that is printed is looked at: nothing is silent but what Java says of the archive."""

# What runs for minutes is compiled after a fifth as many calls: to interpret it until then takes longer.
JVM = f"{FEW_STATEMENTS} -Xbootclasspath/a:{CLOSURES} -XX:CompileThresholdScaling=0.2 -XX:MetaspaceSize=512m -Xms1g -Xmn512m"
"""For all tests of a process that share a session."""


def bundle_file() -> str | None:
    """The file of Hudi's bundle, if a session has fetched it: without a name to resolve, Ivy is not started."""
    return fetched_bundle(bundle_for(pyspark.__version__), {})


def fetched() -> dict[str, str]:
    """The variable that names Hudi's bundle as a file of this machine, which is not sent to executors either."""
    jar = bundle_file()
    return {} if jar is None else {ENVIRONMENT_VARIABLE: f"local://{jar}"}


def remember_java_names() -> None:
    """A package or class of Java is looked up once.

    pyspark asks for classes at each call, by chains of dots too, and at each dot Java looks into some 300 jars.
    """
    known: dict[tuple[Any, str], Any] = {}
    JVMView.__getattr__ = _remembering(JVMView.__getattr__, lambda _: "", known)
    JavaPackage.__getattr__ = _remembering(JavaPackage.__getattr__, lambda package: f"{package._fqn}.", known)


def _remembering(
    look_up: Callable[[Any, str], Any], above: Callable[[Any], str], known: dict[tuple[Any, str], Any]
) -> Callable[[Any, str], Any]:
    def remembered(asked: Any, name: str) -> Any:
        key = (asked._gateway_client, above(asked) + name)
        found = known.get(key)
        if found is None:
            found = look_up(asked, name)
            # A class that is not there yet looks like a package; packages have no capital letters.
            if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and name.islower()):
                known[key] = found
        return found

    return remembered


_OF_CLUSTERS = (
    "yarn.",
    "mapreduce.",
    "hadoop.security.",
    "hadoop.http.",
    "hadoop.registry.",
    "ipc.",
    "ha.",
    "net.",
    "tfile.",
)
_OF_THE_APPLICATION = (
    "spark.app.",
    "spark.broadcast.",
    "spark.buffer.",
    "spark.default.",
    "spark.driver.",
    "spark.executor",
    "spark.files",
    "spark.jars",
    "spark.log.",
    "spark.master",
    "spark.python.",
    "spark.rdd.",
    "spark.repl.",
    "spark.serializer",
    "spark.submit.",
    "spark.ui.",
)


def make_hadoop_settings_few(spark: SparkSession) -> None:
    """Drop what Hadoop sets for clusters, four fifths of its settings, and the notes where each one came from.

    Hudi sends all settings with each task, each note as a compressed text: a tenth of the work of its commits was that.
    It also makes settings from Hadoop's files again and again. Each statement adds, with notes, what its session has of
    the application, which only the context needs.
    """
    assert spark._jvm is not None
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for group in _OF_CLUSTERS:
        for name in settings.getPropsWithPrefix(group).keySet().toArray():
            settings.unset(group + name)
    kind = spark._jvm.java.lang.Class.forName("org.apache.hadoop.conf.Configuration")
    notes, files = (kind.getDeclaredField(name) for name in ("updatingResource", "defaultResources"))
    for field in (notes, files):
        field.setAccessible(True)
    notes.get(settings).clear()
    files.get(None).retainAll(spark._jvm.java.util.List.of("core-default.xml", "core-site.xml"))
    of_session = spark._jsparkSession.sessionState().conf()
    for name, _ in spark.sparkContext.getConf().getAll():
        if name.startswith(_OF_THE_APPLICATION):
            of_session.unsetConf(name)


def name_the_caller(spark: SparkSession) -> None:
    """Tell Spark which line asks; for each RDD it looks for that line in the stack, a fiftieth of its work."""
    SCCallSiteSync._spark_stack_depth = 1  # or each collect() names its line, and none afterwards
    for form in ("short", "long"):
        spark.sparkContext.setLocalProperty(f"callSite.{form}", "a test")


WITHOUT_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark interprets expressions: to make, compile and load code for a few rows is a twelfth of a commit."""


@contextlib.contextmanager
def set_to(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Set a session's settings, None as Spark has them by itself, and afterwards set them to what they were."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        _set(spark, settings)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for key, value in settings.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


WITH_GENERATED_CODE: Mapping[str, None] = dict.fromkeys(WITHOUT_GENERATED_CODE)
"""Spark makes code of plans, as it does for users."""


SMALL_FILTERS = {"hoodie.bloom.index.filter.type": "SIMPLE", "hoodie.index.bloom.num_entries": "100"}
"""Filters of few keys: one for sixty thousand is 430 KB in each file, which a tenth of a commit goes into."""

FILTERS_OF_HUDI = {"hoodie.bloom.index.filter.type": "DYNAMIC_V0", "hoodie.index.bloom.num_entries": "60000"}

QUICK: dict[str, str] = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # A task each: more of them would share ten rows.
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.markers.delete.parallelism": "1",
    "hoodie.finalize.write.parallelism": "1",
    "hoodie.file.listing.parallelism": "1",
    # Writers that read log files of a few kilobytes open each with two arrays of 16 MB otherwise.
    "hoodie.memory.dfs.buffer.max.size": str(64 << 10),
    # Hudi looks after each commit whether there is something to clean; tests of the cleaner say that they want it.
    "hoodie.clean.automatic": "false",
    **SMALL_FILTERS,
}


HUDI: Mapping[str, str] = {
    "hoodie.metadata.enable": "true",
    "hoodie.embed.timeline.server": "true",
    "hoodie.write.markers.type": "TIMELINE_SERVER_BASED",
    "hoodie.clean.automatic": "true",
    **FILTERS_OF_HUDI,
}
"""What users have who set nothing: Hudi's own defaults."""


@contextlib.contextmanager
def as_hudi_has_it(spark: SparkSession) -> Iterator[None]:
    """Tests write with Hudi's defaults where they take the quick settings, and so do statements; Spark makes code."""
    with pytest.MonkeyPatch.context() as patch, set_to(spark, {**HUDI, **WITH_GENERATED_CODE}):
        for key, value in HUDI.items():
            patch.setitem(QUICK, key, value)
        yield


@contextlib.contextmanager
def quick_statements(spark: SparkSession, **other: str) -> Iterator[None]:
    """SQL statements that write and the procedures of Hudi take these settings; `a__b` stands for `hoodie.a.b`."""
    settings = {**QUICK, **{f"hoodie.{key.replace('__', '.')}": value for key, value in other.items()}}
    with set_to(spark, settings):
        yield
