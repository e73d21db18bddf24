"""Sessions that this package did not make: each thing that is amiss is one sentence, before anything is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from support.quick import FEW_STATEMENTS, QUICK, fetched

_HEAD = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
import hudi_vector as hv
from hudi_vector.errors import HudiVectorError, SessionError

folder = Path(sys.argv[1])
quick = json.loads(sys.argv[3])
small = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.memory": "1g",
         "spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": sys.argv[2]}

def made(builder):
    for key, value in small.items():
        builder = builder.config(key, value)
    return builder.master("local[1]").getOrCreate()

def said(what, error=SessionError):
    try:
        what()
    except HudiVectorError as problem:
        assert type(problem) is error, problem
        text = str(problem)
        assert len(text) < 400 and "\\n" not in text and "Exception" not in text, text
        return text
    raise AssertionError("nothing was said")
"""
_WITHOUT_HUDI = """
spark = made(SparkSession.builder)
rows = spark.createDataFrame([(1, [0.5, 1.0])], "id INT, emb ARRAY<FLOAT>")
(folder / "t/.hoodie").mkdir(parents=True)
(folder / "t/.hoodie/hoodie.properties").write_text("hoodie.table.name=t\\nhoodie.table.version=9\\n")
for ask in (
    lambda: hv.register(spark),
    lambda: hv.search(spark, str(folder / "t"), "emb", [0.5, 1.0], 1),
    lambda: hv.search_batch(spark, str(folder / "t"), "emb", [[0.5, 1.0]], k=1),
    lambda: hv.table_services.clean_blobs(spark, str(folder / "t")),
    lambda: hv.index.create(spark, str(folder / "t"), "emb"),
    lambda: hv.write(rows, str(folder / "new"), record_key="id", vectors={"emb": 2}),
):
    assert "Hudi is not on the class path" in said(ask), said(ask)
assert not (folder / "new").exists()

# A builder would give the session that runs.
text = said(lambda: hv.configure(SparkSession.builder))
assert "a SparkSession runs already, so that spark.jars" in text and "spark.sql.extensions" in text, text
spark.stop()
assert "it was stopped" in said(lambda: hv.search(spark, str(folder / "t"), "emb", [0.5, 1.0], 1))
assert "it was stopped" in said(lambda: hv.register(spark))
print("well")
"""
_OTHER_WORKERS = """
os.environ["PYSPARK_PYTHON"] = sys.argv[4]
spark = made(hv.configure(SparkSession.builder))
assert hv.configure(SparkSession.builder).getOrCreate() is spark
text = said(lambda: hv.configure(SparkSession.builder, bundle="g:a:1"))
assert "spark.jars.packages cannot be set any more" in text, text

# Not registered, with workers that lack the package.
table = str(folder / "vectors")
rows = spark.createDataFrame([(1, "x", [0.5, 1.0]), (2, "y", [0.5, 0.0])], "id INT, name STRING, emb ARRAY<FLOAT>")
rows.count()
hv.write(rows, table, record_key="id", vectors={"emb": 2}, operation="bulk_insert", options=quick)
assert [row["id"] for row in hv.search(spark, table, "emb", [0.5, 0.1], 2).collect()] == [2, 1]
assert "Python workers" in said(lambda: hv.register(spark))
assert "Python workers" in said(lambda: hv.index.create(spark, table, "emb"))
photos = rows.selectExpr("id", "cast(name AS BINARY) AS image")
assert "Python workers" in said(lambda: hv.write(photos, str(folder / "photos"), record_key="id", blobs=["image"]))
assert not (folder / "photos").exists()
text = None
try:
    hv.search(spark, table, "emb", [0.5, 0.1], 2, execution="distributed").collect()
except Exception as problem:
    text = str(problem)
assert "the Python workers of this session have no" in text and "Traceback" not in text, text

# With workers of its own, and still not registered.
spark.sparkContext.pythonExec = sys.executable
hv.write(photos, str(folder / "photos"), record_key="id", blobs=["image"], operation="bulk_insert", options=quick)
found = hv.search(spark, table, "emb", [0.5, 0.1], 2, execution="distributed").collect()
assert [row["id"] for row in found] == [2, 1]

for _ in range(2):
    assert hv.register(spark) is spark
    for session in (spark, spark.newSession()):
        sql = f"SELECT id FROM hudi_vector_search('{table}', 'emb', ARRAY(0.5, 0.1), 1)"
        assert [row["id"] for row in session.sql(sql).collect()] == [2]
        assert session.sql(f"SELECT count(*) FROM {sql[15:].replace('search(', 'search_native(')}").collect()
        assert bytes(session.sql("SELECT read_blob(to_blob(x'41'))").collect()[0][0]) == b"A"

# A second application in the same process and the same JVM, with settings that the first one did not have.
first = spark.sparkContext.applicationId
spark.stop()
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = hv.register(made(SparkSession.builder.config("hoodie.vector.search.distance.columns", "_hudi_distance")))
assert spark.sparkContext.applicationId != first
found = spark.sql(f"SELECT * FROM hudi_vector_search('{table}', 'emb', ARRAY(0.5, 0.1), 1)")
assert found.columns[-2:] == ["name", "_hudi_distance"], found.columns
assert [row["id"] for row in found.collect()] == [2]
assert [row["id"] for row in hv.search(spark, table, "emb", [0.5, 0.1], 2, columns=["id"]).collect()] == [2, 1]

# Its workers begin with what tasks import, where the session names no daemon itself.
def begins_with_it(_):
    import sys
    yield "hudi_vector.query.distributed" in sys.modules

assert spark.sparkContext.parallelize([0], 1).mapPartitions(begins_with_it).collect() == [True]
spark.stop()
spark = hv.register(made(SparkSession.builder.config("spark.python.daemon.module", "pyspark.daemon")))
assert spark.sparkContext.parallelize([0], 1).mapPartitions(begins_with_it).collect() == [False]
print("well")
"""


def _ran(program: str, folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    mine = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")}
    return subprocess.run(
        [sys.executable, "-c", _HEAD + program, str(folder), FEW_STATEMENTS, json.dumps(QUICK), *more],
        capture_output=True,
        text=True,
        check=False,
        env=mine | environment,
    )


def _told(ran: subprocess.CompletedProcess[str]) -> str:
    """Python's traceback, without what the JVM says before and after it."""
    found = ran.stderr.rfind("Traceback (most recent call last)")
    return ran.stderr[max(0, found) :][:3000]


def test_a_session_without_hudi_is_told_so(tmp_path: Path) -> None:
    ran = _ran(_WITHOUT_HUDI, tmp_path)
    assert ran.stdout.splitlines()[-1:] == ["well"], _told(ran)


def test_a_session_that_was_not_registered_and_workers_that_lack_the_package(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    ran = _ran(_OTHER_WORKERS, tmp_path, str(tmp_path / "bare" / "bin" / "python"), **fetched())
    assert ran.stdout.splitlines()[-1:] == ["well"], _told(ran)
    # Spark's own warnings are on, and say nothing of our functions.
    assert "WARN" in ran.stderr
    assert "replaced a previously registered function" not in ran.stderr


@pytest.mark.parametrize(
    ("version", "problem"),
    [("25.0.3", "is Java 25"), ("1.8.0_392", "is Java 8"), (None, "there is no")],
)
def test_a_java_that_spark_cannot_use_is_named_before_spark_starts(
    version: str | None, problem: str, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "java"
    if version is not None:
        # What every java answers; no JVM of that version is needed to be refused.
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx=\"11\"' >&2\necho 'openjdk version \"{version}\"' >&2\n"
        )
        program.chmod(0o755)
    ran = _ran("print(said(lambda: hv.configure(SparkSession.builder)))", tmp_path, JAVA_HOME=str(tmp_path))
    assert problem in ran.stdout, ran.stdout + ran.stderr
    assert f"'{program}'" in ran.stdout
    assert ran.stdout.endswith("set JAVA_HOME to its folder before the first SparkSession is made\n")


def test_the_java_of_this_machine_is_taken(tmp_path: Path) -> None:
    ran = _ran("hv.configure(SparkSession.builder); print('well')", tmp_path)
    assert ran.stdout == "well\n", ran.stderr


_JVMS = sorted(
    path.parents[1] for path in Path("/usr/lib/jvm").glob("*/bin/java") if re.search(r"-(8|2[4-9])-", path.parents[1].name)
)  # fmt: skip


@pytest.mark.skipif(not _JVMS, reason="no Java that Spark cannot use is installed here")
def test_a_real_java_that_spark_cannot_use_is_refused(tmp_path: Path) -> None:
    ran = _ran("print(said(lambda: hv.configure(SparkSession.builder)))", tmp_path, JAVA_HOME=str(_JVMS[0]))
    assert re.search(r"runs on Java 11 to 23, and '.*/bin/java' is Java \d+ \(JAVA_HOME is", ran.stdout), ran.stderr
