"""What unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import OLD, BlobTable

from hudi_vector.index.calibration import held_out


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    """A table with a BLOB column, without files."""
    return BlobTable(tmp_path.resolve() / "t", OLD)


@pytest.fixture
def briefly_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """New indexes ask few queries to measure their recall, as most tests say nothing of it, or choose the effort."""
    monkeypatch.setattr(held_out, "_ROUNDS", tuple((8, ks) for _, ks in held_out._ROUNDS))
