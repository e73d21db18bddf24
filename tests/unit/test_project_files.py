"""The files around the package: workflows, hooks, what git ignores, what a release must have."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "smoke"))

import release  # noqa: E402

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.M))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def _yaml(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def _steps(path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The steps of a workflow, each with its job."""
    return [(job, step) for job in _yaml(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_of_the_makefile(path: Path) -> None:
    called = []
    for job, step in _steps(path):
        for name in re.findall(r"make ([^\s]+)", step.get("run", "")):
            values = job.get("strategy", {}).get("matrix", {})
            half = re.search(r"\$\{\{ matrix\.(\w+) \}\}", step["run"])
            called += [
                re.sub(r"\$\{\{.*", str(value), name) for value in (values[half.group(1)] if half else ["unused"])
            ]
    assert called
    assert set(called) <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_read_the_repository_and_no_more(path: Path) -> None:
    assert _yaml(path)["permissions"] == {"contents": "read"}
    for job, step in _steps(path):
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 90
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        if step.get("uses", "").startswith("./"):
            assert (ROOT / step["uses"] / "action.yml").exists()


def test_the_workflow_of_changes_has_all_that_is_asked_of_a_change() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert set(jobs) == {"lint", "tests", "pythons", "docs", "wheel"}
    assert jobs["tests"]["strategy"]["matrix"]["half"] == ["vectors", "blobs"]
    (tried,) = re.findall(r"^PYTHONS \?= (.*)$", MAKEFILE, re.M)
    assert jobs["pythons"]["strategy"]["matrix"]["python"] == tried.split()


def test_the_hooks_are_the_linters_of_the_environment() -> None:
    from pre_commit.clientlib import load_config

    (repository,) = load_config(str(ROOT / ".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} <= {
        "system",
        "unsupported",
    }  # one is the other's new name
    (lint,) = re.findall(r"^lint: .*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    wanted = [line.replace("$(BIN)", ".venv/bin").rstrip(" .") for line in lint.replace("\t", "").splitlines()]
    assert [hook["entry"].removesuffix(" --force-exclude") for hook in repository["hooks"]] == wanted  # fmt: skip


def test_every_target_is_declared_as_no_file() -> None:
    declared = {name for line in re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M) for name in line.split()}
    assert declared == TARGETS


def _outputs() -> list[str]:
    """The folders into which the demo, the examples and the benchmarks write unless told otherwise."""
    found = []
    for path in [ROOT / "docs" / "demo.py", *ROOT.glob("docs/examples/*.py"), *ROOT.glob("benchmarks/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]) == "'--output'":
                (default,) = [each.value for each in node.keywords if each.arg == "default"]
                found.append(ast.unparse(default).removeprefix("Path('").removesuffix("')"))
    return found


def test_git_ignores_what_examples_and_builds_write(tmp_path: Path) -> None:
    folders = _outputs()
    assert {"demo-output", "streaming-output", "bench-output"} <= set(folders)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".venv").symlink_to(tmp_path)  # an environment that is shared
    for folder in [*folders, "dist", "build", "spark-warehouse", "metastore_db"]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "file").touch()
    ran = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "?? .gitignore\n"


def test_the_security_page_has_the_trust_of_the_security_model() -> None:
    page = (ROOT / "SECURITY.md").read_text("utf-8")
    assert "Report a vulnerability" in page
    assert "@" not in page  # no address that nobody reads
    (link,) = re.findall(r"\]\((docs/[^)]+)\)", page)
    model = (ROOT / link).read_text("utf-8")
    who = [re.findall(r"^\| ([^|]+) \|", text, re.M) for text in (page, model)]
    assert who[0] == who[1]
    assert len(who[0]) == 6


_CUT = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n### Added\n- More.\n\n## 0.1.0 - 2025-12-01\n"


def test_a_changelog_that_is_cut_is_that_of_a_release() -> None:
    assert release.faults_of_changelog(_CUT, "0.2.0") == []
    assert release.faults_of_changelog(_CUT.replace("## Unreleased\n\n", ""), "0.2.0") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_CUT.replace("0.2.0 - 2026-01-31", "0.2.0"), "has no newest section '## 0.3.0 - YYYY-MM-DD'"),
        (_CUT, "has no newest section '## 0.3.0 - YYYY-MM-DD'"),
        (_CUT.replace("0.1.0", "0.3.0"), "has no newest section '## 0.3.0 - YYYY-MM-DD'"),
        (
            _CUT.replace("0.2.0", "0.3.0").replace("## Unreleased\n", "## Unreleased\n\n### Fixed\n- One.\n"),
            "has changes below '## Unreleased'",
        ),
    ],
)
def test_a_changelog_that_is_not_cut_is_no_release(text: str, said: str) -> None:
    (fault,) = release.faults_of_changelog(text, "0.3.0")
    assert said in fault


def test_the_release_has_the_version_of_the_package() -> None:
    import hudi_vector as hv

    assert release.version() == hv.__version__
