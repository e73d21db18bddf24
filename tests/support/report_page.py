"""Pages of the maintenance report for tables of three sorts, and what a headless Chromium finds and draws of a page.

``python tests/support/report_page.py FOLDER`` draws the pictures that docs/ shows.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from html import escape, unescape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures, IndexFigures
from hudi_vector.table_services.maintenance.history import DONE, NOT_DUE, NOTHING, REFUSED, History, Run, StepOutcome
from hudi_vector.table_services.maintenance.report import html_report

__all__ = ["PAGES", "PICTURES", "Look", "browser", "draw", "look_at"]

NOW = 1_764_158_400_000  # 2025-11-26 12:00 UTC
DAY = 86_400_000
MIB = 1 << 20
_LOCK = (
    "'photos' has not an ordering field, and no lock by which its writers take turns is set, so rows that others write meanwhile "
    "could be lost; set hoodie.write.concurrency.mode and hoodie.write.lock.provider as its writers do, or, if no other job "
    "writes, give assume_single_writer"
)
_LONG_NAME = "s3://a-lake-with-a-long-name/warehouse/production/catalogue.db/photographs_of_products_with_thumbnails"


def _figures(day: int, blobs: bool, indexes: bool) -> Figures:
    """Figures that grow by the day: a column of pictures, one of scans in a struct, and two indexes."""
    columns = (
        ColumnFigures("document.scan", 4_000 + 90 * day, 0, (310 + 11 * day) * MIB, 0, (40 + 17 * (day % 5)) * MIB),
        ColumnFigures("image", 20_000 + 400 * day, 3 * MIB, (880 + 20 * day) * MIB, 12_345, (90 + 31 * (day % 7)) * MIB, day // 9),
    )  # fmt: skip
    files = 40 + day
    recall = 0.989 - 0.003 * (day // 3)
    found = (
        IndexFigures("embedding, cosine, ivf_sq8", files, files - day % 4, 24_000 + 490 * day, 9 * MIB + day * 200_000, 1.62 + day * 0.04, recall, 6.618 + day * 0.11),
        IndexFigures("image_vector, l2, ivf_rabitq", files, files, 24_000 + 490 * day, 2 * MIB + day * 33_000, 13.86),
    )  # fmt: skip
    whole = columns if blobs else ()
    return Figures(whole, 31 if blobs else 0, (55 + day) * MIB if blobs else 0, found if indexes else ())


def _run(day: int, figures: Figures, compact: StepOutcome) -> Run:
    text = "; ".join(figures.lines())
    steps = (
        compact,
        StepOutcome(
            "clean_blobs", DONE, "31 files (24840000 bytes) moved to the trash by sweep 8f2c11d0, 4 kept", 75.2
        ),
        StepOutcome(
            "index", DONE if day % 2 else NOT_DUE, "2 segments made, 41 kept; 24980 rows in 9637184 bytes, 3.1 s", 3.1
        ),
        StepOutcome("figures", DONE, text, 4.4),
    )
    return Run(NOW - (12 - day) * DAY, steps, figures)


def _page(table: str, days: int, blobs: bool, indexes: bool) -> str:
    refused = StepOutcome("compact_blobs", REFUSED, _LOCK, 1.2)
    nothing = StepOutcome("compact_blobs", NOTHING, "the table has no BLOB column", 0.1)
    runs = [_run(day, _figures(day, blobs, indexes), refused if blobs else nothing) for day in range(13 - days, 13)]
    return html_report(table, History(tuple(runs)), NOW)


PAGES = {
    "both": _page(_LONG_NAME, 12, blobs=True, indexes=True),
    "photos": _page("s3://lake/photos", 12, blobs=True, indexes=True),
    "vectors": _page("file:///lake/products", 12, blobs=False, indexes=True),
    "first": _page("file:///lake/photos", 1, blobs=True, indexes=False),
    "empty": html_report("file:///lake/new", History(), NOW),
}
"""Pages of a table of a long name with blobs and indexes, of one of a short name, of one with vectors alone, after the first run, and before it."""

# In the page that is looked at: texts that reach out of the window or of their element, break where they must not, are
# small, or differ little from what is behind them.
_LOOK = """
const luminance = rgb => { const [r, g, b] = rgb.match(/[\\d.]+/g).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
frame.onload = () => {
  const win = frame.contentWindow, doc = frame.contentDocument, found = {wide: [], cut: [], broken: [], small: [], faint: []};
  for (const e of doc.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect(), style = win.getComputedStyle(e), said = e.tagName + " " + e.textContent.slice(0, 40);
    if (!box.width || e.closest("svg")) { if (e.tagName !== "svg") continue; }
    if (box.right > win.innerWidth + .5 || box.left < -.5) found.wide.push(said);
    if (e.scrollWidth > e.clientWidth + 1 && style.display !== "inline" && e.tagName !== "svg") found.cut.push(said);
    if (e.matches("time, .number span, .scale span") && e.getClientRects().length > 1) found.broken.push(said);
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (parseFloat(style.fontSize) < 12) found.small.push(said);
    const [a, b] = [luminance(style.color), luminance(behind(e))];
    if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) found.faint.push(said);
  }
  found.width = win.innerWidth;
  found.height = doc.documentElement.scrollHeight;
  found.dark = luminance(win.getComputedStyle(doc.body).backgroundColor) < .2;
  document.body.dataset.found = JSON.stringify(found);
};
"""
# In a frame, since a window of Chromium is at least 500 wide.
_FRAME = (
    '<!DOCTYPE html><html><body style="margin:0"><iframe id="frame" style="border:0;display:block;width:{width}px;height:{height}px" '
    'srcdoc="{page}"></iframe><script>{script}</script></body></html>'
)


@dataclass(frozen=True)
class Look:
    """What a browser finds of a page: the size of what it lays out, and the beginnings of texts that are wrong."""

    width: int
    height: int
    dark: bool
    wide: list[str]
    cut: list[str]
    broken: list[str]
    small: list[str]
    faint: list[str]


@lru_cache(maxsize=1)
def browser() -> str | None:
    """Return the path of a Chromium, or None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def look_at(page: str, width: int, dark: bool = False) -> Look:
    """Return what Chromium finds of a page in a window of this width."""
    text = _FRAME.format(width=width, height=900, page=escape(page), script=_LOOK)
    (found,) = re.findall(r'data-found="([^"]*)"', _run_browser(text, width, 900, dark, "--dump-dom"))
    return Look(**json.loads(unescape(found)))


def draw(page: str, width: int, path: Path, dark: bool = False, height: int | None = None) -> None:
    """Draw a page as a PNG of few colours: all of it, or so much as is given in pixels."""
    from PIL import Image

    high = height or look_at(page, width, dark).height
    text = _FRAME.format(width=width, height=high, page=escape(page), script="")
    _run_browser(text, width, high, dark, f"--screenshot={path}")
    with Image.open(path) as drawn:
        drawn.convert("RGB").crop((0, 0, width, high)).quantize(160).save(path, optimize=True)


def _run_browser(page: str, width: int, height: int, dark: bool, *options: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(page, "utf-8")
        command = [
            str(browser()), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={folder}/profile", f"--window-size={max(width, 500)},{height}",
            *(["--force-dark-mode"] if dark else []), *options, file.as_uri(),
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


PICTURES = {
    "report.png": ("photos", 1000, False, 1150),
    "report-dark.png": ("vectors", 1000, True, 1150),
    "report-narrow.png": ("vectors", 400, False, 1150),
}
"""The pictures of docs/: which page each shows, its width, whether it is dark, and its height."""


def main(folder: Path) -> None:
    """Draw the pictures of docs/ into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (page, width, dark, height) in PICTURES.items():
        draw(PAGES[page], width, folder / name, dark, height)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
