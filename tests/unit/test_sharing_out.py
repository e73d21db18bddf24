"""How files of tests are shared out among the processes of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
from support.sharing_out import SharingOut


def pytest_xdist_make_scheduler(config, log):
    return SharingOut(config, log)
"""
TEST = """
import os, pathlib, pytest, time


@pytest.mark.parametrize("number", range(3))
def test_it(number):
    time.sleep(0.05)
    worker = os.environ["PYTEST_XDIST_WORKER"]
    pathlib.Path(__file__).with_suffix(f".{number}.ran").write_text(worker)
"""


@pytest.mark.parametrize("others", [0, 6])
def test_a_third_process_takes_programs_first_and_only_tests_without_a_session(tmp_path: Path, others: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    folders = {"integration": 6, "unit": others, "programs": others // 6}
    for folder, count in folders.items():
        (tmp_path / "tests" / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "tests" / folder / f"test_{folder}_{number}.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-n", "3"]
    command += ["--rootdir", str(tmp_path), "--dist", "loadfile", "--no-loadscope-reorder"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # Each of four processes would load the plugins of all that is installed.
    environment |= {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(
        [*command, *(f"tests/{folder}" for folder in folders)], cwd=tmp_path, env=environment, check=True, timeout=300
    )
    ran = {file.name: file.read_text() for file in tmp_path.rglob("*.ran")}
    assert len(ran) == 3 * sum(folders.values())
    assert {worker for name, worker in ran.items() if "integration" in name} == {"gw0", "gw1"}
    assert {worker for name, worker in ran.items() if "programs" in name} == ({"gw2"} if others else set())
    assert ("gw2" in ran.values()) == bool(others)
