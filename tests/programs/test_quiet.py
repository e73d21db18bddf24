"""The first screen of a new user: README's snippet in a fresh process prints its answer, and nothing of Spark and Hudi."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.processes import alone
from support.quick import SEEN_BY_USERS

README = Path(__file__).resolve().parents[2] / "README.md"
# What may be left: a line for a bundle that is not there yet, and one of Java for whoever sets its variable.
LEFT = ("fetching Hudi's bundle ", "Picked up JAVA_TOOL_OPTIONS")
ANSWER = re.compile(r"\+[-+]+\+|\|.*\||search of .*|  (local|rows:|k reached|proved:) ?.*|")
MORE = """
assert hv.session("another") is spark and hv.register(spark) is spark
assert spark.sparkContext.appName == "pets" and spark.conf.get("spark.sql.shuffle.partitions") == "3"
assert spark.conf.get("spark.ui.enabled") == "false" and spark.sparkContext.master == "local[2]"
BYTES = f"SELECT blob_length(to_blob(x'41')), read_blob(blob_ref('{__file__}', 0L, 6L))"
assert spark.newSession().sql(BYTES).collect() == [(1, bytearray(b"import"))]
try:
    spark.sql(f"SELECT id, read_blob(blob_ref('{__file__}.gone', id, 6L)) FROM range(3)").collect()
except Exception as problem:
    assert "cannot be read: the file is gone" in str(problem), problem
else:
    raise AssertionError("a blob whose file is gone was read")
spark.stop()
second = hv.session("second", config={"spark.ui.enabled": False})
assert second.sql(BYTES).collect() == [(1, bytearray(b"import"))]
"""


def test_the_snippet_of_the_readme_prints_its_answer_alone(tmp_path: Path, tmp_path_factory) -> None:
    (code,) = re.findall(r"```python\n(import hudi_vector.*?)```", README.read_text("utf-8"), re.DOTALL)
    few = '"pets", master="local[2]", config={"spark.ui.enabled": False}, **{"spark.sql.shuffle.partitions": 3})'
    script = tmp_path / "snippet.py"
    script.write_text(code.replace("/tmp/pets", str(tmp_path / "pets")).replace('"pets")', few, 1) + MORE, "utf-8")
    with alone(tmp_path_factory.getbasetemp().parent):  # a bundle may be fetched
        # Spark adds these to its JVM and prints no line on them.
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": SEEN_BY_USERS}
        ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[:5000] + ran.stderr[-3000:]
    assert ran.stdout.count("another cat") == 2
    noise = [line for line in (ran.stdout + ran.stderr).splitlines() if not ANSWER.fullmatch(line)]
    assert len(noise) <= 5, noise
    assert [line for line in noise if not line.startswith(LEFT)] == []
