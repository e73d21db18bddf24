"""The command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.cli import main


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options"]) == 0
    assert capsys.readouterr().out == options.markdown()


def test_bundles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundles"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Spark 3.5: org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0 (tested)" in lines
    assert "Spark 4.0: org.apache.hudi:hudi-spark4.0-bundle_2.13:1.2.0 (not tested)" in lines


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"hudi-vector {hv.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["options", "extra"]])
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: hudi-vector" in capsys.readouterr().err


def test_the_module_is_the_command() -> None:
    code = "from hudi_vector.cli import main; raise SystemExit(main())"
    ran = subprocess.run([sys.executable, "-c", code, "bundles"], capture_output=True, text=True, check=True)
    assert "Spark 3.5" in ran.stdout
