"""Draw the pictures of README and docs/ that are not the present ones, as docs/pictures/*.svg. Run by ``make docs``.

A chart is made of one run, ``benchmarks/results/{run}.json``, and carries the SHA-256 of that file, by which a test
sees that it is the present one. The neighbours are digits of scikit-learn, searched as this script runs.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "pictures"

OURS, OTHER = "#0b7285", "#adb5bd"
QUERIES = (7, 42, 1234)
NEIGHBOURS = 7


def searches(run: Mapping[str, Any], axes: Any) -> None:
    """Bars of one search, by Hudi's own function and by ours, in milliseconds."""
    found = run["seconds"]["snappy"]
    pairs = [
        ("first search", "native, first touch", "ours, first touch"),
        ("later searches", "native", "ours, repeated"),
        ("20 queries", "native, batch of 20", "ours, batch of 20"),
    ]
    bars = []
    for name, native, ours in pairs:
        bars += [(f"{name}: Hudi's own function", found[native], OTHER), ("this package", found[ours], OURS)]
    size = run["size"]
    _bars(axes, bars, f"10 nearest of {size['rows']:,} rows × {size['dimension']}, Spark SQL, 2 cores: milliseconds")


def hybrid(run: Mapping[str, Any], axes: Any) -> None:
    """Bars of a search by two columns together, in milliseconds."""
    found = run["seconds"]["hybrid"]
    bars = [(way, times, OURS if way.startswith("ours") else OTHER) for way, times in found.items()]
    _bars(axes, bars, "A search by two vector columns: milliseconds")


def index(run: Mapping[str, Any], axes: Any) -> None:
    """Bars of single searches of an open table, exact and with a recall target, in milliseconds."""
    found = {row["subject"]: row for row in run["rows"]}
    names = ("exact, in memory", *(f"{kind}, recall target 0.95" for kind in ("ivf_sq8", "ivf_flat", "ivf_pq", "hnsw")))
    bars = [(f"{name}: recall {found[name]['recall']:.3f}", [found[name]["p50"] / 1000], OURS) for name in names]
    _bars(axes, bars, "10 nearest of 400,000 rows × 128, no Spark: milliseconds (median)")


def _bars(axes: Any, bars: Sequence[tuple[str, Sequence[float], str]], title: str) -> None:
    """Draw horizontal bars on a logarithmic scale, the first on top, each with its median in figures."""
    medians = [statistics.median(times) * 1000 for _, times, _ in bars]
    axes.barh(range(len(bars)), medians, color=[color for _, _, color in bars])
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(medians) / 3, max(medians) * 4)
    for place, median in enumerate(medians):
        axes.text(median * 1.1, place, f"{median:,.0f}" if median >= 10 else f"{median:.1f}", va="center")
    axes.figure.suptitle(title, x=0.02, ha="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


CHARTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any], Any], None]]] = {
    "searches": ("search", searches),
    "hybrid": ("hybrid", hybrid),
    "index": ("index-clusters-400000-8-snappy", index),
}
"""Of each chart the run that it is made of, and who draws it."""


def fingerprint(run: str) -> str:
    """Return what a chart of a run carries: the name of its file and the SHA-256 of what is in it."""
    content = (RESULTS / f"{run}.json").read_bytes()
    return f"benchmarks/results/{run}.json sha256:{hashlib.sha256(content).hexdigest()}"


def draw_chart(name: str) -> None:
    """Write one chart."""
    import matplotlib.pyplot as plt

    run, draw = CHARTS[name]
    figure, axes = plt.subplots(figsize=(8, 2.6))
    draw(json.loads((RESULTS / f"{run}.json").read_text(encoding="utf-8")), axes)
    _save(figure, name, fingerprint(run))


def draw_neighbours() -> None:
    """Write the picture of some digits with their nearest ones, which a search over a Parquet file finds."""
    import matplotlib.pyplot as plt
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_digits

    import hudi_vector as hv

    digits = load_digits()
    pixels = digits.data.astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({"id": range(len(pixels)), "pixels": pa.FixedSizeListArray.from_arrays(pixels.ravel(), 64)})
        pq.write_table(table, f"{folder}/digits.parquet")
        with hv.open(files=[f"{folder}/digits.parquet"], column="pixels") as opened:
            hits = opened.search_batch(pixels[list(QUERIES)], k=NEIGHBOURS + 1, metric="l2", columns=["id"])
            found = hits.to_pandas()
    figure, axes = plt.subplots(len(QUERIES), NEIGHBOURS + 1, figsize=(8, 4))
    for number, of_query in found.groupby("_hudi_query_index"):
        for row, place in zip(of_query.itertuples(index=False, name=None), axes[number], strict=True):
            values = dict(zip(found.columns, row, strict=True))
            place.imshow(digits.images[values["id"]], cmap="gray_r")
            place.set_title("query" if place is axes[number][0] else f"{values['_distance']:.1f}", fontsize=9)
            place.set_axis_off()
    figure.suptitle("Digits and their nearest others, by l2 distance", fontsize=10)
    _save(figure, "neighbours", "digits of scikit-learn")


def _save(figure: Any, name: str, source: str) -> None:
    """Write a figure as an SVG whose bytes are the same each time."""
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None, "Description": source})
    plt.close(figure)


def is_present(name: str) -> bool:
    """Whether a chart is there and made of the present run."""
    picture = PICTURES / f"{name}.svg"
    return picture.exists() and fingerprint(CHARTS[name][0]) in picture.read_text(encoding="utf-8")


def draw() -> None:
    """Write the charts of runs that changed, and the neighbours if they are not there."""
    missing = [name for name in CHARTS if not is_present(name)]
    neighbours = not (PICTURES / "neighbours.svg").exists()
    if not missing and not neighbours:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "hudi-vector", "svg.fonttype": "path", "font.size": 9})
    PICTURES.mkdir(exist_ok=True)
    for name in missing:
        draw_chart(name)
    if neighbours:
        draw_neighbours()


if __name__ == "__main__":
    draw()
