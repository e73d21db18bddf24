"""The documentation says what the code says."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from support import differences, house

import hudi_vector as hv

ROOT = Path(__file__).parents[2]


def test_the_options_page_is_generated_from_the_options():
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == generate.options_page()


def test_the_page_of_differences_is_generated_from_what_the_tests_show():
    page = (ROOT / "docs" / "differences-from-hudi.md").read_text(encoding="utf-8")
    assert page == differences.page()
    assert len({each.name for each in differences.DIFFERENCES}) == len(differences.DIFFERENCES)


def test_the_table_of_packages_is_generated_from_the_rows_that_are_tested():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert house.page() in page
    named = re.findall(
        r"`([\w/]+\.py)(?::\w+)?(?:\.\w+)?`", page + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    known = [str(path.relative_to(ROOT)) for path in [*ROOT.glob("hudi_vector/**/*.py"), *ROOT.glob("tests/**/*.py")]]
    for name in named:
        assert any(path.endswith(f"/{name}") or path == name for path in known), name


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]), ids=lambda page: page.name
)
def test_links_lead_somewhere_and_functions_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"\bhv\.(\w+)", text):
        assert name in hv.__all__, name


def test_every_target_of_the_readme_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
