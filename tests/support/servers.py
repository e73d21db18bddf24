"""Real parts beside the main session: programs with a Spark of their own, an object store, a cluster.

Every process is ended by its own id.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3

from hudi_vector.storage import StorageOptions
from support.loaded import module
from support.quick import FEW_STATEMENTS, fetched

_ROOT = Path(__file__).resolve().parents[2]
_slow_store = module("benchmarks/slow_store.py", "servers_slow_store")
free_port, running, wait_for = _slow_store.free_port, _slow_store.running, _slow_store.wait_for
_PRELUDE = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import hudi_vector as hv
from support.quick import FEW_STATEMENTS, QUICK, make_hadoop_settings_few, remember_java_names

remember_java_names()

def application(master="local[2]", packages=None, conf=None):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    given = {
        "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": FEW_STATEMENTS, "spark.executor.extraJavaOptions": FEW_STATEMENTS,
        "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": os.path.abspath("warehouse"), "spark.python.daemon.module": "support.python_daemon",
        **QUICK, **(conf or {}),
    }
    if packages:
        given["spark.jars.packages"] = packages
    for key, value in given.items():
        builder = builder.config(key, value)
    session = hv.register(hv.configure(builder).getOrCreate())
    make_hadoop_settings_few(session)
    return session
"""


def run_program(program: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python text in an interpreter of its own, in an empty folder, with ``application(…)`` to start Spark."""
    import tempfile

    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    environment = {**os.environ, **fetched(), "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1", **(env or {})}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [sys.executable, "-c", _PRELUDE + program, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """The endpoint of an S3-compatible server that runs as long as the block."""
    with _slow_store.moto() as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def lake() -> Iterator[tuple[StorageOptions, Any]]:
    """Hadoop's settings for such a server with a bucket called lake, and a boto3 client of it."""
    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "secret"}
    with object_store() as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="lake")
        settings = {
            "endpoint": endpoint,
            "endpoint.region": "us-east-1",
            "access.key": "tester",
            "secret.key": "secret",
        }
        yield StorageOptions.of({f"fs.s3a.{key}": value for key, value in settings.items()}), client
        client.close()


@contextlib.contextmanager
def cluster(workers: int = 2) -> Iterator[str]:
    """The URL of a standalone cluster, a master and workers of one core, from the installed pyspark."""
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    port, web = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    env = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": paths}
    run = [f"{home}/bin/spark-class", "org.apache.spark.deploy.{}", "--host", "127.0.0.1", "--webui-port"]
    master = [part.format("master.Master") for part in run]
    worker = [part.format("worker.Worker") for part in run]
    import tempfile

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        env["SPARK_DAEMON_JAVA_OPTS"] = FEW_STATEMENTS
        env["SPARK_WORKER_DIR"] = env["SPARK_LOG_DIR"] = env["SPARK_LOCAL_DIRS"] = folder
        stack.enter_context(running([*master, str(web), "--port", str(port)], env=env))
        wait_for(port)
        for _ in range(workers):
            settings = ["--cores", "1", "--memory", "1g", url]
            stack.enter_context(running([*worker, str(free_port()), *settings], env=env))
        _wait_for_workers(web, workers)
        yield url


def _wait_for_workers(web: int, workers: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            state = urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5).read().decode()
            if state.count('"ALIVE"') >= workers + 1:
                return
        time.sleep(0.5)
    raise TimeoutError("the workers did not come up")
