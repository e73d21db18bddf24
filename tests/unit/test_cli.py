"""The command line."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hudi_vector as hv
from hudi_vector import cli, options
from hudi_vector.cli import main

ROOT = Path(hv.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


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


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nosuch"],
        ["options", "extra"],
        ["blobs"],
        ["blobs", "nosuch"],
        ["blobs", "inventory"],
        ["blobs", "inventory", "--table", "t", "--format", "xml"],
        ["blobs", "inventory", "--table", "t", "--deep"],
        ["blobs", "inventory", "--table", "t", "--picture", "x.png"],
        ["clean-blobs"],
        ["clean-blobs", "--table", "t", "--format", "xml"],
        ["clean-blobs", "--table", "t", "--max-share", "0.5"],
        ["clean-blobs", "--table", "t", "--mark", "m"],
        ["mark-blobs", "--table", "t", "--dry-run"],
        ["sweep-blobs", "--table", "t"],
        ["sweep-blobs", "--table", "t", "--mark", "m", "--verify-index"],
        ["restore-blobs", "--table", "t", "--grace", "1h"],
        ["maintain"],
        ["maintain", "--table", "t", "--grace", "1h"],
        ["explain-blob", "--table", "t"],
        ["explain-blob", "--table", "t", "--path", "p", "--report", "r"],
        ["register-tables", "--table", "t"],
        ["check-erasure", "--key", "k"],
        ["registered-tables", "--table", "t", "--with", "u"],
        ["compact-blobs"],
        ["compact-blobs", "--table", "t", "--live-threshold", "half"],
        ["compact-blobs", "--table", "t", "--no-trash"],
        ["cluster"],
        ["cluster", "--table", "t", "--grace", "1h"],
    ],
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: hudi-vector" in capsys.readouterr().err


@pytest.mark.parametrize("program", [["-m", "hudi_vector"], [cli.__file__]], ids=["package", "file"])
def test_the_package_is_the_command(program: list[str]) -> None:
    command = [sys.executable, *program]
    ran = subprocess.run([*command, "bundles"], capture_output=True, text=True, check=True, cwd=ROOT, env=ENVIRONMENT)
    assert "Spark 3.5" in ran.stdout
    wrong = subprocess.run([*command, "nosuch"], capture_output=True, check=False, cwd=ROOT, env=ENVIRONMENT)
    assert wrong.returncode == 2


@pytest.mark.parametrize("setting", ["hoodie.blob.clean.grace", "=1h", "fs.s3a.endpoint=x", "hoodie.", ""])
@pytest.mark.parametrize("command", [["clean-blobs"], ["maintain"], ["blobs", "verify"], ["index", "describe"]])
def test_a_setting_has_a_key_and_a_value(command: list[str], setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--table", "t", "--conf", setting]) == 2
    assert capsys.readouterr().err == (
        f"hudi-vector: --conf {setting!r} is no setting: give KEY=VALUE, with a key that begins with spark. or hoodie.\n"
    )


def test_settings_are_for_tables(capsys: pytest.CaptureFixture[str]) -> None:
    conf = ["--conf", "hoodie.vector.index.external.enabled=false"]
    assert main(["index", "describe", "--file", "x.parquet", *conf]) == 2
    assert "--conf is for tables" in capsys.readouterr().err


@pytest.mark.parametrize("prefix", ["", "spark."])
def test_a_misspelt_setting_is_refused_before_spark_starts(
    prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")  # a session would fail otherwise
    assert main(["clean-blobs", "--table", "t", "--conf", f"{prefix}hoodie.blob.clean.gracee=1h"]) == 2
    assert capsys.readouterr().err == (
        "hudi-vector: 'hoodie.blob.clean.gracee' is no setting; did you mean 'hoodie.blob.clean.grace'?\n"
    )


def test_what_is_logged_has_no_frames(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object) -> int:
        try:
            raise ValueError("in the middle")
        except ValueError as problem:
            logging.getLogger("hudi_vector.writing.failures").error("it failed", exc_info=problem)
        return 1

    monkeypatch.setattr(cli, "_options", failing)
    monkeypatch.setattr(logging.getLogger("hudi_vector"), "propagate", False)  # pytest logs by itself
    assert cli.main(["options"]) == 1
    assert capsys.readouterr().err == "ERROR: it failed\n"
    assert logging.getLogger("hudi_vector").handlers == []
