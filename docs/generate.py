"""Write the generated pages of docs/: run by ``make docs``."""

from __future__ import annotations

from pathlib import Path

from hudi_vector.options import markdown

PAGE = """# Settings

Set them in the session (`SET key = value` or `spark.conf.set`), or pass them to the Spark-free search. This page is
generated from `hudi_vector/options.py` by `make docs`.

"""


def options_page() -> str:
    """The text of docs/options.md."""
    return PAGE + markdown()


if __name__ == "__main__":
    (Path(__file__).parent / "options.md").write_text(options_page(), encoding="utf-8")
