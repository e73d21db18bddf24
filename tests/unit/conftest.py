"""What unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import OLD, BlobTable


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    """A table with a BLOB column, without files."""
    return BlobTable(tmp_path.resolve() / "t", OLD)
