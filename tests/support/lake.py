"""A bucket with a table, searched as a process that has just begun does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hudi_vector.index import manifest
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet import kept_footer
from hudi_vector.table import native


def upload(store: Any, path: Path, name: str) -> None:
    """Copy a table to the store."""
    files = filter(Path.is_file, path.rglob("*"))
    store.put_all((f"{name}/{file.relative_to(path)}", file.read_bytes()) for file in files)


def forget() -> None:
    """Keep nothing that was read before."""
    process_cache().clear()
    kept_footer._FOLDERS.forget(lambda _: True)
    native._SLICES.forget(lambda _: True)
    native._ACTIONS.forget(lambda _: True)
    manifest._READ.forget(lambda _: True)
