"""The two halves of the tests are all of them: no file is left out, and none is in both lists."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.halves import BLOBS, FOLDERS, VECTORS, all_files, files_of

ROOT = Path(__file__).parents[2]


def test_every_file_with_tests_is_in_a_half() -> None:
    everything = {str(file.relative_to(ROOT / "tests")) for file in ROOT.glob("tests/**/test_*.py")}
    assert set(all_files()) == everything
    assert {*files_of("vectors"), *files_of("blobs")} == everything
    shared = set(files_of("vectors")) & set(files_of("blobs"))
    assert "unit/test_rooms.py" in shared
    for half in ("vectors", "blobs"):
        assert shared < set(files_of(half)) < everything


@pytest.mark.parametrize("name", [*VECTORS, *BLOBS])
def test_a_name_stands_for_files_of_one_half(name: str) -> None:
    other = BLOBS if name in VECTORS else VECTORS
    named = [file for file in all_files() if fnmatch(file, name)]
    assert named, "there is no such file"
    assert not [file for file in named if any(fnmatch(file, pattern) for pattern in other)]


def test_make_runs_halves_as_it_runs_all() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for half in ("vectors", "blobs"):
        assert re.search(rf"^test-{half}: \$\(VENV\)/spark\.jsa .*\n\t\$\(PYTEST\) \$\$\(\$\(BIN\)/python tests/support/halves.py {half}\)$", makefile, re.M)  # fmt: skip
    (whole,) = re.findall(r"^test: \$\(VENV\)/spark\.jsa .*\n\t\$\(PYTEST\) (.*)$", makefile, re.M)
    assert whole.split() == [f"tests/{folder}" for folder in FOLDERS]
