"""The unit tests that a change may break, the nearest first: `make test-quick` runs them.

A file of tests is near a changed file if few imports lead from one to the other. It is also near a file that is no module of
the package and that it names, such as ``Makefile`` or ``generate.py``. ``python tests/support/affected.py [COMMIT]`` prints
the files of tests for what changed since a commit. Without one it compares with the branch ``main``, and on ``main`` itself
with the last commit, or with the one before where nothing changed since.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hudi_vector as hv
from support import house

__all__ = ["MOST_FILES", "affected", "base", "changed_since"]

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
MOST_FILES = 30
"""More would be read for half a minute before the first test begins."""
_EVERYWHERE = TESTS / "unit" / "test_rooms.py"
"""Reads every module of the package without importing it."""
_SHARED = (TESTS / "conftest.py", TESTS / "unit" / "conftest.py")
"""What every file of unit tests has without an import."""


def affected(changed: Iterable[Path]) -> list[Path]:
    """Return the files of unit tests near these files, the nearest first, those of one distance by name."""
    changed = list(changed)
    tests = sorted((TESTS / "unit").glob("test_*.py"))
    texts = {test: test.read_text("utf-8") for test in tests}
    named = {path.name for path in changed if house.PACKAGE not in path.parents}
    far = _distances(changed)
    for test in tests:
        if any(name in texts[test] for name in named):
            far[test] = min(far.get(test, 1), 1)
    if any(house.PACKAGE in path.parents for path in changed):
        far[_EVERYWHERE] = 1
    return sorted((test for test in tests if test in far), key=lambda test: (far[test], test.name))


def base(commit: str = "") -> str:
    """Return the commit to compare with: the one given, else that where the branch left main, else the last or the one before."""
    if commit:
        return _git("rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    head = _git("rev-parse", "HEAD").strip()
    for main in ("main", "origin/main"):
        if _git("rev-parse", "--verify", "--quiet", main, check=False):
            left = _git("merge-base", main, "HEAD").strip()
            if left != head:
                return left
    return head if changed_since(head) else _git("rev-parse", "HEAD~1").strip()


def changed_since(commit: str) -> list[Path]:
    """Return the files that differ from a commit or are new, whether committed or not."""
    names = _git("diff", "--name-only", "-z", commit) + _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({ROOT / name for name in names.split("\0") if name})


def _git(*arguments: str, check: bool = True) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if check and ran.returncode:
        raise SystemExit(f"git {' '.join(arguments)} failed: {ran.stderr.strip()}; `make test` runs all tests")
    return ran.stdout


def _distances(changed: Iterable[Path]) -> dict[Path, int]:
    """Return how many imports lead to each file from the nearest changed one."""
    importers = _importers()
    far = dict.fromkeys(changed, 0)
    row = list(far)
    while row:
        row = [other for path in row for other in importers.get(path, ()) if _nearer(far, other, far[path] + 1)]
    return far


def _nearer(far: dict[Path, int], path: Path, distance: int) -> bool:
    """Note the distance of a file that has none yet, and return whether it had none."""
    return path not in far and far.setdefault(path, distance) == distance


@lru_cache(maxsize=1)
def _importers() -> Mapping[Path, set[Path]]:
    """Return for each file those that import it: modules, unit tests, and what tests share."""
    found: dict[Path, set[Path]] = {}
    tests = ("unit/*.py", "support/*.py", "conftest.py")
    for path in [*house.modules(), *(path for pattern in tests for path in TESTS.glob(pattern))]:
        for imported in _imported(path):
            found.setdefault(imported, set()).add(path)
    return found


def _imported(path: Path) -> Iterator[Path]:
    """Yield the files of the package and of tests/support that a file imports, also through public names such as `hv.search`."""
    own = _modules()
    yield from (own[module] for module in house.imports(path) if module in own)
    if house.PACKAGE in path.parents:
        return
    if path.name.startswith("test_"):
        yield from _SHARED
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "support":
            below = node.module.removeprefix("support").strip(".")
            for name in [below] if below else [alias.name for alias in node.names]:
                yield TESTS / "support" / f"{name}.py"
        elif isinstance(node, ast.Attribute):
            home = _homes().get(ast.unparse(node))
            if home in own:
                yield own[home]


@lru_cache(maxsize=1)
def _modules() -> dict[str, Path]:
    return {house.module_of(path): path for path in house.modules()}


@lru_cache(maxsize=1)
def _homes() -> dict[str, str]:
    """Return the modules of public names as tests write them, such as `hv.index.create`."""
    rooms = {"hv": hv, "hv.index": hv.index, "hv.blobs": hv.blobs, "hv.table_services": hv.table_services}
    return {
        f"{prefix}.{name}": (home if isinstance(home, str) else home[0]).removeprefix("hudi_vector.")
        for prefix, room in rooms.items()
        for name, home in room._HOMES.items()
    }


def main(commit: str = "") -> None:
    """Print the files of tests, and on the error stream what they were chosen for."""
    since = base(commit)
    changed = changed_since(since)
    tests = affected(changed)
    some = f", of which the nearest {MOST_FILES} run" if len(tests) > MOST_FILES else ""
    said = f"{len(changed)} files changed since {since[:9]}; {len(tests)} files of unit tests depend on them{some}"
    print(said, file=sys.stderr)
    print(*(test.relative_to(ROOT) for test in tests[:MOST_FILES]))


if __name__ == "__main__":
    main(*sys.argv[1:])
