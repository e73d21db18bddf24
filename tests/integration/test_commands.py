"""The command in processes of its own: settings, spark-submit and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from support import tables
from support.blobs import rows, write
from support.quick import FEW_STATEMENTS, fetched

import hudi_vector as hv
from hudi_vector import __main__ as program
from hudi_vector.jars import known_bundles

ROOT = Path(hv.__file__).parents[1]
OUT = {"img": {"inline.threshold": "0"}}
KEPT = {"hoodie.clean.automatic": "false"}
SMALL = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g", "--conf", "spark.master=local[2]"]
SMALL += ["--conf", f"spark.driver.extraJavaOptions={FEW_STATEMENTS}"]


@pytest.fixture(scope="module")
def table(spark, workspace):
    """Containers of three writes; Hudi's clean took what refers to the first two."""
    path = tables.fresh_path(workspace, "commands")
    for version in range(1, 4):
        write(rows(spark, [100] * 2, ts=version), path, blobs=OUT, options=KEPT)
    hv.table_services.clean_blobs(spark, str(path), run_hudi_clean=True, retained_commits=1)
    return path


def ran(*command, cwd, **more):
    """A process that finds this package as an installed one would be found."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **more}
    env.pop("PYSPARK_GATEWAY_PORT", None)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_settings_are_given_to_a_process_of_its_own(table, tmp_path):
    """The steps of the policy alone; with the usual grace nothing would be due."""
    policy = ["hoodie.blob.maintain.steps=clean_blobs", "spark.hoodie.blob.clean.grace=0s"]
    given = [word for setting in policy for word in ("--conf", setting)]
    command = [sys.executable, "-m", "hudi_vector", "maintain", "--table", str(table), "--dry-run", "--format", "json"]
    done = ran(*command, *SMALL, *given, cwd=tmp_path, **fetched())
    assert done.returncode == 0, done.stderr
    rows_only = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["step"], row["state"]) for row in rows_only] == [("clean_blobs", "due")]


def test_it_runs_under_spark_submit(table, tmp_path):
    """Exit code and settings pass through; a setting of the command goes before one of spark-submit."""
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--packages",
        known_bundles()["3.5"].location,
    ]
    ours = ["hoodie.blob.clean.grace=0s", "hoodie.blob.clean.max.share=100"]
    theirs = ["sql.extensions=no.such.Extension", "log.level=WARN"]
    given = [word for setting in [*ours, *theirs] for word in ("--conf", f"spark.{setting}")]
    command = [program.__file__, "clean-blobs", "--table", str(table), "--conf", "hoodie.blob.clean.max.share=1"]
    done = ran(*submit, *SMALL, *given, *command, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    sentence = done.stdout.splitlines()[-1]  # spark-submit sends both outputs of Python to its standard output
    assert sentence.startswith("hudi-vector: the sweep of mark '")
    assert "200 of 600 bytes in the blob area would go, and hoodie.blob.clean.max.share allows 1 percent" in sentence
    assert "Cannot use no.such.Extension" in done.stderr, "Spark knows the lists that spark-submit was given"
