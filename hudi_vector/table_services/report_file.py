"""The rows of a result as a local file, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hudi_vector.errors import InvalidArgumentError

__all__ = ["write_rows"]


def write_rows(rows: Iterable[dict[str, Any]], path: str) -> None:
    """Write rows to a file.

    Args:
        rows: What JSON can hold.
        path: A local path.

    Raises:
        InvalidArgumentError: The file cannot be written.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as problem:
        raise InvalidArgumentError(f"the report '{path}' cannot be written: {problem}; name a local file") from None
