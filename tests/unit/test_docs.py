"""The documentation says what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pyarrow as pa
import pytest
from support import differences, house
from support.pages import PAGES, paragraphs

import hudi_vector as hv
from hudi_vector.errors import InvalidFilterError
from hudi_vector.read.predicate.parse import parse

ROOT = Path(__file__).parents[2]


def load(name):
    """Import a script of docs/."""
    spec = spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_options_page_is_generated_from_the_options():
    generate = load("generate")
    assert (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8") == generate.options_page()


def test_the_page_of_differences_is_generated_from_what_the_tests_show():
    page = (ROOT / "docs" / "reference" / "differences-from-hudi.md").read_text(encoding="utf-8")
    assert page == differences.page()
    assert len({each.name for each in differences.DIFFERENCES}) == len(differences.DIFFERENCES)


def test_the_table_of_packages_is_generated_from_the_rows_that_are_tested():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert house.page() in page
    named = re.findall(
        r"`([\w/]+\.py)(?::\w+)?(?:\.\w+)?`", page + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    known = [
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("hudi_vector/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/*.py")]
    ]
    for name in named:
        assert any(path.endswith(f"/{name}") or path == name for path in known), name


@pytest.mark.parametrize(
    "page",
    sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]),
    ids=lambda page: page.name,
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


def test_no_paragraph_is_longer_than_90_words():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for line, text in paragraphs(page):
            assert len(text.split()) <= 90, f"{page.relative_to(ROOT)}:{line} has {len(text.split())} words"


def test_the_readme_fits_three_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_each_term_is_defined_once_and_used():
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^- \*\*([^*]+)\*\* — ", glossary, re.MULTILINE)
    assert len(terms) == len(re.findall(r"^- ", glossary, re.MULTILINE)) == len({term.lower() for term in terms})
    others = " ".join(page.read_text(encoding="utf-8") for page in PAGES if page.name != "glossary.md").lower()
    assert [term for term in terms if not re.search(rf"\b{re.escape(term.lower())}", others)] == []


def test_diagrams_are_drawn_from_their_present_sources():
    diagrams = load("diagrams")
    sources = sorted((ROOT / "docs" / "pictures").glob("*.mmd"))
    assert sources
    assert [source.name for source in sources if not diagrams.is_present(source)] == []


def test_charts_are_of_the_present_runs():
    charts = load("charts")
    assert [name for name in charts.CHARTS if not charts.is_present(name)] == []


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("country", "title")),
        *((name, pa.float64()) for name in ("price", "budget")),
        *((name, pa.int64()) for name in ("id", "order id")),
        ("sold", pa.bool_()),
        ("maker", pa.struct([("city", pa.string())])),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("hash", pa.binary()),
    ]
)


def test_the_page_of_filters_shows_what_the_parser_takes():
    page = (ROOT / "docs" / "reference" / "filters.md").read_text(encoding="utf-8")
    taken, _, refused = page.partition("## What there is not")
    examples = [text for row in re.findall(r"^\| [^|]+ \| (.+) \|$", taken, re.MULTILINE) for text in code(row)]
    assert len(examples) > 25
    for text in examples:
        parse(text, SCHEMA)
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", refused, re.MULTILINE)
    assert len(rows) > 5
    for given, instead in rows:
        with pytest.raises(InvalidFilterError):
            parse(code(given)[-1], SCHEMA)
        for text in code(instead):
            parse(text, SCHEMA)


def code(cell: str) -> list[str]:
    """What a cell has in backticks, of one or of two."""
    return [double.strip() or single for double, single in re.findall(r"``(.+?)``|`([^`]+)`", cell)]


def test_the_site_builds_without_a_warning(tmp_path):
    """Links and anchors lead somewhere, every page is in the navigation, and readers fetch nothing from other hosts."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        whole = page.read_text(encoding="utf-8")
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", whole, flags=re.DOTALL)
        for paragraph in re.findall(r"<p>(.*?)</p>", text, re.DOTALL):
            assert not re.search(r"^\s*([-|]|\d+\.) |\]\(", paragraph, re.MULTILINE), (
                f"{page.name} shows Markdown: {paragraph}"
            )
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", whole)
        of_others = [
            tag for tag in loaded if re.search(r"""(src|href)=["']?(https?:)?//""", tag) and "canonical" not in tag
        ]
        # The theme fetches mermaid from another host for pages with an element of this class.
        assert of_others == re.findall(r"<\w+ class=.?mermaid", whole) == [], page.name
    for style in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_errors_of_the_faq_are_said_by_the_package():
    package = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("hudi_vector/**/*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", package)
    titles = re.findall(r"^### (.*)$", (ROOT / "docs" / "faq.md").read_text(encoding="utf-8"), re.MULTILINE)
    quoted = [text for title in titles for text in re.findall(r'"([^"]+)"', title)]
    assert len(quoted) >= 7
    for text in quoted:
        for part in re.split(r"…|'[^']*'", text):
            assert part.strip(" ,.") in said, text
