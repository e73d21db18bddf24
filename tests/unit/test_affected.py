"""`make test-quick` runs the unit tests that a change may break, the nearest first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import affected

ROOT = Path(__file__).resolve().parents[2]


def _near(*names: str) -> list[str]:
    return [test.name for test in affected.affected([ROOT / name for name in names])]


def test_tests_that_import_a_changed_module_come_before_those_that_reach_it_through_others() -> None:
    near = _near("hudi_vector/table_services/maintenance/history.py")
    assert near[:3] == ["test_maintenance.py", "test_metrics.py", "test_rooms.py"]  # the last reads every module
    assert "test_command.py" in near[3:]
    assert "test_kernels.py" not in near


def test_a_changed_test_is_the_nearest_of_all() -> None:
    assert _near("tests/unit/test_trash.py")[0] == "test_trash.py"


def test_public_names_and_helpers_of_tests_lead_to_tests() -> None:
    assert "test_sessions.py" in _near("hudi_vector/sessions.py")[:5]  # it only says hv.configure and hv.register
    assert "test_mark_object_store.py" in _near("tests/support/servers.py")


def test_a_file_that_is_no_module_concerns_the_tests_that_name_it() -> None:
    assert {"test_docs.py", "test_halves.py"} <= set(_near("Makefile"))
    assert _near("docs/" + "unknown" + ".md") == []


def test_what_every_test_shares_concerns_every_test() -> None:
    assert len(_near("tests/conftest.py")) == len([*ROOT.glob("tests/unit/test_*.py")])


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits on ``main``."""
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    _git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
        _commit(tmp_path, name)
    return tmp_path


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", message)


def test_on_main_the_last_commit_is_compared_with_what_lies_there(repository: Path) -> None:
    assert affected.changed_since(affected.base()) == [repository / "second"]  # nothing changed: the commit itself
    (repository / "third file").write_text("new")
    assert affected.base() == _git(repository, "rev-parse", "HEAD")
    assert affected.changed_since(affected.base()) == [repository / "third file"]


def test_a_branch_is_compared_with_where_it_left_main(repository: Path) -> None:
    _git(repository, "checkout", "--quiet", "-b", "work")
    (repository / "first").write_text("changed")
    _commit(repository, "on the branch")
    (repository / "second").write_text("changed and not committed")
    assert affected.base() == _git(repository, "rev-parse", "main")
    assert affected.changed_since(affected.base()) == [repository / "first", repository / "second"]
    assert affected.base("HEAD") == _git(repository, "rev-parse", "HEAD")


def test_without_a_commit_to_compare_with_one_sentence_says_so(repository: Path) -> None:
    with pytest.raises(SystemExit, match=r"^git rev-parse .*nowhere.* failed: .*; `make test` runs all tests$"):
        affected.base("nowhere")


def test_tests_that_would_begin_too_late_are_skipped_and_say_so() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--until", "0", "tests/unit/test_trash.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "the time that --until gives was over; `make test` runs all tests" in ran.stdout
    assert " passed" not in ran.stdout
