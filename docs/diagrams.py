"""Draw the diagrams docs/pictures/*.mmd that changed as *.svg, so that readers of the site fetch no script for them.

Run by ``make diagrams``, which gets mermaid from npm. Chromium runs mermaid on a page without a network.
"""

from __future__ import annotations

import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).resolve().parent / "pictures"

_PAGE = """<!DOCTYPE html><meta charset="utf-8"><body><pre class="mermaid">{source}</pre>
<script src="{script}"></script>
<script>mermaid.initialize({{startOnLoad: true, theme: "neutral", fontFamily: "sans-serif", htmlLabels: false,
deterministicIds: true, flowchart: {{htmlLabels: false, nodeSpacing: 24, rankSpacing: 32}}}})</script>"""
_GROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'
"""Charts are white in dark mode too; a diagram is a chart."""


def fingerprint(source: Path) -> str:
    """Return what the picture of a diagram carries: the name of its source, and the SHA-256 of what is in it."""
    return f"<!-- {source.name} sha256:{hashlib.sha256(source.read_bytes()).hexdigest()} -->"


def is_present(source: Path) -> bool:
    """Whether the picture of a diagram is there and made of the present source."""
    picture = source.with_suffix(".svg")
    return picture.exists() and picture.read_text(encoding="utf-8").endswith(f"{fingerprint(source)}\n")


def draw(source: Path, script: Path) -> None:
    """Write the picture of a diagram, drawn by a copy of mermaid.min.js."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("no Chromium is on the PATH; `make report-test` installs it")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        text = html.escape(source.read_text(encoding="utf-8"))
        page.write_text(_PAGE.format(source=text, script=script.resolve().as_uri()), encoding="utf-8")
        quiet = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile")
        shown = subprocess.run(
            [browser, *quiet, "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
    found = re.search(r"<svg\b.*?</svg>", shown, re.DOTALL)
    if found is None or "Syntax error" in found[0]:
        raise SystemExit(f"mermaid cannot draw {source.name}")
    picture = found[0].replace("<br>", "<br/>")
    picture = re.sub(r'^(<svg\b[^>]*?) width="100%"', rf"\1{_size(picture)}", picture)
    picture = re.sub(r"^(<svg\b[^>]*>)", rf"\1{_GROUND}", picture)
    source.with_suffix(".svg").write_text(f"{picture}\n{fingerprint(source)}\n", encoding="utf-8")


def _size(picture: str) -> str:
    """Return the attributes of a picture's size, in pixels, from its view box."""
    box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', picture)
    assert box is not None
    return f' width="{float(box[1]):.0f}" height="{float(box[2]):.0f}"'


if __name__ == "__main__":
    for each in sorted(PICTURES.glob("*.mmd")):
        if not is_present(each):
            draw(each, Path(sys.argv[1]))
