"""The command line: its arguments, its help, its completion, and what it prints."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pyspark import cloudpickle
from support.commands import unread

import hudi_vector as hv
from hudi_vector import __main__ as program
from hudi_vector import options
from hudi_vector.command import endings
from hudi_vector.command import main as commands
from hudi_vector.command.main import main
from hudi_vector.command.rows import write_rows
from hudi_vector.command.services import FORMER, _keys_of
from hudi_vector.command.vectors.functions import function_named
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.query.tuning import MODES

ROOT = Path(hv.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_options_are_found_by_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["default"]) for row in rows] == [(option.key, option.default) for option in options.ALL]
    assert main(["options", "CLEAN.grace"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("hoodie.blob.clean.grace = 1d\n    The age a blob file must have")
    assert out.count(" = ") == 1
    assert main(["options", "clean.gracee", "--format", "csv"]) == 1
    assert capsys.readouterr().out == ""


def test_bundles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundles", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "3.5,org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0,True" in lines
    assert "4.0,org.apache.hudi:hudi-spark4.0-bundle_2.13:1.2.0,False" in lines


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hudi-vector {hv.__version__}\n"


WRONG = [
    (["search", ""], "the argument 'table' is blank; give a text"),
    (["blobs", "inventory", ""], "the argument 'table' is blank; give a text"),
    (["services", "clean", "--table", " "], "the argument 'table' is blank; give a text"),
    (["table", ""], "the argument 'table' is blank; give a text"),
    (["nosuch"], "'hudi-vector' has no command 'nosuch'; see 'hudi-vector --help'"),
    (["serch"], "'hudi-vector' has no command 'serch'; did you mean 'search' or 'services'?"),
    (["clean-blob"], "'hudi-vector' has no command 'clean-blob'; did you mean 'clean-blobs'"),
    (["--verbose"], "'hudi-vector' has no option '--verbose'; did you mean '--version'?"),
    (["options", "a", "extra"], "unexpected extra argument"),
    (["blobs", "nosuch"], "'hudi-vector blobs' has no command 'nosuch'; see 'hudi-vector blobs --help'"),
    (["blobs", "inventory"], "give one table, by its path or its name"),
    (["blobs", "inventory", "t", "--table", "u"], "give one table, by its path or its name, not two"),
    (["blobs", "inventory", "--table", "t", "--format", "xml"], "--format: 'xml' is not one of 'table', 'json', 'csv'"),
    (["blobs", "inventory", "--table", "t", "--deep"], "no option '--deep'; did you mean '--help'?"),
    (["blobs", "inventory", "--table", "t", "--picture", "x.png"], "no option '--picture'"),
    (["index", "create", "t"], "give --column; see 'hudi-vector index create --help'"),
    (["index", "create", "t", "--colum", "emb"], "no option '--colum'; did you mean '--column' or '--conf'?"),
    (["search", "t", "--column", "emb", "--query", "1", "--like", "a"], "give one of --query, --query-file and --like"),
    (["search", "t", "--column", "emb", "--query", "[1,", "-k", "3"], "is no list of numbers, such as [0.1, 0.2]"),
    (["search", "--file", "x.parquet", "--query", "1"], "name the vector column with --column"),
    (["search", "t", "--lance", "u", "--column", "emb"], "give one of a table, --file, --delta and --lance"),
    (["search", "t", "--column", "emb", "-k", "ten"], "-k: 'ten' is not a valid integer"),
    (["vectors", "add-column", "t", "--column", "new"], "give --vector; see 'hudi-vector vectors add-column --help'"),
    (["vectors", "find", "/no/such", "--column", "emb"], "there is no Hudi table at '/no/such'"),
    (["vectors", "backfill", "t", "--column", "new", "--source", "a"], "give --function"),
    (["vectors", "drop-column", "t", "--column", "old", "--dry-run"], "no option '--dry-run'"),
    (["services", "erase", "--key", "k"], "give one table"),
    (["services", "erase", "t", "--key", "k", "--grace", "1h"], "no option '--grace'"),
    (["table", "/no/\udcff"], "the path '/no/\\udcff' is not UTF-8, or holds NUL"),
    (
        ["search", program.__file__, "--query", "1"],
        "is a file or lies below one; give Parquet files as files=[…], or with --f",
    ),
    (["search", "--delta", "/no/such", "--column", "v", "--query", "1"], "there is no Delta table at '/no/such'"),
    (["services", "erase", "/t", "--keys-file", "/no/such"], "the keys in '/no/such' cannot be read"),
]
WRONG_SERVICES = [
    (["clean"], "give one table"),
    (["clean", "--table", "t", "--format", "xml"], "'xml' is not one of"),
    (["clean", "--table", "t", "--max-share", "0.5"], "--max-share: '0.5' is not a valid integer"),
    (["clean", "--table", "t", "--mark", "m"], "no option '--mark'"),
    (["mark", "--table", "t", "--dry-run"], "no option '--dry-run'"),
    (["sweep", "--table", "t"], "give --mark"),
    (["sweep", "--table", "t", "--mark", "m", "--verify-index"], "no option '--verify-index'"),
    (["restore", "--table", "t", "--grace", "1h"], "no option '--grace'"),
    (["maintain"], "give one table"),
    (["maintain", "--table", "t", "--grace", "1h"], "no option '--grace'"),
    (["explain", "--table", "t"], "give --path"),
    (["explain", "--table", "t", "--path", "p", "--report", "r"], "no option '--report'"),
    (["register", "--table", "t"], "give --with"),
    (["check-erasure", "--key", "k"], "give one table"),
    (["registered", "--table", "t", "--with", "u"], "no option '--with'"),
    (["compact"], "give one table"),
    (["compact", "--table", "t", "--live-threshold", "half"], "--live-threshold: 'half' is not a valid integer"),
    (["compact", "--table", "t", "--no-trash"], "no option '--no-trash'"),
    (["cluster"], "give one table"),
    (["cluster", "--table", "t", "--grace", "1h"], "no option '--grace'"),
]


def _both_names() -> Iterator[tuple[list[str], str]]:
    """Every wrong use of a service, by its name in the group and by its former name."""
    former = {new: old for old, new in FORMER.items()}
    for words, sentence in WRONG_SERVICES:
        yield ["services", *words], sentence
        yield [former[words[0]], *words[1:]], sentence


@pytest.mark.parametrize(("arguments", "sentence"), [*WRONG, *_both_names()], ids=lambda each: " ".join(each)[:60])
def test_wrong_use_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("hudi-vector: ")
    assert sentence in err


def test_a_command_that_sigint_stops_says_so_whatever_error_pyspark_makes_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_pyspark(number: int, frame: object) -> None:
        raise RuntimeError("reentrant call")

    def interrupted(*_: object) -> None:
        endings.note_interrupts()
        endings.note_interrupts()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(endings, "_INTERRUPTED", threading.Event())
    monkeypatch.setattr("hudi_vector.command.reference.write_text", interrupted)
    before = signal.signal(signal.SIGINT, of_pyspark)
    try:
        assert main(["options"]) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.strip() == "hudi-vector: stopped"


def test_a_byte_order_mark_is_no_part_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbfuser-1\r\n\r\nuser-2\n")
    assert _keys_of(str(tmp_path / "keys")) == ["user-1", "user-2"]


@pytest.mark.parametrize("arguments", [[], ["index"], ["vectors"], ["blobs"], ["services"]], ids=" ".join)
def test_a_group_alone_shows_its_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(" ".join(["Usage: hudi-vector", *arguments]))
    assert "\nCommands:\n" in err


def _commands(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, *words, name)
        else:
            yield (*words, name)


@pytest.mark.parametrize("words", list(_commands(commands._commands)), ids=" ".join)
def test_help_fits_80_columns(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.partition("Commands:")[2], "no command's summary is cut off"


MODELS = """
import math
from os.path import join

def embed(rows):
    return math.sqrt(4)

SQL = "SELECT"
"""


def test_a_function_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_models.py").write_text(MODELS)
    (tmp_path / "broken_models.py").write_text("raise SystemExit('no key is set')")
    embed = function_named("own_models:embed")
    assert embed(None) == 2
    # Workers get the code of a module of this directory, and the name alone of one that is installed.
    assert b"sqrt" in cloudpickle.dumps(embed)
    assert len(cloudpickle.dumps(function_named("json:dumps"))) < 60
    for text, sentence in {
        "embed": "--function 'embed' is not MODULE:NAME; name a function, such as models:embed",
        ":embed": "is not MODULE:NAME",
        "no_models:embed": "the module 'no_models' of --function cannot be imported: No module named 'no_models'; name one",
        "broken_models:embed": "the module 'broken_models' of --function cannot be imported: no key is set; name one",
        "own_models:embd": "the module 'own_models' has no function 'embd'; did you mean 'embed'?",
        "own_models:SQL": "the module 'own_models' has no function 'SQL'; name one of its functions",
    }.items():
        with pytest.raises(InvalidArgumentError, match=re.escape(sentence)):
            function_named(text)


def test_former_names_work_and_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert not [name for name in FORMER if f"\n  {name} " in listed]
    for former, name in FORMER.items():
        assert main([former, "--help"]) == 0
        old = capsys.readouterr().out
        assert main(["services", name, "--help"]) == 0
        assert old.partition("\n")[2] == capsys.readouterr().out.partition("\n")[2]


@pytest.mark.parametrize("command", [["-m", "hudi_vector"], [program.__file__]], ids=["package", "file"])
def test_the_package_is_the_command(command: list[str]) -> None:
    command = [sys.executable, *command]
    ran = subprocess.run([*command, "bundles"], capture_output=True, text=True, check=True, cwd=ROOT, env=ENVIRONMENT)
    assert "hudi-spark3.5-bundle" in ran.stdout
    wrong = subprocess.run([*command, "nosuch"], capture_output=True, check=False, cwd=ROOT, env=ENVIRONMENT)
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        ["options"],
        ["options", "grace", "--format", "csv"],
        ["options", "--format", "json"],
        ["--show-completion", "bash"],
    ],
    ids=" ".join,
)
def test_a_reader_that_has_seen_enough_is_no_error(command: list[str]) -> None:
    assert unread(*command) == (0, "")


def _completed(*words: str, last: str) -> list[str]:
    """What a shell is offered for the last word."""
    env = {
        **ENVIRONMENT,
        "_HUDI_VECTOR_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["hudi-vector", *words, last]),
        "COMP_CWORD": str(len(words) + 1),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "hudi_vector"], capture_output=True, text=True, check=False, cwd=ROOT, env=env
    )
    return [line.partition(",")[2] for line in ran.stdout.splitlines()]


def test_a_shell_completes_commands_options_and_their_values() -> None:
    assert _completed(last="se") == ["search", "services"]
    assert _completed("index", "create", last="--num") == ["--num-partitions", "--num-sub-vectors", "--num-bits"]
    assert _completed("index", "create", "--kind", last="ivf_s") == ["ivf_sq8"]
    assert _completed("search", "t", "--metric", last="") == ["cosine", "l2", "dot_product", "hamming"]
    assert _completed("search", "t", "--mode", last="") == list(MODES)
    assert _completed("maintain", "--step", last="c") == ["cluster", "compact-blobs", "clean-blobs"]
    assert _completed("options", last="hoodie.blob.clean.gr") == ["hoodie.blob.clean.grace"]


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "data/bash-completion/completions/hudi-vector"),
        ("zsh", ".zfunc/_hudi-vector"),
        ("fish", "settings/fish/completions/hudi-vector.fish"),
    ],
)
def test_completion_is_shown_and_installed(
    shell: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, place in (("HOME", ""), ("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "settings")):
        monkeypatch.setenv(name, str(tmp_path / place))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert main(["--show-completion"]) == 0
    shown = capsys.readouterr().out
    assert f"_HUDI_VECTOR_COMPLETE={shell}_complete" in shown
    assert main(["--install-completion", shell]) == 0
    assert capsys.readouterr().err.startswith(f"hudi-vector: '{tmp_path / file}' is written; ")
    assert (tmp_path / file).read_text() == shown.rstrip("\n") + shown[len(shown.rstrip("\n")) + 1 :]
    assert main(["--show-completion", "tcsh"]) == 2
    assert "'tcsh' is none that completes; give one of bash, zsh, fish" in capsys.readouterr().err


ROWS = [
    {"path": f".hoodie/blobs/img/2026/{'#' * 60}.blob", "bytes": 3 << 20, "at_ms": 1795445165650, "reason": "no row"},
    {"path": "b", "bytes": 20, "at_ms": None, "reason": "a row\x1b[2J refers to it, " * 5},
]


def test_json_and_csv_have_raw_values(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([{"a": b"\x00\xff", "b": [1, 2], "c": None, "d": 1.5}], "json")
    assert json.loads(capsys.readouterr().out) == {"a": "AP8=", "b": [1, 2], "c": None, "d": 1.5}
    write_rows([{"a": float("nan"), "b": [float("-inf"), 1.0], "c": {"d": float("inf")}}], "json")
    assert json.loads(capsys.readouterr().out) == {"a": "NaN", "b": ["-Infinity", 1.0], "c": {"d": "Infinity"}}
    write_rows(ROWS, "json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS
    write_rows(ROWS, "csv")
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["bytes"] for row in read] == ["3145728", "20"]
    assert [row["reason"] for row in read] == [row["reason"] for row in ROWS]
    for form in ("json", "csv"):
        write_rows([], form)
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_a_table_fits_the_terminal_and_loses_nothing(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    write_rows(ROWS, "table")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "3.0 MiB" in out
    assert "2026-11-23" in out
    assert out.count("#") == 60
    assert "\x1b" not in out


def test_rows_are_lines_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    write_rows(ROWS, "table")
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["path", "bytes", "at", "reason"]
    assert ROWS[0]["path"] in first
    assert "a row\\x1b[2J refers to it" in second


def test_measurements_are_text_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([{"recalls": ((1795445165650, 0.9889999999999999),), "milliseconds": 1.25, "proved": True}], "table")
    assert capsys.readouterr().out.splitlines()[1].split() == ["0.989", "(2026-11-23", "14:46:05Z)", "1.2", "ms", "yes"]


@pytest.mark.parametrize("setting", ["hoodie.blob.clean.grace", "=1h", "fs.s3a.endpoint=x", "hoodie.", ""])
@pytest.mark.parametrize(
    "command",
    [
        ["clean-blobs"],
        ["services", "clean"],
        ["maintain"],
        ["blobs", "verify"],
        ["index", "describe"],
        ["table"],
        ["search", "--column", "emb", "--query", "1"],
    ],
)
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
    def failing() -> int:
        try:
            raise ValueError("in the middle")
        except ValueError as problem:
            logging.getLogger("hudi_vector.writing.failures").error("it failed", exc_info=problem)
        return 1

    monkeypatch.setattr(commands.bundles, "callback", lambda **_: failing())
    monkeypatch.setattr(logging.getLogger("hudi_vector"), "propagate", False)  # pytest logs by itself
    assert main(["bundles"]) == 1
    assert capsys.readouterr().err == "ERROR: it failed\n"
    assert logging.getLogger("hudi_vector").handlers == []
