"""Whether an exact search over indexed files is answered sooner by their vectors in memory than by the index.

Both give the same rows. Codes are a quarter of the vectors and need not be decoded, so that the index is ahead as long
as vectors have to be read; vectors in memory need no second look at candidates. As with buying skis: whoever asks
again and again gets the vectors read once, if they fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from hudi_vector.query.plan import IndexUse
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanSpec
from hudi_vector.table.recent import Recent

__all__ = ["scans_sooner"]

_ENOUGH = 8
"""After so many searches the vectors are read: about what reading them costs more than so many looks at the codes."""

_ASKED: Recent[tuple[str, str], int] = Recent(64)


def scans_sooner(use: IndexUse, readers: Iterable[ParquetSlice], rows: int, spec: ScanSpec) -> bool:
    """Whether to scan the vectors; counts the search.

    Args:
        use: The index.
        readers: The files it covers.
        rows: How many rows these have.
        spec: What is read of them.

    Returns:
        True where all vectors are in memory, or half the cache holds them and enough searches asked for them.
    """
    key = (use.folder, use.model_id)
    asked = (_ASKED.get(key) or 0) + 1
    _ASKED.put(key, asked)
    size = rows * spec.column.dimension * spec.column.dtype.itemsize
    if asked > _ENOUGH and size <= process_cache().budget // 2:
        return True
    return all(reader.holds_vectors() for reader in readers)
