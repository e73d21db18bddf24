"""Recall against latency of single searches, a line for each kind of index and for Lance's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from index_data import Case, Figures


def draw(case: Case, figures: Figures) -> None:
    """Write the chart of a table's figures beside them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for subject, row in figures.rows.items():
        if "recall" in row and "p50" in row and " probes" in subject:
            lines[subject.split(",")[0]].append((row["p50"], row["recall"]))
    figure, axes = plt.subplots(figsize=(8, 5))
    for name, points in sorted(lines.items()):
        style: dict[str, Any] = {"linestyle": "--"} if name.startswith("Lance") else {}
        axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=3, label=name, **style)
    exact = figures.rows.get("exact, in memory")
    if exact:
        axes.axvline(exact["p50"], color="black", linewidth=0.8, label="exact, in memory")
    axes.set_xscale("log")
    axes.set_xlabel("ms, median of single searches without Spark")
    axes.set_ylabel("recall@10")
    axes.set_title(f"{case.name}, {case.vectors:,} × {case.dimension}, {case.files} files, {case.codec}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(case.figures.with_suffix(".png"), dpi=120, bbox_inches="tight")
    print(f"Written: {case.figures} and its chart")
