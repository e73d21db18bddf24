"""The choice between an index and a scan of vectors in memory, for exact searches over indexed files.

Both give the same rows. Codes take a quarter of the vectors' bytes and need no decoding, so the index is faster as long
as the vectors must be read from storage. Vectors in memory are faster, because a scan needs no second pass over
candidates. So after enough searches of an index the vectors are read once and kept, if they fit.
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
"""The number of searches after which vectors are read: reading them costs about as much as so many index probes."""

_ASKED: Recent[tuple[str, str], int] = Recent(64)


def scans_sooner(use: IndexUse, readers: Iterable[ParquetSlice], rows: int, spec: ScanSpec) -> bool:
    """Count a search of an index; return True if a scan of the vectors is to be used instead.

    That is so if all vectors are in memory, or if more than `_ENOUGH` searches used the index and half the cache can
    hold the vectors. `rows` is the number of rows in `readers`, the files that the index covers.
    """
    key = (use.folder, use.model_id)
    asked = (_ASKED.get(key) or 0) + 1
    _ASKED.put(key, asked)
    size = rows * spec.column.dimension * spec.column.dtype.itemsize
    if asked > _ENOUGH and size <= process_cache().budget // 2:
        return True
    return all(reader.holds_vectors() for reader in readers)
