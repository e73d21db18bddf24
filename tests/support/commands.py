"""The command ``hudi-vector`` as a process whose output a test directs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def unread(*command: str) -> tuple[int, str]:
    """Return the exit code and the sentences of a command whose reader has closed the pipe before the first row."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "hudi_vector", *command],
            stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    finally:
        os.close(writer)
    return ran.returncode, ran.stderr
