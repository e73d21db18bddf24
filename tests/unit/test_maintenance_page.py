"""The maintenance report as a browser lays it out, in wide and narrow windows, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from support.report_page import PAGES, PICTURES, browser, draw, look_at

DOCS = Path(__file__).resolve().parents[2] / "docs" / "pictures"

pytestmark = pytest.mark.skipif(
    browser() is None, reason="there is no chromium and no google-chrome on the PATH; `make report-test` installs one"
)


@pytest.mark.parametrize(
    ("page", "width", "dark"),
    [
        ("both", 1280, False),
        ("both", 400, True),
        ("vectors", 1280, True),
        ("vectors", 400, False),
        ("first", 400, False),
        ("empty", 400, True),
    ],
)
def test_a_page_fits_its_window(page: str, width: int, dark: bool) -> None:
    look = look_at(PAGES[page], width, dark)
    assert (look.width, look.dark) == (width, dark)
    assert look.wide == [], "reaches out of the window"
    assert look.cut == [], "reaches out of its element"
    assert look.broken == [], "a time or a number in several lines"
    assert look.small == [], "less than 12 pixels high"
    assert look.faint == [], "contrast below 4.5 to 1"


def test_a_page_that_does_not_fit_is_found() -> None:
    wrong = (
        "<!DOCTYPE html><html><body style='margin:0'><p style='width:600px'>wide</p>"
        "<div style='width:50px;white-space:nowrap;overflow:hidden'>cut off at its edge</div>"
        "<div style='width:50px'><time>2025-11-26 12:00</time></div>"
        "<p style='font-size:6px'>small</p><p style='color:#ccc'>faint</p></body></html>"
    )
    look = look_at(wrong, 400)
    assert look.wide == ["P wide"]
    assert look.cut == ["DIV cut off at its edge"]
    assert look.broken == ["TIME 2025-11-26 12:00"]
    assert look.small == ["P small"]
    assert look.faint == ["P faint"]


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_docs_can_be_drawn(name: str, tmp_path: Path) -> None:
    page, width, dark, height = PICTURES[name]
    draw(PAGES[page], width, tmp_path / name, dark, height)
    with Image.open(tmp_path / name) as drawn, Image.open(DOCS / name) as shown:
        assert drawn.size == shown.size == (width, height)
        for picture in (drawn, shown):
            colours = picture.convert("RGB").getcolors(maxcolors=1 << 20)
            assert 16 < len(colours) <= 256
            assert (sum(max(colours)[1]) < 150) is dark
    assert (DOCS / name).stat().st_size < 150_000
