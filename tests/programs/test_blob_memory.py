"""Blobs far larger than the memory of the driver and the workers go through them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.quick import fetched

MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("blobs", "size"),
    [(400, 2 * MEGABYTE), pytest.param(20_000, MEGABYTE, marks=pytest.mark.soak)],
    ids=["400 of 2 MB", "20,000 of 1 MB"],
)
def test_a_small_driver_and_small_workers(tmp_path, blobs, size):
    script = Path(__file__).parent.parent / "support" / "blob_memory.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(blobs), str(size), "400"],
        capture_output=True,
        text=True,
        env={**os.environ, **fetched()},
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout.strip().splitlines()[-1])
    assert measured["bytes"] == [blobs // 4 * size, blobs * size]
    assert measured["rows"] == blobs
    assert len(measured["peaks"]) >= 2
    assert max(measured["peaks"]) < 300 * MEGABYTE, [f"{peak / MEGABYTE:.0f} MB" for peak in measured["peaks"]]
