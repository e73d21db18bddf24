"""Benchmarks run whole at a small size, and what they count holds there too; their times say nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.quick import FEW_STATEMENTS, QUICK, fetched

ROOT = Path(__file__).resolve().parents[2]


def run(output: Path, program: str, *arguments: str) -> dict[str, Any]:
    """What `program` publishes under the only name of its output folder."""
    command = [sys.executable, str(ROOT / "benchmarks" / program), "--small", "--output", str(output), *arguments]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    # Hudi's settings are in a file, as those of each write belong to the benchmark.
    settings = output / "hudi"
    settings.mkdir(parents=True)
    (settings / "hudi-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in QUICK.items()), "utf-8")
    spark = {"spark.sql.shuffle.partitions": "2", "spark.python.daemon.module": "support.python_daemon"}
    environment = {
        **os.environ,
        **fetched(),
        "PYTHONPATH": paths,
        "JAVA_TOOL_OPTIONS": FEW_STATEMENTS,
        "HUDI_CONF_DIR": str(settings),
        "PYSPARK_SUBMIT_ARGS": " ".join(f"--conf {key}={value}" for key, value in spark.items()) + " pyspark-shell",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (published,) = output.glob("*.json")
    found: dict[str, Any] = json.loads(published.read_text("utf-8"))
    return found


MOST = {"upsert": (125, 11), "compaction": (225, 13)}
"""The most rounds of requests that each step waits for, Hudi's included, and of ours alone."""


def test_an_upsert_and_a_compaction_on_an_object_store_wait_for_few_rounds_of_ours(tmp_path):
    """The rest is Hudi's, which opens the table and commits; Spark writes and renames nothing for us.

    Each request takes a tenth of a second, so that the few that are sent together are seen together. On a busy machine
    some of them are sent later than others are answered: then each takes half a second.
    """
    for delay in ("0.1", "0.5"):
        output = tmp_path / delay
        rows = run(output, "object_store_blobs.py", "--parts", "compact", "--delay", delay)["rows"]
        assert [row["step"] for row in rows] == list(MOST)
        upsert, done = rows
        assert (upsert["containers"], upsert["blobs"]) == (1, 30)
        assert (done["containers"], done["new_containers"], done["blobs"]) == (5, 1, 60)
        assert done["of_ours"] <= 50
        waves = {row["step"]: (row["waves"], row["waves_of_ours"]) for row in rows}
        if all(found <= most for step in MOST for found, most in zip(waves[step], MOST[step], strict=True)):
            return
    pytest.fail(f"rounds of requests, and of ours: {waves}, and at most {MOST} are expected")
