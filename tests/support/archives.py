"""Tables of `tests/fixtures`, which older releases of Hudi and other formats wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
OF_RELEASES = sorted(FIXTURES.glob("*.tar.gz"))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive, by the rules for archives of strangers where Python knows them: 3.11 does since 3.11.4."""
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, filter="data")
        else:
            packed.extractall(folder)
