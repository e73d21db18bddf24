"""The documentation says what the code says."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from support import differences

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


@pytest.mark.parametrize("page", sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"]), ids=lambda page: page.name)
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
