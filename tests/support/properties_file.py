"""The properties of tables that tests write by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_OF_EVERY_TABLE = {
    "hoodie.table.version": "9",
    "hoodie.table.initial.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.populate.meta.fields": "true",
}


def write_properties(table: Path, properties: Mapping[str, str]) -> None:
    """Hudi's file of a table's properties: what every such table has, and these."""
    lines = (f"{key}={value}\n" for key, value in {**_OF_EVERY_TABLE, **properties}.items())
    (table / ".hoodie" / "hoodie.properties").write_text("".join(lines))
