"""Looks for the index of a table on an object store while the table is opened, and begins to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from hudi_vector.errors import HudiVectorError
from hudi_vector.index.catalog import Index
from hudi_vector.query.index_choice import indexes_and_heads
from hudi_vector.query.tuning import Tuning
from hudi_vector.storage import open_storage
from hudi_vector.table.model import Source

__all__ = ["IndexesAhead", "look_ahead"]

IndexesAhead = Callable[[], Sequence[Index] | None]
"""Waits for the indexes of a column; None if the first search has to look for them."""


def look_ahead(source: Source, column: str | None, conf: Mapping[str, str]) -> IndexesAhead:
    """Begin to look for the indexes of a column, as it is spelled, and to read what searches of an only one begin with.

    Nothing is looked for on a local disk, or without a column.
    """
    storage = open_storage(source.uri, source.options)
    if not column or storage.scheme == "file":
        return lambda: None

    def look() -> Sequence[Index] | None:
        try:
            return indexes_and_heads(source, column, conf, Tuning("auto"))
        except (HudiVectorError, OSError):
            return None

    storage.begun(lambda: pa.array([0]))  # pyarrow imports pandas for it, a fifth of a second without a request
    return storage.begun(look)
