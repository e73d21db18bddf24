"""Write the generated pages of docs/: run by ``make docs``."""

from __future__ import annotations

from pathlib import Path

from hudi_vector.options import markdown

PAGE = """# Settings

Set them in the session (`SET key = value` or `spark.conf.set`), or pass them to the Spark-free search. This page is
generated from `hudi_vector/options.py` by `make docs`.

A key that begins with `hoodie.vector.`, `hoodie.blob.` or `hoodie.storage.blob.` and is neither listed here nor one of
Hudi's own is misspelt. It is an error that names the nearest right one, wherever it is given: in the session, at the
next search, write or service; in `options` of `hv.write`, `hv.blobs.prepare`, `hv.open` and `search_table`; as `--conf`
of the command, before Spark starts. No setting is read from the properties of a table: a write warns of those that
look like one.

"""


def options_page() -> str:
    """The text of docs/options.md."""
    return PAGE + markdown()


if __name__ == "__main__":
    (Path(__file__).parent / "options.md").write_text(options_page(), encoding="utf-8")
