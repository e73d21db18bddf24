"""The notebooks of docs/ run in order, draw the pictures that are kept in them, and are kept with what each cell shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from support.pages import ROOT, own_database, quick_defaults

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """The cells with code, each with its source as one text."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells if cell["cell_type"] == "code"]


def pictures_of(cell: dict[str, Any]) -> int:
    return sum("image/png" in shown.get("data", {}) for shown in cell["outputs"])


def shown_by(cell: dict[str, Any], namespace: dict[str, Any]) -> Any:
    """Run a cell; what its last line gives, as a notebook shows it."""
    tree = ast.parse(cell["source"])
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs_and_draws(notebook, spark):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")  # those of pages that ran before
    namespace: dict[str, Any] = {}
    with quick_defaults(spark), own_database(spark, f"notebook_{notebook.stem}"):
        for cell in cells_of(notebook):
            shown = shown_by(cell, namespace)
            assert len(plt.get_fignums()) == pictures_of(cell), cell["source"]
            plt.close("all")
            as_table = any("text/html" in each.get("data", {}) for each in cell["outputs"])
            assert bool(getattr(shown, "_repr_html_", str)()) is as_table, cell["source"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_with_its_outputs(notebook):
    cells = cells_of(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {shown["output_type"] for cell in cells for shown in cell["outputs"]} <= {"execute_result", "display_data"}
    assert sum(map(pictures_of, cells)) >= 1
    assert notebook.stat().st_size < 150_000


def test_there_are_notebooks_for_both_halves():
    assert [notebook.stem for notebook in NOTEBOOKS] == ["blobs", "search"]
