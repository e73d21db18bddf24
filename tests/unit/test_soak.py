"""How long random histories go on, and how a failure among them becomes a short one."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support import soak
from support.soak import RECORD, Soak, minimal


def test_seeds_follow_the_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Soak(123).seeds(3)) == [123, 124, 125]
    assert capsys.readouterr().out == "SOAK_SEED=123\nSOAK_SEED=124\nSOAK_SEED=125\n"


def test_histories_go_on_until_the_time_is_over() -> None:
    clock = itertools.count(1000, 25)
    assert list(Soak(5, minutes=2).seeds(2, lambda: next(clock))) == [5, 6, 7, 8, 9]
    assert list(Soak(5, minutes=0).seeds(2)) == [5], "one history is always run: that of a failure"


def test_the_variables_of_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOAK_SEED", "7")
    monkeypatch.setenv("SOAK_MINUTES", "30")
    assert Soak.told() == Soak(7, 30)
    monkeypatch.setenv("SOAK_SEED", "")
    monkeypatch.delenv("SOAK_MINUTES")
    assert Soak.told().minutes is None
    assert len({Soak.told().seed for _ in range(10)}) > 1


@pytest.mark.parametrize("seed", range(20))
def test_a_failure_is_told_in_few_steps(seed: int) -> None:
    """A fault that takes some steps in their order is found as these steps alone, within so many tries."""
    choice = random.Random(seed)
    history = [choice.randrange(100) for _ in range(25)]
    needed = sorted(choice.sample(range(25), choice.randint(1, 3)))
    wanted, tried = [history[at] for at in needed], itertools.count()

    def fails(steps: list[int]) -> bool:
        next(tried)
        left = iter(steps)
        return all(step in left for step in wanted)

    assert minimal(history, fails, tries=200) == wanted
    assert next(tried) <= 100
    assert fails(minimal(history, fails, tries=3))


def test_a_history_that_needs_nothing_becomes_empty() -> None:
    assert minimal([1, 2, 3], lambda steps: True, tries=50) == []
    assert minimal([], lambda steps: True, tries=50) == []


def test_each_long_test_is_on_record(request: pytest.FixtureRequest) -> None:
    """A new one is put there by `make soak`, which begins with what has not run."""
    noted = json.loads(RECORD.read_text("utf-8"))
    assert noted["whole"] == soak.whole(noted["tests"])
    for row in noted["tests"].values():
        assert list(row) == list(soak.NOT_RUN)
        assert row["result"] in ("passed", "failed", "skipped", "not run")
        assert (row["date"] is None) == (row["result"] == "not run")
    assert set(request.config.stash[soak.LONG_TESTS]) <= set(noted["tests"])


def test_all_have_run_since_the_oldest_row() -> None:
    rows = {
        name: {**soak.NOT_RUN, "date": date, "result": "passed", "minutes": 1.5}
        for name, date in zip("abc", "213", strict=True)
    }
    assert soak.whole(rows) == {"since": "1", "results": {"passed": 3}, "minutes": 4.5}
    assert soak.whole({**rows, "d": soak.NOT_RUN}) == {
        "since": None, "results": {"not run": 1, "passed": 3}, "minutes": 4.5,
    }  # fmt: skip
    assert soak.whole({})["since"] is None


def test_what_ran_longest_ago_comes_first() -> None:
    files = {"new.py": ["a", "b"], "none.py": [], "never.py": ["c", "d"], "old.py": ["e"]}
    rows = {name: {**soak.NOT_RUN, "date": date} for name, date in (("a", "5"), ("b", "4"), ("d", "9"), ("e", "3"))}
    assert soak.longest_ago_first(files, rows) == ["never.py", "old.py", "new.py", "none.py"]


PROJECT = """
[pytest]
testpaths = tests
markers = soak: long
addopts = -p no:cacheprovider
"""
LONG = """
import pytest

@pytest.mark.soak
def test_long(soak):
    assert soak.seed == 11

@pytest.mark.soak
def test_other():
    assert {}

def test_short():
    raise AssertionError("it is none of the long ones")
"""


@pytest.mark.parametrize(
    ("more", "holds", "expected"),
    [
        ([], True, {"test_long": "passed", "test_other": "passed"}),
        ([], False, {"test_long": "passed", "test_other": "failed"}),
        (["-k", "long"], True, {"test_long": "passed", "test_other": "not run"}),
        (["tests/test_it.py"], True, {"test_gone": "passed", "test_long": "passed", "test_other": "passed"}),
        (["tests/test_it.py::test_long"], True, {"test_gone": "passed", "test_long": "passed"}),
        (["--collect-only"], True, {"test_gone": "passed"}),
    ],
)
def test_a_run_puts_its_tests_on_record(tmp_path: Path, more: list[str], holds: bool, expected: dict[str, str]) -> None:
    """The hooks of this project over a project of three tests, whose record knows of one that is gone."""
    here = Path(__file__).parents[1]
    support = tmp_path / "tests/support"
    support.mkdir(parents=True)
    for name in ("__init__.py", "processes.py", "soak.py"):
        (support / name).write_text((here / "support" / name).read_text("utf-8"))
    (tmp_path / "tests/conftest.py").write_text((here / "conftest.py").read_text("utf-8"))
    (tmp_path / "pytest.ini").write_text(PROJECT + "pythonpath = tests\n")
    (tmp_path / "tests/test_it.py").write_text(LONG.format(holds))
    record = tmp_path / "tests/soak.json"
    gone = {"date": "2020-01-01T00:00:00Z", "seed": 1, "commit": None, "result": "passed", "minutes": 1.0}
    record.write_text(json.dumps({"tests": {"tests/test_it.py::test_gone": gone}}))
    variables = {"PATH": "/usr/bin:/bin", "SOAK_SEED": "11", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", *more]
    ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == (0 if holds else 1), ran.stdout + ran.stderr
    rows = json.loads(record.read_text("utf-8"))["tests"]
    assert {test.partition("::")[2]: row["result"] for test, row in rows.items()} == expected
    for test, row in rows.items():
        if row["result"] != "not run" and test != "tests/test_it.py::test_gone":
            assert (row["seed"], row["commit"]) == (11, None)
            assert row["date"].endswith("Z")


def test_the_commit_is_told_with_what_was_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "RECORD", tmp_path / "soak.json")
    assert soak.commit() is None

    def git(*words: str) -> str:
        told = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    assert soak.commit() == git("rev-parse", "HEAD")
    (tmp_path / "a").write_text("2")
    assert soak.commit() == git("rev-parse", "HEAD") + "+"
