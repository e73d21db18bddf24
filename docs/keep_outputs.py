"""Run the notebooks docs/notebooks/*.ipynb from their first cell to their last, and keep what they show in them.

Run by ``make notebooks``. The tests run the same cells, in a session that they have already.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent / "notebooks"


def run(path: Path) -> None:
    """Run one notebook in a kernel, and write it with its outputs; times and the log of the session are left out."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [shown for shown in cell.outputs if shown.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in sorted(NOTEBOOKS.glob("*.ipynb")):
        run(each)
