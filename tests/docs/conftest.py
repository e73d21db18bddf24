"""Examples run as users have them: Spark makes code of their plans."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _generated_code(as_spark_has_it: None) -> None:
    """Ask for it in each module."""
